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
import tempfile
from pathlib import Path

from bench.on_off import Figures, in_turn, loaded, print_machine, print_ratios
from bench.processes import cpu_s_of
from mmload.load.reach import Reach
from mmload.rundir import RunDir
from mmload.server.settings import server_settings
from mmload.serving import EmbeddedPlan, Server, server_of

NO_ACCELERATOR = {
    name: 0
    for name in (
        *("encoder_fixed_ms", "encoder_ms_per_1k_patches", "prefill_fixed_ms"),
        *("prefill_ms_per_1k_tokens", "decode_step_ms", "decode_ms_per_sequence"),
    )
}


def measure(server: Server, requests: int, seed: int, folder: Path) -> Figures:
    flags = ("--no-scrape", "--max-tokens=8", f"--seed={seed}")
    return loaded(server.url, flags, requests, folder, lambda: cpu_s_of(server.pids()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--requests", type=int, default=60, help="requests a round and server")
    asked = parser.parse_args()
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
        found = in_turn(
            servers,
            asked.rounds,
            lambda server, at, name: measure(server, asked.requests, at, work / name),
        )
    print(f"\n{asked.rounds} rounds of {asked.requests} requests")
    print_ratios(found)
    print_machine()


if __name__ == "__main__":
    main()
