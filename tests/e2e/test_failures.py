"""What goes wrong in a run, on real sockets: counts, order and words, never durations."""

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import resource
import signal
import subprocess
import sys
import termios
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mmload.clock import MonotonicClock
from mmload.load.connection import SLICE_BYTES
from mmload.load.http import HttpTransport
from mmload.load.transport import Address, Tls
from mmload.records import Outcome, Record
from mmload.rundir import RunDir
from tests.e2e.cli import alive, children_of, finish, mmload, summary_of
from tests.e2e.raw_server import Request, always_chat, chat, raw_server, serving
from tests.e2e.test_transport import Heard, Run, head, run

__all__ = ["run"]  # a fixture: each test on both event loops

TEXT = ("--frames", "0", "--quiet", "--json", "--out", "run")


def records_of(folder: Path) -> list[Record]:
    return sorted(RunDir(folder / "run").records(), key=lambda r: r.index)


# -- retries ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def busy_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A server that answers every odd request by 503, Retry-After, with and without --retries."""
    ended: dict[str, Any] = {}
    for name, flags in {"without": (), "with": ("--retries", "2")}.items():
        folder = tmp_path_factory.mktemp(name)
        seen: list[int] = []

        async def busy(
            request: Request, reader: Any, writer: asyncio.StreamWriter, seen: list[int] = seen
        ) -> bool:
            if request.head.startswith(b"GET "):
                return await chat(request, writer)
            seen.append(1)
            if len(seen) % 2:
                body = b'{"error": {"message": "the pool is full"}}'
                writer.write(
                    b"HTTP/1.1 503 Busy\r\nRetry-After: 0.1\r\nContent-Length: %d\r\n\r\n%s"
                    % (len(body), body)
                )
                return True
            return await chat(request, writer)

        with serving(busy) as server:
            url = f"http://127.0.0.1:{server.port}"
            few = ("--sequential", "--requests", "4", "--warmup", "0")
            code, out, err = finish(mmload("run", url, *few, *TEXT, *flags, cwd=folder))
        assert code in (0, 3), err
        posts = [r for r in server.requests if r.head.startswith(b"POST")]
        ended[name] = (summary_of(out), records_of(folder), posts)
    return ended


def test_503_then_200_is_no_silent_retry(busy_runs: dict[str, Any]) -> None:
    summary, records, posts = busy_runs["without"]
    assert (summary["ok"], summary["failed"]) == (2, {"http_error": 2}) and len(posts) == 4
    assert summary["failure_messages"] == {"http_error": ["HTTP 503: the pool is full"]}
    assert [r.status for r in records] == [503, 200, 503, 200]
    assert all(r.attempts == [] for r in records)
    assert "retried" not in {w["code"] for w in summary["warnings"]}


def test_503_then_200_with_retries_lists_the_attempts(busy_runs: dict[str, Any]) -> None:
    summary, records, posts = busy_runs["with"]
    assert (summary["ok"], summary["failed"]) == (4, {}) and len(posts) == 8
    for i, record in enumerate(records):
        first, again = posts[2 * i], posts[2 * i + 1]
        assert (first.head, first.body) == (again.head, again.body)
        one, two = record.attempts
        assert (one.outcome, one.status) == (Outcome.http_error, 503)
        assert one.message == "HTTP 503: the pool is full"
        assert (two.outcome, two.status) == (Outcome.ok, 200)
        assert one.sent_ns == record.sent_ns and two.closed_ns == record.closed_ns
        # The wait is in the latency: 100 ms at least from the first answer to the second sending.
        assert two.sent_ns - one.closed_ns >= 99_000_000
        assert record.first_output_ns is not None and record.first_output_ns > two.sent_ns
    (said,) = [w for w in summary["warnings"] if w["code"] == "retried"]
    assert said["message"].startswith("4 of 4 requests were sent more than once (4 attempts more)")
    assert summary["ttft_ms"]["p50"] >= 99


def test_retries_are_in_the_digest(busy_runs: dict[str, Any]) -> None:
    digests = {name: summary["run"]["digest"] for name, (summary, _, _) in busy_runs.items()}
    assert digests["with"] != digests["without"]


# -- this side's limits ----------------------------------------------------------------------------


