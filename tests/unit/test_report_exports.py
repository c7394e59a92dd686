"""CSV, histograms and Markdown: what other tools and pull requests get."""

import csv
import io

import pytest

from mmload.analysis.measures import Measures
from mmload.records import Outcome, Record, RecordTable
from mmload.report import exports
from mmload.report.markdown import code_block, escape, render_markdown
from tests.unit import report_samples as samples
from tests.unit.test_report_terminal import check_golden


def _record(**more: object) -> Record:
    values: dict[str, object] = {
        "index": 7,
        "request_id": "r-000007",
        "media_class": "15 frames 854x480",
        "payload": 3,
        "intended_ns": 1_000_000_000,
        "sent_ns": 1_000_250_001,
        "first_output_ns": 1_301_000_000,
        "first_answer_ns": 1_401_000_000,
        "last_output_ns": 1_601_000_000,
        "chunk_ns": [1_301_000_000, 1_401_000_000, 1_601_000_000],
        "outcome": Outcome.ok,
        "status": 200,
        "output_tokens": 4,
        "reused_connection": True,
    }
    return Record(**(values | more))  # type: ignore[arg-type]


def _rows(*records: Record) -> list[dict[str, str]]:
    file = io.StringIO(newline="")
    assert exports.records_csv(records, file) == len(records)
    return list(csv.DictReader(io.StringIO(file.getvalue(), newline="")))


def test_csv_has_every_scalar_field_once() -> None:
    columns = exports.csv_columns()
    assert len(columns) == len(set(columns))
    fields = set(Record.__struct_fields__) - {"chunk_ns", "usage"}
    assert {name.replace("_at_ms", "_ns") for name in columns} == fields | {
        *exports.LATENCIES,
        "chunks",
    }
    assert columns[:6] == [
        "index", "request_id", "media_class", "outcome", "lag_ms", "ttft_ms",
    ]  # fmt: skip


def test_csv_latencies_follow_the_definitions() -> None:
    (row,) = _rows(_record())
    assert row["lag_ms"] == "0.250001"
    assert row["ttft_ms"] == "301.000000"
    assert row["ttft_from_sent_ms"] == "300.749999"
    assert row["ttfo_ms"] == "401.000000"
    assert row["e2e_ms"] == "601.000000"
    assert row["e2e_from_sent_ms"] == "600.749999"
    assert row["tpot_ms"] == "100.000000"  # 300 ms over 4 - 1 tokens
    assert row["intended_at_ms"] == "1000.000000"
    assert (row["chunks"], row["outcome"], row["reused_connection"]) == ("3", "ok", "1")
    assert row["headers_at_ms"] == row["cached_tokens"] == ""


@pytest.mark.parametrize(
    ("more", "tpot"),
    [
        ({"output_tokens": None}, "150.000000"),  # 300 ms over 3 - 1 chunks
        ({"output_tokens": 1}, ""),
        ({"chunk_ns": [1_601_000_000]}, ""),
    ],
)
def test_csv_tpot_is_absent_rather_than_zero(more: dict[str, object], tpot: str) -> None:
    (row,) = _rows(_record(**more))
    assert row["tpot_ms"] == tpot


def test_csv_failure_keeps_its_instants_but_has_no_latency() -> None:
    hard = 'he said "no",\r\nthen =1+1; ünïcode'
    failed = _record(outcome=Outcome.truncated, message=hard, sent_ns=999_999_999)
    (row,) = _rows(failed)
    assert row["message"] == hard
    assert row["first_output_at_ms"] == "1301.000000"
    assert row["lag_ms"] == "-0.000001"
    assert row["ttft_ms"] == row["e2e_ms"] == row["tpot_ms"] == ""
    (unsent,) = _rows(Record(index=0, request_id="a", media_class="", payload=0, intended_ns=5))
    assert (unsent["outcome"], unsent["lag_ms"]) == ("unsent", "")


def test_csv_agrees_with_the_analysis() -> None:
    records = [
        _record(index=0),
        _record(index=1, output_tokens=None, first_output_ns=1_234_567_891),
        _record(index=2, outcome=Outcome.timeout),
    ]
    measures = Measures.of(RecordTable.of(records))
    for column in exports.LATENCIES:
        values = getattr(measures, f"{column.removesuffix('_ms')}_ns")
        for row, value in zip(_rows(*records), values, strict=True):
            said = float(row[column]) if row[column] else float("nan")
            assert said == pytest.approx(value / 1e6, abs=1e-6, nan_ok=True)


def test_hgrm_and_hlog_hold_the_ok_requests() -> None:
    records = [_record(index=i, intended_ns=i * 600_000_000) for i in range(4)]
    records = [
        _record(
            index=i,
            intended_ns=start,
            sent_ns=start,
            first_output_ns=start + 300_000_000,
            last_output_ns=start + 500_000_000,
            outcome=Outcome.ok if i < 3 else Outcome.timeout,
        )
        for i, start in enumerate(record.intended_ns for record in records)
    ]
    text = exports.hgrm(records, "e2e")
    assert "Total count    =            3" in text
    last = text.splitlines()[-4].split()
    assert float(last[0]) == pytest.approx(500, rel=1e-3)
    log = exports.hlog(records, started_at_s=1_700_000_000.0)
    lines = [line for line in log.splitlines() if line.startswith("Tag=e2e,")]
    # intended at 0, 0.6 and 1.2 s: two in the first second, one in the next
    assert [line.split(",")[1:3] for line in lines] == [["0.000", "1.000"], ["1.000", "1.000"]]


def test_sequential_table_as_csv() -> None:
    file = io.StringIO()
    assert exports.sequential_csv(samples.sequential(), file) == 3
    head, first, *_, last = file.getvalue().splitlines()
    assert head == (
        "class,resolution,samples,failed,avg_ttft_ms,min_ttft_ms,max_ttft_ms,std_dev_ttft_ms,"
        "avg_total_ms"
    )
    assert first == "image 512x512,512x512,60,0,1382.53,1204.12,2278.28,171.63,5975.24"
    assert last == "photographs,1920x1080,0,3,,,,,"


@pytest.mark.parametrize(
    "case", ["growing", "stable", "invalid", "failures", "empty", "sequential"]
)
def test_markdown_golden(case: str) -> None:
    text = render_markdown(getattr(samples, case)(), command="mmload run scenario.yaml --qps 5")
    check_golden(f"report_markdown_{case}.md", text)


def test_markdown_words_are_no_markup() -> None:
    assert escape("a|b *c* _d_ `e` <f> [g](h) #1 @you $x$") == (
        "a\\|b \\*c\\* \\_d\\_ \\`e\\` \\<f\\> \\[g\\](h) \\#1 @\u200byou \\$x\\$"
    )
    assert escape("two\nlines") == "two lines"
    text = render_markdown(samples.failures())
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.replace("\\|", "").count("|") == 7  # six columns in both tables


def test_markdown_code_block_outlasts_its_content() -> None:
    assert code_block("echo ```") == "````sh\necho ```\n````"
