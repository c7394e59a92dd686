"""Stamps what happens to a request inside a server: a span is one stage, from start to end.

    spans.install("server", {"workers": 1})        # does nothing unless MMLOAD_HOOK_DIR is set
    spans.request_id.set("req-1")                   # a context variable: follows tasks
    with spans.span("processor", frames=15) as seen:
        seen.add(pixels=process(...))
    spans.record("encoder", start_ns, end_ns)       # stamps taken elsewhere

Without MMLOAD_HOOK_DIR, a folder, every call returns at once: no thread, no file. With it, a call
costs an append; `writer.py` does the rest in its own thread. Nothing here raises into the server.
`install` starts the writer at once, and a forked child of its process is inert until it installs
for itself. `arm` starts the writer with the first span, and a forked child stays armed: for
processes of which nobody knows yet whether they serve. Times are CLOCK_MONOTONIC nanoseconds.
Stdlib only.
"""

import atexit
import os
import sys
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple

from mmload.hook import inline
from mmload.hook.context import current_id
from mmload.hook.context import request_id as request_id
from mmload.hook.headers import trace_value
from mmload.hook.thread_meter import ThreadMeter
from mmload.hook.turn import turn_of_loop as turn_of_loop
from mmload.hook.writer import BUFFER_LIMIT, Writer

FOLDER_VARIABLE: Final = "MMLOAD_HOOK_DIR"

now_ns = time.monotonic_ns  # the one clock of the hook; tests put virtual time here

_writer: Writer | None = None
_armed: "_Armed | None" = None
_beginning = False
_install_lock = threading.RLock()  # a finaliser may come in between on the same thread


class _Armed(NamedTuple):
    """What the writer will be made of when there is a span to write."""

    folder: str
    role: str
    settings: dict[str, Any]
    notes: dict[str, dict[str, Any]]


def arm(role: str) -> bool:
    """Switches the hook on, if MMLOAD_HOOK_DIR names a folder, without a thread or a file yet."""
    global _armed
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder and _writer is None and _armed is None:
        _armed = _Armed(folder, role, {}, {})
    return enabled()


def note(section: str, **values: Any) -> None:
    """Adds to what this process says of itself: `note("versions", torch="2.13")`, JSON values.

    Sections as `mmload.records.ServerProcess.notes` has them; None takes a value back. No secrets,
    no argv, no environment.
    """
    with _install_lock:
        if _writer is not None:
            _writer.describe(notes={section: values})
        elif _armed is not None:
            said = _armed.notes.setdefault(section, {})
            said.update(values)
            for name in [name for name, value in said.items() if value is None]:
                del said[name]


def describe(role: str | None = None, **settings: Any) -> None:
    """Replaces the role and adds settings, of a process whose hook is on."""
    global _armed
    with _install_lock:
        if _writer is not None:
            _writer.describe(role, settings)
        elif _armed is not None:
            _armed.settings.update(settings)
            _armed = _armed._replace(role=role or _armed.role)


def _begin() -> Writer | None:
    """The writer of an armed process, when it has something to write."""
    global _writer, _armed, _beginning
    new = None
    with _install_lock:
        armed = _armed
        if _writer is None and armed is not None and not _beginning:
            _beginning = True  # for a finaliser that ends a span on this thread meanwhile
            try:
                new = _writer = Writer(armed.folder, armed.role, armed.settings, notes=armed.notes)
            except Exception:
                _armed = None
            finally:
                _beginning = False
        writer = _writer
    if new is not None and not _started(new):
        _armed = _writer = None
    return writer


def _started(writer: Writer) -> bool:
    """Without the lock: a finaliser that records a span may run on the writer's thread before that
    says that it runs."""
    try:
        writer.start()
        atexit.register(shutdown)
        multiprocessing = sys.modules.get("multiprocessing.util")
        if multiprocessing is not None:  # its forked children end without `atexit`
            multiprocessing.Finalize(None, shutdown, exitpriority=-100)
        return True
    except Exception:  # no more threads, for instance: the server has worse problems
        return False


def install(
    role: str, settings: Mapping[str, Any] | None = None, *, limit: int = BUFFER_LIMIT
) -> bool:
    """Switches the hook on if MMLOAD_HOOK_DIR names a folder; says whether it is on.

    May be called again in the same process: then `role` replaces the former and `settings` are
    added to the former. `settings` go into the file as they are: no secrets, no argv, no
    environment.
    """
    global _writer
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return False
    new = None
    try:
        with _install_lock:
            if _writer is None:
                new = _writer = Writer(folder, role, settings or {}, limit)
            else:
                _writer.describe(role, settings or {})
    except Exception:
        return False
    if new is not None and not _started(new):
        _writer = None
        return False
    return True


