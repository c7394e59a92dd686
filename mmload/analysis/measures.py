"""The columns that every figure is a fold over: masks by outcome, latencies, tokens, completions.

In: the records as columns. Out: arrays of the same length, NaN where a measure does not exist for
a request (not sent, no output, one chunk). A failed request has no latency here: whoever takes a
percentile of a column takes it of ok requests only, because there is nothing else in it.
"""

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mmload.records import FAILURES, Outcome, RecordTable

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

MIN_TOKENS_FOR_TPOT: Final = 2


@dataclass(slots=True)
class Measures:
    """All `*_ns` are nanoseconds; `lag_ns` exists for every sent request, latencies for ok ones."""

    ok: Mask
    measured: Mask  # ok, and not cut off as warm-up: what latencies are of
    sent: Mask  # attempted: neither dropped nor unsent
    dropped: Mask
    unsent: Mask
    lag_ns: Floats  # sent - intended
    ttft_ns: Floats
    ttft_from_sent_ns: Floats
    ttfo_ns: Floats
    e2e_ns: Floats
    e2e_from_sent_ns: Floats
    tpot_ns: Floats
    tokens: Floats  # n: output tokens as usage says, else chunks; ok requests only
    token_source: str  # usage | chunks | mixed
    done_ns: Floats  # when a sent request left the server: last output, else its close

    @classmethod
    def of(cls, table: RecordTable, cut: int = 0) -> "Measures":
        """`cut` requests at the start have no latency: they are warm-up."""
        t = table.times
        ok = table.is_outcome(Outcome.ok)
        dropped, unsent = table.is_outcome(Outcome.dropped), table.is_outcome(Outcome.unsent)
        sent = ~(dropped | unsent)
        measured = ok & (np.arange(len(ok)) >= cut)

        def of_ok(values: Floats) -> Floats:
            return np.where(ok, values, np.nan)

        def latency(values: Floats) -> Floats:
            return np.where(measured, values, np.nan)

        usage = table.counts["output_tokens"]
        tokens = of_ok(np.where(np.isnan(usage), table.chunks, usage))
        streaming = latency(t["last_output_ns"] - t["first_output_ns"])
        countable = (tokens >= MIN_TOKENS_FOR_TPOT) & (table.chunks >= 2)
        # a failure's partial output is not its end: it leaves when it is closed
        output_end = of_ok(t["last_output_ns"])
        return cls(
            ok=ok,
            measured=measured,
            sent=sent,
            dropped=dropped,
            unsent=unsent,
            lag_ns=np.where(sent, t["sent_ns"] - t["intended_ns"], np.nan),
            ttft_ns=latency(t["first_output_ns"] - t["intended_ns"]),
            ttft_from_sent_ns=latency(t["first_output_ns"] - t["sent_ns"]),
            ttfo_ns=latency(t["first_answer_ns"] - t["intended_ns"]),
            e2e_ns=latency(t["last_output_ns"] - t["intended_ns"]),
            e2e_from_sent_ns=latency(t["last_output_ns"] - t["sent_ns"]),
            tpot_ns=np.divide(streaming, tokens - 1, out=np.full(len(ok), np.nan), where=countable),
            tokens=tokens,
            token_source=_source(~np.isnan(usage[ok])),
            done_ns=np.where(np.isnan(output_end), t["closed_ns"], output_end),
        )


def _source(from_usage: Mask) -> str:
    if not len(from_usage) or not from_usage.any():
        return "chunks"
    return "usage" if from_usage.all() else "mixed"


def classes_in_order(table: RecordTable) -> list[tuple[str, int]]:
    """Class names with their codes; numbers in names count as numbers: 6 frames, 15 frames."""

    def parts(name: str) -> list[tuple[int, str]]:
        found = re.findall(r"(\d+)|(\D+)", name)
        return [(int(digits or 0), words) for digits, words in found]

    numbered = [(name, code) for code, name in enumerate(table.class_names)]
    return sorted(numbered, key=lambda one: parts(one[0]))


def failures(table: RecordTable, mask: Mask | None = None) -> dict[str, int]:
    """Kind of failure -> count, kinds that occurred only, in the order of `Outcome`."""
    counted = {}
    for kind in FAILURES:
        of_kind = table.is_outcome(kind)
        count = int(np.count_nonzero(of_kind if mask is None else of_kind & mask))
        if count:
            counted[kind.value] = count
    return counted


def rate_qps(times_ns: Floats) -> float | None:
    """(n - 1) / (last - first) a second; None for fewer than two instants or no time between."""
    times_ns = times_ns[~np.isnan(times_ns)]
    span = float(times_ns.max() - times_ns.min()) if len(times_ns) > 1 else 0.0
    return (len(times_ns) - 1) * 1e9 / span if span > 0 else None
