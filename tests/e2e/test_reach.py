"""How requests reach their server: TLS, proxies, IPv6, keys. Real sockets on loopback."""

import asyncio
import contextlib
import hashlib
import os
import socket
import ssl
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from mmload.clock import MonotonicClock
from mmload.load.http import HttpTransport
from mmload.load.reach import Reach
from mmload.load.target import parse_target
from mmload.load.transport import Address, Tls
from mmload.records import Outcome
from mmload.rundir import RunDir
from tests.e2e.cli import finish, mmload, summary_of
from tests.e2e.raw_server import (
    EVENT,
    RawServer,
    Request,
    Tasks,
    always_chat,
    chat,
    raw_server,
    serving,
)
from tests.e2e.test_transport import Run, ok, run, send

__all__ = ["run"]  # a fixture: each test on both event loops

FEW = ("--requests", "4", "--qps", "40", "--frames", "0", "--warmup", "1", "--quiet")


class Authority:
    """A certificate authority of this test run, and a server's certificate from it."""

    def __init__(self, folder: Path) -> None:
        ca = trustme.CA()
        self.file = folder / "ca.pem"
        ca.cert_pem.write_to_path(str(self.file))
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ca.issue_cert("localhost", "127.0.0.1", "::1").configure_cert(self.server)
        self.elsewhere = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ca.issue_cert("elsewhere.example").configure_cert(self.elsewhere)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


# -- TLS -------------------------------------------------------------------------------------------


def test_a_large_body_and_a_kept_connection_over_tls(run: Run, authority: Authority) -> None:
    pieces = [os.urandom(n) for n in (7, 3_000_001, 3, 200_000)]

    async def main() -> None:
        trusted = Tls("localhost", cacert=str(authority.file))
        async with raw_server(ok, tls=authority.server, client_tls=trusted) as server:
            transport = HttpTransport(server.address, MonotonicClock())
            heard = [await send(transport, *pieces) for _ in range(2)]
            await transport.close()
        assert [h.failure for h in heard] == [None, None]
        assert [h.reused for h in heard] == [False, True]
        sent = hashlib.sha256(b"".join(pieces)).digest()
        assert [hashlib.sha256(r.body).digest() for r in server.requests] == [sent, sent]
        assert all(h.body == b"hello!" and h.times == sorted(h.times) for h in heard)

    run(main())


@pytest.mark.parametrize(
    ("tls", "context", "words"),
    [
        (Tls("localhost"), "server", "not trusted: unable to get local issuer certificate"),
        (Tls("localhost", cacert="FILE"), "elsewhere", "not trusted: Hostname mismatch"),
        (Tls("localhost", verify=False), "elsewhere", None),
    ],
    ids=["unknown-authority", "other-name", "unchecked"],
)
def test_certificates(
    run: Run, authority: Authority, tls: Tls, context: str, words: str | None
) -> None:
    cacert = str(authority.file) if tls.cacert else None
    client = Tls(tls.server_name, tls.verify, cacert)
    serverside = {"server": authority.server, "elsewhere": authority.elsewhere}

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # the server's own
        async with raw_server(ok, tls=serverside[context], client_tls=client) as server:
            transport = HttpTransport(server.address, MonotonicClock())
            heard = await send(transport, b"x")
            await transport.close()
        if words is None:
            assert heard.failure is None and heard.body == b"hello!"
        else:
            assert heard.failure is not None and heard.failure[0] is Outcome.connection
            assert words in heard.failure[1]

    run(main())


def test_https_to_a_server_that_speaks_http(run: Run) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async def main() -> None:
        listening = await asyncio.start_server(plain, "127.0.0.1", 0)
        sock = listening.sockets[0]
        address = Address(sock.family, sock.getsockname(), Tls("localhost"))
        transport = HttpTransport(address, MonotonicClock())
        heard = await send(transport, b"x")
        await transport.close()
        listening.close()
        await asyncio.sleep(0.01)
        assert heard.failure is not None and heard.failure[0] is Outcome.connection
        assert "does the server speak https?" in heard.failure[1]

    run(main())


