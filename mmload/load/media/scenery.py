"""A made-up scene that is as hard for a codec as a photograph: hills, things, texture and light.

Goes in: a random generator and a size. Comes out: float pixels. Photographs have an amplitude
spectrum near 1/f, sharp edges where one thing hides another, colour that varies far less than
brightness, and soft shadows; each is made here on purpose, because flat colour compresses too well
and noise too badly. The same generator state gives the same scene. No file or clock is touched.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mmload.load.media.opencv import Pixels, Plane, cv2

Points = NDArray[np.float64]  # n x 2: x, y


def _palette(*rgb: int) -> NDArray[np.float64]:
    """Rows of blue, green, red from 0xRRGGBB."""
    return np.array([(c & 255, c >> 8 & 255, c >> 16) for c in rgb], np.float64)


SKIES: Final = _palette(0xB0CDE4, 0xCDD6DC, 0xE8D6BE, 0x8CAFD4, 0xE2C4AA)
GROUNDS: Final = _palette(
    0x7A8E42, 0x4A6834, 0xA07E5C, 0x75543A, 0xC4B082, 0x80807C, 0x5C6254, 0x966C4A, 0xB2A08C
)
THINGS: Final = _palette(
    *(0xECE0CE, 0xC9B28E, 0x75543A, 0x4A362A, 0xB25C3C, 0x8C342C, 0xD6B054, 0x4A6834),
    *(0x2C442C, 0x3A5A8C, 0x303A54, 0xBEBEBA, 0x464648, 0x222022, 0xE8A8A4, 0xDC783C),
)
SUBPIXEL: Final = 4  # bits of fraction in the coordinates that OpenCV draws


@dataclass(frozen=True, slots=True)
class _Layers:
    """What painting fills in: colour, strength of texture and height, each a byte a pixel."""

    colour: Pixels
    texture: Pixels
    height: Pixels

    def paint(self, outline: Points, colour: Points, texture: int, height: int) -> None:
        points = np.rint(outline * (1 << SUBPIXEL)).astype(np.int32)
        bgr = [float(c) for c in np.clip(colour, 4, 250)]
        cv2.fillPoly(self.colour, [points], bgr, cv2.LINE_AA, SUBPIXEL)
        cv2.fillPoly(self.texture, [points], texture, cv2.LINE_AA, SUBPIXEL)
        cv2.fillPoly(self.height, [points], height, cv2.LINE_AA, SUBPIXEL)


def render(rng: np.random.Generator, width: int, height: int, reach: int) -> Plane:
    """A scene of `height` x `width` x 3 float32 in 0..255 (overshooting a little).

    Sizes of things are in proportion to `reach`, the short side of the picture that will be cut
    from it, so that a canvas larger than the frame shows more things and not larger ones.
    """
    layers = _hills(rng, width, height, reach)
    shade = _relief(layers.height, reach)
    grain = field(rng, width, height, 1.0) * layers.texture
    light = _enlarged(field(rng, width // 8 + 1, height // 8 + 1, 1.6), width, height)
    shade *= 1 + np.float32(0.16 / 128) * grain + np.float32(0.12) * light
    pixels = layers.colour * shade[..., None]
    half = ((width + 1) // 2, (height + 1) // 2)
    blue = 3 * _enlarged(field(rng, *half, 1.2), width, height)
    red = 3 * _enlarged(field(rng, *half, 1.2), width, height)
    # YCbCr to BGR with Y left alone: colour wanders on its own, but far less than brightness.
    pixels[..., 0] += np.float32(1.772) * blue
    pixels[..., 1] -= np.float32(0.344) * blue + np.float32(0.714) * red
    pixels[..., 2] += np.float32(1.402) * red
    return _plane(cv2.GaussianBlur(pixels, (0, 0), 0.55))  # the lens


def field(rng: np.random.Generator, width: int, height: int, exponent: float) -> Plane:
    """Random values with amplitude spectrum 1/f**exponent and random phase; mean 0, deviation 1.

    Made on a grid that the FFT likes and cut to size; the highest frequencies roll off as a lens
    makes them.
    """
    rows, columns = cv2.getOptimalDFTSize(height), cv2.getOptimalDFTSize(width)
    f_y = np.fft.fftfreq(rows).astype(np.float32)[:, None]
    f_x = np.fft.rfftfreq(columns).astype(np.float32)[None, :]
    f_squared = f_x * f_x + f_y * f_y
    f_squared[0, 0] = 1.0
    amplitude = f_squared ** np.float32(-exponent / 2) * np.exp(f_squared / np.float32(-0.1225))
    amplitude[0, 0] = 0.0
    phase = rng.random(amplitude.shape, np.float32) * np.float32(2 * np.pi)
    spectrum = amplitude * np.exp(1j * phase)
    values = np.fft.irfft2(spectrum, s=(rows, columns))[:height, :width].astype(np.float32)
    values -= values.mean()
    return values / max(float(values.std()), 1e-6)


def outline(rng: np.random.Generator, x: float, y: float, radius: float) -> Points:
    """The edge of a thing around a point: a pebble or bush, a box, or a stalk."""
    kind = rng.random()
    if kind < 0.6:
        angle = np.linspace(0, 2 * np.pi, 40, endpoint=False)
        bulge = np.ones(40)
        for wave in (2, 3, 4, 5):
            bulge += rng.normal(0, 0.35 / wave) * np.cos(wave * angle + rng.uniform(0, 2 * np.pi))
        points = np.stack([np.cos(angle) * bulge, np.sin(angle) * bulge], 1)
        points[:, 1] *= rng.uniform(0.5, 1.0)
        turn = rng.uniform(0, np.pi)
    else:
        long, thick = (1.0, rng.uniform(0.3, 1)) if kind < 0.85 else (2.5, rng.uniform(0.03, 0.12))
        points = np.array([(-long, -thick), (long, -thick), (long, thick), (-long, thick)])
        points *= rng.uniform(0.85, 1.1, (4, 1))
        turn = rng.normal(0, 0.12) + rng.integers(2) * np.pi / 2
    cos, sin = np.cos(turn), np.sin(turn)
    rotated: Points = points @ np.array([[cos, sin], [-sin, cos]]) * radius + (x, y)
    return rotated


def _hills(rng: np.random.Generator, width: int, height: int, reach: int) -> _Layers:
    """Sky, then hills from the horizon forward, each with things on it that hide what is behind."""
    sky = SKIES[rng.integers(len(SKIES))]
    things = THINGS[rng.permutation(len(THINGS))[:7]]
    fall = np.linspace(0.85, 1.08, height)[:, None, None]
    layers = _Layers(
        np.ascontiguousarray(
            np.broadcast_to(np.clip(sky * fall, 0, 250), (height, width, 3)).astype(np.uint8)
        ),
        np.full((height, width), 24, np.uint8),
        np.zeros((height, width), np.uint8),
    )
    horizon = rng.uniform(0.12, 0.4)
    hills = int(rng.integers(4, 7))
    crowd = max(1.0, width / (1.78 * reach))
    for hill in range(hills):
        near = hill / (hills - 1)  # 0 at the horizon, 1 in front
        haze = 0.6 * (1 - near) ** 1.5
        x, ridge = _ridge(rng, width)
        ridge = height * (horizon + (1 - horizon) * 0.8 * near**1.4) + height * 0.06 * ridge
        soil = GROUNDS[rng.integers(len(GROUNDS))] * rng.uniform(0.75, 1.15)
        ground = np.concatenate([np.stack([x, ridge], 1), [(width, height), (0, height)]])
        texture = int(40 + 130 * near * rng.uniform(0.4, 1.0))
        layers.paint(ground, soil * (1 - haze) + sky * haze, texture, 30 + 25 * hill)
        radii = reach * (0.35 + 0.9 * near) * _sizes(rng, int(rng.integers(6, 13) * crowd))
        for radius in radii:
            thing_x = rng.uniform(0, width)
            thing_y = np.interp(thing_x, x, ridge)
            thing_y += rng.uniform(-0.3, 1.0) * height * 0.1 * (0.4 + near)
            colour = things[rng.integers(len(things))] * rng.uniform(0.7, 1.15)
            layers.paint(
                outline(rng, thing_x, float(thing_y), float(radius)),
                colour * (1 - haze) + sky * haze,
                int(rng.choice((12, 30, 60, 110, 170))),
                int(rng.integers(90, 255)),
            )
    return layers


def _ridge(rng: np.random.Generator, width: int) -> tuple[Points, Points]:
    """A hill's skyline: x over the width, y in about -1..1."""
    angle = np.linspace(0, np.pi, 160)
    y = np.zeros(160)
    for wave in range(1, 24):
        phase, strength = rng.uniform(0, 2 * np.pi), rng.uniform(0.3, 1.0)
        y += strength / wave**1.3 * np.cos(wave * angle + phase)
    return np.linspace(0, width, 160), y


