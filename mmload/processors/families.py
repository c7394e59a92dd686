"""Prompt tokens that model families make of an image or a video, by their published processors.

In: sizes in pixels and frames. Out: `Cost`, the placeholder tokens (one a merged patch or soft
token) and the least and most tokens that the template writes around them: begin and end marks, and
timestamps, whose length depends on the tokenizer. Pure arithmetic; never asks a server. Servers
start the same model with other limits, so a family has `variants`, the published one first.

Sources, read in transformers 5.24 (`models/`):
- Qwen2-VL and Qwen2.5-VL: `smart_resize` of `qwen2_vl/image_processing_qwen2_vl.py` and
  `qwen2_vl/video_processing_qwen2_vl.py` (a video's frames are each limited as images are), limits
  of the checkpoints' preprocessor_config.json: 3,136 and 12,845,056 pixels; no timestamps;
- Qwen3-VL, also Qwen3.5 and 3.6, whose processor it is: `arithmetic.py` beside this file, and
  `qwen3_vl/processing_qwen3_vl.py` (`<12.5 seconds>` and two marks for each pair of frames);
- Gemma 3: `gemma3/processing_gemma3.py`, 256 soft tokens an image whatever its size, pan and scan
  off; `gemma3/image_processing_gemma3.py` for the crops when it is on; no videos;
- Gemma 4: `gemma4/image_processing_gemma4.py`, 280 soft tokens at most;
  `gemma4/video_processing_gemma4.py`, 70 a frame; `gemma4/processing_gemma4.py` (`00:01`, a begin
  and an end mark for each frame).
"""

import math
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from mmload.processors.arithmetic import (
    FACTOR,
    TEMPORAL,
    VIDEO_LIMITS,
    Limits,
    image_grid,
    video_grid,
)


class Cost(NamedTuple):
    """Tokens of one medium: `media` placeholders, and `least` to `most` tokens around them."""

    media: int
    least: int
    most: int


class Variant(NamedTuple):
    """One way in which servers run a family. Functions raise ValueError for refused media.

    `image(height, width)`; `video(frames, height, width)`, None when the family has no videos.
    """

    words: str
    image: Callable[[int, int], Cost]
    video: Callable[[int, int, int], Cost] | None


class Family(NamedTuple):
    """`key` is what `--model-family` takes; `names` finds the family in a model's name."""

    key: str
    title: str
    names: re.Pattern[str]
    variants: tuple[Variant, ...]


MARKS: Final = 2  # begin and end of vision
MARKS_MOST: Final = 6  # templates and servers put line breaks beside them
TIMESTAMP_MOST: Final = 9  # `<1234.5 seconds>` with a token a digit; six for `<0.2 seconds>`
QWEN2_FACTOR: Final = 28
QWEN2_LIMITS: Final = Limits(56 * 56, 16_384 * 28 * 28)
# qwen-vl-utils' limits, for servers that apply them to video: tokens a frame, and in all
FRAME_TOKENS: Final = Limits(128, 768)
VIDEO_TOKENS: Final = 115_200  # 0.9 of a context of 128,000
GEMMA3_IMAGE: Final = 256
GEMMA4_IMAGE: Final = 280
GEMMA4_FRAME: Final = 70
GEMMA4_BUDGETS: Final = (70, 140, 280, 560, 1120)  # values of `max_soft_tokens` that it accepts
_PATCH, _POOL = 16, 3


# -- Qwen2-VL, Qwen2.5-VL ----------------------------------------------------------------------


