"""Promise 15 in other people's code: what a server's own functions, pools, loops and files see is
what they would see without the hook."""

import asyncio
import contextvars
import decimal
import functools
import gc
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import AsyncGenerator, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mmload.hook import bootstrap, loop_watch, pools, probes, spans, writer
from mmload.hook.after_import import after_import
from mmload.hook.asgi import Message, RequestIdMiddleware
from mmload.hook.probes import Target, Unfit
from mmload.hook.wrap import timed
from mmload.rundir import SpanLines
from tests.unit.test_hook_probes import read


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The hook armed, as in a process that `mmload trace` started, and thread pools watched."""
    monkeypatch.setenv("MMLOAD_HOOK_DIR", str(tmp_path / "spans"))
    monkeypatch.setattr(ThreadPoolExecutor, "submit", ThreadPoolExecutor.submit)
    assert spans.arm("test")
    pools.watch()
    yield tmp_path / "spans"
    spans.shutdown()


def in_request(call: Any) -> Any:
    """What `call()` returns in the context of a request."""

    def run() -> Any:
        spans.request_id.set("r")
        return call()

    return contextvars.copy_context().run(run)


# -- thread pools ----------------------------------------------------------------------------------


def test_a_pools_worker_keeps_its_own_context(folder: Path) -> None:
    """What its initializer set stays, and what the request has set does not come in."""
    mine: contextvars.ContextVar[str] = contextvars.ContextVar("mine", default="nobody's")

    def initialise() -> None:
        decimal.getcontext().prec = 5
        mine.set("the worker's")

    def work() -> tuple[str, str, str | None]:
        return str(decimal.Decimal(1) / 3), mine.get(), spans.request_id.get()

    def call(pool: ThreadPoolExecutor) -> Any:
        mine.set("the request's")
        return pool.submit(work).result()

    with ThreadPoolExecutor(1, initializer=initialise) as pool:
        assert in_request(lambda: call(pool)) == ("0.33333", "the worker's", "r")
        assert pool.submit(work).result() == ("0.33333", "the worker's", None)


class Odd:
    """Answers no question about itself, as some proxies do."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("working outside of a context")

    def __call__(self, x: int) -> int:
        return x + 1


async def a_coroutine(x: int) -> int:
    return x + 1


