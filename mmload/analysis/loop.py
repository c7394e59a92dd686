"""Time in which a server's event loop was held up, and the requests that waited for it.

In: joined spans, of which some say `on_loop`: their process could do nothing else on its event loop
meanwhile: read no request, send no token. Out: for each chosen request, the stretches in which its
process was held up. They are painted beneath all that its own spans account for: what no stage
claims while another request's work holds the loop is a wait for the loop.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmload.analysis.join import Joined

LOOP_WAIT: Final = "loop_wait"
HELD_UP_NS: Final = 5_000_000  # shorter stretches are what an event loop is for

Ints = NDArray[np.int64]


class HeldUp(NamedTuple):
    """Stretches by the place of their request among the chosen rows; times since the origin."""

    owner: Ints
    start_ns: Ints
    end_ns: Ints


def holds_loop(joined: Joined) -> NDArray[np.bool_]:
    """Mask of the spans that held their event loop up."""
    held: NDArray[np.bool_] = joined.on_loop & (joined.end_ns - joined.start_ns >= HELD_UP_NS)
    return held


def held_up(rows: Ints, sent_ns: NDArray[np.float64], ended_ns: Ints, joined: Joined) -> HeldUp:
    """For each of `rows`, sent and ended at these instants, when its process's loop was held up."""
    door = _door(rows, joined)
    holding = holds_loop(joined)
    owners, starts, ends = [], [], []
    for pid in np.unique(joined.pid[holding]):
        mine = np.flatnonzero(door == pid)
        begun, over = _merged(joined, holding & (joined.pid == pid))
        first = np.searchsorted(over, sent_ns[mine], side="right")
        last = np.searchsorted(begun, ended_ns[mine], side="left")
        count = np.maximum(last - first, 0)
        which = np.repeat(first, count) + _counting(count)
        owners.append(np.repeat(mine, count))
        starts.append(np.maximum(begun[which], np.repeat(sent_ns[mine], count).astype(np.int64)))
        ends.append(over[which])
    if not owners:
        none = np.empty(0, np.int64)
        return HeldUp(none, none, none)
    return HeldUp(np.concatenate(owners), np.concatenate(starts), np.concatenate(ends))


def _door(rows: Ints, joined: Joined) -> Ints:
    """The process that each row's first span is of; -1 without spans."""
    door = np.full(len(joined.has_spans), -1, np.int64)
    late_first = np.argsort(-joined.start_ns, kind="stable")
    door[joined.row[late_first]] = joined.pid[late_first]  # the last to be assigned stays
    chosen: Ints = door[rows]
    return chosen


def _merged(joined: Joined, mine: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """The union of spans, as ascending stretches that do not touch (nested ones are one)."""
    order = np.argsort(joined.start_ns[mine], kind="stable")
    start, end = joined.start_ns[mine][order], joined.end_ns[mine][order]
    reach = np.maximum.accumulate(end)
    opens = np.concatenate([[True], start[1:] > reach[:-1]])
    closes = np.concatenate([opens[1:], [True]])
    return start[opens], reach[closes]


def _counting(count: Ints) -> Ints:
    """0, 1, ... count[0] - 1, 0, 1, ... count[1] - 1, ..."""
    total = np.cumsum(count)
    return np.arange(total[-1] if len(total) else 0) - np.repeat(total - count, count)
