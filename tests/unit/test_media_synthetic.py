"""Synthetic pictures and clips: reproducible, and to a codec like photographs."""

import hashlib
import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from mmload.errors import UsageError
from mmload.load.media.opencv import Pixels, cv2
from mmload.load.media.scenery import field
from mmload.load.media.synthetic import image_pixels, seeded, video_frames


def digest(*pictures: Pixels) -> str:
    return hashlib.sha256(b"".join(p.tobytes() for p in pictures)).hexdigest()


def radial_slope(plane: NDArray[np.floating]) -> float:
    """Slope of log amplitude over log frequency, from a windowed FFT: -1 for 1/f."""
    side = min(plane.shape)
    window = np.hanning(side)
    square = plane[:side, :side] - plane[:side, :side].mean()
    amplitude = np.abs(np.fft.fft2(square * np.outer(window, window)))
    f = np.fft.fftfreq(side)
    radius = np.hypot(f[:, None], f[None, :])
    edges = np.geomspace(4 / side, 0.25, 12)
    means = [
        amplitude[(radius >= low) & (radius < high)].mean()
        for low, high in itertools.pairwise(edges)
    ]
    centres = np.sqrt(edges[:-1] * edges[1:])
    slope: float = np.polyfit(np.log(centres), np.log(means), 1)[0]
    return slope


def jpeg_bytes_a_pixel(picture: Pixels) -> float:
    _, encoded = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 85])
    height, width = picture.shape[:2]
    return len(encoded.tobytes()) / float(height * width)


def test_field_has_the_asked_spectrum() -> None:
    for exponent in (1.0, 1.5):
        plane = field(seeded(1), 256, 256, exponent)
        assert radial_slope(plane) == pytest.approx(-exponent, abs=0.25)
        assert abs(float(plane.mean())) < 1e-3
        assert float(plane.std()) == pytest.approx(1.0, abs=1e-3)


def test_same_seed_same_pixels_other_seed_other_pixels() -> None:
    first = image_pixels(seeded(7, 1), 64, 48)
    assert first.shape == (48, 64, 3) and first.dtype == np.uint8
    assert digest(first) == digest(image_pixels(seeded(7, 1), 64, 48))
    others = [image_pixels(seeded(*seed), 64, 48) for seed in ((7, 2), (1, 7), (7,), (7, 1, 0))]
    assert len({digest(p) for p in (first, *others)}) == 5


@pytest.mark.parametrize("number", range(6))
def test_a_picture_costs_a_codec_what_a_photograph_does(number: int) -> None:
    picture = image_pixels(seeded(3, number), 854, 480)
    assert 0.1 <= jpeg_bytes_a_pixel(picture) <= 0.3
    y, cr, cb = (c.astype(float) for c in cv2.split(cv2.cvtColor(picture, cv2.COLOR_BGR2YCrCb)))
    # Photographs measured the same way: -0.9 to -1.65, and 2 to 10 times more luma than chroma.
    assert -1.8 <= radial_slope(y) <= -0.9
    assert float(y.std()) > 1.2 * max(float(cr.std()), float(cb.std()))
    assert float(y.std()) > 20


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (17, 5), (5, 400)])
def test_any_size(size: tuple[int, int]) -> None:
    assert image_pixels(seeded(1), *size).shape == (size[1], size[0], 3)
    assert [f.shape for f in video_frames(seeded(1), *size, 2)] == [(size[1], size[0], 3)] * 2


def test_no_pixels_is_named() -> None:
    with pytest.raises(UsageError, match="0x480 pixels: both sides must be 1 or more"):
        image_pixels(seeded(1), 0, 480)
    with pytest.raises(UsageError, match="9x-1 pixels"):
        video_frames(seeded(1), 9, -1, 2)


def test_clip_is_reproducible_and_no_two_frames_are_alike() -> None:
    clip = video_frames(seeded(5), 96, 64, 40)
    assert digest(*clip) == digest(*video_frames(seeded(5), 96, 64, 40))
    assert len({digest(frame) for frame in clip}) == 40
    assert digest(*clip) != digest(*video_frames(seeded(6), 96, 64, 40))


def test_a_longer_clip_starts_as_the_shorter_one() -> None:
    assert digest(*video_frames(seeded(5), 64, 48, 9)[:4]) == digest(
        *video_frames(seeded(5), 64, 48, 4)
    )


def test_the_camera_moves_and_one_shift_does_not_explain_all() -> None:
    clip = video_frames(seeded(4), 427, 240, 8)
    grey = [cv2.cvtColor(f, cv2.COLOR_BGR2GRAY).astype(np.float32) for f in clip]
    window = cv2.createHanningWindow((427, 240), cv2.CV_32F)
    shifts = [math.hypot(*cv2.phaseCorrelate(a, b, window)[0]) for a, b in itertools.pairwise(grey)]
    assert 0.5 < np.median(shifts) < 0.03 * 427
    # Both still differences and those left after the best shift are far over the noise of 2.2.
    for a, b in itertools.pairwise(grey):
        (dx, dy), _ = cv2.phaseCorrelate(a, b, window)
        back = np.array([[1, 0, -dx], [0, 1, -dy]])
        left = (cv2.warpAffine(b, back, (427, 240)) - a)[20:-20, 20:-20]
        assert float(np.std(left)) > 3.5
