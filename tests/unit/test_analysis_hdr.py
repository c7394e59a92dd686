"""HdrHistograms: agreement with nearest rank, with the other versions, and with their readers."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mmload.analysis.hdr import HIGHEST_NS, LatencyHistogram, hlog, intervals
from mmload.analysis.quantiles import at_quantile

# The first interval of jHiccup-2.0.7S.logV2.hlog, a log that HdrHistogram's own tests read (public
# domain), and what the Java, C and Go versions' tests say it holds.
JHICCUP = (
    "HISTFAAAAEV42pNpmSzMwMCgyAABTBDKT4GBgdnNYMcCBvsPEBEJISEuATEZMQ4uASkhIR4nrxg9v2lMaxhvMekIL"
    "GZkKmcCAEf2CsI="
)
JHICCUP_TOTAL, JHICCUP_MAX, JHICCUP_P50, JHICCUP_P99 = 741, 2768895, 344063, 409599

# wrk2's buckets of 20 requests (microseconds), and the values that it printed for them: the test
# data of the Python port, taken from wrk2, which uses the C version.
WRK2 = [v << 6 for v in (1295, 1392, 1432, 1435, 1489, 1493, 1536, 1553, 1560, 1574, 1591, 1615)]
WRK2 += [v << 6 for v in (1672, 1706, 1738, 1812, 1896)]
WRK2 += [v << 7 for v in (1559, 1590, 1638)]
WRK2_PRINTED = {
    "0": 82.943,
    "0.1": 89.151,
    "0.2": 91.903,
    "0.3": 95.615,
    "0.4": 99.455,
    "0.5": 100.799,
    "0.55": 101.887,
    "0.75": 111.295,
    "0.775": 116.031,
    "0.85": 121.407,
    "0.875": 199.679,
    "0.925": 203.647,
    "1": 209.791,
}
WRK2_LEVELS = (
    "0.000000 0.100000 0.200000 0.300000 0.400000 0.500000 0.550000 0.600000 0.650000 0.700000"
    " 0.750000 0.775000 0.800000 0.825000 0.850000 0.875000 0.887500 0.900000 0.912500 0.925000"
    " 0.937500 0.943750 0.950000 0.956250 1.000000"
)
QUANTILES = [Fraction(n, 1000) for n in (0, 1, 250, 500, 900, 950, 990, 999, 1000)]


def ns(*values: float) -> NDArray[np.float64]:
    return np.array(values, np.float64)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, HIGHEST_NS), min_size=1, max_size=60))
def test_agrees_with_nearest_rank_within_a_thousandth(values: list[int]) -> None:
    histogram = LatencyHistogram.of(ns(*values))
    for q in QUANTILES:
        exact = at_quantile(ns(*values), q)
        found = histogram.value_at(q)
        assert exact is not None and found is not None
        assert exact <= found <= exact * 1.001 + 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, HIGHEST_NS), max_size=40))
def test_counters_are_those_of_the_port(values: list[int]) -> None:
    port = HdrHistogram(1, HIGHEST_NS, 3)
    for value in values:
        assert port.record_value(value)
    assert LatencyHistogram.of(ns(*values)).encode() == port.encode().decode()


def test_values_out_of_range_are_counted_and_nan_is_no_value() -> None:
    histogram = LatencyHistogram.of(ns(-1, 0, 5, HIGHEST_NS, HIGHEST_NS + 1, np.inf, np.nan))
    assert (len(histogram), histogram.out_of_range) == (3, 3)


def test_the_rank_is_exact_where_the_port_rounds() -> None:
    # 3 of 10 at q = 0.34: nearest rank is 4; int(3.4 + .5) is 3
    histogram = LatencyHistogram.of(ns(*range(1, 11)))
    assert histogram.value_at(Fraction(34, 100)) == 4
    assert LatencyHistogram().value_at(Fraction(1, 2)) is None


def test_merging_is_recording_everything_in_one() -> None:
    values = np.random.default_rng(5).lognormal(18, 2, 3000).round()
    parts = [LatencyHistogram.of(part) for part in np.array_split(values, 7)]
    parts[3].record(ns(-5))
    whole = LatencyHistogram()
    for part in parts:
        whole.merge(part)
    assert whole.out_of_range == 1
    assert len(whole) == 3000
    for q in QUANTILES:
        assert whole.value_at(q) == LatencyHistogram.of(values).value_at(q)
    assert whole.max == LatencyHistogram.of(values).max


def test_reads_the_published_log() -> None:
    histogram = LatencyHistogram.decode(JHICCUP)
    assert len(histogram) == JHICCUP_TOTAL
    assert histogram.max == JHICCUP_MAX
    assert histogram.value_at(Fraction(1, 2)) == JHICCUP_P50
    assert histogram.value_at(Fraction(99, 100)) == JHICCUP_P99
    again = HdrHistogram.decode(histogram.encode())
    assert again.get_total_count() == JHICCUP_TOTAL
    assert again.get_max_value() == JHICCUP_MAX


@pytest.mark.parametrize(("q", "printed"), WRK2_PRINTED.items())
def test_prints_what_wrk2_printed(q: str, printed: float) -> None:
    found = LatencyHistogram.of(ns(*WRK2)).value_at(Fraction(q))
    assert found is not None
    assert round(found / 1000, 3) == printed


def test_hgrm_of_wrk2s_twenty_requests() -> None:
    text = LatencyHistogram.of(ns(*WRK2)).hgrm(unit_ns=1000.0)
    lines = text.splitlines()
    assert lines[0] == "       Value     Percentile TotalCount 1/(1-Percentile)"
    assert lines[1] == ""
    assert lines[2] == "      82.943 0.000000000000          1           1.00"
    assert lines[3] == "      89.151 0.100000000000          2           1.11"
    levels = [line.split()[1][:8] for line in lines[2:] if not line.startswith("#")]
    assert " ".join(levels) == WRK2_LEVELS
    assert lines[-5].split() == ["209.791", "0.956250000000", "20", "22.86"]
    assert lines[-4].split() == ["209.791", "1.000000000000", "20"]
    middles = [v + 32 for v in WRK2[:17]] + [v + 64 for v in WRK2[17:]]
    assert lines[-3] == (
        f"#[Mean    = {np.mean(middles) / 1000:12.3f},"
        f" StdDeviation   = {np.std(middles) / 1000:12.3f}]"
    )
    assert lines[-2] == "#[Max     =      209.791, Total count    =           20]"
    assert lines[-1] == "#[Buckets =           37, SubBuckets     =         2048]"


def test_an_empty_hgrm_has_no_lines_of_values() -> None:
    lines = LatencyHistogram().hgrm().splitlines()
    assert len(lines) == 5
    assert lines[3] == "#[Max     =        0.000, Total count    =            0]"


def test_hlog_goes_through_the_ports_reader(tmp_path: Path) -> None:
    at = ns(0.2e9, 0.9e9, 2.5e9, np.nan)
    values = ns(1e6, 3e6, 7e6, 9e6)
    parts = [
        *intervals("15 frames, 854x480", at, values, 1.0),
        *intervals("", at, values * 2, 1.0),
    ]
    text = hlog(parts, started_at_s=1_700_000_000.25)
    lines = text.splitlines()
    assert lines[0] == "#[Histogram log format version 1.3]"
    assert lines[1] == (
        "#[StartTime: 1700000000.250 (seconds since epoch), 2023-11-14 22:13:20.250+00:00]"
    )
    assert lines[4].startswith("Tag=15_frames_854x480,0.000,1.000,3.000,HISTF")
    assert lines[5].startswith("0.000,1.000,6.001,HISTF")
    file = tmp_path / "log.hlog"
    file.write_text(text)
    reader = HistogramLogReader(str(file), HdrHistogram(1, HIGHEST_NS, 3))
    found = []
    while (one := reader.get_next_interval_histogram()) is not None:
        found.append(
            (one.get_tag(), one.get_start_time_stamp(), one.get_total_count(), one.get_max_value())
        )
    reader.close()
    assert reader.get_start_time_sec() == 1_700_000_000.25
    top = [LatencyHistogram.of(ns(v)).max for v in (3e6, 6e6, 7e6, 14e6)]
    assert found == [
        ("15_frames_854x480", 1_700_000_000_250.0, 2, top[0]),
        (None, 1_700_000_000_250.0, 2, top[1]),
        ("15_frames_854x480", 1_700_000_002_250.0, 1, top[2]),
        (None, 1_700_000_002_250.0, 1, top[3]),
    ]
