"""Where each request's wall time went: every nanosecond belongs to exactly one stage.

In: the records of chosen rows and their spans. Out: a matrix of nanoseconds, requests by stages,
whose rows sum to the requests' wall time exactly: [intended, last output], or to the close of a
request that gave no output. At each instant one stage owns the time: work beats handing out its
results (the output phase), which beats waiting; of several the one that started last (the
innermost). What no stage claims while another request's work held the server's event loop up is a
wait for the loop; what is left is unattributed. Nothing is ever spread, scaled or dropped.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mmload.analysis.join import Joined
from mmload.analysis.loop import LOOP_WAIT, HeldUp, any_held, held_up
from mmload.hook.stages import STAGE_ORDER, STAGES, Phase

UNATTRIBUTED: Final = "unattributed"
_CLIENT_STAGES: Final = ("schedule_lag", "send", "accept_wait")

_RANK: Final[dict[Phase, int]] = {"queueing": 0, "output": 1}  # all other work: 2
_HELD_UP: Final = -1

_BLOCK: Final = 1024  # requests painted at once: bounds the scratch matrices


@dataclass(slots=True)
class Split:
    """`ns[i, j]`: nanoseconds of request `rows[i]` that belong to `stages[j]`."""

    rows: NDArray[np.int64]
    stages: list[str]  # in the order a request meets them; the last is `unattributed`
    phases: list[Phase]
    ns: NDArray[np.int64]
    wall_ns: NDArray[np.int64]


def split(
    rows: NDArray[np.int64], times: dict[str, NDArray[np.float64]], joined: Joined | None
) -> Split:
    """Splits the wall time of `rows`: records that were sent and have ended.

    A request without spans owns its schedule lag and its send; the rest of it is unattributed.
    """
    intended = times["intended_ns"][rows]
    output, closed = times["last_output_ns"][rows], times["closed_ns"][rows]
    wall = (np.where(np.isnan(output), closed, output) - intended).astype(np.int64)
    names, phases = _columns(joined)
    ns = np.zeros((len(rows), len(names)), np.int64)
    # Instants count from each request's intended time, clipped to its wall time.
    sent = np.nan_to_num(times["sent_ns"][rows] - intended, nan=0.0)
    sent_end = np.fmax(np.nan_to_num(times["send_end_ns"][rows] - intended, nan=0.0), sent)
    sent = np.clip(sent.astype(np.int64), 0, wall)
    sent_end = np.clip(sent_end.astype(np.int64), 0, wall)
    lag, send = names.index("schedule_lag"), names.index("send")
    ns[:, lag], ns[:, send] = sent, sent_end - sent
    ns[:, -1] = wall - sent_end
    if joined is not None and len(joined.row):
        base = intended.astype(np.int64)
        held = held_up(rows, base + sent.astype(np.int64), base + wall, joined)
        spans = _spans_of(rows, base, joined, held, names)
        client = np.array([names.index(n) for n in ("accept_wait", "send", "schedule_lag")])
        for part in spans.blocks():
            own = spans.claims(part)
            first_start = spans.first_start[part]
            starts = np.stack([sent[part], sent[part], np.zeros_like(part)], axis=1)
            ends = np.stack([first_start, sent_end[part], sent[part]], axis=1)
            claims = _Claims(
                np.concatenate([starts, own.start], axis=1),
                np.concatenate([ends, own.end], axis=1),
                np.concatenate([np.tile(client, (len(part), 1)), own.column], axis=1),
            )
            ns[part] = _paint(claims, wall[part], len(names))
    return Split(rows, names, phases, ns, wall)


def loop_wait_ms(parts: Split) -> float:
    """Mean wait for a held-up event loop."""
    if LOOP_WAIT not in parts.stages or not len(parts.rows):
        return 0.0
    return float(parts.ns[:, parts.stages.index(LOOP_WAIT)].mean()) / 1e6


def _columns(joined: Joined | None) -> tuple[list[str], list[Phase]]:
    """Stage names of the matrix, in the order a request meets them, and their phases."""
    phase: dict[str, Phase] = {s.name: s.phase for s in STAGES if s.name in _CLIENT_STAGES}
    if joined is None or not len(joined.row):
        del phase["accept_wait"]  # nothing tells it from the rest of the time
    else:
        phase |= dict(zip(joined.stage_names, joined.stage_phases, strict=True))
        if any_held(joined):
            phase[LOOP_WAIT] = "queueing"
    names = sorted(phase, key=lambda name: (STAGE_ORDER.get(name, len(STAGES)), name))
    return [*names, UNATTRIBUTED], [*(phase[name] for name in names), "unattributed"]


@dataclass(slots=True)
class _Claims:
    """What a block of requests is painted with: matrices, requests by claims, in painting order."""

    start: NDArray[np.int64]
    end: NDArray[np.int64]  # not after start: no claim
    column: NDArray[np.int64]


@dataclass(slots=True)
class _Spans:
    """The chosen requests' spans in painting order: request i owns `count[i]` from `first[i]`."""

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    column: NDArray[np.int64]
    first: NDArray[np.int64]
    count: NDArray[np.int64]
    first_start: NDArray[np.int64]  # when the request's own first span starts

    def blocks(self) -> Iterator[NDArray[np.int64]]:
        """The requests that have spans, in blocks of similar span counts."""
        order = np.argsort(self.count, kind="stable")
        order = order[self.count[order] > 0]
        for at in range(0, len(order), _BLOCK):
            yield order[at : at + _BLOCK]

    def claims(self, part: NDArray[np.int64]) -> _Claims:
        slot = np.arange(self.count[part].max())
        real = slot < self.count[part, None]
        slot = np.where(real, self.first[part, None] + slot, 0)
        return _Claims(
            np.where(real, self.start[slot], np.iinfo(np.int64).max),
            np.where(real, self.end[slot], 0),
            self.column[slot],
        )


