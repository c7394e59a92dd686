"""How many load workers a run needs, and what each of them gets. Pure.

The schedule is dealt out in turn, so every worker has the same process of arrivals, thinned,
against one common origin: which requests are sent when does not depend on the number of workers.
"""

import math
from typing import Final

import numpy as np

from mmload.clock import NS_PER_S
from mmload.load.schedule import Times

# What one request costs a worker's core, from bench/: a fixed part (timers, parsing some tokens,
# the record) and the copy of its body into the socket.
REQUEST_S: Final = 0.6e-3
BYTE_S: Final = 0.8e-9
BUSY: Final = 0.4  # share of a core up to which lag stays in the low milliseconds


def auto_workers(intended_ns: Times, body_bytes: float, cores: int) -> int:
    """Workers such that the busiest second of the schedule keeps each under BUSY of its core.

    One core is left to the server or to the live view; there is always one worker.
    """
    if not len(intended_ns):
        return 1
    busiest = int(np.bincount((intended_ns // NS_PER_S).astype(np.int64)).max())
    needed = math.ceil(busiest * (REQUEST_S + BYTE_S * body_bytes) / BUSY)
    return max(1, min(needed, cores - 1, len(intended_ns)))


def share(total: int | None, worker: int, workers: int) -> int | None:
    """A worker's part of a limit that holds for all of them: parts differ by at most one."""
    return None if total is None else (total + workers - 1 - worker) // workers
