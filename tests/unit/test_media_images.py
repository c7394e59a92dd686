"""Image files, and JPEG variants: valid, as long, and other pixels each time."""

import hashlib
import itertools
import math

import numpy as np
import pytest

from mmload.errors import UsageError
from mmload.load.media import Media, images
from mmload.load.media.images import ImageFormat, encode, jpeg_sites
from mmload.load.media.opencv import Pixels, cv2
from mmload.load.media.synthetic import image_pixels, seeded


def decoded(data: bytes) -> Pixels:
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    assert pixels is not None
    return np.asarray(pixels, np.uint8)


def psnr(a: Pixels, b: Pixels) -> float:
    error = float(np.mean((a.astype(float) - b.astype(float)) ** 2))
    return math.inf if error == 0 else 10 * math.log10(255**2 / error)


def poster() -> Pixels:
    """Sharp print on smooth paper: of all real pictures, the least like the synthetic ones."""
    x, y = np.meshgrid(np.linspace(0, 1, 320), np.linspace(0, 1, 240))
    paper = np.stack([200 + 40 * x, 190 + 50 * y, 150 + 80 * x * y], 2).astype(np.uint8)
    for line in range(9):
        words = f"line {line}: 0123456789 open loop"
        cv2.putText(paper, words, (8, 24 + 25 * line), cv2.FONT_HERSHEY_SIMPLEX, 0.6, (30, 20, 40))
    cv2.circle(paper, (250, 120), 50, (40, 90, 200), -1, cv2.LINE_AA)
    return paper


def as_media(data: bytes) -> Media:
    return Media("image", "image/jpeg", data, 1, 1, 1, "test", "", jpeg_sites(data))


PICTURES = {
    "synthetic": image_pixels(seeded(1), 427, 240),
    "small": image_pixels(seeded(2), 96, 96),
    "poster": poster(),
}


@pytest.mark.parametrize("fmt", images.FORMATS)
def test_encode_describes_what_it_made(fmt: ImageFormat) -> None:
    pixels = PICTURES["small"][:60]
    media = encode(pixels, fmt, source="here")
    assert (media.kind, media.mime, media.frames) == ("image", f"image/{fmt}", 1)
    assert (media.width, media.height, media.source) == (96, 60, "here")
    assert media.sha256 == hashlib.sha256(media.data).hexdigest()
    back = decoded(media.data)
    assert back.shape == pixels.shape and psnr(back, pixels) > 28
    assert np.array_equal(back, pixels) == (fmt == "png")
    assert (media.variants > 1) == (fmt == "jpeg")


def test_quality_moves_the_size() -> None:
    for fmt in ("jpeg", "webp"):
        sizes = [len(encode(PICTURES["small"], fmt, q).data) for q in (30, 85, 95)]
        assert sizes == sorted(sizes) and sizes[0] * 2 < sizes[2]


def test_a_size_that_the_format_cannot_hold_is_named() -> None:
    wide = np.zeros((1, 70_000, 3), np.uint8)
    for fmt in ("jpeg", "webp"):
        with pytest.raises(UsageError, match=f"cannot be made a {fmt} of 70000x1"):
            encode(wide, fmt)


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("quality", [50, 85, 95])
def test_every_variant_is_another_picture_much_like_the_first(name: str, quality: int) -> None:
    media = encode(PICTURES[name], quality=quality)
    assert media.variants >= 100_000
    # Every option of every site alone, neighbours, the last, and numbers far apart.
    alone, weight = [], 1
    for site in media.sites:
        alone += [digit * weight for digit in range(1, len(site.options))]
        weight *= len(site.options)
    spread = [n * 99_991 % media.variants for n in range(1, 30)]
    numbers = {0, media.variants - 1, *range(40), *alone, *spread}
    original = decoded(media.data)
    seen = set()
    for number in numbers:
        data = media.variant(number)
        assert len(data) == len(media.data)
        picture = decoded(data)
        assert picture.shape == original.shape
        assert psnr(picture, original) > 30
        seen.add(hashlib.sha256(picture.tobytes()).digest())
    assert len(seen) == len(numbers)
    assert decoded(media.variant(0)).tobytes() == original.tobytes()