def _sizes(
    rng: np.random.Generator, count: int, small: float = 0.022, large: float = 0.3
) -> Points:
    """Sizes by a power law, large first: many small things, few large ones, as in photographs."""
    power = -1.5
    between = rng.random(count)
    sizes = (small**power + between * (large**power - small**power)) ** (1 / power)
    return np.sort(sizes)[::-1]


def _relief(height: Pixels, reach: int) -> Plane:
    """Light from the upper left on a height map: rounded edges, and shadows on what lies lower."""
    rows, columns = height.shape
    half = (max(1, columns // 2), max(1, rows // 2))
    low = cv2.resize(height, half, interpolation=cv2.INTER_AREA).astype(np.float32) / 255
    soft = cv2.GaussianBlur(low, (0, 0), max(0.6, reach * 0.006))
    shift = max(1, round(reach * 0.012))
    moved = cv2.warpAffine(
        soft, np.array([[1.0, 0, shift], [0, 1, shift]]), half, borderMode=cv2.BORDER_REPLICATE
    )
    step = soft - moved  # above 0: faces the light; below: in shadow
    return _enlarged(1 + np.where(step > 0, 0.3 * step, 0.55 * step), columns, rows)


def _enlarged(plane: NDArray[np.floating], width: int, height: int) -> Plane:
    return _plane(cv2.resize(plane, (width, height), interpolation=cv2.INTER_LINEAR))


def _plane(values: NDArray[np.generic]) -> Plane:
    """The same array under its exact type (OpenCV's annotations say only "some number")."""
    return np.asarray(values, np.float32)
