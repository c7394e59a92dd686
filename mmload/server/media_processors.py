"""The multimodal processors behind the renderer: numpy's, or transformers' stock or our owned ones.

In: a request's decoded media. Out: `Medium`s and what the span should know. Any number of threads
may call one. `prepare_thread` is run once in each of the renderer's threads: torch's number of
threads belongs to a thread, and vLLM holds its renderer to OMP_NUM_THREADS, or 1.
Raises MediaError for media that the model refuses.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import cv2
import numpy as np

from mmload.processors import base, qwen3vl_numpy
from mmload.processors.arithmetic import (
    IMAGE_LIMITS,
    Grid,
    Limits,
    MediaKind,
    image_grid,
    video_grid,
)
from mmload.processors.families import GEMMA4_BUDGETS, GEMMA4_IMAGE
from mmload.server.checkpoint_files import Values, processor_values
from mmload.server.inputs import Medium
from mmload.server.media import Decoded
from mmload.server.metrics import Metrics
from mmload.server.prompts import Layout, steps_of
from mmload.server.request import MediaError
from mmload.server.settings import ServerSettings

PIXELS_A_TOKEN = 32 * 32  # Qwen3-VL


class Done(NamedTuple):
    media: list[Medium]  # in the order that they came in
    facts: dict[str, Any]


class Processor(Protocol):
    """`describe`: for the run's record."""

    def prepare_thread(self) -> None: ...

    def process(self, media: Sequence[Decoded]) -> Done: ...

    def describe(self) -> dict[str, Any]: ...


def image_limits(max_tokens: int | None, own: Limits = IMAGE_LIMITS) -> Limits:
    """Qwen3-VL's limits on an image's pixels, with at most so many tokens.

    As the model's own rule has it, an image more than `max_tokens` times as long as wide may cost
    more: it is never less than one token wide.
    """
    if max_tokens is None:
        return own
    most = min(max_tokens * PIXELS_A_TOKEN, own.max_pixels)
    return Limits(min(own.min_pixels, most), most)


def qwen_grid(decoded: Decoded, limits: Limits) -> Grid:
    """Raises MediaError."""
    try:
        if decoded.kind == "image":
            return image_grid(*decoded.size, limits)
        return video_grid(len(decoded.frames), *decoded.size)
    except ValueError as error:
        raise MediaError(str(error)) from error


class NumpyProcessor:
    """Qwen3-VL in OpenCV and numpy (`qwen3vl_numpy`), one medium after the other."""

    def __init__(self, settings: ServerSettings, layout: Layout, keep_pixels: bool) -> None:
        self._limits = image_limits(settings.max_image_tokens)
        self._layout = layout
        self._keep = keep_pixels
        self._hash = settings.embedding_cache > 0

    def prepare_thread(self) -> None:
        """OpenCV has one setting for all threads: see `serve.py`."""

    def process(self, media: Sequence[Decoded]) -> Done:
        return Done([self._one(m) for m in media], {"threads": cv2.getNumThreads()})

    def describe(self) -> dict[str, Any]:
        return {}

    def _one(self, decoded: Decoded) -> Medium:
        try:
            done = qwen3vl_numpy.process(decoded.kind, decoded.frames, self._limits)
        except ValueError as error:
            raise MediaError(str(error)) from error
        return Medium(
            decoded.kind,
            done.grid,
            done.grid.tokens,
            steps_of(self._layout, decoded.kind, len(decoded.frames)),
            done.pixel_values if self._keep else None,
            content_key(decoded) if self._hash else b"",
        )


