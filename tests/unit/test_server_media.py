"""Decoding as the embedded server does it: real files made here, and all that can be wrong."""

import base64
from pathlib import Path

import cv2
import numpy as np
import pytest

from mmload.processors.arithmetic import MediaKind
from mmload.server.fetch import _is_loopback
from mmload.server.media import decode_bytes, decode_data_uri
from mmload.server.request import MediaError


def png(height: int = 40, width: int = 60, value: int = 200) -> bytes:
    picture = np.zeros((height, width, 3), np.uint8)
    picture[:, : width // 2] = (value, 10, 20)  # blue, green, red
    return cv2.imencode(".png", picture)[1].tobytes()


def mp4(path: Path, frames: int, height: int = 64, width: int = 96) -> bytes:
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), 30, (width, height))
    for number in range(frames):
        writer.write(np.full((height, width, 3), 16 * number, np.uint8))
    writer.release()
    return path.read_bytes()


def uri(mime: str, *files: bytes) -> str:
    return f"data:{mime};base64," + ",".join(base64.b64encode(data).decode() for data in files)


def test_an_image_is_rgb() -> None:
    decoded = decode_data_uri("image", uri("image/png", png()), 768)
    [frame] = decoded.frames
    assert decoded.size == frame.shape[:2] == (40, 60)
    assert frame[0, 0].tolist() == [20, 10, 200] and frame[0, 59].tolist() == [0, 0, 0]
    assert decoded.encoded_bytes == len(png()) and decoded.decoded_bytes == 40 * 60 * 3


def test_all_frames_of_a_video(tmp_path: Path) -> None:
    data = mp4(tmp_path / "a.mp4", 15)
    decoded = decode_data_uri("video", uri("video/mp4", data), 768)
    assert len(decoded.frames) == 15 and decoded.size == (64, 96)
    levels = [int(frame.mean()) for frame in decoded.frames]
    assert all(abs(level - 16 * number) <= 6 for number, level in enumerate(levels))


def test_long_videos_are_sampled_evenly(tmp_path: Path) -> None:
    data = mp4(tmp_path / "a.mp4", 15)
    decoded = decode_bytes("video", data, 4)
    # linspace(0, 14, 4) = 0, 4.67, 9.33, 14
    assert [round(frame.mean() / 16) for frame in decoded.frames] == [0, 5, 9, 14]
    assert decoded.times_s == pytest.approx((0, 5 / 30, 9 / 30, 14 / 30)), "as the file's rate says"


def test_a_video_of_single_pictures() -> None:
    decoded = decode_data_uri("video", uri("video/jpeg", png(value=200), png(value=100)), 768)
    assert [frame[0, 0, 2] for frame in decoded.frames] == [200, 100]
    assert decoded.times_s == (0, 1 / 24), (
        "nothing says how fast: 24 a second, as transformers has it"
    )
    with pytest.raises(MediaError, match="differ in size"):
        decode_data_uri("video", uri("video/jpeg", png(), png(height=41)), 768)


def test_the_scratch_file_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = mp4(tmp_path / "a.mp4", 2)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("mmload.server.media._SCRATCH", str(scratch))
    decode_bytes("video", data, 768)
    with pytest.raises(MediaError):
        decode_bytes("video", data[:100], 768)
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        ("image", "file:///etc/passwd", "no data:TYPE;base64, URI"),
        ("image", "data:image/png,plain", "no data:TYPE;base64, URI"),
        ("image", "data:text/plain;base64,aGk=", "unsupported media type 'text/plain'"),
        ("image", "data:image/png;base64,@@@@", "the image is not valid base64"),
        ("image", "data:image/png;base64,", "the image is empty: 0 bytes"),
        ("image", uri("image/png", png()[:60]), "the image cannot be decoded (60 bytes)"),
        ("image", uri("image/png", b"just text"), "the image cannot be decoded (9 bytes)"),
        ("video", uri("video/mp4", b"just text"), "the video cannot be decoded (9 bytes)"),
        ("video", uri("video/jpeg", png(), b""), "the image cannot be decoded (0 bytes)"),
    ],
)
def test_what_cannot_be_decoded(kind: MediaKind, given: str, words: str) -> None:
    with pytest.raises(MediaError) as caught:
        decode_data_uri(kind, given, 768)
    assert caught.value.status == 400 and words in caught.value.message
    assert len(caught.value.message) < 200  # never the media themselves


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://127.0.0.1:8000/a.png", True),
        ("http://127.9.9.9/a.png", True),
        ("http://[::1]:8000/a.png", True),
        ("http://localhost/a.png", True),
        ("http://example.com/a.png", False),
        ("http://127.0.0.1.example.com/a.png", False),
        ("http://localhost.example.com/a.png", False),
        ("http://10.0.0.1/a.png", False),
        ("http://0.0.0.0/a.png", False),
        ("http:///a.png", False),
    ],
)
def test_only_loopback_is_fetched(url: str, allowed: bool) -> None:
    assert _is_loopback(url) is allowed
