"""How many patches and placeholder tokens Qwen3-VL makes of an image or a video: pure arithmetic.

A picture is resized to multiples of 32 pixels (16-pixel patches, merged 2 by 2) within limits on
its area; a video's limits are on frames x height x width, and two frames make one temporal patch.
Each merged patch is one placeholder token in the prompt.

Source: transformers 5.24, `smart_resize` in `models/qwen2_vl/image_processing_qwen2_vl.py` (images)
and in `models/qwen3_vl/video_processing_qwen3_vl.py` (videos). The limits are those of published
checkpoints' preprocessor configurations, not the smaller defaults of the classes.
"""

import math
from typing import Final, Literal, NamedTuple

MediaKind = Literal["image", "video"]

PATCH: Final = 16  # pixels
MERGE: Final = 2  # patches a side that become one token
TEMPORAL: Final = 2  # frames a patch
FACTOR: Final = PATCH * MERGE
MAX_ASPECT: Final = 200


class Limits(NamedTuple):
    """Least and most pixels after resizing (of all frames together for a video)."""

    min_pixels: int  # `shortest_edge` in the configuration
    max_pixels: int  # `longest_edge`


IMAGE_LIMITS: Final = Limits(65_536, 16_777_216)
VIDEO_LIMITS: Final = Limits(4_096, 25_165_824)


class Grid(NamedTuple):
    """Patches in time, down and across: the processor's `grid_thw`."""

    t: int
    h: int
    w: int

    @property
    def patches(self) -> int:
        return self.t * self.h * self.w

    @property
    def tokens(self) -> int:
        """Placeholders in the prompt: one a merged patch."""
        return self.patches // (MERGE * MERGE)

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) in pixels of a resized frame."""
        return self.h * PATCH, self.w * PATCH


def image_grid(height: int, width: int, limits: Limits = IMAGE_LIMITS) -> Grid:
    """Raises ValueError when one side is over 200 times the other, or nothing."""
    _check_aspect(height, width)
    h, w = _rounded(height), _rounded(width)
    h, w = _within(h, w, h * w, height, width, height * width, limits)
    return Grid(1, h // PATCH, w // PATCH)


def video_grid(frames: int, height: int, width: int, limits: Limits = VIDEO_LIMITS) -> Grid:
    """Raises ValueError for under 2 frames, or one side over 200 times the other."""
    if frames < TEMPORAL:
        raise ValueError(f"a video needs at least {TEMPORAL} frames, this one has {frames}")
    _check_aspect(height, width)
    if height < FACTOR or width < FACTOR:
        scale = max(FACTOR / height, FACTOR / width)
        height, width = int(height * scale), int(width * scale)
        _check_aspect(height, width)
    h, w = _rounded(height), _rounded(width)
    area = round(frames / TEMPORAL) * TEMPORAL * h * w
    h, w = _within(h, w, area, height, width, frames * height * width, limits)
    return Grid(math.ceil(frames / TEMPORAL), h // PATCH, w // PATCH)


def grid_of(kind: MediaKind, frames: int, height: int, width: int) -> Grid:
    """The grid of an image (`frames` is ignored) or of a video with all its frames kept."""
    return image_grid(height, width) if kind == "image" else video_grid(frames, height, width)


def count_tokens(kind: MediaKind, frames: int, height: int, width: int) -> int:
    """Placeholder tokens: 15 frames of 854x480 make 8 x 30 x 54 patches, so 3,240 tokens."""
    return grid_of(kind, frames, height, width).tokens


def _rounded(side: int) -> int:
    return round(side / FACTOR) * FACTOR  # half to even, as the source does


def _check_aspect(height: int, width: int) -> None:
    if min(height, width) < 1:
        raise ValueError(f"a picture of {width}x{height} pixels")
    if max(height, width) / min(height, width) > MAX_ASPECT:
        raise ValueError(
            f"a picture of {width}x{height} pixels: one side may be {MAX_ASPECT} times the other"
        )


def _within(
    h: int, w: int, area: int, height: int, width: int, pixels: int, limits: Limits
) -> tuple[int, int]:
    """(h, w) scaled until the area fits. `area` is after rounding, `pixels` before."""
    if area > limits.max_pixels:
        beta = math.sqrt(pixels / limits.max_pixels)
        h = max(FACTOR, math.floor(height / beta / FACTOR) * FACTOR)
        w = max(FACTOR, math.floor(width / beta / FACTOR) * FACTOR)
    elif area < limits.min_pixels:
        beta = math.sqrt(limits.min_pixels / pixels)
        h = math.ceil(height * beta / FACTOR) * FACTOR
        w = math.ceil(width * beta / FACTOR) * FACTOR
    return h, w
