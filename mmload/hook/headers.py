"""The HTTP headers between a traced server and its client: request id, trace folder, spans asked.

`X-Request-Id` names the request on both sides. `X-Mmload-Trace: BOOT_ID;FOLDER` (percent-encoded)
tells a client on the same host (same boot id) where the spans are. `X-Mmload-Spans: response` asks
for a request's spans inside its response (`inline.py`). Values from outside are cleaned
before they reach a header, a log or a file. Stdlib only.
"""

import urllib.parse
import uuid
from typing import Final

REQUEST_ID_HEADER: Final = "X-Request-Id"
TRACE_HEADER: Final = "X-Mmload-Trace"
SPANS_HEADER: Final = "X-Mmload-Spans"
IN_RESPONSE: Final = "response"  # the one value of SPANS_HEADER
ID_LIMIT: Final = 200

_PATH_SAFE: Final = "/!#$&'()*+,:=?@[]{}~^ "  # all printable ASCII but the escape and the separator


def clean_request_id(given: str | None) -> str:
    """The id that a client gave, without anything but visible ASCII, cut at `ID_LIMIT` characters;
    a new one when nothing is left."""
    cleaned = "".join(c for c in given[: 4 * ID_LIMIT] if "!" <= c <= "~") if given else ""
    return cleaned[:ID_LIMIT] or uuid.uuid4().hex


def trace_value(boot_id: str, folder: str) -> str:
    """The value of `TRACE_HEADER`."""
    return f"{boot_id};{urllib.parse.quote(folder, safe=_PATH_SAFE)}"


def parse_trace(value: str) -> tuple[str, str] | None:
    """(boot id, folder) of a `TRACE_HEADER`; None when it is not one."""
    boot_id, separator, folder = value.partition(";")
    folder = urllib.parse.unquote(folder)
    return (boot_id, folder) if separator and boot_id and folder.startswith("/") else None