def test_https_from_the_command_line(authority: Authority, tmp_path: Path) -> None:
    """A certificate of an unknown authority ends the run before it began, and says the way out."""
    with serving(always_chat, tls=authority.server) as server:
        url = f"https://localhost:{server.port}"
        ways = {
            "checked": (),
            "ca": ("--cacert", str(authority.file)),
            "insecure": ("--insecure", "--no-keepalive"),
        }
        started = {
            name: mmload("run", url, *FEW, "--json", "--out", name, *flags, cwd=tmp_path)
            for name, flags in ways.items()
        }
        ended = {name: finish(process) for name, process in started.items()}
    code, out, err = ended["checked"]
    assert code == 2 and out == "" and len(err.splitlines()) == 1
    assert f"https://localhost:{server.port}/v1" in err and "not trusted" in err
    assert "--cacert" in err and "--insecure" in err
    assert not (tmp_path / "checked").exists()
    for name in ("ca", "insecure"):
        code, out, err = ended[name]
        assert code in (0, 3), err
        assert summary_of(out)["ok"] == 4
    reused = [r.reused_connection for r in RunDir(tmp_path / "insecure").records()]
    assert reused == [False] * 4
    notes = RunDir(tmp_path / "insecure").manifest().notes
    assert any("--no-keepalive" in note for note in notes)


# -- IPv6 ------------------------------------------------------------------------------------------


def test_an_ipv6_literal(tmp_path: Path) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 on this machine")
    with serving(always_chat, host="::1") as server:
        url = f"http://[::1]:{server.port}/v1/"
        process = mmload("run", url, *FEW, "--json", "--out", "run", cwd=tmp_path)
        code, out, err = finish(process)
    assert code in (0, 3), err
    assert summary_of(out)["ok"] == 4
    assert summary_of(out)["run"]["target"] == f"http://[::1]:{server.port}/v1"
    assert f"Host: [::1]:{server.port}\r\n".encode() in server.requests[-1].head


# -- proxies ---------------------------------------------------------------------------------------


class ProxyServer:
    """Leads every request to one server, whatever its name: CONNECT, or absolute form."""

    def __init__(self, port: int, refuse: bytes = b"") -> None:
        self.target_port = port
        self.refuse = refuse
        self.heads: list[bytes] = []
        self.tasks = Tasks()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.enter()
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            if self.refuse:
                writer.write(b"HTTP/1.1 " + self.refuse + b"\r\n\r\n")
                return writer.close()
            far_reader, far = await asyncio.open_connection("127.0.0.1", self.target_port)
            if head.startswith(b"CONNECT "):
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                far.write(head)
            await asyncio.gather(_pipe(reader, far), _pipe(far_reader, writer))


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def proxying(proxy: ProxyServer) -> Any:
    listening = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        await proxy.tasks.ended()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_through_a_proxy(run: Run, authority: Authority, scheme: str) -> None:
    """The server's name is one that only the proxy could know."""
    context = authority.server if scheme == "https" else None

    async def main() -> None:
        async with raw_server(ok, tls=context) as server:
            proxy = ProxyServer(server.port)
            async with proxying(proxy) as port:
                reach = Reach(proxy=f"http://u:p@127.0.0.1:{port}", cacert=str(authority.file))
                target = parse_target(f"{scheme}://localhost:7", reach)
                transport = HttpTransport(target.resolve(), MonotonicClock())
                head = target.head("POST", "/v1/x", "text/plain", 300_000) + b"\r\n"
                heard = [await _send(transport, head, b"x" * 300_000) for _ in range(2)]
                await transport.close()
        assert [h.failure for h in heard] == [None, None]
        assert all(h.body == b"hello!" for h in heard)
        assert [h.reused for h in heard] == [False, True] and len(proxy.heads) == 1
        first = b"CONNECT localhost:7 " if context else b"POST http://localhost:7/v1/x "
        assert proxy.heads[0].startswith(first)
        assert b"Proxy-Authorization: Basic dTpw\r\n" in proxy.heads[0]
        asked = server.requests[0].head
        assert (b"Proxy-Authorization" in asked) is (context is None)
        assert len(server.requests[0].body) == 300_000

    run(main())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"407 Proxy Authentication Required", "refused the tunnel: HTTP 407 Proxy Auth"),
        (b"", None),
    ],
)
def test_a_proxy_that_refuses(
    run: Run, authority: Authority, answer: bytes, words: str | None
) -> None:
    async def main() -> None:
        async with raw_server(ok, tls=authority.server) as server:
            async with proxying(ProxyServer(server.port, answer)) as port:
                reach = Reach(proxy=f"127.0.0.1:{port}", insecure=True)
                target = parse_target("https://localhost:7", reach)
                transport = HttpTransport(target.resolve(), MonotonicClock())
                heard = await send(transport, b"x")
                await transport.close()
        if words is None:
            assert heard.failure is None
        else:
            assert heard.failure is not None and heard.failure[0] is Outcome.connection
            assert words in heard.failure[1]

    run(main())


