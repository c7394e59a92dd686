"""A sweep as one HTML file: the setting to use, what mattered and what did not, every point.

In: the object of docs/sweep.md. Out: the text of the page (`page` wraps it).
"""

from typing import Any

import yaml

from mmload.hook.stages import PHASE_TITLES
from mmload.report import numbers, sweep_charts, sweep_words
from mmload.report.fields import get
from mmload.report.markup import Html, facts, join, table, tag
from mmload.report.page import figure, footer, key_figures, page, section
from mmload.report.sweep_words import Section


def render_sweep_html(made: Section) -> str:
    figures = sweep_charts.figures(made)
    heats = [figure(name, figures) for name in figures if name.startswith("heat")]
    body = [
        _header(made),
        _verdict(made),
        _keys(made),
        _advice(made),
        section("What mattered", figure("effects", figures), _effects(made)),
        section("Settings together", *heats, _more_slices(made)),
        section("Every run", figure("runs", figures)),
        section("Points", _points(made)),
        section("Where the time goes", figure("split", figures), _phases(made)),
        section("Latency against throughput", figure("loads", figures)),
        section("What it costs", figure("pareto", figures), _pareto(made)),
        section("Runs that are not valid", facts(sweep_words.failures(made))),
        section("Sweep", facts(sweep_words.facts(made)), _scenario(made)),
        section("Definitions", facts(made["definitions"].items())),
        footer(str(made["mmload"])),
    ]
    return page(f"Sweep: {made['name']} - mmload", str(made["mmload"]), filter(None, body), figures)


def _header(made: Section) -> Html:
    axes = " x ".join(axis["name"] for axis in made["axes"] if axis["varies"])
    about = [made["server"], axes, made.get("started_at")]
    return tag(
        "header",
        tag("p", "mmload sweep", class_="kicker"),
        tag("h1", made["name"]),
        tag("p", join([part for part in about if part], " \u00b7 "), class_="subtitle"),
    )


def _verdict(made: Section) -> Html:
    verdict = get(made, "recommendation", "verdict")
    word = {
        "wins": "\u2713 Winner",
        "beats_default": "\u2713 Better",
        "no_difference_shown": "~ No winner",
    }.get(str(verdict), "Measured" if made["runs"]["done"] else "\u2717 Nothing valid")
    kind = "valid" if made["runs"]["done"] else "invalid"
    sentence = tag("p", tag("strong", word), made["sentence"])
    return tag("div", sentence, class_=f"verdict {kind}", role="status")


def _keys(made: Section) -> Html:
    title = made["objective"]["title"]
    advice = made["recommendation"] or {}
    keys: list[tuple[str, str, str]] = []
    if advice:
        keys.append((f"{title}, best", numbers.ms(advice["score_ms"]), advice["best_label"]))
        reference = advice.get("reference")
        found = next((s for s in made["settings"] if s["is_reference"]), None)
        if reference and found:
            word = "default" if reference["is_default"] else "reference"
            keys.append((f"{title}, {word}", numbers.ms(found["score_ms"]), found["label"]))
    none = ", ".join(made["no_effect"]) or "none shown"
    keys.append(("axes without effect", none, f"within {made['no_effect_within']:.0%}"))
    noise = numbers.percent(made["noise"])
    keys.append(
        ("noise between repeats", noise, f"{numbers.plural(made['repeats'], 'repeat')} a point")
    )
    runs = made["runs"]
    keys.append(("valid runs", numbers.count(runs["done"]), f"of {made['planned_runs']} planned"))
    return key_figures(keys)


