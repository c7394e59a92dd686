"""What the hook costs a server: nanoseconds a span on the thread that records it.

    python bench/hook_overhead.py [--spans N]

Prints one line a case, the median of interleaved rounds: `record`, `with span`, the same with the
thread measured, and both while the hook is off. The writer's thread runs meanwhile, as in a server,
so its share of the GIL is in the figures. Aim: under 20 us.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable

from mmload.hook import spans


def record(count: int) -> None:
    for i in range(count):
        spans.record("processor", i, i + 1, frames=15)


def with_span(count: int) -> None:
    for _ in range(count):
        with spans.span("processor", frames=15) as seen:
            seen.add(pixels=1)


def with_measured_span(count: int) -> None:
    for _ in range(count):
        with spans.span("processor", measure_thread=True, frames=15) as seen:
            seen.add(pixels=1)


def ns_a_span(case: Callable[[int], None], count: int) -> float:
    start_ns = time.perf_counter_ns()
    case(count)
    return (time.perf_counter_ns() - start_ns) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=5_000, help="spans a case and round")
    count: int = parser.parse_args().spans
    cases = {"record": record, "span": with_span, "span, measured": with_measured_span}
    found: dict[str, list[float]] = {}
    spans.request_id.set("bench-0001")
    for _ in range(7):
        for name, case in cases.items():
            os.environ.pop(spans.FOLDER_VARIABLE, None)
            found.setdefault(f"{name}, hook off", []).append(ns_a_span(case, count))
            with tempfile.TemporaryDirectory() as folder:
                os.environ[spans.FOLDER_VARIABLE] = folder
                spans.install("bench")
                found.setdefault(name, []).append(ns_a_span(case, count))
                if spans.shutdown():
                    raise SystemExit("spans were lost: fewer --spans, please")
    for name, values in found.items():
        print(f"{name:28} {statistics.median(values):8.0f} ns a span")


if __name__ == "__main__":
    main()
