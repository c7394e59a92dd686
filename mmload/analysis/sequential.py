"""The table of a sequential run: what benchmarks that send one request at a time report.

In: the manifest and the records' measures. Out: the summary's `sequential`, one row a class (two
sizes in one run are two classes, so two resolutions are two rows); None for other loads. Average,
minimum, maximum and sample standard deviation (over n - 1) of TTFT, and the average of E2E, of the
requests that succeeded; one at a time, the intended time is the moment of sending.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmload.analysis.measures import Measures, classes_in_order, failures
from mmload.analysis.quantiles import ms
from mmload.records import RecordTable
from mmload.rundir import RunManifest


def table(manifest: RunManifest, records: RecordTable, m: Measures) -> list[dict[str, Any]] | None:
    """The rows, in the order of classes."""
    if manifest.load_mode != "sequential":
        return None
    classes = manifest.media.get("classes") or {}
    rows = []
    for name, code in classes_in_order(records):
        mine = records.media_class == code
        ttft = m.ttft_ns[mine & m.ok & ~np.isnan(m.ttft_ns)]
        total = m.e2e_ns[mine & m.ok & ~np.isnan(m.e2e_ns)]
        rows.append(
            {
                "class": name,
                "resolution": _resolution(classes.get(name)),
                "samples": len(ttft),
                "failed": sum(failures(records, mine).values()),
                "avg_ttft_ms": _of(ttft, np.mean),
                "min_ttft_ms": _of(ttft, np.min),
                "max_ttft_ms": _of(ttft, np.max),
                "std_dev_ttft_ms": ms(ttft.std(ddof=1)) if len(ttft) > 1 else None,
                "avg_total_ms": _of(total, np.mean),
            }
        )
    return rows


def _of(values: NDArray[np.float64], fold: Any) -> float | None:
    return ms(fold(values)) if len(values) else None


def _resolution(facts: Any) -> str | None:
    """`512x512`; None for text, and for files of several sizes."""
    width, height = (facts or {}).get("width"), (facts or {}).get("height")
    return f"{width}x{height}" if width and height else None
