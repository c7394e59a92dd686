"""From a scenario to the times of its requests, and whose they are where that matters.

A conversation begins when the arrival process says; its turn j is due j think times later, at an
absolute instant that waits for no answer. A camera sends every so often from its own phase on. Pure
but for the trace file, which is read here.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mmload.clock import NS_PER_S
from mmload.errors import UsageError
from mmload.load import schedule as processes
from mmload.load.prepare.lines import count_lines
from mmload.load.prepare.trace import Trace, read_trace
from mmload.load.schedule import Times, arrivals, profiled_arrivals, seeded
from mmload.scenario import Scenario

CLOSED_LOOP_REQUESTS: Final = 20_000  # prepared when a closed loop is bounded by time alone

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Schedule:
    """When to send. In a closed loop the times are not used, only their number.

    `source[i]` is the conversation or camera that sends request i, `turn[i]` which of its requests
    that is; without either, every request is a source of its own.
    """

    intended_ns: Times
    schedule_s: float
    concurrency: int | None = None
    stop_after_ns: int | None = None
    source: Numbers | None = None
    turn: Numbers | None = None
    trace: Trace | None = None

    def __len__(self) -> int:
        return len(self.intended_ns)

    @property
    def sources(self) -> int:
        return len(self) if self.source is None else int(self.source.max()) + 1


def schedule(scenario: Scenario) -> Schedule:
    """The arrivals that a scenario asks for. Raises UsageError when there are none."""
    if scenario.each_line_once:
        lines = count_lines(Path(str(scenario.dataset)), "--dataset")
        scenario = scenario.model_copy(update={"requests": lines})
    if scenario.load_mode != "open":
        return _closed(scenario)
    if scenario.cameras is not None:
        return _cameras(scenario, scenario.cameras)
    trace = None
    if scenario.trace is not None:
        trace = _cut(scenario, read_trace(Path(scenario.trace)))
        times = trace.times_ns
    else:
        times = _arrivals(scenario)
    if not len(times):
        raise UsageError(
            f"duration: {scenario.duration_s:g} s hold no arrival of this schedule",
            "lengthen it, or raise the rate",
        )
    window_s = _window_s(scenario, times)
    if scenario.turns == 1:
        return Schedule(times, window_s, trace=trace)
    return _conversations(scenario, times, window_s, trace)


def _arrivals(scenario: Scenario) -> Times:
    rng = seeded(scenario.seed, "arrivals")
    match scenario.arrival:
        case "constant":
            unit = processes.even()
        case "poisson":
            unit = processes.poisson(rng)
        case "gamma":
            unit = processes.gamma(rng, scenario.burstiness)
    limit_s = None if scenario.requests is not None else scenario.duration_s
    requests = _begun(scenario)
    if scenario.profile is not None:
        segments = [segment.segment() for segment in scenario.profile]
        return profiled_arrivals(unit, segments, duration_s=limit_s, requests=requests)
    return arrivals(unit, scenario.arrivals_qps, duration_s=limit_s, requests=requests)


def _begun(scenario: Scenario) -> int | None:
    """How many conversations hold so many requests."""
    return None if scenario.requests is None else -(-scenario.requests // scenario.turns)


def _cut(scenario: Scenario, trace: Trace) -> Trace:
    """The trace, or as much of it as a duration or a number of requests leaves."""
    n = len(trace.times_ns)
    if scenario.duration is not None:
        n = int(np.searchsorted(trace.times_ns, round(scenario.duration * NS_PER_S)))
    if (most := _begun(scenario)) is not None:
        n = min(n, most)
    return trace.cut(n)


def _window_s(scenario: Scenario, times: Times) -> float:
    last_s = float(times[-1]) / NS_PER_S
    if scenario.trace is not None and scenario.duration is None:
        return last_s
    if scenario.requests is None:
        return max(scenario.duration_s, last_s)
    # The window of n arrivals at a rate is n gaps long.
    return max(len(times) / scenario.rate, last_s) if scenario.rate else last_s


def _conversations(
    scenario: Scenario, starts: Times, window_s: float, trace: Trace | None
) -> Schedule:
    turns = np.arange(scenario.turns, dtype=np.int64)
    think_ns = np.array([round(j * scenario.think_time_s * NS_PER_S) for j in turns.tolist()])
    times = (starts[:, None] + think_ns[None, :]).ravel()
    source = np.repeat(np.arange(len(starts), dtype=np.int64), scenario.turns)
    turn = np.tile(turns, len(starts))
    return _in_order(times, source, turn, window_s, scenario.requests, trace)


def _cameras(scenario: Scenario, cameras: int) -> Schedule:
    every_ns = round(scenario.every_s * NS_PER_S)
    if scenario.phases == "even":
        phases = [round(k * every_ns / cameras) for k in range(cameras)]
    else:
        rng = seeded(scenario.seed, "arrivals")
        phases = [int(rng.random() * every_ns) for _ in range(cameras)]
    phase_ns = np.array(phases, np.int64)
    if scenario.requests is not None:
        # Nobody's n-th request is later than n periods.
        moments = -(-scenario.requests // cameras) + 1
        limit_s = scenario.requests / cameras * scenario.every_s
    else:
        moments = int(scenario.duration_s / scenario.every_s) + 1
        limit_s = scenario.duration_s
    turn = np.tile(np.arange(moments, dtype=np.int64), cameras)
    source = np.repeat(np.arange(cameras, dtype=np.int64), moments)
    times = phase_ns[source] + turn * every_ns
    if scenario.requests is None:
        within = times < round(limit_s * NS_PER_S)
        times, source, turn = times[within], source[within], turn[within]
    if not len(times):
        raise UsageError(
            f"duration: no camera sends anything within {limit_s:g} s",
            "lengthen it, or shorten --every",
        )
    return _in_order(times, source, turn, limit_s, scenario.requests, None)


def _in_order(
    times: Times,
    source: Numbers,
    turn: Numbers,
    window_s: float,
    requests: int | None,
    trace: Trace | None,
) -> Schedule:
    """By time, then by source; the first `requests` of them."""
    order = np.lexsort((source, times))[:requests]
    times = times[order]
    return Schedule(
        times,
        max(window_s, float(times[-1]) / NS_PER_S),
        source=source[order],
        turn=turn[order],
        trace=trace,
    )


def _closed(scenario: Scenario) -> Schedule:
    concurrency = 1 if scenario.sequential else scenario.concurrency
    requests = scenario.requests or CLOSED_LOOP_REQUESTS
    timed = scenario.requests is None or scenario.duration is not None
    stop_after_ns = round(scenario.duration_s * NS_PER_S) if timed else None
    return Schedule(
        np.zeros(requests, np.int64),
        scenario.duration_s if timed else 0.0,
        concurrency,
        stop_after_ns,
    )
