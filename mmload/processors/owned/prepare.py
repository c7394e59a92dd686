"""The owned core for one instance of stock's: chosen, checked against it, or refused with a reason.

In: a stock processor, which of its two instances is meant, and the memory and threads that cores
share. Out: a core that gave what that instance gives, bit for bit, on a few shapes; or why there is
none.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

from mmload.errors import UsageError
from mmload.processors.base import Core, Processed
from mmload.processors.owned import validated
from mmload.processors.owned.buffers import Buffers
from mmload.processors.owned.gemma4 import Gemma4
from mmload.processors.owned.media import Frame, Unusual, image_frame, video_frames
from mmload.processors.owned.patchify import BytesPatcher, Patcher, TablePatcher
from mmload.processors.owned.pixels import BYTES, Pixels, pixels_of
from mmload.processors.owned.qwen3vl import Qwen3VL
from mmload.processors.owned.resize import stays_in_bounds
from mmload.processors.owned.threads import Threads
from mmload.processors.owned.tools import Tools
from mmload.processors.stock import StockProcessor

Kind = Literal["image", "video"]

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


def prepare(
    stock: StockProcessor, kind: Kind, core: Core, buffers: Buffers, threads: Threads
) -> tuple[OwnedCore | None, str]:
    """The core for `stock.image` or `stock.video`, or why there is none.

    Raises UsageError when `core` is "numba" and that cannot be had.
    """
    instance = stock.image if kind == "image" else stock.video
    reason = validated.refusal(instance)
    if reason:
        return None, reason
    if not stays_in_bounds():
        return None, "this torch's resize writes out of bounds"
    make, size_rule = _CORES[stock.family]
    rule = getattr(sys.modules[type(instance).__module__], size_rule, None)
    if rule is None:
        return None, f"stock has no {size_rule}"
    made: OwnedCore = make(
        instance, rule, Tools(_patcher(instance, core, buffers), buffers, threads)
    )
    if kind == "video":
        reason = validated.mismatch(
            lambda media: stock.process_videos([media], False, None),
            lambda media: made.videos(video_frames([media])),
            True,
        )
    else:
        reason = validated.mismatch(
            lambda media: stock.process_images([media]),
            lambda media: made.images([image_frame(media)]),
            False,
        )
    return (None, f"self-check: {reason}") if reason else (made, "")


def validated_core(core: OwnedCore | None, refusal: str) -> OwnedCore:
    """The core. Raises `Unusual` where there is none."""
    if core is None:
        raise Unusual(refusal)
    return core


def _patcher(instance: Any, core: Core, buffers: Buffers) -> Patcher:
    pixels = None if validated.raw(instance) else pixels_of(instance)
    plain = TablePatcher(pixels, buffers) if pixels else BytesPatcher(buffers)
    if core == "torch":
        return plain
    fused = _fused(pixels, instance)
    if fused is None and core == "numba":
        raise UsageError(
            "the numba core needs Numba, 16-pixel patches and steps of two frames",
            "pip install 'mmload[fast]'",
        )
    return fused or plain


def _fused(pixels: Pixels | None, instance: Any) -> Patcher | None:
    """The compiled patcher, if Numba is there and the configuration is what it is made for."""
    try:
        from mmload.processors.owned import fused_numba
    except (ImportError, RuntimeError):  # RuntimeError: nowhere to keep what it compiles
        return None
    steps = getattr(instance, "temporal_patch_size", fused_numba.STEP)
    if (instance.patch_size, steps) != (fused_numba.PATCH, fused_numba.STEP):
        return None
    fused = fused_numba.FusedPatcher(pixels)
    return fused if fused.reproduces(pixels.table if pixels else BYTES) else None