def limited(*args: str, cwd: Path, which: int, limit: int) -> "subprocess.Popen[str]":
    """`mmload ARGS` under a resource limit, which its workers inherit."""
    code = (
        f"import resource, sys; resource.setrlimit({which}, ({limit}, {limit}));"
        "from mmload.cli import main; main(sys.argv[1:])"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, *args],
        cwd=cwd,
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_64_open_files_are_client_errors_and_no_crash(tmp_path: Path) -> None:
    """120 requests that the server holds: what does not fit fails here, in words."""
    held: list[asyncio.StreamWriter] = []

    async def hold(request: Request, reader: Any, writer: asyncio.StreamWriter) -> bool:
        if not request.head.startswith(b"GET "):
            held.append(writer)
            await asyncio.sleep(2)
        return await chat(request, writer)

    with serving(hold) as server:
        process = limited(
            *("run", f"http://127.0.0.1:{server.port}", "--requests", "120", "--qps", "200"),
            *("--warmup", "0", "--workers", "1", *TEXT),
            cwd=tmp_path,
            which=resource.RLIMIT_NOFILE,
            limit=64,
        )
        code, out, err = finish(process)
    summary = summary_of(out)
    assert code in (0, 3) and "Traceback" not in err, err
    outcomes = Counter(r.outcome for r in records_of(tmp_path))
    assert set(outcomes) == {Outcome.ok, Outcome.client_error}
    assert outcomes[Outcome.ok] == summary["ok"] == len(held) < 64
    assert outcomes[Outcome.client_error] == summary["failed"]["client_error"] == 120 - len(held)
    (said,) = summary["failure_messages"]["client_error"]
    assert "Too many open files" in said and "64 (ulimit -n)" in said
    (note,) = [w["message"] for w in summary["warnings"] if w["code"] == "note"]
    assert "may need 120 connections" in note and "limit of 64 open files" in note


def test_a_full_disk_makes_the_run_invalid_and_counts_what_is_lost(tmp_path: Path) -> None:
    with serving(always_chat) as server:
        process = limited(
            *("run", f"http://127.0.0.1:{server.port}", "--requests", "150", "--qps", "150"),
            *("--warmup", "0", "--workers", "1", *TEXT),
            cwd=tmp_path,
            which=resource.RLIMIT_FSIZE,  # no file may be longer: a write fails, as on a full disk
            limit=40_000,
        )
        code, out, err = finish(process)
    assert code == 3 and "Traceback" not in err, err
    summary = summary_of(out)
    kept = len(records_of(tmp_path))
    assert 0 < kept < 150 and summary["ok"] == kept
    reasons = [r for r in summary["invalid_reasons"] if "could not be written" in r]
    assert reasons and f"could not be written: {150 - kept}." in reasons[0]
    assert "not all could be written" in err  # the report's own files are too long as well
    assert not list((tmp_path / "run").glob("*.part"))


# -- one large body beside others ------------------------------------------------------------------


