"""A scrape of real sockets, and processes found by the port that they listen on."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mmload import processes
from mmload.clock import MonotonicClock, pause
from mmload.errors import UsageError
from mmload.load.reach import Reach
from mmload.load.target import Target, parse_target
from mmload.profiler.collect import Sampling
from mmload.rundir import RunDir
from mmload.watch.resources import Resources
from mmload.watch.sampler import SourceFailed
from mmload.watch.scrape import Scrape
from mmload.watching import Watching, server_roots, watched
from tests.e2e.cli import alive

ANSWERS = {
    "/metrics": (200, 'vllm:num_requests_running{engine="0"} 2\nvllm:num_requests_waiting 1\n'),
    "/json": (200, '{"requests": 1}'),
    "/other": (200, "up 1\n"),
    "/busy": (503, ""),
}


class Handler(BaseHTTPRequestHandler):
    seen: list[tuple[str, str | None]] = []

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("Authorization")))
        status, text = ANSWERS.get(self.path, (404, ""))
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server() -> Iterator[str]:
    Handler.seen = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{http.server_address[1]}"
        http.shutdown()
        thread.join()


def target_of(url: str, **reach: object) -> Target:
    return parse_target(url, Reach.model_validate(reach))


def test_a_scrape_and_what_ends_it(server: str) -> None:
    target = target_of(server)
    address = target.resolve()
    good = Scrape(target, address, f"{target.root_path}/metrics")
    assert good.read() == good.read() == {"running": 2.0, "waiting": 1.0}
    good.close()
    for path, words, final in (
        ("/json", "it is JSON", True),
        ("/other", "none of the metrics", True),
        ("/nothing", "HTTP 404", True),
        ("/busy", "HTTP 503", False),  # it may come back
    ):
        source = Scrape(target, address, path)
        with pytest.raises(SourceFailed, match=words) as failed:
            source.read()
        source.close()
        assert failed.value.final is final
    assert [path for path, _ in Handler.seen] == [
        *["/metrics"] * 2,
        "/json",
        "/other",
        "/nothing",
        "/busy",
    ]


def test_a_server_that_is_gone_fails_in_words() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        target = target_of(f"http://127.0.0.1:{free.getsockname()[1]}")
        source = Scrape(target, target.resolve(), "/metrics")
        with pytest.raises(SourceFailed) as failed:
            source.read()
        source.close()
    assert failed.value.words and not failed.value.final


@pytest.mark.parametrize("own", [True, False])
def test_a_key_goes_to_its_own_server_only(server: str, tmp_path: Path, own: bool) -> None:
    target = target_of(server, api_key="sk-secret")
    asked = Watching() if own else Watching(scrape=f"{server}/metrics")
    with watched(asked, RunDir(tmp_path), target, target.resolve(), None, 1.0, print):
        pass
    assert {path for path, _ in Handler.seen} == {"/metrics"}
    assert {key for _, key in Handler.seen} == {"Bearer sk-secret" if own else None}
    sources = {sample.source for sample in RunDir(tmp_path).samples()}
    assert sources >= {"server", "processes"}  # this test's own process listens there


def test_not_asked_for_is_not_asked(server: str, tmp_path: Path) -> None:
    target = target_of(server)
    with watched(
        Watching(no_scrape=True), RunDir(tmp_path), target, target.resolve(), None, 1.0, print
    ):
        pass
    assert Handler.seen == []


def test_a_profile_of_a_server_elsewhere_is_refused(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        target = target_of(f"http://127.0.0.1:{free.getsockname()[1]}")
        asked = Watching(profile=Sampling())
        with pytest.raises(UsageError, match="no process on this host is seen to listen"):
            with watched(asked, RunDir(tmp_path), target, target.resolve(), None, 1.0, print):
                raise AssertionError("the load must not begin")


def test_the_processes_of_a_port() -> None:
    """A child that shares its parent's socket is found below it, not beside it."""
    code = (
        "import os, socket, sys, time; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen();"
        "s.set_inheritable(True); child = os.fork();"
        "child and print(s.getsockname()[1], child, flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        port, child = map(int, process.stdout.readline().split())
        assert processes.listeners(port) == [process.pid]
        assert processes.tree([process.pid]) == [process.pid, child]
        target = target_of(f"http://127.0.0.1:{port}")
        assert server_roots(target, target.resolve(), None) == [process.pid]
        assert server_roots(target, target.resolve(), [7]) == [7]  # our own
        assert processes.pythons([process.pid]) == [process.pid]
        source = Resources([process.pid], MonotonicClock())
        assert "cores" not in source.read()
        values = source.read()
        assert values["processes"] == 2 and values["rss_bytes"] > 1e6
        assert 0 <= values["cores"] < 64
    finally:
        process.communicate("")
    while alive(child):  # it reads the same pipe
        pause(0.01)
    with pytest.raises(SourceFailed, match="gone"):
        source.read()
    assert processes.tree([process.pid]) == []


def test_addresses_of_this_host() -> None:
    assert processes.is_here("127.0.0.1") and processes.is_here("::1")
    assert not processes.is_here("192.0.2.1") and not processes.is_here("a.sock")
    assert str(os.getpid()) not in processes.command_of(2**22 + 1)