async def _send(transport: HttpTransport, head: bytes, body: bytes) -> Any:
    from tests.e2e.test_transport import Heard

    heard = Heard()
    transport.send(head, [body], heard)
    await asyncio.wait_for(heard.over.wait(), 10)
    return heard


def test_a_proxy_by_flag_or_by_environment_when_asked(tmp_path: Path) -> None:
    """Without being asked, HTTP_PROXY is not looked at: the run below goes to the server itself."""
    with serving(always_chat) as server:
        proxy = ProxyServer(server.port)
        with _in_thread(proxy) as port:
            away = f"http://u:proxy-pass@127.0.0.1:{port}"
            flags = {"unasked": (), "env": ("--trust-env",), "flag": ("--proxy", away)}
            env = {"http_proxy": away, "no_proxy": ""}
            url = f"http://127.0.0.1:{server.port}"
            started = {
                name: mmload(
                    "run", url, *FEW, "--json", "--out", name, *given, cwd=tmp_path, env=env
                )
                for name, given in flags.items()
            }
            ended = {name: finish(process) for name, process in started.items()}
    for name, (code, out, err) in ended.items():
        assert code in (0, 3), err
        assert summary_of(out)["ok"] == 4
        notes = RunDir(tmp_path / name).manifest().notes
        assert any(f"the proxy http://127.0.0.1:{port}" in n for n in notes) is (name != "unasked")
        _assert_nowhere(tmp_path / name, "proxy-pass", out + err)
    assert len(proxy.heads) >= 2
    assert all(h.startswith((b"POST http://", b"GET http://")) for h in proxy.heads)


@contextlib.contextmanager
def _in_thread(proxy: ProxyServer) -> Iterator[int]:
    import threading

    ports: list[int] = []
    ends: list[Callable[[], object]] = []
    ready = threading.Event()

    async def main() -> None:
        end = asyncio.Event()
        async with proxying(proxy) as port:
            loop = asyncio.get_running_loop()
            ports.append(port)
            ends.append(lambda: loop.call_soon_threadsafe(end.set))
            ready.set()
            await end.wait()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    assert ready.wait(10)
    try:
        yield ports[0]
    finally:
        ends[0]()
        thread.join(10)


# -- keys ------------------------------------------------------------------------------------------

SECRET = "sk-Very/Secret+0123456789abcdef="


