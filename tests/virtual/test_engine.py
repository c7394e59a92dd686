"""The simulated accelerator on virtual time: every token when the cost model says, to the ns.

Costs in these tests, ms: encoder 10 + 10 a 1,000 patches, prefill 5 + 10 a 1,000 tokens, step 8 + 1
a sequence. The comments work the times out by hand.
"""

import asyncio
from pathlib import Path

import pytest

from mmload.hook import spans
from mmload.rundir import SpanLines
from mmload.server.engine import EngineWork
from mmload.server.engine_simulated import SimulatedEngine
from mmload.server.metrics import Metrics
from mmload.server.settings import ServerSettings
from tests.virtual.loop import VirtualClock, run_virtual

MS = 1_000_000


def settings(max_batch: int = 8) -> ServerSettings:
    return ServerSettings(
        encoder_fixed_ms=10,
        encoder_ms_per_1k_patches=10,
        prefill_fixed_ms=5,
        prefill_ms_per_1k_tokens=10,
        decode_step_ms=8,
        decode_ms_per_sequence=1,
        max_batch=max_batch,
    )


class Device:
    """An engine that runs, and what came out of it: per request, token times in ms."""

    def __init__(self, clock: VirtualClock, max_batch: int = 8) -> None:
        self.clock = clock
        self.metrics = Metrics(clock)
        self.engine = SimulatedEngine(settings(max_batch), clock, self.metrics)
        self.made_ms: dict[str, list[float]] = {}
        self.got_ms: dict[str, list[float]] = {}
        self.words: dict[str, str] = {}
        self._run = asyncio.create_task(self.engine.run())

    async def ask(
        self, name: str, tokens: int, *, prompt: int = 500, patches: int = 0, after_ms: float = 0
    ) -> None:
        await asyncio.sleep(after_ms / 1000)
        self.made_ms[name], self.got_ms[name], self.words[name] = [], [], ""
        async for token in self.engine.generate(EngineWork(name, patches, prompt, tokens)):
            self.made_ms[name].append(token.at_ns / MS)
            self.got_ms[name].append(self.clock.now_ns() / MS)
            self.words[name] += token.text


def test_one_request() -> None:
    async def body(clock: VirtualClock) -> Device:
        device = Device(clock)
        await device.ask("a", 4, prompt=1_500, patches=2_000)
        return device

    device = run_virtual(body)
    # encoder 10 + 20, prefill 5 + 15, then a step of 9 a token
    assert device.made_ms["a"] == device.got_ms["a"] == [50, 59, 68, 77]
    assert device.words["a"] == "Lorem ipsum dolor sit"


def test_a_15_frame_request_at_the_default_costs() -> None:
    async def body(clock: VirtualClock) -> list[int]:
        engine = SimulatedEngine(ServerSettings(), clock, Metrics(clock))
        run = asyncio.create_task(engine.run())
        tokens = [t.at_ns async for t in engine.generate(EngineWork("a", 12_960, 3_259, 2))]
        run.cancel()
        return tokens

    # encoder 2 + 3 x 12.96 = 40.88; prefill 2 + 10 x 3.259 = 34.59; step 8 + 0.25
    assert run_virtual(body) == [75_470_000, 83_720_000]


def test_newcomers_are_let_in_between_steps_and_share_them() -> None:
    async def body(clock: VirtualClock) -> Device:
        device = Device(clock)
        await asyncio.gather(device.ask("a", 3), device.ask("b", 3))
        return device

    device = run_virtual(body)
    # a: prefill to 10, a step alone to 19; b: prefill to 29; both: 39; b alone: 48
    assert device.made_ms == {"a": [10, 19, 39], "b": [29, 39, 48]}


def test_a_request_that_comes_in_mid_step_waits_for_its_end() -> None:
    async def body(clock: VirtualClock) -> Device:
        device = Device(clock)
        await asyncio.gather(device.ask("a", 4), device.ask("b", 1, after_ms=12))
        return device

    device = run_virtual(body)
    assert device.made_ms == {"a": [10, 19, 38, 47], "b": [29]}


