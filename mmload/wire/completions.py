"""OpenAI completions, streaming: a prompt without chat template and without media.

For servers of base models, and as the light side of a comparison. Usage, ends and errors are those
of chat completions; output is the first non-empty `text`.
"""

from typing import Any

from mmload.records import Record
from mmload.wire.base import TEXT_ALONE, Api, Ask
from mmload.wire.chat import ChatReader, streaming_body


class CompletionsApi(Api):
    """`POST /v1/completions`."""

    name = "completions"
    path = "/completions"
    accepts = TEXT_ALONE

    def body(self, ask: Ask) -> bytes:
        earlier = [f"{turn.prompt}\n{turn.answer}\n" for turn in ask.history]
        return streaming_body(ask, prompt="".join([*earlier, ask.prompt]))

    def reader(self, record: Record) -> "CompletionsReader":
        return CompletionsReader(record)


class CompletionsReader(ChatReader):
    """Reads `text_completion` objects, which have the same form streamed and whole."""

    def deltas(self, choice: dict[str, Any], now_ns: int) -> None:
        if text := choice.get("text"):
            self.output(text, now_ns)
