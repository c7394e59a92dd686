"""A sweep's report on a terminal: what to use first, then what mattered, then every point.

In: the object of docs/sweep.md. Out: text of at most the terminal's width.
"""

import sys
from typing import TextIO

from mmload.hook.stages import PHASE_TITLES
from mmload.report import numbers, sweep_words
from mmload.report.console import WIDE, Page, width_of, write
from mmload.report.fields import get
from mmload.report.sweep_words import Section

FILES = "report.html, report.md, summary.json, sweep.json, one folder a point"
SHOWN_PHASES = ("queueing", "cpu", "gpu")


def render_sweep(
    made: Section, *, color: bool = False, out: TextIO | None = None, folder: str = ""
) -> None:
    out = sys.stdout if out is None else out
    write(render_sweep_text(made, width_of(out), color=color, folder=folder), out)


def render_sweep_text(made: Section, width: int, *, color: bool = False, folder: str = "") -> str:
    page = Page(min(width, WIDE), color)
    page.line(made["sentence"], "bold")
    page.put("")
    page.facts(sweep_words.facts(made))
    _advice(page, made)
    _effects(page, made)
    _points(page, made)
    _phases(page, made)
    if said := sweep_words.pareto(made):
        page.heading("Pareto front", "points that no other beats in both")
        for sentence in said:
            page.line(sentence)
    if failed := sweep_words.failures(made):
        page.heading("Runs that are not valid")
        page.facts(failed)
    if folder:
        page.heading("Files")
        page.facts([("folder", folder), ("in it", FILES)])
    return page.text()


def _advice(page: Page, made: Section) -> None:
    advice = made["recommendation"]
    if advice is None:
        return
    page.heading("Setting")
    page.line(advice["sentence"])
    if advice.get("command"):
        page.facts([("to set it", advice["command"])])
    if advice.get("cheapest_command") and advice["cheapest"] != advice["setting"]:
        page.facts([("the cheapest", advice["cheapest_command"])])


def _effects(page: Page, made: Section) -> None:
    if not made["effects"]:
        return
    page.heading("Axes", f"change of {made['objective']['title']} against the reference value")
    table = page.columns("axis", "verdict", "value", "change", "95% interval", "p (Holm)")
    for effect in made["effects"]:
        verdict = sweep_words.VERDICTS[effect["verdict"]]
        page.row(
            table, [effect["name"], verdict, sweep_words.value(effect["reference"]), "", "", ""]
        )
        for level in effect["levels"]:
            cells = [
                *("", "", sweep_words.value(level["value"]), sweep_words.change(level["ratio"])),
                *(sweep_words.interval(level), sweep_words.p_value(level["p_adjusted"])),
            ]
            page.row(table, cells)
    page.put(table)
    for effect in made["effects"]:
        page.line(effect["sentence"])


def _points(page: Page, made: Section) -> None:
    titles = ("p50", "p90", "p99", "queue", "util.", "capacity/s", "cores")
    table = page.columns("", *titles)
    best = sweep_words.best_points(made)
    for point in made["points"]:
        cells = [
            point["values"],
            *(numbers.ms(point["ttft_ms"][q]) for q in ("p50", "p90", "p99")),
            sweep_words.queue(point),
            numbers.rate(point["utilisation"]),
            numbers.rate(point["capacity_qps"]),
            numbers.rate(point["cpu_cores"]),
        ]
        page.row(table, cells, mark=">" if point["point"] in best else " ")
    page.heading("Points", f"TTFT of {sweep_words.axes_title(made)}; medians; > as above")
    page.put(table)


def _phases(page: Page, made: Section) -> None:
    points = [point for point in made["points"] if point["phases_ms"]]
    if not points:
        return
    table = page.columns("", *(PHASE_TITLES[p] for p in SHOWN_PHASES), "rest", "bottleneck")  # type: ignore[index]
    for point in points:
        phases = point["phases_ms"]
        rest = sum(ms for name, ms in phases.items() if name not in SHOWN_PHASES and ms)
        cells = [numbers.ms(phases.get(name)) for name in SHOWN_PHASES]
        page.row(
            table,
            [point["values"], *cells, numbers.ms(rest), get(point, "bottleneck") or numbers.NONE],
        )
    page.heading("Where the time goes", f"mean request of {sweep_words.axes_title(made)}")
    page.put(table)
