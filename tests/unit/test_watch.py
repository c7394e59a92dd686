"""The server from outside: Prometheus' text, the sampler, and what the summary makes of it."""

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mmload.analysis.queues import Steps
from mmload.analysis.watched import Watched, unseen_sentence
from mmload.clock import MonotonicClock
from mmload.records import Sample
from mmload.report.fields import Summary
from mmload.report.watch_chart import watched as chart
from mmload.report.watched import facts
from mmload.rundir import RunDir
from mmload.watch.exposition import Reading, read
from mmload.watch.gpu import Gpu
from mmload.watch.names import METRICS, chosen
from mmload.watch.sampler import FAILURES_ALLOWED, Sampler, SourceFailed

S = 1_000_000_000

# The example of Prometheus' own page on the format, shortened.
EXAMPLE = r"""
# HELP http_requests_total The total number of HTTP requests.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200"} 1027 1395066363000
http_requests_total{method="post",code="400"}    3 1395066363000

# Escaping in label values:
msdos_file_access_time_seconds{path="C:\\DIR\\FILE.TXT",error="No file:\n\"FILE.TXT\""} 1.45825e9

# Minimalistic line:
metric_without_timestamp_and_labels 12.47

# A weird metric from before the epoch:
something_weird{problem="division by zero"} +Inf -3982045
"""


def test_the_formats_own_example() -> None:
    every = type("All", (), {"__contains__": lambda self, name: True})()
    assert list(read(EXAMPLE, every)) == [
        Reading("http_requests_total", {"method": "post", "code": "200"}, 1027.0),
        Reading("http_requests_total", {"method": "post", "code": "400"}, 3.0),
        Reading(
            "msdos_file_access_time_seconds",
            {"path": "C:\\DIR\\FILE.TXT", "error": 'No file:\n"FILE.TXT"'},
            1.45825e9,
        ),
        Reading("metric_without_timestamp_and_labels", {}, 12.47),
        Reading("something_weird", {"problem": "division by zero"}, float("inf")),
    ]


@pytest.mark.parametrize(
    "line, value",
    [
        ("a 1", 1.0),
        ("a{} 2", 2.0),
        ('a{ x = "y" , } 3', 3.0),  # blanks, and a comma before the brace
        ('a{x="}{,= "} 4', 4.0),
        ("a\t5", 5.0),
        ("a", None),
        ("a{x=y} 1", None),
        ('a{x="y" 1', None),
        ("a one", None),
        ("ab 1", None),  # another metric
        ("# a 1", None),
    ],
)
def test_lines(line: str, value: float | None) -> None:
    found = list(read(line, {"a"}))
    assert [one.value for one in found] == ([] if value is None else [value])


def test_what_is_kept_of_vllm_sglang_and_our_own() -> None:
    vllm = """\
vllm:num_requests_running{engine="0",model_name="m"} 1.0
vllm:num_requests_running{engine="1",model_name="m"} 2.0
vllm:num_requests_waiting{engine="0",model_name="m"} 0.0
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.5
vllm:mm_cache_queries_total{engine="0"} 40.0
vllm:mm_cache_hits_total{engine="0"} NaN
vllm:request_success_total{finished_reason="stop"} 5.0
vllm:request_success_total{finished_reason="length"} 6.0
vllm:e2e_request_latency_seconds_bucket{le="0.3"} 3.0
"""
    assert chosen(vllm) == {
        "running": 3.0,  # of all engines
        "waiting": 0.0,
        "kv_cache_used": 0.5,  # the fullest
        "mm_cache_queries": 40.0,
        "requests": 11.0,
    }
    assert chosen("sglang:num_running_reqs 4\nsglang:num_queue_reqs 2\n") == {
        "running": 4.0,
        "waiting": 2.0,
    }
    ours = 'mmload_requests_in_stage{stage="processor"} 1\nmmload_requests_in_stage{stage="a"} 2\n'
    assert chosen(ours) == {"in_stage.processor": 1.0, "in_stage.a": 2.0}
    assert chosen("up 1\n") == {}
    names = [name for metric in METRICS for name in metric.names]
    assert len(names) == len(set(names))


