"""One HTML file that says everything: it opens offline, prints on A4 and asks the network nothing.

In: the summary of docs/summary.md and the series behind its charts. Out: the text of the page, with
plotly.js, styles and data inside. All text that came from elsewhere is escaped by `markup`, and a
content policy lets the page run only the two scripts that were put there, by their hashes.
"""

import base64
import hashlib
from importlib.resources import files
from string import Template
from typing import Any

from mmload.report import charts, numbers, results, tables, words
from mmload.report.fields import Summary, flat, get
from mmload.report.markup import Html, facts, join, script_json, table, tag, text
from mmload.report.palette import PHASE_COLOURS


def render_html(summary: Summary, series: Summary) -> str:
    """The report as one self-contained HTML document."""
    from plotly.offline import get_plotlyjs

    figures = charts.figures(summary, series)
    plotly, script = get_plotlyjs(), _resource("report.js")
    name = get(summary, "run", "name") or "run"
    return Template(_resource("template.html")).substitute(
        title=text(f"{words.verdict(summary).word}: {name} - mmload"),
        version=text(get(summary, "mmload") or ""),
        policy=text(_policy(plotly, script)),
        css=_resource("report.css"),
        body=join(_body(summary, figures), "\n"),
        figures=script_json(figures),
        plotly=plotly,
        script=script,
    )


def _resource(name: str) -> str:
    return files("mmload.report").joinpath(name).read_text(encoding="utf-8")


def _policy(*scripts: str) -> str:
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'"
        for one in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline';"
        " img-src data: blob:; form-action 'none'; base-uri 'none'"
    )


def _body(summary: Summary, figures: dict[str, Any]) -> list[Html]:
    parts = [
        _header(summary),
        _verdict(summary),
        _keys(summary),
        _blame(summary),
        _section("Latency", _latency(summary)),
        *_results(summary),
        _section("Where the time goes", _figure("split", figures), _split(summary)),
        _section("Stages", _stages(summary)),
        _section("Queue", _figure("queue", figures), facts(words.queue_facts(summary))),
        _section("Latency over the run", _figure("latency", figures), _figure("curve", figures)),
        _section("Failures", _figure("outcomes", figures), _failures(summary)),
        _section("Media and tokens", facts(words.media_facts(summary))),
        _section("What the server did with the media", facts(results.media_check(summary))),
        _section("Warnings", *_warnings(summary), id_="warnings"),
        _section("Run", facts(words.run_facts(summary, full=True)), *_server(summary)),
        _section("Scenario", _scenario(summary)),
        _section("Definitions", _definitions(summary)),
        _footer(summary),
    ]
    return [part for part in parts if part]


def _section(title: str, *content: Html, id_: str = "") -> Html:
    if not any(content):
        return Html()
    return tag("section", tag("h2", title), *content, id_=id_)


def _figure(name: str, figures: dict[str, Any]) -> Html:
    if name not in figures:
        return Html()
    layout = figures[name]["layout"]
    box = tag("div", class_="chart", id=f"chart-{name}", style=f"height:{layout['height']}px")
    label = Html(layout["title"]["text"].replace('"', "&quot;"))  # charts escaped the rest
    return tag("figure", box, role="img", aria_label=label)


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
    return tag(
        "div",
        *(
            tag(
                "div",
                tag("div", label, class_="label"),
                tag("div", value, class_="value"),
                tag("div", note, class_="note"),
                class_="key",
            )
            for label, value, note in words.key_numbers(summary)
        ),
        class_="keys",
    )


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
        _section(title, table(head, [("", rows)]), tag("p", f"{_capital(note)}.", class_="muted"))
        for title, note, head, rows in results.tables(summary)
    ]


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _swatch(colour: str) -> Html:
    return tag("span", class_="swatch", style=f"background:{colour}")


def _split(summary: Summary) -> Html:
    columns = tables.split(summary)
    if not columns:
        return tag("p", "No split: no request has spans from inside the server.", class_="muted")
    rows: list[list[object]] = []
    colours = charts.stage_colours(summary)
    for phase in tables.split_phases(summary):
        title = join((_swatch(PHASE_COLOURS[phase]), tables.phase_title(summary, phase)))
        values = [get(column, "phases", phase) for _, _, column in columns]
        share = numbers.percent(tables.share(columns[0][2], phase))
        rows.append([tag("b", title), *(tag("b", numbers.ms(value)) for value in values), share])
        for stage in tables.split_stages(summary, phase):
            label = join((_swatch(colours[stage]), tables.stage_title(summary, stage)))
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
                join((_swatch(colours[row.name]), title, seen)),
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
    launched = flat(get(summary, "run", "launched"))
    settings = flat(get(summary, "run", "server"))
    processes = [
        (f"process {get(one, 'pid')}", ", ".join(f"{k} {v}" for k, v in flat(one) if k != "pid"))
        for one in get(summary, "server_processes") or []
    ]
    return [
        join((tag("h3", title), facts(pairs)))
        for title, pairs in (
            ("Started by mmload", launched),
            ("Server settings", settings),
            ("Traced processes", processes),
        )
        if pairs
    ]


def _scenario(summary: Summary) -> Html:
    import yaml

    scenario = get(summary, "run", "scenario")
    if not scenario:
        return Html()
    written = yaml.safe_dump(scenario, sort_keys=False, allow_unicode=True, width=96)
    return tag("pre", tag("code", written.rstrip()))


def _definitions(summary: Summary) -> Html:
    definitions = (get(summary, "definitions") or {}).items()
    return facts((name, _code(said)) for name, said in definitions if said)


def _code(sentence: str) -> Html:
    """Text in which `words` between backticks are code."""
    parts = sentence.split("`")
    return join(tag("code", part) if i % 2 else part for i, part in enumerate(parts))


def _footer(summary: Summary) -> Html:
    version = get(summary, "mmload") or ""
    return tag("footer", tag("p", f"Made by mmload {version}. This file needs no network."))
