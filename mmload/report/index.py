"""The index of runs on a terminal: a line a run, its load and labels below it.

In: rows as plain objects (docs/history.md). Out: text of at most `width` columns.
"""

from collections.abc import Sequence
from typing import Any, Final

from mmload.report import numbers
from mmload.report.console import WIDE, Page, one_line
from mmload.report.fields import get

Section = dict[str, Any]

_QUEUES: Final = {"cant_tell": "can't tell"}


def render_index(rows: Sequence[Section], width: int, *, color: bool = False) -> str:
    page = Page(min(width, WIDE), color)
    read = [row for row in rows if not row["problem"]]
    unread = [row for row in rows if row["problem"]]
    if read:
        _table(page, read)
    if unread:
        page.heading("Could not be read")
        for row in unread:
            page.line(row["folder"])
            page.line(f"  {row['problem']}", "yellow")
            if row["fix"]:
                page.line(f"  -> {row['fix']}")
    return page.text()


def _table(page: Page, rows: Sequence[Section]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    table = page.columns("run", "started", "TTFT p50", "p90", "p99", "queue")
    table.columns[1].justify = "left"
    table.columns[5].justify = "left"
    for row in rows:
        text = Text(one_line(row["folder"]))
        for more in _below(row):
            text.append(f"\n{one_line(more)}", "dim")
        first = Padding(text, (0, 0, 0, 2))
        queue = row["verdict"] if row["verdict"] != "VALID" else row["queue"]
        table.add_row(
            first,
            row["started_at"][:16].replace("T", " "),
            *(numbers.ms(row[f"ttft_{q}_ms"]) for q in ("p50", "p90", "p99")),
            Text(_QUEUES.get(queue, queue or numbers.NONE)),
        )
    page.put(table)


def _below(row: Section) -> list[str]:
    """Load, labels: what tells runs of one list apart."""
    rate = f"{row['qps']:g}/s" if row["qps"] is not None else row["load_mode"]
    load = ", ".join([rate, *row["classes"][:3], *(["..."] if len(row["classes"]) > 3 else [])])
    name = get(row, "name")
    parts = [load if name in ("", "run") else f"{name}: {load}"]
    if row["tags"]:
        parts.append(f"[{', '.join(row['tags'])}]")
    if row["note"]:
        parts.append(f'"{row["note"]}"')
    return parts
