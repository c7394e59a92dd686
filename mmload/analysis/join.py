"""Spans to requests: by id, through the decorations that servers put on ids, onto one clock.

In: the client's records as columns, the hook's spans, the processes they come from. Out: `Joined`,
the spans as columns of row, stage, start and end in the run's time, and a count for everything that
did not fit. Never guesses: an id that fits no request, or two, joins nothing and is counted.
"""

import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mmload.analysis.offset import ClockOffset, estimate
from mmload.hook.stages import Phase, phase_of
from mmload.records import WARM_UP, Outcome, RecordTable, ServerProcess, Span

# vLLM: chatcmpl-{id} outside, {id}-{8 hex} inside, {sample}_{internal} for n > 1.
_SAMPLE: Final = re.compile(r"\d+_")
_PREFIX: Final = re.compile(r"(?:chatcmpl|cmpl|resp|response|responses|msg)[-_]")
_SUFFIX: Final = re.compile(r"-[0-9a-f]{8}$")

LOOP_BLOCKED: Final = "loop_blocked"  # as mmload.hook.loop_watch records it

_SAME_CLOCK_NS: Final = 100_000_000


@dataclass(slots=True)
class Facts:
    """Sums of what the spans of one stage saw: numbers (booleans count as 0 or 1) by name."""

    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    widths: dict[int, int] = field(default_factory=dict)  # the widest pool that a process named
    batched: bool | None = None  # a span says that one piece of work served several requests
    cpu_ns: int = 0  # thread CPU time of the spans that measured it
    cpu_wall_ns: int = 0  # wall time of those same spans

    @property
    def pool_width(self) -> int | None:
        """Of all processes together: each has a pool of its own."""
        return sum(self.widths.values()) or None

    def add(self, facts: dict[str, Any], wall_ns: int, pid: int) -> None:
        for name, value in facts.items():
            if isinstance(value, bool | int | float) and value == value:
                self.sums[name] = self.sums.get(name, 0.0) + value
                self.counts[name] = self.counts.get(name, 0) + 1
        width, cpu_ns = facts.get("pool_width"), facts.get("cpu_ns")
        if isinstance(width, int) and width > 0:
            self.widths[pid] = max(width, self.widths.get(pid, 0))
        if isinstance(cpu_ns, int):
            self.cpu_ns += cpu_ns
            self.cpu_wall_ns += wall_ns
        batched = facts.get("batched")
        if isinstance(batched, bool):
            self.batched = batched or bool(self.batched)


@dataclass(slots=True)
class Blocked:
    """When the event loops of the server's processes were seen to be held up, and by what."""

    pid: NDArray[np.int64]
    start_ns: NDArray[np.int64]  # since the run's origin
    end_ns: NDArray[np.int64]
    where: list[str]  # `module.function`; empty: the loop's thread was not working


@dataclass(slots=True)
class Joined:
    """Spans that belong to requests, as columns of one length, and the count of all others."""

    row: NDArray[np.int64]  # index into the RecordTable
    stage: NDArray[np.int32]  # index into `stage_names`
    start_ns: NDArray[np.int64]  # since the run's origin
    end_ns: NDArray[np.int64]
    stage_names: list[str]
    stage_phases: list[Phase]
    facts: list[Facts]  # by stage
    pid: NDArray[np.int64]
    on_loop: NDArray[np.bool_]  # the span's process could do nothing else on its event loop
    has_spans: NDArray[np.bool_]  # by record
    frames: NDArray[np.float64]  # by record: what its processor was given; NaN where no span says
    blocked: Blocked
    stray_ids: int = 0  # distinct span ids that fit no request
    ambiguous_ids: int = 0  # distinct span ids that fit several requests
    repeated_spans: int = 0  # the same span written twice
    reversed_spans: int = 0  # ends before it starts
    offsets: list[ClockOffset] = field(default_factory=list)  # one a foreign clock


