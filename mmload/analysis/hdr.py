"""HdrHistograms of latencies: merged over processes and hosts, and written for the public tools.

In: nanoseconds. Out: percentiles within 0.1 % of nearest rank, `.hgrm` text (percentile plotters)
and `.hlog` text (HistogramLogAnalyzer and others). A headline never comes from here: percentiles of
a run are nearest-rank on its records. This stands in front of the Python port (hdrh) because that
loses values out of range silently, rounds ranks as int(x + .5), spaces percentile ticks unlike the
others, forgets the unit of the deviation, raises in `output_start_time` and cannot write tags. Only
its layout of counters and its codec are used.
"""

import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

from mmload.analysis.quantiles import NS_PER_MS, nearest_rank

HIGHEST_NS: Final = 24 * 3600 * 10**9
SIGNIFICANT_DIGITS: Final = 3
TICKS_PER_HALF_DISTANCE: Final = 5
LOG_FORMAT: Final = "1.3"  # the first with tags


class LatencyHistogram:
    """Counts of values from 0 to 24 h in ns; `out_of_range` counts what does not fit."""

    def __init__(self) -> None:
        self._hdr = HdrHistogram(1, HIGHEST_NS, SIGNIFICANT_DIGITS)
        self._counts: NDArray[np.uint64] = np.ctypeslib.as_array(self._hdr.counts)
        self._half = int(self._hdr.sub_bucket_half_count)
        self.out_of_range = 0

    @classmethod
    def of(cls, values_ns: NDArray[np.float64]) -> "LatencyHistogram":
        histogram = cls()
        histogram.record(values_ns)
        return histogram

    @classmethod
    def decode(cls, text: str) -> "LatencyHistogram":
        """From the base64 form that `encode` and every other implementation write.

        A coarser histogram's counter stands for its highest value, which is what it prints itself.
        """
        other = HdrHistogram.decode(text)
        filled = [i for i in range(other.counts_len) if other.get_count_at_index(i)]
        values = [other.get_value_from_index(i) for i in filled]
        highest = [other.get_highest_equivalent_value(value) for value in values]
        counts = [other.get_count_at_index(i) for i in filled]
        histogram = cls()
        histogram.record(np.array(highest, np.float64), np.array(counts, np.int64))
        return histogram

    def record(
        self, values_ns: NDArray[np.float64], counts: NDArray[np.int64] | None = None
    ) -> None:
        """Adds values, each once or `counts` times; NaN is no value.

        Values below 0 or over 24 h are counted apart.
        """
        if counts is None:
            counts = np.ones(len(values_ns), np.int64)
        fits = (values_ns >= 0) & (values_ns <= HIGHEST_NS)
        self.out_of_range += int(counts[~fits & ~np.isnan(values_ns)].sum())
        self._add(values_ns[fits].astype(np.int64), counts[fits])

    def merge(self, other: "LatencyHistogram") -> None:
        """Adds all of `other`, what was out of its range too."""
        index = np.flatnonzero(other._counts)
        self._add(self._lowest(index), other._counts[index].astype(np.int64))
        self.out_of_range += other.out_of_range

    def __len__(self) -> int:
        return int(self._hdr.total_count)

    def value_at(self, q: Fraction) -> int | None:
        """The nearest-rank value: the highest that counts as the same, as all versions say it."""
        if not len(self):
            return None
        reached = np.searchsorted(np.cumsum(self._counts), nearest_rank(len(self), q))
        return int(self._highest(np.array([reached]))[0])

    @property
    def max(self) -> int:
        return int(self._hdr.get_max_value())

    def encode(self) -> str:
        """The base64 form of V2: what `.hlog` lines hold."""
        text: str = self._hdr.encode().decode("ascii")
        return text

    def hgrm(self, unit_ns: float = NS_PER_MS) -> str:
        """The percentile distribution as the other versions print it, values in `unit_ns`."""
        lines = [
            f"{'Value':>12} {'Percentile':>14} {'TotalCount':>10} {'1/(1-Percentile)':>14}",
            "",
        ]
        cumulated = np.cumsum(self._counts)
        total = len(self)
        for percent in _percent_levels() if total else ():
            rank = nearest_rank(total, Fraction(percent) / 100)
            index = int(np.searchsorted(cumulated, rank))
            value = self._highest(np.array([index]))[0] / unit_ns
            count = int(cumulated[index])
            lines.append(
                f"{value:12.3f} {percent / 100:2.12f} {count:10d} {1 / (1 - percent / 100):14.2f}"
            )
            if count == total:
                lines.append(f"{value:12.3f} {1:2.12f} {total:10d}")
                break
        mean, deviation = self._moments()
        lines += [
            f"#[Mean    = {mean / unit_ns:12.3f}, StdDeviation   = {deviation / unit_ns:12.3f}]",
            f"#[Max     = {self.max / unit_ns:12.3f}, Total count    = {total:12d}]",
            f"#[Buckets = {self._hdr.bucket_count:12d},"
            f" SubBuckets     = {self._hdr.sub_bucket_count:12d}]",
        ]
        return "\n".join(lines) + "\n"

    def _add(self, values: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        if not len(values):
            return
        sums = np.bincount(self._index(values), weights=counts, minlength=len(self._counts))
        self._counts += sums.astype(np.uint64)
        self._hdr.total_count += int(counts.sum())
        self._hdr.min_value = min(self._hdr.min_value, int(values.min()))
        self._hdr.max_value = max(self._hdr.max_value, int(values.max()))

    def _index(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which counter a value belongs to: exact below 2 * half, then `half` for each doubling."""
        length = np.frexp((values | (2 * self._half - 1)).astype(np.float64))[1]
        bucket = length - int(self._hdr.sub_bucket_half_count_magnitude) - 1
        index: NDArray[np.int64] = bucket * self._half + (values >> bucket)
        return index

    def _lowest(self, index: NDArray[np.int64]) -> NDArray[np.int64]:
        bucket = np.maximum(index // self._half - 1, 0)
        lowest: NDArray[np.int64] = (index - bucket * self._half) << bucket
        return lowest

    def _highest(self, index: NDArray[np.int64]) -> NDArray[np.int64]:
        highest: NDArray[np.int64] = self._lowest(index + 1) - 1
        return highest

    def _moments(self) -> tuple[float, float]:
        """Mean and standard deviation, every value taken as the middle of its counter."""
        if not len(self):
            return 0.0, 0.0
        index = np.flatnonzero(self._counts)
        lowest = self._lowest(index)
        middle = (lowest + (self._lowest(index + 1) - lowest) // 2).astype(np.float64)
        weights = self._counts[index].astype(np.float64)
        mean = float(np.average(middle, weights=weights))
        return mean, math.sqrt(float(np.average((middle - mean) ** 2, weights=weights)))


def _percent_levels() -> Iterator[float]:
    """0, 10, ... 50, 55, ... 75, 77.5, ...: five steps to each halving of what is left."""
    left = 100.0
    while True:
        for step in range(TICKS_PER_HALF_DISTANCE):
            yield 100.0 - left + step * left / (2 * TICKS_PER_HALF_DISTANCE)
        left /= 2


class Interval(NamedTuple):
    """One line of a log: the values of a stretch of time, `start_s` since the log's start."""

    tag: str
    start_s: float
    length_s: float
    histogram: LatencyHistogram


def intervals(
    tag: str, at_ns: NDArray[np.float64], values_ns: NDArray[np.float64], length_s: float
) -> Iterator[Interval]:
    """Values by the stretch of time that `at_ns` falls into, empty stretches left out."""
    known = ~(np.isnan(at_ns) | np.isnan(values_ns))
    place = (at_ns[known] // (length_s * 1e9)).astype(np.int64)
    values_ns = values_ns[known]
    for number in np.unique(place):
        part = LatencyHistogram.of(values_ns[place == number])
        yield Interval(tag, float(number * length_s), length_s, part)


def hlog(parts: Iterable[Interval], started_at_s: float) -> str:
    """A histogram log, in order of time. `started_at_s` is the log's start since the epoch.

    Values are nanoseconds; the column Interval_Max is in milliseconds, as the tools expect.
    """
    date = datetime.fromtimestamp(started_at_s, UTC).isoformat(sep=" ", timespec="milliseconds")
    lines = [
        f"#[Histogram log format version {LOG_FORMAT}]",
        f"#[StartTime: {started_at_s:.3f} (seconds since epoch), {date}]",
        f"#[BaseTime: {started_at_s:.3f} (seconds since epoch)]",
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
    ]
    for part in sorted(parts, key=lambda part: part.start_s):
        prefix = f"Tag={_tag(part.tag)}," if part.tag else ""
        top_ms = part.histogram.max / NS_PER_MS
        code = part.histogram.encode()
        lines.append(f"{prefix}{part.start_s:.3f},{part.length_s:.3f},{top_ms:.3f},{code}")
    return "\n".join(lines) + "\n"


def _tag(name: str) -> str:
    """A tag may hold no comma, no blank and no line break."""
    return "_".join(name.replace(",", " ").split())