def test_20_mb_beside_a_stream_do_not_hold_it_up(run: Run) -> None:
    """The server writes a token of the stream for each MB that it has read of the body. If the
    client only read between whole bodies, all tokens would come at the end."""
    size, tokens = 20_000_000, 20
    read_bytes = 0
    streaming: list[asyncio.StreamWriter] = []
    begun = asyncio.Event()

    async def handler(
        request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        nonlocal read_bytes
        if b"Content-Length: 1\r\n" in request.head:
            await reader.readexactly(1)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % tokens)
            streaming.append(writer)
            begun.set()
            return await _until_closed(reader)
        written = 0
        while read_bytes < size:
            read_bytes += len(await reader.read(65536))
            while written < min(tokens, read_bytes * tokens // size):
                streaming[0].write(b"t")
                written += 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        return await _until_closed(reader)

    async def main() -> None:
        async with raw_server(handler, read_body=False, receive_buffer_bytes=65536) as server:
            transport = HttpTransport(server.address, MonotonicClock())
            stream, large = Heard(), Heard()
            transport.send(head(1), [b"x"], stream)
            await asyncio.wait_for(begun.wait(), 10)
            transport.send(head(size), [bytes(size)], large)
            await asyncio.wait_for(asyncio.gather(large.over.wait(), stream.over.wait()), 60)
            await transport.close()
        assert stream.body == b"t" * tokens and large.body == b"ok"
        written_ns = large.times[large.calls.index("written")]
        came = [t for what, t in zip(stream.calls, stream.times, strict=True) if what == "body"]
        # All but the last MB or two, which the kernel's buffers hold, came before it was written.
        early = [t for t in came if t < written_ns]
        assert len(early) >= tokens // 2, f"{len(early)} of {len(came)} reads before the last slice"
        assert size > 100 * SLICE_BYTES

    run(main())


async def _until_closed(reader: asyncio.StreamReader) -> bool:
    await reader.read()
    return False


# -- connecting ------------------------------------------------------------------------------------


def test_a_request_cancelled_while_it_connects_closes_its_socket(run: Run) -> None:
    """As a connect timeout does: here TLS waits for a server that never answers."""
    gone = asyncio.Event()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        gone.set()
        writer.close()

    async def main() -> None:
        listening = await asyncio.start_server(mute, "127.0.0.1", 0)
        sock = listening.sockets[0]
        address = Address(sock.family, sock.getsockname(), Tls("localhost", verify=False))
        transport = HttpTransport(address, MonotonicClock())
        heard = Heard()
        exchange = transport.send(head(1), [b"x"], heard)
        await asyncio.sleep(0.1)
        exchange.cancel()
        await asyncio.wait_for(gone.wait(), 10)
        await transport.close()
        listening.close()
        await asyncio.sleep(0.01)
        assert heard.calls == []

    run(main())


# -- the user stops it -----------------------------------------------------------------------------


@contextlib.contextmanager
def holding() -> Iterator[str]:
    """A server that answers its first 3 requests and holds the others."""
    count = iter(range(1_000_000))

    async def hold(
        request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if request.head.startswith(b"GET ") or next(count) < 3:
            return await chat(request, writer)
        return await _until_closed(reader)

    with serving(hold) as server:
        yield f"http://127.0.0.1:{server.port}"


def _wait_for(condition: Callable[[], object], timeout_s: float = 60) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.01)


@pytest.mark.parametrize(
    "signs",
    [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM,), (signal.SIGHUP,)],
    ids=["ctrl-c-twice", "term", "hang-up"],
)
def test_a_stopped_run_keeps_its_report(tmp_path: Path, signs: tuple[signal.Signals, ...]) -> None:
    with holding() as url:
        process = mmload(
            *("run", url, "--qps", "20", "--duration", "60", "--warmup", "0", *TEXT), cwd=tmp_path
        )
        file = tmp_path / "run" / "records.jsonl"
        _wait_for(lambda: file.exists() and file.read_bytes().count(b"\n") >= 3)
        time.sleep(0.2)  # so that some are under way
        family = children_of(process.pid)
        for sign in signs:
            process.send_signal(sign)
            time.sleep(0.02)
        code, out, err = finish(process, 30)
    assert code == 130 and "Traceback" not in err, err
    summary = summary_of(out)
    assert summary["interrupted"]
    outcomes = Counter(r.outcome for r in records_of(tmp_path))
    assert outcomes[Outcome.ok] == 3 and outcomes[Outcome.cut_off] > 0
    assert outcomes[Outcome.unsent] > 0 and sum(outcomes.values()) == summary["planned"] == 1200
    assert (tmp_path / "run" / "report.html").exists()
    assert family
    _wait_for(lambda: not any(alive(pid) for pid in family))


def test_a_run_whose_terminal_is_closed_keeps_its_report(tmp_path: Path) -> None:
    """The live view has nowhere to draw any more, and the process is told to hang up."""
    ours, its = pty.openpty()
    command = (sys.executable, "-m", "mmload", "run")
    with holding() as url:
        process = subprocess.Popen(
            [
                *command,
                url,
                "--qps",
                "20",
                "--duration",
                "60",
                "--warmup=0",
                "--frames=0",
                "--out=run",
            ],
            cwd=tmp_path,
            stdin=its,
            stdout=its,
            stderr=its,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(its)
        file = tmp_path / "run" / "records.jsonl"
        _wait_for(lambda: file.exists() and file.read_bytes().count(b"\n") >= 3)
        time.sleep(0.3)  # so that some are under way, and something was drawn
        family = children_of(process.pid)
        assert b"sent" in os.read(ours, 65536)
        os.close(ours)
        process.wait(30)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["interrupted"] and summary["planned"] == 1200
    assert (tmp_path / "run" / "report.html").exists()
    _wait_for(lambda: not any(alive(pid) for pid in family))


def test_ctrl_c_while_the_workers_start_is_one_line(tmp_path: Path) -> None:
    """It goes to the whole group: a worker just being born must not die with a traceback."""
    with serving(always_chat) as server:
        url = f"http://127.0.0.1:{server.port}"
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "mmload",
                "run",
                url,
                "--duration",
                "60",
                "--workers",
                "2",
                *TEXT,
            ],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        _wait_for(lambda: len(children_of(process.pid)) >= 2)
        family = children_of(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        code, out, err = finish(process, 30)
    assert code == 130 and out == "" and len(err.splitlines()) == 1, err
    _wait_for(lambda: not any(alive(pid) for pid in family))
