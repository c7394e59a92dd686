"""Strikes secrets out of what a server says, before it is written or shown.

Servers echo keys in errors and models repeat them. A text may have been cut in the middle of a
secret, or hold one part of a dotted token: those are struck out too.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from mmload.records import Record

STRUCK_OUT: Final = "[redacted]"
SHORTEST: Final = 4  # characters: shorter ones are no secrets, and are in every other word
SHORTEST_PART: Final = 16  # of a dotted token, such as a JWT
CUT: Final = "..."  # what stands at the end of a shortened text


class Redactor:
    """For one run's secrets. Without secrets it costs nothing."""

    def __init__(self, secrets: Iterable[str]) -> None:
        whole = {s for s in secrets if len(s) >= SHORTEST}
        parts = {p for s in whole for p in re.split(r"[^\w+/=-]", s) if len(p) >= SHORTEST_PART}
        self._secrets = sorted(whole | parts, key=len, reverse=True)

    def text(self, text: str) -> str:
        """The text without secrets."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, STRUCK_OUT)
            if secret[:SHORTEST] in text[-len(secret) - len(CUT) :]:
                text = _without_beginning(text, secret)
        return text

    def record(self, record: Record) -> None:
        """Strikes secrets out of every field that a server or the system wrote."""
        if not self._secrets:
            return
        record.message = self.text(record.message)
        record.answer = self.text(record.answer)
        if record.finish_reason is not None:
            record.finish_reason = self.text(record.finish_reason)
        if record.usage is not None:
            record.usage = self._any(record.usage)
        record.spans = [self.text(line) for line in record.spans]
        for attempt in record.attempts:
            attempt.message = self.text(attempt.message)

    def _any(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self._any(key): self._any(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._any(inner) for inner in value]
        return value


def _without_beginning(text: str, secret: str) -> str:
    """Without the beginning of the secret that the text, cut short, may end in."""
    body = text.removesuffix(CUT)
    for n in range(min(len(secret) - 1, len(body)), SHORTEST - 1, -1):
        if body.endswith(secret[:n]):
            return body[:-n] + STRUCK_OUT + text[len(body) :]
    return text
