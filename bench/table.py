"""The results of `bench.precision` as Markdown: python -m bench.table bench/results/precision.jsonl

A row a rate and tool: the median over the repeats, and in brackets the lowest and the highest
where there were several. Then what it ran on. A run that went wrong is a row of its own words.
"""

import json
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from bench.tools import NAMES

Run = dict[str, Any]
Column = tuple[str, Callable[[Run], float | None], int]  # title, its value, decimals


def of(name: str, key: str) -> Callable[[Run], float | None]:
    return lambda run: run[name] and run[name][key]


def at_wire(key: str) -> Callable[[Run], float | None]:
    """Against the tool's own intended times, where it says them; else against the fitted ones."""
    return lambda run: (run["wire_lag_from_intended_ms"] or run["wire_lag_ms"] or {}).get(key)


COLUMNS: list[Column] = [
    ("sent/s", lambda run: run["rate_at_wire"], 1),
    ("lag at the wire p50", at_wire("p50"), 2),
    ("p99", at_wire("p99"), 1),
    ("max", at_wire("max"), 0),
    ("own lag p99", of("own_lag_ms", "p99"), 2),
    ("TTFT error p50", of("ttft_error_ms", "p50"), 2),
    ("p99", of("ttft_error_ms", "p99"), 1),
    ("cores", lambda run: run["cpu_cores"], 2),
    ("MiB", lambda run: run["resident_mib"], 0),
]


def table(runs: Sequence[Run]) -> Iterator[str]:
    titles = ["requests/s", "tool", "ok / planned", *(title for title, _, _ in COLUMNS)]
    yield "| " + " | ".join(titles) + " |"
    yield "|" + "---|" * len(titles)

    def place(run: Run) -> tuple[float, int]:
        return run["rate"], NAMES.index(run["tool"])

    for (rate, _), group in groupby(sorted(runs, key=place), key=place):
        repeats = list(group)
        good = [run for run in repeats if not run["problem"]]
        ok = "+".join(str(run["ok"]) for run in repeats)
        planned = "+".join(str(run["planned"]) for run in repeats)
        share = f"{sum(run['ok'] for run in repeats) / sum(run['planned'] for run in repeats):.1%}"
        cells = [f"{rate:g}", repeats[0]["tool"], "all" if ok == planned else share]
        yield "| " + " | ".join(cells + [cell(good, column) for column in COLUMNS]) + " |"


def cell(runs: Sequence[Run], column: Column) -> str:
    _, value_of, decimals = column
    values = [value for run in runs if (value := value_of(run)) is not None]
    if not values:
        return "-"
    middle, low, high = (f"{of(values):.{decimals}f}" for of in (statistics.median, min, max))
    return middle if low == high else f"{middle} ({low}-{high})"


def footer(runs: Sequence[Run]) -> Iterator[str]:
    """What was sent, by which versions, on what machine, and how noisy it was."""
    yield "Times in ms. " + ", ".join(
        f"{len({run['repeat'] for run in runs})} repeats of {seconds:g} s"
        for seconds in sorted({run["seconds"] for run in runs})
    )
    yield ""
    for name in NAMES:
        if not (own := [run for run in runs if run["tool"] == name]):
            continue
        sizes = [run["body_bytes"] for run in own if run["body_bytes"]]
        mean_mb = statistics.mean(sizes) / 1e6 if sizes else 0.0
        versions = ", ".join(sorted({run["version"] for run in own}))
        kinds = " and ".join(sorted({run["kind"] for run in own}))
        yield f"- {name} ({versions}): {kinds}, {mean_mb:.2f} MB a body on average"
    for machine in {json.dumps(run["machine"], sort_keys=True) for run in runs}:
        facts = json.loads(machine)
        yield (
            f"- {facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']} GiB, "
            f"{facts['host_os']}, Python {facts['python']}, commit {facts['commit'] or 'unknown'}"
        )
    yield "- The server itself wrote its tokens late by " + spread(
        (run["server_late_ms"]["p99"] for run in runs if run["server_late_ms"]), 2, "ms (p99)"
    )
    yield "- Others took of the tool's core " + spread(
        (100 * run["others_cores"] for run in runs if run["others_cores"] is not None), 0, "%"
    )
    for run in runs:
        if run["problem"]:
            yield (
                f"- went wrong: {run['tool']} at {run['rate']:g}/s, repeat {run['repeat']}: "
                f"{run['problem']}"
            )


def spread(values: Iterable[float], decimals: int, unit: str) -> str:
    """Median and range over the runs."""
    known = sorted(values)
    if not known:
        return "an unknown amount"
    low, middle, high = known[0], statistics.median(known), known[-1]
    return f"{middle:.{decimals}f} ({low:.{decimals}f}-{high:.{decimals}f}) {unit}"


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m bench.table RESULTS.jsonl")
    with Path(sys.argv[1]).open(encoding="utf-8") as file:
        runs = [json.loads(line) for line in file]
    for line in (*table(runs), "", *footer(runs)):
        print(line)


if __name__ == "__main__":
    main()
