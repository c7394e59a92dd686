"""What the hook costs the embedded server: throughput, latency and CPU time, on against off.

    python -m bench.embedded_overhead [--rounds 12] [--requests 60]

Two embedded servers, one with its hook on, take turns: in each round both answer the same requests
of one image, two at a time, in an order that alternates; the other one is idle. The simulated
accelerator takes no time, so what is left is the server's own work, in which a span weighs most.
Printed are the medians of the rounds' ratios, on over off, with the least and the most. Aim: within
1 %. CPU time is the quietest of the figures on a machine that others use.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.processes import cpu_s_of
from mmload.load.reach import Reach
from mmload.rundir import RunDir, machine_facts
from mmload.server.settings import server_settings
from mmload.serving import EmbeddedPlan, Server, server_of

FIGURES = ("requests/s", "E2E p50", "CPU time")
NO_ACCELERATOR = {
    name: 0
    for name in (
        *("encoder_fixed_ms", "encoder_ms_per_1k_patches", "prefill_fixed_ms"),
        *("prefill_ms_per_1k_tokens", "decode_step_ms", "decode_ms_per_sequence"),
    )
}


def measure(server: Server, requests: int, seed: int, folder: Path) -> tuple[float, ...]:
    command = [sys.executable, "-m", "mmload", "run", server.url, "--concurrency=2", "--no-scrape"]
    load = [f"--requests={requests}", f"--seed={seed}", "--max-tokens=8", "--workers=1"]
    before_s = cpu_s_of(server.pids())
    done = subprocess.run(
        [*command, *load, "--json", "--quiet", "--out", str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    used_s = cpu_s_of(server.pids()) - before_s
    summary: dict[str, Any] = json.loads(done.stdout)
    if summary["ok"] != requests:
        raise SystemExit(f"failed: {summary['failed']}")
    return requests / summary["elapsed_s"], summary["e2e_ms"]["p50"], used_s / requests * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--requests", type=int, default=60, help="requests a round and server")
    asked = parser.parse_args()
    ratios: dict[str, list[float]] = {name: [] for name in FIGURES}
    settings = server_settings({**NO_ACCELERATOR, "no_request_log": True})
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = {}
        for name in ("off", "on"):
            plan = EmbeddedPlan(settings=settings, traced=name == "on")
            folder = RunDir.create(work / f"server-{name}").path
            servers[name] = stack.enter_context(server_of(plan, folder, Reach()))
        for name, server in servers.items():  # not measured: first calls
            measure(server, 20, 10**6, work / f"warm-{name}")
        for at in range(asked.rounds):
            order = ("off", "on") if at % 2 == 0 else ("on", "off")
            found = {
                name: measure(servers[name], asked.requests, at, work / f"{at}-{name}")
                for name in order
            }
            for figure, on, off in zip(FIGURES, found["on"], found["off"], strict=True):
                ratios[figure].append(on / off)
                print(f"round {at} {figure}: {on:.2f} on, {off:.2f} off", flush=True)
    print(f"\n{asked.rounds} rounds of {asked.requests} requests")
    for figure, values in ratios.items():
        middle, least, most = statistics.median(values), min(values), max(values)
        print(f"{figure}: on/off {middle:.3f} ({least:.3f} to {most:.3f})")
    machine = machine_facts()
    print(f"{machine['cpu']}, {machine['cores']} cores, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
