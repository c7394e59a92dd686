"""The limit of open files against what the load may need: raised where it can be, else said.

Every request under way has a connection, which is an open file. Open loop sends whatever the server
does, so all requests that fall within one timeout may be under way at once.
"""

import contextlib
import resource
from typing import Final

import numpy as np

from mmload.load.schedule import Times

RESERVED: Final = 48  # files that a worker has open besides its connections, with room to spare


def most_in_flight(intended_ns: Times, timeout_ns: int, cap: int | None = None) -> int:
    """How many requests of an open loop may be under way at once: those within one timeout."""
    if not len(intended_ns):
        return 0
    ends = np.searchsorted(intended_ns, intended_ns + timeout_ns, side="right")
    most = int((ends - np.arange(len(intended_ns))).max())
    return most if cap is None else min(most, cap)


def allow(connections: int) -> None:
    """Raises this process's soft limit, which its children inherit, as far as it may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + RESERVED
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY:
        needed = min(needed, hard)
    with contextlib.suppress(OSError, ValueError):  # macOS refuses some values below the hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def shortage(connections: int) -> str | None:
    """What to tell the user if a process can't have so many connections at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= connections + RESERVED:
        return None
    return (
        f"A load worker may need {connections} connections at once, and the limit of {soft} open"
        f" files allows about {max(0, soft - RESERVED)}: requests beyond them fail as client"
        f" errors. Raise it with `ulimit -n {connections + RESERVED}` (the hard limit is {hard})."
    )
