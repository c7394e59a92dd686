"""The report on a terminal: the verdict first, then everything that a colleague would ask next.

In: the summary object of docs/summary.md. Out: text of at most `console_width` columns. Colour
repeats what the words say and is never alone; without colour the text is free of control codes, and
everything that mmload itself says is ASCII. Control characters in a server's own words are shown
as escapes, so that a message cannot drive the terminal.
"""

import sys
from typing import TYPE_CHECKING, Any, Final, TextIO

from mmload.report import numbers, results, tables, watched, words
from mmload.report.console import WIDE, Page, one_line, width_of, write
from mmload.report.fields import Fact, Summary, get
from mmload.report.terminal_cake import cake_section

if TYPE_CHECKING:
    from rich.table import Table

BAR_WIDTH: Final = 12
FILES: Final = "report.html, summary.json, records.jsonl, spans/"


def render(
    summary: Summary,
    *,
    console_width: int | None = None,
    color: bool = False,
    out: TextIO | None = None,
    folder: str = "",
) -> None:
    """Prints the report to `out` (stdout). `folder` is the run's, named at the end."""
    out = sys.stdout if out is None else out
    write(render_text(summary, console_width or width_of(out), color=color, folder=folder), out)


def render_text(summary: Summary, width: int, *, color: bool = False, folder: str = "") -> str:
    """The whole report as one string; `color` adds ANSI codes and block characters."""
    page = Page(min(width, WIDE), color)
    _verdict(page, summary)
    page.facts(words.run_facts(summary))
    _latency(page, summary)
    _results(page, summary)
    _split(page, summary)
    _stages(page, summary)
    page.heading("Bottleneck")
    page.line(tables.bottleneck(summary))
    settings = tables.bottleneck_settings(summary)
    if settings:
        page.facts([("settings", ", ".join(settings))])
    _queue(page, summary)
    _facts_section(page, "The server, as it says itself", watched.facts(summary))
    cake_section(page, summary)
    _failures(page, summary)
    _facts_section(page, "Media and tokens", words.media_facts(summary))
    _facts_section(page, "What the server did with the media", results.media_check(summary))
    _warnings(page, summary)
    if folder:
        page.heading("Files")
        page.facts([("folder", folder), ("in it", FILES)])
    return page.text()


def _verdict(page: Page, summary: Summary) -> None:
    from rich.text import Text

    verdict = words.verdict(summary)
    table = page.table()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    style = "bold green" if verdict.valid else "bold red"
    table.add_row(Text(f"{verdict.word} ", style), Text(one_line(verdict.sentence), "bold"))
    for more in verdict.more:
        table.add_row("", Text(one_line(more)))
    page.put(table, "")


def _latency(page: Page, summary: Summary) -> None:
    page.heading("Latency", "from the intended send time, unless it says from sent")
    if not tables.has_latency(summary):
        page.line(tables.NO_LATENCY)
        return
    classes = get(summary, "classes") or {}
    table = page.columns("", "n", *tables.QUANTILES, "max")
    _latency_block(page, table, tables.latency_rows(summary, tables.SHORT))
    if len(classes) > 1:
        for name, one in classes.items():
            page.row(table, ["", *[""] * 5])
            page.row(table, [name], style="bold")
            _latency_block(page, table, tables.latency_rows(one, tables.SHORT))
    page.put(table)
    note = tables.simulated_note(summary)
    if note:
        page.line(note)


def _latency_block(page: Page, table: "Table", rows: list[tuple[str, Any]]) -> None:
    for title, dist in rows:
        values = [numbers.ms(get(dist, q)) for q in (*tables.QUANTILES, "max")]
        page.row(table, [title, numbers.count(get(dist, "n")), *values])


def _results(page: Page, summary: Summary) -> None:
    for title, note, head, rows in results.tables(summary):
        table = page.columns(*head)
        for row in rows:
            page.row(table, row)
        page.heading(title, note)
        page.put(table)


def _split(page: Page, summary: Summary) -> None:
    columns = tables.split(summary)
    if not columns:
        return
    table = page.columns("", *(title.replace(" ", "\n") for _, title, _ in columns))
    table.add_column(f"share of\nthe {columns[0][1]}", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    block = "\u2588" if page.color else "#"
    for phase in tables.split_phases(summary):
        cells = [numbers.ms(get(column, "phases", phase)) for _, _, column in columns]
        share = tables.share(columns[0][2], phase)
        bar = block * round((share or 0) * BAR_WIDTH)
        page.row(table, [tables.phase_title(summary, phase), *cells, numbers.percent(share), bar])
    total = [numbers.ms(get(column, "e2e_ms")) for _, _, column in columns]
    page.row(table, ["E2E, the sum", *total], style="bold")
    page.heading("Where the time goes", words.joined_sentence(summary))
    page.put(table)


def _stages(page: Page, summary: Summary) -> None:
    rows = tables.stage_rows(summary)
    if not rows:
        return
    worst = get(summary, "bottleneck", "stage")
    table = page.columns("stage", "phase", *tables.QUANTILES, "util.", "width")
    table.columns[1].justify = "left"
    for row in rows:
        values = [numbers.ms(get(row.ms, q)) for q in tables.QUANTILES]
        phase = tables.PHASE_SHORT.get(row.phase, row.phase)
        cells = [row.title, phase, *values, numbers.rate(row.utilisation), row.width]
        page.row(table, cells, mark=">" if row.name == worst else " ")
    page.heading("Stages", "width: most requests ever inside at once / workers configured")
    page.put(table)


def _queue(page: Page, summary: Summary) -> None:
    if get(summary, "queue"):
        page.heading("Queue")
        page.facts(words.queue_facts(summary))


def _failures(page: Page, summary: Summary) -> None:
    failures = words.failures(summary)
    if failures:
        page.heading("Failures")
        page.facts(
            [(f"{n} x {kind}", (messages or ["no message"])[0]) for kind, n, messages in failures]
        )


def _facts_section(page: Page, title: str, facts: list[Fact]) -> None:
    if facts:
        page.heading(title)
        page.facts(facts)


def _warnings(page: Page, summary: Summary) -> None:
    warnings = words.warnings(summary)
    if warnings:
        page.heading("Warnings")
        for code, message, hint in warnings:
            page.line(f"{code}: {message}" if code else message, "yellow")
            if hint:
                page.line(f"-> {hint}")
