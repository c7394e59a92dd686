"""Stock and owned processors behind the renderer: tokens by other arithmetic, and the caps."""

import asyncio
from typing import Any

import pytest
import torch

from mmload.clock import MonotonicClock
from mmload.processors.arithmetic import count_tokens, image_grid
from mmload.processors.families import FAMILY
from mmload.server.media import Decoded
from mmload.server.media_processors import HfProcessor, NumpyProcessor, Processor, image_limits
from mmload.server.metrics import Metrics
from mmload.server.pipeline import Pipeline
from mmload.server.renderer import ThreadRenderer
from mmload.server.request import MediaError, MediaPart, ServeRequest, Turn
from mmload.server.settings import server_settings
from tests.hf.models import PROMPTS, noise

pytestmark = pytest.mark.hf

MEDIA = [
    noise(1, height=480, width=854),
    noise(2, frames=5, height=240, width=320),
    noise(3, height=40, width=900),
    noise(4, frames=2, height=97, width=131),
]


def processor(metrics: Metrics | None = None, **values: Any) -> Processor:
    settings = server_settings(values)
    layout = settings.model_family
    if settings.processor == "numpy":
        return NumpyProcessor(settings, layout, keep_pixels=True)
    return HfProcessor(settings, layout, metrics or Metrics(MonotonicClock()), keep_pixels=True)


def size(decoded: Decoded) -> tuple[Any, int, int, int]:
    return decoded.kind, len(decoded.frames), *decoded.size


@pytest.mark.parametrize("which", ["numpy", "stock", "owned"])
def test_qwen_tokens_are_the_arithmetics(which: str) -> None:
    done = processor(processor=which).process(MEDIA)
    assert [m.tokens for m in done.media] == [count_tokens(*size(d)) for d in MEDIA]
    for medium, decoded in zip(done.media, MEDIA, strict=True):
        assert medium.kind == decoded.kind and sum(medium.runs) == medium.tokens
        assert tuple(medium.pixels.shape) == (medium.patches, 1536)
    assert [m.steps for m in done.media] == [1, 3, 1, 1]


@pytest.mark.parametrize("which", ["stock", "owned"])
def test_gemma_tokens_are_the_arithmetics(which: str) -> None:
    family = FAMILY["gemma-4"].variants[0]
    assert family.video is not None
    expected = [
        (family.image(*d.size) if d.kind == "image" else family.video(len(d.frames), *d.size)).media
        for d in MEDIA
    ]
    done = processor(processor=which, model_family="gemma-4").process(MEDIA)
    assert [m.tokens for m in done.media] == expected
    assert [m.steps for m in done.media] == [1, 5, 1, 2]


def test_all_three_give_the_same_where_nothing_is_resized() -> None:
    media = [noise(1, height=256, width=320), noise(2, frames=3, height=64, width=96)]
    numpy, stock, owned = (
        processor(processor=which).process(media).media for which in ("numpy", "stock", "owned")
    )
    for a, b, c in zip(numpy, stock, owned, strict=True):
        assert a.grid == tuple(b.grid) == tuple(c.grid)
        assert torch.equal(torch.as_tensor(a.pixels), b.pixels) and torch.equal(b.pixels, c.pixels)


@pytest.mark.parametrize("most", [4, 64, 100, 256])
@pytest.mark.parametrize("which", ["numpy", "stock", "owned"])
def test_the_cap_bounds_an_images_tokens(which: str, most: int) -> None:
    media = [noise(1, height=480, width=854), noise(2, height=700, width=300)]
    done = processor(processor=which, max_image_tokens=most).process([*media, MEDIA[1]]).media
    assert [m.tokens for m in done[:2]] == [
        image_grid(*d.size, image_limits(most)).tokens for d in media
    ]
    assert all(most / 3 < m.tokens <= most for m in done[:2]), "near the cap, never over it"
    assert done[2].tokens == count_tokens(*size(MEDIA[1])), "videos are not capped"


