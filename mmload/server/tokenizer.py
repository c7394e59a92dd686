"""The embedded server's tokenizer and chat template: real work on the text, made up here.

Bytes are the alphabet, and frequent English pieces are merged greedily, longest first, within words
(a word takes its leading space along, as in byte-level BPE). Any text comes back from its tokens.
The template is ChatML with Qwen's marks around media; the processor replaces each medium's single
placeholder by as many as the medium has merged patches. No model was trained on this.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from mmload.processors.arithmetic import MediaKind
from mmload.server.request import Turn

IMAGE_PAD: Final = "<|image_pad|>"
VIDEO_PAD: Final = "<|video_pad|>"
SPECIAL: Final = (
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    IMAGE_PAD,
    VIDEO_PAD,
)

_PIECES: Final = (
    " the| of| and| to| in| is| that| it| for| was| on| are| as| with| his| they| at| be| this|"
    " have| from| or| one| had| by| not| but| what| all| were| we| when| your| can| said| there|"
    " use| an| each| which| she| do| how| their| if| will| up| other| about| out| many| then|"
    " them| these| so| some| her| would| make| like| him| into| time| has| look| two| more|"
    " write| see| number| no| way| could| people| my| than| first| been| call| who| its| now|"
    " find| long| down| day| image| video| picture| frame| describe| does| show|"
    "user|assistant|system|"
    "ing|tion|ment|ness|able|less|ful|est|er|ed|es|ly|th|he|in|an|re|on|en|at|or|is|it|al|ar|st|"
    "te|se|le|ve|me|de|ra|ro|ri|la|li|ti|co|ca|ma|pa|un|ex|con|pro|com|per|dis|for|ter|ent|ate"
)

_WORD: Final = re.compile(r" ?[^\W\d_]+| ?\d{1,3}| ?[^\w\s]+|\s+|_+")
_MARK: Final = re.compile("|".join(re.escape(mark) for mark in SPECIAL))


class Tokenizer:
    """Stateless after construction: any number of threads may use one."""

    def __init__(self) -> None:
        singles = [bytes([value]) for value in range(256)]
        pieces = sorted({piece.encode() for piece in _PIECES.split("|")})
        self._bytes: list[bytes] = [*singles, *pieces]
        self._ids = {piece: number for number, piece in enumerate(self._bytes)}
        self._longest = max(len(piece) for piece in pieces)
        self.special = {mark: len(self._bytes) + i for i, mark in enumerate(SPECIAL)}
        self._marks = {number: mark.encode() for mark, number in self.special.items()}
        self.size = len(self._bytes) + len(SPECIAL)

    def encode(self, text: str, *, marks: bool = False) -> list[int]:
        """Token ids. `marks`: the special marks in the text are single tokens; else plain text, so
        that a user's text cannot forge them."""
        if not marks:
            return list(self._plain(text))
        ids: list[int] = []
        at = 0
        for mark in _MARK.finditer(text):
            ids.extend(self._plain(text[at : mark.start()]))
            ids.append(self.special[mark.group()])
            at = mark.end()
        ids.extend(self._plain(text[at:]))
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        data = b"".join(self._marks.get(i) or self._bytes[i] for i in ids)
        return data.decode("utf-8", "replace")

    def _plain(self, text: str) -> Iterable[int]:
        at = 0
        for word in _WORD.finditer(text):
            if word.start() > at:
                yield from text[at : word.start()].encode("utf-8", "replace")
            yield from self._word(word.group().encode("utf-8", "replace"))
            at = word.end()
        yield from text[at:].encode("utf-8", "replace")

    def _word(self, word: bytes) -> Iterable[int]:
        at = 0
        while at < len(word):
            for end in range(min(len(word), at + self._longest), at, -1):
                number = self._ids.get(word[at:end])
                if number is not None:
                    yield number
                    at = end
                    break


def one_placeholder(kind: MediaKind) -> str:
    """What stands for a medium where its patches are one run of placeholders."""
    pad = IMAGE_PAD if kind == "image" else VIDEO_PAD
    return f"<|vision_start|>{pad}<|vision_end|>"


def encode_chat(
    tokenizer: Tokenizer, turns: Sequence[Turn], media: Iterable[str] | None = None
) -> list[int]:
    """The prompt's tokens by the chat template. `media`: what stands for each medium, with one
    placeholder a run; else `one_placeholder`."""
    texts = None if media is None else iter(media)
    ids: list[int] = []
    for turn in turns:
        ids.extend(tokenizer.encode(f"<|im_start|>{turn.role}\n", marks=True))
        for part in turn.parts:
            if isinstance(part, str):
                ids.extend(tokenizer.encode(part))
            else:
                text = one_placeholder(part.kind) if texts is None else next(texts)
                ids.extend(tokenizer.encode(text, marks=True))
        ids.extend(tokenizer.encode("<|im_end|>\n", marks=True))
    ids.extend(tokenizer.encode("<|im_start|>assistant\n", marks=True))
    return ids


def expand_placeholders(
    ids: Sequence[int], counts: Iterable[int], placeholders: frozenset[int]
) -> list[int]:
    """Repeats the n-th placeholder `counts[n]` times: the processor's prompt update."""
    remaining = iter(counts)
    out: list[int] = []
    for number in ids:
        if number in placeholders:
            out.extend([number] * next(remaining))
        else:
            out.append(number)
    return out
