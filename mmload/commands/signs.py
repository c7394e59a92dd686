"""What ends a command that has something to keep: Ctrl-C, SIGTERM, and a terminal that closes."""

import contextlib
import signal
from collections.abc import Callable, Iterator

from mmload.load.children import FOR_THE_PARENT


@contextlib.contextmanager
def ended_by(stop: Callable[[], object]) -> Iterator[None]:
    """Calls `stop` on such a signal, in the main thread. What was ignored stays so (`nohup`)."""
    signs = [
        sign
        for sign in FOR_THE_PARENT
        if sign is not signal.SIGHUP or signal.getsignal(sign) is not signal.SIG_IGN
    ]
    before = [signal.signal(sign, lambda _sign, _frame: stop()) for sign in signs]
    try:
        yield
    finally:
        for sign, handler in zip(signs, before, strict=True):
            signal.signal(sign, handler)
