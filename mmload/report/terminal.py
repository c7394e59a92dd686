"""The report on a terminal: the verdict first, then everything that a colleague would ask next.

In: the summary object of docs/summary.md. Out: text of at most `console_width` columns. Colour
repeats what the words say and is never alone; without colour the text is free of control codes, and
everything that mmload itself says is ASCII. Control characters in a server's own words are shown
as escapes, so that a message cannot drive the terminal.
"""

import io
import shutil
import sys
from typing import TYPE_CHECKING, Any, Final, TextIO

from mmload.report import numbers, results, tables, words
from mmload.report.fields import Fact, Summary, get, visible

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

NARROW: Final = 80
ROOMY: Final = 100  # columns get wider gaps from here on
WIDE: Final = 120  # longer lines are harder to read, whatever the window
LABEL_WIDTHS: Final = (16, 28)
BAR_WIDTH: Final = 12
FIRST_WIDTH: Final = 20
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
    text = render_text(summary, console_width or _width(out), color=color, folder=folder)
    encoding = getattr(out, "encoding", None) or "utf-8"
    out.write(text.encode(encoding, "backslashreplace").decode(encoding))


def render_text(summary: Summary, width: int, *, color: bool = False, folder: str = "") -> str:
    """The whole report as one string; `color` adds ANSI codes and block characters."""
    page = _Page(min(width, WIDE), color)
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
    _failures(page, summary)
    _facts_section(page, "Media and tokens", words.media_facts(summary))
    _facts_section(page, "What the server did with the media", results.media_check(summary))
    _warnings(page, summary)
    if folder:
        page.heading("Files")
        page.facts([("folder", folder), ("in it", FILES)])
    return page.text()


class _Page:
    """A rich console that writes into a string, and the few shapes that the report is made of."""

    def __init__(self, width: int, color: bool) -> None:
        from rich.console import Console

        self.color = color
        self._file = io.StringIO()
        self.gap = 1 if width < ROOMY else 3
        self._console = Console(
            file=self._file,
            width=width,
            force_terminal=color,
            color_system="standard" if color else None,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )

    def text(self) -> str:
        """What was printed; rich pads lines with blanks, which nobody wants in a file."""
        lines = self._file.getvalue().split("\n")
        return "\n".join(lines if self.color else (line.rstrip() for line in lines))

    def put(self, *what: "RenderableType") -> None:
        self._console.print(*what)

    def heading(self, title: str, note: str = "") -> None:
        from rich.text import Text

        self.put("")
        self.put(Text.assemble((title, "bold"), (f"  {note}" if note else "", "dim")))

    def line(self, text: str, style: str = "") -> None:
        from rich.padding import Padding
        from rich.text import Text

        self.put(Padding(Text(one_line(text), style=style), (0, 0, 0, 2)))

    def facts(self, facts: list[Fact]) -> None:
        table = self.table()
        least, most = LABEL_WIDTHS
        table.add_column(min_width=least, max_width=most, overflow="fold", style="dim")
        table.add_column(overflow="fold")
        for label, text in facts:
            self.row(table, [label, text])
        self.put(table)

    def table(self) -> "Table":
        from rich.table import Table

        gap = (0, self.gap, 0, 0)
        return Table(box=None, show_header=False, padding=gap, pad_edge=False)

    def columns(self, first: str, *right: str) -> "Table":
        """A table with a header: one column of words, the others of numbers."""
        table = self.table()
        table.show_header = True
        table.header_style = "dim"
        table.add_column(f"  {first}", overflow="fold", min_width=FIRST_WIDTH)
        for title in right:
            table.add_column(title, justify="right", no_wrap=True)
        return table

    def row(self, table: "Table", cells: list[str], style: str = "", mark: str = " ") -> None:
        """Adds a row; `mark` stands in the margin."""
        from rich.text import Text

        texts: list[Any] = [Text(one_line(cell), style=style) for cell in cells]
        texts[0] = Text.assemble((f"{mark} ", style), texts[0])
        table.add_row(*texts)


def one_line(text: str) -> str:
    """Somebody's text as one line without control characters."""
    return visible(" ".join(text.split()))


def _width(out: TextIO) -> int:
    return shutil.get_terminal_size((NARROW, 24)).columns if out.isatty() else NARROW


def _verdict(page: _Page, summary: Summary) -> None:
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


def _latency(page: _Page, summary: Summary) -> None:
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


def _latency_block(page: _Page, table: "Table", rows: list[tuple[str, Any]]) -> None:
    for title, dist in rows:
        values = [numbers.ms(get(dist, q)) for q in (*tables.QUANTILES, "max")]
        page.row(table, [title, numbers.count(get(dist, "n")), *values])


def _results(page: _Page, summary: Summary) -> None:
    for title, note, head, rows in results.tables(summary):
        table = page.columns(*head)
        for row in rows:
            page.row(table, row)
        page.heading(title, note)
        page.put(table)


def _split(page: _Page, summary: Summary) -> None:
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


def _stages(page: _Page, summary: Summary) -> None:
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


def _queue(page: _Page, summary: Summary) -> None:
    if get(summary, "queue"):
        page.heading("Queue")
        page.facts(words.queue_facts(summary))


def _failures(page: _Page, summary: Summary) -> None:
    failures = words.failures(summary)
    if failures:
        page.heading("Failures")
        page.facts(
            [(f"{n} x {kind}", (messages or ["no message"])[0]) for kind, n, messages in failures]
        )


def _facts_section(page: _Page, title: str, facts: list[Fact]) -> None:
    if facts:
        page.heading(title)
        page.facts(facts)


def _warnings(page: _Page, summary: Summary) -> None:
    warnings = words.warnings(summary)
    if warnings:
        page.heading("Warnings")
        for code, message, hint in warnings:
            page.line(f"{code}: {message}" if code else message, "yellow")
            if hint:
                page.line(f"-> {hint}")
