"""Takes spans from a server's threads and appends them to one file, from a thread of its own.

In: tuples (`SpanTuple`) by `put`, which costs the caller one append. Out: JSON lines in
`FOLDER/PID-STARTNS.jsonl`, as `mmload.rundir.SpanLines` reads them: a `{"process": ...}` line first
(a later one replaces it), a line a span, and when spans were lost, `{"lost": RUNNING_TOTAL,
"last_ns": WHEN}`, the latter of the last of them.

Must never raise into the server, wait for the disk on a server's thread, or lose a span without
counting it. A full buffer and a disk that fails only raise the count. Stdlib only.
"""

import collections
import contextlib
import itertools
import json
import numbers
import os
import platform
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mmload import __version__

# request id, stage, start, end, thread, phase, facts
SpanTuple = tuple[str, str, int, int, str, str | None, dict[str, Any]]

BUFFER_LIMIT: Final = 65536  # spans; about 30 MB
INTERVAL_S: Final = 0.2
END_S: Final = 2.0  # what the server's end may wait for the disk
FILE_LIMIT_BYTES: Final = 256 * 2**20  # about 100,000 requests
_FILES_KEPT: Final = 2  # full ones, beside the one that is being written
_BATCH: Final = 4096  # spans a write


class Tally:
    """A count that any thread, signal handler or finaliser may raise: no lock, so no deadlock when
    the garbage collector ends a span in the middle of another one. `next` on a C iterator is one
    indivisible step."""

    def __init__(self) -> None:
        self._steps = itertools.count()
        self._reads = 0
        self._lock = threading.Lock()

    def add(self) -> None:
        next(self._steps)

    def value(self) -> int:
        with self._lock:  # readers only: reading is a step too
            value = next(self._steps) - self._reads
            self._reads += 1
            return value


