"""One HTML file that says everything: it opens offline, prints on A4 and asks the network nothing.

In: the summary of docs/summary.md and the series behind its charts. Out: the text of the page
(`page` wraps it). All text that came from elsewhere is escaped by `markup`.
"""

from typing import Any

from mmload.report import charts, html_cake, numbers, results, tables, watched, words
from mmload.report.fields import Summary, flat, get
from mmload.report.markup import Html, facts, join, swatch, table, tag, text
from mmload.report.page import code, figure, footer, key_figures, page, section
from mmload.report.palette import PHASE_COLOURS


def render_html(summary: Summary, series: Summary) -> str:
    """The report as one self-contained HTML document."""
    figures = charts.figures(summary, series)
    name = get(summary, "run", "name") or "run"
    title = f"{words.verdict(summary).word}: {name} - mmload"
    return page(title, get(summary, "mmload") or "", _body(summary, figures), figures)


def _body(summary: Summary, figures: dict[str, Any]) -> list[Html]:
    parts = [
        _header(summary),
        _verdict(summary),
        _keys(summary),
        _blame(summary),
        section("Latency", _latency(summary)),
        *_results(summary),
        section("Where the time goes", figure("split", figures), _split(summary)),
        section("Stages", _stages(summary)),
        section("Queue", figure("queue", figures), facts(words.queue_facts(summary))),
        section("Server", figure("watched", figures), facts(watched.facts(summary))),
        section("Whose code", figure("cake", figures), *html_cake.section(summary)),
        section("Latency over the run", figure("latency", figures), figure("curve", figures)),
        section("Failures", figure("outcomes", figures), _failures(summary)),
        section("Media and tokens", facts(words.media_facts(summary))),
        section("What the server did with the media", facts(results.media_check(summary))),
        section("Warnings", *_warnings(summary), id_="warnings"),
        section("Run", facts(words.run_facts(summary, full=True)), *_server(summary)),
        section("Scenario", _scenario(summary)),
        section("Definitions", _definitions(summary)),
        footer(get(summary, "mmload") or ""),
    ]
    return [part for part in parts if part]


def _header(summary: Summary) -> Html:
    run = get(summary, "run") or {}
    about = [run.get("model"), run.get("target"), run.get("started_at")]
    return tag(
        "header",
        tag("p", "mmload report", class_="kicker"),
        tag("h1", run.get("name") or "run"),
        tag("p", join([part for part in about if part], " \u00b7 "), class_="subtitle"),
    )


def _verdict(summary: Summary) -> Html:
    verdict = words.verdict(summary)
    mark = "\u2713" if verdict.valid else "\u2717"
    first = tag("p", tag("strong", f"{mark} {verdict.word}"), verdict.sentence)
    more = [tag("p", line) for line in verdict.more]
    warnings = len(words.warnings(summary))
    if warnings:
        more.append(tag("p", tag("a", numbers.plural(warnings, "warning"), href="#warnings")))
    kind = "valid" if verdict.valid else "invalid"
    return tag("div", first, *more, class_=f"verdict {kind}", role="status")


def _keys(summary: Summary) -> Html:
    return key_figures(words.key_numbers(summary))


def _blame(summary: Summary) -> Html:
    lines = [tag("p", tag("b", "Bottleneck. "), tables.bottleneck(summary))]
    settings = tables.bottleneck_settings(summary)
    if settings:
        names = join((tag("code", name) for name in settings), ", ")
        lines.append(tag("p", "Settings that move it: ", names, class_="muted"))
    boxes = [tag("div", *lines, class_="blame")]
    note = tables.simulated_note(summary)
    if note:
        boxes.append(tag("div", tag("p", tag("b", "Simulated. "), note), class_="simulated"))
    return join(boxes)


def _latency(summary: Summary) -> Html:
    tail = any(get(summary, key, "p99_9") is not None for key, _ in tables.LATENCIES)
    quantiles = ("mean", *tables.QUANTILES, *(["p99_9"] if tail else []), "max")

    def rows(source: Summary, keys: tuple[str, ...]) -> list[list[str]]:
        return [
            [title, numbers.count(get(dist, "n")), *(numbers.ms(get(dist, q)) for q in quantiles)]
            for title, dist in tables.latency_rows(source, keys)
            if dist or keys is tables.SHORT
        ]

    if not tables.has_latency(summary):
        return tag("p", tables.NO_LATENCY, class_="muted")
    classes = get(summary, "classes") or {}
    everything = tuple(key for key, _ in tables.LATENCIES)
    groups: list[tuple[object, Any]] = [("", rows(summary, everything))]
    if len(classes) > 1:
        groups[0] = ("All requests", groups[0][1])
        groups.extend((name, rows(one, tables.SHORT)) for name, one in classes.items())
    head = ("", "n", *(title.replace("_", ".") for title in quantiles))
    note = "Latencies count from the intended send time, unless they say from sent."
    return join((table(head, groups, class_="latency"), tag("p", note, class_="muted")))


