"""What a stretch of code cost its own thread: CPU time and page faults.

`cpu_ns` is the thread's CPU time: far below the wall time means that the thread waited (for the
GIL, a lock, a core) or that other threads did the work. `minor_faults` are pages that the kernel
had to hand out: fresh large arrays cost more in faults than in arithmetic. Both see this thread
only: neither counts what OpenMP or OpenCV workers did for it. Stdlib only.
"""

import threading
import time

try:
    import resource

    _WHO: int | None = resource.RUSAGE_THREAD
except (ImportError, AttributeError):  # not Linux
    _WHO = None


class ThreadMeter:
    """Starts when made; `facts` is empty when called in another thread than it was made in."""

    __slots__ = ("_thread", "_cpu_ns", "_faults")

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._faults = _minor_faults()
        self._cpu_ns = time.thread_time_ns()

    def facts(self) -> dict[str, int]:
        if threading.get_ident() != self._thread:
            return {}
        facts = {"cpu_ns": time.thread_time_ns() - self._cpu_ns}
        if _WHO is not None:
            facts["minor_faults"] = _minor_faults() - self._faults
        return facts


def _minor_faults() -> int:
    return resource.getrusage(_WHO).ru_minflt if _WHO is not None else 0