class Writer:
    """The buffer, its thread and its file. One a process; a forked child must drop it (`abandon`)
    and make its own."""

    def __init__(
        self,
        folder: str,
        role: str,
        settings: Mapping[str, Any],
        limit: int = BUFFER_LIMIT,
        *,
        notes: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.folder = os.path.abspath(folder)
        self.boot_id = boot_id()
        start_ns = time.monotonic_ns()
        self.process: dict[str, Any] = {
            "pid": os.getpid(),
            "role": role,
            "host": platform.node(),
            "boot_id": self.boot_id,
            "hook": __version__,
            "python": platform.python_version(),
            "monotonic_ns": start_ns,
            "wall_ns": time.time_ns(),
            "settings": _settled(settings),
            "notes": {section: _settled(values) for section, values in (notes or {}).items()},
        }
        self._name = f"{os.getpid()}-{start_ns}"
        self._parts: list[str] = []  # files of this process, oldest first
        self._limit = limit
        self._buffer: collections.deque[SpanTuple] = collections.deque()
        self._overflow = Tally()
        self._lost_ns = 0  # when the last one was lost
        self._unwritten = 0  # spans that the disk refused; under _io
        self._lost_written = 0  # the last `lost` line in the file
        self._described = False  # the file holds `process` as it is now
        self._file: int | None = None
        self._identity = (0, 0)  # of the file: device and inode
        self._size = 0  # of the file, up to its last whole line
        self._io = threading.Lock()  # among those who write, never those who record
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mmload-spans", daemon=True)

    def start(self) -> None:
        """Waits for its thread to run: to be called without a lock that anything may ask for."""
        with contextlib.suppress(OSError):
            os.makedirs(self.folder, exist_ok=True)
        self._thread.start()

    def put(self, span: SpanTuple) -> None:
        """Keeps the span, or counts it as lost when the buffer is full."""
        if len(self._buffer) >= self._limit:
            self._lost_ns = time.monotonic_ns()  # first: a count never goes out with an older time
            self._overflow.add()
        else:
            self._buffer.append(span)

    def describe(
        self,
        role: str | None = None,
        settings: Mapping[str, Any] | None = None,
        *,
        notes: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Replaces the role and adds to settings and notes; a new `process` line says so. A note of
        None is taken back."""
        before = self.process
        told = dict(before["notes"])
        for section, values in (notes or {}).items():
            merged = {**told.get(section, {}), **_settled(values)}
            told[section] = {name: value for name, value in merged.items() if value is not None}
        after = {
            **before,
            "role": role or before["role"],
            "settings": {**before["settings"], **_settled(settings or {})},
            "notes": told,
        }
        if after != before:
            self.process = after
            self._described = False

    def lost(self) -> int:
        return self._overflow.value() + self._unwritten

    def flush(self) -> None:
        """Writes what is in the buffer, on the calling thread."""
        with self._io:
            left = len(self._buffer)  # not what comes in meanwhile: this has to end
            while True:
                count = min(left, _BATCH)
                batch = [self._buffer.popleft() for _ in range(count)]
                left -= count
                if not self._append(batch):
                    self._lost_ns = time.monotonic_ns() if count else self._lost_ns
                    self._unwritten += count
                if left == 0:
                    return

    def close(self) -> int:
        """Ends the thread, writes the rest and the last `lost` line. Returns the spans lost."""
        self._stop.set()
        with contextlib.suppress(RuntimeError):  # it could not be started
            self._thread.join(timeout=END_S)
        if self._thread.is_alive():  # a disk that hangs: the server's end must not wait for it
            return self.lost() + len(self._buffer)
        self.flush()
        with self._io:
            self._lost_written = -1  # say it even if it is 0: the file was ended, not cut off
            self._append([])
            self._drop_file()
        return self.lost()

    def abandon(self) -> None:
        """In a forked child: lets go of the parent's file, and writes nothing."""
        self._drop_file()

    def _run(self) -> None:
        while True:  # at once, so that a reader sees early that the hook is on
            with contextlib.suppress(Exception):
                self.flush()
            if self._stop.wait(INTERVAL_S):
                return

    def _append(self, batch: list[SpanTuple]) -> bool:
        """Writes whole lines, or nothing. False: the disk refused. Under `_io`."""
        try:
            if batch:
                self._turn_over()
            self._open()
            process, lost = self.process, self.lost()
            lines = [] if self._described else [process_line(process)]
            if lost != self._lost_written:
                when = {"last_ns": self._lost_ns} if lost else {}
                lines.append(_json({"lost": lost, **when}))
            pid = process["pid"]
            lines.extend(span_line(span, pid) for span in batch)
            if lines:
                self._write("".join(lines).encode())
                self._described = process is self.process
                self._lost_written = lost
            return True
        except Exception:  # a full or dead disk, or anything else: it must not reach the server
            self._cut_back()
            return False

    def _open(self) -> None:
        """Opens the file, anew if somebody removed it: what goes to a removed file is lost. And if
        somebody closed it: its number may be another file's now (who makes a process a daemon
        closes all there are)."""
        if self._file is not None:
            try:
                seen = os.fstat(self._file)
            except OSError:
                self._file = None
            else:
                if (seen.st_dev, seen.st_ino) != self._identity:
                    self._file = None
                elif seen.st_nlink == 0:
                    self._drop_file()
        if self._file is None:
            path = self._path(len(self._parts))
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            made = os.fstat(self._file)
            self._size, self._identity = made.st_size, (made.st_dev, made.st_ino)
            self._described, self._lost_written = False, 0

    def _turn_over(self) -> None:
        """A full file is followed by the next; the oldest goes: a server may live for weeks."""
        if self._file is not None and self._size > FILE_LIMIT_BYTES:
            self._drop_file()
            self._parts.append(self._path(len(self._parts)))
            for old in self._parts[:-_FILES_KEPT]:
                with contextlib.suppress(OSError):
                    os.unlink(old)

    def _path(self, part: int) -> str:
        number = f"-{part + 1}" if part else ""
        return os.path.join(self.folder, f"{self._name}{number}.jsonl")

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]
        self._size += len(data)

    def _cut_back(self) -> None:
        """Removes a half-written batch, so that it is lost as a whole, and is counted so."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            self._drop_file()

    def _drop_file(self) -> None:
        file, self._file = self._file, None  # in this order: a fork may come in between
        if file is not None:
            with contextlib.suppress(OSError):
                os.close(file)


def boot_id() -> str:
    """Names this boot of this host: two processes with one boot id share CLOCK_MONOTONIC. Empty
    where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def process_line(process: Mapping[str, Any]) -> str:
    """What a process says of itself, as a line."""
    return _json({"process": process})


def span_line(span: SpanTuple, pid: int) -> str:
    """A span as a line. Facts that are no JSON cost the facts, not the span."""
    request_id, stage, start_ns, end_ns, thread, phase, facts = span
    line: dict[str, Any] = {
        "request_id": request_id,
        "stage": stage,
        "start_ns": start_ns,
        "end_ns": end_ns,
        "pid": pid,
        "thread": thread,
    }
    if phase is not None:
        line["phase"] = phase
    if facts:
        line["facts"] = facts
    try:
        return _json(line)
    except Exception as error:  # NaN, odd keys, cycles, numbers that fail to be converted
        line["facts"] = {"facts_refused": type(error).__name__}
        return _json(line)


def _settled(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of JSON values only. What cannot be one costs the settings, not the spans."""
    try:
        copy: dict[str, Any] = json.loads(_json(dict(settings)))
        return copy
    except Exception as error:
        return {"settings_refused": type(error).__name__}


def _plain(value: object) -> object:
    """Numbers of other libraries as Python's; of anything else the type only: printing a tensor
    could wait for a GPU."""
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    return f"<{type(value).__name__}>"


_encode: Final = json.JSONEncoder(allow_nan=False, default=_plain, separators=(",", ":")).encode


def _json(value: object) -> str:
    return _encode(value) + "\n"
