"""The hook: what it writes, that it is inert unless asked, and promise 15: it cannot hurt the
server. Spans are read back with the reader that the report uses."""

import asyncio
import contextvars
import errno
import json
import mmap
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mmload.hook import pools, spans, writer
from mmload.hook.headers import clean_request_id, parse_trace, trace_value
from mmload.records import ServerProcess, Span
from mmload.rundir import SpanLines


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The hook switched on by the environment, off again afterwards."""
    monkeypatch.setenv("MMLOAD_HOOK_DIR", str(tmp_path / "spans"))
    yield tmp_path / "spans"
    spans.shutdown()
    assert not spans.enabled()


@pytest.fixture
def slow_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer's thread writes once, then only when told to."""
    monkeypatch.setattr(writer, "INTERVAL_S", 3600.0)


def read(folder: Path) -> tuple[list[Span], list[ServerProcess]]:
    lines = SpanLines(sorted(folder.glob("*.jsonl")))
    found = list(lines)
    assert lines.damaged == 0
    return found, lines.processes


def test_a_span_comes_back_as_it_was(folder: Path) -> None:
    assert spans.install("server", {"workers": 2})
    spans.request_id.set(None)
    spans.record("processor", 10, 25, request_id="r-1", frames=15)
    spans.record("odd", 30, 31, phase="gpu")
    spans.shutdown()
    found, [process] = read(folder)
    pid, thread = os.getpid(), threading.current_thread().name
    assert found == [
        Span("r-1", "processor", 10, 25, pid, thread, None, {"frames": 15}),
        Span("", "odd", 30, 31, pid, thread, "gpu", {}),
    ]
    assert (process.pid, process.role, process.settings) == (pid, "server", {"workers": 2})
    assert process.boot_id == writer.boot_id() != ""
    assert process.lost == 0 and process.monotonic_ns > 0 and process.wall_ns > 10**18


