"""MP4 files and their variants: each decodes whole, to other pixels, much like the first."""

import hashlib
import itertools
import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmload.errors import UsageError
from mmload.load.media import Media, mpeg4
from mmload.load.media.opencv import Pixels, cv2
from mmload.load.media.synthetic import seeded, video_frames
from mmload.load.media.videos import comma_jpeg, encode_mp4

CLIP = video_frames(seeded(3), 160, 120, 15)


def written(folder: Path, frames: Sequence[Pixels], fps: float = 2) -> bytes:
    """What OpenCV's own writer makes."""
    path = folder / "plain.mp4"
    height, width = frames[0].shape[:2]
    fourcc = cv2.VideoWriter.fourcc(*"mp4v")
    writer = cv2.VideoWriter(str(path), fourcc, fps, (width, height))
    for frame in frames:
        writer.write(frame)
    writer.release()
    return path.read_bytes()


def decoded(folder: Path, data: bytes) -> list[Pixels]:
    path = folder / "clip.mp4"
    path.write_bytes(data)
    capture = cv2.VideoCapture(str(path))
    frames: list[Pixels] = []
    while True:
        done, frame = capture.read()
        if not done:
            return frames
        frames.append(np.asarray(frame, np.uint8))


def psnr(a: Pixels, b: Pixels) -> float:
    error = float(np.mean((a.astype(float) - b.astype(float)) ** 2))
    return math.inf if error == 0 else 10 * math.log10(255**2 / error)


def numbers_to_try(media: Media) -> list[int]:
    """Every option of every site alone, neighbours, the last, and numbers far apart."""
    alone, weight = [], 1
    for site in media.sites:
        alone += [digit * weight for digit in range(1, len(site.options))]
        weight *= len(site.options)
    spread = [n * 99_991 % media.variants for n in range(1, 12)]
    return sorted({0, media.variants - 1, *range(12), *alone, *spread})


def test_encode_describes_what_it_made(tmp_path: Path) -> None:
    media = encode_mp4(CLIP, fps=2, source="here")
    assert (media.kind, media.mime, media.frames) == ("video", "video/mp4", 15)
    assert (media.width, media.height, media.source) == (160, 120, "here")
    assert media.sha256 == hashlib.sha256(media.data).hexdigest()
    frames = decoded(tmp_path, media.data)
    assert len(frames) == 15
    assert all(psnr(a, b) > 30 for a, b in zip(frames, CLIP, strict=True))
    assert encode_mp4(CLIP, fps=2).data == media.data


@pytest.mark.parametrize("fps", [1, 2, 24, 29.97, 30])
def test_any_common_rate_has_variants(fps: float, tmp_path: Path) -> None:
    media = encode_mp4(CLIP, fps)
    assert media.variants >= 100_000
    assert len(decoded(tmp_path, media.variant(media.variants - 1))) == 15


@pytest.mark.parametrize("count", [1, 2, 15])
def test_every_variant_decodes_whole_to_another_clip(count: int, tmp_path: Path) -> None:
    media = encode_mp4(CLIP[:count], fps=2)
    assert media.variants >= 100_000
    numbers = numbers_to_try(media)
    original = decoded(tmp_path, media.data)
    seen: list[set[bytes]] = [set() for _ in range(count)]
    for number in numbers:
        data = media.variant(number)
        assert len(data) == len(media.data)
        frames = decoded(tmp_path, data)
        assert len(frames) == count
        for index, frame in enumerate(frames):
            assert frame.shape == (120, 160, 3)
            assert psnr(frame, original[index]) > 30
            seen[index].add(frame.tobytes())
    assert [len(of_frame) for of_frame in seen] == [len(numbers)] * count


def test_sites_are_aligned_and_apart() -> None:
    media = encode_mp4(CLIP, 2)
    for site in media.sites:
        assert site.offset % 3 == 0 and {len(o) for o in site.options} == {3}
        assert site.options[0] == media.data[site.offset : site.offset + 3]
    assert all(a.offset + 3 <= b.offset for a, b in itertools.pairwise(media.sites))


def test_a_flat_clip_has_one_variant(tmp_path: Path) -> None:
    media = encode_mp4([np.full((48, 64, 3), 90, np.uint8)] * 3, 2)
    assert media.variants == 1
    assert len(decoded(tmp_path, media.data)) == 3


def test_matrices_change_little_and_frames_not_at_all(tmp_path: Path) -> None:
    plain = written(tmp_path, CLIP)
    changed = mpeg4.with_matrices(plain)
    assert changed is not None
    assert len(changed.data) == len(plain) + 128
    frames = [m.start() for m in re.finditer(b"\0\0\1\xb6", plain)]
    assert len(frames) == 15
    index = plain.rindex(b"moov") - 4
    assert changed.data[:index] == plain[:index]
    pairs = zip(decoded(tmp_path, plain), decoded(tmp_path, changed.data), strict=True)
    assert min(psnr(a, b) for a, b in pairs) > 40


