"""How much of a run's start is warm-up: MSER-5, a truncation rule without a knob.

In: values in order of time (latencies in arrival order). Out: how many to leave out at the start.
The rule: in means of five, cut where the standard error of the mean of what is left is smallest
(White 1997). It never cuts over half: a minimum beyond says that the run has no steady part.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

BATCH: Final = 5
WORTH_SAYING: Final = 1.5  # how much slower than the rest a start is before a report mentions it


def warmup_length(values: NDArray[np.float64]) -> int:
    """Number of values to cut, a multiple of 5, at most half; 0 for fewer than 4 whole batches."""
    batches = len(values) // BATCH
    if batches < 4:
        return 0
    means = values[: batches * BATCH].reshape(batches, BATCH).mean(axis=1)
    means = means - means.mean()  # sums of squares lose no digits then
    left = batches - np.arange(batches)
    total, squares = np.cumsum(means[::-1])[::-1], np.cumsum(means[::-1] ** 2)[::-1]
    # squared standard error of the mean of means[d:], for each d up to half
    error = (squares - total**2 / left) / left**2
    return BATCH * int(np.argmin(error[: batches // 2 + 1]))


def warmup_requests(latency_ns: NDArray[np.float64]) -> int:
    """How many requests at the start to leave out; `latency_ns` is NaN where there is none.

    Counted in requests, with those that have no latency: the cut falls before the first value that
    stays.
    """
    rows = np.flatnonzero(~np.isnan(latency_ns))
    cut = warmup_length(latency_ns[rows])
    return int(rows[cut]) if cut else 0


def is_slower(latency_ns: NDArray[np.float64], cut: int) -> bool:
    """Whether the first `cut` requests really were slow: MSER-5 also cuts what is merely noise."""
    start, rest = latency_ns[:cut], latency_ns[cut:]
    start, rest = start[~np.isnan(start)], rest[~np.isnan(rest)]
    return bool(len(start) and len(rest) and start.mean() > WORTH_SAYING * rest.mean())
