"""anyio's worker threads: where Starlette and FastAPI run plain `def` endpoints and dependencies.

They are no `ThreadPoolExecutor`: a limiter (40 threads, unless the server says otherwise) lets them
in. Each call is recorded as the wait for the limiter and a thread, and as the work in it, as
`pools.py` does. The limiter, cancellation and the context are anyio's own. Stdlib only.
"""

import functools
from typing import Any, Final

from mmload.hook import pools, spans
from mmload.hook.context import current_id
from mmload.hook.doors import called_away
from mmload.hook.probes import Probe, Table, Target
from mmload.hook.wrap import Function, guarded


def _run_sync(call: Function) -> Function:
    @functools.wraps(call)
    async def wrapper(backend: Any, func: Function, *args: Any, **kwargs: Any) -> Any:
        if spans.enabled() and current_id() is not None:
            width = guarded(_width, backend, *args, **kwargs)
            func = pools.carry(pools.POOL_WAIT, width, pools.worked(func))
            came_back = guarded(called_away)
            if came_back is not None:
                try:
                    return await call(backend, func, *args, **kwargs)
                finally:
                    came_back()
        return await call(backend, func, *args, **kwargs)

    return wrapper


def _width(
    backend: Any, _args: Any = (), _abandon_on_cancel: bool = False, limiter: Any = None, **_: Any
) -> int | None:
    """The limiter's threads; None where it sets no limit."""
    tokens = (limiter or backend.current_default_thread_limiter()).total_tokens
    return tokens if isinstance(tokens, int) else None


TABLE: Final = Table(
    "anyio",
    (
        Probe(
            "worker threads",
            (
                Target(
                    "anyio._backends._asyncio:AsyncIOBackend.run_sync_in_worker_thread",
                    _run_sync,
                    ("func", "limiter"),
                ),
            ),
            merged="unattributed",
        ),
    ),
)