def test_the_header_reads_as_the_standard_says(tmp_path: Path) -> None:
    """The layer's bits, taken apart by hand for OpenCV's fixed choice of fields."""
    changed = mpeg4.with_matrices(written(tmp_path, CLIP, fps=2))
    assert changed is not None
    start = changed.data.index(b"\0\0\1\x20") + 4
    bits = "".join(f"{byte:08b}" for byte in changed.data[start : start + 160])
    fields = ["0", "00000001", "1", "0001", "001"]  # random access, type, identifier, version, prio
    fields += ["0001", "1", "01", "1", "0"]  # aspect, control: 4:2:0, low delay, no buffer figures
    fields += ["00", "1", f"{2:016b}", "1", "0"]  # rectangular, time resolution, no fixed rate
    fields += ["1", f"{160:013b}", "1", f"{120:013b}", "1"]  # sizes between markers
    fields += ["0", "1", "0", "0", "1"]  # not interlaced, no OBMC, no sprite, 8 bits, quant type
    head = "".join(fields)
    assert bits.startswith(head)
    at = len(head)
    assert bits[at] == "1"
    intra = [int(bits[at + 1 + 8 * k : at + 9 + 8 * k], 2) for k in range(64)]
    assert intra == list(mpeg4.INTRA)
    at += 1 + 512
    assert bits[at] == "1"
    assert [int(bits[at + 1 + 8 * k : at + 9 + 8 * k], 2) for k in range(64)] == [16] * 64
    # No complexity estimation, no resync markers, no data partitioning, not scalable.
    assert bits[at + 513 : at + 517] == "1100"
    assert [step.value for step in changed.steps] == list(mpeg4.INTRA[1:])
    for step in changed.steps:
        offset = step.bit - 8 * start
        assert int(bits[offset : offset + 8], 2) == mpeg4.INTRA[step.position]


def test_what_is_not_as_expected_is_left_alone(tmp_path: Path) -> None:
    plain = written(tmp_path, CLIP[:2])
    once = mpeg4.with_matrices(plain)
    assert once is not None
    assert mpeg4.with_matrices(once.data) is None  # has matrices already
    for data in (b"", b"text", plain[:-1], plain[:100], plain[100:]):
        assert mpeg4.with_matrices(data) is None
    layer = plain.index(b"\0\0\1\x20") + 4
    interlaced = 76  # bits before it, as in the test above
    broken = bytearray(plain)
    broken[layer + interlaced // 8] ^= 0x80 >> interlaced % 8
    assert mpeg4.with_matrices(bytes(broken)) is None
    predicted = bytearray(plain)
    predicted[plain.index(b"\0\0\1\xb6") + 4] |= 0x40  # the first frame is not intra
    assert mpeg4.with_matrices(bytes(predicted)) is None
    # The index first, as web servers like it: offsets to the frames would have to change.
    moov = plain.rindex(b"moov") - 4
    assert mpeg4.with_matrices(plain[:28] + plain[moov:] + plain[28:moov]) is None


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_damage_raises(data: st.DataObject) -> None:
    plain = bytearray(_PLAIN)
    first = _PLAIN.rindex(b"moov") - 4
    for _ in range(data.draw(st.integers(1, 4))):
        plain[data.draw(st.integers(first, len(plain) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(first, len(plain)))
    changed = mpeg4.with_matrices(bytes(plain[:cut]))
    assert changed is None or len(changed.data) == cut + 128


@pytest.mark.parametrize(
    ("size", "left"), [((65, 49), (64, 48)), ((64, 49), (64, 48)), ((2, 3), (2, 2))]
)
def test_odd_sides_lose_a_row_or_column(
    size: tuple[int, int], left: tuple[int, int], tmp_path: Path
) -> None:
    clip = video_frames(seeded(1), *size, 2)
    media = encode_mp4(clip, 2)
    assert (media.width, media.height) == left
    frames = decoded(tmp_path, media.data)
    assert [f.shape for f in frames] == [(left[1], left[0], 3)] * 2
    cut = clip[0][: left[1], : left[0]]
    assert psnr(frames[0], cut) > 25


def test_impossible_clips_are_named() -> None:
    for size, message in (((1, 9), "1x9 pixels"), ((8192, 2), "8192x2 pixels")):
        frame = np.zeros((size[1], size[0], 3), np.uint8)
        with pytest.raises(UsageError, match=message):
            encode_mp4([frame, frame], 2, source="x")
    with pytest.raises(UsageError, match="not no frames"):
        encode_mp4([], 2)
    with pytest.raises(UsageError, match="not 160x120, 160x121"):
        comma_jpeg([CLIP[0], np.zeros((121, 160, 3), np.uint8)])


def test_comma_jpeg_is_a_jpeg_a_frame() -> None:
    made = comma_jpeg(CLIP[:3], quality=85, source="clip")
    assert [m.mime for m in made] == ["image/jpeg"] * 3
    assert {(m.width, m.height, m.frames, m.source) for m in made} == {(160, 120, 1, "clip")}
    assert all(m.variants >= 100_000 for m in made)
    assert len({m.sha256 for m in made}) == 3


def _plain() -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        return written(Path(folder), CLIP[:2])


_PLAIN = _plain()
