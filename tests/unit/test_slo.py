"""Objectives as text: what is read, and what is refused with which words."""

from fractions import Fraction

import pytest

from mmload.errors import UsageError
from mmload.slo import parse_measure, parse_slo


@pytest.mark.parametrize(
    ("text", "shown", "limit_ns"),
    [
        ("ttft:p99<500ms", "ttft:p99<500ms", 500_000_000),
        ("e2e:p90 < 2s", "e2e:p90<2s", 2_000_000_000),
        ("TPOT:mean<0.5ms", "tpot:mean<0.5ms", 500_000),
        ("ttft-from-sent:p99.9<1.5s", "ttft-from-sent:p99.9<1.5s", 1_500_000_000),
        ("ttfo:max<250us", "ttfo:max<0.25ms", 250_000),
    ],
)
def test_objectives_are_read(text: str, shown: str, limit_ns: int) -> None:
    slo = parse_slo(text)
    assert (str(slo), slo.limit_ns) == (shown, limit_ns)
    assert parse_slo(str(slo)) == slo


def test_a_percentile_is_an_exact_fraction() -> None:
    assert parse_measure("ttft:p99.9", "--slo").quantile == Fraction(999, 1000)
    assert parse_measure("ttft:mean", "--slo").quantile is None
    assert parse_measure("ttft_from_sent:p50", "--objective").title == "TTFT from sent p50"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("tftt:p99<5ms", "--slo 'tftt:p99': no such metric", "did you mean ttft?"),
        ("latency:p99<5ms", "no such metric", "metrics are ttft, ttft-from-sent"),
        ("ttft<5ms", "METRIC:STATISTIC", "write ttft:p99"),
        ("ttft:p0<5ms", "p1 to p99.9", "write ttft:p99"),
        ("ttft:p100<5ms", "p1 to p99.9", "write ttft:p99"),
        ("ttft:p99<5", "with us, ms or s", "as in"),
        ("ttft:p99>5ms", "METRIC:STATISTIC<LIMIT", "as in"),
        ("ttft:p99<0ms", "nothing is faster than 0", "above 0"),
        ("ttft:p99<-5ms", "METRIC:STATISTIC<LIMIT", "as in"),
    ],
)
def test_what_is_no_objective_is_refused(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_slo(text)
    assert message in error.value.message
    assert hint in error.value.hint
