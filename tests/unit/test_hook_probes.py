"""Probes: what is wrapped, when, which of several targets wins, and that nothing reaches the
server. The server is a package of made-up modules."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mmload.hook import pools, probes, spans, wrap
from mmload.hook.after_import import after_import
from mmload.hook.probes import Probe, Table, Target, attach
from mmload.hook.wrap import Leave, around, timed
from mmload.records import ServerProcess, Span
from mmload.rundir import SpanLines

Import = Callable[[str, str], Any]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The hook armed, as in a process that `mmload trace` started."""
    monkeypatch.setenv("MMLOAD_HOOK_DIR", str(tmp_path / "spans"))
    monkeypatch.setattr(probes, "_tables", {})
    assert spans.arm("test")
    yield tmp_path / "spans"
    spans.shutdown()


@pytest.fixture
def new_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Import]:
    """`new_module(name, source)` writes a module and imports it."""
    root = tmp_path / "modules"
    root.mkdir()
    monkeypatch.syspath_prepend(str(root))
    made: list[str] = []

    def write(name: str, source: str) -> Any:
        made.append(name)
        (root / f"{name}.py").write_text(source)
        __import__(name)
        return sys.modules[name]

    yield write
    for name in made:
        sys.modules.pop(name, None)


def read(folder: Path) -> tuple[list[Span], list[ServerProcess]]:
    spans.shutdown()
    lines = SpanLines(sorted(folder.glob("*.jsonl")))
    found = list(lines)
    assert lines.damaged == 0
    return found, lines.processes


def test_armed_means_no_file_until_there_is_a_span(folder: Path) -> None:
    assert spans.enabled() and not folder.exists()
    spans.note("versions", server="1.2")
    spans.describe("api_server", workers=2)
    assert not folder.exists()
    spans.record("processor", 1, 2, request_id="r")
    [span], [process] = read(folder)
    assert span.request_id == "r"
    assert (process.role, process.settings) == ("api_server", {"workers": 2})
    assert process.notes == {"versions": {"server": "1.2"}}


def test_notes_that_come_later_replace_the_process_line(folder: Path) -> None:
    spans.record("processor", 1, 2, request_id="r")
    spans.note("pools", renderer_wait=1)
    spans.note("pools", media_wait=8)
    spans.describe("engine_core")
    _, [process] = read(folder)
    assert process.role == "engine_core"
    assert process.notes == {"pools": {"renderer_wait": 1, "media_wait": 8}}


def test_after_import_calls_now_or_when_the_module_comes(new_module: Import) -> None:
    seen: list[str] = []
    after_import("mm_later", lambda module: seen.append(f"{module.__name__} {module.x}"))
    assert seen == []
    module = new_module("mm_later", "x = 1")
    assert seen == ["mm_later 1"]
    after_import("mm_later", lambda module: seen.append("at once"))
    assert seen == ["mm_later 1", "at once"]
    # what others ask of a module's loader is still there
    assert module.__spec__.loader.get_source("mm_later") == "x = 1"


def test_an_import_fails_as_it_would_without_us(new_module: Import) -> None:
    after_import("mm_fails", lambda module: None)
    with pytest.raises(ZeroDivisionError):
        new_module("mm_fails", "1 / 0")
    assert "mm_fails" not in sys.modules
    after_import("mm_angry", lambda module: 1 / 0)
    assert new_module("mm_angry", "x = 2").x == 2
    after_import("mm_absent", lambda module: None)
    with pytest.raises(ModuleNotFoundError):
        __import__("mm_absent")


SERVER = """
class Renderer:
    def render(self, text, frames=0):
        return text.upper()
    @staticmethod
    def plain(x):
        return x + 1
    @classmethod
    def build(cls, x):
        return cls, x
class Sub(Renderer):
    pass
def old_render(text):
    return text.upper()
"""


