"""How many connections a load may need, against the limit of open files."""

import resource

import numpy as np
import pytest

from mmload.load import open_files
from mmload.load.open_files import RESERVED, most_in_flight

S = 1_000_000_000


@pytest.mark.parametrize(
    ("times_s", "timeout_s", "cap", "most"),
    [
        ([], 10, None, 0),
        ([0, 1, 2, 3], 300, None, 4),
        ([0, 1, 2, 3], 1.5, None, 2),
        ([0, 1, 2, 3], 2, None, 3),  # at its last instant the first is still there
        ([0, 0, 0, 9], 1, None, 3),
        ([0, 1, 2, 3], 300, 2, 2),
    ],
)
def test_most_in_flight(times_s: list[float], timeout_s: float, cap: int | None, most: int) -> None:
    times = np.array([round(t * S) for t in times_s], np.int64)
    assert most_in_flight(times, round(timeout_s * S), cap) == most


class Limit:
    """A pretended limit of open files."""

    def __init__(self, soft: int, hard: int) -> None:
        self.now = (soft, hard)

    def get(self, _: int) -> tuple[int, int]:
        return self.now

    def set(self, _: int, wanted: tuple[int, int]) -> None:
        self.now = wanted


@pytest.mark.parametrize(
    ("soft", "hard", "connections", "after", "enough"),
    [
        (1024, 4096, 500, 1024, True),
        (1024, 4096, 2000, 2000 + RESERVED, True),
        (1024, 4096, 5000, 4096, False),
        (1024, resource.RLIM_INFINITY, 5000, 5000 + RESERVED, True),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 5000, resource.RLIM_INFINITY, True),
        (64, 64, 100, 64, False),
    ],
)
def test_the_soft_limit_is_raised_as_far_as_needed(
    soft: int,
    hard: int,
    connections: int,
    after: int,
    enough: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit = Limit(soft, hard)
    monkeypatch.setattr(resource, "getrlimit", limit.get)
    monkeypatch.setattr(resource, "setrlimit", limit.set)
    open_files.allow(connections)
    assert limit.now == (after, hard)
    said = open_files.shortage(connections)
    assert (said is None) is enough
    if said is not None:
        assert f"about {max(0, after - RESERVED)}" in said
        assert f"ulimit -n {connections + RESERVED}" in said
