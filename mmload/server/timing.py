"""Waiting for an instant, not for a duration: a late timer must not make the next one later."""

import asyncio

from mmload.clock import NS_PER_S, Clock

# uvloop rounds timers to the millisecond, down too: the rest is slept in one more step
_SHORTEST_S = 0.001


async def sleep_until(clock: Clock, deadline_ns: int) -> None:
    """Returns at the deadline or a little after, never before; yields to the loop at least once."""
    left_ns = deadline_ns - clock.now_ns()
    await asyncio.sleep(max(left_ns, 0) / NS_PER_S)
    while clock.now_ns() < deadline_ns:
        await asyncio.sleep(_SHORTEST_S)
