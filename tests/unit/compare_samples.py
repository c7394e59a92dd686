"""Made-up sides for the tests of comparisons: the blog's before and after, in round numbers.

Before: one processor worker of 300 ms at 5 requests/s, so the queue grows by 1.67/s. After: 80 ms,
so nothing waits. Run k of a side is k per mille slower than its first, so that medians are known.
"""

from pathlib import Path
from typing import Any

from mmload.compare.sides import LeftOut, LoadedRun, LoadedSide
from tests.unit import report_samples

Summary = dict[str, Any]
LATENCIES = ("ttft_ms", "ttft_from_sent_ms", "ttfo_ms", "tpot_ms", "e2e_ms", "e2e_from_sent_ms")


def started(summary: Summary, second: int) -> Summary:
    summary["run"]["started_at"] = f"2026-03-02T10:{second // 60:02}:{second % 60:02}+00:00"
    return summary


def slower(summary: Summary, per_mille: int) -> Summary:
    """Every latency so much longer."""
    for part in (summary, *summary["classes"].values()):
        for key in LATENCIES:
            dist = part.get(key)
            if dist:
                part[key] = {
                    k: v if k == "n" or v is None else round(v * (1 + per_mille / 1000), 3)
                    for k, v in dist.items()
                }
    return summary


def before() -> Summary:
    return report_samples.growing()


def after() -> Summary:
    """The same load on a processor of 80 ms: TTFT is 20 ms of decoding, 80, 60 of prefill, 50."""
    summary = report_samples.growing()
    one = next(iter(summary["classes"].values()))
    dist = report_samples.dist
    latency = {
        "ttft_ms": dist(150, 205.0, 210.0, 231.0, 240.0, 206.0),
        "ttft_from_sent_ms": dist(150, 204.8, 209.7, 230.6, 239.1, 205.8),
        "e2e_ms": dist(150, 385.0, 390.0, 411.0, 420.0, 386.0),
    }
    one.update(latency)
    summary.update(latency, ttfo_ms=latency["ttft_ms"])
    summary["e2e_from_sent_ms"] = dist(150, 384.8, 389.7, 410.6, 419.1, 385.8)
    summary["queue"] = {
        "verdict": "stable",
        "growth_per_s": 0.0,
        "in_flight_max": 3,
        "smallest_overload_seen": 0.231,
        "reason": "latency does not rise",
        "stages": {},
    }
    for name, mean in (("processor", 80.0), ("processor_wait", 0.9)):
        stage = summary["stages"][name]
        stage["ms"] = dist(150, mean * 0.98, mean * 1.15, mean * 1.3, mean * 1.31, mean)
        stage["mean_ms"] = mean
    summary["stages"]["processor"]["facts"]["threads"] = 8
    for column in summary["phases"].values():
        stages, phases = column["stages"], column["phases"]
        saved = stages["processor"] - 80.0, stages["processor_wait"] - 0.9
        stages["processor"], stages["processor_wait"] = 80.0, 0.9
        phases["cpu"] -= saved[0]
        phases["queueing"] -= saved[1]
        column["e2e_ms"] -= sum(saved)
    summary["run"]["server"] = {"processor_workers": 2, "torch_threads": 8, "media_threads": 8}
    summary["server_processes"][0]["settings"] = {"processor_workers": 2}
    return summary


def side(label: str, make: Any, runs: int, first_second: int = 0, step: int = 120) -> LoadedSide:
    """`runs` runs in turn with those of other sides (`step` seconds apart)."""
    made = LoadedSide(label, f"runs/{label}")
    for k in range(runs):
        summary = started(slower(make(), k), first_second + step * k)
        made.runs.append(LoadedRun(Path(f"runs/{label}/{k + 1}"), summary))
    return made


def two(runs: int) -> list[LoadedSide]:
    """Before and after, run in turn."""
    return [side("before", before, runs), side("after", after, runs, first_second=60)]


def three(runs: int) -> list[LoadedSide]:
    """Stock, stock again under another name (no difference), and owned; one run is left out."""
    sides = [
        side("stock", before, runs),
        side("stock + allocator", before, runs, first_second=40),
        side("owned", after, runs, first_second=80),
    ]
    gone = LeftOut(Path("runs/owned/9"), "INVALID: The generator sent late.", "run it again", True)
    sides[2].left_out.append(gone)
    return sides
