"""A comparison on a terminal: the sentence first, then the tables, then what differs.

In: the object of docs/compare.md. Out: text of at most `width` columns, by the rules of `console`.
"""

from typing import Any, Final

from mmload.report import compare_tables as tables
from mmload.report.console import WIDE, Page, one_line
from mmload.report.results import Rows

Section = dict[str, Any]

_NAME_WIDTH: Final = 11
WORD_COLUMNS: Final = {"By media class": 2, "Where the time goes": 2}  # words, not numbers


def render_text(made: Section, width: int, *, color: bool = False, folder: str = "") -> str:
    """The whole comparison; `folder` is where its files were written."""
    page = Page(min(width, WIDE), color)
    page.line(made["sentence"], "bold")
    page.put("")
    page.facts(tables.side_facts(made))
    _facts(page, "Thresholds", tables.threshold_facts(made))
    _facts(page, "Left out", tables.left_out_facts(made))
    if made["notes"]:
        page.heading("Before you believe it")
        for note in made["notes"]:
            page.line(note, "yellow")
    base = made["sides"][0]["label"]
    for number, side in enumerate(made["sides"][1:], 1):
        names = (clipped(base), clipped(side["label"]))
        for rows in tables.tables_of(made, number, names):
            against = f", {side['label']} against {base}" if len(made["sides"]) > 2 else ""
            _table(page, rows, against)
    _facts(page, "Queue", tables.queue_facts(made))
    _facts(page, "Outputs", tables.parity_facts(made))
    _facts(page, "What differs between the sides", tables.unlike_facts(made))
    if folder:
        _facts(page, "Files", [("folder", folder), ("in it", "compare.html, .md, .json")])
    return page.text()


def clipped(name: str) -> str:
    """A name that fits over a column."""
    return name if len(name) <= _NAME_WIDTH else f"{name[: _NAME_WIDTH - 2]}.."


def _table(page: Page, rows: Rows, against: str) -> None:
    page.heading(rows.title + one_line(against))
    if rows.note:
        page.line(rows.note, "dim")
    table = page.columns(*rows.head)
    for column in table.columns[1 : WORD_COLUMNS.get(rows.title, 1)]:
        column.justify = "left"
    for row in rows.rows:
        page.row(table, row)
    page.put(table)


def _facts(page: Page, title: str, facts: list[tuple[str, str]]) -> None:
    if facts:
        page.heading(title)
        page.facts(facts)