def _results(summary: Summary) -> list[Html]:
    return [
        section(title, table(head, [("", rows)]), tag("p", f"{_capital(note)}.", class_="muted"))
        for title, note, head, rows in results.tables(summary)
    ]


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _split(summary: Summary) -> Html:
    columns = tables.split(summary)
    if not columns:
        return tag("p", "No split: no request has spans from inside the server.", class_="muted")
    rows: list[list[object]] = []
    colours = charts.stage_colours(summary)
    for phase in tables.split_phases(summary):
        title = join((swatch(PHASE_COLOURS[phase]), tables.phase_title(summary, phase)))
        values = [get(column, "phases", phase) for _, _, column in columns]
        share = numbers.percent(tables.share(columns[0][2], phase))
        rows.append([tag("b", title), *(tag("b", numbers.ms(value)) for value in values), share])
        for stage in tables.split_stages(summary, phase):
            label = join((swatch(colours[stage]), tables.stage_title(summary, stage)))
            times = [get(column, "stages", stage) for _, _, column in columns]
            cells = [tag("span", numbers.ms(value), class_="muted") for value in times]
            rows.append([tag("span", label, class_="sub"), *cells, ""])
    head = ["", *(title for _, title, _ in columns), f"share of the {columns[0][1]}"]
    total = ["E2E, the sum", *(numbers.ms(get(column, "e2e_ms")) for _, _, column in columns), ""]
    note = tag("p", words.joined_sentence(summary), class_="muted")
    return join((table(head, [("", rows)], total=total), note))


def _stages(summary: Summary) -> Html:
    rows: list[list[object]] = []
    colours = charts.stage_colours(summary)
    full = max([1.0, *(row.utilisation or 0 for row in tables.stage_rows(summary))])
    worst = get(summary, "bottleneck", "stage")
    for row in tables.stage_rows(summary):
        title = tag("b", row.title, " (bottleneck)") if row.name == worst else text(row.title)
        seen = tag("small", row.facts) if row.facts else ""
        rows.append(
            [
                join((swatch(colours[row.name]), title, seen)),
                numbers.count(row.n),
                numbers.ms(row.mean_ms),
                *(numbers.ms(get(row.ms, q)) for q in tables.QUANTILES),
                _utilisation(row.utilisation, full),
                row.width,
                numbers.rate(row.capacity_qps),
            ]
        )
    if not rows:
        return Html()
    head = ("stage", "n", "mean", *tables.QUANTILES, "utilisation", "width", "capacity/s")
    note = (
        "Width: most requests ever inside at once / workers configured. Utilisation: arrival rate"
        " x mean service time / width; from 1 on, the queue in front of a stage grows."
    )
    return join((table(head, [("", rows)], class_="stages"), tag("p", note, class_="muted")))


def _utilisation(value: float | None, full: float) -> Html:
    if value is None:
        return text(numbers.NONE)
    inner = tag("i", style=f"width:{100 * min(value / full, 1):.1f}%")
    bar = tag("span", inner, class_="bar over" if value >= 1 else "bar")
    return join((numbers.rate(value), bar))


def _failures(summary: Summary) -> Html:
    rows = [
        (kind, numbers.count(n), join(tag("div", one) for one in messages))
        for kind, n, messages in words.failures(summary)
    ]
    if not rows:
        return Html()
    return table(
        ("kind", "requests", "the first distinct messages"), [("", rows)], class_="failures"
    )


def _warnings(summary: Summary) -> list[Html]:
    return [
        tag(
            "div",
            tag("p", tag("b", "Warning. "), message, tag("span", f" [{code}]", class_="muted")),
            tag("p", hint) if hint else "",
            class_="warning",
        )
        for code, message, hint in words.warnings(summary)
    ]


def _server(summary: Summary) -> list[Html]:
    settings = flat(get(summary, "run", "server"))
    processes = [
        (f"process {get(one, 'pid')}", ", ".join(f"{k} {v}" for k, v in flat(_process(one))))
        for one in get(summary, "server_processes") or []
    ]
    return [
        join((tag("h3", title), facts(pairs)))
        for title, pairs in (("Server settings", settings), ("Traced processes", processes))
        if pairs
    ]


def _process(one: Any) -> dict[str, Any]:
    """What a traced process said of itself, but for where its probes sit: summary.json lists it."""
    said = {key: value for key, value in (one or {}).items() if key not in ("pid", "notes")}
    notes = {**(get(one, "notes") or {})}
    attached, missing = (notes.pop(name, None) or {} for name in ("attached", "missing"))
    if attached:
        notes["probes"] = len(attached)
    return {**said, **notes, "not_found": [event for event in missing if event not in attached]}


def _scenario(summary: Summary) -> Html:
    import yaml

    scenario = get(summary, "run", "scenario")
    if not scenario:
        return Html()
    written = yaml.safe_dump(scenario, sort_keys=False, allow_unicode=True, width=96)
    return tag("pre", tag("code", written.rstrip()))


def _definitions(summary: Summary) -> Html:
    definitions = (get(summary, "definitions") or {}).items()
    return facts((name, code(said)) for name, said in definitions if said)
