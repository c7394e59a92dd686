"""OpenAI completions: a prompt as it is, without chat template and media, streaming or not.

See `api.py` for the contract.
"""

from typing import Any, Final

import msgspec

from mmload.server.chunks import ChunkWriter
from mmload.server.engine import Token
from mmload.server.fields import (
    check_model,
    event,
    openai_error,
    openai_usage,
    positive,
    read_object,
    wants_usage,
)
from mmload.server.request import ApiError, ServeRequest, Turn, Usage
from mmload.server.settings import ServerSettings

DEFAULT_MAX_TOKENS: Final = 16  # OpenAI's


class Completions:
    """The API; stateless."""

    path = "/v1/completions"

    def parse(
        self, body: bytes, content_type: str, request_id: str, settings: ServerSettings
    ) -> ServeRequest:
        fields = read_object(body)
        check_model(fields.get("model"), settings)
        prompt = fields.get("prompt")
        if isinstance(prompt, list) and len(prompt) == 1:
            [prompt] = prompt
        if not isinstance(prompt, str) or not prompt:
            raise ApiError(400, "prompt: must be a string, or a list of one")
        if fields.get("n") not in (None, 1):
            raise ApiError(400, "n: only 1 is supported")
        return ServeRequest(
            request_id=request_id,
            turns=(Turn("user", (prompt,)),),
            templated=False,
            max_tokens=positive("max_tokens", fields.get("max_tokens"), DEFAULT_MAX_TOKENS),
            ignore_end=fields.get("ignore_eos") is True,
            stream=fields.get("stream") is True,
            stream_usage=wants_usage(fields),
        )

    def writer(
        self, request: ServeRequest, settings: ServerSettings, created_s: int
    ) -> "CompletionsWriter":
        return CompletionsWriter(request, settings.model, created_s)

    def error(self, error: ApiError) -> bytes:
        return openai_error(error)


class CompletionsWriter(ChunkWriter):
    """`text_completion` objects: one a token, finish, usage if asked for, `[DONE]`."""

    id_prefix = "cmpl"
    object_name = "text_completion"

    def first(self, usage: Usage) -> bytes:
        return b""

    def token(self, token: Token) -> bytes:
        return event(self._answer(token.text, None))

    def last(self, usage: Usage, finish_reason: str) -> bytes:
        return event(self._answer("", finish_reason)) + self.ending(usage)

    def whole(self, text: str, usage: Usage, finish_reason: str) -> bytes:
        answer = self._answer(text, finish_reason)
        return msgspec.json.encode({**answer, "usage": openai_usage(usage)})

    def _answer(self, text: str, finish_reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason}
        return {**self._about, "choices": [choice]}
