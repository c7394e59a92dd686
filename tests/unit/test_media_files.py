"""A user's files: their own bytes, re-encoded right, or frames out of a clip."""

from pathlib import Path

import numpy as np
import pytest

from mmload.errors import UsageError
from mmload.load.media.files import extract_frames, image_file, oriented, resized, video_file
from mmload.load.media.opencv import Pixels, cv2
from mmload.load.media.synthetic import image_pixels, seeded
from tests.unit.media_samples import (
    cmyk_jpeg,
    encoded,
    gif,
    jpeg_with,
    mp4,
    palette_png,
    png,
    quadrants,
    tiff_orientation,
    turned_mp4,
)

BLUE, GREEN, RED, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def saved(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def decoded(data: bytes) -> Pixels:
    return np.asarray(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), np.uint8)


def shades(count: int, width: int = 64, height: int = 48) -> list[Pixels]:
    """Frames that tell their number by their grey: 20, 30, 40, ..."""
    return [np.full((height, width, 3), 20 + 10 * n, np.uint8) for n in range(count)]


def numbers(frames: list[Pixels]) -> list[int]:
    return [round((float(frame.mean()) - 20) / 10) for frame in frames]


def test_an_image_is_its_own_bytes(tmp_path: Path) -> None:
    data = encoded(".jpg", image_pixels(seeded(1), 96, 64))
    media = image_file(saved(tmp_path, "a.jpg", data))
    assert media.data == data
    assert (media.kind, media.mime, media.source) == ("image", "image/jpeg", "a.jpg")
    assert (media.width, media.height, media.frames, media.variants) == (96, 64, 1, 1)
    varied = image_file(tmp_path / "a.jpg", varied=True)
    assert varied.data == data and varied.variants >= 100_000
    picture = encoded(".png", quadrants())
    assert image_file(saved(tmp_path, "a.png", picture), varied=True).variants == 1


def test_strange_files_only_as_they_are(tmp_path: Path) -> None:
    data = encoded(".jpg", quadrants())[:-2]
    path = saved(tmp_path, "cut.jpg", data)
    with pytest.raises(UsageError, match=r"cut\.jpg: cut short"):
        image_file(path)
    assert image_file(path, as_is=True).data == data
    clip = mp4(tmp_path / "a.mp4", shades(3)).read_bytes()[:-9]
    path = saved(tmp_path, "cut.mp4", clip)
    with pytest.raises(UsageError, match=r"cut\.mp4: cut short"):
        video_file(path)
    assert video_file(path, as_is=True).data == clip
    text = saved(tmp_path, "text.png", b"text")
    assert image_file(text, as_is=True).mime == "image/png"
    with pytest.raises(UsageError, match=r"text\.png: cannot be decoded"):
        image_file(text, size=(9, 9), as_is=True)


def test_a_video_is_its_own_bytes(tmp_path: Path) -> None:
    path = mp4(tmp_path / "a.mp4", shades(3))
    media = video_file(path)
    assert (media.kind, media.mime, media.frames) == ("video", "video/mp4", 3)
    assert media.data == path.read_bytes() and media.variants == 1


def test_the_wrong_kind_is_named(tmp_path: Path) -> None:
    image = saved(tmp_path, "a.png", encoded(".png", quadrants()))
    video = mp4(tmp_path / "a.mp4", shades(3))
    with pytest.raises(UsageError, match=r"a\.mp4: a video, where an image"):
        image_file(video)
    with pytest.raises(UsageError, match=r"a\.png: an image, where a video"):
        video_file(image)
    with pytest.raises(UsageError, match=r"a\.png: one picture, where a clip .* 6 frames"):
        extract_frames(image, 6)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_rotation_notes_are_followed(orientation: int, tmp_path: Path) -> None:
    """Against OpenCV, which turns JPEG files itself, and the definition for a few."""
    plain = encoded(".jpg", quadrants(), cv2.IMWRITE_JPEG_QUALITY, 95)
    data = jpeg_with(plain, 0xE1, b"Exif\0\0" + tiff_orientation(orientation))
    media = image_file(saved(tmp_path, "a.jpg", data), fmt="png")
    made = decoded(media.data)
    assert np.array_equal(made, decoded(data))
    assert (media.width, media.height) == made.shape[1::-1]
    upright = decoded(plain)
    by_definition = {
        1: upright,
        3: np.rot90(upright, 2),
        6: np.rot90(upright, -1),  # clockwise
        8: np.rot90(upright, 1),
    }
    if orientation in by_definition:
        assert np.array_equal(made, by_definition[orientation])
    # A PNG's note is followed too; some versions of OpenCV do not read it.
    rows = b"".join(
        b"\0" + row.tobytes() for row in np.arange(6, dtype=np.uint8).reshape(2, 3) * 40
    )
    note = b"eXIf" + tiff_orientation(orientation)
    turned = image_file(saved(tmp_path, "a.png", png(3, 2, 8, 0, rows, note)), fmt="png")
    wanted = oriented(np.arange(6, dtype=np.uint8).reshape(2, 3) * 40, orientation)
    assert np.array_equal(decoded(turned.data)[..., 0], wanted)


