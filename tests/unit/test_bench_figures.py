"""The rules of the precision benchmark, on rows made by hand: what is late, and by how much."""

from typing import Any

import pytest

from bench import table
from bench.figures import figures, fitted_lag_ns, wire_rate
from bench.tools import Seen
from bench.truth_server import Row

MS = 1_000_000


def row(number: int, at_ms: float, request_id: str = "", **fields: Any) -> Row:
    return Row(
        number=number,
        connection=0,
        nth=number,
        request_id=request_id,
        first_byte_ns=round(at_ms * MS),
        **fields,
    )


def test_the_fitted_start_is_the_latest_that_no_arrival_precedes() -> None:
    # 10 requests/s: due at s, s+100, s+200, s+300. Arrivals 1007, 1102, 1210, 1304 give
    # 1007, 1002, 1010, 1004 less the schedule: the start is 1002.
    arrivals = [at * MS for at in (1210, 1007, 1304, 1102)]
    assert list(fitted_lag_ns(arrivals, 10.0)) == [5 * MS, 0, 8 * MS, 2 * MS]


def test_no_arrivals_are_no_lag() -> None:
    assert len(fitted_lag_ns([], 10.0)) == 0
    assert wire_rate([5]) is None


def test_the_rate_at_the_wire_counts_gaps() -> None:
    assert wire_rate([0, 300 * MS, 500 * MS]) == 4.0


def test_a_ttft_is_held_against_the_same_span_on_the_servers_clock() -> None:
    # The server: first byte at 1000 ms, first token written at 1055. The tool: 57.5 ms from sent.
    rows = [row(0, 1000, "a", token_ns=[1055 * MS], due_ns=[1054 * MS], body_bytes=10)]
    said = Seen("a", ttft_ns=round(57.5 * MS), intended_ns=998 * MS, sent_ns=999 * MS)
    found = figures(rows, [said], 10.0)
    assert found["ttft_error_ms"]["p50"] == 2.5
    assert found["wire_lag_from_intended_ms"]["max"] == 2.0
    assert found["own_lag_ms"]["max"] == 1.0
    assert found["server_late_ms"]["max"] == 1.0


def test_requests_are_matched_by_id_or_by_the_servers_own_name() -> None:
    rows = [row(0, 1000, "a", token_ns=[1050 * MS]), row(1, 1100, token_ns=[1160 * MS])]
    seen = [Seen("#1", ttft_ns=61 * MS), Seen("a", ttft_ns=52 * MS), Seen("b", ttft_ns=1)]
    found = figures(rows, seen, 10.0)
    assert (found["sent"], found["ok"], found["unmatched"]) == (2, 3, 1)
    assert (found["ttft_error_ms"]["n"], found["ttft_error_ms"]["max"]) == (2, 2.0)
    assert found["own_lag_ms"] is None


@pytest.mark.parametrize(
    ("values", "words"),
    [([3.0, 1.0, 2.0], "2.0 (1.0-3.0)"), ([2.0, 2.0], "2.0"), ([None], "-")],
)
def test_a_cell_is_the_median_and_the_range(values: list[float | None], words: str) -> None:
    runs = [{"x": value} for value in values]
    assert table.cell(runs, ("x", lambda run: run["x"], 1)) == words
