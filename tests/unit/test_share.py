"""Workers: enough for the busiest second, limits dealt out without loss."""

import numpy as np
import pytest

from mmload.load.schedule import arrivals, even
from mmload.load.share import auto_workers, share


@pytest.mark.parametrize(
    ("qps", "body_bytes", "cores", "workers"),
    [
        (5, 730_000, 2, 1),
        (300, 730_000, 16, 1),  # 300 x (0.6 + 0.584) ms = 0.355 s of a core in a second
        (400, 730_000, 16, 2),  # 0.474 s: over 0.4
        (2000, 730_000, 4, 3),  # six are needed, one core is not ours
        (2000, 730_000, 1, 1),
    ],
)
def test_workers_follow_the_busiest_second(
    qps: float, body_bytes: int, cores: int, workers: int
) -> None:
    assert auto_workers(arrivals(even(), qps, duration_s=3), body_bytes, cores) == workers


def test_a_burst_counts_not_the_mean() -> None:
    burst = np.full(400, 5_500_000_000, np.int64)
    assert auto_workers(burst, 730_000, 16) == 2
    assert auto_workers(np.empty(0, np.int64), 730_000, 16) == 1


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@pytest.mark.parametrize("total", [1, 2, 10, 100])
def test_limits_are_dealt_out_whole(total: int, workers: int) -> None:
    parts = [share(total, w, workers) for w in range(workers)]
    assert sum(p for p in parts if p is not None) == total
    assert max(p or 0 for p in parts) - min(p or 0 for p in parts) <= 1
    assert share(None, 0, workers) is None
