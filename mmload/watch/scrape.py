"""The server's own /metrics, once a tick: a GET with a time-out, and a handful of values.

In: a target. Out: values by the keys of `names`. An answer that is no Prometheus text (mlx-vlm's
is JSON), or that holds nothing known, ends the scraping with a sentence.
"""

import asyncio
from typing import Final

from mmload.load.control import get
from mmload.load.target import Target
from mmload.load.transport import Address
from mmload.watch.names import chosen
from mmload.watch.sampler import SourceFailed

TIMEOUT_S: Final = 0.9
SERVER: Final = "server"


class Scrape:
    """A `Source`."""

    name = SERVER

    def __init__(self, target: Target, address: Address, path: str) -> None:
        self._target, self._address, self._path = target, address, path
        self._runner: asyncio.Runner | None = None

    def read(self) -> dict[str, float]:
        if self._runner is None:
            self._runner = asyncio.Runner()
        answer = self._runner.run(get(self._target, self._address, self._path, TIMEOUT_S))
        if answer.failure:
            raise SourceFailed(answer.failure)
        if answer.status != 200:
            gone = 400 <= answer.status < 500 and answer.status != 429
            raise SourceFailed(f"HTTP {answer.status}", final=gone)
        if answer.body.lstrip()[:1] in (b"{", b"["):
            raise SourceFailed("it is JSON, not Prometheus' text", final=True)
        values = chosen(answer.body.decode("utf-8", "replace"))
        if not values:
            raise SourceFailed("it has none of the metrics that mmload knows", final=True)
        return values

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()
