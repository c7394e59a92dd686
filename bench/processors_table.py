"""The results of `bench.processors` as Markdown.

    python -m bench.processors_table bench/results/processors.jsonl

Times are medians over the rounds. A ratio is stock's time over the row's in the same round: its
median, and in brackets the quartiles.
"""

import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

Line = dict[str, Any]


def table(lines: Sequence[Line]) -> Iterator[str]:
    rounds = [line for line in lines if line["kind"] == "round"]
    places = sorted({(r["family"], r["case"], r["threads"]) for r in rounds}, key=place_order)
    yield "| family | medium | threads | row | ms | stock / row | CPU ms | minor faults |"
    yield "|---|---|---|---|---|---|---|---|"
    for family, case, threads in places:
        here = [r["calls"] for r in rounds if place(r) == (family, case, threads)]
        for row in lines[0]["rows"]:
            wall = statistics.median(calls[row]["wall_ns"] for calls in here) / 1e6
            cpu = statistics.median(calls[row]["cpu_ns"] for calls in here) / 1e6
            faults = statistics.median(calls[row]["faults"] for calls in here)
            ratios = [calls["stock"]["wall_ns"] / calls[row]["wall_ns"] for calls in here]
            shown = "1" if row == "stock" else with_quartiles(ratios)
            yield (
                f"| {family} | {case} | {threads} | {row} | {wall:.1f} | {shown} | {cpu:.1f}"
                f" | {faults:,.0f} |"
            )


def with_quartiles(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.1f}"
    low, middle, high = statistics.quantiles(values, n=4)
    return f"**{middle:.1f}** ({low:.1f}-{high:.1f})"


def place(line: Line) -> tuple[str, str, int]:
    return line["family"], line["case"], line["threads"]


def place_order(key: tuple[str, str, int]) -> tuple[str, bool, int, str, int]:
    family, case, threads = key
    return family, "frames" in case, len(case), case, threads


def callers(lines: Sequence[Line]) -> Iterator[str]:
    found = [line for line in lines if line["kind"] == "callers"]
    yield "| family | row | one caller, calls/s | two callers | two / one |"
    yield "|---|---|---|---|---|"
    for family in sorted({line["family"] for line in found}, reverse=True):
        for row in lines[0]["rows"]:
            here = [line for line in found if (line["family"], line["row"]) == (family, row)]
            one, two = (statistics.median(line[n] for line in here) for n in ("one", "two"))
            ratios = [line["two"] / line["one"] for line in here]
            yield f"| {family} | {row} | {one:.1f} | {two:.1f} | {with_quartiles(ratios)} |"


def parts(lines: Sequence[Line]) -> Iterator[str]:
    rounds = [line for line in lines if line["kind"] == "round"]
    yield "| family | medium | row | call, ms | resize | patches | the rest | a pass of writing |"
    yield "|---|---|---|---|---|---|---|---|"
    for line in lines:
        if line["kind"] != "parts":
            continue
        calls = [r["calls"][line["row"]] for r in rounds if place(r) == place(line)]
        call = statistics.median(c["wall_ns"] for c in calls) / 1e6
        rest = call - line["resize_ms"] - line["patches_ms"]
        yield (
            f"| {line['family']} | {line['case']} | {line['row']} | {call:.1f}"
            f" | {line['resize_ms']:.1f} | {line['patches_ms']:.1f} | {rest:.1f}"
            f" | {line['one_pass_ms']:.1f} |"
        )


def about(lines: Sequence[Line]) -> Iterator[str]:
    rounds = [line for line in lines if line["kind"] == "round"]
    machine = lines[0]["machine"]
    load = statistics.median(line["load_average"] for line in rounds)
    count = len({id(r) for r in rounds}) // len({place(r) for r in rounds})
    yield (
        f"{count} rounds; load average {load:.1f} (median); torch {lines[0]['torch']},"
        f" transformers {lines[0]['transformers']}; "
        + ", ".join(f"{key} {value}" for key, value in machine.items())
    )


def main() -> None:
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    for part in (table, callers, parts, about):
        print("\n".join(part(lines)), end="\n\n")


if __name__ == "__main__":
    main()
