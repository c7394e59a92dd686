"""Media by URL: who serves them, where that is asked for."""

import ipaddress
from contextlib import AbstractContextManager, nullcontext

from mmload.errors import UsageError
from mmload.load.media.serve import MediaServer
from mmload.load.prepare.pool import MediaPool
from mmload.scenario import Scenario


def links(
    scenario: Scenario, pool: MediaPool, host: str
) -> AbstractContextManager[MediaServer | None]:
    """A server of the pool's media for as long as the context lasts; None where bodies hold them.

    Raises UsageError if `host`, where the load goes, is not this machine: it could not fetch.
    """
    if scenario.media_url is None:
        return nullcontext()
    if not _is_loopback(host):
        raise UsageError(
            f"--media-url serve: {host} cannot fetch from this machine's loopback",
            "give URLs that it can reach in a --dataset, or leave out --media-url",
        )
    return MediaServer(pool.media())


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
