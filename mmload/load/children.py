"""Child processes that Ctrl-C is not for, nor a terminal that closes: the whole group is told, and
the parent decides when they end."""

import contextlib
import signal
from collections.abc import Iterator
from multiprocessing import resource_tracker
from typing import Final

FOR_THE_PARENT: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """In the parent's main thread, while it starts children: such signals wait, here and in them,
    or they would end a child with a traceback before it can say that it does not mind."""
    resource_tracker.ensure_running()  # it would let them through again
    # The mask is for the children. Here a signal may come to another thread, a library's, and
    # Python would still act on it in this one; hence the handlers.
    came: list[int] = []
    handlers = {
        sign: signal.signal(sign, lambda number, _frame: came.append(number))
        for sign in FOR_THE_PARENT
    }
    before = signal.pthread_sigmask(signal.SIG_BLOCK, FOR_THE_PARENT)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for sign, handler in handlers.items():
            signal.signal(sign, handler)
        for number in came:
            signal.raise_signal(number)


def unbothered() -> None:
    """In a child, first of all: it does not mind."""
    for sign in FOR_THE_PARENT:
        signal.signal(sign, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FOR_THE_PARENT)
