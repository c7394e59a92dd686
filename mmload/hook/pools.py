"""Thread pools seen from outside: how long work waited for a worker, and whose work it was.

`loop.run_in_executor` and `Executor.submit` drop context variables and hide the queue in front of
the workers. `submit` and `carry` keep the request id and record the wait, from submission to start,
as a span with the pool's width. Stdlib only; never changes what the work does or returns.
"""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

from mmload.hook import spans

T = TypeVar("T")


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

    return run


def submit(
    executor: Executor, stage_wait: str, fn: Callable[..., T], *args: object
) -> asyncio.Future[T]:
    """`loop.run_in_executor`, with the context carried and the wait recorded.

    Cancelling the future withdraws work that has not started. Needs a running loop.
    """
    work = carry(stage_wait, pool_width(executor), fn)
    return asyncio.get_running_loop().run_in_executor(executor, work, *args)
