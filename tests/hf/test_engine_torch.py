"""The engine that computes, against transformers' own `generate`, and what it promises beside."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch

from mmload.hook import spans
from mmload.rundir import SpanLines
from mmload.server.inputs import ModelInputs
from mmload.server.tiny_model import tiny_model, unprintable
from mmload.server.vision_language import Place, VisionLanguageModel, load_tiny
from tests.hf.models import PROMPTS, Running, generated, inputs, noise, running, texts

pytestmark = pytest.mark.hf

T = TypeVar("T")
CPU = Place("cpu", "cpu")


@pytest.fixture(scope="module")
def model() -> VisionLanguageModel:
    return load_tiny(0, PROMPTS.tokenizer, CPU)


@pytest.fixture(scope="module")
def judge() -> Any:
    return tiny_model(0, PROMPTS.tokenizer)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def with_engine(
    model: VisionLanguageModel, body: Callable[[Running], Awaitable[T]], **how: int
) -> T:
    async def whole() -> T:
        async with running(model, **how) as one:
            return await asyncio.wait_for(body(one), 30)

    return asyncio.run(whole())


def test_weights_are_the_seeds() -> None:
    state = torch.random.get_rng_state()
    first, again, other = (tiny_model(seed, PROMPTS.tokenizer) for seed in (3, 3, 4))
    assert torch.equal(torch.random.get_rng_state(), state), "others' randomness is left alone"
    pairs = list(zip(first.parameters(), again.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in pairs)
    assert not torch.equal(first.lm_head.weight, other.lm_head.weight)


def test_what_it_says_can_be_read() -> None:
    never = set(unprintable(PROMPTS.tokenizer))
    allowed = [i for i in range(PROMPTS.tokenizer.size) if i not in never]
    text = PROMPTS.decode(allowed)
    assert len(allowed) > 95 and text.isascii() and text.isprintable()


CASES = {
    "text": lambda: inputs("Say something."),
    "image": lambda: inputs("What is it?", noise(1)),
    "video": lambda: inputs("What happens?", noise(2, frames=6)),
    "odd video": lambda: inputs("What happens?", noise(3, frames=5)),
    "all": lambda: inputs("Compare.", noise(4), noise(5, frames=4), noise(6, height=200)),
}


@pytest.mark.parametrize("case", CASES)
def test_tokens_are_those_of_generate(case: str, model: VisionLanguageModel, judge: Any) -> None:
    asked = CASES[case]()
    expected = [PROMPTS.decode([number]) for number in generated(judge, asked)]
    assert len(set(expected)) > 1, "an answer that would not show a mistake"
    got = with_engine(model, lambda one: one.tokens(asked))
    assert texts(got) == expected


def test_answers_depend_on_the_picture(model: VisionLanguageModel) -> None:
    async def body(one: Running) -> list[list[str]]:
        seen = (noise(1), noise(7), noise(1))
        return [texts(await one.tokens(inputs("What is it?", picture))) for picture in seen]

    first, other, again = with_engine(model, body)
    assert first == again != other


def test_cached_features_give_the_same_tokens(model: VisionLanguageModel) -> None:
    def asked() -> ModelInputs:
        return inputs("Compare.", noise(1), noise(2, frames=3))

    async def body(one: Running) -> tuple[list[str], list[str]]:
        first, second = await one.tokens(asked()), await one.tokens(asked())
        assert one.sample("mmload_embedding_cache_misses_total") == "2"
        assert one.sample("mmload_embedding_cache_hits_total") == "2"
        await one.tokens(inputs("And this?", noise(8)))  # the oldest, the picture, has to go
        await one.tokens(asked())
        assert one.sample("mmload_embedding_cache_misses_total") == "5"
        return texts(first), texts(second)

    first, second = with_engine(model, body, cached_media=2)
    assert first == second
    assert first == texts(with_engine(model, lambda one: one.tokens(asked())))


def test_pixels_are_let_go_when_the_encoder_has_them(model: VisionLanguageModel) -> None:
    asked = inputs("What is it?", noise(1), noise(2, frames=2))
    # a picture of 96x128 is enlarged to 224x320 for the least of 65,536 pixels: 14 x 20 patches
    assert asked.pixel_bytes == (14 * 20 + 6 * 8) * 1536 * 4
    with_engine(model, lambda one: one.tokens(asked, 1))
    assert asked.pixel_bytes == 0


def test_the_models_own_end(judge: Any) -> None:
    asked = inputs("Say something.")
    numbers = generated(judge, asked)
    model = load_tiny(0, PROMPTS.tokenizer, CPU)
    at = next(i for i in range(1, 12) if numbers[i] not in numbers[:i])
    model.ends = frozenset([numbers[at]])

    async def body(one: Running) -> None:
        tokens = await one.tokens(asked)
        assert len(tokens) == at + 1 and [t.ended for t in tokens] == [False] * at + [True]
        on = await one.tokens(asked, ignore_end=True)
        assert len(on) == 12 and not any(token.ended for token in on)

    with_engine(model, body)


def test_who_leaves_is_withdrawn(model: VisionLanguageModel) -> None:
    async def body(one: Running) -> None:
        long = asyncio.create_task(one.tokens(inputs("Go on."), 100_000))
        while one.metrics.in_stage("decode") == 0:
            await asyncio.sleep(0.005)
        waiting = inputs("Never seen.", noise(9))
        behind = asyncio.create_task(one.tokens(waiting))
        await asyncio.sleep(0.02)
        assert one.metrics.in_stage("engine_wait") == 1
        for task in (behind, long):
            task.cancel()
        await asyncio.gather(behind, long, return_exceptions=True)
        assert len(await one.tokens(inputs("Next."), 3)) == 3
        assert waiting.pixel_bytes == 0
        stages = ("engine_wait", "encoder", "prefill", "decode")
        while any(one.metrics.in_stage(stage) for stage in stages):
            await asyncio.sleep(0.005)  # the last token comes just before its thread is done
        assert one.sample('mmload_stage_seconds_count{stage="encoder"}') is None

    with_engine(model, body)


def test_a_request_that_fails_fails_alone(model: VisionLanguageModel) -> None:
    async def body(one: Running) -> None:
        broken = inputs("What is it?", noise(1))
        broken.media[0].pixels = broken.media[0].pixels[:-1]
        with pytest.raises(RuntimeError):
            await one.tokens(broken)
        assert one.metrics.in_stage("encoder") == 0
        assert len(await one.tokens(inputs("Next."), 3)) == 3

    with_engine(model, body)


def test_its_threads_are_its_own(model: VisionLanguageModel) -> None:
    seen: list[int] = []
    before = model.prefill
    model.prefill = lambda *given: seen.append(torch.get_num_threads()) or before(*given)  # type: ignore[method-assign, func-returns-value]
    try:
        with_engine(model, lambda one: one.tokens(inputs("Hi."), 1), threads=2)
    finally:
        del model.prefill
    assert seen == [2] and torch.get_num_threads() == 1


def test_its_spans_are_measured(
    model: VisionLanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MMLOAD_HOOK_DIR", str(tmp_path))
    spans.install("server")
    try:

        async def body(one: Running) -> None:
            for name in ("a", "b"):
                await one.tokens(inputs("Compare.", noise(1), noise(1)), 4, name=name)

        with_engine(model, body, cached_media=1)
    finally:
        spans.shutdown()
    found: dict[str, list[Any]] = {}
    for span in SpanLines(list(tmp_path.glob("*.jsonl"))):
        assert "simulated" not in span.facts and span.start_ns <= span.end_ns
        found.setdefault(span.request_id, []).append(span)
    for name, hits in (("a", [False, True]), ("b", [True, True])):
        mine = sorted(found[name], key=lambda span: span.start_ns)
        stages = ["engine_wait", "encoder", "encoder", "prefill", "decode"]
        assert [span.stage for span in mine] == stages
        assert [s.facts["cache_hit"] for s in mine if s.stage == "encoder"] == hits
        assert all(a.end_ns <= b.start_ns for a, b in zip(mine, mine[1:], strict=False))
        assert mine[-1].facts["steps"] == 3
        assert "host clock" in mine[-1].facts["timed_by"]
