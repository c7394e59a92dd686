"""Does a load worker's memory grow with the length of a run? python -m bench.endurance

Runs `mmload run` with one worker against the scripted server, whose answers are short and at once,
and watches the worker's memory (USS: pages that are its own). What a run needs from its start (the
schedule, the plan, the bodies) is there at the first request; records leave for the disk. So the
memory at a quarter of the run and at its end should be the same, however many requests lie between.

Prints one JSON object; exit code 1 if the worker grew by more than `--limit-kib` a thousand
requests (a leak of one connection or record a request is far above that).
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import psutil

from mmload.clock import NS_PER_S, MonotonicClock, pause
from mmload.serving import AnnouncedServer

SAMPLE_S: Final = 0.1
MODES: Final = {"kept": (), "new": ("--no-keepalive",)}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=30_000)
    parser.add_argument("--qps", type=float, default=600.0)
    parser.add_argument("--connections", choices=sorted(MODES), default="kept")
    parser.add_argument("--limit-kib", type=float, default=100.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mmload-endurance-") as folder:
        measured = run(Path(folder), args.requests, args.qps, MODES[args.connections])
    per_thousand = (measured["end_kib"] - measured["quarter_kib"]) / (0.75 * args.requests / 1000)
    measured |= {"connections": args.connections, "kib_per_1000": round(per_thousand, 2)}
    print(json.dumps(measured, indent=1))
    return int(per_thousand > args.limit_kib)


def run(folder: Path, requests: int, qps: float, flags: tuple[str, ...]) -> dict[str, Any]:
    """One run; memory of its worker in KiB at a quarter of the schedule and just before the end."""
    out = folder / "run"
    server = AnnouncedServer(
        [
            *(sys.executable, "-m", "bench.truth_server", "--out", str(folder / "truth.jsonl")),
            *("--tokens", "2", "--first-ms", "0", "--gap-ms", "0"),
        ],
        folder / "server.log",
    )
    with server:
        command = [
            *(sys.executable, "-m", "mmload", "run", server.url, "--workers", "1", "--frames", "0"),
            *("--requests", str(requests), "--qps", str(qps), "--json", "--out", str(out), *flags),
        ]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        samples = watch(process, out / "manifest.json")
        said, _ = process.communicate()
    summary = json.loads(said)
    length_s = requests / qps
    quarter = next(kib for at_s, kib in samples if at_s >= 0.25 * length_s)
    end = [kib for at_s, kib in samples if at_s <= length_s][-1]
    return {
        "requests": requests,
        "qps": qps,
        "ok": summary["ok"],
        "failed": summary["failed"],
        "lag_p99_ms": summary["lag_ms"]["p99"],
        "quarter_kib": quarter,
        "end_kib": end,
        "most_kib": max(kib for _, kib in samples),
    }


def watch(process: "subprocess.Popen[bytes]", started: Path) -> list[tuple[float, int]]:
    """(seconds since the start of the load, KiB) of the worker until it ends."""
    while not started.exists() and process.poll() is None:
        pause(0.02)
    start_ns = MonotonicClock.now_ns()
    worker = max(  # beside it there is only the tracker of multiprocessing, which is small
        psutil.Process(process.pid).children(), key=lambda child: int(child.memory_info().rss)
    )
    samples = []
    try:
        while worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE:
            kib = worker.memory_full_info().uss // 1024
            samples.append(((MonotonicClock.now_ns() - start_ns) / NS_PER_S, kib))
            pause(SAMPLE_S)
    except psutil.Error:
        pass
    return samples


if __name__ == "__main__":
    sys.exit(main())
