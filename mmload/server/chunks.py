"""What the streams of OpenAI's two older APIs share: who answers, usage if asked for, `[DONE]`."""

from typing import ClassVar

from mmload.server.fields import event, openai_usage
from mmload.server.request import ServeRequest, Usage


class ChunkWriter:
    """Base of the writers; a subclass gives the form of its objects."""

    stream_type = "text/event-stream; charset=utf-8"
    whole_type = "application/json"
    id_prefix: ClassVar[str]
    object_name: ClassVar[str]  # of a streamed object

    def __init__(self, request: ServeRequest, model: str, created_s: int) -> None:
        self._with_usage = request.stream_usage
        self._about = {
            "id": f"{self.id_prefix}-{request.request_id}",
            "object": self.object_name,
            "created": created_s,
            "model": model,
        }

    def ending(self, usage: Usage) -> bytes:
        """What follows the object with the finish reason."""
        out = b""
        if self._with_usage:
            out = event({**self._about, "choices": [], "usage": openai_usage(usage)})
        return out + b"data: [DONE]\n\n"
