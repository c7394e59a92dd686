"""What the owned processor cores make of a real vLLM's processor, and of its requests.

    tests/real/vllm/install.sh && python -m bench.vllm_owned [--rounds 15] [--server-rounds 6]

First vLLM's multimodal processor alone (`processor(...)`: from decoded media to tensors of bfloat16
and a prompt, torch held to one thread as in vLLM's renderer), in two processes, as it is and with
the switch, one call each in turn, in an order that changes. Then two servers, both traced, one with
`--owned`: rounds of requests one after the other, 15 frames each; from the spans, the time in the
processor, and the whole. Both answer bit for bit alike (`tests/real/vllm/test_owned.py`). Read the
ratios: the machine may be one that others use.
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

from mmload.rundir import machine_facts
from tests.real.vllm import server as real
from tests.real.vllm.processors import processor

MODES = {"host": "--no-mm-device-do-normalize", "device": "vLLM's default"}
CASES = {"15": "15 frames of 480p", "6": "6 frames", "image": "image, 480p"}
FLAGS = ("--no-mm-device-do-normalize", "--max-num-seqs", "1")


def told(what: str, stock: list[float], owned: list[float]) -> None:
    ratios = [one / other for one, other in zip(stock, owned, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    print(
        f"{what}: stock {statistics.median(stock):.0f} ms, owned {statistics.median(owned):.0f} ms,"
        f" stock/owned {middle:.2f} (quartiles {low:.2f} to {high:.2f}, n={len(ratios)})",
        flush=True,
    )


def alone(model: Path, work: Path, rounds: int) -> None:
    for mode, words in MODES.items():
        with (
            processor(work / f"{mode}-stock", model, mode, owned=False) as stock,
            processor(work / f"{mode}-owned", model, mode, owned=True) as owned,
        ):
            for case, title in CASES.items():
                times: dict[bool, list[float]] = {False: [], True: []}
                for at in range(-2, rounds):  # two to warm up
                    for switch in (False, True) if at % 2 else (True, False):
                        answer = (owned if switch else stock).ask(case, at + 2)
                        if answer["facts"] != ({"owned_calls": 1} if switch else {}):
                            raise SystemExit(f"{case}: {answer['facts']}")
                        if at >= 0:
                            times[switch].append(answer["ns"] / 1e6)
                told(f"processor, {words}, {title}", times[False], times[True])


def measure(running: real.Running, requests: int, seed: int, folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "mmload", "run", running.url, "--frames=15", "--concurrency=1"]
    load = [f"--requests={requests}", f"--seed={seed}", "--max-tokens=4", "--workers=1"]
    done = subprocess.run(
        [*command, *load, "--json", "--quiet", "--out", str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    summary: dict[str, Any] = json.loads(done.stdout)
    if summary["ok"] != requests or summary["joined"] != requests:
        raise SystemExit(f"{summary['ok']} ok, {summary['joined']} joined of {requests}")
    return summary


def served(model: Path, work: Path, rounds: int, requests: int) -> None:
    figures: dict[str, dict[bool, list[float]]] = {
        "server, time in the processor": {False: [], True: []},
        "server, end to end": {False: [], True: []},
    }
    with contextlib.ExitStack() as stack:
        servers = {
            owned: stack.enter_context(
                real.vllm(
                    work / f"server-{owned}", model, *FLAGS, trace=True, plugin=False, owned=owned
                )
            )
            for owned in (False, True)
        }
        for at in range(-1, rounds):
            for owned in (False, True) if at % 2 else (True, False):
                summary = measure(servers[owned], requests, at + 1, work / f"run-{at}-{owned}")
                if at >= 0:
                    took = (summary["stages"]["processor"]["ms"]["p50"], summary["e2e_ms"]["p50"])
                    for figure, ms in zip(figures.values(), took, strict=True):
                        figure[owned].append(ms)
    for name, figure in figures.items():
        told(f"{name}, p50 of {requests}", figure[False], figure[True])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--server-rounds", type=int, default=6)
    parser.add_argument("--requests", type=int, default=8, help="requests a round and server")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        model = real.model(work / "model")
        alone(model, work, asked.rounds)
        served(model, work, asked.server_rounds, asked.requests)
    machine = machine_facts()
    print(f"{machine['cpu']}, {machine['cores']} cores, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
