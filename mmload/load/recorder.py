"""Records to disk, off the loop: a thread that encodes and appends JSON lines a few times a second.

`emit` only appends to a deque. The file is flushed with every batch, so a killed run keeps all but
the last moments. A full disk is tried again until the end; what is still unwritten then is counted,
and what would not fit into `BACKLOG_BYTES` meanwhile. Secrets are struck out before encoding.
Spans that came inside a response go to a file of their own, as the server's hook would write them;
where that fails they stay in the record.
"""

import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from mmload.clock import pause
from mmload.load.redact import Redactor
from mmload.records import Record

INTERVAL_S: Final = 0.2
# The interpreter runs one thread at a time: a long turn here is lag in the loop. So a turn is a few
# records, and then a nap in which the loop has the interpreter to itself.
BATCH: Final = 4
NICE: Final = 19
NAP_S: Final = 0.0002
BACKLOG_BYTES: Final = 64 * 1024 * 1024  # kept in memory while the disk takes nothing


def step_back() -> None:
    """Lowers this thread's priority (Linux: a thread has its own), so that it does not take the
    core from the loop in the middle of a send."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


class Recorder:
    """Appends records to a file. Create, `emit`, then `close()`, which says how many were lost."""

    def __init__(
        self, file: Path, secrets: Sequence[str] = (), spans_file: Path | None = None
    ) -> None:
        self._file = file.open("ab", buffering=0)
        self._spans_file = spans_file
        self._queue: deque[Record] = deque()
        self._backlog: deque[bytes] = deque()  # whole lines that the disk has not taken yet
        self._backlog_bytes = 0
        self._lost = 0
        self._encoder = msgspec.json.Encoder()
        self._redactor = Redactor(secrets)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mmload-recorder", daemon=True)
        self._thread.start()
        self.emit = self._queue.append  # what the loop calls

    def close(self) -> int:
        """Writes what is left and returns the number of records that could not be written."""
        self._stop.set()
        self._thread.join()
        self._drain()
        self._file.close()
        return self._lost + sum(lines.count(b"\n") for lines in self._backlog)

    def _run(self) -> None:
        step_back()
        while not self._stop.wait(INTERVAL_S):
            self._drain(NAP_S)

    def _drain(self, nap_s: float = 0.0) -> None:
        """Encodes all that has come, then writes as far as the disk takes it."""
        queue = self._queue
        while queue:
            batch = [queue.popleft() for _ in range(min(BATCH, len(queue)))]
            if self._backlog_bytes >= BACKLOG_BYTES:
                self._lost += len(batch)
                continue
            lines = b"".join(map(self._line, batch))
            self._backlog.append(lines)
            self._backlog_bytes += len(lines)
            self._write()
            pause(nap_s)
        self._write()

    def _write(self) -> None:
        while self._backlog:
            lines = self._backlog[0]
            try:
                written = self._file.write(lines) or 0
            except OSError:
                return
            self._backlog_bytes -= written
            if written == len(lines):
                self._backlog.popleft()
            else:
                self._backlog[0] = lines[written:]

    def _line(self, record: Record) -> bytes:
        self._redactor.record(record)
        if record.spans and self._spans_file is not None:
            with contextlib.suppress(OSError), self._spans_file.open("ab") as file:
                file.write("".join(f"{line}\n" for line in record.spans).encode())
                record.spans = []
        return self._encoder.encode(record) + b"\n"