class IdIndex:
    """Finds the request that a span's id means. An id that several requests have means none."""

    NONE: Final = -1
    AMBIGUOUS: Final = -2

    def __init__(self, request_ids: Iterable[str]) -> None:
        self._request_ids = request_ids
        self._row: dict[str, int] = {}  # made when first asked: a run without spans needs none

    def find(self, span_id: str) -> int:
        """Row of the request; the exact id wins, then the least that has to be taken off."""
        if not self._row:
            for number, request_id in enumerate(self._request_ids):
                self._row[request_id] = self.AMBIGUOUS if request_id in self._row else number
        for bare in _undecorated(span_id):
            row = self._row.get(bare)
            if row is not None:
                return row
        return self.NONE


def _undecorated(span_id: str) -> Iterator[str]:
    """The id, then the id without each combination of known decorations, least removed first."""
    yield span_id
    sample, suffix = _SAMPLE.match(span_id), _SUFFIX.search(span_id)
    starts = [0, sample.end()] if sample else [0]
    for start in list(starts):
        prefix = _PREFIX.match(span_id, start)
        if prefix:
            starts.append(prefix.end())
    for start in starts:
        yield span_id[start:]
        if suffix and suffix.start() > start:
            yield span_id[start : suffix.start()]


class _Rows:
    """The row of each span. Some servers give a request an id of their own, by which other
    processes name it: a span that says so (`also_known_as`) may come after theirs, so spans of
    unknown ids are looked at again at the end."""

    _HELD: Final = 1_000_000  # spans; of more than that the rest stays unknown
    _WARM_UP: Final = -3  # a request of no row

    def __init__(self, request_ids: Iterable[str]) -> None:
        self._index = IdIndex(request_ids)
        self._row: dict[str, int] = {}

    def of(self, spans: Iterable[Span]) -> Iterator[tuple[Span, int]]:
        """All spans but those of warm-up requests; those of no request have no row."""
        other: dict[str, int] = {}
        held: list[Span] = []
        for span in spans:
            name = span.request_id
            row = self._WARM_UP if WARM_UP in name else self._row.get(name)
            if row is None:
                row = self._row[name] = self._index.find(name) if name else IdIndex.AMBIGUOUS
            known_as = span.facts.get("also_known_as")
            if (row >= 0 or row == self._WARM_UP) and isinstance(known_as, str):
                if other.setdefault(known_as, row) != row:  # no name, then
                    other[known_as] = IdIndex.AMBIGUOUS
            if row == IdIndex.NONE and len(held) < self._HELD:
                held.append(span)
            elif row != self._WARM_UP:
                yield span, row
        self._row.pop("", None)
        self._row.update(
            (name, row) for name, row in other.items() if self._row.get(name) == IdIndex.NONE
        )
        for span in held:
            row = self._row[span.request_id]
            if row != self._WARM_UP:
                yield span, row

    def count(self, kind: int) -> int:
        """Distinct ids of that kind."""
        return sum(row == kind for row in self._row.values())


