"""What every multimodal processor of mmload can do, stock or owned: the interface, and `load`.

In: decoded media. An image is a uint8 numpy array or torch tensor, (height, width, 3) or
(3, height, width), or a PIL image; a video is a list of such frames, or one array or tensor,
(frames, height, width, 3) or (frames, 3, height, width). Out: `Processed`, whose tensors have the
names, shapes, dtypes and values of the stock processor of transformers with `return_tensors="pt"`.

No import of torch or transformers at the top: naming the interface costs nothing, and only `load`
needs the extra `[hf]`. Never reads from a network.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, Literal, NamedTuple, Protocol

from mmload.errors import UsageError

Which = Literal["stock", "owned"]
Core = Literal["auto", "torch", "numba"]
Preset = Literal["hub", "class"]

FAMILIES = ("qwen3-vl", "gemma-4")  # keys of `families.FAMILY`
EXTRA = "pip install 'mmload[hf]'"


class Processed(NamedTuple):
    """One call's output, all media of the call together, in their order.

    `tensors`: Qwen3-VL's `pixel_values` and `image_grid_thw`, or `pixel_values_videos` and
    `video_grid_thw`; Gemma 4's `pixel_values`, `image_position_ids`, `num_soft_tokens_per_image`,
    or `pixel_values_videos`, `video_position_ids`, `num_frames_per_video`,
    `num_soft_tokens_per_video`. The memory of an owned core's tensors is used again once the last
    tensor on it is gone, so a consumer that keeps them keeps the memory.
    """

    tensors: dict[str, Any]
    grids: list[tuple[int, int, int]]  # patches in time (Gemma: frames), down and across
    tokens: list[int]  # placeholder tokens in the prompt, one number a medium
    core: str  # who made it: "stock", "owned (numba)", "owned (torch)"
    fallback: str = ""  # why it was stock's turn, when an owned processor was asked


class Counts:
    """How many calls which core served, and why stock had to. Any thread may count."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._cores: Counter[str] = Counter()
        self._fallbacks: Counter[str] = Counter()

    def add(self, processed: Processed) -> None:
        with self._lock:
            self._cores[processed.core] += 1
            if processed.fallback:
                self._fallbacks[processed.fallback] += 1

    @property
    def cores(self) -> dict[str, int]:
        """Calls by `Processed.core`."""
        with self._lock:
            return dict(self._cores)

    @property
    def fallbacks(self) -> dict[str, int]:
        """Calls of an owned processor that stock served, by reason."""
        with self._lock:
            return dict(self._fallbacks)


class MediaProcessor(Protocol):
    """Any number of threads may call one processor at once.

    Media that the stock processor refuses raise what it raises (ValueError mostly).
    """

    @property
    def name(self) -> Which: ...

    @property
    def family(self) -> str: ...

    @property
    def counts(self) -> Counts: ...

    def images(self, images: Sequence[Any]) -> Processed: ...

    def videos(
        self,
        videos: Sequence[Any],
        *,
        do_sample_frames: bool = False,
        metadata: Sequence[Mapping[str, Any]] | None = None,
    ) -> Processed:
        """`metadata`: one mapping a video (`fps`, `total_num_frames`, ...), for sampling only."""
        ...

    def describe(self) -> dict[str, Any]:
        """Versions, configuration, threads and what the self-check said; for run records."""
        ...


def load(
    which: Which,
    family: str,
    *,
    image: Mapping[str, Any] | None = None,
    video: Mapping[str, Any] | None = None,
    preset: Preset = "hub",
    core: Core = "auto",
    threads: int | None = None,
) -> MediaProcessor:
    """Builds a processor, without any network.

    `preset`: "hub", the values of published checkpoints, or "class", transformers' own defaults.
    `image`, `video`: what differs from it, in transformers' names (`size`, `patch_size`,
    `merge_size`, `image_mean`, `image_std`, `max_soft_tokens`, ...). `core` and `threads` (most
    threads a call, one a usable CPU when None) are for the owned one. Raises UsageError for an
    unknown family or value, and when the extra `[hf]` is not installed.
    """
    if family not in FAMILIES:
        raise UsageError(f"processor family {family!r}", f"one of {', '.join(FAMILIES)}")
    try:
        from mmload.processors.stock import StockProcessor
    except ImportError as error:
        raise UsageError(f"the {which} processors need transformers: {error}", EXTRA) from error
    stock = StockProcessor.build(family, preset, image or {}, video or {})
    if which == "stock":
        return stock
    from mmload.processors.owned import OwnedProcessor

    return OwnedProcessor(stock, core=core, threads=threads)
