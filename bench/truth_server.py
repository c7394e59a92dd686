"""A scripted chat server whose own clock is the truth: python -m bench.truth_server --out FILE

Each request is numbered as it arrives, and the moments of its first byte, its last byte and every
token's write are stamped where they happen, in the protocol's callbacks, on CLOCK_MONOTONIC. The
answer's head goes out at once, the first token `--first-ms` after the request's last byte (together
with the role, as vLLM sends them), then `--tokens` tokens `--gap-ms` apart. The first token's text
is the request's number, `#17`, as is the answer's id: no client needs a header to be matched.

Only request heads are parsed; any client of an OpenAI server is served, over any number of
kept-alive connections. On standard output: the ready line that `mmload.serving` reads, and a line
when the first request has arrived. One JSON line a request is written to `--out` at the end
(SIGTERM); times in it are nanoseconds.
"""

import argparse
import asyncio
import gc
import json
import signal
import time
from itertools import count
from typing import Final, cast

import msgspec
import uvloop

READ_BYTES: Final = 1 << 20
STREAM_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
MODELS: Final = json.dumps(
    {
        "object": "list",
        "data": [
            {"id": "truth", "object": "model", "created": 0, "owned_by": "bench", "root": "truth"}
        ],
    }
).encode()
PAGES: Final = {b"/v1/models": MODELS, b"/health": b"{}", b"/version": b'{"version": "truth"}'}


class Row(msgspec.Struct, kw_only=True):
    """What the server saw of one request."""

    number: int  # in order of arrival, from 0
    connection: int  # which connection it came over, in order of their opening
    nth: int  # how many requests that connection had carried before
    request_id: str = ""  # X-Request-Id, if any
    body_bytes: int = 0
    first_byte_ns: int
    last_byte_ns: int = 0
    due_ns: list[int] = []  # when the script wanted each token written
    token_ns: list[int] = []  # just before it was

    @property
    def key(self) -> str:
        """How an answer names its request."""
        return f"#{self.number}"


class Script(msgspec.Struct, frozen=True):
    """The answer's timetable."""

    first_ns: int
    gap_ns: int
    tokens: int


def framed(data: bytes) -> bytes:
    """As a chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(row: Row, delta: dict[str, str], finish: str | None = None) -> bytes:
    return _chunk(row, choices=[{"index": 0, "delta": delta, "finish_reason": finish}])


def _chunk(row: Row, **fields: object) -> bytes:
    whole = {"id": row.key, "object": "chat.completion.chunk", "created": 0, "model": "truth"}
    return b"data: " + msgspec.json.encode(whole | fields) + b"\n\n"


def first_token(row: Row) -> bytes:
    role = event(row, {"role": "assistant", "content": ""})
    return framed(role) + framed(event(row, {"content": f"{row.key} "}))


def ending(row: Row) -> bytes:
    tokens = len(row.due_ns)
    usage = {"prompt_tokens": 100, "completion_tokens": tokens, "total_tokens": 100 + tokens}
    last = event(row, {}, "stop") + _chunk(row, choices=[], usage=usage) + b"data: [DONE]\n\n"
    return framed(last) + b"0\r\n\r\n"


def page(status: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
    return head % (status, len(body), body)


class Log:
    """All rows of the server's life, and who is told of the first."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.rows: list[Row] = []
        self.connections = count()

    def open(self, connection: int, nth: int, now_ns: int) -> Row:
        row = Row(number=len(self.rows), connection=connection, nth=nth, first_byte_ns=now_ns)
        self.rows.append(row)
        if not row.number:
            print(json.dumps({"first": True}), flush=True)
        return row


class Connection(asyncio.BufferedProtocol):
    """One connection, one request at a time. Bodies are counted, not kept: all connections read
    into one buffer."""

    buffer: Final = memoryview(bytearray(READ_BYTES))

    def __init__(self, log: Log) -> None:
        self._log = log
        self._number = next(log.connections)
        self._served = 0
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._row: Row | None = None  # of the request whose body is still coming
        self._head = b""
        self._head_ns = 0
        self._left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        now_ns = time.monotonic_ns()
        if self._row is not None:
            self._body(self._row, nbytes, now_ns)
            return
        if not self._head:
            self._head_ns = now_ns
        self._head += self.buffer[:nbytes]
        end = self._head.find(b"\r\n\r\n")
        if end >= 0:
            head, rest = self._head[:end], len(self._head) - end - 4
            self._head = b""
            self._request(head, rest, now_ns)

    def _request(self, head: bytes, rest: int, now_ns: int) -> None:
        lines = head.split(b"\r\n")
        method, target, _ = lines[0].split(b" ", 2)
        fields = (line.partition(b":") for line in lines[1:])
        headers = {name.lower(): value.strip() for name, _, value in fields}
        path = target.split(b"?", 1)[0]
        if method == b"GET" and path in PAGES:
            self._transport.write(page(b"200 OK", PAGES[path]))
        elif method == b"POST" and path == b"/v1/chat/completions" and b"content-length" in headers:
            row = self._log.open(self._number, self._served, self._head_ns)
            self._served += 1
            row.request_id = headers.get(b"x-request-id", b"").decode()
            row.body_bytes = self._left = int(headers[b"content-length"])
            self._row = row
            self._body(row, rest, now_ns)
        else:
            self._transport.write(page(b"404 Not Found", b'{"error": {"message": "not here"}}'))

    def _body(self, row: Row, nbytes: int, now_ns: int) -> None:
        self._left -= nbytes
        if self._left > 0:
            return
        self._row = None
        row.last_byte_ns = now_ns
        script = self._log.script
        first_ns = now_ns + script.first_ns
        row.due_ns = [first_ns + k * script.gap_ns for k in range(script.tokens)]
        self._transport.write(STREAM_HEAD)
        self._token(row)

    def _token(self, row: Row) -> None:
        """Writes the next token if it is due, and comes back for the one after it."""
        k = len(row.token_ns)
        wait_ns = row.due_ns[k] - time.monotonic_ns()
        if wait_ns > 0:  # timers are coarse and may be early: then it asks again
            self._loop.call_later(wait_ns / 1e9, self._token, row)
            return
        if self._transport.is_closing():
            return
        text = framed(event(row, {"content": "word "})) if k else first_token(row)
        last = k + 1 == len(row.due_ns)
        if last:
            text += ending(row)
        row.token_ns.append(time.monotonic_ns())
        self._transport.write(text)
        if not last:
            self._loop.call_soon(self._token, row)


async def serve(log: Log, port: int) -> None:
    """Serves until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(log), "127.0.0.1", port, backlog=1024)
    stop = asyncio.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, stop.set)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    print(json.dumps({"ready": True, "url": url}), flush=True)
    gc.freeze()
    gc.disable()
    await stop.wait()
    server.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", required=True, help="JSON lines, a request a line")
    parser.add_argument("--port", type=int, default=0, help="any free one by default")
    parser.add_argument("--first-ms", type=float, default=50.0, help="to the first token")
    parser.add_argument("--gap-ms", type=float, default=5.0, help="between tokens")
    parser.add_argument("--tokens", type=int, default=16)
    args = parser.parse_args()
    log = Log(Script(round(args.first_ms * 1e6), round(args.gap_ms * 1e6), args.tokens))
    uvloop.run(serve(log, args.port))
    with open(args.out, "wb") as out:
        out.writelines(msgspec.json.encode(row) + b"\n" for row in log.rows)


if __name__ == "__main__":
    main()
