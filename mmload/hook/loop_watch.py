"""Notices when a server's event loop is held up, and by what: the function, from outside.

A thread of its own asks the loop for a sign of life a few dozen times a second while requests are
in the server. When the sign is late, it looks at what the loop's thread is doing; when the sign
comes, `loop_blocked` is recorded, from the question to the answer, with `where`: the innermost
function of the server's own code on the stack, else the innermost of all. It belongs to no request.
Stdlib only; never raises.
"""

import contextlib
import os
import sys
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING, Final

from mmload.hook import spans

if TYPE_CHECKING:
    import asyncio

INTERVAL_S: Final = 0.02
LATE_S: Final = 0.01  # an answer that takes longer is one of a loop that is held up
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
            _watch.inside += 1
            _watch.wake.set()


def left() -> None:
    """It has gone out."""
    watch = _watch
    if watch is not None and watch.is_mine() and watch.inside > 0:
        watch.inside -= 1


class _Watch:
    """The loop that serves the first request is the one that is watched, until it is closed."""

    def __init__(self, loop: "asyncio.AbstractEventLoop") -> None:
        self.inside = 0  # requests; only its own loop counts
        self.wake = threading.Event()
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._thread = threading.Thread(target=self._run, name="mmload-loop-watch", daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        """Not in a forked child either."""
        return self._thread.is_alive() and not self._loop.is_closed()

    def is_mine(self) -> bool:
        """Whether this thread is the loop's."""
        return threading.get_ident() == self._loop_thread

    def _run(self) -> None:
        while not self._loop.is_closed() and spans.enabled():
            if self.inside <= 0:
                self.wake.clear()
                self.wake.wait(1.0)
                continue
            time.sleep(INTERVAL_S)
            try:
                self._ask()
            except Exception:  # the loop was closed meanwhile, or the interpreter ends
                return

    def _ask(self) -> None:
        answered = threading.Event()
        answered_ns = 0

        def answer() -> None:
            nonlocal answered_ns
            answered_ns = spans.now_ns()
            answered.set()

        asked_ns = spans.now_ns()
        self._loop.call_soon_threadsafe(answer)
        if answered.wait(LATE_S):
            return
        where = _where(sys._current_frames().get(self._loop_thread))
        while not answered.wait(1.0):
            if self._loop.is_closed():
                return
        spans.record(STAGE, asked_ns, answered_ns, request_id="", where=where)


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
