"""Bodies for every API: the same media in each one's own form, or a clear refusal."""

from typing import Any

import pytest

from mmload.errors import UsageError
from mmload.load.media.serve import MediaServer
from mmload.load.payloads import file_strand
from tests.unit.bodies import Made


def piece_of(made: Made, i: int, *, raw: bool) -> bytes:
    """What a body must hold of its medium: the chosen variant's bytes."""
    plan = made.payloads.plan
    medium = made.pool.sets[int(i)].media[0]
    out: list[bytes | memoryview] = []
    file_strand(medium, raw=raw).add(out, int(plan.variant[i]))  # type: ignore[arg-type]
    return b"".join(out)


@pytest.mark.parametrize("api", ["chat", "responses", "messages", "predict"])
def test_each_api_carries_its_own_variant(api: str) -> None:
    made = Made(api=api, requests=6)
    for i in range(6):
        body = made.bytes(i)
        assert piece_of(made, i, raw=api == "predict") in body and b"@@mmload" not in body
    assert len({made.bytes(i) for i in range(6)}) == 6


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
def test_urls_and_turns_in_each_api_that_has_them(api: str, links: MediaServer) -> None:
    made = Made(links, api=api, requests=4, turns=2, qps=1, think_time=9)
    urls = [
        made.bytes(i).partition(b"http://127.0.0.1:")[2].partition(b".jpeg")[0] for i in range(4)
    ]
    assert urls[0] == urls[2] and urls[1] == urls[3] and len(set(urls)) == 2


@pytest.fixture
def links() -> Any:
    """The pictures of any scenario of two requests with seed 0: they do not depend on the API."""
    with MediaServer(Made(requests=2).pool.media()) as server:
        yield server


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"api": "messages", "detail": "low", "requests": 1}, "--detail: --api messages has no"),
        ({"api": "predict", "turns": 2, "qps": 1, "duration": 1}, "has no conversations"),
        ({"api": "predict", "frames": 0}, "one image a request"),
        ({"api": "completions"}, "text alone"),
        ({"api": "messages", "frames": 3}, "not videos|not a video"),
        ({"api": "responses", "frames": 3, "as_": "jpeg-frames"}, "not videos|not a video"),
    ],
)
def test_what_an_api_cannot_carry_is_said(values: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Made(**values)