def join(
    table: RecordTable,
    spans: Iterable[Span],
    processes: Iterable[ServerProcess],
    origin_ns: int,
    boot_id: str = "",
) -> Joined:
    """Joins `spans` to the rows of `table`; hosts with another `boot_id` have other clocks.

    `processes` is looked at after `spans` was read.
    """
    rows = _Rows(table.request_ids)
    codes: dict[str, int] = {}
    phases: list[Phase] = []
    facts: list[Facts] = []
    frames = np.full(len(table), np.nan)
    flat = array("q")  # row, stage, start, end, pid, on the loop; and again
    backwards = 0
    blocked = array("q")  # pid, start, end; and again
    where: list[str] = []
    for span, row in rows.of(spans):
        if not span.request_id:  # no request's
            if span.stage == LOOP_BLOCKED and span.end_ns > span.start_ns:
                blocked.extend((span.pid, span.start_ns - origin_ns, span.end_ns - origin_ns))
                where.append(str(span.facts.get("where", "")))
            continue
        if row < 0:
            continue
        if span.end_ns < span.start_ns:
            backwards += 1
            continue
        code = codes.get(span.stage)
        if code is None:
            code = codes[span.stage] = len(codes)
            phases.append(phase_of(span.stage, span.phase))
            facts.append(Facts())
        start_ns, end_ns = span.start_ns - origin_ns, span.end_ns - origin_ns
        on_loop = span.facts.get("on_loop") is True
        flat.extend((row, code, start_ns, end_ns, span.pid, on_loop))
        if span.facts:
            facts[code].add(span.facts, end_ns - start_ns, span.pid)
            seen = span.facts.get("frames")
            if span.stage == "processor" and isinstance(seen, int) and seen > 0:  # 0: all cached
                frames[row] = np.fmax(frames[row], seen)  # calls may be nested
    written = np.array(flat, np.int64).reshape(-1, 6)
    columns = np.unique(written, axis=0)  # a buffer that was flushed twice repeats whole lines
    stretches, once = np.unique(
        np.array(blocked, np.int64).reshape(-1, 3), axis=0, return_index=True
    )
    has_spans = np.zeros(len(table), np.bool_)
    has_spans[columns[:, 0]] = True
    joined = Joined(
        row=columns[:, 0],
        stage=columns[:, 1].astype(np.int32),
        start_ns=columns[:, 2],
        end_ns=columns[:, 3],
        stage_names=list(codes),
        stage_phases=phases,
        facts=facts,
        pid=columns[:, 4],
        on_loop=columns[:, 5] > 0,
        has_spans=has_spans,
        frames=frames,
        blocked=Blocked(
            stretches[:, 0], stretches[:, 1], stretches[:, 2], [where[i] for i in once]
        ),
        stray_ids=rows.count(IdIndex.NONE),
        ambiguous_ids=rows.count(IdIndex.AMBIGUOUS),
        repeated_spans=len(written) - len(columns),
        reversed_spans=backwards,
    )
    _onto_one_clock(joined, table, list(processes), boot_id)
    return joined


def _onto_one_clock(
    joined: Joined,
    table: RecordTable,
    processes: list[ServerProcess],
    boot_id: str,
) -> None:
    """Shifts the spans of every host but the client's own by the offset its exchanges show.

    CLOCK_MONOTONIC is one clock for all processes of a boot. Where either side's boot id is not
    known, the clock is taken for the same one unless the exchanges contradict that by far more than
    stamps taken a little late could: clocks of two hosts differ by the time between their boots.
    """
    by_clock: dict[str, list[int]] = {}
    for process in processes:
        by_clock.setdefault(process.boot_id, []).append(process.pid)
    blocked = joined.blocked
    claimed = np.zeros(len(joined.row), np.bool_)
    claimed_too = np.zeros(len(blocked.pid), np.bool_)
    for clock, pids in by_clock.items():
        mine = np.isin(joined.pid, pids) & ~claimed
        theirs = np.isin(blocked.pid, pids) & ~claimed_too
        claimed |= mine
        claimed_too |= theirs
        if clock and clock == boot_id:
            continue
        offset = _estimate(joined, mine, table)
        if offset is None:
            continue
        if not (clock and boot_id) and offset.may_be_zero(_SAME_CLOCK_NS):
            continue
        for times in (joined.start_ns, joined.end_ns):
            times[mine] -= offset.at(times[mine])
        for times in (blocked.start_ns, blocked.end_ns):
            times[theirs] -= offset.at(times[theirs])
        joined.offsets.append(offset)


def _estimate(joined: Joined, mine: NDArray[np.bool_], table: RecordTable) -> ClockOffset | None:
    # Only ok exchanges bound the clock: a server may work on long after a client has given up.
    usable = table.is_outcome(Outcome.ok)
    mine = mine & usable[joined.row]
    first = np.full(len(table), np.inf)
    last = np.full(len(table), -np.inf)
    np.minimum.at(first, joined.row[mine], joined.start_ns[mine])
    np.maximum.at(last, joined.row[mine], joined.end_ns[mine])
    sent, closed = table.times["sent_ns"], table.times["closed_ns"]
    rows = np.flatnonzero(np.isfinite(first) & ~np.isnan(sent) & ~np.isnan(closed))
    return estimate(sent[rows], closed[rows], first[rows], last[rows])
