"""Own threads for one call's frames, whatever OMP_NUM_THREADS says.

In: pieces of work that do not depend on each other. The caller does them itself and helpers take
pieces from it: with `most` threads there are `most - 1` helpers, for all callers together, and a
helper goes away as soon as there are as many callers as threads. So one caller is served by all
threads, and many callers do not crowd the machine.

torch's own threads: the resize kernel is single-threaded where it is vectorised, and elsewhere
would start a team of threads in each helper. So helpers have one torch thread. Setting that also
moves the process's default for threads to come; a thread that read it before sets it back. The
caller's own setting is never touched.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Lock, Thread

import torch

Work = Callable[[], None]


def usable_cpus() -> int:
    """CPUs that this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1


class Threads:
    """Runs a call's pieces on at most `most` threads. Any number of threads may call `run`."""

    def __init__(self, most: int | None = None) -> None:
        self.most = usable_cpus() if most is None else most
        self._lock = Lock()
        self._callers = 0
        self._helpers = start_helpers(self.most - 1) if self.most > 1 else None

    def run(self, pieces: Iterable[Work]) -> None:
        """Returns when all are done; raises the first exception, after the others have ended."""
        todo = deque(pieces)
        with self._lock:
            self._callers += 1
            helpers = min(self.most - self._callers, len(todo) - 1)
        try:
            futures = (
                [self._helpers.submit(self._help, todo) for _ in range(helpers)]
                if self._helpers
                else []
            )
            try:
                _drain(todo)
            finally:
                todo.clear()
                errors = [f.exception() for f in futures if not f.cancel()]
            for error in errors:
                if error is not None:
                    raise error
        finally:
            with self._lock:
                self._callers -= 1

    def _help(self, todo: deque[Work]) -> None:
        while self._callers < self.most and _one(todo):
            pass


def _drain(todo: deque[Work]) -> None:
    while _one(todo):
        pass


def _one(todo: deque[Work]) -> bool:
    try:
        work = todo.popleft()
    except IndexError:
        return False
    work()
    return True


def _one_torch_thread() -> None:
    torch.get_num_threads()  # a thread's first look takes over the default, and later ones do not
    torch.set_num_threads(1)


def start_helpers(count: int) -> ThreadPoolExecutor:
    """Threads with one torch thread each; the process's default is as it was."""
    all_there = Barrier(count)
    executor = ThreadPoolExecutor(count, "mmload-owned", initializer=_one_torch_thread)

    def start() -> None:
        default = torch.get_num_threads()  # a new thread reads the process's default
        for future in [executor.submit(all_there.wait) for _ in range(count)]:
            future.result()
        torch.set_num_threads(default)

    starter = Thread(target=start, name="mmload-owned-start")
    starter.start()
    starter.join()
    return executor
