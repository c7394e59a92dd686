"""Prompts and answers as a Qwen3-VL checkpoint folder has them: its tokenizer and its template.

The whole prompt is written out by the template, videos get their times, and then it is tokenised at
once, as transformers' own processor does. The text of a request is not told from marks: a user who
writes `<|image_pad|>` is refused, as there is no image for it. Needs transformers; reads nothing
but the folder.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from mmload.errors import UsageError
from mmload.server.inputs import Medium
from mmload.server.media import Decoded
from mmload.server.prompts import Layout, medium_text
from mmload.server.request import ApiError, MediaPart, ServeRequest
from mmload.server.tokenizer import IMAGE_PAD, VIDEO_PAD, expand_placeholders, one_placeholder

_MEDIUM: Final = re.compile(f"{re.escape(IMAGE_PAD)}|{re.escape(VIDEO_PAD)}")


class CheckpointPrompts:
    """`Prompts` of the folder at `path`. Raises UsageError for a folder without its parts."""

    layout: Layout = "qwen3-vl"

    def __init__(self, path: Path) -> None:
        from transformers import AutoTokenizer

        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(path, local_files_only=True)
        except (OSError, ValueError) as error:
            raise UsageError(
                f"--model-path {path}: no tokenizer could be read: {str(error).splitlines()[0]}",
                "give a folder with tokenizer.json and tokenizer_config.json",
            ) from error
        if self._tokenizer.chat_template is None:
            raise UsageError(
                f"--model-path {path}: its tokenizer has no chat template",
                "add the checkpoint's chat_template.jinja to the folder",
            )
        self._placeholders = frozenset(
            self._tokenizer.convert_tokens_to_ids(mark) for mark in (IMAGE_PAD, VIDEO_PAD)
        )

    def encode(self, request: ServeRequest, media: Sequence[Decoded]) -> list[int]:
        return self._ids(self._text(request, media))

    def finish(self, ids: Sequence[int], media: Sequence[Medium]) -> list[int]:
        counts = [count for medium in media for count in medium.runs]
        return expand_placeholders(ids, counts, self._placeholders)

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def _text(self, request: ServeRequest, media: Sequence[Decoded]) -> str:
        if _MEDIUM.search(request.text):
            raise ApiError(400, "the text holds marks that stand for media")
        if not request.templated:
            return request.text
        messages = [
            {"role": turn.role, "content": [_part(part) for part in turn.parts]}
            for turn in request.turns
        ]
        try:
            text: str = self._tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True
            )
        except Exception as error:  # a template raises what it likes, of a role it does not know
            raise ApiError(400, f"the chat template refuses the messages: {error}") from error
        written = len(_MEDIUM.findall(text))
        if written != len(media):
            raise ApiError(400, f"the chat template has places for {written} of {len(media)} media")
        remaining = iter(media)

        def times(found: re.Match[str]) -> str:
            medium = next(remaining)
            whole = medium_text(self.layout, medium.kind, medium.times_s)
            before, after = one_placeholder(medium.kind).split(found[0])
            return whole.removeprefix(before).removesuffix(after)  # the template wrote those

        return _MEDIUM.sub(times, text)

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids


def _part(part: str | MediaPart) -> dict[str, str]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": part.kind}
