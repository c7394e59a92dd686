"""Spans that go home inside the response: comments of the event stream, after its last event.

A client that shares no disk with the server asks for them by a request header
(`mmload.hook.headers.SPANS_HEADER`). Each comment is a line as `writer.py` writes it to a file:
`: mmload-spans {"process": ...}`, then one a span. Clients that do not know them skip comments, as
the standard says. Only spans of the process that answers, recorded before the end of the answer.
Bounded: of more requests at a time, or more spans a request, the rest stays at home. Stdlib only.
"""

from collections.abc import Mapping
from typing import Any, Final

from mmload.hook.writer import SpanTuple, process_line, span_line

PREFIX: Final = ": mmload-spans "
REQUESTS_LIMIT: Final = 4096
SPANS_LIMIT: Final = 256

_asked: dict[str, list[SpanTuple]] = {}


def ask(request_id: str) -> None:
    """From now on the request's spans are kept for its response."""
    if len(_asked) < REQUESTS_LIMIT:
        _asked[request_id] = []


def keep(span: SpanTuple) -> None:
    """Called with every span that is recorded."""
    kept = _asked.get(span[0])
    if kept is not None and len(kept) < SPANS_LIMIT:
        kept.append(span)


def take(request_id: str, process: Mapping[str, Any]) -> bytes:
    """The comments for the end of a request's stream, and an end to the keeping. Empty: none."""
    kept = _asked.pop(request_id, None)
    if not kept:
        return b""
    lines = [process_line(process), *(span_line(span, process["pid"]) for span in kept)]
    return ("\n" + "".join(PREFIX + line for line in lines) + "\n").encode()


def drop(request_id: str) -> None:
    """The request has ended; nothing is kept for it."""
    _asked.pop(request_id, None)
