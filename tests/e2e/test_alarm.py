"""Alarms on real loops: in order, never early by more than a clock step, replaced and cancelled."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from mmload.clock import NS_PER_MS, MonotonicClock
from mmload.load.alarm import Alarm, LoopAlarm, TimerfdAlarm, make_alarm


def make(kind: str, callback: Callable[[], object]) -> Alarm:
    if kind == "timerfd":
        return TimerfdAlarm(callback)
    return LoopAlarm(MonotonicClock(), callback)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("kind", ["timerfd", "loop"])
def test_rings_at_the_last_set_time_only(kind: str, loop: str) -> None:
    if kind == "timerfd" and sys.platform != "linux":
        pytest.skip("timerfd is Linux")
    factory = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else None
    rings: list[int] = []
    now_ns = MonotonicClock.now_ns

    async def main() -> Any:
        rung = asyncio.Event()

        def ring() -> None:
            rings.append(now_ns())
            rung.set()

        alarm = make(kind, ring)
        start_ns = now_ns()
        alarm.set(start_ns + 5 * NS_PER_MS)
        alarm.set(start_ns + 60 * NS_PER_MS)  # replaces
        await asyncio.wait_for(rung.wait(), 10)
        rung.clear()
        alarm.set(now_ns() - NS_PER_MS)  # passed: at once
        await asyncio.wait_for(rung.wait(), 10)
        alarm.set(now_ns() + 5 * NS_PER_MS)
        alarm.cancel()
        await asyncio.sleep(0.05)
        alarm.close()
        return start_ns

    with asyncio.Runner(loop_factory=factory) as runner:
        start_ns = runner.run(main())
    assert len(rings) == 2
    assert rings[0] >= start_ns + 59 * NS_PER_MS


def test_the_exact_one_is_chosen_for_real_time_on_linux() -> None:
    async def main() -> str:
        alarm = make_alarm(MonotonicClock(), lambda: None)
        alarm.close()
        return type(alarm).__name__

    expected = "TimerfdAlarm" if sys.platform == "linux" else "LoopAlarm"
    assert asyncio.run(main()) == expected
