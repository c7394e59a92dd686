"""When a failed request is sent again, and after how long: the rule of `--retries`. Pure.

Sent again is what a careful client would send again: a connection that failed before any answer or
was not there in time, and the statuses 408, 429 and 5xx. Never a request that had output, nor one
that this side could not send. The wait is what Retry-After says, else 0.5 s, doubled each time up
to 8 s; there is no jitter, so that two runs of one seed wait alike.
"""

from email.utils import parsedate_to_datetime
from typing import Final

from mmload.clock import NS_PER_S
from mmload.load.transport import Headers
from mmload.records import Outcome, Record

FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 8.0
STATUSES: Final = (408, 429)


def worth_retrying(record: Record) -> bool:
    """Whether an attempt that ended like this may succeed when it is made again."""
    if record.outcome is Outcome.http_error:
        return record.status is not None and (record.status in STATUSES or record.status >= 500)
    if record.outcome is Outcome.timeout:
        return record.connected_ns is None
    return record.outcome is Outcome.connection and record.status is None


def wait_ns(failed: int, headers: Headers) -> int:
    """How long to wait after failed attempt number `failed` (from 1) and its response's headers."""
    said_s = _retry_after_s(headers)
    if said_s is None:
        said_s = min(FIRST_WAIT_S * 2 ** min(failed - 1, 10), LONGEST_WAIT_S)
    return round(said_s * NS_PER_S)


def _retry_after_s(headers: Headers) -> float | None:
    """Retry-After as seconds. A date is taken from the server's own Date: clocks may disagree."""
    text = headers.get(b"retry-after", b"").decode("latin-1").strip()
    if text.replace(".", "", 1).isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        until = parsedate_to_datetime(text)
        now = parsedate_to_datetime(headers.get(b"date", b"").decode("latin-1"))
        return max(0.0, (until - now).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None
