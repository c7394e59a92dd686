"""How precise load generators are with large bodies, against a server whose clock is the truth.

    python -m bench.precision --rates 20,60,120 --seconds 15 --repeats 3 --out results.jsonl

For each repeat and rate the tools run one after the other, in random order: the server on one
core, the tool and all its children on another. A run's figures are appended to --out as one JSON
line, as soon as it is over. What the figures mean, and how to get the peers: bench/README.md.
"""

import argparse
import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench import bodies
from bench.bodies import Kind
from bench.figures import figures
from bench.peers import Aiperf, Guidellm, Vllm
from bench.running import Outcome, Pins, run
from bench.tools import NAMES, Load, Mmload, Tool, TrivialLoop
from mmload.clock import MonotonicClock, pause
from mmload.rundir import machine_facts

BETWEEN_RUNS_S: Final = 1.0  # sockets and page cache settle
PEERS_HOME: Final = "/tmp/peers"


@dataclass(frozen=True)
class Asked:
    """The command line, checked."""

    tools: tuple[Tool, ...]
    rates: tuple[float, ...]
    repeats: int
    seconds: float
    kind: Kind
    pins: Pins
    seed: int
    out: Path


def main() -> None:
    asked = parse(sys.argv[1:])
    machine = machine_facts() | {"commit": commit()}
    versions = {tool.name: tool.version() for tool in asked.tools}
    for kind in {kind_for(tool, asked.kind) for tool in asked.tools}:
        print(f"making bodies: {kind}", flush=True)
        bodies.media_urls(kind)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    os.sched_setaffinity(0, {asked.pins.server})  # the tool's core is the tool's alone
    for repeat, rate, tool in turns(asked):
        kind = kind_for(tool, asked.kind)
        row = measure(tool, rate, asked.seconds, kind, asked.pins)
        row |= {"repeat": repeat, "version": versions[tool.name], "machine": machine}
        with asked.out.open("a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")
        print(in_a_line(row), flush=True)
        pause(BETWEEN_RUNS_S)


def turns(asked: Asked) -> Iterator[tuple[int, float, Tool]]:
    """Every run: repeats outside, so that a change of the machine meets all tools alike."""
    rng = random.Random(asked.seed)
    for repeat in range(asked.repeats):
        for rate in asked.rates:
            for tool in rng.sample(asked.tools, len(asked.tools)):
                yield repeat, rate, tool


def kind_for(tool: Tool, asked: Kind) -> Kind:
    """The asked kind of body, or the one that the tool can send."""
    return asked if asked in tool.kinds else tool.kinds[0]


def measure(tool: Tool, rate: float, seconds: float, kind: Kind, pins: Pins) -> dict[str, Any]:
    """One run and its figures."""
    with tempfile.TemporaryDirectory(prefix=f"mmload-bench-{tool.name}-") as name:
        folder = Path(name)
        load_average = os.getloadavg()[0]
        started_ns = MonotonicClock.now_ns()

        def command(url: str) -> list[str]:
            return tool.command(Load(url, rate, seconds, kind), folder)

        outcome = run(command, tool.environment, folder, seconds, pins)
        seen, problem = [], outcome.problem
        if not problem and outcome.exit_code not in tool.fine_exits:
            problem = f"exit code {outcome.exit_code}: {outcome.last_words}"
        if not problem:
            try:
                seen = tool.read(folder)
            except (OSError, ValueError, LookupError, TypeError) as error:
                problem = f"its results cannot be read: {type(error).__name__}: {error}"
        return {
            "tool": tool.name,
            "rate": rate,
            "seconds": seconds,
            "kind": kind,
            "planned": round(rate * seconds),
            **figures(outcome.rows, seen, rate),
            **usage(outcome, seconds),
            "problem": problem,
            "environment": dict(tool.environment),
            "command": shown(outcome.command, outcome.url, folder),
            "load_average_before": round(load_average, 2),
            "wall_s": round((MonotonicClock.now_ns() - started_ns) / 1e9, 1),
        }


