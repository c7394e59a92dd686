"""What the tests of real models share: prompts with media, and an engine that runs."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import Qwen3VLForConditionalGeneration

from mmload.clock import MonotonicClock
from mmload.processors.arithmetic import MediaKind
from mmload.server.engine import EngineWork, Token
from mmload.server.engine_torch import TorchEngine
from mmload.server.inputs import ModelInputs
from mmload.server.media import Decoded
from mmload.server.media_processors import NumpyProcessor
from mmload.server.metrics import Metrics
from mmload.server.prompts import OwnPrompts
from mmload.server.request import MediaPart, ServeRequest, Turn
from mmload.server.settings import ServerSettings
from mmload.server.tiny_model import tiny_config
from mmload.server.tokenizer import SPECIAL
from mmload.server.vision_language import VisionLanguageModel

PROMPTS = OwnPrompts("qwen3-vl")


def noise(seed: int, frames: int = 0, height: int = 96, width: int = 128) -> Decoded:
    """A picture, or a video of so many frames, that no other seed has."""
    random = np.random.default_rng(seed)
    kind: MediaKind = "video" if frames else "image"
    made = tuple(random.integers(0, 256, (height, width, 3), np.uint8) for _ in range(frames or 1))
    return Decoded(kind, made, 0, tuple(i / 2 for i in range(frames or 1)))


def inputs(text: str, *media: Decoded) -> ModelInputs:
    """A user's turn: the media, then the text. Hashed, for the cache."""
    settings = ServerSettings(engine="torch", embedding_cache=1)
    processor = NumpyProcessor(settings, PROMPTS.layout, keep_pixels=True)
    parts: tuple[str | MediaPart, ...] = (*(MediaPart(one.kind) for one in media), text)
    ids = PROMPTS.encode(ServeRequest("r", (Turn("user", parts),), 1), media)
    done = processor.process(media).media
    return ModelInputs(PROMPTS.finish(ids, done), done)


class Running:
    """An engine, its metrics, and short words for asking it."""

    def __init__(self, model: VisionLanguageModel, cached_media: int = 0, threads: int = 1) -> None:
        clock = MonotonicClock()
        self.metrics = Metrics(clock)
        self.engine = TorchEngine(
            model, PROMPTS, clock, self.metrics, threads=threads, cached_media=cached_media
        )

    async def tokens(
        self, asked: ModelInputs, most: int = 12, *, ignore_end: bool = False, name: str = "r"
    ) -> list[Token]:
        work = EngineWork(name, 0, len(asked.ids), most, ignore_end, asked)
        return [token async for token in self.engine.generate(work)]

    def sample(self, line: str) -> str | None:
        """The value of a metric."""
        found = [x for x in self.metrics.text().splitlines() if x.startswith(f"{line} ")]
        return found[0].rpartition(" ")[2] if found else None


@asynccontextmanager
async def running(
    model: VisionLanguageModel, cached_media: int = 0, threads: int = 1
) -> AsyncIterator[Running]:
    one = Running(model, cached_media, threads)
    task = asyncio.create_task(one.engine.run())
    try:
        yield one
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def texts(tokens: Sequence[Token]) -> list[str]:
    assert [token.number for token in tokens] == list(range(len(tokens)))
    return [token.text for token in tokens]


def generated(model: Any, asked: ModelInputs, most: int = 12) -> list[int]:
    """What transformers' own `generate` makes of the same prompt: the independent judge."""
    config = model.config
    ids = torch.tensor([asked.ids])
    kinds = (ids == config.image_token_id).int() + 2 * (ids == config.video_token_id).int()
    media: dict[str, Any] = {}
    for kind, suffix in (("image", ""), ("video", "_videos")):
        mine = [m for m in asked.media if m.kind == kind]
        if mine:
            media[f"pixel_values{suffix}"] = torch.cat([torch.as_tensor(m.pixels) for m in mine])
            media[f"{kind}_grid_thw"] = torch.tensor([list(m.grid) for m in mine])
    with torch.inference_mode():
        out = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            mm_token_type_ids=kinds,
            max_new_tokens=most,
            do_sample=False,
            **media,
        )
    answer: list[int] = out[0, ids.shape[1] :].tolist()
    return answer


TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% for c in m.content %}"
    "{% if c.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif c.type == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% else %}{{ c.text }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_checkpoint(folder: Path, seed: int = 5) -> None:
    """A Qwen3-VL folder as one downloads it, but tiny: weights, a byte-level BPE, a template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("i", "n")]
    vocabulary = [*alphabet, *(a + b for a, b in merges)]
    bpe = Tokenizer(models.BPE({word: i for i, word in enumerate(vocabulary)}, merges))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, chat_template=TEMPLATE)
    tokenizer.add_special_tokens(
        {"eos_token": "<|im_end|>", "additional_special_tokens": [*SPECIAL]}
    )
    tokenizer.save_pretrained(folder)
    made = Tokens({mark: tokenizer.convert_tokens_to_ids(mark) for mark in SPECIAL}, len(tokenizer))
    model = Qwen3VLForConditionalGeneration(tiny_config(made))
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.02, generator=generator)
    model.save_pretrained(folder)


class Tokens(NamedTuple):
    """What `tiny_config` wants of a tokenizer."""

    special: dict[str, int]
    size: int
