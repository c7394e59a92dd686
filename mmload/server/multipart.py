"""A multipart/form-data body in its fields: RFC 7578, whole in memory, no nesting. Pure."""

import re
from dataclasses import dataclass, field

_BOUNDARY = re.compile(r'boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))', re.IGNORECASE)
_NAME = re.compile(rb'[;\s]name=(?:"([^"]*)"|([^\s;]+))', re.IGNORECASE)
_FILENAME = re.compile(rb"[;\s]filename=", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FormField:
    """One part of a form; the bytes are as sent."""

    name: str
    data: bytes = field(repr=False)
    is_file: bool


def form_fields(body: bytes, content_type: str) -> list[FormField]:
    """The fields in their order. Raises ValueError for what is no such form."""
    if not content_type.lower().startswith("multipart/form-data"):
        raise ValueError(f"the body must be multipart/form-data, not {content_type[:60]!r}")
    given = _BOUNDARY.search(content_type)
    if given is None:
        raise ValueError("the Content-Type names no boundary")
    mark = b"\r\n--" + (given.group(1) or given.group(2)).encode()
    # The first boundary may stand at the very start, without a line before it.
    _, *parts = (b"\r\n" + body).split(mark)
    if not parts or not parts[-1].startswith(b"--"):
        raise ValueError("the form has no end")
    return [_field(part) for part in parts[:-1]]


def _field(part: bytes) -> FormField:
    head, blank, data = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        if blank and line.lower().startswith(b"content-disposition:"):
            if (name := _NAME.search(line)) is not None:
                text = (name.group(1) or name.group(2) or b"").decode("utf-8", "replace")
                return FormField(text, data, _FILENAME.search(line) is not None)
    raise ValueError("a part of the form has no name")
