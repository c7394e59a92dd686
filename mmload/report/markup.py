"""HTML that cannot be broken by what it shows: text is escaped unless it is already `Html`.

Server messages, model names and file names are somebody else's words. Every function here takes
strings or `Html` and returns `Html`; a plain string can only become text or an attribute's value.
"""

import html
import json
from collections.abc import Iterable, Sequence
from typing import Any

from mmload.report.fields import visible


class Html(str):
    """A piece of finished markup."""

    __slots__ = ()


def text(value: object) -> Html:
    """The value as text; control characters, which HTML forbids, become escapes."""
    return value if isinstance(value, Html) else Html(html.escape(visible(str(value)), quote=True))


def join(parts: Iterable[object], between: str = "") -> Html:
    return Html(text(between).join(text(part) for part in parts))


def tag(name: str, *children: object, **attributes: str) -> Html:
    """`<name attribute="...">children</name>`; `class_` stands for class, `_` for `-`."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value
    )
    return Html(f"<{name}{said}>{join(children)}</{name}>")


def table(
    head: Sequence[object],
    groups: Sequence[tuple[object, Sequence[Sequence[object]]]],
    *,
    class_: str = "",
    total: Sequence[object] | None = None,
) -> Html:
    """A table; each group is (title or empty, rows), and the first cell of a row is its header."""
    bodies = []
    for title, rows in groups:
        lines = []
        if title:
            lines.append(tag("tr", tag("th", title, colspan=str(len(head)), scope="rowgroup")))
        lines.extend(_row(row) for row in rows)
        bodies.append(tag("tbody", *lines))
    header = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in head)))
    foot = [tag("tfoot", _row(total))] if total else []
    return tag("div", tag("table", header, *bodies, *foot, class_=class_), class_="scroll")


def _row(cells: Sequence[object]) -> Html:
    first, *rest = cells
    return tag("tr", tag("th", first, scope="row"), *(tag("td", cell) for cell in rest))


def facts(pairs: Iterable[tuple[object, object]]) -> Html:
    """A list of labelled facts; nothing at all without facts."""
    pairs = list(pairs)
    if not pairs:
        return Html()
    return tag("dl", *(join((tag("dt", label), tag("dd", value))) for label, value in pairs))


def swatch(colour: str) -> Html:
    """The colour by which a chart shows what follows."""
    return tag("span", class_="swatch", style=f"background:{colour}")


def script_json(value: Any) -> Html:
    """JSON that may stand inside a script element: no character there can end the element."""
    encoded = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    for character in "<>&":
        encoded = encoded.replace(character, f"\\u{ord(character):04x}")
    return Html(encoded)
