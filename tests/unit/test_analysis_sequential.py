"""The table of a sequential run, with figures worked out by hand."""

from mmload.analysis.summary import summarise
from mmload.records import Outcome, RecordTable
from mmload.rundir import RunEnd
from tests.unit.analysis_samples import MS, manifest, record

MEDIA = {
    "classes": {
        "image 512x512": {"width": 512, "height": 512, "media_a_request": 1},
        "image 1024x1024": {"width": 1024, "height": 1024, "media_a_request": 1},
    }
}


def rows(mode: str) -> object:
    """TTFT 100, 120 and 140 ms at 512, 300 ms at 1024, each 50 ms before the last output."""
    records = []
    for i, (name, ttft) in enumerate(
        [("512x512", 100), ("512x512", 120), ("512x512", 140), ("1024x1024", 300)]
    ):
        start, first = i * 1000 * MS, (i * 1000 + ttft) * MS
        records.append(
            record(i, start, first + 50 * MS, media_class=f"image {name}", first_output_ns=first)
        )
    records.append(
        record(4, 4000 * MS, 4001 * MS, media_class="image 1024x1024", outcome=Outcome.timeout)
    )
    of = manifest(load_mode=mode, planned=5, media=MEDIA)
    return summarise(of, RunEnd(), RecordTable.of(records), [], []).summary["sequential"]


def test_two_resolutions_are_two_rows() -> None:
    assert rows("sequential") == [
        {
            "class": "image 512x512",
            "resolution": "512x512",
            "samples": 3,
            "failed": 0,
            "avg_ttft_ms": 120.0,
            "min_ttft_ms": 100.0,
            "max_ttft_ms": 140.0,
            "std_dev_ttft_ms": 20.0,  # sqrt((400 + 0 + 400) / 2)
            "avg_total_ms": 170.0,
        },
        {
            "class": "image 1024x1024",
            "resolution": "1024x1024",
            "samples": 1,
            "failed": 1,
            "avg_ttft_ms": 300.0,
            "min_ttft_ms": 300.0,
            "max_ttft_ms": 300.0,
            "std_dev_ttft_ms": None,
            "avg_total_ms": 350.0,
        },
    ]


def test_other_loads_have_no_such_table() -> None:
    assert rows("closed") is None and rows("open") is None