class HfProcessor:
    """Transformers' own processor or ours (`mmload.processors.base`), all media of a kind a call.

    Videos are not sampled here: their frames are those that the decoder kept.
    """

    def __init__(
        self, settings: ServerSettings, layout: Layout, metrics: Metrics, keep_pixels: bool
    ) -> None:
        assert settings.processor != "numpy"
        self._name = settings.processor
        values = _values(settings)
        self._processor = base.load(
            settings.processor,
            settings.model_family,
            image=values["image"],
            video=values["video"],
            threads=settings.omp_threads,
        )
        self._own_threads: int | None = self._processor.describe().get("threads")
        self._threads = torch_threads(settings)
        self._layout = layout
        self._metrics = metrics
        self._keep = keep_pixels
        self._hash = settings.embedding_cache > 0

    def prepare_thread(self) -> None:
        import torch

        torch.set_num_threads(self._threads)

    def process(self, media: Sequence[Decoded]) -> Done:
        import torch

        facts: dict[str, Any] = {"processor": self._name, "threads": torch.get_num_threads()}
        if self._own_threads is not None:  # it keeps threads of its own, whatever torch has
            facts["torch_threads"], facts["threads"] = facts["threads"], self._own_threads
        found: dict[int, Medium] = {}
        fallbacks: list[str] = []
        for kind in ("image", "video"):
            mine = [i for i, decoded in enumerate(media) if decoded.kind == kind]
            if not mine:
                continue
            done = self._call(kind, [media[i] for i in mine])
            facts["core"] = done.core
            fallbacks.extend([done.fallback] if done.fallback else [])
            self._count(done)
            found.update(zip(mine, self._media(kind, [media[i] for i in mine], done), strict=True))
        if self._name == "owned":
            facts["fallbacks"] = len(fallbacks)
            if fallbacks:
                facts["fallback"] = fallbacks[0]
        return Done([found[i] for i in range(len(media))], facts)

    def describe(self) -> dict[str, Any]:
        said = self._processor.describe()
        names = ("torch", "transformers", "image_core", "video_core")
        return {name: said[name] for name in names if name in said}

    def _call(self, kind: MediaKind, media: Sequence[Decoded]) -> base.Processed:
        try:
            if kind == "image":
                return self._processor.images([decoded.frames[0] for decoded in media])
            return self._processor.videos([list(decoded.frames) for decoded in media])
        except ValueError as error:
            raise MediaError(str(error)) from error

    def _count(self, done: base.Processed) -> None:
        self._metrics.count("processor_calls", "Calls of the processor.", f'core="{done.core}"')
        if done.fallback:
            self._metrics.count(
                "processor_fallbacks",
                "Calls that the stock processor served instead of the owned one.",
                f'reason="{done.fallback}"',
            )

    def _media(
        self, kind: MediaKind, media: Sequence[Decoded], done: base.Processed
    ) -> list[Medium]:
        """One a medium; their pixels are views of the call's."""
        name = "pixel_values" if kind == "image" else "pixel_values_videos"
        pixels = done.tensors[name] if self._keep else None
        made: list[Medium] = []
        row = 0
        for decoded, grid, tokens in zip(media, done.grids, done.tokens, strict=True):
            steps = steps_of(self._layout, kind, len(decoded.frames))
            one = Medium(kind, grid, tokens, steps)
            if pixels is not None:
                one.pixels = pixels[row : row + one.patches]
                row += one.patches
            if self._hash:
                one.key = content_key(decoded)
            made.append(one)
        return made


def torch_threads(settings: ServerSettings) -> int:
    """Torch's threads within one call of the processor, as vLLM sets them in its renderer."""
    if settings.omp_threads is not None:
        return settings.omp_threads
    given = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, int(given)) if given.isdigit() else 1


def content_key(decoded: Decoded) -> bytes:
    """Hash of the frames as decoded: the same for the same pixels in another file."""
    digest = hashlib.blake2b(f"{decoded.kind} {decoded.size}".encode(), digest_size=16)
    for frame in decoded.frames:
        digest.update(np.ascontiguousarray(frame).reshape(-1).data)
    return digest.digest()


def soft_tokens(max_tokens: int) -> int:
    """Gemma 4's largest budget for an image within `max_tokens`, and not over the published one."""
    return max(budget for budget in GEMMA4_BUDGETS if budget <= min(max_tokens, GEMMA4_IMAGE))


def _values(settings: ServerSettings) -> Values:
    """What of the processor's configuration is not the published one."""
    path, most = settings.model_path, settings.max_image_tokens
    values: Values = {"image": {}, "video": {}} if path is None else processor_values(Path(path))
    if most is None:
        return values
    if settings.model_family == "gemma-4":
        values["image"]["max_soft_tokens"] = soft_tokens(most)
        return values
    given = values["image"].get("size", {})
    own = Limits(
        given.get("shortest_edge", IMAGE_LIMITS.min_pixels),
        given.get("longest_edge", IMAGE_LIMITS.max_pixels),
    )
    capped = image_limits(most, own)
    values["image"]["size"] = {
        "shortest_edge": capped.min_pixels,
        "longest_edge": capped.max_pixels,
    }
    return values
