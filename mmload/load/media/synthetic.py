"""Photograph-like pictures and clips out of a seed; the media of a run that names no files.

Goes in: a random generator and a size in pixels. Comes out: pixels for an encoder. At JPEG quality
85 a picture takes 0.1 to 0.3 bytes a pixel, as photographs do; a clip has real motion (a camera
that pans, zooms and tilts, leaves that sway, things that cross) and little noise, so that an
encoder spends on it what it spends on footage. The same seed gives the same pixels under the same
numpy and OpenCV. This must never read a clock, a file or a global random state.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mmload.errors import UsageError
from mmload.load.media.opencv import Pixels, Plane, cv2
from mmload.load.media.scenery import SUBPIXEL, outline, render

SENSOR_NOISE: Final = 1.3  # standard deviation, in steps of 0..255, the same in all three colours
CLIP_NOISE: Final = 2.2  # a video sensor has more
CANVAS: Final = 1.4  # a clip's scene is this much wider and higher than its frame
TILE_SLACK: Final = 16  # a clip's noise is one tile, shifted by up to this for each frame


def seeded(*numbers: int) -> np.random.Generator:
    """A generator that depends on these whole numbers (0 or more) and their order alone."""
    # How many there are goes in too: alone, (7,) and (7, 0) would be one seed.
    seed = np.random.SeedSequence((len(numbers), *numbers))
    return np.random.Generator(np.random.PCG64(seed))


def image_pixels(rng: np.random.Generator, width: int, height: int) -> Pixels:
    """One picture: `height` x `width` x 3 bytes, blue, green, red. UsageError below 1 x 1."""
    _check_size(width, height)
    scene = render(rng, width, height, reach=min(width, height))
    scene += _noise(rng, width, height, SENSOR_NOISE)
    return _bytes(scene)


def video_frames(rng: np.random.Generator, width: int, height: int, frames: int) -> list[Pixels]:
    """A clip of `frames` pictures, each as `image_pixels` gives them."""
    return list(islice(footage(rng, width, height), frames))


def footage(rng: np.random.Generator, width: int, height: int) -> Iterator[Pixels]:
    """An endless clip, picture by picture.

    The camera moves on a closed path, so a clip of any length stays within its scene; about 1 % of
    the width a frame.
    """
    _check_size(width, height)
    camera = _Camera.placed(rng, width, height)
    travellers = [_Traveller.placed(rng, width, height) for _ in range(2)]
    noise = _noise(rng, width + TILE_SLACK, height + TILE_SLACK, CLIP_NOISE)
    flicker = rng.uniform(0, 2 * np.pi)
    for number in count():
        frame = camera.frame(number)
        for traveller in travellers:
            frame = traveller.over(frame, number)
        x, y = rng.integers(0, TILE_SLACK, 2)
        exposure = np.float32(6 * np.sin(0.5 * number + flicker))
        light = noise[y : y + height, x : x + width] + exposure
        yield _pixels(cv2.add(frame, light, dtype=cv2.CV_8U))


@dataclass(frozen=True, slots=True)
class _Camera:
    """Cuts frames from a canvas: panning, zooming and tilting, while the scene sways a little."""

    canvas: Pixels
    x: Plane  # of each pixel of a frame, from the frame's centre
    y: Plane
    pan_rate: tuple[float, float]  # radians a frame
    phase: tuple[float, float]

    @classmethod
    def placed(cls, rng: np.random.Generator, width: int, height: int) -> "_Camera":
        canvas = _bytes(
            render(rng, round(width * CANVAS), round(height * CANVAS), reach=min(width, height))
        )
        x, y = np.meshgrid(
            np.arange(width, dtype=np.float32) - np.float32((width - 1) / 2),
            np.arange(height, dtype=np.float32) - np.float32((height - 1) / 2),
        )
        rate = 0.015 / (0.35 * (CANVAS - 1))  # fastest at 1.5 % of the width a frame
        ratio, phase_x, phase_y = rng.uniform(0.5, 1.1), *rng.uniform(0, 2 * np.pi, 2)
        return cls(canvas, x, y, (rate, rate * ratio), (phase_x, phase_y))

    def frame(self, number: int) -> Pixels:
        height, width = self.x.shape
        rows, columns = self.canvas.shape[:2]
        turn_x = self.pan_rate[0] * number + self.phase[0]
        turn_y = self.pan_rate[1] * number + self.phase[1]
        zoom = 1 + 0.08 * np.sin(0.11 * number + self.phase[0])
        tilt = 0.03 * np.sin(0.2 * number + self.phase[1])
        cos, sin = np.float32(np.cos(tilt) / zoom), np.float32(np.sin(tilt) / zoom)
        centre_x = (columns - 1) / 2 + 0.35 * (columns - width) * np.sin(turn_x)
        centre_y = (rows - 1) / 2 + 0.35 * (rows - height) * np.sin(turn_y)
        x = cos * self.x - sin * self.y + np.float32(centre_x)
        y = sin * self.x + cos * self.y + np.float32(centre_y)
        reach = min(width, height)
        sway = np.float32(0.014 * reach)
        wave = np.float32(1 / reach)
        x += sway * np.sin(wave * (11 * self.x + 7 * self.y) + np.float32(0.8 * number))
        y += sway * np.sin(wave * (9 * self.x - 13 * self.y) + np.float32(0.6 * number))
        return _pixels(cv2.remap(self.canvas, x, y, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT))


@dataclass(frozen=True, slots=True)
class _Traveller:
    """A thing that crosses the frame on its own way, turning; it comes back at the edges."""

    picture: Pixels
    mask: Pixels
    start: tuple[float, float]
    step: tuple[float, float]  # pixels a frame
    spin: float  # degrees a frame

    @classmethod
    def placed(cls, rng: np.random.Generator, width: int, height: int) -> "_Traveller":
        reach = min(width, height)
        side = max(2, round(reach * rng.uniform(0.25, 0.5)))
        picture = _bytes(render(rng, side, side, reach=reach))
        mask = np.zeros((side, side), np.uint8)
        edge = np.rint(outline(rng, side / 2, side / 2, 0.36 * side) * (1 << SUBPIXEL)).astype(
            np.int32
        )
        cv2.fillPoly(mask, [edge], 255, cv2.LINE_AA, SUBPIXEL)
        start = (rng.uniform(0.1, 0.9) * width, rng.uniform(0.2, 0.9) * height)
        forward = rng.choice((-1, 1)) * rng.uniform(0.012, 0.022) * width
        step = (float(forward), rng.uniform(-0.008, 0.008) * height)
        return cls(picture, mask, start, step, float(rng.uniform(-4, 4)))

    def over(self, frame: Pixels, number: int) -> Pixels:
        """The frame with this thing in front of it."""
        height, width = frame.shape[:2]
        side = self.mask.shape[0]
        move = cv2.getRotationMatrix2D((side / 2, side / 2), self.spin * number, 1.0)
        move[0, 2] += _bounced(self.start[0] + self.step[0] * number, width) - side / 2
        move[1, 2] += _bounced(self.start[1] + self.step[1] * number, height) - side / 2
        picture = cv2.warpAffine(self.picture, move, (width, height))
        mask = cv2.cvtColor(cv2.warpAffine(self.mask, move, (width, height)), cv2.COLOR_GRAY2BGR)
        front = cv2.multiply(picture, mask, scale=1 / 255)
        behind = cv2.multiply(frame, cv2.bitwise_not(mask), scale=1 / 255)
        return _pixels(cv2.add(front, behind))


def _bounced(place: float, length: int) -> float:
    """A place on an endless line, folded into 0..length as by mirrors at both ends."""
    folded = place % (2 * length)
    return 2 * length - folded if folded > length else folded


def _noise(rng: np.random.Generator, width: int, height: int, deviation: float) -> Plane:
    grain = rng.standard_normal((height, width), np.float32) * np.float32(deviation)
    return np.repeat(grain[..., None], 3, axis=2)


def _bytes(values: NDArray[np.float32]) -> Pixels:
    return np.rint(np.clip(values, 0, 255)).astype(np.uint8)


def _pixels(values: NDArray[np.generic]) -> Pixels:
    """The same array under its exact type (OpenCV's annotations say only "some number")."""
    return np.asarray(values, np.uint8)


def _check_size(width: int, height: int) -> None:
    if min(width, height) < 1:
        raise UsageError(
            f"synthetic media of {width}x{height} pixels: both sides must be 1 or more",
            "give a size as WIDTHxHEIGHT, such as 854x480",
        )
