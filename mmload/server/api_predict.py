"""A bare `/predict`, as FastVLM's server on a CPU has it: a form in, plain text out, streamed.

Fields: `image` (a file) and `prompt`. No model name, no limits: the model ends its answer itself.
Errors are FastAPI's. See `api.py` for the contract.
"""

import msgspec

from mmload.server.engine import Token
from mmload.server.multipart import form_fields
from mmload.server.request import ApiError, MediaPart, ServeRequest, Turn, Usage
from mmload.server.settings import ServerSettings


class Predict:
    """The API; stateless."""

    path = "/predict"

    def parse(
        self, body: bytes, content_type: str, request_id: str, settings: ServerSettings
    ) -> ServeRequest:
        try:
            fields = form_fields(body, content_type)
        except ValueError as error:
            raise ApiError(422, str(error)) from error
        images = [field for field in fields if field.name == "image" and field.is_file]
        prompts = [field for field in fields if field.name == "prompt" and not field.is_file]
        if len(images) != 1:
            raise ApiError(422, f"image: must be given as a file, once, not {len(images)} times")
        if len(prompts) != 1:
            raise ApiError(422, f"prompt: must be given once, not {len(prompts)} times")
        image = MediaPart("image", data=images[0].data)
        return ServeRequest(
            request_id=request_id,
            turns=(Turn("user", (image, prompts[0].data.decode("utf-8", "replace"))),),
            max_tokens=settings.max_tokens_limit,
            stream=True,
        )

    def writer(
        self, request: ServeRequest, settings: ServerSettings, created_s: int
    ) -> "PredictWriter":
        return PredictWriter()

    def error(self, error: ApiError) -> bytes:
        return msgspec.json.encode({"detail": error.message})


class PredictWriter:
    """The answer's text and nothing else."""

    stream_type = "text/plain; charset=utf-8"
    whole_type = "text/plain"

    def first(self, usage: Usage) -> bytes:
        return b""

    def token(self, token: Token) -> bytes:
        return token.text.encode()

    def last(self, usage: Usage, finish_reason: str) -> bytes:
        return b""

    def whole(self, text: str, usage: Usage, finish_reason: str) -> bytes:
        return text.encode()
