"""Notices when a server's event loop is held up, and by what: the function, from outside.

While requests are in the server, the loop has a timer of its own run out a few dozen times a
second. A timer that is late was held up: `loop_blocked` is recorded, from when it was due to when
it ran, with `where`: the innermost function of the server's own code on the stack, else the
innermost of all, as a thread saw it that looks at the loop's thread when the timer is late and not
otherwise. It belongs to no request. Stdlib only; never raises.
"""

import contextlib
import contextvars
import os
import sys
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING, Final

from mmload.hook import spans

if TYPE_CHECKING:
    import asyncio

INTERVAL_NS: Final = 20_000_000
LATE_NS: Final = 10_000_000  # a timer that is later is one of a loop that was held up
STAGE: Final = "loop_blocked"

_STDLIB: Final = os.path.dirname(os.__file__)
_HERE: Final = os.path.dirname(os.path.abspath(__file__))

_watch: "_Watch | None" = None


def entered() -> None:
    """A request has come in; to be called on its loop."""
    global _watch
    if not spans.enabled():
        return
    with contextlib.suppress(Exception):
        if _watch is None or not _watch.is_alive():
            from asyncio import get_running_loop  # the server has it already

            _watch = _Watch(get_running_loop())
        if _watch.is_mine():
            _watch.came()


def left() -> None:
    """It has gone out."""
    watch = _watch
    if watch is not None and watch.is_mine() and watch.inside > 0:
        watch.inside -= 1


class _Watch:
    """The loop that serves the first request is the one that is watched, until it is closed."""

    def __init__(self, loop: "asyncio.AbstractEventLoop") -> None:
        self.inside = 0  # requests; only its own loop counts
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._context = contextvars.Context()  # of no request
        self._due_ns = 0  # when the timer is to run; 0 while there is none
        self._seen = (0, "")  # a timer that was late, by when it was due, and where the loop was
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mmload-loop-watch", daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        """Not in a forked child either."""
        return self._thread.is_alive() and not self._loop.is_closed()

    def is_mine(self) -> bool:
        """Whether this thread is the loop's."""
        return threading.get_ident() == self._loop_thread

    def came(self) -> None:
        self.inside += 1
        if not self._due_ns:
            self._due_ns = self._set_timer()
            self._wake.set()

    def _set_timer(self) -> int:
        """When it is due."""
        due_ns = spans.now_ns() + INTERVAL_NS
        self._loop.call_later(INTERVAL_NS / 1e9, self._timer, context=self._context)
        return due_ns

    def _timer(self) -> None:
        """On the loop. It is set again while requests are inside."""
        due_ns, next_ns = self._due_ns, 0
        with contextlib.suppress(Exception):
            ran_ns = spans.now_ns()
            if ran_ns - due_ns > LATE_NS:
                seen_ns, where = self._seen
                where = where if seen_ns == due_ns else ""
                spans.record(STAGE, due_ns, ran_ns, request_id="", where=where)
            if self.inside > 0 and spans.enabled():
                next_ns = self._set_timer()
        self._due_ns = next_ns

    def _run(self) -> None:
        while not self._loop.is_closed() and spans.enabled():
            due_ns = self._due_ns
            if not due_ns:
                self._wake.wait(1.0)
                self._wake.clear()
                continue
            left_ns = due_ns + LATE_NS - spans.now_ns()
            if left_ns > 0:
                time.sleep(left_ns / 1e9)
            elif self._seen[0] != due_ns:
                self._seen = (due_ns, _where(sys._current_frames().get(self._loop_thread)))
            else:  # seen already: until the loop goes on
                time.sleep(INTERVAL_NS / 1e9)


def _where(frame: FrameType | None) -> str:
    """`module.function` of the innermost frame of the server's own code that the loop has called,
    else of the innermost frame. Empty where the loop has called nothing: it waits for a core, or
    for another thread to let go of the interpreter."""
    innermost = ""
    while frame is not None:
        code = frame.f_code
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] in ("asyncio", "uvloop", "selectors"):
            return innermost  # the loop itself
        name = f"{module}.{getattr(code, 'co_qualname', code.co_name)}"
        innermost = innermost or name
        if not _is_library(code.co_filename):
            return name
        frame = frame.f_back
    return innermost


def _is_library(file: str) -> bool:
    installed = "site-packages" in file or "dist-packages" in file
    return installed or file.startswith((_STDLIB, _HERE, "<"))
