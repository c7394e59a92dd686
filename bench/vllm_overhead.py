"""What the hook costs a real vLLM: throughput, latency and CPU time, hook on against off.

    python -m bench.vllm_overhead [--rounds 8] [--requests 24]

Two servers of one kind (tests/real/vllm), one under `mmload trace`, take turns: in each round both
answer the same requests of 15 frames, two at a time, in an order that alternates; the other one is
idle. Printed are the medians of the rounds' ratios, on over off, with the least and the most, and
nanoseconds a span of the costliest probes on functions that do nothing. Aim: within 1 %, and under
20 us a span. CPU time is that of all of the server's processes: the quietest of the figures on a
machine that others use.
"""

import argparse
import contextlib
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from bench.on_off import Figures, in_turn, loaded, print_machine, print_ratios
from bench.processes import cpu_s_of
from mmload.hook import spans, vllm_render
from mmload.hook.wrap import Function, around
from tests.real.vllm import server as real

FLAGS = ("--no-mm-device-do-normalize",)


def cpu_s(group: int) -> float:
    """CPU seconds so far of the living processes of a process group."""
    mine = []
    for pid in psutil.pids():
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(pid) == group:
                mine.append(pid)
    return cpu_s_of(mine)


def measure(running: real.Running, requests: int, seed: int, folder: Path) -> Figures:
    flags = ("--frames=15", "--max-tokens=16", f"--seed={seed}")
    return loaded(running.url, flags, requests, folder, lambda: cpu_s(running.group))


def ns_a_span(wrapped: Function, spans_a_call: int, calls: int = 3000) -> float:
    """CPU time of the thread that records, median of rounds, while the writer's thread works."""
    rounds = []
    for _ in range(7):
        start_ns = time.thread_time_ns()
        for _ in range(calls):
            wrapped(None, "get_mm_hashes")
        rounds.append((time.thread_time_ns() - start_ns) / calls / spans_a_call)
    return statistics.median(rounds)


def probes_alone() -> dict[str, float]:
    """The processor's observer, and that with its steps inside, around nothing."""

    def steps(_self: Any, stage: str) -> None:
        for _ in range(5):
            with record(None, stage):
                pass

    record = vllm_render.step(lambda _self, _stage: contextlib.nullcontext())
    with tempfile.TemporaryDirectory() as folder:
        os.environ[spans.FOLDER_VARIABLE] = folder
        spans.install("bench", limit=10**6)
        spans.request_id.set("bench-0001")
        nothing = around(vllm_render.processor)(lambda _self, _stage: None)
        found = {
            "processor": ns_a_span(nothing, 1),
            "processor and its five steps": ns_a_span(around(vllm_render.processor)(steps), 6),
        }
        spans.shutdown()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--requests", type=int, default=24, help="requests a round and server")
    asked = parser.parse_args()
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model = real.model(work / "model")
        servers = {
            name: stack.enter_context(
                real.vllm(work / name, model, *FLAGS, trace=name == "on", plugin=False)
            )
            for name in ("off", "on")
        }
        for name, running in servers.items():  # not measured: first calls
            measure(running, 4, 10**6, work / f"warm-{name}")
        found = in_turn(
            servers,
            asked.rounds,
            lambda running, at, name: measure(running, asked.requests, at, work / name),
        )
        recorded = sum(1 for file in servers["on"].spans.glob("*.jsonl") for _ in file.open("rb"))
    total = asked.rounds * asked.requests + 4 + 2 * (asked.rounds + 1)
    print(
        f"\n{asked.rounds} rounds of {asked.requests} requests; about {recorded / total:.0f} spans"
    )
    print_ratios(found)
    typical = [statistics.median(column) for column in zip(*found["off"], strict=True)]
    print(
        f"off: {typical[0]:.2f} requests/s, p50 {typical[1]:.0f} ms, CPU {typical[2]:.0f} ms each"
    )
    for name, ns in probes_alone().items():
        print(f"{name}, alone: {ns / 1e3:.1f} us of CPU time a span")
    print_machine()


if __name__ == "__main__":
    main()