@pytest.mark.parametrize(("most", "budget"), [(70, 70), (200, 140), (100_000, 280)])
def test_the_cap_is_one_of_gemmas_budgets(most: int, budget: int) -> None:
    variants = {v.words: v for v in FAMILY["gemma-4"].variants}
    by_hand = variants[f"max_soft_tokens {budget}"].image(480, 854).media
    made = processor(processor="stock", model_family="gemma-4", max_image_tokens=most)
    assert [m.tokens for m in made.process([MEDIA[0]]).media] == [by_hand]


def test_who_served_is_told_and_counted() -> None:
    metrics = Metrics(MonotonicClock())
    made = processor(metrics, processor="owned", omp_threads=2)
    facts = made.process(MEDIA).facts
    assert facts["processor"] == "owned" and facts["core"].startswith("owned (")
    assert facts["fallbacks"] == 0 and facts["threads"] == 2
    assert f'mmload_processor_calls_total{{core="{facts["core"]}"}} 2' in metrics.text()
    assert made.describe()["image_core"] == "validated"


def test_keys_are_the_contents() -> None:
    made = processor(processor="numpy", engine="torch", embedding_cache=1)
    again, other = noise(1, height=480, width=854), noise(9, height=480, width=854)
    first, second, third = (m.key for m in made.process([MEDIA[0], again, other]).media)
    assert first == second != third and len(first) == 16


def test_media_that_the_model_refuses() -> None:
    for which in ("numpy", "stock", "owned"):
        with pytest.raises(MediaError):
            processor(processor=which).process([noise(1, height=5, width=2000)])


@pytest.mark.parametrize(
    ("values", "environment", "threads"),
    [
        ({}, {}, 1),
        ({}, {"OMP_NUM_THREADS": "2"}, 2),
        ({"omp_threads": 3}, {"OMP_NUM_THREADS": "2"}, 3),
    ],
)
def test_torchs_threads_in_the_renderer(
    values: dict[str, Any],
    environment: dict[str, str],
    threads: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    seen: list[int] = []
    made = processor(processor="stock", **values)

    class Watched:
        def prepare_thread(self) -> None:
            made.prepare_thread()

        def process(self, media: Any) -> Any:
            done = made.process(media)
            seen.append(done.facts["threads"])
            return done

        def describe(self) -> dict[str, Any]:
            return {}

    renderer = ThreadRenderer(1, Metrics(MonotonicClock()), PROMPTS, Watched())
    request = ServeRequest("r", (Turn("user", (MediaPart("image"), "What?")),), 1)
    try:
        rendered = asyncio.run(renderer.render(request, [noise(1)]))
    finally:
        renderer.close()
    assert seen == [threads] and rendered.inputs is None
    assert rendered.media_tokens == count_tokens("image", 1, 96, 128)


def test_a_pipeline_with_all_of_it() -> None:
    """Stock processor, tiny model: the count of the prompt is exact, and the pixels are counted."""
    settings = server_settings({"processor": "stock", "engine": "torch"})

    async def body() -> None:
        clock = MonotonicClock()
        async with Pipeline(settings, clock, Metrics(clock)) as pipeline:
            turn = Turn("user", (MediaPart("image", url=PNG), "What is it?"))
            prepared = await pipeline.prepare(ServeRequest("r", (turn,), 5))
            inputs = prepared.rendered.inputs
            assert inputs is not None and len(inputs.ids) == prepared.rendered.prompt_tokens
            pad = PROMPTS.tokenizer.special["<|image_pad|>"]
            assert inputs.ids.count(pad) == prepared.rendered.media_tokens == 64
            tokens = [token async for token in pipeline.generate(prepared)]
            assert len(tokens) == 5 and prepared.finish_reason(tokens[-1]) == "length"
            assert inputs.pixel_bytes == 0
            assert pipeline.describe()["device"]

    asyncio.run(body())


def _png() -> str:
    import base64

    import cv2

    encoded = cv2.imencode(".png", noise(1, height=64, width=64).frames[0])[1].tobytes()
    return "data:image/png;base64," + base64.b64encode(encoded).decode()


PNG = _png()
