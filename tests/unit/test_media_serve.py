"""Media by URL: each variant under its own address, with exactly its bytes."""

import http.client
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from mmload.errors import UsageError
from mmload.load.media import images, synthetic
from mmload.load.media.serve import MediaServer, answer
from mmload.load.prepare import links
from tests.unit.bodies import Made, parts


@pytest.fixture(scope="module")
def made() -> Made:
    return Made(requests=20)


@pytest.fixture(scope="module")
def server(made: Made) -> Iterator[MediaServer]:
    with MediaServer(made.pool.media()) as running:
        yield running


def test_each_request_has_its_own_url_with_its_own_bytes(made: Made, server: MediaServer) -> None:
    by_url = Made(server, requests=20)
    urls = [parts(body, "image_url")[0]["url"] for body in by_url.bodies()]
    assert len(set(urls)) == 20
    host = urlsplit(urls[0]).netloc
    connection = http.client.HTTPConnection(host, timeout=10)
    fetched = []
    for i, url in enumerate(urls):
        connection.request("GET", urlsplit(url).path)  # over one connection
        response = connection.getresponse()
        assert (response.status, response.getheader("Content-Type")) == (200, "image/jpeg")
        fetched.append(response.read())
        plan = made.payloads.plan
        shown = made.pool.sets[i % 8].media[0]
        assert fetched[i] == shown.variant(int(plan.variant[i]))  # type: ignore[union-attr]
    connection.close()
    assert len(set(fetched)) == 20
    assert host.startswith("127.0.0.1:")


def test_what_is_not_there_is_a_404(made: Made) -> None:
    media = made.pool.media()
    for path in (b"/", b"/0", b"/99/0.jpeg", b"/0/x.jpeg", b"/0/99999999999.jpeg", b"/\xff/0"):
        assert answer(media, "GET", path)[0] == "404 Not Found", path
    assert answer(media, "POST", b"/0/0.jpeg")[0] == "405 Method Not Allowed"


def test_head_and_close(server: MediaServer, made: Made) -> None:
    medium = made.pool.media()[0]
    out: list[bytes | memoryview] = []
    server.strand(medium).add(out, 3)
    url = urlsplit(b"".join(out).decode())
    with socket.create_connection((url.hostname, url.port), timeout=10) as raw:
        raw.sendall(f"HEAD {url.path} HTTP/1.1\r\nConnection: close\r\n\r\n".encode())
        received = b""
        while data := raw.recv(65536):
            received += data
    head, _, body = received.partition(b"\r\n\r\n")
    assert body == b"" and f"Content-Length: {len(medium.data)}".encode() in head


def test_the_process_ends_with_its_owner() -> None:
    medium = images.encode(synthetic.image_pixels(synthetic.seeded(1), 32, 32))
    server = MediaServer([medium])
    process = server._process
    assert process.is_alive()
    server.close()
    assert not process.is_alive() and process.exitcode == 0


def test_another_host_could_not_fetch(made: Made) -> None:
    by_url = made.scenario.model_copy(update={"media_url": "serve"})
    with pytest.raises(UsageError, match="192.0.2.1 cannot fetch"):
        links(by_url, made.pool, "192.0.2.1")
    with links(made.scenario, made.pool, "192.0.2.1") as nobody:
        assert nobody is None
