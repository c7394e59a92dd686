"""What is copied of a long-lived traced server's lines, and what it says was lost."""

import errno
import os
import time
from pathlib import Path

import pytest

from mmload.hook import spans
from mmload.rundir import RunDir, SpanLines
from mmload.spans_home import SpanSource, lines_of_run

SPAN = b'{"request_id":"%s","stage":"x","start_ns":1,"end_ns":%d,"pid":1,"thread":"t"}\n'


def test_losses_before_the_run_are_not_the_run_s() -> None:
    lines = [
        b'{"process":{}}\n',
        SPAN % (b"old", 50),
        b'{"lost":7,"last_ns":60}\n',
        SPAN % (b"new", 150),
        b'{"lost":9,"last_ns":160}\n',
        b'{"lost":9,"last_ns":160}\n',
    ]
    kept = list(lines_of_run(lines, 100, "p", {}))
    assert kept == [lines[0], b'{"lost":0}\n', lines[3], b'{"lost":2}\n', b'{"lost":2}\n']
    assert list(lines_of_run(lines, 0, "p", {})).count(b'{"lost":9}\n') == 2


def test_a_count_that_spans_the_run_s_start_is_the_run_s() -> None:
    """It cannot be told how much of it was lost before: rather too many than too few."""
    lines = [b'{"lost":7,"last_ns":160}\n', b'{"lost":7}\n']
    assert list(lines_of_run(lines, 100, "p", {})) == [b'{"lost":7}\n', b'{"lost":7}\n']


def test_a_torn_line_is_passed_on_as_it_is(tmp_path: Path) -> None:
    lines = [
        b'{"process":{"pid":1,"role":"r"}}\n',
        b'{"lost":9,"last_ns":160}\n',
        b'{"lost":12,"last_n\n',
    ]
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines_of_run(lines, 100, "p", {})))
    read = SpanLines([tmp_path / "a.jsonl"])
    assert list(read) == [] and read.damaged == 1
    assert read.processes[0].lost == 9


def test_a_process_with_several_files_has_one_count(tmp_path: Path) -> None:
    """Lost before the run, in the first file, and during it, in the second."""
    (tmp_path / "hook").mkdir()
    process = b'{"process":{"pid":1,"role":"r","monotonic_ns":5}}\n'
    first = process + b'{"lost":7,"last_ns":60}\n' + SPAN % (b"a", 150)
    second = process + b'{"lost":7,"last_ns":60}\n' + SPAN % (b"b", 160)
    second += b'{"lost":9,"last_ns":170}\n'
    (tmp_path / "hook/1-5.jsonl").write_bytes(first)
    (tmp_path / "hook/1-5-2.jsonl").write_bytes(second)
    run = RunDir(tmp_path / "run")
    run.spans_path.mkdir(parents=True)
    SpanSource(True, "", run, tmp_path / "hook").bring_home(100)
    read = run.spans()
    assert {span.request_id for span in read} == {"a", "b"}
    assert [(one.pid, one.lost) for one in read.processes] == [(1, 2)]


def test_the_hook_says_when_it_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMLOAD_HOOK_DIR", str(tmp_path))
    spans.install("server")
    spans.record("x", 1, 2, request_id="a")
    spans.flush()

    def full(_fd: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "write", full)
        spans.record("x", 1, 2, request_id="b")
        spans.flush()
    origin_ns = time.monotonic_ns()
    spans.record("x", origin_ns, origin_ns + 1, request_id="c")
    assert spans.shutdown() == 1
    [file] = tmp_path.glob("*.jsonl")
    for from_ns, ids, lost in ((0, ["a", "c"], 1), (origin_ns, ["c"], 0)):
        copy = tmp_path / f"{from_ns}.copy"
        lines = file.read_bytes().splitlines(keepends=True)
        copy.write_bytes(b"".join(lines_of_run(lines, from_ns, "p", {})))
        read = SpanLines([copy])
        assert [span.request_id for span in read] == ids
        assert read.processes[0].lost == lost
