"""Thread pools seen from outside: how long work waited for a worker, and whose work it was.

`loop.run_in_executor` and `Executor.submit` drop context variables and hide the queue in front of
the workers. `submit` and `carry` keep the request id and record the wait, from submission to start,
as a span with the pool's width. `watch` does so for every thread pool of the process, and records
the work too where the pool has no name; `name` says what a pool's wait is called. Stdlib only;
never changes what the work does or returns.
"""

import asyncio
import contextvars
import functools
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, Final, TypeVar

from mmload.hook import spans
from mmload.hook.wrap import timed

T = TypeVar("T")

POOL_WAIT: Final = "pool_wait"
POOL_WORK: Final = "pool_work"
_NAME: Final = "_mmload_wait"
_CARRIED: Final = "__mmload_carried__"


def pool_width(executor: Executor) -> int | None:
    """Workers of an executor of the standard library; None where it does not say."""
    width = getattr(executor, "_max_workers", None)
    return width if isinstance(width, int) else None


def carry(stage_wait: str, width: int | None, fn: Callable[..., T]) -> Callable[..., T]:
    """`fn` as it is to be handed to a pool now: when a worker calls it, it runs in this context,
    and the time since now is recorded as `stage_wait`."""
    context = contextvars.copy_context()
    submitted_ns = spans.now_ns()
    facts: dict[str, Any] = {} if width is None else {"pool_width": width}

    def run(*args: object, **kwargs: object) -> T:
        started_ns = spans.now_ns()
        context.run(spans.record, stage_wait, submitted_ns, started_ns, **facts)
        return context.run(fn, *args, **kwargs)

    setattr(run, _CARRIED, True)
    return run


def submit(
    executor: Executor, stage_wait: str, fn: Callable[..., T], *args: object
) -> asyncio.Future[T]:
    """`loop.run_in_executor`, with the context carried and the wait recorded.

    Cancelling the future withdraws work that has not started. Needs a running loop.
    """
    work = carry(stage_wait, pool_width(executor), fn)
    return asyncio.get_running_loop().run_in_executor(executor, work, *args)


def name(executor: Executor, stage_wait: str) -> None:
    """The wait for this pool's workers is recorded as `stage_wait`, once `watch` was called."""
    setattr(executor, _NAME, stage_wait)
    spans.note("pools", **{stage_wait: pool_width(executor)})


def watch() -> None:
    """From now on work that is handed to any thread pool while a request is served carries the
    request's context, and its wait is recorded. Safe to repeat."""
    original: Callable[..., Any] = ThreadPoolExecutor.submit
    if hasattr(original, _CARRIED):
        return

    @functools.wraps(original)
    def watched(
        self: ThreadPoolExecutor, fn: Callable[..., T], /, *args: Any, **kwargs: Any
    ) -> Any:
        if spans.request_id.get() is not None and spans.enabled() and not _is_carried(fn):
            stage = getattr(self, _NAME, None)
            if stage is None:  # nobody's probes look inside
                fn = timed(POOL_WORK, measure=True)(fn)
            fn = carry(stage or POOL_WAIT, pool_width(self), fn)
        return original(self, fn, *args, **kwargs)

    setattr(watched, _CARRIED, True)
    ThreadPoolExecutor.submit = watched  # type: ignore[method-assign, assignment]


def _is_carried(fn: Callable[..., Any]) -> bool:
    return hasattr(fn, _CARRIED)