def usage(outcome: Outcome, seconds: float) -> dict[str, Any]:
    """Share of the core, and memory, while the schedule ran; and what others took of the core."""
    before, after = outcome.before, outcome.after
    if before is None or after is None:
        return {"cpu_cores": None, "others_cores": None, "resident_mib": None}
    return {
        "cpu_cores": round(after.cpu_since(before) / seconds, 3),
        "others_cores": round(after.others_since(before) / seconds, 3),
        "resident_mib": round(after.resident_bytes / 2**20),
    }


def shown(command: Sequence[str], url: str, folder: Path) -> str:
    """The command for the record, without what differs from run to run."""
    text = shlex.join(command)
    for value, name in (
        (url, "$URL"),
        (str(folder), "$RUN"),
        (sys.executable, "python"),
        (f"{Path(__file__).parents[1]}/", ""),  # no path of this machine in what is published
    ):
        text = text.replace(value, name) if value else text
    return text


def in_a_line(row: dict[str, Any]) -> str:
    def of(name: str, key: str) -> str:
        return f"{row[name][key]:.2f}" if row[name] else "-"

    return (
        f"repeat {row['repeat']}  {row['rate']:g}/s  {row['tool']:9}"
        f"  sent {row['sent']}/{row['planned']} at {row['rate_at_wire']}/s, ok {row['ok']}"
        f"  lag at the wire p50 {of('wire_lag_ms', 'p50')} p99 {of('wire_lag_ms', 'p99')}"
        f"  own p99 {of('own_lag_ms', 'p99')}"
        f"  TTFT error p50 {of('ttft_error_ms', 'p50')} p99 {of('ttft_error_ms', 'p99')} ms"
        + (f"  PROBLEM: {row['problem']}" if row["problem"] else "")
    )


def commit() -> str:
    """Of this checkout, with a + if files differ from it; empty outside one."""
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+"]
    try:
        return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def parse(arguments: Sequence[str]) -> Asked:
    """Exits with a message if something asked for is not there."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rates", default="20,60,120,200,300", help="requests/s, with commas")
    parser.add_argument("--seconds", type=float, default=15.0, help="length of a schedule")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tools", default=",".join(NAMES), help="with commas")
    parser.add_argument("--as", dest="kind", choices=("video", "frames"), default="video")
    parser.add_argument("--tool-core", type=int, default=0)
    parser.add_argument("--server-core", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0, help="of the order of tools")
    parser.add_argument(
        "--peers", type=Path, default=Path(PEERS_HOME), help="folder of their venvs"
    )
    parser.add_argument("--out", type=Path, required=True, help="JSON lines; a new file")
    args = parser.parse_args(arguments)
    if args.out.exists():
        parser.error(f"--out {args.out}: is there already; name a new file, or remove it")
    cores = os.sched_getaffinity(0)
    if not {args.tool_core, args.server_core} <= cores or args.tool_core == args.server_core:
        parser.error(f"--tool-core, --server-core: two different ones of {sorted(cores)}")
    here: tuple[Tool, ...] = (
        Mmload(),
        TrivialLoop(),
        Vllm(args.peers),
        Aiperf(args.peers),
        Guidellm(args.peers),
    )
    named = {tool.name: tool for tool in here}
    for name in args.tools.split(","):
        if name not in named:
            parser.error(f"--tools {name}: not one of {', '.join(named)}")
        if missing := named[name].missing():
            parser.error(f"--tools {name}: {missing} is not there; see bench/README.md")
    return Asked(
        tools=tuple(named[name] for name in args.tools.split(",")),
        rates=tuple(float(rate) for rate in args.rates.split(",")),
        repeats=args.repeats,
        seconds=args.seconds,
        kind=args.kind,
        pins=Pins(args.tool_core, args.server_core),
        seed=args.seed,
        out=args.out,
    )


if __name__ == "__main__":
    main()