def test_with_span_takes_stamps_facts_and_errors(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans.install("server")
    times = iter([100, 140, 200, 260])
    monkeypatch.setattr(spans, "now_ns", lambda: next(times))
    with spans.span("tokenize", request_id="a", words=3) as seen:
        seen.add(tokens=7, stage="a fact may have any name")
    with pytest.raises(KeyError), spans.span("processor", request_id="b"):
        raise KeyError
    spans.shutdown()
    [first, second], _ = read(folder)
    assert (first.start_ns, first.end_ns) == (100, 140)
    assert first.facts == {"words": 3, "tokens": 7, "stage": "a fact may have any name"}
    assert (second.start_ns, second.end_ns, second.facts) == (200, 260, {"error": "KeyError"})


def test_measure_thread_counts_this_thread(folder: Path) -> None:
    spans.install("server")
    with spans.span("processor", request_id="a", measure_thread=True):
        sum(range(200_000))
        with mmap.mmap(-1, 8 << 20) as fresh:  # not from the heap, which may have warm pages
            fresh[:: mmap.PAGESIZE] = bytes(len(fresh) // mmap.PAGESIZE)
    spans.shutdown()
    [span], _ = read(folder)
    assert 0 < span.facts["cpu_ns"] <= 2 * (span.end_ns - span.start_ns)
    assert span.facts["minor_faults"] > 0


def test_the_request_id_follows_tasks_and_pools(folder: Path) -> None:
    spans.install("server")

    async def request(name: str, executor: ThreadPoolExecutor) -> str | None:
        spans.request_id.set(name)
        with spans.span("tokenize"):
            await asyncio.sleep(0)
        return await pools.submit(executor, "renderer_wait", spans.request_id.get)

    async def body() -> list[str | None]:
        with ThreadPoolExecutor(2, "renderer") as executor:
            return await asyncio.gather(*(request(f"r{i}", executor) for i in range(5)))

    assert asyncio.run(body()) == ["r0", "r1", "r2", "r3", "r4"]
    spans.shutdown()
    found, _ = read(folder)
    waits = [s for s in found if s.stage == "renderer_wait"]
    assert sorted(s.request_id for s in waits) == ["r0", "r1", "r2", "r3", "r4"]
    assert all(s.facts == {"pool_width": 2} and s.thread.startswith("renderer") for s in waits)
    assert all(s.end_ns >= s.start_ns for s in waits)
    assert sorted(s.request_id for s in found if s.stage == "tokenize")[0] == "r0"


def test_a_wait_is_from_submission_to_start(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spans.install("server")
    times = iter([1_000, 5_000])
    monkeypatch.setattr(spans, "now_ns", lambda: next(times))
    context = contextvars.copy_context()
    context.run(spans.request_id.set, "r9")
    work = context.run(pools.carry, "media_wait", None, lambda x: x + 1)
    assert work(41) == 42
    spans.shutdown()
    [span], _ = read(folder)
    assert (span.request_id, span.start_ns, span.end_ns) == ("r9", 1_000, 5_000)


def test_inert_without_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MMLOAD_HOOK_DIR", raising=False)
    before = threading.active_count()
    assert not spans.install("server")
    with spans.span("processor", frames=1) as seen:
        seen.add(pixels=2)
    spans.record("encoder", 1, 2)
    assert spans.span("a") is spans.span("b")  # nothing is made
    assert (spans.lost(), spans.shutdown(), spans.trace_header()) == (0, 0, None)
    assert threading.active_count() == before and list(tmp_path.iterdir()) == []


def test_install_again_adds_to_the_settings(folder: Path) -> None:
    spans.install("python", {"a": 1, "b": 1})
    spans.flush()
    threads = threading.active_count()
    assert spans.install("server", {"b": 2, "where": Path("/x"), "what": {1, 2}})
    assert threading.active_count() == threads
    spans.shutdown()
    _, [process] = read(folder)  # one process, described twice
    assert process.role == "server"
    assert process.settings == {"a": 1, "b": 2, "where": "/x", "what": "<set>"}


def test_values_that_json_refuses_cost_the_facts_only(folder: Path) -> None:
    spans.install("server", {"ratio": float("nan")})
    loop: dict[str, Any] = {}
    loop["self"] = loop
    spans.record("processor", 1, 2, request_id="a", frames=3, ratio=float("inf"))
    spans.record("processor", 1, 2, request_id="b", loop=loop)
    spans.shutdown()
    [a, b], [process] = read(folder)
    assert a.facts == b.facts == {"facts_refused": "ValueError"}
    assert process.settings == {"settings_refused": "ValueError"}


# -- promise 15: the hook cannot hurt the server -------------------------------------------------


def test_imports_are_stdlib_and_the_hook_only() -> None:
    """In a bare interpreter, without site packages, so that nothing else can be found."""
    root = Path(writer.__file__).parents[2]
    code = f"""
import sys
before = set(sys.modules)
sys.path.insert(0, {str(root)!r})
import mmload.hook.asgi, mmload.hook.pools, mmload.hook.spans, mmload.hook.stages, mmload.hook.web
new = set(sys.modules) - before
print("\\n".join(n for n in new if n.split(".")[0] not in sys.stdlib_module_names))
"""
    out = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    ).stdout
    ours = set(out.split())
    assert ours - {"mmload"} == {n for n in ours if n.split(".")[:2] == ["mmload", "hook"]}
    assert "mmload.hook.spans" in ours


@pytest.mark.usefixtures("slow_writer")
def test_a_full_buffer_only_raises_the_count(folder: Path) -> None:
    spans.install("server", limit=100)
    spans.flush()
    for i in range(250):
        spans.record("processor", i, i + 1, request_id=str(i))
    assert spans.lost() == 150
    assert spans.lost() == 150  # reading does not count
    spans.flush()
    spans.record("processor", 999, 1_000, request_id="after")
    assert spans.shutdown() == 150
    found, [process] = read(folder)
    assert [s.request_id for s in found] == [*map(str, range(100)), "after"]
    assert process.lost == 150


@pytest.mark.usefixtures("slow_writer")
def test_losses_of_many_threads_are_exact(folder: Path) -> None:
    spans.install("server", limit=1_000)

    def server_thread() -> None:
        for i in range(5_000):
            spans.record("processor", i, i, request_id="x")

    threads = [threading.Thread(target=server_thread) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lost = spans.shutdown()
    found, [process] = read(folder)
    assert len(found) + lost == 20_000
    assert process.lost == lost


@pytest.mark.usefixtures("slow_writer")
def test_a_removed_folder_only_raises_the_count(folder: Path) -> None:
    spans.install("server")
    spans.record("processor", 1, 2, request_id="kept until somebody removed it")
    spans.flush()
    assert spans.lost() == 0
    shutil.rmtree(folder)
    for i in range(30):
        spans.record("processor", i, i + 1, request_id=str(i))
    spans.flush()
    assert spans.lost() == 30
    folder.mkdir()  # and it goes on where it can
    spans.record("processor", 5, 6, request_id="back")
    assert spans.shutdown() == 30
    [span], [process] = read(folder)
    assert (span.request_id, process.lost) == ("back", 30)


@pytest.mark.usefixtures("slow_writer")
def test_a_full_disk_loses_whole_batches_and_leaves_no_torn_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans.install("server")
    spans.record("processor", 1, 2, request_id="before")
    spans.flush()
    real_write = os.write
    room = [50]  # bytes left on the disk: the first write is cut in the middle of a line

    def write(fd: int, data: bytes) -> int:
        if room[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = real_write(fd, bytes(data[: room[0]]))
        room[0] -= count
        return count

    monkeypatch.setattr(os, "write", write)
    for i in range(7):
        spans.record("processor", i, i + 1, request_id=str(i))
    spans.flush()
    assert spans.lost() == 7
    monkeypatch.setattr(os, "write", real_write)
    spans.record("processor", 3, 4, request_id="after")
    assert spans.shutdown() == 7
    found, [process] = read(folder)
    assert [s.request_id for s in found] == ["before", "after"]
    assert process.lost == 7


@pytest.mark.usefixtures("slow_writer")
def test_a_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MMLOAD_HOOK_DIR", str(tmp_path / "file" / "spans"))
    assert spans.install("server")
    spans.record("processor", 1, 2)
    assert spans.shutdown() == 1


def test_a_forked_child_is_inert_until_it_installs(tmp_path: Path) -> None:
    """In a process of its own: forking pytest's threads would be the test's own hazard."""
    code = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: fork with threads
from mmload.hook import spans
spans.install("parent", {"who": "parent"})
spans.record("processor", 1, 2, request_id="parent")
for installs in (False, True):
    pid = os.fork()
    if pid == 0:
        spans.record("processor", 3, 4, request_id="dropped")
        if installs:
            spans.install("child")
            spans.record("processor", 5, 6, request_id="child")
        sys.exit(0 if spans.enabled() == installs else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
spans.record("processor", 7, 8, request_id="parent")
"""
    subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "MMLOAD_HOOK_DIR": str(tmp_path)},
        check=True,
        timeout=30,
    )
    found, processes = read(tmp_path)
    assert sorted(s.request_id for s in found) == ["child", "parent", "parent"]
    assert sorted(p.role for p in processes) == ["child", "parent"]
    pid_of = {p.role: p.pid for p in processes}
    assert {(s.request_id, s.pid) for s in found} == set(pid_of.items())


def test_a_killed_server_leaves_what_it_had_written(tmp_path: Path) -> None:
    code = """
import os, time
from mmload.hook import spans
spans.install("server")
spans.record("processor", 1, 2, request_id="a")
time.sleep(1.0)
os.kill(os.getpid(), 9)
"""
    env = {**os.environ, "MMLOAD_HOOK_DIR": str(tmp_path)}
    assert subprocess.run([sys.executable, "-c", code], env=env, timeout=30).returncode == -9
    [span], [process] = read(tmp_path)
    assert span.request_id == "a" and process.lost == 0


def test_nothing_secret_is_written(tmp_path: Path) -> None:
    code = "from mmload.hook import spans; spans.install('server'); spans.record('a', 1, 2)"
    env = {**os.environ, "MMLOAD_HOOK_DIR": str(tmp_path), "API_KEY": "sk-sesame-env"}
    subprocess.run(
        [sys.executable, "-c", code, "--api-key=sk-sesame-argv"], env=env, check=True, timeout=30
    )
    [file] = tmp_path.glob("*.jsonl")
    text = file.read_text()
    assert "sesame" not in text
    assert json.loads(text.splitlines()[-1]) == {"lost": 0}  # ended, not cut off


# -- headers -------------------------------------------------------------------------------------


def test_request_ids_are_cleaned() -> None:
    assert clean_request_id("r-17") == "r-17"
    assert clean_request_id("a b\r\nSet-Cookie: x\x00é") == "abSet-Cookie:x"
    assert clean_request_id("x" * 500) == "x" * 200
    made = {clean_request_id(None), clean_request_id(""), clean_request_id(" \n")}
    assert len(made) == 3 and all(len(name) == 32 for name in made)


@pytest.mark.parametrize("path", ["/tmp/run 1/spans", "/tmp/ü;%41\n/spans", "/"])
def test_the_trace_header_round_trips(path: str) -> None:
    value = trace_value("b00t", path)
    assert value.isascii() and value.isprintable()
    assert parse_trace(value) == ("b00t", path)


@pytest.mark.parametrize("value", ["", "b00t", "b00t;", ";/tmp", "b00t;relative"])
def test_other_values_are_no_trace(value: str) -> None:
    assert parse_trace(value) is None
