"""One JSON line a request on standard error: a witness for the client's numbers, independent of the
hook and of the client's clock.

`headers_ns` is CLOCK_MONOTONIC when the request's headers had been parsed; the durations run from
there. `first_token_ms` is when the first output was handed to the socket.
"""

import sys
from dataclasses import dataclass
from typing import Any

import msgspec

from mmload.clock import NS_PER_MS


@dataclass(slots=True)
class Access:
    """What is known of one request so far."""

    request_id: str
    path: str
    headers_ns: int
    status: int = 499  # nginx's code for a client that left
    first_token_ns: int | None = None
    body_bytes: int | None = None
    frames: int | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    error: str | None = None
    streaming: bool = False

    def line(self, end_ns: int) -> str:
        def ms(ns: int) -> float:
            return round((ns - self.headers_ns) / NS_PER_MS, 3)

        first_ns = self.first_token_ns
        fields: dict[str, Any] = {
            "request_id": self.request_id,
            "path": self.path,
            "status": self.status,
            "headers_ns": self.headers_ns,
            "first_token_ms": None if first_ns is None else ms(first_ns),
            "total_ms": ms(end_ns),
            "body_bytes": self.body_bytes,
            "frames": self.frames,
            "prompt_tokens": self.prompt_tokens,
            "output_tokens": self.output_tokens,
            "error": self.error,
        }
        known = {name: value for name, value in fields.items() if value is not None}
        return msgspec.json.encode(known).decode()

    def write(self, end_ns: int) -> None:
        print(self.line(end_ns), file=sys.stderr, flush=True)
