"""Servers for `mmload run -- CMD`, good and bad: `python servers.py KIND PORT [WORDS]`.

    good      answers chat completions
    stubborn  the same, and minds no SIGTERM; has a child in a session of its own that does neither
    orphans   the same; its grandchild has its own session, and no parent any more
    mortal    dies without a word of farewell at its fourth request, as a crash does
    late      says 503 to /health for a second
    bare      has neither /health nor /v1/models
    deaf      never listens
    dead      ends at once, exit code 3
    tells     writes its command line and its environment to the log

Standard library alone. The pids of children go to a file: the environment's PIDS.
"""

import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SLEEPER = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(120)"
CHUNKS = (
    b'data: {"choices":[{"delta":{"content":"hi"}}]}\n\n'
    b'data: {"choices":[{"delta":{},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":3,"completion_tokens":1}}\n\n'
    b"data: [DONE]\n\n"
)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kind = "good"
    born_s = time.monotonic()
    requests = 0

    def do_GET(self) -> None:
        status = 200
        if self.kind == "late" and time.monotonic() < self.born_s + 1.0:
            status = 503
        if self.kind == "bare":
            status = 404
        body = b'{"data": [{"id": "tiny"}]}' if self.path == "/v1/models" else b"{}"
        self._answer(status, "application/json", body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        Handler.requests += 1
        if self.kind == "mortal" and Handler.requests == 4:
            print("RuntimeError: the engine is on fire", file=sys.stderr, flush=True)
            os._exit(9)
        self._answer(200, "text/event-stream", CHUNKS)

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def remember(pid: int) -> None:
    with open(os.environ["PIDS"], "a", encoding="ascii") as file:
        file.write(f"{pid}\n")


def main(kind: str, port: int) -> int:
    if kind == "dead":
        print("ValueError: no such model", file=sys.stderr)
        return 3
    if kind == "deaf":
        if "PIDS" in os.environ:
            remember(os.getpid())
        print("loading weights", flush=True)
        time.sleep(120)
    if kind == "tells":
        print(json.dumps([sys.argv, dict(os.environ)]), flush=True)
    if kind == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", SLEEPER], start_new_session=True)
        remember(child.pid)
    if kind == "orphans":
        between = (
            "import subprocess, sys\n"
            "command = [sys.executable, '-c', sys.argv[1]]\n"
            "none = subprocess.DEVNULL\n"
            "print(subprocess.Popen(command, start_new_session=True, stdout=none).pid)"
        )
        said = subprocess.run(
            [sys.executable, "-c", between, SLEEPER], stdout=subprocess.PIPE, check=True
        ).stdout
        remember(int(said.split()[0]))
    remember(os.getpid())
    Handler.kind = kind
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
