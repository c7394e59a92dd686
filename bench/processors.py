"""Stock processors, stock ones with a better allocator, owned ones: time and page faults a call.

    python -m bench.processors --out bench/results/processors.jsonl [--seconds 240]

Each row of the table is a process of its own that lives all the time. A round makes three calls in
each of them, for each family, medium and number of threads, in random order, so that a change of
the machine meets all alike; ratios are taken within a round. The first of the three finds caches
full of what the others did, the next two follow at once, as in a server that has nothing but such
requests to do; they are told apart. The outputs are compared first. Raw
figures are appended to --out; `python -m bench.processors_table` makes the tables of them.
Needs the extras [hf] and [fast]. It ends after --seconds and a minute.
"""

import argparse
import ctypes.util
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.precision import commit
from mmload.clock import MonotonicClock
from mmload.rundir import machine_facts

FAMILIES: Final = ("qwen3-vl", "gemma-4")
CASES: Final = ("image 480p", "image 1080p", "6 frames 480p", "15 frames 480p")
THREADS: Final = (1, 2)
CALLERS_ROUNDS: Final = 7
GLIBC: Final = {
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "2147483648",
    "MALLOC_ARENA_MAX": "1",
}


class Row(NamedTuple):
    """`name`, as in the table; `processor`, as the child takes it; what its environment adds."""

    name: str
    processor: str
    environment: dict[str, str]


def rows() -> list[Row]:
    """tcmalloc and jemalloc where the system has them."""
    found = [Row("stock", "stock", {}), Row("stock + glibc settings", "stock", GLIBC)]
    for title, library in (("tcmalloc", "tcmalloc_minimal"), ("jemalloc", "jemalloc")):
        if path := ctypes.util.find_library(library):
            found.append(Row(f"stock + {title}", "stock", {"LD_PRELOAD": path}))
    return [*found, Row("owned, torch", "torch", {}), Row("owned, numba", "numba", {})]


class Child:
    def __init__(self, row: Row) -> None:
        self.row = row
        clean = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and "MALLOC" not in k}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.processor_child", row.processor],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=clean | row.environment,
            text=True,
        )

    def read(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.row.name}: the process ended, see above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, do: str, family: str, threads: int, case: str, **more: int) -> dict[str, Any]:
        assert self._process.stdin
        request = {"do": do, "family": family, "threads": threads, "case": case, **more}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self.read()

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(timeout=30)


def main() -> None:
    asked = parse(sys.argv[1:])
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    children = [Child(row) for row in rows()]
    try:
        for child in children:
            child.read()
        with asked.out.open("a", encoding="utf-8") as out:
            measure(children, asked, lambda row: print(json.dumps(row), file=out, flush=True))
    finally:
        for child in children:
            child.close()


def measure(children: list[Child], asked: argparse.Namespace, write: Any) -> None:
    start_ns = MonotonicClock.now_ns()

    def left_s() -> float:
        return float(asked.seconds) - (MonotonicClock.now_ns() - start_ns) / 1e9

    write(about(children))
    places = [
        (family, threads, case) for family in FAMILIES for threads in THREADS for case in CASES
    ]
    for place in places:
        same(children, place)
        for child in children:
            child.ask("call", *place)
    order = random.Random(asked.seed)
    rounds = 0
    while left_s() > 0 and rounds < asked.rounds:
        load_average = os.getloadavg()[0]
        for place in order.sample(places, len(places)):
            calls = {
                c.row.name: c.ask("call", *place) for c in order.sample(children, len(children))
            }
            write(labelled("round", place) | {"load_average": load_average, "calls": calls})
        rounds += 1
        print(f"round {rounds}, load average {load_average:.1f}, {left_s():.0f} s left", flush=True)
    callers(children, order, write)
    for child in children:
        if child.row.processor != "stock":
            for family in FAMILIES:
                for case in CASES:
                    place = (family, 1, case)
                    parts = child.ask("parts", *place)
                    write(labelled("parts", place) | {"row": child.row.name, **parts})


def callers(children: list[Child], order: random.Random, write: Any) -> None:
    """Calls a second of one and of two callers at once, each with one thread."""
    for _ in range(CALLERS_ROUNDS):
        for family in FAMILIES:
            place = (family, 1, "15 frames 480p")
            for child in order.sample(children, len(children)):
                found = [child.ask("callers", *place, callers=n)["a_second"] for n in (1, 2)]
                write(
                    labelled("callers", place)
                    | {"row": child.row.name, "one": found[0], "two": found[1]}
                )


def same(children: list[Child], place: tuple[str, int, str]) -> None:
    """Raises SystemExit unless every row gives the same bits, and is what it is called."""
    answers = [(child.row, child.ask("digest", *place)) for child in children]
    if len({answer["digest"] for _, answer in answers}) != 1:
        raise SystemExit(f"{place}: the outputs differ: {answers}")
    for row, answer in answers:
        wanted = "stock" if row.processor == "stock" else f"owned ({row.processor})"
        if answer["core"] != wanted:
            raise SystemExit(f"{place}: {row.name} was served by {answer['core']}")


def about(children: list[Child]) -> dict[str, Any]:
    described = children[-1].ask("digest", FAMILIES[0], 1, CASES[0])["describe"]
    return {
        "kind": "about",
        "machine": machine_facts() | {"commit": commit()},
        "torch": described["torch"],
        "transformers": described["transformers"],
        "rows": {child.row.name: child.row.environment for child in children},
    }


def labelled(kind: str, place: tuple[str, int, str]) -> dict[str, Any]:
    family, threads, case = place
    return {"kind": kind, "family": family, "threads": threads, "case": case}


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="JSON lines; a new file")
    parser.add_argument("--seconds", type=float, default=240, help="of rounds")
    parser.add_argument("--rounds", type=int, default=200, help="at most")
    parser.add_argument("--seed", type=int, default=0, help="of the order")
    args = parser.parse_args(arguments)
    if args.out.exists():
        parser.error(f"--out {args.out}: is there already; name a new file, or remove it")
    return args


if __name__ == "__main__":
    main()