def test_the_best_target_that_fits_is_wrapped(folder: Path, new_module: Import) -> None:
    table = Table(
        "mm_server",
        (
            Probe(
                "render",
                (
                    Target("mm_server:Renderer.render_async", timed("processor")),
                    Target("mm_server:Renderer.render", timed("processor"), ("text", "frames")),
                    Target("mm_server:old_render", timed("processor")),
                ),
            ),
            Probe(
                "encode",
                (
                    Target("mm_server:Renderer.render", timed("encoder"), ("tensors",)),
                    Target("mm_server:Engine.encode", timed("encoder")),
                ),
                merged="prefill",
            ),
        ),
    )
    attach(table)
    attach(table)  # twice is once
    server = new_module("mm_server", SERVER)
    spans.request_id.set("r1")
    assert server.Renderer().render("abc", frames=2) == "ABC"
    assert server.old_render("d") == "D"
    spans.request_id.set(None)
    found, [process] = read(folder)
    assert [(s.request_id, s.stage) for s in found] == [("r1", "processor")]
    assert process.notes["attached"] == {"render": "mm_server:Renderer.render"}
    assert process.notes["missing"] == {
        "encode": {
            "reason": "mm_server:Renderer.render: has no parameter tensors;"
            " mm_server:Engine.encode: there is no Engine",
            "merged": "prefill",
        }
    }
    assert process.notes["versions"] == {"mm_server": ""}


def test_a_better_target_that_comes_later_takes_over(folder: Path, new_module: Import) -> None:
    table = Table(
        "mm_two",
        (
            Probe(
                "render",
                (
                    Target("mm_two_new:render", timed("processor")),
                    Target("mm_two_old:render", timed("processor")),
                ),
            ),
        ),
    )
    attach(table)
    old = new_module("mm_two_old", "def render():\n    return 1")
    spans.request_id.set("r1")
    old.render()
    new = new_module(
        "mm_two_new", "import mm_two_old\ndef render():\n    return mm_two_old.render()"
    )
    spans.request_id.set("r2")
    assert new.render() == 1  # stamped once
    spans.request_id.set(None)
    found, [process] = read(folder)
    assert [s.request_id for s in found] == ["r1", "r2"]
    assert process.notes["attached"] == {"render": "mm_two_new:render"}
    assert not process.notes.get("missing")


def test_kinds_of_methods_stay_what_they_are(folder: Path, new_module: Import) -> None:
    names = ("Renderer.plain", "Renderer.build", "Sub.render")
    targets = [Probe(n, (Target(f"mm_kinds:{n}", timed(n)),)) for n in names]
    attach(Table("mm_kinds", tuple(targets)))
    server = new_module("mm_kinds", SERVER)
    assert server.Renderer.plain(1) == 2 and server.Renderer().plain(2) == 3
    assert server.Sub.build(5) == (server.Sub, 5)
    assert server.Sub().render("a") == "A"
    assert server.Renderer().render("b") == "B"  # the base class is as it was
    found, _ = read(folder)
    assert [s.stage for s in found] == [
        "Renderer.plain", "Renderer.plain", "Renderer.build", "Sub.render",
    ]  # fmt: skip


