"""Each stage of the server: how long requests are in it, how wide it is, how near its limit.

In: the stays in each stage (from spans, and from the client's own stamps), the split of the ok
requests, the arrival rate and the window. Out: one `StageLoad` a stage, in the order a request
meets them. Utilisation = arrival rate x mean service time / width: the work that the schedule asks
of a stage each second, over what the stage can do in a second. It exceeds 1 when the stage cannot
keep up, and says so even while other stages throttle the flow.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mmload.analysis.growth import Growth, Window, judge
from mmload.analysis.join import Facts, Joined
from mmload.analysis.loop import holds_loop
from mmload.analysis.phases import Split
from mmload.analysis.quantiles import dist, ms
from mmload.analysis.queues import Steps
from mmload.hook.stages import STAGE_BY_NAME, STAGE_ORDER, STOCK_CALLS, Phase
from mmload.records import RecordTable

_WORK_PHASES: Final = ("cpu", "gpu")
# A hook that sees a pool's queue stamps the pool's width on the wait, not always on the work.
_POOL_SEEN_BY: Final = {
    "media_decode": "media_wait",
    "tokenize": "renderer_wait",
    "processor": "processor_wait",
}
_NOT_MEANS: Final = ("pool_width", "batched", "on_loop")  # settings, told elsewhere


@dataclass(slots=True)
class StageLoad:
    """One stage under this load. `service_ms` is a mean over all ok requests that have spans.

    It counts a request that skips the stage as 0, so width / service time is a rate of requests.
    """

    name: str
    title: str
    phase: Phase
    ms: dict[str, Any] | None
    self_ms: dict[str, Any] | None
    n: int
    calls: int
    service_ms: float | None  # None for waits, client and output
    self_service_ms: float  # the same of the time that is attributed to it alone
    observed_width: int
    configured_width: int | None
    utilisation: float | None
    capacity_qps: float | None
    off_cpu_share: float | None  # of the wall time of spans that measured their thread's CPU time
    batched: bool
    on_loop: bool  # it runs on its process's event loop, and holds it up
    facts: dict[str, float]
    chart: Steps  # its backlog, thinned
    growth: Growth

    @property
    def width(self) -> int:
        return self.configured_width or self.observed_width


@dataclass(slots=True)
class Stays:
    """Every stay of any request in one stage: whose, from when to when, and what was seen."""

    name: str
    phase: Phase
    row: NDArray[np.int64]
    start_ns: NDArray[np.float64]
    end_ns: NDArray[np.float64]
    facts: Facts
    loops: int = 0  # event loops that it runs on and holds up


def client_stays(table: RecordTable, sent: NDArray[np.bool_], joined: Joined | None) -> list[Stays]:
    """The stages that the client sees: schedule lag, send, and, given spans, the accept wait."""
    t = table.times
    let_go = np.flatnonzero(sent & ~np.isnan(t["sent_ns"]))
    begun, handed = t["sent_ns"][let_go], t["send_end_ns"][let_go]
    handed = np.fmax(begun, handed)
    lag = Stays("schedule_lag", "client", let_go, t["intended_ns"][let_go], begun, Facts())
    stays = [lag, Stays("send", "client", let_go, begun, handed, Facts())]
    if joined is not None and len(joined.row):
        first = np.full(len(table), np.inf)
        np.minimum.at(first, joined.row, joined.start_ns)
        seen = first[let_go] >= handed
        seen &= joined.has_spans[let_go]
        row, end = let_go[seen], first[let_go[seen]]
        stays.append(Stays("accept_wait", "queueing", row, handed[seen], end, Facts()))
    return stays


def server_stays(joined: Joined) -> list[Stays]:
    """The stages of the spans."""
    found = []
    for code, name in enumerate(joined.stage_names):
        mine = joined.stage == code
        start, end = joined.start_ns[mine], joined.end_ns[mine]
        found.append(
            Stays(
                name,
                joined.stage_phases[code],
                joined.row[mine],
                start.astype(np.float64),
                end.astype(np.float64),
                joined.facts[code],
                _loops(joined, mine),
            )
        )
    return found


def _loops(joined: Joined, mine: NDArray[np.bool_]) -> int:
    """Event loops that most of these spans hold up, one a process; 0: they do not."""
    held = holds_loop(joined) & mine
    if 2 * np.count_nonzero(held) <= np.count_nonzero(mine):
        return 0
    return len(np.unique(joined.pid[held]))


def stage_loads(
    stays: list[Stays],
    parts: Split,
    has_spans: NDArray[np.bool_],
    arrival_qps: float | None,
    window: Window,
) -> list[StageLoad]:
    """Loads of all stages. `parts` holds the ok requests; the others count for widths only."""
    place = np.full(len(has_spans), -1, np.int64)
    place[parts.rows] = np.arange(len(parts.rows))
    joined_ok = int(np.count_nonzero(has_spans[parts.rows]))
    order = sorted(stays, key=lambda s: (STAGE_ORDER.get(s.name, len(STAGE_ORDER)), s.name))
    pools = {one.name: one.facts.pool_width for one in stays}

    def given_width(one: Stays) -> int | None:
        return one.loops or pools[one.name] or pools.get(_POOL_SEEN_BY.get(one.name, ""))

    return [
        _load(one, given_width(one), parts, place, joined_ok, arrival_qps, window) for one in order
    ]


def _load(
    stays: Stays,
    given_width: int | None,
    parts: Split,
    place: NDArray[np.int64],
    joined_ok: int,
    arrival_qps: float | None,
    window: Window,
) -> StageLoad:
    name, facts = stays.name, stays.facts
    lengths = stays.end_ns - stays.start_ns
    backlog = Steps.of(stays.start_ns, stays.end_ns)
    owner = place[stays.row]
    of_ok = owner >= 0
    total = np.bincount(owner[of_ok], weights=lengths[of_ok], minlength=len(parts.rows))
    visited = np.bincount(owner[of_ok], minlength=len(parts.rows)) > 0
    alone = parts.ns[visited, parts.stages.index(name)].astype(np.float64)

    works = stays.phase in _WORK_PHASES
    service_ns = float(total.sum()) / joined_ok if works and joined_ok else None
    batched = name == "decode" if facts.batched is None else facts.batched
    configured = given_width if works else None
    width = configured or backlog.max
    utilisation = capacity = None
    if service_ns and batched:
        # Requests share the work of a batch, so time in it over width says nothing of its limit:
        # the share of the time in which it had anything to do is all that can be seen.
        length = max(window.to_ns, float(backlog.time_ns[-1])) - window.from_ns
        utilisation = backlog.busy_ns() / length if length > 0 else None
    elif service_ns and width:
        capacity = width * 1e9 / service_ns
        utilisation = arrival_qps / capacity if arrival_qps else None
    known = STAGE_BY_NAME.get(name)
    return StageLoad(
        name=name,
        title=known.title if known else name.replace("_", " "),
        phase=stays.phase,
        ms=dist(total[visited].astype(np.float64)),
        self_ms=dist(alone),
        n=int(np.count_nonzero(visited)),
        calls=len(stays.row),
        service_ms=ms(service_ns) if service_ns is not None else None,
        self_service_ms=ms(float(alone.sum()) / joined_ok) if joined_ok else 0.0,
        observed_width=backlog.max,
        configured_width=configured,
        utilisation=utilisation,
        capacity_qps=capacity,
        off_cpu_share=max(0.0, 1 - facts.cpu_ns / facts.cpu_wall_ns) if facts.cpu_wall_ns else None,
        batched=batched,
        on_loop=stays.loops > 0,
        facts=_means(facts),
        chart=backlog.thinned(),
        growth=judge(window, stays.start_ns, lengths, backlog),
    )


def _means(facts: Facts) -> dict[str, float]:
    """Means of the numbers that the spans saw; nanoseconds become milliseconds, name and value."""
    means = {}
    for name, total in facts.sums.items():
        if name in _NOT_MEANS or name.startswith(STOCK_CALLS):
            continue
        mean = total / facts.counts[name]
        if name.endswith("_ns"):
            name, mean = name.removesuffix("_ns") + "_ms", ms(mean)
        means[name] = round(mean, 6)
    return means
