"""Bodies: pieces equal the whole, every body distinct unless reuse is declared, reuse exact."""

import base64
import json
from collections import Counter

import numpy as np
import pytest

from mmload.errors import UsageError
from mmload.load.media import Media, Site
from mmload.load.payloads import Base, assign_classes, make_base, make_plan


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
    base = make_base(body("@0@", "@1@"), [("@0@", one), ("@1@", two)])
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
    base = make_base(b"--x\r\n@0@\r\n--x--", [("@0@", one)], raw=True)
    assert base.bytes(4) == b"--x\r\n" + one.variant(4) + b"\r\n--x--"


def test_a_body_without_media_is_itself() -> None:
    base = make_base(b'{"a":1}', [])
    assert base.pieces(0) == [b'{"a":1}'] and base.variants == 1 and base.length == 7


def classes(n: int) -> np.ndarray:
    return assign_classes([1, 1, 2], n, seed=3)


def test_classes_have_exact_shares_in_a_seeded_order() -> None:
    c = classes(101)
    assert Counter(c.tolist()) == {0: 25, 1: 25, 2: 51}
    assert c.tolist() == classes(101).tolist() != sorted(c.tolist())


def test_without_reuse_every_payload_is_distinct() -> None:
    plan = make_plan(classes(100), [[0], [1, 2], [3]], [50, 1, 30, 60], reuse=0.0, seed=1)
    assert plan.distinct() == 100
    pairs = set(zip(plan.base.tolist(), plan.variant.tolist(), strict=True))
    assert len(pairs) == 100
    assert all(v < [50, 1, 30, 60][b] for b, v in pairs)


@pytest.mark.parametrize("reuse", [0.1, 0.5, 0.9])
def test_reuse_is_exact_in_every_class(reuse: float) -> None:
    c = classes(400)
    plan = make_plan(c, [[0], [1], [2]], [1000, 1000, 1000], reuse=reuse, seed=1)
    for k, n in ((0, 100), (1, 100), (2, 200)):
        mine = plan.payload[c == k].tolist()
        repeats = sum(p in mine[:i] for i, p in enumerate(mine))
        assert repeats == round(reuse * n)
    assert plan.distinct() == 400 - 4 * round(reuse * 100)


def test_too_few_distinct_bodies_is_an_error_that_counts() -> None:
    with pytest.raises(UsageError, match="10 distinct bodies are needed, 4 can be made of 2 media"):
        make_plan(np.zeros(10, np.int32), [[0, 1]], [1, 3], reuse=0.0, seed=1)


def test_user_files_come_round_again() -> None:
    plan = make_plan(np.zeros(7, np.int32), [[0, 1, 2]], [1, 1, 1], reuse=None, seed=1)
    assert plan.base.tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert plan.payload.tolist() == [0, 1, 2, 0, 1, 2, 0]
