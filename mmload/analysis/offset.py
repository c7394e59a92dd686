"""The clock of another host, as an interval: bounds that every joined exchange puts on its offset.

A server can only work on a request between the client's sending it and the client's seeing its end.
So each exchange bounds offset = server clock - client clock from above by (first span's start -
sent) and from below by (last span's end - closed). What satisfies all of them is the interval; its
width is the uncertainty, about the shortest network round trip. In: those four instants of ok
exchanges, as columns. Never guesses an offset that the exchanges do not bound.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

MIN_EXCHANGES_FOR_DRIFT: Final = 4


class ClockOffset(NamedTuple):
    """offset(t) = (lo_ns + hi_ns) / 2 + drift * (t - at_ns), known to within [lo_ns, hi_ns].

    `drift` is 0 where a constant offset fits every exchange. `consistent` is false when even a
    drifting clock does not (lo_ns > hi_ns then): the clock was stepped, or spans outlast answers.
    """

    lo_ns: float
    hi_ns: float
    drift: float  # seconds a second
    at_ns: float  # where on the client's clock lo and hi hold
    exchanges: int

    @property
    def consistent(self) -> bool:
        return self.lo_ns <= self.hi_ns

    def may_be_zero(self, slack_ns: float) -> bool:
        return self.lo_ns - slack_ns <= 0 <= self.hi_ns + slack_ns

    def at(self, server_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """The offset at instants of the server's clock, in whole nanoseconds."""
        middle = (self.lo_ns + self.hi_ns) / 2
        since = server_ns - round(middle + self.at_ns)
        offset: NDArray[np.int64] = np.rint(middle + self.drift * since).astype(np.int64)
        return offset


def estimate(
    sent_ns: NDArray[np.float64],
    closed_ns: NDArray[np.float64],
    first_start_ns: NDArray[np.float64],
    last_end_ns: NDArray[np.float64],
) -> ClockOffset | None:
    """Offset of the server's clock from the client's; None without exchanges.

    Tries a constant first. If none fits all exchanges, the drift is the slope between the middles
    of the intervals of the earlier and the later half, and the interval is what fits after that.
    """
    if not len(sent_ns):
        return None
    upper, lower = first_start_ns - sent_ns, last_end_ns - closed_ns
    lo, hi = float(lower.max()), float(upper.min())
    at = float((sent_ns.min() + closed_ns.max()) / 2)
    if lo <= hi or len(sent_ns) < MIN_EXCHANGES_FOR_DRIFT:
        return ClockOffset(lo, hi, 0.0, at, len(sent_ns))
    drift = _drift(sent_ns, closed_ns, upper, lower)
    lo = float((lower - drift * (closed_ns - at)).max())
    hi = float((upper - drift * (sent_ns - at)).min())
    return ClockOffset(lo, hi, drift, at, len(sent_ns))


def _drift(
    sent_ns: NDArray[np.float64],
    closed_ns: NDArray[np.float64],
    upper: NDArray[np.float64],
    lower: NDArray[np.float64],
) -> float:
    middle_of = []
    time_of = []
    order = np.argsort(sent_ns, kind="stable")
    for half in np.array_split(order, 2):
        highest, lowest = half[np.argmax(lower[half])], half[np.argmin(upper[half])]
        middle_of.append((lower[highest] + upper[lowest]) / 2)
        time_of.append((closed_ns[highest] + sent_ns[lowest]) / 2)
    span = time_of[1] - time_of[0]
    return float((middle_of[1] - middle_of[0]) / span) if span > 0 else 0.0
