"""Objectives held against records, by hand."""

import numpy as np

from mmload.analysis.measures import Measures
from mmload.analysis.objectives import good, held
from mmload.records import Outcome, Record, RecordTable
from mmload.slo import parse_slo

MS = 1_000_000


def _measures(ttft_ms: list[float | None]) -> Measures:
    """None: the request failed."""
    records = []
    for i, ms in enumerate(ttft_ms):
        first = None if ms is None else round(ms * MS)
        records.append(
            Record(
                index=i,
                request_id=f"r{i}",
                media_class="text",
                payload=0,
                intended_ns=0,
                sent_ns=0,
                first_output_ns=first,
                last_output_ns=None if first is None else first + 100 * MS,
                closed_ns=(first or 0) + 100 * MS,
                chunk_ns=[] if first is None else [first, first + 100 * MS],
                outcome=Outcome.http_error if ms is None else Outcome.ok,
            )
        )
    return Measures.of(RecordTable.of(records))


def test_percentiles_mean_and_limit() -> None:
    measures = _measures([10.0 * (i + 1) for i in range(10)])
    assert held(measures, parse_slo("ttft:p90<90.001ms")).met
    at = held(measures, parse_slo("ttft:p90<90ms"))
    assert (at.value_ms, at.met) == (90.0, False)  # under it, not at it
    assert held(measures, parse_slo("ttft:mean<56ms")).value_ms == 55.0
    assert held(measures, parse_slo("e2e:max<1s")).value_ms == 200.0


def test_a_failed_request_is_later_than_any_limit() -> None:
    measures = _measures([10.0] * 9 + [None])
    assert held(measures, parse_slo("ttft:p90<50ms")).met
    p99 = held(measures, parse_slo("ttft:p99<50ms"))
    assert (p99.value_ms, p99.met) == (None, False)
    assert not held(measures, parse_slo("ttft:mean<50ms")).met


def test_goodput_counts_requests_that_met_all() -> None:
    measures = _measures([10.0, 40.0, 60.0, None])
    slos = [parse_slo("ttft:p99<50ms"), parse_slo("e2e:p90<120ms")]
    assert good(measures, slos).tolist() == [True, False, False, False]
    assert good(measures, slos[:1]).tolist() == [True, True, False, False]


def test_what_is_not_there_is_not_late() -> None:
    measures = _measures([10.0, 20.0])
    measures.tpot_ns = np.full(2, np.nan)  # answers of one token
    assert held(measures, parse_slo("tpot:p99<1ms")).met
    assert good(measures, [parse_slo("tpot:p99<1ms")]).all()
    assert not held(_measures([]), parse_slo("ttft:p99<1s")).met
