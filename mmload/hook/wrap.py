"""Wraps functions of a server without changing what they do: the forms that probes are made of.

`around(enter)` makes a decorator for plain functions, coroutine functions and asynchronous
generators. `enter(*args, **kwargs)` sees the call's arguments before it starts, and may return
`leave(result, error)`, called when it has ended (a generator: when it is exhausted or closed, with
None). Both are guarded: what they raise is counted, noted once, and never reaches the server.
Stdlib only.
"""

import contextlib
import functools
import inspect
from collections.abc import AsyncGenerator, Callable
from typing import Any

from mmload.hook import spans
from mmload.hook.context import current_id
from mmload.hook.thread_meter import ThreadMeter

Function = Callable[..., Any]
Leave = Callable[[Any, BaseException | None], object]
Enter = Callable[..., Leave | None]
Decorator = Callable[[Function], Function]


def guarded(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What `fn` returns; None if it raises, which the process's notes then say."""
    try:
        return fn(*args, **kwargs)
    except Exception as error:
        with contextlib.suppress(Exception):  # an error that cannot be printed
            name = getattr(fn, "__qualname__", type(fn).__name__)
            spans.note("observer_errors", **{name: f"{type(error).__name__}: {error}"[:200]})
        return None


def around(enter: Enter) -> Decorator:
    """Calls `enter` before, and what it returned after, each call while the hook is on."""

    def decorate(fn: Function) -> Function:
        if inspect.isasyncgenfunction(fn):
            wrapper = _around_generator(fn, enter)
        elif inspect.iscoroutinefunction(fn):
            wrapper = _around_coroutine(fn, enter)
        else:
            wrapper = _around_call(fn, enter)
        return functools.wraps(fn)(wrapper)

    return decorate


def _begin(enter: Enter, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Leave | None:
    if not spans.enabled():
        return None
    leave: Leave | None = guarded(enter, *args, **kwargs)
    return leave


def _around_call(fn: Function, enter: Enter) -> Function:
    def call(*args: Any, **kwargs: Any) -> Any:
        leave = _begin(enter, args, kwargs)
        if leave is None:
            return fn(*args, **kwargs)
        try:
            result = fn(*args, **kwargs)
        except BaseException as error:
            guarded(leave, None, error)
            raise
        guarded(leave, result, None)
        return result

    return call


def _around_coroutine(fn: Function, enter: Enter) -> Function:
    async def call(*args: Any, **kwargs: Any) -> Any:
        leave = _begin(enter, args, kwargs)
        if leave is None:
            return await fn(*args, **kwargs)
        try:
            result = await fn(*args, **kwargs)
        except BaseException as error:
            guarded(leave, None, error)
            raise
        guarded(leave, result, None)
        return result

    return call


def _around_generator(fn: Function, enter: Enter) -> Function:
    async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        generator = fn(*args, **kwargs)  # nothing of it runs yet
        leave = _begin(enter, args, kwargs)
        error: BaseException | None = None
        try:
            step = generator.asend(None)
            while True:  # as `yield from`, which there is none of for these
                try:
                    item = await step
                except StopAsyncIteration:
                    return
                try:
                    step = generator.asend((yield item))
                except GeneratorExit:
                    raise
                except BaseException as thrown:
                    step = generator.athrow(thrown)
        except BaseException as raised:
            error = raised
            raise
        finally:
            try:
                await generator.aclose()
            finally:
                if leave is not None:
                    guarded(leave, None, error)

    return call


class Work:
    """A piece of work, from when this is made to `end`: its times, and what it cost its thread.

    `measure` reads the thread's CPU time and page faults: for work without an await.
    """

    __slots__ = ("_turn", "_meter", "_start_ns", "_end_ns", "_seen")

    def __init__(self, *, measure: bool = False) -> None:
        self._turn = spans.turn_of_loop()
        self._meter = ThreadMeter() if measure else None
        self._start_ns = spans.now_ns()

    def end(self, error: BaseException | None = None) -> int:
        """Over: what follows is not part of it. Returns the moment."""
        self._end_ns = spans.now_ns()
        self._seen: dict[str, Any] = {}
        if self._meter is not None:
            self._seen.update(self._meter.facts())
        if self._turn is not None and not self._turn.is_over():
            self._seen["on_loop"] = True
        if error is not None:
            self._seen["error"] = type(error).__name__
        return self._end_ns

    def record(
        self,
        stage: str,
        facts: dict[str, Any],
        *,
        request_id: str | None = None,
        phase: str | None = None,
    ) -> None:
        """Keeps the span, with these facts and those that were measured."""
        spans.record(
            stage,
            self._start_ns,
            self._end_ns,
            request_id=request_id,
            phase=phase,
            **(facts | self._seen),
        )


def timed(
    stage: str,
    *,
    phase: str | None = None,
    measure: bool = False,
    request_id: Callable[..., str | None] | None = None,
    before: Callable[..., dict[str, Any]] | None = None,
    after: Callable[[Any], dict[str, Any]] | None = None,
) -> Decorator:
    """Records each call as a span of `stage`, with `error` where it raised.

    `measure` adds the thread's `cpu_ns` and `minor_faults` (plain functions only: a coroutine
    shares its thread). `request_id(*args, **kwargs)` names the request where the context does not.
    `before(*args, **kwargs)` and `after(result)` add facts; each is called on the thread of the
    call.
    """

    def enter(*args: Any, **kwargs: Any) -> Leave:
        facts: dict[str, Any] = {}
        if before is not None:
            facts.update(guarded(before, *args, **kwargs) or {})
        name = guarded(request_id, *args, **kwargs) if request_id is not None else None
        if name is None:
            name = current_id() or ""  # the one that opened it: the call may set another
        work = Work(measure=measure)

        def leave(result: Any, error: BaseException | None) -> None:
            work.end(error)
            if error is None and after is not None:
                facts.update(guarded(after, result) or {})
            work.record(stage, facts, request_id=name, phase=phase)

        return leave

    return around(enter)
