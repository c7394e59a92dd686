"""Functions in which a thread does nothing but wait: the one table of them.

In: a stack. Out: whether its thread waits. Waiting for a lock, the GIL, a queue, a child or a
socket's readiness counts; reading or writing does not, since that may be work.
"""

from typing import Final

from mmload.profiler.layers import layer_of, module_path
from mmload.profiler.stacks import Frame

# (module, function) of the innermost Python frame, with nothing but the system below it.
PYTHON: Final = frozenset(
    (
        ("threading.py", "Condition.wait"),
        ("threading.py", "wait"),
        ("threading.py", "Event.wait"),
        ("threading.py", "Thread.join"),
        ("threading.py", "join"),
        ("threading.py", "Thread._wait_for_tstate_lock"),
        ("threading.py", "_wait_for_tstate_lock"),
        ("queue.py", "Queue.get"),
        ("queue.py", "get"),
        ("concurrent/futures/thread.py", "_worker"),
        ("concurrent/futures/thread.py", "_WorkerContext.run"),
        ("selectors.py", "select"),
        ("selectors.py", "EpollSelector.select"),
        ("selectors.py", "PollSelector.select"),
        ("selectors.py", "SelectSelector.select"),
        ("selectors.py", "KqueueSelector.select"),
        ("multiprocessing/popen_fork.py", "Popen.poll"),
        ("multiprocessing/connection.py", "wait"),
        ("subprocess.py", "Popen._try_wait"),
        ("asyncio/runners.py", "Runner.run"),  # seen without native frames: uvloop waits inside
        ("asyncio/runners.py", "run"),
    )
)

# Native functions, innermost or with nothing but the system below them.
NATIVE: Final = frozenset(
    (
        *("epoll_wait", "epoll_pwait", "poll", "ppoll", "select", "pselect", "kevent"),
        *("pthread_cond_wait", "pthread_cond_timedwait", "pthread_join", "sem_wait"),
        *("sem_timedwait", "sem_clockwait", "nanosleep", "clock_nanosleep", "wait4", "waitpid"),
        *("take_gil", "PyThread_acquire_lock_timed", "PyThread_acquire_lock"),
        *("zmq_poll", "zmq_proxy"),
    )
)


def waits(frames: tuple[Frame, ...]) -> bool:
    """Whether the thread with this stack, the outermost frame first, waits."""
    for frame in reversed(frames):
        if frame.is_python:
            return (module_path(frame.file), frame.name) in PYTHON
        if frame.name in NATIVE:
            return True
        if layer_of(frame) not in (None, "python"):
            return False  # a package's own code, not the system's
    return False
