"""Bodies: variants are the files that media say, and bytes that are shared stand once."""

import base64
import hashlib
import json
from pathlib import Path

import numpy as np

from mmload.load.body_file import pack, unpack
from mmload.load.media import Media, Site
from mmload.load.payloads import (
    Base,
    FileStrand,
    LinkStrand,
    PayloadSet,
    Plan,
    file_strand,
    make_base,
)


def medium(name: str, size: int = 40, digits: tuple[int, ...] = (3, 2)) -> Media:
    """A made-up file with a site of 3 bytes a digit."""
    data = (name.encode() * size)[:size]
    sites = tuple(
        Site(3 + 9 * k, (data[3 + 9 * k : 6 + 9 * k], *(bytes([k, 0, d]) for d in range(1, n))))
        for k, n in enumerate(digits)
    )
    return Media("image", "image/jpeg", data, 8, 8, 1, name, "hash-" + name, sites)


def body(*tokens: str) -> bytes:
    return json.dumps({"parts": [f"data:image/jpeg;base64,{t}" for t in tokens]}).encode()


def images(base: Base, variant: int) -> list[bytes]:
    parts = json.loads(base.bytes(variant))["parts"]
    return [base64.b64decode(part.partition(",")[2]) for part in parts]


def test_every_variant_is_the_file_that_media_says() -> None:
    one, two = medium("abcdefg"), medium("hijklmnop", digits=(2, 2, 2))
    base = make_base(body("@0@", "@1@"), [("@0@", file_strand(one)), ("@1@", file_strand(two))])
    assert base.variants == 6
    seen = set()
    for v in range(base.variants):
        assert images(base, v) == [one.variant(v), two.variant(v)]
        assert len(base.bytes(v)) == base.length
        seen.add(base.bytes(v))
    assert len(seen) == 6
    assert images(base, 0) == [one.data, two.data]


def test_raw_bodies_hold_the_files_own_bytes() -> None:
    one = medium("abcdefg")
    base = make_base(b"--x\r\n@0@\r\n--x--", [("@0@", file_strand(one, raw=True))])
    assert base.bytes(4) == b"--x\r\n" + one.variant(4) + b"\r\n--x--"


def test_a_body_without_media_is_itself() -> None:
    base = make_base(b'{"a":1}', [])
    assert base.pieces(0) == [b'{"a":1}'] and base.variants == 1 and base.length == 7


def test_a_link_has_a_url_for_each_variant() -> None:
    link = LinkStrand(b"http://127.0.0.1:9/4/", b".jpeg", 1000)
    base = make_base(b'{"url":"@0@"}', [("@0@", link)])
    assert base.bytes(0) == b'{"url":"http://127.0.0.1:9/4/000000000000.jpeg"}'
    assert base.bytes(987) == b'{"url":"http://127.0.0.1:9/4/000000000987.jpeg"}'
    assert base.variants == 1000 and base.length == len(base.bytes(0))


def test_comma_frames_are_one_uri_of_several_files() -> None:
    one, two = medium("abc"), medium("xyz")
    base = make_base(body("@0@,@1@"), [("@0@", file_strand(one)), ("@1@", file_strand(two))])
    (uri,) = json.loads(base.bytes(5))["parts"]
    frames = uri.removeprefix("data:image/jpeg;base64,").split(",")
    assert [base64.b64decode(f) for f in frames] == [one.variant(5), two.variant(5)]


def two_questions() -> tuple[FileStrand, tuple[Base, ...]]:
    strand = file_strand(medium("abcdefg", size=3000))
    bodies = (b'{"m":"@0@","q":"one"}', b'{"m":"@0@","q":"another"}')
    return strand, tuple(make_base(b, [("@0@", strand)]) for b in bodies)


def test_bodies_that_show_the_same_share_its_bytes(tmp_path: Path) -> None:
    """3,000 bytes are 4,000 of base64, held once: with the texts `{"m":"` and the two ends."""
    strand, bases = two_questions()
    # The slots' own stretches (two of 4 characters) are not in the file.
    assert strand.length == 4000
    packed = pack(bases, tmp_path / "bodies")
    ends = len(b'","q":"one"}') + len(b'","q":"another"}')
    assert packed.size_bytes == 4000 - 8 + len(b'{"m":"') + ends
    plan = Plan(*(np.zeros(0, np.int64) for _ in range(5)))  # type: ignore[arg-type]
    assert PayloadSet(bases, plan).held_bytes() == 4000 + 2 * len(b'{"m":"') + ends


def test_workers_see_the_same_bodies_through_the_file(tmp_path: Path) -> None:
    link = make_base(b"[@0@]", [("@0@", LinkStrand(b"http://h/", b".png", 7))])
    bases = (*two_questions()[1], link, make_base(b"text", []))
    again = unpack(pack(bases, tmp_path / "bodies"), tmp_path / "bodies")
    for before, after in zip(bases, again, strict=True):
        assert (before.variants, before.length) == (after.variants, after.length)
        for v in range(before.variants):
            assert before.bytes(v) == after.bytes(v)


def test_the_manifest_hashes_whole_bodies_and_expects_by_payload() -> None:
    strand = file_strand(medium("abcdefg"))
    bases = (
        make_base(b"@0@ a", [("@0@", strand)], expected=["red"], metric="exact"),
        make_base(b"@0@ b", [("@0@", strand)]),
        make_base(b"c", [], expected=["1", "2"], metric="vqa"),
    )
    i64 = np.int64
    plan = Plan(
        media_class=np.zeros(5, np.int32),
        base=np.array([0, 1, 2, 0, 2], np.int32),
        variant=np.zeros(5, i64),
        payload=np.array([0, 1, 2, 0, -1], i64),  # the last is a warm-up request
        shown=np.zeros(5, i64),
    )
    made = PayloadSet(bases, plan)
    hashes = [hashlib.sha256(base.bytes(0)).hexdigest() for base in bases]
    assert [line["body_sha256"] for line in made.manifest()] == hashes
    assert list(made.expected()) == [
        {"payload": 0, "expected": ["red"], "metric": "exact"},
        {"payload": 2, "expected": ["1", "2"], "metric": "vqa"},
    ]
