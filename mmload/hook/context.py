"""Whose work this is: the request's id as a context variable, for as long as it is in the server.

Doors (`asgi.py`, `web.py`) say when a request comes and goes: `with Stay(name)`. Whoever stamps
asks `current_id`. Stdlib only; never raises.
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Final

request_id: ContextVar[str | None] = ContextVar("mmload_request_id", default=None)

_stay: Final[ContextVar["Stay | None"]] = ContextVar("mmload_stay", default=None)


class Stay:
    """A request's time in the server, between coming in at its door and leaving it by the same:
    `with Stay(name): ...`. The context variable cannot be taken back from tasks that the request
    has started: those that live on, for other requests' sake, are no longer recorded as its own.
    """

    __slots__ = ("_name", "_tokens", "is_over")

    def __init__(self, name: str) -> None:
        self._name = name
        self.is_over = False

    def __enter__(self) -> None:
        self._tokens = request_id.set(self._name), _stay.set(self)

    def __exit__(self, *_error: object) -> None:
        self.is_over = True
        name, stay = self._tokens
        with contextlib.suppress(ValueError):  # a coroutine that somebody else closes
            request_id.reset(name)
            _stay.reset(stay)


@contextlib.contextmanager
def working_for(name: str | None) -> Iterator[None]:
    """On a pool's thread: what was handed over while the request was in the server is its own to
    the end, even if its client has given up meanwhile."""
    tokens = request_id.set(name), _stay.set(None)
    try:
        yield
    finally:
        request_id.reset(tokens[0])
        _stay.reset(tokens[1])


def current_id() -> str | None:
    """The request of this context, as long as it is in the server."""
    stay = _stay.get()
    return None if stay is not None and stay.is_over else request_id.get()
