"""A page of the terminal: headings, facts and tables of at most some columns, as one string.

Colour repeats what the words say and is never alone; without it the text is free of control codes.
Control characters in somebody's words are shown as escapes, so that they cannot drive the terminal.
"""

import io
import shutil
from typing import TYPE_CHECKING, Any, Final, TextIO

from mmload.report.fields import Fact, visible

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

NARROW: Final = 80
ROOMY: Final = 100  # columns get wider gaps from here on
WIDE: Final = 120  # longer lines are harder to read, whatever the window
LABEL_WIDTHS: Final = (16, 28)
FIRST_WIDTH: Final = 20


class Page:
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


def width_of(out: TextIO) -> int:
    """The terminal's width; of a file or a pipe 80."""
    return shutil.get_terminal_size((NARROW, 24)).columns if out.isatty() else NARROW


def write(text: str, out: TextIO) -> None:
    """Writes text whatever the stream's encoding; what it lacks becomes escapes."""
    encoding = getattr(out, "encoding", None) or "utf-8"
    out.write(text.encode(encoding, "backslashreplace").decode(encoding))