def test_any_callable_may_be_submitted(folder: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        calls: list[Any] = [functools.partial(max, 1), [1, 2].count, "a".upper, dict, Odd()]
        arguments: list[tuple[Any, ...]] = [(2,), (2,), (), ([("k", 1)],), (4,)]
        futures = in_request(
            lambda: [pool.submit(c, *a) for c, a in zip(calls, arguments, strict=True)]
        )
        assert [f.result() for f in futures] == [2, 1, "A", {"k": 1}, 5]
        made = in_request(lambda: pool.submit(a_coroutine, 1).result())
        assert made.__qualname__ == "a_coroutine"  # as without us: made there, awaited by nobody
        made.close()
        with pytest.raises(ZeroDivisionError):
            in_request(lambda: pool.submit(divmod, 1, 0).result())
        with pytest.raises(StopIteration):
            in_request(lambda: pool.submit(next, iter(())).result())
    with pytest.raises(RuntimeError, match="after shutdown"):
        in_request(lambda: pool.submit(int))


def test_work_for_another_interpreter_is_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.14's pool of interpreters pickles it."""

    class InterpreterPool(ThreadPoolExecutor):
        submitted: Any = None

        def _adjust_thread_count(self) -> None:
            self.submitted = self._work_queue.get().fn

    module = type(sys)("concurrent.futures.interpreter")
    monkeypatch.setattr(module, "InterpreterPoolExecutor", InterpreterPool, raising=False)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    pool = InterpreterPool(1)
    in_request(lambda: pool.submit(len, "abc"))
    assert pool.submitted is len


def test_work_that_outlives_its_request_is_its_own(folder: Path) -> None:
    """A client that gives up does not stop what a pool's thread does for it."""

    async def body() -> None:
        release = threading.Event()

        def work() -> None:
            release.wait(10)
            with spans.span("processor"):
                pass

        with ThreadPoolExecutor(1) as pool:

            async def app(scope: Any, receive: Any, send: Any) -> None:
                pool.submit(work)

            headers = [(b"x-request-id", b"r-1")]
            door: Any = RequestIdMiddleware(app)
            await door({"type": "http", "headers": headers}, None, None)
            release.set()

    asyncio.run(body())
    found, _ = read(folder)
    assert [s.request_id for s in found if s.stage == "processor"] == ["r-1"]


def test_a_task_that_outlives_its_request_is_nobodys(folder: Path) -> None:
    """An engine's loop that the first request starts serves all that follow."""

    async def body() -> None:
        done = asyncio.Event()
        ended: list[asyncio.Task[None]] = []

        async def engine() -> None:
            await done.wait()
            await asyncio.get_running_loop().run_in_executor(None, int)
            with spans.span("decode"):
                pass

        async def app(scope: Any, receive: Any, send: Any) -> None:
            ended.append(asyncio.create_task(engine()))
            await asyncio.get_running_loop().run_in_executor(None, int)

        await RequestIdMiddleware(app)({"type": "http", "headers": []}, None, None)  # type: ignore[arg-type]
        done.set()
        await ended[0]

    asyncio.run(body())
    found, _ = read(folder)
    assert [(s.stage, bool(s.request_id)) for s in found if s.stage != "loop_blocked"] == [
        ("pool_wait", True), ("pool_work", True), ("decode", False),
    ]  # fmt: skip


# -- asynchronous generators -----------------------------------------------------------------------


def test_a_generator_is_sent_to_thrown_into_and_closed_as_before(folder: Path) -> None:
    seen: list[Any] = []

    @timed("stream_out")
    async def echo() -> AsyncGenerator[str, str | None]:
        try:
            word: str | None = "first"
            while True:
                try:
                    word = yield f"{word}!"
                except KeyError as error:
                    word = f"caught {error}"
        finally:
            seen.append("closed")

    async def body() -> list[str]:
        generator = echo()
        said = [await anext(generator), await generator.asend("second")]
        said.append(await generator.athrow(KeyError("third")))
        await generator.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(generator)
        other = echo()
        await anext(other)
        with pytest.raises(asyncio.CancelledError):
            await other.athrow(asyncio.CancelledError())
        return said

    assert asyncio.run(body()) == ["first!", "second!", "caught 'third'!"]
    assert seen == ["closed", "closed"]
    found, _ = read(folder)
    assert [s.facts["error"] for s in found] == ["GeneratorExit", "CancelledError"]


# -- the door --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "status", "comments"),
    [("GET", 200, True), ("HEAD", 200, False), ("GET", 204, False)],
)
def test_no_comments_where_there_is_no_body(
    folder: Path, method: str, status: int, comments: bool
) -> None:
    sent: list[Message] = []
    headers = [(b"content-type", b"text/event-stream")]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        with spans.span("processor"):
            await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "headers": [(b"x-mmload-spans", b"response")]}
    asyncio.run(_call(RequestIdMiddleware(app), scope, send))
    assert (b": mmload-spans" in sent[-1]["body"]) is comments


async def _call(app: Any, scope: Any, send: Any) -> None:
    await app(scope, None, send)


def test_a_request_that_is_dropped_elsewhere_says_nothing(folder: Path) -> None:
    """A coroutine that is closed in another context than it began in."""

    class Pause:
        def __await__(self) -> Generator[None, None, None]:
            yield

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await Pause()

    request: Any = RequestIdMiddleware(app)({"type": "http", "headers": []}, None, None)  # type: ignore[arg-type]
    contextvars.copy_context().run(request.send, None)
    request.close()
    gc.collect()


