"""A comparison for a pull request: the sentence, what was tested, and the tables below.

In: the object of docs/compare.md. Out: Markdown that renders on GitHub; the stages, which are many
lines, fold away. Words from servers and users are escaped.
"""

from collections.abc import Sequence
from typing import Any

from mmload.report import compare_tables as tables
from mmload.report.fields import Fact
from mmload.report.markdown import escape, pipe_table
from mmload.report.results import Rows

Section = dict[str, Any]


def render_markdown(made: Section) -> str:
    """The block, ending in a line break."""
    blocks = [f"**{escape(made['sentence'])}**"]
    blocks.append(_facts("Thresholds", tables.threshold_facts(made)))
    base = made["sides"][0]["label"]
    for number, side in enumerate(made["sides"][1:], 1):
        names = (base, side["label"])
        if len(made["sides"]) > 2:
            blocks.append(f"### {escape(side['label'])} against {escape(base)}")
        blocks += [_table(rows) for rows in tables.tables_of(made, number, names, wide=True)]
    blocks += [
        _facts("Queue", tables.queue_facts(made)),
        _facts("Outputs", tables.parity_facts(made)),
        _facts("What differs between the sides", tables.unlike_facts(made)),
        _facts("Left out", tables.left_out_facts(made)),
        _list("Before you believe it", [escape(note) for note in made["notes"]]),
        _facts("Compared", tables.side_facts(made)),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _table(rows: Rows) -> str:
    head = [escape(cell) for cell in rows.head]
    table = pipe_table(head, rows.rows)
    note = f"\n\n{escape(rows.note)}" if rows.note else ""
    if rows.title == "Stages":
        return f"<details><summary>{rows.title}</summary>\n\n{table}{note}\n\n</details>"
    return f"**{rows.title}**\n\n{table}{note}"


def _facts(title: str, facts: Sequence[Fact]) -> str:
    return _list(title, [f"{escape(label)}: {escape(text)}" for label, text in facts])


def _list(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"**{title}:**", "", *(f"- {line}" for line in lines)]) if lines else ""
