"""What stands for a medium in each family's prompt, and an answer's text out of its tokens."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmload.server.inputs import Medium
from mmload.server.media import Decoded
from mmload.server.prompts import Detokenizer, Layout, OwnPrompts, medium_text, steps_of
from mmload.server.request import ServeRequest

A, Z = "<|vision_start|>", "<|vision_end|>"
VIDEO = f"{A}<|video_pad|>{Z}"


@pytest.mark.parametrize("layout", ["plain", "qwen3-vl", "gemma-4"])
def test_an_image_is_one_run(layout: Layout) -> None:
    assert medium_text(layout, "image", (0.0,)) == f"{A}<|image_pad|>{Z}"
    assert steps_of(layout, "image", 1) == 1


def test_a_video_of_each_family() -> None:
    times_s = (0.0, 0.5, 61.0)
    assert medium_text("plain", "video", times_s) == VIDEO
    # pairs: the middle of 0 and 0.5 (0.25 to even tenths), and the last frame twice
    pairs = f"<0.2 seconds>{VIDEO}<61.0 seconds>{VIDEO}"
    assert medium_text("qwen3-vl", "video", times_s) == f"{A}{pairs}{Z}"
    frames = f"00:00 {VIDEO} 00:00 {VIDEO} 01:01 {VIDEO}"
    assert medium_text("gemma-4", "video", times_s) == frames


@pytest.mark.parametrize("layout", ["plain", "qwen3-vl", "gemma-4"])
@pytest.mark.parametrize("frames", [2, 3, 15])
def test_every_run_has_its_placeholder(layout: Layout, frames: int) -> None:
    text = medium_text(layout, "video", [i / 2 for i in range(frames)])
    assert text.count("<|video_pad|>") == steps_of(layout, "video", frames)


def test_runs_are_filled_in_their_order() -> None:
    prompts = OwnPrompts("qwen3-vl")
    special = prompts.tokenizer.special
    image, video = special["<|image_pad|>"], special["<|video_pad|>"]
    media = [Medium("image", (1, 2, 4), 2), Medium("video", (2, 2, 6), 6, 2)]
    assert [m.runs for m in media] == [[2], [3, 3]]
    ids = prompts.finish([1, image, 2, video, 3, video, 4], media)
    assert ids == [1, image, image, 2, video, video, video, 3, video, video, video, 4]


class Letters:
    """A tokenizer whose tokens are single bytes, which decodes without a leading blank."""

    layout: Layout = "plain"

    def encode(self, request: ServeRequest, media: Sequence[Decoded]) -> list[int]:
        raise AssertionError

    def finish(self, ids: Sequence[int], media: Sequence[Medium]) -> list[int]:
        raise AssertionError

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(ids).decode("utf-8", "replace").removeprefix(" ")


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd")))
def test_pieces_add_up_to_the_text(text: str) -> None:
    words = Detokenizer(Letters())
    pieces = [words.add(byte) for byte in text.encode()]
    assert "".join(pieces) + words.rest() == text.removeprefix(" ")
    assert not any("\ufffd" in piece for piece in pieces)


def test_half_a_character_is_told_at_the_end() -> None:
    words = Detokenizer(Letters())
    assert [words.add(byte) for byte in b"a\xc3"] == ["a", ""]
    assert words.rest() == "\ufffd"
