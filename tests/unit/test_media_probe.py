"""What a file is, by its header; which files are refused and how they are named."""

import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmload.errors import UsageError
from mmload.load.media.headers import Oddity, exif_orientation, read_header
from mmload.load.media.opencv import cv2
from mmload.load.media.probe import FileFacts, check, find_media, probe
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

PICTURE = quadrants()
JPEG = encoded(".jpg", PICTURE)
PNG = encoded(".png", PICTURE)
WEBP = encoded(".webp", PICTURE, cv2.IMWRITE_WEBP_QUALITY, 80)
LOSSLESS_WEBP = encoded(".webp", PICTURE, cv2.IMWRITE_WEBP_QUALITY, 101)
BMP = encoded(".bmp", PICTURE)


def saved(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("name", "data", "mime"),
    [
        ("a.jpg", JPEG, "image/jpeg"),
        ("a.JPEG", JPEG, "image/jpeg"),
        ("a.png", PNG, "image/png"),
        ("a.webp", WEBP, "image/webp"),
        ("b.webp", LOSSLESS_WEBP, "image/webp"),
        ("a.bmp", BMP, "image/bmp"),
        ("a", JPEG, "image/jpeg"),
    ],
)
def test_plain_images(name: str, data: bytes, mime: str, tmp_path: Path) -> None:
    path = saved(tmp_path, name, data)
    facts = probe(path)
    assert facts == FileFacts(path, "image", mime, 48, 32, 1)
    check(facts)


@pytest.mark.parametrize("data", [JPEG, PNG, WEBP, LOSSLESS_WEBP, BMP, gif(3), palette_png()])
def test_every_cut_is_named(data: bytes) -> None:
    """However much of the end is missing: cut short, a damaged header, or nothing known."""
    whole = read_header(data)
    assert whole is not None
    mild = {Oddity.animated, Oddity.palette}
    assert set(whole.oddities) <= mild
    for length in range(1, len(data)):
        header = read_header(data[:length])
        if header is not None:
            assert set(header.oddities) - mild in ({Oddity.truncated}, {Oddity.damaged}), length
    header = read_header(data[: len(data) - 1])
    assert header is not None and Oddity.truncated in header.oddities


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([JPEG, PNG, WEBP, BMP, gif(2), palette_png()]), st.integers(0, 2**32))
def test_no_damage_raises(data: bytes, seed: int) -> None:
    chance = random.Random(seed)
    damaged = bytearray(data)
    for _ in range(chance.randrange(1, 6)):
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    read_header(bytes(damaged))
    read_header(bytes(damaged[: chance.randrange(len(damaged))]))


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_rotation(orientation: int, order: str, tmp_path: Path) -> None:
    tiff = tiff_orientation(orientation, order)
    assert exif_orientation(tiff) == orientation
    body = b"Exif\0\0" + tiff
    webp = b"WEBP" + b"VP8X" + struct.pack("<I", 10) + bytes([8, 0, 0, 0, 47, 0, 0, 31, 0, 0])
    webp += WEBP[12:] + b"EXIF" + struct.pack("<I", len(tiff)) + tiff
    files = {
        "a.jpg": jpeg_with(JPEG, 0xE1, body),
        "a.png": png(48, 32, 8, 0, bytes(49 * 32), b"eXIf" + tiff),
        "a.webp": b"RIFF" + struct.pack("<I", len(webp)) + webp,
    }
    for name, data in files.items():
        facts = probe(saved(tmp_path, name, data))
        assert facts.orientation == orientation
        assert (facts.width, facts.height) == ((48, 32) if orientation < 5 else (32, 48))
        assert facts.oddities == (() if orientation == 1 else (Oddity.rotated,))
        check(facts)


@pytest.mark.parametrize("tiff", [b"", b"II*\0", b"XX*\0" + bytes(40), b"II*\0\xff\xff\xff\xff"])
def test_broken_exif_is_no_rotation(tiff: bytes) -> None:
    assert exif_orientation(tiff) == 1
    assert exif_orientation(tiff_orientation(9)) == 1


def test_colours_that_may_surprise(tmp_path: Path) -> None:
    grey16 = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000
    files = {
        "cmyk.jpg": (cmyk_jpeg((255, 0, 0, 255)), {Oddity.cmyk}),
        "palette.png": (palette_png(), {Oddity.palette}),
        "clear.png": (palette_png(b"tRNS\0"), {Oddity.palette, Oddity.transparent}),
        "deep.png": (encoded(".png", grey16), {Oddity.deep}),
        "alpha.png": (encoded(".png", np.zeros((8, 8, 4), np.uint8)), {Oddity.transparent}),
        "moving.png": (png(1, 1, 8, 0, b"\0\0", b"acTL\0\0\0\3\0\0\0\0"), {Oddity.animated}),
        "one.gif": (gif(1), set()),
        "moving.gif": (gif(5), {Oddity.animated}),
        "grey.bmp": (encoded(".bmp", np.zeros((8, 8), np.uint8)), {Oddity.palette}),
        "deep.jpg": (JPEG.replace(b"\xff\xc0\0\x11\x08", b"\xff\xc1\0\x11\x0c"), {Oddity.deep}),
        "end.jpg": (JPEG + b"a camera's own data after the end", set()),
    }
    for name, (data, oddities) in files.items():
        facts = probe(saved(tmp_path, name, data))
        assert set(facts.oddities) == oddities, name
        check(facts)
    assert probe(tmp_path / "moving.gif").frames == 5
    assert probe(tmp_path / "moving.png").frames == 3