def test_variants_stay_apart_when_a_server_scales_the_picture_down() -> None:
    media = encode(PICTURES["synthetic"])
    for scale in (2, 4):
        size = (427 // scale, 240 // scale)
        small = {
            cv2.resize(decoded(media.variant(n)), size, interpolation=cv2.INTER_AREA).tobytes()
            for n in range(64)
        }
        assert len(small) == 64


def test_only_luma_steps_change() -> None:
    media = encode(PICTURES["synthetic"])
    first = media.data.index(b"\xff\xdb")
    steps = range(first + 5, first + 5 + 64)  # after marker, length, table number
    last = media.variant(media.variants - 1)
    changed = [i for i in range(len(last)) if last[i] != media.data[i]]
    assert set(changed) <= set(steps) and len(changed) >= 9
    assert all(site.offset % 3 == 0 and len(site.options[0]) == 3 for site in media.sites)
    pairs = itertools.pairwise(media.sites)
    assert all(a.offset + 3 <= b.offset for a, b in pairs)


@pytest.mark.parametrize(
    "flags",
    [
        [cv2.IMWRITE_JPEG_PROGRESSIVE, 1],
        [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444],
        [cv2.IMWRITE_JPEG_RST_INTERVAL, 4],
    ],
)
def test_other_kinds_of_jpeg_vary_too(flags: list[int]) -> None:
    _, encoded = cv2.imencode(".jpg", PICTURES["synthetic"], [*flags, cv2.IMWRITE_JPEG_QUALITY, 85])
    media = as_media(encoded.tobytes())
    assert media.variants >= 100_000
    first = decoded(media.data)
    last = decoded(media.variant(media.variants - 1))
    assert not np.array_equal(first, last) and psnr(first, last) > 30


def test_grey_varies() -> None:
    media = encode(PICTURES["synthetic"][..., 1])
    assert media.variants >= 100_000
    assert len({decoded(media.variant(n)).tobytes() for n in range(8)}) == 8


def test_steps_are_judged_as_stored_whatever_the_exif_rotation() -> None:
    data = encode(PICTURES["synthetic"]).data
    tiff = b"MM\0*\0\0\0\x08" + b"\0\x01" + b"\x01\x12\0\x03\0\0\0\x01\0\x06\0\0" + bytes(4)
    app1 = b"Exif\0\0" + tiff
    size = len(app1) + 2
    padding = b"\xff\xe0\0\x03\0" if (size + 2) % 3 else b""
    turned = data[:2] + b"\xff\xe1" + size.to_bytes(2, "big") + app1 + padding + data[2:]
    assert decoded(turned).shape == (427, 240, 3)  # OpenCV follows the note
    shift = len(turned) - len(data)
    if shift % 3 == 0:
        assert jpeg_sites(turned) == tuple(
            type(s)(s.offset + shift, s.options) for s in jpeg_sites(data)
        )
    assert as_media(turned).variants >= 100_000


def test_what_cannot_be_judged_has_no_sites() -> None:
    plain = encode(PICTURES["synthetic"]).data
    at = plain.index(b"\xff\xdb")
    table = plain[at + 4 : at + 69]
    assert jpeg_sites(plain)
    # The same table with 16-bit steps; then a second definition of it; then an RGB marker.
    wide = b"\x10" + b"".join(b"\0" + bytes([q]) for q in table[1:])
    wide_file = plain[:at] + b"\xff\xdb\0\x83" + wide + plain[at + 69 :]
    assert np.array_equal(decoded(wide_file), decoded(plain))
    twice = plain[:at] + plain[at : at + 69] + plain[at:]
    assert np.array_equal(decoded(twice), decoded(plain))
    rgb = plain[:2] + b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\0" + plain[2:]
    for data in (wide_file, twice, rgb, plain[:300], plain[:2], b"", b"text", plain[:at] + b"\xff"):
        assert jpeg_sites(data) == ()
    assert encode(np.full((64, 64, 3), 90, np.uint8)).variants == 1
    assert encode(np.full((4, 4, 3), 90, np.uint8)).variants == 1
