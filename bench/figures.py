"""From what the server saw and what a tool says to the figures of one run. Pure.

In: the server's rows and the tool's `Seen`, with times in nanoseconds on CLOCK_MONOTONIC. Out: a
dict of plain values; `Dist` in milliseconds, as in docs/summary.md. The rules are in
bench/README.md. A tool's own words enter only where they are what is measured: its TTFT, and where
it gives them, its intended and sent times.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.tools import Seen
from bench.truth_server import Row
from mmload.analysis.quantiles import dist


def figures(rows: Sequence[Row], seen: Sequence[Seen], rate: float) -> dict[str, Any]:
    """`rate` is what was asked for, in requests a second."""
    by_key = {row.request_id: row for row in rows if row.request_id}
    by_key |= {row.key: row for row in rows}
    pairs = [(by_key[one.key], one) for one in seen if one.key in by_key]
    answered = [(row, one) for row, one in pairs if row.token_ns]
    return {
        "sent": len(rows),
        "ok": len(seen),
        "unmatched": len(seen) - len(pairs),
        "connections": len({row.connection for row in rows}),
        "body_bytes": round(float(np.mean([row.body_bytes for row in rows]))) if rows else 0,
        "rate_at_wire": wire_rate([row.first_byte_ns for row in rows]),
        "wire_lag_ms": dist(fitted_lag_ns([row.first_byte_ns for row in rows], rate)),
        "wire_lag_from_intended_ms": dist(
            _array(row.first_byte_ns - one.intended_ns for row, one in pairs if one.intended_ns)
        ),
        "own_lag_ms": dist(
            _array(one.sent_ns - one.intended_ns for one in seen if one.sent_ns and one.intended_ns)
        ),
        "ttft_error_ms": dist(
            _array(one.ttft_ns - (row.token_ns[0] - row.first_byte_ns) for row, one in answered)
        ),
        "server_late_ms": dist(
            _array(
                written - due
                for row in rows
                for written, due in zip(row.token_ns, row.due_ns, strict=False)
            )
        ),
    }


def fitted_lag_ns(arrivals_ns: Sequence[int], rate: float) -> NDArray[np.float64]:
    """Lag of each arrival behind an even schedule whose start nobody told.

    Arrival i, in order, is held against i / rate; the schedule's start is then moved as late as it
    can be without an arrival before its time, which is the shift that favours the tool most.
    """
    even_ns = np.rint(np.arange(len(arrivals_ns)) * (1e9 / rate))
    late_ns = np.sort(np.array(arrivals_ns, np.float64)) - even_ns
    lag_ns: NDArray[np.float64] = late_ns - late_ns.min(initial=np.inf)
    return lag_ns


def wire_rate(arrivals_ns: Sequence[int]) -> float | None:
    """Requests a second from the first arrival to the last."""
    if len(arrivals_ns) < 2:
        return None
    span_ns = max(arrivals_ns) - min(arrivals_ns)
    return round((len(arrivals_ns) - 1) * 1e9 / span_ns, 2) if span_ns else None


def _array(values: Any) -> NDArray[np.float64]:
    return np.fromiter(values, np.float64)
