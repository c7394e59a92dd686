"""Prompts and answers as tokens: chat template, tokenizer, what stands for a medium, and back.

In: a request and its decoded media. Out: token ids with one placeholder for each run of a medium's
tokens; `finish` repeats them once the processor knows how many. `OwnPrompts` uses the server's own
tokenizer, which is made up; `prompts_checkpoint.py` a checkpoint's. Layouts, one a `model_family`:

    plain     <start>PAD<end>: one run, also for videos; no real model has it
    qwen3-vl  a video: <start>, then for each two frames `<1.5 seconds>` <start>PAD<end>, <end>
    gemma-4   a video: for each frame `00:01 ` <start>PAD<end>, with blanks between

The last two are what transformers 5.24 makes of the families' templates
(`replace_video_token` in `qwen3_vl/processing_qwen3_vl.py`, `gemma4/processing_gemma4.py`).
"""

from collections.abc import Sequence
from typing import Final, Literal, Protocol

from mmload.processors.arithmetic import TEMPORAL, MediaKind
from mmload.server.inputs import Medium
from mmload.server.media import Decoded
from mmload.server.request import ServeRequest
from mmload.server.tokenizer import (
    IMAGE_PAD,
    VIDEO_PAD,
    Tokenizer,
    encode_chat,
    expand_placeholders,
    one_placeholder,
)

Layout = Literal["plain", "qwen3-vl", "gemma-4"]

_VIDEO: Final = one_placeholder("video")


class Prompts(Protocol):
    """Any number of threads may use one."""

    layout: Layout

    def encode(self, request: ServeRequest, media: Sequence[Decoded]) -> list[int]:
        """One placeholder a run. Raises ApiError for text that cannot be told from marks."""

    def finish(self, ids: Sequence[int], media: Sequence[Medium]) -> list[int]:
        """The prompt as the model gets it."""

    def decode(self, ids: Sequence[int]) -> str:
        """Text of an answer's tokens, without marks; U+FFFD for a character that is not whole."""


class OwnPrompts:
    """The server's own tokenizer and template."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.tokenizer = Tokenizer()
        special = self.tokenizer.special
        self._placeholders = frozenset((special[IMAGE_PAD], special[VIDEO_PAD]))
        self._marks = frozenset(special.values())

    def encode(self, request: ServeRequest, media: Sequence[Decoded]) -> list[int]:
        if not request.templated:
            return self.tokenizer.encode(request.text)
        texts = [medium_text(self.layout, m.kind, m.times_s) for m in media]
        return encode_chat(self.tokenizer, request.turns, texts)

    def finish(self, ids: Sequence[int], media: Sequence[Medium]) -> list[int]:
        counts = (count for medium in media for count in medium.runs)
        return expand_placeholders(ids, counts, self._placeholders)

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode([number for number in ids if number not in self._marks])


def medium_text(layout: Layout, kind: MediaKind, times_s: Sequence[float]) -> str:
    """What stands for a medium in the prompt, with one placeholder a run."""
    if kind == "image" or layout == "plain":
        return one_placeholder(kind)
    if layout == "gemma-4":
        return " ".join(f"{int(s // 60):02d}:{int(s % 60):02d} {_VIDEO}" for s in times_s)
    steps = "".join(f"<{s:.1f} seconds>{_VIDEO}" for s in pair_times_s(times_s))
    return _VIDEO.replace(VIDEO_PAD, steps)


def pair_times_s(times_s: Sequence[float]) -> list[float]:
    """The middle of each two frames; an odd last frame is its own pair."""
    firsts = times_s[::TEMPORAL]
    seconds = [*times_s[1::TEMPORAL], times_s[-1]]
    return [(a + b) / 2 for a, b in zip(firsts, seconds, strict=False)]


def steps_of(layout: Layout, kind: MediaKind, frames: int) -> int:
    """How many runs of placeholders `medium_text` has."""
    if kind == "image" or layout == "plain":
        return 1
    return frames if layout == "gemma-4" else -(-frames // TEMPORAL)


class Detokenizer:
    """Text out of an answer's tokens as they come: each call returns what the token completed.

    Tokens are decoded in the company of those before them, as some tokenizers drop a leading blank
    otherwise, and bytes that are the first part of a character wait for the rest.
    """

    def __init__(self, prompts: Prompts) -> None:
        self._prompts = prompts
        self._ids: list[int] = []
        self._context = 0  # where decoding starts
        self._told = 0  # tokens before this one have been told

    def add(self, number: int) -> str:
        self._ids.append(number)
        before = self._prompts.decode(self._ids[self._context : self._told])
        text = self._prompts.decode(self._ids[self._context :])
        if len(text) <= len(before) or text.endswith("\ufffd"):
            return ""
        self._context, self._told = self._told, len(self._ids)
        return text[len(before) :]

    def rest(self) -> str:
        """What never became whole, at the end of the answer."""
        before = self._prompts.decode(self._ids[self._context : self._told])
        return self._prompts.decode(self._ids[self._context :])[len(before) :]
