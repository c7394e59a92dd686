"""Thread pools seen from outside: how long work waited for a worker, and whose work it was.

`loop.run_in_executor` and `Executor.submit` drop context variables and hide the queue in front of
the workers. `submit` and `carry` keep the request id, and nothing else of the context, and record
the wait, from submission to start, as a span with the pool's width. `watch` does so for every
thread pool of the process, and records the work too where the pool has no name; `name` says what a
pool's wait is called. Stdlib only; never changes what the work does, sees or returns.
"""

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mmload.hook import spans
from mmload.hook.after_import import after_import
from mmload.hook.context import current_id, working_for

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Executor, ThreadPoolExecutor

T = TypeVar("T")

POOL_WAIT: Final = "pool_wait"
POOL_WORK: Final = "pool_work"
_NAME: Final = "_mmload_wait"
_CARRIED: Final = "__mmload_carried__"


def pool_width(executor: "Executor") -> int | None:
    """Workers of an executor of the standard library; None where it does not say."""
    width = getattr(executor, "_max_workers", None)
    return width if isinstance(width, int) else None


def carry(stage_wait: str, width: int | None, fn: Callable[..., T]) -> Callable[..., T]:
    """`fn` as it is to be handed to a pool now: when a worker calls it, it has the request id of
    now, and the time since now is recorded as `stage_wait`.

    Nothing else of the context goes along: the worker's own stays what it is without us, whether
    its pool's initializer set it (`decimal`, `numpy.errstate`) or it says that no event loop runs
    there (`sniffio`).
    """
    name = current_id()
    submitted_ns = spans.now_ns()
    facts: dict[str, Any] = {} if width is None else {"pool_width": width}

    def run(*args: object, **kwargs: object) -> T:
        spans.record(stage_wait, submitted_ns, spans.now_ns(), request_id=name, **facts)
        with working_for(name):
            return fn(*args, **kwargs)

    setattr(run, _CARRIED, True)
    return run


def worked(fn: Callable[..., T]) -> Callable[..., T]:
    """`fn`, recorded as work in a pool of which nobody's probes know more."""

    def work(*args: object, **kwargs: object) -> T:
        with spans.span(POOL_WORK, measure_thread=True):
            return fn(*args, **kwargs)

    return work


def submit(
    executor: "Executor", stage_wait: str, fn: Callable[..., T], *args: object
) -> "asyncio.Future[T]":
    """`loop.run_in_executor`, with the context carried and the wait recorded.

    Cancelling the future withdraws work that has not started. Needs a running loop.
    """
    import asyncio  # who has a loop has it already

    work = carry(stage_wait, pool_width(executor), fn)
    return asyncio.get_running_loop().run_in_executor(executor, work, *args)


def name(executor: "Executor", stage_wait: str) -> None:
    """The wait for this pool's workers is recorded as `stage_wait`, once `watch` was called."""
    setattr(executor, _NAME, stage_wait)
    spans.note("pools", **{stage_wait: pool_width(executor)})


def watch() -> None:
    """From now on work that is handed to any thread pool while a request is served carries the
    request's id, and its wait is recorded. Safe to repeat."""
    after_import("concurrent.futures.thread", _watch)


def _watch(module: ModuleType) -> None:
    original: Callable[..., Any] = module.ThreadPoolExecutor.submit
    if hasattr(original, _CARRIED):
        return

    @functools.wraps(original)
    def watched(
        self: "ThreadPoolExecutor", fn: Callable[..., T], /, *args: Any, **kwargs: Any
    ) -> Any:
        return original(self, _seen(self, fn), *args, **kwargs)

    setattr(watched, _CARRIED, True)
    module.ThreadPoolExecutor.submit = watched


def _is_interpreters(pool: "ThreadPoolExecutor") -> bool:
    """Python 3.14's pool of interpreters is a thread pool too, but pickles what is submitted."""
    module = sys.modules.get("concurrent.futures.interpreter")
    return module is not None and isinstance(pool, module.InterpreterPoolExecutor)


def _seen(pool: "ThreadPoolExecutor", fn: Callable[..., T]) -> Callable[..., T]:
    """What is submitted in place of `fn`: `fn` itself outside of requests."""
    try:
        if current_id() is None or not spans.enabled() or hasattr(fn, _CARRIED):
            return fn
        if _is_interpreters(pool):
            return fn
        stage = getattr(pool, _NAME, None)
        if stage is None:  # nobody's probes look inside
            fn = worked(fn)
        return carry(stage or POOL_WAIT, pool_width(pool), fn)
    except Exception:  # a callable that answers to `hasattr` with an error, for instance
        return fn