def test_colours_become_plain(tmp_path: Path) -> None:
    def made(name: str, data: bytes) -> Pixels:
        return decoded(image_file(saved(tmp_path, name, data), fmt="png").data)

    colours = made("palette.png", palette_png())
    assert colours.tolist() == [
        [list(c) for c in (RED, GREEN, BLUE, WHITE)],
        [list(c) for c in (WHITE, BLUE, GREEN, RED)],
    ]
    # The palette's red is clear: white shows. Half clear green over white.
    assert made("clear.png", palette_png(b"tRNS\0"))[0, 0].tolist() == list(WHITE)
    half = made("half.png", palette_png(b"tRNS\xff\x80"))
    assert half[0, 1].tolist() == [127, 255, 127]  # 255 * (1 - 128/255)
    deep = np.array([[0, 257, 65535, 32896]], np.uint16)  # times 255 / 65535
    assert made("deep.png", encoded(".png", deep))[0].tolist() == [
        [0, 0, 0],
        [1, 1, 1],
        [255, 255, 255],
        [128, 128, 128],
    ]
    # Adobe's inks are inverted, 255 is none: full cyan is what red light lacks.
    for inks, bgr in (
        ((0, 255, 255, 255), (255, 255, 0)),
        ((255, 0, 0, 255), (0, 0, 255)),
        ((255, 255, 255, 0), (0, 0, 0)),
        ((255, 255, 255, 255), WHITE),
    ):
        pixels = made("cmyk.jpg", cmyk_jpeg(inks))
        assert pixels.shape == (8, 8, 3)
        assert np.abs(pixels.astype(int) - np.array(bgr)).max() <= 2
    assert made("one.gif", gif(1)).shape == (2, 2, 3)


def test_re_encoding_is_exact_in_size_and_keeps_the_format(tmp_path: Path) -> None:
    picture = image_pixels(seeded(1), 96, 64)
    for suffix, mime in (
        (".jpg", "image/jpeg"),
        (".png", "image/png"),
        (".webp", "image/webp"),
        (".bmp", "image/jpeg"),
    ):
        media = image_file(saved(tmp_path, "a" + suffix, encoded(suffix, picture)), size=(50, 61))
        assert (media.mime, media.width, media.height) == (mime, 50, 61)
        assert decoded(media.data).shape == (61, 50, 3)
        assert (media.variants >= 100_000) == (mime == "image/jpeg")
    assert image_file(tmp_path / "a.png", fmt="webp").mime == "image/webp"
    small, large = (len(image_file(tmp_path / "a.png", None, "jpeg", q).data) for q in (20, 95))
    assert small * 2 < large


def test_shrinking_averages() -> None:
    checks = np.indices((64, 64)).sum(0)[..., None].repeat(3, 2) % 2 * 200
    assert np.unique(resized(checks.astype(np.uint8), (32, 32))).tolist() == [100]
    assert resized(quadrants(), (48, 32)).shape == (32, 48, 3)
    assert resized(quadrants(), (480, 20)).shape == (20, 480, 3)


@pytest.mark.parametrize(
    ("count", "wanted"),
    [(1, [0]), (2, [0, 19]), (3, [0, 10, 19]), (5, [0, 5, 10, 14, 19]), (20, list(range(20)))],
)
def test_frames_are_spread_evenly(count: int, wanted: list[int], tmp_path: Path) -> None:
    path = mp4(tmp_path / "a.mp4", shades(20))
    frames = extract_frames(path, count)
    assert numbers(frames) == wanted
    assert {f.shape for f in frames} == {(48, 64, 3)}


def test_frames_have_the_asked_size(tmp_path: Path) -> None:
    path = mp4(tmp_path / "a.mp4", shades(4))
    assert {f.shape for f in extract_frames(path, 2, size=(33, 21))} == {(21, 33, 3)}


def test_too_few_frames_are_named_with_both_numbers(tmp_path: Path) -> None:
    path = mp4(tmp_path / "a.mp4", shades(4))
    with pytest.raises(UsageError, match=r"a\.mp4: 4 frames can be decoded, 6 were asked for"):
        extract_frames(path, 6)
    with pytest.raises(UsageError, match="0 were asked for"):
        extract_frames(path, 0)


def test_the_headers_count_is_not_believed(tmp_path: Path) -> None:
    """Ten frames in the header; the last three are spoilt and do not decode."""
    clip = [image_pixels(seeded(1, n), 64, 48) for n in range(10)]
    data = bytearray(mp4(tmp_path / "a.mp4", clip).read_bytes())
    starts = [i for i in range(len(data)) if data[i : i + 4] == b"\0\0\1\xb6"]
    assert len(starts) == 10
    for start in starts[7:]:
        data[start : start + 12] = bytes(12)
    path = saved(tmp_path, "lies.mp4", bytes(data))
    assert video_file(path).frames == 10
    with pytest.raises(UsageError, match="7 frames can be decoded, 8 were asked for"):
        extract_frames(path, 8)
    assert len(extract_frames(path, 7)) == 7


def test_a_clips_rotation_is_followed(tmp_path: Path) -> None:
    plain = mp4(tmp_path / "a.mp4", [quadrants(64, 48)] * 3)
    turned = saved(tmp_path, "turned.mp4", turned_mp4(plain.read_bytes(), 48))
    (upright,), (frame,) = extract_frames(plain, 1), extract_frames(turned, 1)
    assert np.array_equal(frame, np.rot90(upright, -1))
    media = video_file(turned)
    assert (media.width, media.height) == (48, 64)


def test_an_animated_gif_is_a_clip(tmp_path: Path) -> None:
    path = saved(tmp_path, "a.gif", gif(4, 16, 16))
    frames = extract_frames(path, 4)
    assert [f[8, 8].tolist() for f in frames] == [[0, 0, 0], list(RED), list(GREEN), list(BLUE)]
    assert image_file(path).mime == "image/gif"  # and as an image it is its own bytes
    animated = png(1, 1, 8, 0, b"\0\0", b"acTL\0\0\0\3\0\0\0\0")
    with pytest.raises(UsageError, match="cannot be taken out of an animated image/png"):
        extract_frames(saved(tmp_path, "a.png", animated), 2)
