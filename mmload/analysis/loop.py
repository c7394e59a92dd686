"""Time in which a server's event loop was held up, and the requests that waited for it.

In: joined spans, of which some say `on_loop`: their process could do nothing else on its event loop
meanwhile, read no request, send no token; and the stretches in which a watch in the server saw its
loop held up, whatever by (to 20 ms: its timer runs so often). Out: for each chosen request, the
stretches in which its process was held up. They are painted beneath all that its own spans account
for: what no stage claims while something else holds the loop is a wait for the loop. And the
functions that held a loop up of which no span tells.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmload.analysis.join import Joined
from mmload.analysis.queues import union

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


def any_held(joined: Joined) -> bool:
    return bool(holds_loop(joined).any() or _long(joined).any())


def held_up(rows: Ints, sent_ns: Ints, ended_ns: Ints, joined: Joined) -> HeldUp:
    """For each of `rows`, sent and ended at these instants, when its process's loop was held up."""
    door = _door(rows, joined)
    holding, long = holds_loop(joined), _long(joined)
    owners, starts, ends = [], [], []
    for pid in np.unique(np.concatenate([joined.pid[holding], joined.blocked.pid[long]])):
        mine = np.flatnonzero(door == pid)
        spans, seen = holding & (joined.pid == pid), long & (joined.blocked.pid == pid)
        begun, over = union(
            np.concatenate([joined.start_ns[spans], joined.blocked.start_ns[seen]]),
            np.concatenate([joined.end_ns[spans], joined.blocked.end_ns[seen]]),
        )
        first = np.searchsorted(over, sent_ns[mine], side="right")
        last = np.searchsorted(begun, ended_ns[mine], side="left")
        count = np.maximum(last - first, 0)
        which = np.repeat(first, count) + _counting(count)
        owners.append(np.repeat(mine, count))
        starts.append(np.maximum(begun[which], np.repeat(sent_ns[mine], count)))
        ends.append(over[which])
    if not owners:
        none = np.empty(0, np.int64)
        return HeldUp(none, none, none)
    return HeldUp(np.concatenate(owners), np.concatenate(starts), np.concatenate(ends))


class Culprit(NamedTuple):
    """A function that held an event loop up, outside of every span that says so itself."""

    where: str
    times: int
    total_ns: int


def culprits(joined: Joined) -> list[Culprit]:
    """The worst first."""
    blocked, holding = joined.blocked, holds_loop(joined)
    long = _long(joined)
    for pid in np.unique(joined.pid[holding]):
        spans = holding & (joined.pid == pid)
        begun, over = union(joined.start_ns[spans], joined.end_ns[spans])
        middle = (blocked.start_ns + blocked.end_ns) // 2
        at = np.searchsorted(begun, middle, side="right") - 1
        known = (at >= 0) & (middle < over[np.maximum(at, 0)])
        long &= ~(known & (blocked.pid == pid))
    found: dict[str, list[int]] = {}
    for i in np.flatnonzero(long):
        length = int(blocked.end_ns[i] - blocked.start_ns[i])
        found.setdefault(blocked.where[i], []).append(length)
    made = [Culprit(where, len(lengths), sum(lengths)) for where, lengths in found.items()]
    return sorted(made, key=lambda one: -one.total_ns)


def _long(joined: Joined) -> NDArray[np.bool_]:
    """Those of the stretches that the server's watch saw that count."""
    long: NDArray[np.bool_] = joined.blocked.end_ns - joined.blocked.start_ns >= HELD_UP_NS
    return long


def _door(rows: Ints, joined: Joined) -> Ints:
    """The process that each row's first span is of; -1 without spans."""
    door = np.full(len(joined.has_spans), -1, np.int64)
    late_first = np.argsort(-joined.start_ns, kind="stable")
    door[joined.row[late_first]] = joined.pid[late_first]  # the last to be assigned stays
    chosen: Ints = door[rows]
    return chosen


def _counting(count: Ints) -> Ints:
    """0, 1, ... count[0] - 1, 0, 1, ... count[1] - 1, ..."""
    total = np.cumsum(count)
    return np.arange(total[-1] if len(total) else 0) - np.repeat(total - count, count)
