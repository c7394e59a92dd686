"""Stretches of time that overlap, dealt out to lanes in which they do not, or nest.

Viewers of traces draw a thread as slices inside slices: what overlaps must be on another thread.
"""

from typing import Any, NamedTuple


class Slice(NamedTuple):
    """A stretch of time on some thread. `end_ns` is never before `start_ns`."""

    start_ns: int
    end_ns: int
    name: str
    args: dict[str, Any]


def nesting(found: list[tuple[Slice, int]]) -> list[list[tuple[Slice, int]]]:
    """Spans of one thread dealt out so that those of a lane nest: each goes to the first lane in
    which it lies inside, or after, all that are open there."""
    lanes: list[list[tuple[Slice, int]]] = []
    opened: list[list[int]] = []  # ends of the open slices of each lane, the outermost first
    for one in sorted(found, key=lambda item: (item[0].start_ns, -item[0].end_ns)):
        lane = next((i for i, ends in enumerate(opened) if _fits(one[0], ends)), len(lanes))
        if lane == len(lanes):
            lanes.append([])
            opened.append([])
        opened[lane].append(one[0].end_ns)
        lanes[lane].append(one)
    return lanes


def _fits(one: Slice, ends: list[int]) -> bool:
    """Closes what has ended by then."""
    while ends and ends[-1] <= one.start_ns:
        ends.pop()
    return not ends or one.end_ns <= ends[-1]
