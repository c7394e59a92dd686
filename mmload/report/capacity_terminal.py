"""A capacity report on a terminal: the interval, what the spans predict, every rate.

In: the object of docs/capacity.md. Out: text of at most the terminal's width.
"""

import sys
from typing import TextIO

from mmload.report import capacity_words, numbers
from mmload.report.capacity_words import Section
from mmload.report.console import WIDE, Page, width_of, write

FILES = "report.html, report.md, summary.json, capacity.json, one folder a run"


def render_capacity(
    made: Section, *, color: bool = False, out: TextIO | None = None, folder: str = ""
) -> None:
    out = sys.stdout if out is None else out
    write(render_capacity_text(made, width_of(out), color=color, folder=folder), out)


def render_capacity_text(
    made: Section, width: int, *, color: bool = False, folder: str = ""
) -> str:
    page = Page(min(width, WIDE), color)
    page.line(made["sentence"], "bold")
    page.put("")
    page.facts(capacity_words.facts(made))
    page.heading("Rates", f"{made['metric'].upper()}; medians over the runs of a rate")
    table = page.columns("requests/s", "passed", "p50", "p90", "p99", "good", "goodput/s")
    for row in made["rates"]:
        cells = [
            f"{row['rate']:g}  {capacity_words.VERDICTS[row['verdict']]}",
            f"{row['passed']} of {row['runs']}",
            *(numbers.ms(row[f"{q}_ms"]) for q in ("p50", "p90", "p99")),
            numbers.percent(row["good_share"]),
            numbers.rate(row["goodput_qps"]),
        ]
        page.row(table, cells, mark=">" if row["rate"] == made["interval"]["passing_qps"] else " ")
    page.put(table)
    failing = made["interval"]["failing_qps"]
    if failing is not None:
        page.line(f"{failing:g}/s fails: {capacity_words.why(made['runs'], failing)}.")
    page.line(capacity_words.knee(made))
    page.heading("What the spans predict")
    page.line(
        made["predicted"]["sentence"] if made["predicted"] else "Nothing: there are no spans."
    )
    if folder:
        page.heading("Files")
        page.facts([("folder", folder), ("in it", FILES)])
    return page.text()
