"""The owned processors: bit for bit what the stock ones give, several times faster.

`OwnedProcessor` wraps a stock processor and reproduces it for what has been validated (plain RGB,
the usual configurations, this version of transformers); everything else goes to stock, and each
such call is counted with its reason. The parts: `media` reads what callers pass, `qwen3vl` and
`gemma4` know sizes and layouts, `resize`, `patchify` and `fused_numba` move pixels, `buffers` and
`threads` are where the time is won, `validated` says when not to.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from mmload.errors import UsageError
from mmload.processors.base import Core, Counts, Processed, Which
from mmload.processors.owned import validated
from mmload.processors.owned.buffers import Buffers
from mmload.processors.owned.gemma4 import Gemma4
from mmload.processors.owned.media import Frame, Unusual, image_frame, video_frames
from mmload.processors.owned.patchify import Patcher, TablePatcher
from mmload.processors.owned.pixels import Pixels, pixels_of
from mmload.processors.owned.qwen3vl import Qwen3VL
from mmload.processors.owned.resize import stays_in_bounds
from mmload.processors.owned.threads import Threads
from mmload.processors.owned.tools import Tools
from mmload.processors.stock import StockProcessor

# the core of a family, and the function of stock's module that decides sizes
_CORES: Final[Mapping[str, tuple[Callable[..., Any], str]]] = {
    "qwen3-vl": (Qwen3VL, "smart_resize"),
    "gemma-4": (Gemma4, "get_aspect_ratio_preserving_size"),
}


class OwnedCore(Protocol):
    """Raises `Unusual` where it is stock's turn."""

    tools: Tools

    def images(self, images: Sequence[Frame]) -> Processed: ...

    def videos(self, videos: Sequence[Sequence[Frame]]) -> Processed: ...


class OwnedProcessor:
    """`stock` with owned cores where they are validated.

    `core`: "numba" (compiled; raises UsageError when Numba is missing), "torch" (nothing compiled),
    "auto" (the faster one there is). `threads`: most for one call, one a usable CPU when None.
    `image_core` and `video_core` are None where nothing is validated, for the reason that
    `image_refusal` and `video_refusal` give.
    """

    name: Which = "owned"

    def __init__(
        self, stock: StockProcessor, *, core: Core = "auto", threads: int | None = None
    ) -> None:
        if threads is not None and threads < 1:
            raise UsageError(f"threads {threads}", "at least 1")
        self.stock = stock
        self.family = stock.family
        self.counts = Counts()
        self._core = core
        self._buffers = Buffers()
        self._threads = Threads(threads)
        self.image_core, self.image_refusal = self._prepare(stock.image, video=False)
        self.video_core, self.video_refusal = self._prepare(stock.video, video=True)

    def images(self, images: Sequence[Any]) -> Processed:
        def owned() -> Processed:
            if not images:
                raise Unusual("no images")
            return _validated(self.image_core, self.image_refusal).images(
                [image_frame(image) for image in images]
            )

        return self._either(owned, lambda: self.stock.process_images(images))

    def videos(
        self,
        videos: Sequence[Any],
        *,
        do_sample_frames: bool = False,
        metadata: Sequence[Mapping[str, Any]] | None = None,
    ) -> Processed:
        def owned() -> Processed:
            if do_sample_frames:
                raise Unusual("frames are sampled")
            if len(videos) == 0:
                raise Unusual("no videos")
            return _validated(self.video_core, self.video_refusal).videos(video_frames(videos))

        return self._either(
            owned, lambda: self.stock.process_videos(videos, do_sample_frames, metadata)
        )

    def describe(self) -> dict[str, Any]:
        return {
            **self.stock.describe(),
            "processor": self.name,
            "threads": self._threads.most,
            "buffers": self._buffers.describe(),
            "image_core": self.image_refusal or "validated",
            "video_core": self.video_refusal or "validated",
            "calls": self.counts.cores,
            "fallbacks": self.counts.fallbacks,
        }

    def _either(self, owned: Callable[[], Processed], stock: Callable[[], Processed]) -> Processed:
        try:
            processed = owned()
        except Unusual as reason:
            processed = stock()._replace(fallback=str(reason))
        self.counts.add(processed)
        return processed

    def _prepare(self, stock: Any, video: bool) -> tuple[OwnedCore | None, str]:
        """The core for one of stock's instances, or why there is none."""
        reason = validated.refusal(stock)
        if reason:
            return None, reason
        if not stays_in_bounds():
            return None, "this torch's resize writes out of bounds"
        make, size_rule = _CORES[self.family]
        rule = getattr(sys.modules[type(stock).__module__], size_rule, None)
        if rule is None:
            return None, f"stock has no {size_rule}"
        tools = Tools(self._patcher(stock), self._buffers, self._threads)
        core: OwnedCore = make(stock, rule, tools)
        if video:
            reason = validated.mismatch(
                lambda media: self.stock.process_videos([media], False, None),
                lambda media: core.videos(video_frames([media])),
                video,
            )
        else:
            reason = validated.mismatch(
                lambda media: self.stock.process_images([media]),
                lambda media: core.images([image_frame(media)]),
                video,
            )
        return (None, f"self-check: {reason}") if reason else (core, "")

    def _patcher(self, stock: Any) -> Patcher:
        pixels = pixels_of(stock)
        if self._core == "torch":
            return TablePatcher(pixels, self._buffers)
        fused = _fused(pixels, stock)
        if fused is None and self._core == "numba":
            raise UsageError(
                "the numba core needs Numba, 16-pixel patches and steps of two frames",
                "pip install 'mmload[fast]'",
            )
        return fused or TablePatcher(pixels, self._buffers)


def _fused(pixels: Pixels, stock: Any) -> Patcher | None:
    """The compiled patcher, if Numba is there and the configuration is what it is made for."""
    try:
        from mmload.processors.owned import fused_numba
    except (ImportError, RuntimeError):  # RuntimeError: nowhere to keep what it compiles
        return None
    steps = getattr(stock, "temporal_patch_size", fused_numba.STEP)
    if (stock.patch_size, steps) != (fused_numba.PATCH, fused_numba.STEP):
        return None
    fused = fused_numba.FusedPatcher(pixels)
    return fused if fused.reproduces(pixels.table) else None


def _validated(core: OwnedCore | None, refusal: str) -> OwnedCore:
    if core is None:
        raise Unusual(refusal)
    return core
