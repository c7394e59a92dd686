"""The runs of a sweep as a table: settings x loads x repeats, and the medians of each point.

In: the plan and an `Outcome` a run. Out: `Table`, whose `cells` the tests read, and the points as
plain data (docs/sweep.md). A setting is what a server is started with (flags and variables), a load
is what it is given; a point is one of each. Pure.
"""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from mmload.sweep.axes import Axis, Design, Point, Value, show
from mmload.sweep.effects import Noise
from mmload.sweep.figures import Figures, Outcome
from mmload.sweep.plan import Plan

MOST_FAILED: Final = 0.01  # a setting that fails more requests is not recommended for its latency
_COUNTS: Final = ("worker", "thread", "count", "num", "process")


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to start the server; `points` are its points, by load number."""

    number: int
    values: tuple[tuple[Axis, Value], ...]  # of varying axes
    points: Mapping[int, int]
    is_reference: bool

    @property
    def label(self) -> str:
        return ", ".join(f"{axis.name}={show(value)}" for axis, value in self.values)


class Table:
    """All that the tests need, by point and repeat."""

    def __init__(self, plan: Plan, outcomes: Sequence[Outcome], defaults: Mapping[str, str]):
        self.plan = plan
        self.design: Design = plan.design
        self.by_point: dict[int, list[Outcome]] = {p.number: [] for p in plan.points}
        for outcome in outcomes:
            self.by_point[outcome.work.point].append(outcome)
        self.reference, self.reference_is_default = _reference(self.design, defaults)
        self.settings, self.loads = _settings_and_loads(self.design, self.reference)
        self.cost_title, self._cost = self._cost_rule()

    def figures(self, point: int) -> list[Figures]:
        """Of the point's valid runs."""
        return [one.figures for one in self.by_point[point] if one.figures is not None]

    def values(self, point: int) -> NDArray[np.float64]:
        """The objective a repeat, NaN for runs that are not there or not valid."""
        found = np.full(self.plan.repeats, np.nan)
        for one in self.by_point[point]:
            if one.figures is not None and one.figures.objective_ms:
                found[one.work.repeat - 1] = one.figures.objective_ms
        return found

    def median(self, point: int, pick: Callable[[Figures], float | None]) -> float | None:
        values = [v for one in self.figures(point) if (v := pick(one)) is not None]
        return statistics.median(values) if values else None

    def noise(self) -> float | None:
        """How far repeats of one point lie apart: the pooled standard deviation of logarithms."""
        total, df = 0.0, 0
        for point in self.by_point:
            logs = np.log(self.values(point))
            logs = logs[~np.isnan(logs)]
            if len(logs) > 1:
                total += float(((logs - logs.mean()) ** 2).sum())
                df += len(logs) - 1
        return math.sqrt(total / df) if df else None

    def residual(self) -> Noise:
        """What is left of the objective's logarithm without points and blocks (repeats of a load):
        the scatter that a comparison within blocks meets. Of points with all their repeats."""
        total, df = 0.0, 0
        for load in range(len(self.loads)):
            rows = [self.values(s.points[load]) for s in self.settings if load in s.points]
            whole = [np.log(row) for row in rows if not np.isnan(row).any()]
            if len(whole) > 1 and self.plan.repeats > 1:
                y = np.array(whole)
                left = y - y.mean(axis=1, keepdims=True) - y.mean(axis=0) + y.mean()
                total += float((left**2).sum())
                df += (y.shape[0] - 1) * (y.shape[1] - 1)
        return Noise(total / df if df else 0.0, df)

    def score_ms(self, setting: Setting) -> float | None:
        """Geometric mean over the loads of the point's median; None if a load has no valid run, or
        fails more requests than a recommendation may."""
        logs = []
        for point in setting.points.values():
            middle = self.median(point, lambda one: one.objective_ms)
            failed = self.median(point, lambda one: one.failed_share)
            if middle is None or middle <= 0 or failed is None or failed > MOST_FAILED:
                return None
            logs.append(math.log(middle))
        return math.exp(math.fsum(logs) / len(logs)) if len(logs) == len(self.loads) else None

    def cells(self, setting: Setting) -> list[NDArray[np.float64]]:
        """The objective of a setting: a cell a load, in the order of the loads."""
        return [self.values(setting.points[load]) for load in sorted(setting.points)]

    def cost(self, point: int) -> float | None:
        return self._cost(point)

    def _cost_rule(self) -> tuple[str, Callable[[int], float | None]]:
        """What a point costs: the workers and threads it was given; without such axes, the CPU time
        that its runs used."""
        counts = [
            axis
            for axis in self.design.varying
            if axis.kind != "load"
            and any(word in axis.name.lower() for word in _COUNTS)
            and all(str(value).isdigit() and int(str(value)) > 0 for value in axis.values)
        ]
        if counts:
            points = {p.number: p for p in self.design.points}
            return " x ".join(axis.name for axis in counts), lambda p: float(
                math.prod(int(str(points[p].value(axis))) for axis in counts)
            )
        seen = [self.median(p, lambda one: one.cpu_cores) for p in self.by_point if self.figures(p)]
        if seen and all(value is not None for value in seen):
            return "CPU cores used", lambda p: self.median(p, lambda one: one.cpu_cores)
        return "", lambda _: None

    # -- as data -------------------------------------------------------------------------------

    def point_data(self, point: Point) -> dict[str, Any]:
        """A row of `points` of docs/sweep.md."""
        number = point.number
        outcomes = self.by_point[number]
        found = self.figures(number)
        verdicts = Counter(one.queue for one in found)
        limits = Counter(one.bottleneck_title for one in found if one.bottleneck_title)
        phases = {
            name: self.median(number, lambda one, name=name: one.phases_ms.get(name))  # type: ignore[misc]
            for name in (found[0].phases_ms if found else ())
        }
        return {
            "point": number,
            "label": self.design.label(point),
            "values": " / ".join(show(point.value(axis)) for axis in self.design.varying),
            "set": point.set,
            "env": point.env,
            "load": point.load,
            "valid_runs": len(found),
            "reasons": sorted({f"{o.status}: {o.reason}" for o in outcomes if o.figures is None}),
            "objective_ms": rounded(self.median(number, lambda one: one.objective_ms)),
            "objective_each_ms": [
                rounded(one.figures.objective_ms) for one in outcomes if one.figures is not None
            ],
            "ttft_ms": {
                q: rounded(self.median(number, lambda one, q=q: one.ttft_ms.get(q)))  # type: ignore[misc]
                for q in ("p50", "p90", "p99")
            },
            "e2e_p90_ms": rounded(self.median(number, lambda one: one.e2e_p90_ms)),
            "throughput_qps": rounded(self.median(number, lambda one: one.throughput_qps)),
            "failed_share": rounded(self.median(number, lambda one: one.failed_share)),
            "queue": dict(verdicts),
            "growth_per_s": rounded(self.median(number, lambda one: one.growth_per_s)),
            "phases_ms": {name: rounded(value) for name, value in phases.items()},
            "bottleneck": limits.most_common(1)[0][0] if limits else None,
            "capacity_qps": rounded(self.median(number, lambda one: one.capacity_qps)),
            "utilisation": rounded(self.median(number, lambda one: one.utilisation)),
            "cpu_cores": rounded(self.median(number, lambda one: one.cpu_cores)),
            "cost": rounded(self.cost(number)) if found else None,
            "runs": [
                {
                    "repeat": one.work.repeat,
                    "folder": one.folder,
                    "status": one.status,
                    "reason": one.reason,
                    "objective_ms": rounded(one.figures.objective_ms) if one.figures else None,
                }
                for one in sorted(outcomes, key=lambda one: one.work.repeat)
            ],
        }


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6) + 0.0  # no -0.0


