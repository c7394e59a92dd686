"""`loop_watch`: what held a loop up is found and named, and nothing else is."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mmload.hook import loop_watch, spans
from tests.unit.test_hook_probes import read


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("MMLOAD_HOOK_DIR", str(tmp_path / "spans"))
    monkeypatch.setattr(loop_watch, "_watch", None)
    assert spans.arm("test")
    yield tmp_path / "spans"
    spans.shutdown()


def encode(seconds: float) -> None:
    """A server's own function that computes on the loop."""
    time.sleep(seconds)


def held_up(folder: Path) -> list[tuple[str, float]]:
    found = [span for span in read(folder)[0] if span.stage == loop_watch.STAGE]
    assert all(span.request_id == "" for span in found)
    return [(str(span.facts["where"]), (span.end_ns - span.start_ns) / 1e6) for span in found]


def test_each_stretch_is_found_with_the_function_that_held_the_loop(folder: Path) -> None:
    async def request() -> None:
        loop_watch.entered()
        for _ in range(3):
            await asyncio.sleep(0.06)
            encode(0.15)
        await asyncio.sleep(0.06)
        loop_watch.left()

    asyncio.run(request())
    mine = [(where, ms) for where, ms in held_up(folder) if where.endswith(".encode")]
    assert [where for where, _ in mine] == [f"{__name__}.encode"] * 3
    assert all(ms > 125 for _, ms in mine)  # a stretch may begin up to 20 ms before it is missed


def test_a_loop_that_only_waits_is_not_held_up_and_has_no_timer_afterwards(folder: Path) -> None:
    async def request() -> tuple[bool, bool]:
        loop_watch.entered()
        await asyncio.sleep(0.2)
        loop_watch.left()
        watch = loop_watch._watch
        assert watch is not None
        inside = watch._due_ns > 0
        await asyncio.sleep(0.1)
        return inside, watch._due_ns > 0

    assert asyncio.run(request()) == (True, False)
    assert [where for where, _ in held_up(folder) if where] == []


def test_the_timer_is_set_again_for_the_next_request(folder: Path) -> None:
    async def requests() -> None:
        for _ in range(2):
            loop_watch.entered()
            await asyncio.sleep(0.04)
            encode(0.1)
            await asyncio.sleep(0.04)
            loop_watch.left()
            await asyncio.sleep(0.1)

    asyncio.run(requests())
    assert [where for where, _ in held_up(folder) if where] == [f"{__name__}.encode"] * 2


def test_nothing_starts_while_the_hook_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watch, "_watch", None)
    monkeypatch.delenv("MMLOAD_HOOK_DIR", raising=False)

    async def request() -> None:
        loop_watch.entered()
        loop_watch.left()

    asyncio.run(request())
    assert loop_watch._watch is None