def _echo() -> Callable[..., Coroutine[Any, Any, bool]]:
    """A server that repeats all its headers: in errors whole or cut short, in answers, in usage."""
    count = iter(range(1_000_000))

    async def handler(request: Request, reader: Any, writer: asyncio.StreamWriter) -> bool:
        if request.head.startswith(b"GET "):
            return await chat(request, writer)
        said = request.head.replace(b"\r\n", b" | ").replace(b'"', b"'").strip()
        match next(count) % 4:
            case 0:
                return await chat(request, writer, said)
            case 1:
                body = b'{"error": {"message": "wrong key: %s"}}' % said
            case 2:
                at = said.find(SECRET.encode()) + 10
                body = b"plain words: " + b"x" * (370 - at) + said
            case _:
                event = EVENT % b"hi" + b'data: {"choices":[],"usage":{"note":"%s"}}\n\n' % said
                event += b"data: [DONE]\n\n"
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                    b"Content-Length: %d\r\n\r\n%s" % (len(event), event)
                )
                return True
        writer.write(b"HTTP/1.1 401 No\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        return True

    return handler


def test_a_key_is_in_no_file_and_not_on_the_terminal(tmp_path: Path) -> None:
    """Given in every way, echoed in every place; the server did get it."""
    quoted = SECRET.replace("/", "%2F").replace("+", "%2B").replace("=", "%3D")
    ways: dict[str, tuple[str, tuple[str, ...], dict[str, str]]] = {
        "flag": ("", ("--api-key", SECRET), {}),
        "environment": ("", (), {"OPENAI_API_KEY": SECRET}),
        "header": ("", ("--header", f"X-Key: Bearer {SECRET}", "--header", "X-B: b"), {}),
        "url": (f"user:{quoted}@", (), {}),
    }
    started: dict[str, tuple[RawServer, subprocess.Popen[str]]] = {}
    with contextlib.ExitStack() as stack:
        for name, (userinfo, flags, env) in ways.items():
            server = stack.enter_context(serving(_echo()))
            url = f"http://{userinfo}127.0.0.1:{server.port}"
            few = ("--requests", "8", "--qps", "40", "--frames", "0", "--warmup", "0")
            process = mmload("run", url, *few, "--out", name, *flags, cwd=tmp_path, env=env)
            started[name] = (server, process)
        ended = {name: finish(process) for name, (_, process) in started.items()}
    for name, (code, out, err) in ended.items():
        assert code in (0, 3), (name, err)
        sent = started[name][0].requests[-1].head
        if name.startswith("url"):
            assert b"Authorization: Basic " in sent
        else:
            assert SECRET.encode() in sent
        basic = sent.partition(b"Authorization: Basic ")[2].partition(b"\r\n")[0].decode()
        for secret in {SECRET, quoted, basic} - {""}:
            _assert_nowhere(tmp_path / name, secret, out + err)
        _assert_nowhere(tmp_path / name, SECRET[:10], out + err)  # of a cut one
        assert "[redacted]" in (tmp_path / name / "records.jsonl").read_text()


@pytest.mark.parametrize("warmup", ["0", "1"])
def test_an_error_before_the_run_shows_no_key(tmp_path: Path, warmup: str) -> None:
    async def refuse(request: Request, reader: Any, writer: asyncio.StreamWriter) -> bool:
        if request.head.startswith(b"GET ") and warmup != "0":
            return await chat(request, writer)
        body = b"bad key in " + request.head.replace(b"\r\n", b" ")
        writer.write(b"HTTP/1.1 401 No\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        return True

    with serving(refuse) as server:
        url = f"http://127.0.0.1:{server.port}"
        few = ("--requests", "1", "--frames", "0", "--warmup", warmup, "--api-key", SECRET)
        code, out, err = finish(mmload("run", url, *few, "--out", "run", cwd=tmp_path))
    assert code == 2 and "bad key" in err and "[redacted]" in err
    assert SECRET not in out + err and not (tmp_path / "run").exists()


def _assert_nowhere(folder: Path, secret: str, shown: str) -> None:
    assert secret not in shown
    for file in folder.rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes(), file


# -- names and clocks ------------------------------------------------------------------------------

STEPPING = """
import itertools, os, socket, time
# Every look at the wall clock finds it an hour earlier than before.
_real, _looks = time.time(), itertools.count()
time.time = lambda: _real - 3600.0 * next(_looks)
time.time_ns = lambda: int(time.time() * 1e9)
_look_up = socket.getaddrinfo
def getaddrinfo(host, *args, **kwargs):
    with open(os.environ["LOOKED_UP"], "a") as file:
        file.write(f"{host}\\n")
    return _look_up(host, *args, **kwargs)
socket.getaddrinfo = getaddrinfo
"""


def test_a_stepped_wall_clock_does_not_matter_and_the_name_is_looked_up_once(
    tmp_path: Path,
) -> None:
    (tmp_path / "sitecustomize.py").write_text(STEPPING)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {"PYTHONPATH": path, "LOOKED_UP": str(tmp_path / "names")}
    with serving(always_chat) as server:
        url = f"http://localhost:{server.port}"
        few = ("--requests", "20", "--qps", "40", "--frames", "0", "--workers", "2", "--quiet")
        process = mmload("run", url, *few, "--json", "--out", "run", cwd=tmp_path, env=env)
        code, out, err = finish(process)
    assert code in (0, 3), err
    assert (tmp_path / "names").read_text().splitlines() == ["localhost"]
    assert summary_of(out)["ok"] == 20
    for record in RunDir(tmp_path / "run").records():
        stamps = [
            record.sent_ns,
            record.connected_ns,
            record.send_end_ns,
            record.headers_ns,
            record.first_byte_ns,
            record.first_output_ns,
            record.last_output_ns,
            record.closed_ns,
        ]
        known = [s for s in stamps if s is not None]
        assert len(known) == len(stamps) and known == sorted(known)
        assert record.sent_ns is not None and 0 <= record.sent_ns < 60e9
