"""Fetches media that a request names by URL, from loopback addresses only.

The embedded server is a target for load tests on one machine: it must not be a way to other hosts.
So the host must be `localhost` or a loopback address, and redirects are refused.
"""

import ipaddress
from types import TracebackType

import aiohttp
import yarl

from mmload.server.request import MediaError

TIMEOUT_S = 10.0


class LoopbackFetcher:
    """`get` raises MediaError. Makes its session at first use; `close` it at the end."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._session: aiohttp.ClientSession | None = None

    async def get(self, url: str) -> bytes:
        """The body of a 200, at most `max_bytes`."""
        shown = url[:200]
        if not _is_loopback(url):
            raise MediaError(f"media are fetched from loopback addresses only, not {shown!r}")
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
            self._session = aiohttp.ClientSession(timeout=timeout)
        try:
            async with self._session.get(url, allow_redirects=False) as response:
                if response.status != 200:
                    raise MediaError(f"fetching {shown!r} gave HTTP {response.status}")
                data = await response.content.read(self._max_bytes + 1)
                while len(data) <= self._max_bytes and not response.content.at_eof():
                    data += await response.content.read(self._max_bytes + 1 - len(data))
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            words = str(error) or type(error).__name__
            raise MediaError(f"fetching {shown!r} failed: {words}") from error
        if len(data) > self._max_bytes:
            raise MediaError(f"{shown!r} is larger than {self._max_bytes} bytes")
        return data

    async def __aenter__(self) -> "LoopbackFetcher":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()


def _is_loopback(url: str) -> bool:
    try:
        host = yarl.URL(url).host
        return host == "localhost" or (host is not None and ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False
