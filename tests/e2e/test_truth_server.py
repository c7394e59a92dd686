"""The scripted server of the benchmark, on a real socket: what it answers, and what it writes."""

import contextlib
import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from bench.truth_server import Row

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def killed(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Whatever fails meanwhile, the process does not outlive it."""
    try:
        yield
    finally:
        process.kill()


def test_it_answers_by_its_script_and_stamps_in_order(tmp_path: Path) -> None:
    out = tmp_path / "truth.jsonl"
    script = ["--first-ms", "5", "--gap-ms", "1", "--tokens", "3", "--out", str(out)]
    command = [sys.executable, "-m", "bench.truth_server", *script]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as server, killed(server):
        assert server.stdout is not None
        address = urlsplit(json.loads(server.stdout.readline())["url"])
        client = http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)
        client.request("GET", "/v1/models")
        assert json.loads(client.getresponse().read())["data"][0]["id"] == "truth"
        texts = []
        for request_id in ("a", ""):  # both over one connection
            headers = {"X-Request-Id": request_id} if request_id else {}
            client.request("POST", "/v1/chat/completions", b"x" * 300_000, headers)
            events = client.getresponse().read().decode().split("\n\n")
            assert events[-2:] == ["data: [DONE]", ""]
            chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
            deltas = [c["choices"][0]["delta"] for c in chunks if c["choices"]]
            texts.append("".join(delta.get("content", "") for delta in deltas))
            assert chunks[-1]["usage"]["completion_tokens"] == 3
        client.request("GET", "/metrics")
        assert client.getresponse().status == 404
        client.close()
        server.terminate()
        assert server.wait(10) == 0
    assert texts == ["#0 word word ", "#1 word word "]
    first, second = (msgspec.json.decode(line, type=Row) for line in out.read_bytes().splitlines())
    assert (first.request_id, second.request_id) == ("a", "")
    assert (first.nth, second.nth, first.connection) == (0, 1, second.connection)
    for row in (first, second):
        assert row.body_bytes == 300_000
        assert row.due_ns[0] - row.last_byte_ns == 5_000_000
        stamps = [row.first_byte_ns, row.last_byte_ns, *row.token_ns]
        assert len(row.token_ns) == 3 and stamps == sorted(stamps)
        assert all(late >= 0 for late in map(int.__sub__, row.token_ns, row.due_ns))