def _spans_of(
    rows: NDArray[np.int64],
    base: NDArray[np.int64],
    joined: Joined,
    held: HeldUp,
    names: list[str],
) -> _Spans:
    place = np.full(len(joined.has_spans), -1, np.int64)
    place[rows] = np.arange(len(rows))
    owner = place[joined.row]
    kept = np.flatnonzero(owner >= 0)
    owner = owner[kept]
    rank = np.array([_RANK.get(phase, 2) for phase in joined.stage_phases])[joined.stage[kept]]
    stage = np.array([names.index(n) for n in joined.stage_names])[joined.stage[kept]]
    start, end = joined.start_ns[kept] - base[owner], joined.end_ns[kept] - base[owner]
    first_start = np.full(len(rows), np.iinfo(np.int64).max)
    np.minimum.at(first_start, owner, start)
    if len(held.owner):
        owner = np.concatenate([owner, held.owner])
        start = np.concatenate([start, held.start_ns - base[held.owner]])
        end = np.concatenate([end, held.end_ns - base[held.owner]])
        rank = np.concatenate([rank, np.full(len(held.owner), _HELD_UP)])
        stage = np.concatenate([stage, np.full(len(held.owner), names.index(LOOP_WAIT))])
    order = np.lexsort((stage, -end, start, rank, owner))
    count = np.bincount(owner, minlength=len(rows))
    return _Spans(
        start[order],
        end[order],
        stage[order],
        np.concatenate(([0], np.cumsum(count)[:-1])),
        count,
        first_start,
    )


def _paint(claims: _Claims, wall: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Paints the claims over the stretches between all their edges; the last coat is what shows.

    The order of the coats is the rule of who owns an instant: accept wait, send and schedule lag
    (they lose to any span, so that a foreign clock's slack cannot hide work), then what held the
    server's loop up, then the server's waits, its output, then its work; among equals the later
    start on top, then the earlier end, then the later stage.
    """
    limit = wall[:, None]
    start, end = np.clip(claims.start, 0, limit), np.clip(claims.end, 0, limit)
    edges = np.concatenate([np.zeros_like(limit), start, end, limit], axis=1)
    edges.sort(axis=1)
    left, length = edges[:, :-1], np.diff(edges, axis=1)
    shown = np.full(length.shape, width - 1, np.int64)  # unattributed
    for coat in range(start.shape[1]):
        covered = (left >= start[:, coat, None]) & (left < end[:, coat, None])
        np.copyto(shown, claims.column[:, coat, None], where=covered)
    cell = (np.arange(len(wall))[:, None] * width + shown).ravel()
    # bincount adds in float64: exact below 2**53 ns, which is 104 days
    sums = np.bincount(cell, weights=length.ravel(), minlength=len(wall) * width)
    return sums.astype(np.int64).reshape(len(wall), width)
