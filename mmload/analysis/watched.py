"""What was seen of the server from outside, second by second: its own gauges, processes, GPUs.

In: the samples of metrics.jsonl, the run's origin, the backlog as the client knows it. Out: the
`server_series` and `resources` of docs/summary.md, and the points of their chart. A sample from
before the start is a counter's beginning, and in no mean.
"""

from collections.abc import Iterable
from typing import Any, Final

from mmload.analysis.queues import Steps
from mmload.records import Sample
from mmload.watch.names import METRICS

SERVER: Final = "server"
PROCESSES: Final = "processes"
CHART_POINTS: Final = 1200
HIDDEN_FROM: Final = 4  # requests that no gauge shows; fewer may be on their way
_METRIC: Final = {metric.key: metric for metric in METRICS}

Section = dict[str, Any]


class Watched:
    """The samples by source, in time. `seconds` are since the run's origin."""

    def __init__(self, samples: Iterable[Sample], origin_ns: int, end_s: float) -> None:
        self._ok: dict[str, list[tuple[float, dict[str, float]]]] = {}
        self._errors: dict[str, list[str]] = {}
        for sample in samples:
            at_s = (sample.at_ns - origin_ns) / 1e9
            if sample.error:
                self._errors.setdefault(sample.source, []).append(sample.error)
            else:
                self._ok.setdefault(sample.source, []).append((at_s, sample.values))
        self._end_s = end_s

    def _during(self, source: str, key: str) -> list[tuple[float, float]]:
        """(seconds, value) while the load lasted."""
        return [
            (at_s, values[key])
            for at_s, values in self._ok.get(source, [])
            if key in values and 0 <= at_s <= self._end_s
        ]

    def server_series(self, backlog: Steps) -> Section | None:
        """None when the server was not asked."""
        scrapes, errors = self._ok.get(SERVER, []), self._errors.get(SERVER, [])
        if not scrapes and not errors:
            return None
        keys = list(dict.fromkeys(key for _, values in scrapes for key in values))
        return {
            "scrapes": len(scrapes),
            "failed": len(errors),
            "error": errors[-1] if errors else "",
            "gauges": {key: found for key in keys if (found := self._gauge(key)) is not None},
            "counters": {
                key: {"title": _METRIC[key].title, "increase": self._increase(key)}
                for key in keys
                if key in _METRIC and _METRIC[key].kind == "counter"
            },
            "unseen": self._unseen(backlog),
        }

    def _gauge(self, key: str) -> Section | None:
        base, _, label = key.partition(".")
        metric = _METRIC.get(base)
        values = [value for _, value in self._during(SERVER, key)]
        if metric is None or metric.kind != "gauge" or not values:
            return None
        return {
            "title": f"{metric.title} {label}".strip(),
            "mean": round(sum(values) / len(values), 4),
            "max": max(values),
            "last": values[-1],
        }

    def _increase(self, key: str) -> float:
        """From the last sample before the start to the very last; a restart counts from 0."""
        found = [(t, values[key]) for t, values in self._ok[SERVER] if key in values]
        start = max((i for i, (t, _) in enumerate(found) if t <= 0), default=0)
        total = 0.0
        for (_, before), (_, after) in zip(found[start:], found[start + 1 :], strict=False):
            total += after - before if after >= before else after
        return total

    def _unseen(self, backlog: Steps) -> Section | None:
        """The moment at which most requests were in the server and in none of its two gauges."""
        moments = [
            {
                "at_s": round(at_s, 3),
                "in_flight": backlog.at(at_s * 1e9),
                "running": values["running"],
                "waiting": values["waiting"],
            }
            for at_s, values in self._ok.get(SERVER, [])
            if 0 <= at_s <= self._end_s and "running" in values and "waiting" in values
        ]
        worst = max(moments, key=_missed, default=None)
        return worst if worst is not None and _missed(worst) > 0 else None

    def resources(self) -> Section | None:
        """None when the server's processes are not on this host."""
        cores = [value for _, value in self._during(PROCESSES, "cores")]
        rss = [value for _, value in self._during(PROCESSES, "rss_bytes")]
        gpus = [self._gpu(source) for source in self._ok if source not in (SERVER, PROCESSES)]
        if not rss and not gpus:
            return None
        counted = [value for _, value in self._during(PROCESSES, "processes")]
        return {
            "cores_mean": round(sum(cores) / len(cores), 3) if cores else None,
            "cores_max": round(max(cores), 3) if cores else None,
            "rss_max_bytes": int(max(rss)) if rss else None,
            "processes_max": int(max(counted)) if counted else None,
            "gpus": gpus,
        }

    def _gpu(self, source: str) -> Section:
        busy = [value for _, value in self._during(source, "utilisation")]
        used = [value for _, value in self._during(source, "memory_used_bytes")]
        total = [value for _, value in self._during(source, "memory_total_bytes")]
        return {
            "name": source,
            "utilisation_mean": round(sum(busy) / len(busy), 4) if busy else None,
            "utilisation_max": max(busy, default=None),
            "memory_used_max_bytes": int(max(used)) if used else None,
            "memory_total_bytes": int(max(total)) if total else None,
        }

    def series(self) -> Section:
        """source -> key -> {"time_s", "values"}, of gauges alone."""
        made: Section = {}
        for source, samples in self._ok.items():
            keys = dict.fromkeys(key for _, values in samples for key in values)
            for key in keys:
                metric = _METRIC.get(key.partition(".")[0])
                if source != SERVER or (metric is not None and metric.kind == "gauge"):
                    points = _thinned(self._during(source, key))
                    if points:
                        made.setdefault(source, {})[key] = {
                            "time_s": [round(at_s, 3) for at_s, _ in points],
                            "values": [value for _, value in points],
                        }
        return made


def _missed(moment: Section) -> float:
    missed: float = moment["in_flight"] - moment["running"] - moment["waiting"]
    return missed


def unseen_sentence(series: Section | None) -> str:
    """What a reader of the server's gauges would have missed; empty when it was little."""
    worst = series["unseen"] if series else None
    if worst is None or _missed(worst) < max(HIDDEN_FROM, worst["in_flight"] / 2):
        return ""
    gauges = series["gauges"] if series else {}
    waiting, running = (gauges[key]["max"] for key in ("waiting", "running"))
    return (
        f"The server's own gauges showed at most {waiting:.0f} waiting and {running:.0f} running;"
        f" at {worst['at_s']:.0f} s, with {worst['in_flight']} requests in flight, they showed"
        f" {worst['waiting']:.0f} and {worst['running']:.0f}."
    )


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Of each stretch the highest."""
    step = -(-len(points) // CHART_POINTS)
    if step <= 1:
        return points
    return [
        max(points[i : i + step], key=lambda point: point[1]) for i in range(0, len(points), step)
    ]