def test_the_watch_follows_the_server_to_its_next_loop(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warm-up on a loop of its own must not be the last thing that is watched."""
    monkeypatch.setattr(loop_watch, "_watch", None)

    async def request() -> bool:
        loop_watch.entered()
        watch = loop_watch._watch
        assert watch is not None and watch.inside == 1
        other = threading.Thread(target=loop_watch.left)  # of another loop
        other.start()
        other.join()
        assert watch.inside == 1
        loop_watch.left()
        return watch.inside == 0 and watch.is_alive()

    assert asyncio.run(request()) and asyncio.run(request())


# -- imports and probes ----------------------------------------------------------------------------


def test_a_loader_of_many_modules_tells_them_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as archive:
        archive.writestr("mm_zip_outer.py", "import mm_zip_inner\n")
        archive.writestr("mm_zip_inner.py", "")
    monkeypatch.syspath_prepend(str(tmp_path / "many.zip"))
    seen: list[str] = []
    after_import("mm_zip_outer", lambda module: seen.append(module.__name__))
    __import__("mm_zip_outer")
    assert seen == ["mm_zip_outer"]
    for name in ("mm_zip_outer", "mm_zip_inner"):
        del sys.modules[name]


def test_a_class_is_not_replaced_by_a_function() -> None:
    module = type(sys)("mm_made_up")
    module.__dict__.update(Engine=type("Engine", (), {"step": functools.partial(int)}))
    for name in ("Engine", "Engine.step"):
        with pytest.raises(Unfit, match="not a function"):
            probes.wrap(module, Target(f"mm_made_up:{name}", timed("x")))


@pytest.mark.parametrize(
    ("words", "role"),
    [
        (["python", "-W", "ignore", "/srv/serve.py", "--key", "k"], "serve.py"),
        (["python", "-m", "vllm.entrypoints", "x"], "vllm.entrypoints"),
        (["python", "-Bmserve"], "serve"),
        (["python", "-uc", "token = 'secret'"], "python -c"),
        (["python", "-Xdev", "-BXutf8", "-Wignore", "a.py"], "a.py"),
        (["python", "--check-hash-based-pycs", "never", "a.py"], "a.py"),
        (["python"], "python"),
    ],
)
def test_the_role_is_never_an_argument(
    words: list[str], role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "orig_argv", words)
    assert bootstrap.role() == role


# -- the writer ------------------------------------------------------------------------------------


def test_a_number_that_is_another_files_now_is_left_alone(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that makes itself a daemon closes all files, and opens others."""
    monkeypatch.setattr(writer, "INTERVAL_S", 3600.0)
    spans.record("tokenize", 1, 2, request_id="before")
    spans.flush()
    assert spans._writer is not None
    number = spans._writer._file
    assert number is not None
    theirs = os.open(tmp_path / "theirs", os.O_RDWR | os.O_CREAT)
    os.dup2(theirs, number)
    spans.record("tokenize", 3, 4, request_id="after")
    spans.shutdown()
    os.close(number)  # still open: it is theirs
    os.close(theirs)
    assert (tmp_path / "theirs").read_bytes() == b""
    lines = SpanLines(sorted(folder.glob("*.jsonl")))
    assert [s.request_id for s in lines] == ["before", "after"] and lines.damaged == 0


def test_a_disk_that_hangs_does_not_hold_up_the_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    def hang(self: writer.Writer, data: bytes) -> None:
        released.wait(30)

    monkeypatch.setattr(writer.Writer, "_write", hang)
    monkeypatch.setattr(writer, "END_S", 0.05)
    spans.record("tokenize", 1, 2, request_id="a")
    ended = threading.Thread(target=spans.shutdown, daemon=True)
    ended.start()
    ended.join(10)
    assert not ended.is_alive()
    released.set()


def test_a_forked_child_of_multiprocessing_writes_its_last_spans(folder: Path) -> None:
    """It ends by `os._exit`."""
    program = (
        "import multiprocessing as m\nfrom mmload.hook import spans\n"
        "def work():\n    spans.record('encoder', 1, 2, request_id='first')\n    spans.flush()\n"
        "    spans.record('encoder', 3, 4, request_id='last')\n"
        "assert spans.arm('test')\n"
        "child = m.get_context('fork').Process(target=work)\nchild.start()\nchild.join()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    lines = SpanLines(sorted(folder.glob("*.jsonl")))
    assert [s.request_id for s in lines] == ["first", "last"]


def test_processes_of_one_pid_are_told_apart(tmp_path: Path) -> None:
    """Two containers, each of whose first process is 1; and one of them in two files."""
    process = '{{"process":{{"pid":1,"host":"{}","monotonic_ns":{}}}}}\n'
    line = '{{"request_id":"{}","stage":"x","start_ns":1,"end_ns":2,"pid":1,"thread":"t"}}\n'
    east, west = process.format("east", 5), process.format("west", 6)
    (tmp_path / "a.jsonl").write_text(east + line.format("e") + west + line.format("w"))
    (tmp_path / "b.jsonl").write_text(west + line.format("w2") + '{"lost":3}\n')
    lines = SpanLines([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])
    pids = {s.request_id: s.pid for s in lines}
    assert pids == {"e": 1, "w": 1 + 2**22, "w2": 1 + 2**22}
    assert [(p.host, p.pid, p.lost) for p in lines.processes] == [
        ("east", 1, 0), ("west", 1 + 2**22, 3),
    ]  # fmt: skip


def test_an_odd_id_is_not_the_servers_trouble(folder: Path) -> None:
    spans.record("tokenize", 1, 2, request_id=["a list"])  # type: ignore[arg-type]
    with spans.span("processor", request_id={}):  # type: ignore[arg-type]
        pass