@pytest.mark.parametrize(
    ("name", "data", "oddity"),
    [
        ("empty.jpg", b"", Oddity.empty),
        ("empty.mp4", b"", Oddity.empty),
        ("text.png", b"this is not a picture\n", Oddity.unknown),
        ("text.mp4", b"this is not a video\n", Oddity.unknown),
        ("cut.jpg", JPEG[:-2], Oddity.truncated),
        ("cut.png", PNG[:-12], Oddity.truncated),
        ("head.jpg", JPEG[:40], Oddity.damaged),
        ("still.jpg", b"\0\0\0\x18ftypheic" + bytes(20), Oddity.unknown),
        ("empty.webm", b"\x1a\x45\xdf\xa3 webm" + bytes(99), Oddity.undecodable),
    ],
)
def test_useless_files_are_named(
    name: str, data: bytes, oddity: Oddity, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path, name, data)
    facts = probe(path)
    assert facts.oddities[0] == oddity
    assert facts.kind == ("video" if path.suffix in (".mp4", ".webm") else "image")
    with pytest.raises(UsageError) as caught:
        check(facts)
    assert caught.value.message == f"{path}: {oddity}"
    assert caught.value.hint
    assert capfd.readouterr().err == ""


def test_the_content_counts_and_not_the_name(tmp_path: Path) -> None:
    facts = probe(saved(tmp_path, "a.png", JPEG))
    assert (facts.mime, facts.oddities) == ("image/jpeg", (Oddity.other_suffix,))
    check(facts)
    clip = mp4(tmp_path / "a.mp4", [PICTURE] * 3).read_bytes()
    facts = probe(saved(tmp_path, "b.jpg", clip))
    assert (facts.kind, facts.mime, facts.oddities) == (
        "video",
        "video/mp4",
        (Oddity.other_suffix,),
    )
    assert probe(saved(tmp_path, "c.mov", clip)).oddities == ()


def test_videos(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = mp4(tmp_path / "a.mp4", [PICTURE] * 7)
    data = path.read_bytes()
    assert probe(path) == FileFacts(path, "video", "video/mp4", 48, 32, 7)
    facts = probe(saved(tmp_path, "turned.mp4", turned_mp4(data, 32)))
    assert (facts.width, facts.height, facts.oddities) == (32, 48, (Oddity.rotated,))
    check(facts)
    for length in (len(data) - 1, len(data) // 2, 40):
        facts = probe(saved(tmp_path, "cut.mp4", data[:length]))
        assert Oddity.truncated in facts.oddities
        with pytest.raises(UsageError, match="cut short"):
            check(facts)
    assert capfd.readouterr().err == ""


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jpg", tmp_path):
        with pytest.raises(UsageError, match=f"{path}: cannot be read: "):
            probe(path)


def test_find_media(tmp_path: Path) -> None:
    names = ["b.jpg", "a.PNG", "c.mp4"]
    for name in (*names, ".DS_Store"):
        saved(tmp_path, name, b"x")
    (tmp_path / "more").mkdir()
    saved(tmp_path / "more", "d.jpg", b"x")
    assert find_media(tmp_path) == [tmp_path / name for name in ("a.PNG", "b.jpg", "c.mp4")]
    odd = saved(tmp_path, "notes.txt", b"x")
    assert find_media(odd) == [odd]  # named by the user: its content will tell
    with pytest.raises(UsageError, match=r"notes\.txt: not the name of an image"):
        find_media(tmp_path)
    with pytest.raises(UsageError, match="no such file"):
        find_media(tmp_path / "none")


def test_a_folder_without_media_is_named_with_what_is_looked_for(tmp_path: Path) -> None:
    (tmp_path / "deeper").mkdir()
    saved(tmp_path / "deeper", "a.jpg", JPEG)
    with pytest.raises(UsageError) as caught:
        find_media(tmp_path)
    assert str(tmp_path) in caught.value.message and ".jpg, .jpeg, .png" in caught.value.message


def test_what_this_process_starts_does_not_inherit_silence() -> None:
    names = {"OPENCV_LOG_LEVEL", "OPENCV_FFMPEG_LOGLEVEL"}
    clean = {name: value for name, value in os.environ.items() if name not in names}
    code = "import os, mmload.load.media.opencv; print(*(n for n in os.environ if 'OPENCV' in n))"
    done = subprocess.run([sys.executable, "-c", code], env=clean, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")