def test_a_full_batch_keeps_others_waiting() -> None:
    async def body(clock: VirtualClock) -> Device:
        device = Device(clock, max_batch=1)
        await asyncio.gather(device.ask("a", 3), device.ask("b", 2))
        return device

    device = run_virtual(body)
    assert device.made_ms == {"a": [10, 19, 28], "b": [38, 47]}


def test_the_device_idles_until_the_next_arrival() -> None:
    async def body(clock: VirtualClock) -> Device:
        device = Device(clock)
        await asyncio.gather(device.ask("a", 1), device.ask("b", 1, after_ms=1_000.5))
        return device

    assert run_virtual(body).made_ms == {"a": [10], "b": [1_010.5]}


def test_a_frozen_loop_gets_tokens_late_but_the_device_went_on() -> None:
    async def body(clock: VirtualClock) -> Device:
        device = Device(clock)
        asyncio.get_running_loop().call_later(0.012, clock.loop.stall, 30 * MS)
        await device.ask("a", 6)
        return device

    device = run_virtual(body)
    assert device.made_ms["a"] == [10, 19, 28, 37, 46, 55]
    assert device.got_ms["a"] == [10, 42, 42, 42, 46, 55]


def test_closing_withdraws() -> None:
    async def body(clock: VirtualClock) -> Device:
        device = Device(clock, max_batch=1)
        first = asyncio.create_task(device.ask("a", 1_000))
        waiting = asyncio.create_task(device.ask("b", 1))
        last = asyncio.create_task(device.ask("c", 1))
        await asyncio.sleep(0.020)
        first.cancel()
        waiting.cancel()
        await asyncio.gather(first, waiting, return_exceptions=True)
        await last
        assert {s: device.metrics.in_stage(s) for s in ("engine_wait", "prefill", "decode")} == {
            "engine_wait": 0,
            "prefill": 0,
            "decode": 0,
        }
        return device

    device = run_virtual(body)
    # a's step under way ends at 28; b has gone; c's prefill takes 10
    assert device.made_ms == {"a": [10, 19], "b": [], "c": [38]}


def test_throughput_of_a_saturated_batch() -> None:
    """n sequences of t tokens, all there from the start, none with media."""
    n, tokens = 8, 50

    async def body(clock: VirtualClock) -> float:
        device = Device(clock)
        await asyncio.gather(*(device.ask(str(i), tokens, prompt=500) for i in range(n)))
        return clock.now_ns() / MS

    # Each prefill (10) is followed by a step of those let in so far, i + 1 of them. When the last
    # has had that step, sequence i has 1 + (n - i) tokens; then steps only, each 8 + those left.
    total = 10.0 * n + sum(8 + (i + 1) for i in range(n))
    running = [1 + (n - i) for i in range(n)]
    while running:
        total += 8 + len(running)
        running = [have + 1 for have in running if have + 1 < tokens]
    assert run_virtual(body) == pytest.approx(total, abs=1e-6)


def test_its_spans_are_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(clock: VirtualClock) -> None:
        device = Device(clock)
        await asyncio.gather(
            device.ask("a", 3, prompt=500, patches=1_000), device.ask("b", 1, after_ms=1)
        )

    monkeypatch.setenv("MMLOAD_HOOK_DIR", str(tmp_path))
    spans.install("server")
    try:
        run_virtual(body)
    finally:
        spans.shutdown()
    found = {
        (s.request_id, s.stage): (s.start_ns / MS, s.end_ns / MS)
        for s in SpanLines(list(tmp_path.glob("*.jsonl")))
        if s.facts["simulated"]
    }
    # a: encoder 20, prefill 10, step 9, then b's prefill 10 delays a's last step (b has left)
    assert found == {
        ("a", "engine_wait"): (0, 0),
        ("a", "encoder"): (0, 20),
        ("a", "prefill"): (20, 30),
        ("a", "decode"): (30, 58),
        ("b", "engine_wait"): (1, 39),
        ("b", "prefill"): (39, 49),
    }
