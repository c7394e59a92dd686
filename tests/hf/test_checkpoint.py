"""`--model-path`: a Qwen3-VL folder, held against transformers' own processor and model."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen3VLForConditionalGeneration, Qwen3VLProcessor

from mmload.clock import MonotonicClock
from mmload.errors import UsageError
from mmload.processors.stock import StockProcessor
from mmload.server.media import Decoded
from mmload.server.media_processors import HfProcessor
from mmload.server.metrics import Metrics
from mmload.server.pipeline import Pipeline
from mmload.server.prompts_checkpoint import CheckpointPrompts
from mmload.server.renderer import ThreadRenderer
from mmload.server.request import ApiError, MediaPart, ServeRequest, Turn
from mmload.server.settings import server_settings
from mmload.server.vision_language import Place, load_checkpoint
from tests.hf.models import TEMPLATE, generated, noise, write_checkpoint

pytestmark = pytest.mark.hf

SIZES = {"longest_edge": 96 * 1024, "shortest_edge": 16 * 1024}  # 96 and 16 tokens an image


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("checkpoint") / "tiny-qwen3-vl"
    write_checkpoint(made)
    (made / "preprocessor_config.json").write_text(json.dumps({"size": SIZES, "patch_size": 16}))
    return made


def request(*parts: str | MediaPart, role: str = "user") -> ServeRequest:
    return ServeRequest("r", (Turn(role, parts),), 10)


def rendered(folder: Path, asked: ServeRequest, media: list[Decoded], **values: Any) -> Any:
    settings = server_settings(
        {"engine": "torch", "processor": "stock", "model_path": str(folder), **values}
    )
    metrics = Metrics(MonotonicClock())
    processor = HfProcessor(settings, "qwen3-vl", metrics, keep_pixels=True)
    renderer = ThreadRenderer(1, metrics, CheckpointPrompts(folder), processor, keep=True)
    try:
        return asyncio.run(renderer.render(asked, media))
    finally:
        renderer.close()


def test_the_prompt_is_transformers_own(folder: Path) -> None:
    picture, clip = noise(1, height=200, width=300), noise(2, frames=5, height=120, width=160)
    asked = request("Look in the ", MediaPart("image"), "and", MediaPart("video"), " in thé end?")
    mine = rendered(folder, asked, [picture, clip])

    stock = StockProcessor.build("qwen3-vl", "hub", {"size": SIZES}, {})
    prompts: Any = CheckpointPrompts(folder)
    whole = Qwen3VLProcessor(stock.image, prompts._tokenizer, stock.video, chat_template=TEMPLATE)
    text = whole.apply_chat_template(
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look in the "},
                    {"type": "image"},
                    {"type": "text", "text": "and"},
                    {"type": "video"},
                    {"type": "text", "text": " in thé end?"},
                ],
            }
        ],
        add_generation_prompt=True,
        tokenize=False,
    )
    theirs = whole(
        text=[text],
        images=[picture.frames[0]],
        videos=[list(clip.frames)],
        do_sample_frames=False,
        video_metadata=[{"fps": 2.0, "total_num_frames": 5, "frames_indices": [0, 1, 2, 3, 4]}],
        return_tensors="pt",
    )
    assert mine.inputs.ids == theirs["input_ids"][0].tolist()
    image, video = mine.inputs.media
    assert image.tokens <= 96 and mine.media_tokens == image.tokens + video.tokens
    assert torch.equal(image.pixels, theirs["pixel_values"])
    assert torch.equal(video.pixels, theirs["pixel_values_videos"])


def test_the_answer_is_transformers_own(folder: Path) -> None:
    model = Qwen3VLForConditionalGeneration.from_pretrained(folder)
    asked = request(MediaPart("image"), "What?")
    media = [noise(1, height=64, width=96)]
    expected = generated(model, rendered(folder, asked, media).inputs, 10)
    prompts = CheckpointPrompts(folder)

    async def body() -> str:
        clock = MonotonicClock()
        settings = server_settings(
            {"engine": "torch", "processor": "owned", "model_path": str(folder)}
        )
        async with Pipeline(settings, clock, Metrics(clock)) as pipeline:
            pipeline._load_all = given  # type: ignore[method-assign, assignment]
            prepared = await pipeline.prepare(asked)
            assert pipeline.describe()["model_served"].endswith("from tiny-qwen3-vl")
            return "".join([token.text async for token in pipeline.generate(prepared)])

    async def given(_parts: object) -> list[Decoded]:
        return media

    assert asyncio.run(body()) == prompts.decode(expected)


def test_a_cap_on_top_of_its_own_limits(folder: Path) -> None:
    asked, media = request(MediaPart("image"), "What?"), [noise(1, height=480, width=640)]
    assert 64 < rendered(folder, asked, media).media_tokens <= 96
    assert 32 < rendered(folder, asked, media, max_image_tokens=48).media_tokens <= 48
    assert 64 < rendered(folder, asked, media, max_image_tokens=1_000).media_tokens <= 96


@pytest.mark.parametrize(
    ("asked", "media", "words"),
    [
        (request("a <|image_pad|>"), 0, "marks that stand for media"),
        (request(MediaPart("image"), "and <|video_pad|>"), 1, "marks that stand for media"),
    ],
)
def test_forged_marks_are_refused(
    folder: Path, asked: ServeRequest, media: int, words: str
) -> None:
    with pytest.raises(ApiError, match=words) as caught:
        CheckpointPrompts(folder).encode(asked, [noise(i) for i in range(media)])
    assert caught.value.status == 400


def test_what_is_no_checkpoint(folder: Path, tmp_path: Path) -> None:
    place = Place("cpu", "cpu")
    with pytest.raises(UsageError, match="--model-path"):
        load_checkpoint(tmp_path, place)
    (tmp_path / "config.json").write_text('{"model_type": "qwen2"}')
    with pytest.raises(UsageError, match="its model_type is 'qwen2', not 'qwen3_vl'"):
        load_checkpoint(tmp_path, place)
    with pytest.raises(UsageError, match="--model-path .*tokenizer"):
        CheckpointPrompts(tmp_path)
