"""The points behind the charts: few enough for a page, with every extreme kept.

In: the measures, the backlogs and the split that the summary is made of. Out: plain lists by chart
name. Thinning never hides a peak: step functions keep each stretch's lowest and highest level,
scatter plots keep the highest values.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mmload.analysis.measures import Floats, Measures, classes_in_order, failures
from mmload.analysis.quantiles import NS_PER_MS, percentile_curve
from mmload.analysis.queues import Steps
from mmload.analysis.stages import StageLoad
from mmload.records import FAILURES, RecordTable

SCATTER_POINTS: Final = 4000
_BINS: Final = 60
_BIN_WIDTHS_S: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600, 1800, 3600)


def queue(
    arrivals_ns: Floats, done_ns: Floats, backlog: Steps, loads: list[StageLoad]
) -> dict[str, Any]:
    """Cumulative arrivals and completions, their difference, and the backlog of every stage."""
    shown = backlog.thinned()
    return {
        "time_s": _seconds(shown.time_ns),
        "arrivals": _count_until(arrivals_ns, shown.time_ns),
        "completions": _count_until(done_ns, shown.time_ns),
        "backlog": shown.level.tolist(),
        "stages": {load.name: _steps(load.chart) for load in loads},
    }


def latency(table: RecordTable, measures: Measures) -> dict[str, Any]:
    """TTFT and E2E of ok requests over their intended time; the highest quarter of points kept."""
    rows = _thin(np.flatnonzero(measures.ok), measures.e2e_ns, SCATTER_POINTS)
    return {
        "time_s": _seconds(table.times["intended_ns"][rows]),
        "ttft_ms": _ms_list(measures.ttft_ns[rows]),
        "e2e_ms": _ms_list(measures.e2e_ns[rows]),
        "class": [table.class_names[code] for code in table.media_class[rows]],
    }


def curves(table: RecordTable, measures: Measures) -> dict[str, Any]:
    """Percentile curves of TTFT and E2E, and of each class when there are several."""
    named = {"ttft": measures.ttft_ns, "e2e": measures.e2e_ns}
    if len(table.class_names) > 1:
        for class_name, code in classes_in_order(table):
            mine = table.media_class == code
            named[f"ttft: {class_name}"] = measures.ttft_ns[mine]
            named[f"e2e: {class_name}"] = measures.e2e_ns[mine]
    made = {}
    for name, values_ns in named.items():
        percent, values_ms = percentile_curve(values_ns)
        made[name] = {"percent": percent, "ms": values_ms}
    return made


def split_bars(phases: dict[str, Any]) -> dict[str, Any]:
    """The split of the summary turned round: of each stage, its part in every column."""
    columns = [name for name, column in phases.items() if column]
    stages = list(phases[columns[0]]["stages"]) if columns else []
    return {
        "columns": columns,
        "e2e_ms": [phases[column]["e2e_ms"] for column in columns],
        "stages": {s: [phases[column]["stages"][s] for column in columns] for s in stages},
    }


def outcomes_over_time(table: RecordTable, measures: Measures) -> dict[str, Any]:
    """Of the requests intended in each stretch of time: how many were ok, and each failure."""
    intended = table.times["intended_ns"]
    attempted = intended[measures.sent]
    if not len(attempted):
        return {"time_s": [], "bin_s": None, "ok": [], "failed": {}}
    last_s = float(attempted.max()) / 1e9
    width_s = next((w for w in _BIN_WIDTHS_S if last_s / w <= _BINS), last_s / _BINS)
    bins = int(last_s // width_s) + 1
    place = (intended / (width_s * 1e9)).astype(np.int64)

    def counts(mask: NDArray[np.bool_]) -> list[int]:
        of_bin: list[int] = np.bincount(place[mask].clip(0, bins - 1), minlength=bins).tolist()
        return of_bin

    kinds = failures(table)
    return {
        "time_s": [round(i * width_s, 6) for i in range(bins)],
        "bin_s": width_s,
        "ok": counts(measures.ok),
        "failed": {
            kind.value: counts(table.is_outcome(kind)) for kind in FAILURES if kind.value in kinds
        },
    }


def _thin(rows: NDArray[np.int64], values: Floats, points: int) -> NDArray[np.int64]:
    """At most `points` rows: the highest quarter of them by value, the others evenly."""
    if len(rows) <= points:
        return rows
    highest = points // 4
    order = np.argpartition(values[rows], len(rows) - highest)
    rest = np.sort(order[: len(rows) - highest])
    even = rest[np.linspace(0, len(rest) - 1, points - highest).astype(np.int64)]
    chosen: NDArray[np.int64] = rows[
        np.unique(np.concatenate([order[len(rows) - highest :], even]))
    ]
    return chosen


def _count_until(instants_ns: Floats, time_ns: Floats) -> list[int]:
    known = np.sort(instants_ns[~np.isnan(instants_ns)])
    counted: list[int] = np.searchsorted(known, time_ns, side="right").tolist()
    return counted


def _steps(steps: Steps) -> dict[str, Any]:
    return {"time_s": _seconds(steps.time_ns), "backlog": steps.level.tolist()}


def _seconds(time_ns: Floats) -> list[float]:
    seconds: list[float] = np.round(time_ns / 1e9, 6).tolist()
    return seconds


def _ms_list(values_ns: Floats) -> list[float | None]:
    rounded = np.round(values_ns / NS_PER_MS, 3)
    return [None if np.isnan(v) else float(v) for v in rounded]
