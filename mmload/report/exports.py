"""For other tools: records as CSV, HdrHistogram's `.hgrm` and `.hlog`; a sequential table as CSV.

In: records in any order, read once (for the table, the summary). Out: text. In the records' CSV
every scalar field is there; instants are milliseconds since the run's start in `*_at_ms`, latencies
are in `*_ms`. Latencies are those of docs/summary.md, and only requests that succeeded have them,
so that a mean over a column is not a mean over failures. Instants and differences are exact: a
nanosecond is the sixth decimal.
"""

import csv
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, Final, TextIO

import msgspec

from mmload.analysis import hdr
from mmload.analysis.measures import Measures
from mmload.records import Outcome, Record, RecordTable

HLOG_INTERVAL_S: Final = 1.0
_NS_PER_MS: Final = 1_000_000
_FIRST: Final = ("index", "request_id", "media_class", "outcome")
_NOT_SCALAR: Final = ("chunk_ns", "usage")
_REST: Final = tuple(
    field.name
    for field in msgspec.structs.fields(Record)
    if field.name not in (*_FIRST, *_NOT_SCALAR)
)
_INSTANTS: Final = tuple(name for name in _REST if name.endswith("_ns"))
_OTHERS: Final = tuple(name for name in _REST if not name.endswith("_ns"))
_get_first: Final = attrgetter(*_FIRST)
_get_instants: Final = attrgetter(*_INSTANTS)
_get_others: Final = attrgetter(*_OTHERS)
LATENCIES: Final = (
    "lag_ms",
    "ttft_ms",
    "ttft_from_sent_ms",
    "ttfo_ms",
    "tpot_ms",
    "e2e_ms",
    "e2e_from_sent_ms",
)
HISTOGRAMS: Final = tuple(name.removesuffix("_ms") for name in LATENCIES)


def csv_columns() -> list[str]:
    """The header: identity and outcome, latencies, then every other field of a record."""
    rest = [f"{name.removesuffix('_ns')}_at_ms" for name in _INSTANTS]
    return [*_FIRST, *LATENCIES, "chunks", *rest, *_OTHERS]


def records_csv(records: Iterable[Record], file: TextIO) -> int:
    """Writes the header and a line a record (RFC 4180); returns the number of records.

    `file` should be opened with `newline=""`. A value that never came to be is an empty cell.
    """
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(csv_columns())
    count = 0
    for record in records:
        writer.writerow(_row(record))
        count += 1
    return count


SEQUENTIAL: Final = (
    "class",
    "resolution",
    "samples",
    "failed",
    "avg_ttft_ms",
    "min_ttft_ms",
    "max_ttft_ms",
    "std_dev_ttft_ms",
    "avg_total_ms",
)


def sequential_csv(summary: dict[str, Any], file: TextIO) -> int:
    """Writes the `sequential` table of a summary; returns the number of its rows."""
    rows = summary["sequential"]
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(SEQUENTIAL)
    writer.writerows([row[name] for name in SEQUENTIAL] for row in rows)
    return len(rows)


def hgrm(records: Iterable[Record], measure: str = "ttft") -> str:
    """The percentile distribution of one of `HISTOGRAMS` in ms, for HdrHistogram's plotters."""
    values_ns = getattr(Measures.of(RecordTable.of(records)), f"{measure}_ns")
    return hdr.LatencyHistogram.of(values_ns).hgrm()


def hlog(records: Iterable[Record], started_at_s: float) -> str:
    """A histogram log of all `HISTOGRAMS` by intended second, each under its own tag.

    `started_at_s` is the run's start in seconds since the epoch.
    """
    table = RecordTable.of(records)
    measures = Measures.of(table)
    parts = [
        part
        for measure in HISTOGRAMS
        for part in hdr.intervals(
            measure,
            table.times["intended_ns"],
            getattr(measures, f"{measure}_ns"),
            HLOG_INTERVAL_S,
        )
    ]
    return hdr.hlog(parts, started_at_s)


def _row(record: Record) -> list[Any]:
    """The cells of a record, in the order of `csv_columns`."""
    return [
        *_get_first(record),
        *_latencies(record),
        len(record.chunk_ns),
        *map(_milliseconds, _get_instants(record)),
        *(int(value) if value.__class__ is bool else value for value in _get_others(record)),
    ]


def _latencies(record: Record) -> list[str | None]:
    """In the order of `LATENCIES`."""
    intended, sent = record.intended_ns, record.sent_ns
    lag = _between(intended, sent)
    if record.outcome is not Outcome.ok:
        return [lag, *[None] * (len(LATENCIES) - 1)]
    first, last = record.first_output_ns, record.last_output_ns
    return [
        lag,
        _between(intended, first),
        _between(sent, first),
        _between(intended, record.first_answer_ns),
        _tpot(record),
        _between(intended, last),
        _between(sent, last),
    ]


def _between(start_ns: int | None, end_ns: int | None) -> str | None:
    return None if start_ns is None or end_ns is None else _milliseconds(end_ns - start_ns)


def _tpot(record: Record) -> str | None:
    """(last output - first output) / (n - 1), for n >= 2 tokens in at least two chunks."""
    chunks = len(record.chunk_ns)
    n = chunks if record.output_tokens is None else record.output_tokens
    first, last = record.first_output_ns, record.last_output_ns
    if n < 2 or chunks < 2 or first is None or last is None:
        return None
    return f"{(last - first) / (n - 1) / _NS_PER_MS:.6f}"


def _milliseconds(ns: int | None) -> str | None:
    """Exact, in decimal: 1_234_567 ns is `1.234567`."""
    if ns is None:
        return None
    whole, rest = divmod(abs(ns), _NS_PER_MS)
    return f"{'-' if ns < 0 else ''}{whole}.{rest:06d}"