class Scripted:
    """A source that says what it was told to, then `done`."""

    def __init__(self, name: str, script: list[Any], done: threading.Event) -> None:
        self.name = name
        self.closed = 0
        self.reads = 0
        self._script: Iterator[Any] = iter(script)
        self._done = done

    def read(self) -> dict[str, float]:
        self.reads += 1
        said = next(self._script, None)
        if said is None:
            self._done.set()
            return {"x": -1.0}
        if isinstance(said, SourceFailed):
            raise said
        return {"x": said}

    def close(self) -> None:
        self.closed += 1


def test_the_sampler_writes_rests_and_gives_up(tmp_path: Path) -> None:
    done = threading.Event()
    good = Scripted("good", [float(i) for i in range(40)], done)
    gone = Scripted("gone", [SourceFailed("HTTP 404", final=True)], done)
    weak = Scripted("weak", [SourceFailed("no answer")] * 100, done)
    with Sampler([good, gone, weak], tmp_path / "metrics.jsonl", MonotonicClock(), 0.002):
        assert done.wait(20)
    samples = list(RunDir(tmp_path).samples())
    assert [s.values["x"] for s in samples if s.source == "good"][:40] == list(range(40))
    assert [s.error for s in samples if s.source == "gone"] == ["HTTP 404"]
    weak_errors = [s for s in samples if s.source == "weak"]
    assert weak.reads == len(weak_errors) <= FAILURES_ALLOWED
    # After n failures it rests n periods: reads at ticks 0, 2, 5, 9, 14, 20, 27, 35.
    assert weak.reads == FAILURES_ALLOWED
    assert (good.closed, gone.closed, weak.closed) == (1, 1, 1)
    times = [s.at_ns for s in samples]
    assert times == sorted(times)


def test_a_disk_that_takes_nothing_ends_the_watch_and_not_the_run(tmp_path: Path) -> None:
    done = threading.Event()
    source = Scripted("good", [], done)
    with Sampler([source], tmp_path / "no such folder" / "x", MonotonicClock(), 0.002):
        pass
    assert source.closed == 1 and source.reads == 0


def test_nvml_by_a_stand_in() -> None:
    nvml = SimpleNamespace(
        NVMLError=RuntimeError,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda handle: b"NVIDIA H200",
        nvmlDeviceGetUtilizationRates=lambda handle: SimpleNamespace(gpu=40, memory=10),
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(used=3, total=9, free=6),
    )
    gpu = Gpu(nvml, 1)
    assert gpu.name == "gpu 1: NVIDIA H200"
    assert gpu.read() == {
        "utilisation": 0.4,
        "memory_used_bytes": 3.0,
        "memory_total_bytes": 9.0,
    }

    def broken(handle: object) -> object:
        raise RuntimeError("GPU is lost")

    nvml.nvmlDeviceGetMemoryInfo = broken
    with pytest.raises(SourceFailed, match="GPU is lost"):
        gpu.read()


# -- what the summary makes of it ----------------------------------------------------------------


def samples() -> list[Sample]:
    """One before the start, three during the load of 3 s, one after it."""

    def server(at_s: float, running: float, waiting: float, hits: float) -> Sample:
        values = {"running": running, "waiting": waiting, "mm_cache_hits": hits}
        return Sample(round((100 + at_s) * S), "server", values | {"mm_cache_queries": 2 * hits})

    def used(at_s: float, cores: float, rss: float) -> Sample:
        values = {"cores": cores, "rss_bytes": rss, "processes": 2.0}
        return Sample(round((100 + at_s) * S), "processes", values)

    return [
        Sample(99 * S, "processes", {"rss_bytes": 7e9, "processes": 1.0}),
        server(-1.0, 9, 9, 10),
        server(0.5, 1, 0, 12),
        used(0.5, 0.5, 1e9),
        server(1.5, 1, 0, 3),  # restarted: counts from 0 again
        used(1.5, 1.5, 3e9),
        Sample(102 * S, "server", error="no answer within 0.9 s"),
        server(2.5, 0, 0, 5),
        used(2.5, 1.0, 2e9),
        server(3.5, 8, 8, 6),
    ]