def _qwen2_tokens(height: int, width: int, limits: Limits = QWEN2_LIMITS) -> int:
    """`smart_resize` to multiples of 28 pixels; a token is 28 x 28."""
    if max(height, width) / min(height, width) > 200:
        raise ValueError(f"a picture of {width}x{height} pixels")
    f = QWEN2_FACTOR
    h, w = round(height / f) * f, round(width / f) * f  # half to even, as the source does
    if h * w > limits.max_pixels:
        beta = math.sqrt(height * width / limits.max_pixels)
        h = max(f, math.floor(height / beta / f) * f)
        w = max(f, math.floor(width / beta / f) * f)
    elif h * w < limits.min_pixels:
        beta = math.sqrt(limits.min_pixels / (height * width))
        h, w = math.ceil(height * beta / f) * f, math.ceil(width * beta / f) * f
    return (h // f) * (w // f)


def _pairs(frames: int) -> int:
    """Temporal patches: two frames each, an odd last frame is repeated."""
    return math.ceil(frames / TEMPORAL)


def _qwen2_image(height: int, width: int) -> Cost:
    return Cost(_qwen2_tokens(height, width), MARKS, MARKS_MOST)


def _qwen2_video(frames: int, height: int, width: int) -> Cost:
    return Cost(_pairs(frames) * _qwen2_tokens(height, width), MARKS, MARKS_MOST)


def _qwen2_video_capped(frames: int, height: int, width: int) -> Cost:
    area = QWEN2_FACTOR * QWEN2_FACTOR
    least = FRAME_TOKENS.min_pixels * area
    share = VIDEO_TOKENS * area * TEMPORAL // frames
    most = max(min(FRAME_TOKENS.max_pixels * area, share), int(least * 1.05))
    tokens = _pairs(frames) * _qwen2_tokens(height, width, Limits(least, most))
    return Cost(tokens, MARKS, MARKS_MOST)


# -- Qwen3-VL ----------------------------------------------------------------------------------


def _qwen3_image(height: int, width: int) -> Cost:
    return Cost(image_grid(height, width).tokens, MARKS, MARKS_MOST)


def _qwen3_video(frames: int, height: int, width: int, limits: Limits = VIDEO_LIMITS) -> Cost:
    grid = video_grid(frames, height, width, limits)
    # The template's own marks stay or go with the version; servers may leave timestamps out.
    return Cost(grid.tokens, MARKS, MARKS_MOST + grid.t * (MARKS + TIMESTAMP_MOST))


def _qwen3_video_capped(frames: int, height: int, width: int) -> Cost:
    cap = FRAME_TOKENS.max_pixels * FACTOR * FACTOR
    least = VIDEO_LIMITS.min_pixels
    a_frame = max(min(cap, VIDEO_LIMITS.max_pixels // frames), int(least * 1.05))
    return _qwen3_video(frames, height, width, Limits(least, a_frame * frames))


# -- Gemma -------------------------------------------------------------------------------------

_GEMMA3_CROPS_MOST: Final = 24  # "Here is the original image ... crops to help you see better"


def _gemma3_image(_height: int, _width: int) -> Cost:
    return Cost(GEMMA3_IMAGE, MARKS, MARKS_MOST)


def _gemma3_scanned(height: int, width: int) -> Cost:
    """Pan and scan with its usual settings: ratio from 1.2, at most 4 crops of 256 or more."""
    long, short = max(height, width), min(height, width)
    crops = min(4, max(2, min(long // 256, math.floor(long / short + 0.5))))
    if long / short < 1.2 or min(math.ceil(long / crops), short) < 256:
        return _gemma3_image(height, width)
    pictures = 1 + crops
    most = pictures * MARKS_MOST + _GEMMA3_CROPS_MOST
    return Cost(pictures * GEMMA3_IMAGE, pictures * MARKS, most)


def _gemma4_tokens(height: int, width: int, budget: int) -> int:
    """The largest multiple of 48 pixels a side that keeps the aspect within `budget` tokens."""
    side = _PATCH * _POOL
    scale = math.sqrt(budget * side * side / (height * width))
    h, w = math.floor(scale * height / side), math.floor(scale * width / side)
    if not h:  # never both: their product is about `budget`
        h, w = 1, min(width // height, budget)
    elif not w:
        h, w = min(height // width, budget), 1
    return h * w


_GEMMA4_STAMP_MOST: Final = 7  # `00:01` with a token a digit, and the blanks around it


def _gemma4(image_budget: int, frame_budget: int, words: str) -> Variant:
    def image(height: int, width: int) -> Cost:
        return Cost(_gemma4_tokens(height, width, image_budget), MARKS, MARKS_MOST)

    def video(frames: int, height: int, width: int) -> Cost:
        tokens = frames * _gemma4_tokens(height, width, frame_budget)
        return Cost(tokens, frames * MARKS, frames * (MARKS + _GEMMA4_STAMP_MOST))

    return Variant(words, image, video)


# -- all of them -------------------------------------------------------------------------------

PUBLISHED: Final = "the published limits"
_CAPPED: Final = "at most 768 tokens for each two frames, as qwen-vl-utils has it"


def _name(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![a-z0-9]){pattern}", re.IGNORECASE)


_QWEN2: Final = (
    Variant(PUBLISHED, _qwen2_image, _qwen2_video),
    Variant(_CAPPED, _qwen2_image, _qwen2_video_capped),
)

FAMILIES: Final = (
    Family("qwen2-vl", "Qwen2-VL", _name(r"qwen[-_]?2[-_]?vl"), _QWEN2),
    Family("qwen2.5-vl", "Qwen2.5-VL", _name(r"qwen[-_]?2[._]?5[-_]?vl"), _QWEN2),
    Family(
        "qwen3-vl",
        "Qwen3-VL",
        _name(r"(?:qwen[-_]?3[-_]?vl|qwen[-_]?3[._][56](?![0-9])|mmload-embedded)"),
        (
            Variant(PUBLISHED, _qwen3_image, _qwen3_video),
            Variant(_CAPPED, _qwen3_image, _qwen3_video_capped),
        ),
    ),
    Family(
        "gemma-3",
        "Gemma 3",
        _name(r"gemma[-_]?3(?![0-9n])"),
        (
            Variant(PUBLISHED, _gemma3_image, None),
            Variant("pan and scan", _gemma3_scanned, None),
        ),
    ),
    Family(
        "gemma-4",
        "Gemma 4",
        _name(r"gemma[-_]?4(?![0-9])"),
        (
            _gemma4(GEMMA4_IMAGE, GEMMA4_FRAME, PUBLISHED),
            *(_gemma4(budget, budget, f"max_soft_tokens {budget}") for budget in GEMMA4_BUDGETS),
        ),
    ),
)
FAMILY: Final = {family.key: family for family in FAMILIES}


def guess(model: str) -> Family | None:
    """The family that a model's name speaks of, such as "Qwen/Qwen3-VL-8B-Instruct"; or None."""
    return next((family for family in FAMILIES if family.names.search(model)), None)
