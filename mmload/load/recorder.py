"""Records to disk, off the loop: a thread that encodes and appends JSON lines a few times a second.

`emit` only appends to a deque. The file is flushed with every batch, so a killed run keeps all but
the last moments. A full disk is retried until the end; what is still unwritten then is counted.
Secrets are struck out of the encoded lines, whatever field they came in.
"""

import json
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from mmload.records import Record

INTERVAL_S: Final = 0.2
BATCH: Final = 256
STRUCK_OUT: Final = b"[redacted]"


class Recorder:
    """Appends records to a file. Create, `emit`, then `close()`, which says how many were lost."""

    def __init__(self, file: Path, secrets: Sequence[str] = ()) -> None:
        self._file = file.open("ab", buffering=0)
        self._queue: deque[Record] = deque()
        self._unwritten = b""  # whole lines that the disk has not taken yet
        self._encoder = msgspec.json.Encoder()
        self._secrets = [
            s.encode() for secret in secrets for s in {secret, json.dumps(secret)[1:-1]} if s
        ]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mmload-recorder", daemon=True)
        self._thread.start()
        self.emit = self._queue.append  # what the loop calls

    def close(self) -> int:
        """Writes what is left and returns the number of records that could not be written."""
        self._stop.set()
        self._thread.join()
        self._drain()
        lost = self._unwritten.count(b"\n")
        self._file.close()
        return lost

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL_S):
            self._drain()

    def _drain(self) -> None:
        queue = self._queue
        while queue or self._unwritten:
            lines = [self._line(queue.popleft()) for _ in range(min(BATCH, len(queue)))]
            data = self._unwritten + b"".join(lines)
            try:
                written = self._file.write(data) or 0
            except OSError:
                self._unwritten = data
                if not queue:
                    return
                continue
            self._unwritten = data[written:]

    def _line(self, record: Record) -> bytes:
        line = self._encoder.encode(record) + b"\n"
        for secret in self._secrets:
            if secret in line:
                line = line.replace(secret, STRUCK_OUT)
        return line