def test_observers_never_reach_the_server(folder: Path) -> None:
    def enter(*args: Any) -> Leave:
        if args == ("before",):
            raise RuntimeError("a probe that fails")

        def leave(result: Any, error: BaseException | None) -> None:
            raise RuntimeError("another one")

        return leave

    @around(enter)
    def work(word: str) -> str:
        if word == "fail":
            raise KeyError(word)
        return word * 2

    assert work("before") == "beforebefore"
    assert work("after") == "afterafter"
    with pytest.raises(KeyError):
        work("fail")
    bad = timed(
        "tokenize",
        before=lambda *_: {"a": 1 // 0},
        after=lambda _: [][1],
        request_id=lambda *_: str(1 // 0),
    )
    assert bad(lambda x: x)("y") == "y"
    [span], [process] = read(folder)
    assert span.stage == "tokenize" and span.facts == {}
    errors = process.notes["observer_errors"]
    assert any("a probe that fails" in said for said in errors.values())


def test_coroutines_and_generators_are_timed_to_their_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(spans, "now_ns", lambda: next(clock))

    @timed("media_fetch", before=lambda n: {"n": n}, after=lambda got: {"got": got})
    async def fetch(n: int) -> int:
        await asyncio.sleep(0)
        return n + 1

    @timed("stream_out", request_id=lambda n: f"req-{n}")
    async def stream(n: int) -> AsyncIterator[int]:
        for i in range(n):
            yield i

    async def body() -> None:
        assert await fetch(1) == 2
        assert [i async for i in stream(3)] == [0, 1, 2]
        with pytest.raises(ValueError):
            await failing()

    @timed("failing")
    async def failing() -> None:
        raise ValueError

    asyncio.run(body())
    found, _ = read(folder)
    assert [(s.stage, s.request_id, s.facts) for s in found] == [
        ("media_fetch", "", {"n": 1, "got": 2}),
        ("stream_out", "req-3", {"on_loop": True}),
        ("failing", "", {"error": "ValueError", "on_loop": True}),
    ]
    assert all(s.end_ns - s.start_ns == 10 for s in found)


def test_on_loop_says_that_nothing_else_could_run(folder: Path) -> None:
    @timed("encoder")
    def encode() -> None: ...

    async def body(executor: ThreadPoolExecutor) -> None:
        with spans.span("sync"):
            encode()
        with spans.span("yields"):
            await asyncio.sleep(0)
        await asyncio.get_running_loop().run_in_executor(executor, encode)

    with ThreadPoolExecutor(1) as executor:
        asyncio.run(body(executor))
    found, _ = read(folder)
    assert [(s.stage, s.facts.get("on_loop", False)) for s in found] == [
        ("encoder", True), ("sync", True), ("yields", False), ("encoder", False),
    ]  # fmt: skip


def test_every_pool_carries_the_request_and_shows_its_wait(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ThreadPoolExecutor, "submit", ThreadPoolExecutor.submit)
    pools.watch()
    watched = ThreadPoolExecutor.submit
    pools.watch()
    assert ThreadPoolExecutor.submit is watched

    async def request(name: str, pool: ThreadPoolExecutor) -> str | None:
        spans.request_id.set(name)
        return await asyncio.get_running_loop().run_in_executor(pool, spans.request_id.get)

    async def body() -> tuple[str | None, ...]:
        with ThreadPoolExecutor(3) as known, ThreadPoolExecutor(2) as unknown:
            pools.name(known, "processor_wait")
            unknown.submit(int)  # no request's
            ids = await asyncio.gather(request("a", known), request("b", unknown))
            await pools_submit(known)
            return tuple(ids)

    async def pools_submit(pool: ThreadPoolExecutor) -> None:
        spans.request_id.set("c")
        await pools.submit(pool, "media_wait", int)  # carried once, not twice

    assert asyncio.run(body()) == ("a", "b")
    found, [process] = read(folder)
    assert sorted((s.request_id, s.stage, s.facts.get("pool_width")) for s in found) == [
        ("a", "processor_wait", 3),
        ("b", "pool_wait", 2),
        ("b", "pool_work", None),
        ("c", "media_wait", 3),
    ]
    assert process.notes["pools"] == {"processor_wait": 3}


def test_a_forked_child_of_an_armed_process_writes_for_itself(folder: Path) -> None:
    import os

    spans.record("tokenize", 1, 2, request_id="parent")
    child = os.fork()
    if child == 0:
        spans.record("processor", 3, 4, request_id="child")
        spans.shutdown()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    found, processes = read(folder)
    assert {(s.request_id, s.pid == os.getpid()) for s in found} == {
        ("parent", True),
        ("child", False),
    }
    assert sorted(p.pid for p in processes) == sorted({s.pid for s in found})


def test_many_threads_begin_one_writer(folder: Path) -> None:
    barrier = threading.Barrier(8)

    def work(k: int) -> None:
        barrier.wait()
        for i in range(50):
            spans.record("tokenize", i, i + 1, request_id=f"{k}-{i}")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found, processes = read(folder)
    assert len(found) == len({s.request_id for s in found}) == 400
    assert len(processes) == 1


def test_a_full_file_is_followed_by_the_next(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mmload.hook import writer

    monkeypatch.setattr(writer, "FILE_LIMIT_BYTES", 2000)
    for part in range(6):
        for i in range(20):
            spans.record("tokenize", i, i + 1, request_id=f"{part}-{i}")
        spans.flush()
    found, processes = read(folder)
    assert len(list(folder.glob("*.jsonl"))) == 3  # two full ones and the current one
    assert {s.request_id.partition("-")[0] for s in found} == {"3", "4", "5"}
    assert len(processes) == 1 and processes[0].lost == 0


def test_wrap_needs_no_hook() -> None:
    assert not spans.enabled()
    assert timed("x")(lambda a: a + 1)(1) == 2
    assert wrap.guarded(lambda: 1 // 0) is None
