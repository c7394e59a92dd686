"""Pictures and clips for the gate: the same bytes every time, in every form that callers use.

In: a `Medium`, which says everything, and a seed. Out: what a processor takes. Content is `noise`
(every value anywhere: the hardest for the rounding of a resize), `smooth` (slopes and waves, as in
photographs) or `checker` (black and white by pixel: the resize overshoots and is clamped). Frames
of a clip differ, so that a frame in the wrong place is a difference.

torch and Pillow are imported when a medium needs them.
"""

import zlib
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Content = Literal["noise", "smooth", "checker"]
Pixels = NDArray[Any]

FRAMES: Final = " frames"  # at a form's end: a list of frames instead of one array


class Medium(NamedTuple):
    """`frames` is None for an image. `form` is a key of `FORMS`, with " frames" for a list.

    `mode`: for arrays "RGB", "RGBA", "L" (one channel) or "HW" (no axis of channels); for "pil" any
    of Pillow's.
    """

    width: int
    height: int
    frames: int | None = None
    form: str = "numpy"
    mode: str = "RGB"
    content: Content = "noise"

    @property
    def words(self) -> str:
        clip = "" if self.frames is None else f" x {self.frames}"
        usual = {"RGB", "noise", "numpy"}
        rest = [word for word in (self.form, self.mode, self.content) if word not in usual]
        return " ".join([f"{self.width}x{self.height}{clip}", *rest])


def _first(pixels: Pixels) -> Pixels:
    return np.ascontiguousarray(np.moveaxis(pixels, -1, -3))


def _view(pixels: Pixels) -> Pixels:
    """A crop: rows are apart in memory."""
    margin = [(0, 0)] * (pixels.ndim - 3) + [(1, 2), (3, 1), (0, 0)]
    return np.pad(pixels, margin, mode="reflect" if min(pixels.shape[-3:-1]) > 3 else "edge")[
        ..., 1:-2, 3:-1, :
    ]


def _read_only(pixels: Pixels) -> Pixels:
    pixels.flags.writeable = False
    return pixels


def _torch(pixels: Pixels) -> Any:
    import torch

    return torch.from_numpy(pixels)


def _image(pixels: Pixels) -> Any:
    from PIL import Image

    return Image.fromarray(pixels)


FORMS: Final[dict[str, Callable[[Pixels], Any]]] = {
    "numpy": lambda pixels: pixels,
    "numpy first": _first,
    "numpy view": _view,
    "numpy read-only": _read_only,
    "numpy float": lambda pixels: (pixels / 255).astype(np.float32),
    "torch": _torch,
    "torch first": lambda pixels: _torch(_first(pixels)),
    "torch permuted": lambda pixels: _torch(pixels).movedim(-1, -3),  # first by shape alone
    "torch view": lambda pixels: _torch(_view(pixels)),
    "pil": _image,
}


def make(medium: Medium, seed: int) -> Any:
    """An image, or a clip as one array or tensor or as a list of frames."""
    pixels: Pixels = _content(medium, np.random.default_rng(seed))
    form = FORMS[medium.form.removesuffix(FRAMES)]
    if form is _image:
        made = [_image(frame).convert(medium.mode) for frame in pixels]
        return made[0] if medium.frames is None else made
    pixels = _in_mode(pixels, medium.mode)
    if medium.frames is None:
        return form(pixels[0])
    return list(map(form, pixels)) if medium.form.endswith(FRAMES) else form(pixels)


def fingerprint(media: Iterable[Any]) -> int:
    """A checksum of all pixels: a processor must leave what it was given as it was."""
    total = 0
    for medium in media:
        for part in medium if isinstance(medium, list) else [medium]:
            total = zlib.crc32(np.ascontiguousarray(np.asarray(part)).tobytes(), total)
    return total


def _content(medium: Medium, random: np.random.Generator) -> NDArray[np.uint8]:
    """uint8 (frames, height, width, 3)"""
    frames, height, width = medium.frames or 1, medium.height, medium.width
    if medium.content == "noise":
        return random.integers(0, 256, (frames, height, width, 3), np.uint8)
    t = np.arange(frames).reshape(-1, 1, 1, 1)
    y = np.arange(height).reshape(1, -1, 1, 1)
    x = np.arange(width).reshape(1, 1, -1, 1)
    colour = np.arange(3)
    if medium.content == "checker":
        return ((x + y + t + colour) % 2 * 255).astype(np.uint8)
    waves = np.sin((x + 5 * t) / (17 + 4 * colour)) + np.cos((y - 3 * t) / (23 + 6 * colour))
    slope = (x + y) / (width + height)
    bright: Pixels = np.clip(48 + 96 * slope + 52 * waves, 0, 255)
    return bright.astype(np.uint8)


def _in_mode(pixels: Pixels, mode: str) -> Pixels:
    if mode == "RGBA":
        alpha = pixels[..., ::-1, :1]  # anything from transparent to opaque
        return np.concatenate([pixels, alpha], axis=-1)
    if mode == "L":
        return np.ascontiguousarray(pixels[..., :1])
    return np.ascontiguousarray(pixels[..., 0]) if mode == "HW" else pixels
