"""What the stages of an engine share: one device, which does one thing at a time.

Vision encoder, prefill and decode steps take turns on it, so a limit of one of them alone is none:
what each request keeps the device for adds up. In: the stays in the engine's stages, and their
loads. Out: an `Engine`, or None where nothing shows that they take turns (a stage that works on
several requests at once, as continuous batching does, says so and is not counted; stages of
several processes, or that overlap, have devices of their own).

The capacity is an interval. At most: engines / the time that a request has the device for itself.
At least: what was served, over the share of the time in which the engine had anything to do.
Batched steps are between the two: they are part of that share, and more requests share them.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mmload.analysis.growth import Window
from mmload.analysis.join import Joined
from mmload.analysis.queues import union
from mmload.analysis.stages import StageLoad

STAGES: Final = ("encoder", "prefill", "decode")  # as `mmload.hook.stages` names them
_OVERLAP: Final = 0.02  # of their time; more is no taking turns


@dataclass(frozen=True, slots=True)
class Engine:
    """`alone`: stages that have the device for one request, in the order a request meets them;
    `between`: the batched ones. `engines`: processes that have such a device."""

    alone: list[StageLoad]
    between: list[StageLoad]
    engines: int
    service_ms: float  # that a request has the device for itself, mean over the requests
    busy: float | None  # share of the arrivals' time in which a stage had work; one engine only
    served_qps: float  # requests that it took up in that time; the last are still inside at its end

    @property
    def stages(self) -> list[StageLoad]:
        return [*self.alone, *self.between]

    @property
    def most_qps(self) -> float:
        return 1000 * self.engines / self.service_ms

    @property
    def least_qps(self) -> float | None:
        """None where the share of the time is not known."""
        return min(self.served_qps / self.busy, self.most_qps) if self.busy else None

    def utilisation(self, arrival_qps: float) -> float:
        """By what a request has the device for itself."""
        return arrival_qps / self.most_qps


def engine_of(joined: Joined, loads: list[StageLoad], window: Window) -> Engine | None:
    """None without two engine stages, or where nothing shows that they take turns."""
    here = [load for load in loads if load.name in STAGES and load.service_ms]
    alone, between = [x for x in here if not x.batched], [x for x in here if x.batched]
    if len(here) < 2 or not alone:
        return None
    mine = _of(joined, alone)
    by_stage = [set(joined.pid[_of(joined, [load])].tolist()) for load in alone]
    if any(pids != by_stage[0] for pids in by_stage):
        return None
    for pid in by_stage[0]:
        of_pid = mine & (joined.pid == pid)
        begun, over = union(joined.start_ns[of_pid], joined.end_ns[of_pid])
        total = float((joined.end_ns - joined.start_ns)[of_pid].sum())
        if total - float((over - begun).sum()) > _OVERLAP * total:
            return None
    length = float(window.to_ns - window.from_ns)
    if length <= 0:
        return None
    every = _of(joined, here)
    taken_up = np.full(len(joined.has_spans), np.iinfo(np.int64).max)
    np.minimum.at(taken_up, joined.row[every], joined.start_ns[every])
    served = int(np.count_nonzero((taken_up >= window.from_ns) & (taken_up <= window.to_ns)))
    busy = None
    if len(by_stage[0]) == 1:
        begun, over = union(joined.start_ns[every], joined.end_ns[every])
        clipped = np.clip([begun, over], window.from_ns, window.to_ns)
        busy = float((clipped[1] - clipped[0]).sum()) / length
    service_ms = sum(load.service_ms or 0.0 for load in alone)
    return Engine(alone, between, len(by_stage[0]), service_ms, busy, served * 1e9 / length)


def _of(joined: Joined, loads: list[StageLoad]) -> NDArray[np.bool_]:
    names = {load.name for load in loads}
    codes = [code for code, name in enumerate(joined.stage_names) if name in names]
    return np.isin(joined.stage, codes)