def enabled() -> bool:
    return _writer is not None or _armed is not None


def lost() -> int:
    """Spans lost so far in this process: full buffer or failed writes."""
    return _writer.lost() if _writer is not None else 0


def flush() -> None:
    """Writes what is buffered, on this thread. For ends and tests; never in a request's path."""
    if _writer is not None:
        _writer.flush()


def shutdown() -> int:
    """Writes the rest, switches the hook off, and returns the spans lost. Safe to repeat."""
    global _writer, _armed
    with _install_lock:
        writer, _writer, _armed = _writer, None, None
    if writer is None:
        return 0
    atexit.unregister(shutdown)
    return writer.close()


def trace_header() -> str | None:
    """The value for X-Mmload-Trace, or None while the hook is off."""
    writer = _writer or _begin()
    return None if writer is None else trace_value(writer.boot_id, writer.folder)


def comments(request_id: str) -> bytes:
    """The request's spans for the end of its event stream, if `inline.ask` was called for it."""
    writer = _writer
    return b"" if writer is None else inline.take(request_id, writer.process)


def record(
    stage: str,
    start_ns: int,
    end_ns: int,
    *,
    request_id: str | None = None,
    phase: str | None = None,
    **facts: Any,
) -> None:
    """Keeps a span whose stamps were taken by the caller. Without `request_id`, the context's."""
    if _writer is not None or _armed is not None:
        _put(stage, start_ns, end_ns, request_id, phase, facts)


def _put(
    stage: str,
    start_ns: int,
    end_ns: int,
    request_id: str | None,
    phase: str | None,
    facts: dict[str, Any],
) -> None:
    try:
        writer = _writer or _begin()
        if writer is not None:
            name = request_id if request_id is not None else current_id() or ""
            thread = threading.current_thread().name
            span = (name, stage, start_ns, end_ns, thread, phase, facts)
            writer.put(span)
            inline.keep(span)
    except Exception:  # an id that is none, for instance
        return


class Seen:
    """What a `with span(...)` yields: facts seen meanwhile go in by `add`."""

    __slots__ = ()

    def add(self, **facts: Any) -> None:
        """Adds facts, each a JSON value. Does nothing while the hook is off."""

    def __enter__(self) -> "Seen":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None


class _Span(Seen):
    __slots__ = (
        "_stage",
        "_start_ns",
        "_request_id",
        "_phase",
        "_facts",
        "_meter",
        "_measured",
        "_turn",
    )

    def __init__(
        self,
        stage: str,
        request_id: str | None,
        phase: str | None,
        facts: dict[str, Any],
        measured: bool,
    ) -> None:
        self._stage = stage
        # the request that opened it: the block may set another
        self._request_id = request_id if request_id is not None else current_id() or ""
        self._phase = phase
        self._facts = facts
        self._measured = measured

    def add(self, **facts: Any) -> None:
        self._facts.update(facts)

    def __enter__(self) -> "Seen":
        self._turn = turn_of_loop()
        self._meter = ThreadMeter() if self._measured else None
        self._start_ns = now_ns()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        end_ns = now_ns()
        if self._meter is not None:
            self._facts.update(self._meter.facts())
        if kind is not None:
            self._facts["error"] = kind.__name__
        if self._turn is not None and not self._turn.is_over():
            self._facts["on_loop"] = True
        _put(self._stage, self._start_ns, end_ns, self._request_id, self._phase, self._facts)


_INERT: Final = Seen()


def span(
    stage: str,
    *,
    request_id: str | None = None,
    phase: str | None = None,
    measure_thread: bool = False,
    **facts: Any,
) -> Seen:
    """A context manager that records its block, in plain and in async code.

    `measure_thread` adds `cpu_ns` and `minor_faults` of the thread, for blocks without an await
    (see `thread_meter`). A block that raises is recorded with `error`, the exception's class.
    """
    if _writer is None and _armed is None:
        return _INERT
    return _Span(stage, request_id, phase, facts, measure_thread)


def _reset_in_child() -> None:
    """After fork: the writer's thread did not come along, its locks may be held, its file is the
    parent's."""
    global _writer, _install_lock, _beginning
    writer, _writer, _beginning = _writer, None, False
    _install_lock = threading.RLock()
    if writer is not None:
        writer.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)
