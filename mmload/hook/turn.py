"""Whether an event loop got to anything else meanwhile. Stdlib only; never raises.

asyncio is not imported by this module: that would cost every process without a loop 50 ms and 7 MB.
"""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


class Turn:
    """One turn of a thread's event loop: over when the loop has called anything else."""

    __slots__ = ("_over", "_handle")

    def __init__(self, loop: "asyncio.AbstractEventLoop") -> None:
        self._over = False
        self._handle = loop.call_soon(self._end)

    def _end(self) -> None:
        self._over = True

    def is_over(self) -> bool:
        """To be asked once. If not, all that happened since held the loop up: no other request of
        this process could be read, worked on or answered meanwhile."""
        if not self._over:
            self._handle.cancel()
        return self._over


def turn_of_loop() -> Turn | None:
    """None on a thread without a running loop."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return None
    try:
        loop = asyncio._get_running_loop()
        return None if loop is None else Turn(loop)
    except Exception:  # a loop that is being closed, or one that is none of asyncio's
        return None
