"""Virtual time itself: exact nanoseconds, no waiting, threads that take no time, no silent hang."""

import asyncio
import time

import pytest

from mmload.clock import NS_PER_S
from tests.virtual.loop import VirtualClock, run_virtual


def test_a_day_passes_at_once() -> None:
    async def body(clock: VirtualClock) -> int:
        await asyncio.sleep(86_400 * 2)
        return clock.now_ns()

    before = time.monotonic()
    assert run_virtual(body) == 2 * 86_400 * NS_PER_S
    assert time.monotonic() - before < 5


def test_timers_fire_at_their_nanosecond_in_order() -> None:
    async def body(clock: VirtualClock) -> list[tuple[str, int]]:
        seen: list[tuple[str, int]] = []

        async def at(name: str, ns: int) -> None:
            await asyncio.sleep(ns / NS_PER_S)
            seen.append((name, clock.now_ns()))

        await asyncio.gather(
            at("c", 333_333_334), at("b", 333_333_333), at("a", 1), at("d", 100 * NS_PER_S + 7)
        )
        return seen

    assert run_virtual(body) == [
        ("a", 1),
        ("b", 333_333_333),
        ("c", 333_333_334),
        ("d", 100 * NS_PER_S + 7),
    ]


def test_a_stall_makes_timers_late() -> None:
    async def body(clock: VirtualClock) -> int:
        sleep = asyncio.ensure_future(asyncio.sleep(0.010))
        await asyncio.sleep(0)
        clock.loop.stall(50_000_000)
        await sleep
        return clock.now_ns()

    assert run_virtual(body, start_ns=5) == 50_000_005


def test_threads_take_no_virtual_time() -> None:
    async def body(clock: VirtualClock) -> int:
        ticker = asyncio.ensure_future(asyncio.sleep(3600))
        await asyncio.to_thread(time.sleep, 0.02)
        now = clock.now_ns()
        await ticker
        return now

    assert run_virtual(body) == 0


def test_an_error_that_nobody_awaits_is_raised() -> None:
    async def body(clock: VirtualClock) -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)

    with pytest.raises(RuntimeError, match="unawaited"):
        run_virtual(body)


def test_a_deadlock_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.virtual.loop.PATIENCE_S", 0.05)

    async def body(clock: VirtualClock) -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match="deadlock"):
        run_virtual(body)