def backlog() -> Steps:
    """10 requests arrive in the first second, one at each tenth, and leave at 3 s."""
    return Steps.of(np.linspace(0, 0.9e9, 10), np.full(10, 3e9))


def test_gauges_and_counters_by_hand() -> None:
    found = Watched(samples(), 100 * S, 3.0)
    series = found.server_series(backlog())
    assert series is not None
    assert (series["scrapes"], series["failed"]) == (5, 1)
    assert series["error"] == "no answer within 0.9 s"
    assert series["gauges"] == {
        "running": {"title": "running", "mean": round(2 / 3, 4), "max": 1, "last": 0},
        "waiting": {"title": "waiting", "mean": 0.0, "max": 0, "last": 0},
    }
    # 10 -> 12, a restart to 3, -> 5, -> 6: 2 + 3 + 2 + 1.
    assert series["counters"]["mm_cache_hits"] == {"title": "media cache hits", "increase": 8.0}
    assert series["counters"]["mm_cache_queries"]["increase"] == 16.0
    assert series["unseen"] == {"at_s": 2.5, "in_flight": 10, "running": 0, "waiting": 0}
    assert unseen_sentence(series) == (
        "The server's own gauges showed at most 0 waiting and 1 running; at 2 s, with 10 requests"
        " in flight, they showed 0 and 0."
    )
    assert found.resources() == {
        "cores_mean": 1.0,
        "cores_max": 1.5,
        "rss_max_bytes": 3_000_000_000,
        "processes_max": 2,
        "gpus": [],
    }


def test_few_unseen_requests_are_no_warning() -> None:
    few = Steps.of(np.zeros(3), np.full(3, 3e9))
    series = Watched(samples(), 100 * S, 3.0).server_series(few)
    assert series is not None and series["unseen"]["in_flight"] == 3
    assert unseen_sentence(series) == "" == unseen_sentence(None)


def test_nothing_watched_is_null_and_a_refusal_is_told() -> None:
    nothing = Watched([], 0, 3.0)
    assert nothing.server_series(backlog()) is None and nothing.resources() is None
    assert nothing.series() == {}
    words = "it is JSON, not Prometheus' text"
    refused = Watched([Sample(1, "server", error=words)], 0, 3.0).server_series(backlog())
    assert refused is not None and refused["scrapes"] == 0 and refused["gauges"] == {}
    assert facts({"server_series": refused}) == [("its /metrics", f"not read: {words}")]


def test_facts_and_chart() -> None:
    found = Watched(
        [
            *samples(),
            Sample(101 * S, "gpu 0: H200", {"utilisation": 0.25, "memory_used_bytes": 1e9}),
        ],
        100 * S,
        3.0,
    )
    summary: Summary = {
        "server_series": found.server_series(backlog()),
        "resources": found.resources(),
        "run": {"machine": {"cores": 4}},
    }
    said = dict(facts(summary))
    assert said["running"] == "at most 1, 0.67 on average"
    assert said["media cache"] == "50% of 16 look-ups hit"
    assert said["processor"] == "1.00 of 4 cores on average, at most 1.50"
    assert said["memory"].endswith("resident, 2 processes together")
    assert said["gpu 0: H200"].startswith("busy 25% of the time")
    assert said["its /metrics"] == "1 of 6 times not answered: no answer within 0.9 s"
    queue = {"time_s": [0.0, 3.0], "backlog": [1, 0]}
    figure = chart({"watched": found.series(), "queue": queue})
    assert figure is not None
    drawn = {one["name"]: one["y"] for one in figure["data"]}
    assert drawn["waiting, says the server"] == [0, 0, 0]  # within the load
    assert drawn["in flight, as the client knows"] == [1, 0]
    assert drawn["cores that its processes use"] == [0.5, 1.5, 1.0]
    assert figure["layout"]["xaxis"]["range"] == [0, 3.0]
    assert chart({"watched": {}, "queue": queue}) is None