def _advice(made: Section) -> Html:
    advice = made["recommendation"]
    boxes = []
    if advice is not None and advice.get("command"):
        lines = [tag("p", tag("b", "The command that sets it. ")), tag("pre", advice["command"])]
        if advice.get("cheapest_command") and advice["cheapest"] != advice["setting"]:
            lines.append(tag("p", "Not shown to be slower, and the cheapest of those:"))
            lines.append(tag("pre", advice["cheapest_command"]))
        boxes.append(tag("div", *lines, class_="blame"))
    if made.get("simulated"):
        note = tag("p", tag("b", "Simulated. "), made["simulated"])
        boxes.append(tag("div", note, class_="simulated"))
    return join(boxes)


def _effects(made: Section) -> Html:
    groups: list[tuple[object, Any]] = []
    for effect in made["effects"]:
        rows = [
            [
                f"{sweep_words.value(level['value'])} against"
                f" {sweep_words.value(effect['reference'])}",
                sweep_words.change(level["ratio"]),
                sweep_words.interval(level),
                sweep_words.p_value(level["p_adjusted"]),
                numbers.count(level["pairs"]),
            ]
            for level in effect["levels"]
        ]
        verdict = sweep_words.VERDICTS[effect["verdict"]]
        groups.append((f"{effect['name']}: {verdict}", rows))
    if not groups:
        return Html()
    head = ("", "change", "95% interval", "p after Holm", "pairs of runs")
    said = [tag("p", effect["sentence"]) for effect in made["effects"]]
    return join((table(head, groups), *said))


def _more_slices(made: Section) -> Html:
    varying = sorted(
        (axis for axis in made["axes"] if axis["varies"]), key=lambda one: one["kind"] == "load"
    )
    count = 1
    for axis in varying[2:]:
        count *= len(axis["values"])
    if len(varying) < 2 or count <= sweep_words.MOST_SLICES:
        return Html()
    note = f"The first {sweep_words.MOST_SLICES} of {count} combinations of the other axes."
    return tag("p", note, class_="muted")


def _points(made: Section) -> Html:
    best = sweep_words.best_points(made)
    rows = [
        [
            tag("b", point["values"]) if point["point"] in best else point["values"],
            numbers.count(point["valid_runs"]),
            *(numbers.ms(point["ttft_ms"][q]) for q in ("p50", "p90", "p99")),
            sweep_words.queue(point),
            numbers.rate(point["utilisation"]),
            numbers.rate(point["capacity_qps"]),
            numbers.rate(point["throughput_qps"]),
            numbers.rate(point["cpu_cores"]),
        ]
        for point in made["points"]
    ]
    head = (
        sweep_words.axes_title(made),
        "runs",
        "TTFT p50",
        "p90",
        "p99",
        "queue",
        "util.",
        "capacity/s",
        "answers/s",
        "cores",
    )
    note = (
        "Medians over the valid runs; bold is the recommended setting. Capacity: what the busiest"
        " stage's width and service time imply. Cores: CPU time of the server's processes over the"
        " time of arrivals."
    )
    return join((table(head, [("", rows)]), tag("p", note, class_="muted")))


def _phases(made: Section) -> Html:
    points = [point for point in made["points"] if point["phases_ms"]]
    names = [name for name in PHASE_TITLES if any(p["phases_ms"].get(name) for p in points)]
    rows = [
        [
            point["values"],
            *(numbers.ms(point["phases_ms"].get(name)) for name in names),
            point["bottleneck"] or numbers.NONE,
        ]
        for point in points
    ]
    if not rows:
        return tag("p", "No split: no request has spans from inside the server.", class_="muted")
    return table(
        (sweep_words.axes_title(made), *(PHASE_TITLES[name] for name in names), "bottleneck"),
        [("", rows)],
    )


def _pareto(made: Section) -> Html:
    return join(tag("p", sentence) for sentence in sweep_words.pareto(made))


def _scenario(made: Section) -> Html:
    if not made["scenario"]:
        return Html()
    written = yaml.safe_dump(made["scenario"], sort_keys=False, allow_unicode=True, width=96)
    note = tag("p", "What the scenarios of all points have in common:", class_="muted")
    return join((note, tag("pre", tag("code", written.rstrip()))))
