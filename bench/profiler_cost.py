"""What the profiler costs the server: TTFT with py-spy on it, as a ratio to without, interleaved.

    python -m bench.profiler_cost [--qps 3] [--frames 1] [--pairs 10] [--window 4]

One run a way of sampling, on the embedded server. During it py-spy is switched on and off every few
seconds; the TTFT of requests due in a window with it is held against the window before, so that the
machine's own drift cancels out. Printed: medians of the windows' p50, and median and quartiles of
the ratios.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from mmload.clock import NS_PER_S, MonotonicClock, pause
from mmload.load.reach import Reach
from mmload.processes import topmost
from mmload.profiler.cake import cake
from mmload.profiler.collect import Profiler, Sampling
from mmload.rundir import RunDir
from mmload.serving import EmbeddedPlan, server_of

WAYS: Final = {
    "Python functions, 100/s": Sampling(),
    "native functions, 20/s": Sampling(native=True, rate_hz=20),
    "native functions, 100/s": Sampling(native=True),
}
LEAD_S: Final = 4.0  # before the first window: the run has to start


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--qps", type=float, default=3)
    parser.add_argument("--frames", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--window", type=float, default=4)
    asked = parser.parse_args()
    print("| sampling | TTFT p50 without, ms | ratio | sampled s / CPU s | py-spy cores |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="mmload-bench-") as scratch:
        for number, (name, sampling) in enumerate(WAYS.items()):
            print(f"| {name} | {_measure(sampling, asked, Path(scratch) / str(number))} |")
            sys.stdout.flush()


def _measure(sampling: Sampling, asked: Any, folder: Path) -> str:
    with server_of(EmbeddedPlan(), folder, Reach()) as server:
        seconds = LEAD_S + 2 * asked.window * asked.pairs
        command = [sys.executable, "-m", "mmload", "run", server.url, "--quiet", "--no-scrape"]
        command += ["--qps", str(asked.qps), "--frames", str(asked.frames)]
        command += ["--duration", str(seconds), "--out", str(folder / "run")]
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        origin_ns = _origin_ns(folder / "run")
        off, on, seen = [], [], []
        at_s = LEAD_S
        for _ in range(asked.pairs):
            off.append((at_s, at_s + asked.window))
            _until(origin_ns, at_s + asked.window)
            profiler = Profiler(topmost(server.pids()), sampling, 60)
            profiler.start()
            began_s = (MonotonicClock.now_ns() - origin_ns) / NS_PER_S
            at_s += 2 * asked.window
            on.append((began_s, at_s))
            _until(origin_ns, at_s)
            seen.append(cake(profiler.stop()))
        run.wait()
    ttft = [
        (record.intended_ns / NS_PER_S, (record.first_output_ns - record.intended_ns) / 1e6)
        for record in RunDir(folder / "run").records()
        if record.first_output_ns is not None
    ]
    without, ratios = [], []
    for a, b in zip(off, on, strict=True):
        base, profiled = _p50(ttft, a), _p50(ttft, b)
        if base is not None and profiled is not None:
            without.append(base)
            ratios.append(profiled / base)
    low, middle, high = statistics.quantiles(ratios, n=4)
    sampled = sum(one["sampled_s"] for one in seen) / sum(one["cpu_s"] or 0 for one in seen)
    cores = sum(one["profiler_cpu_s"] for one in seen) / sum(one["duration_s"] for one in seen)
    cells = f"{statistics.median(without):.0f} | {middle:.2f} ({low:.2f} to {high:.2f})"
    return f"{cells} | {sampled:.2f} | {cores:.2f}"


def _p50(ttft: list[tuple[float, float]], window: tuple[float, float]) -> float | None:
    """Of the requests that were due in the window; what is left of one when it ends is short."""
    inside = [ms for at_s, ms in ttft if window[0] <= at_s < window[1]]
    return statistics.median(inside) if len(inside) >= 3 else None


def _origin_ns(run: Path) -> int:
    """When the load's clock starts: the manifest is written right after that was agreed on."""
    while not (run / "manifest.json").exists():
        pause(0.05)
    origin_ns = json.loads((run / "manifest.json").read_text(encoding="utf-8"))["origin_ns"]
    assert isinstance(origin_ns, int)
    return origin_ns


def _until(origin_ns: int, at_s: float) -> None:
    pause(max(0.0, at_s - (MonotonicClock.now_ns() - origin_ns) / NS_PER_S))


if __name__ == "__main__":
    main()