def _reference(design: Design, defaults: Mapping[str, str]) -> tuple[dict[Axis, Value], bool]:
    """The level of each server axis that changes are counted from: unset where that is one of them,
    else the server's known default, else the first. And whether all of them are defaults."""
    levels: dict[Axis, Value] = {}
    all_default = True
    for axis in design.axes:
        default = defaults.get(axis.name) if axis.kind == "set" else None
        if None in axis.values:
            levels[axis] = None
        elif default in axis.values:
            levels[axis] = default
        else:
            levels[axis] = axis.values[0]
            all_default = all_default and axis.kind == "load"
    return levels, all_default


def _settings_and_loads(
    design: Design, reference: Mapping[Axis, Value]
) -> tuple[list[Setting], list[dict[str, Value]]]:
    server_axes = [axis for axis in design.varying if axis.kind != "load"]
    loads: dict[bytes, dict[str, Value]] = {}
    settings: dict[bytes, dict[int, int]] = {}
    values: dict[bytes, tuple[tuple[Axis, Value], ...]] = {}
    for point in design.points:
        load_key = msgspec.json.encode(sorted(point.load.items()))
        loads.setdefault(load_key, dict(point.load))
        load = list(loads).index(load_key)
        key = msgspec.json.encode([sorted(point.set.items()), sorted(point.env.items())])
        settings.setdefault(key, {})[load] = point.number
        values[key] = tuple((axis, point.value(axis)) for axis in server_axes)
    made = [
        Setting(number, values[key], points, all(reference[a] == v for a, v in values[key]))
        for number, (key, points) in enumerate(settings.items())
    ]
    return made, list(loads.values())
