"""Two servers that take turns, one with the hook on: the ratios of what a load measures of them."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from mmload.rundir import machine_facts

FIGURES: Final = ("requests/s", "E2E p50", "CPU time")
T = TypeVar("T")
Figures = tuple[float, ...]


def loaded(
    url: str, flags: Sequence[str], requests: int, folder: Path, cpu_s: Callable[[], float]
) -> Figures:
    """FIGURES of one load, two requests at a time; CPU time in ms a request. `cpu_s`: seconds of
    the server's processor time so far."""
    command = [sys.executable, "-m", "mmload", "run", url, "--concurrency=2", *flags]
    before_s = cpu_s()
    done = subprocess.run(
        [*command, f"--requests={requests}", "--workers=1", "--json", "--quiet", f"--out={folder}"],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    used_s = cpu_s() - before_s
    summary: dict[str, Any] = json.loads(done.stdout)
    if summary["ok"] != requests:
        raise SystemExit(f"failed: {summary['failed']}")
    return requests / summary["elapsed_s"], summary["e2e_ms"]["p50"], used_s / requests * 1e3


def in_turn(
    servers: Mapping[str, T], rounds: int, measure: Callable[[T, int, str], Figures]
) -> dict[str, list[Figures]]:
    """FIGURES of the servers "off" and "on" in each round, in an order that alternates:
    `measure(server, round, name)`. Prints them as they come."""
    found: dict[str, list[Figures]] = {"off": [], "on": []}
    for at in range(rounds):
        for name in ("off", "on") if at % 2 == 0 else ("on", "off"):
            found[name].append(measure(servers[name], at, f"{at}-{name}"))
        for title, on, off in zip(FIGURES, found["on"][-1], found["off"][-1], strict=True):
            print(f"round {at} {title}: {on:.2f} on, {off:.2f} off", flush=True)
    return found


def print_ratios(found: Mapping[str, list[Figures]]) -> None:
    """The median of the rounds' ratios, on over off, with the least and the most."""
    for title, on, off in zip(
        FIGURES, zip(*found["on"], strict=True), zip(*found["off"], strict=True), strict=True
    ):
        values = [a / b for a, b in zip(on, off, strict=True)]
        middle, least, most = statistics.median(values), min(values), max(values)
        print(f"{title}: on/off {middle:.3f} ({least:.3f} to {most:.3f})")


def print_machine() -> None:
    machine = machine_facts()
    print(f"{machine['cpu']}, {machine['cores']} cores, load {os.getloadavg()[0]:.1f}")
