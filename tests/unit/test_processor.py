"""The Qwen3-VL processor: sizes against the source's own results, patches against a plain loop."""

import subprocess
import sys

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mmload.processors.arithmetic import Grid, MediaKind, count_tokens, grid_of
from mmload.processors.qwen3vl_numpy import VALUES_A_PATCH, Frame, process


def noise(frames: int, height: int, width: int) -> list[Frame]:
    random = np.random.default_rng(frames * height + width)
    return [random.integers(0, 256, (height, width, 3), np.uint8) for _ in range(frames)]


def plain_patches(frames: list[Frame], grid: Grid) -> NDArray[np.float32]:
    """Patch by patch from the definition, with no reshape or transpose of the whole."""
    out = np.empty((grid.patches, VALUES_A_PATCH), np.float32)
    row = 0
    for t in range(grid.t):
        pair = [frames[min(2 * t + i, len(frames) - 1)] for i in (0, 1)]
        for big_y in range(0, grid.h, 2):
            for big_x in range(0, grid.w, 2):
                for y in (big_y, big_y + 1):
                    for x in (big_x, big_x + 1):
                        values = [
                            frame[y * 16 : y * 16 + 16, x * 16 : x * 16 + 16, colour].ravel()
                            for colour in range(3)
                            for frame in pair
                        ]
                        pixels = np.concatenate(values).astype(np.float64)
                        out[row] = (pixels / 255 - 0.5) / 0.5
                        row += 1
    return out


# (kind, frames, height, width) -> resized (height, width), as `smart_resize` of transformers 5.24
# gives with factor 32 and the checkpoints' limits; 300,000 random sizes agreed as well.
SOURCE_SIZES: list[tuple[MediaKind, int, int, int, tuple[int, int]]] = [
    ("image", 1, 480, 854, (480, 864)),
    ("image", 1, 4, 4, (256, 256)),
    ("image", 1, 10_000, 10_000, (4096, 4096)),
    ("image", 1, 1000, 5, (3648, 32)),
    ("image", 1, 31, 4000, (32, 4000)),
    ("video", 15, 480, 854, (480, 864)),
    ("video", 2, 16, 16, (64, 64)),
    ("video", 5, 1080, 1920, (1088, 1920)),
    ("video", 16, 1080, 1920, (928, 1664)),
    ("video", 100, 1080, 1920, (352, 640)),
    ("video", 2, 20, 3000, (32, 4800)),
    ("video", 3, 240, 336, (256, 320)),
]


@pytest.mark.parametrize(("kind", "frames", "height", "width", "size"), SOURCE_SIZES)
def test_sizes_are_the_sources(
    kind: MediaKind, frames: int, height: int, width: int, size: tuple[int, int]
) -> None:
    assert grid_of(kind, frames, height, width).size == size


def test_tokens_by_hand() -> None:
    # 854 -> 27 x 32 = 864, 480 = 15 x 32; 15 frames -> 8 pairs; 54 x 30 patches of 16 pixels
    assert grid_of("video", 15, 480, 854) == Grid(8, 30, 54)
    assert grid_of("video", 15, 480, 854).patches == 12_960
    assert count_tokens("video", 15, 480, 854) == 8 * 15 * 27 == 3240
    assert count_tokens("video", 6, 480, 854) == 3 * 405
    assert count_tokens("image", 1, 480, 854) == 405


@pytest.mark.parametrize(
    ("kind", "frames", "height", "width", "words"),
    [
        ("video", 1, 480, 854, "at least 2 frames"),
        ("image", 1, 10, 2010, "200 times"),
        ("video", 2, 2010, 10, "200 times"),
        ("image", 1, 0, 10, "10x0 pixels"),
    ],
)
def test_refused_sizes(kind: MediaKind, frames: int, height: int, width: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        grid_of(kind, frames, height, width)


@given(
    frames=st.integers(2, 5),
    down=st.integers(2, 5),
    across=st.integers(2, 5),
)
@settings(max_examples=25, deadline=None)
def test_patches_are_those_of_the_plain_loop(frames: int, down: int, across: int) -> None:
    media = noise(frames, down * 32, across * 32)
    done = process("video", media)
    assert done.grid == Grid((frames + 1) // 2, down * 2, across * 2)
    assert done.pixel_values.dtype == np.float32
    np.testing.assert_allclose(done.pixel_values, plain_patches(media, done.grid), atol=1e-6)


def test_an_image_is_a_still_of_two_frames() -> None:
    [image] = noise(1, 256, 320)
    done = process("image", [image])
    assert done.grid == Grid(1, 16, 20)
    np.testing.assert_allclose(done.pixel_values, plain_patches([image], done.grid), atol=1e-6)


def test_a_480p_clip() -> None:
    frames = noise(3, 480, 854)
    done = process("video", frames)
    resized = [cv2.resize(f, (864, 480), interpolation=cv2.INTER_CUBIC) for f in frames]
    assert done.pixel_values.shape == (2 * 30 * 54, 1536)
    expected = plain_patches([np.asarray(f, np.uint8) for f in resized], done.grid)
    np.testing.assert_allclose(done.pixel_values, expected, atol=1e-6)


def test_the_extremes_are_one() -> None:
    black, white = np.zeros((64, 64, 3), np.uint8), np.full((64, 64, 3), 255, np.uint8)
    values = process("video", [black, white]).pixel_values.reshape(-1, 3, 2, 16, 16)
    assert (values[:, :, 0] == -1).all() and (values[:, :, 1] == 1).all()


def test_unlike_frames_are_refused() -> None:
    with pytest.raises(ValueError, match="frame 1 is uint8"):
        process("video", noise(1, 64, 64) + noise(1, 64, 96))
    with pytest.raises(ValueError, match="without frames"):
        process("video", [])


def test_the_arithmetic_needs_neither_opencv_nor_numpy() -> None:
    code = (
        "import sys, mmload.processors.arithmetic;"
        "sys.exit(any(name in sys.modules for name in ('cv2', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=30).returncode == 0
