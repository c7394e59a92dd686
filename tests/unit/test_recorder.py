"""Records on a disk that fails: what it takes is whole, what it does not is counted."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from mmload.load import recorder
from mmload.load.recorder import Recorder
from mmload.records import Outcome, Record
from mmload.rundir import Lines


def record(index: int, **given: Any) -> Record:
    return Record(
        index=index, request_id=f"r-{index}", media_class="c", payload=0, intended_ns=index, **given
    )


class Disk:
    """A file that takes `room` bytes, then is full until `grow`."""

    def __init__(self, file: Any, room: int) -> None:
        self.file = file
        self.room = room
        self.refused = 0

    def write(self, data: bytes) -> int:
        if not self.room:
            self.refused += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = data[: self.room]  # a disk that fills up takes a part
        self.room -= len(taken)
        self.file.write(taken)
        return len(taken)

    def close(self) -> None:
        self.file.close()


def on_disk(monkeypatch: pytest.MonkeyPatch, file: Path, room: int) -> tuple[Recorder, Disk]:
    """A recorder whose thread does nothing by itself: the test says when it writes."""
    monkeypatch.setattr(recorder, "INTERVAL_S", 3600)
    made = Recorder(file)
    disk = Disk(made._file, room)
    monkeypatch.setattr(made, "_file", disk)
    return made, disk


def test_all_is_written(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    made = Recorder(file)
    for i in range(1000):
        made.emit(record(i))
    assert made.close() == 0
    assert [r.index for r in Lines([file], Record)] == list(range(1000))


def test_a_full_disk_loses_what_it_did_not_take_and_says_how_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "records.jsonl"
    line = len(json.dumps({"a": 1}))  # any room that ends within a line
    made, disk = on_disk(monkeypatch, file, 10_000 + line)
    for i in range(1000):
        made.emit(record(i))
        if i % 100 == 0:
            made._drain()
    lost = made.close()
    kept = Lines([file], Record)
    read = [r.index for r in kept]
    assert read == list(range(len(read))) and kept.damaged == 1  # the torn line
    assert lost == 1000 - len(read) > 0
    assert file.stat().st_size == 10_000 + line and disk.refused > 0


def test_a_disk_that_recovers_has_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "records.jsonl"
    made, disk = on_disk(monkeypatch, file, 5_003)
    for i in range(500):
        made.emit(record(i))
        made._drain()
    disk.room = 1 << 30
    assert made.close() == 0
    assert [r.index for r in Lines([file], Record)] == list(range(500))


def test_a_dead_disk_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "BACKLOG_BYTES", 20_000)
    made, _ = on_disk(monkeypatch, tmp_path / "records.jsonl", 0)
    for i in range(2_000):
        made.emit(record(i))
        made._drain()
    assert sum(map(len, made._backlog)) < 21_000
    assert made.close() == 2_000


def test_secrets_are_struck_out_and_the_line_stays_json(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    secret = 'sk-"quoted"\\key'
    made = Recorder(file, [secret, "true", "1"])
    said = f"no such key: {secret}"
    made.emit(record(1, outcome=Outcome.http_error, message=said, reused_connection=True))
    assert made.close() == 0
    (read,) = Lines([file], Record)
    assert read.message == "no such key: [redacted]"
    assert read.index == 1 and read.reused_connection
    assert "quoted" not in file.read_text()
