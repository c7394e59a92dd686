"""The embedded server as a process: what clients, the hook's files and the log see."""

import asyncio
import base64
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import cv2
import numpy as np
import pytest
from aiohttp import web

from mmload.hook.headers import parse_trace
from mmload.processors.arithmetic import count_tokens
from mmload.records import Span
from mmload.rundir import SpanLines
from mmload.server.tokenizer import Tokenizer

CAUSAL = [
    *("http_receive", "media_wait", "media_decode", "renderer_wait", "tokenize", "processor"),
    *("handoff", "engine_wait", "encoder", "prefill", "decode"),
]


class Embedded:
    """A running `python -m mmload.server`."""

    def __init__(self, process: "subprocess.Popen[str]", url: str, folder: Path) -> None:
        self.process = process
        self.url = url
        self.folder = folder

    def stop(self, sign: int = signal.SIGTERM) -> int:
        self.process.send_signal(sign)
        return self.process.wait(20)

    def log(self) -> list[dict[str, Any]]:
        """The log: nothing but access lines."""
        return [json.loads(line) for line in (self.folder / "log").read_text().splitlines()]

    def spans(self) -> tuple[dict[str, list[Span]], dict[str, Any]]:
        """Spans by request, in order of start; the settings that the process gave."""
        lines = SpanLines(list((self.folder / "spans").glob("*.jsonl")))
        found: dict[str, list[Span]] = {}
        for span in lines:
            found.setdefault(span.request_id, []).append(span)
        assert lines.damaged == 0
        [process] = lines.processes
        assert process.lost == 0
        for spans in found.values():
            spans.sort(key=lambda span: (span.start_ns, span.end_ns))
        return found, process.settings


@contextmanager
def embedded(folder: Path, *flags: str) -> Iterator[Embedded]:
    environment = {**os.environ, "MMLOAD_HOOK_DIR": str(folder / "spans")}
    command = [sys.executable, "-m", "mmload.server", *flags]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            text=True,
        )
    with process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, (folder / "log").read_text()
            ready = json.loads(line)
            assert ready["ready"] is True and ready["pid"] == process.pid
            yield Embedded(process, ready["url"], folder)
        finally:
            if process.poll() is None:
                process.kill()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    with embedded(tmp_path_factory.mktemp("server"), "--decode-step-ms=1") as running:
        yield running


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> str:
    """15 frames of 854x480 as a data URI."""
    path = tmp_path_factory.mktemp("media") / "clip.mp4"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), 30, (854, 480))
    coarse = np.random.default_rng(1).integers(0, 256, (15, 27, 3), np.uint8)
    picture = np.asarray(cv2.resize(coarse, (854, 480), interpolation=cv2.INTER_CUBIC), np.uint8)
    for number in range(15):
        writer.write(np.roll(picture, 7 * number, axis=1))
    writer.release()
    return "data:video/mp4;base64," + base64.b64encode(path.read_bytes()).decode()


def jpeg(height: int = 100, width: int = 100) -> bytes:
    return cv2.imencode(".jpg", np.full((height, width, 3), 90, np.uint8))[1].tobytes()


def image_part(data: bytes) -> dict[str, Any]:
    url = "data:image/jpeg;base64," + base64.b64encode(data).decode()
    return {"type": "image_url", "image_url": {"url": url}}


def body(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    content = [*parts, {"type": "text", "text": "Describe the video."}]
    return {
        "model": "mmload-embedded",
        "messages": [{"role": "user", "content": content}],
        "max_tokens": 4,
        **fields,
    }


STREAM: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}


def talk(server: Embedded, act: Callable[[aiohttp.ClientSession], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        timeout = aiohttp.ClientTimeout(total=30)
        async with aiohttp.ClientSession(server.url, timeout=timeout) as session:
            return await act(session)

    return asyncio.run(run())


async def chat(
    session: aiohttp.ClientSession, request: dict[str, Any] | bytes, request_id: str = ""
) -> tuple[int, Any, bytes]:
    """(status, headers, body)."""
    headers = {"X-Request-Id": request_id} if request_id else {}
    data = request if isinstance(request, bytes) else json.dumps(request).encode()
    path = "/v1/chat/completions"
    async with session.post(path, data=io.BytesIO(data), headers=headers) as response:
        return response.status, response.headers, await response.read()


async def gauge(session: aiohttp.ClientSession, name: str) -> float:
    async with session.get("/metrics") as response:
        lines = (await response.text()).splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.split()[0] == name)


async def until(session: aiohttp.ClientSession, name: str, value: float) -> None:
    async with asyncio.timeout(15):
        while await gauge(session, name) != value:
            await asyncio.sleep(0.02)


def test_a_streamed_video_request(server: Embedded, video: str) -> None:
    part = {"type": "video_url", "video_url": {"url": video}}
    status, headers, data = talk(server, lambda s: chat(s, body(part, **STREAM), "clip-1"))
    assert status == 200
    assert headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert headers["X-Request-Id"] == "clip-1"
    trace = parse_trace(headers["X-Mmload-Trace"])
    assert trace is not None and trace[1] == str(server.folder / "spans")

    lines = data.decode().split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    role, *tokens, finish, usage = chunks
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    text = [chunk["choices"][0]["delta"]["content"] for chunk in tokens]
    assert text == ["Lorem", " ipsum", " dolor", " sit"]
    assert finish["choices"][0] == {
        "index": 0,
        "delta": {},
        "logprobs": None,
        "finish_reason": "length",
    }
    assert {chunk["id"] for chunk in chunks} == {"chatcmpl-clip-1"}

    # 8 pairs of 30 x 54 patches, 4 a token; the template's marks and words; the text's own tokens
    media_tokens = 8 * 30 * 54 // 4
    assert media_tokens == count_tokens("video", 15, 480, 854) == 3240
    prompt_tokens = media_tokens + 3 + 2 + 2 + 3 + len(Tokenizer().encode("Describe the video."))
    assert usage["choices"] == []
    assert usage["usage"] == {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": 4,
        "total_tokens": prompt_tokens + 4,
        "prompt_tokens_details": {"cached_tokens": 0, "multimodal_tokens": 3240},
    }


def test_a_whole_answer_and_the_models_own_end(server: Embedded) -> None:
    request = body(image_part(jpeg()), max_tokens=1_000)
    status, headers, data = talk(server, lambda s: chat(s, request))
    answer = json.loads(data)
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert len(headers["X-Request-Id"]) == 32
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert len(answer["choices"][0]["message"]["content"].split()) == 64
    # 100x100 is enlarged to 65,536 pixels: 256x256, 16 x 16 patches
    assert answer["usage"]["prompt_tokens_details"]["multimodal_tokens"] == 64


def test_several_requests_at_once_keep_apart(server: Embedded) -> None:
    async def act(session: aiohttp.ClientSession) -> list[tuple[int, Any, bytes]]:
        requests = [
            body(*[image_part(jpeg())] * n, max_tokens=n + 1, **STREAM, ignore_eos=True)
            for n in range(6)
        ]
        return await asyncio.gather(
            *(chat(session, request, f"many-{n}") for n, request in enumerate(requests))
        )

    for n, (status, headers, data) in enumerate(talk(server, act)):
        usage = json.loads(data.split(b"\n\n")[-3][6:])["usage"]
        assert (status, headers["X-Request-Id"]) == (200, f"many-{n}")
        assert usage["completion_tokens"] == n + 1
        assert usage["prompt_tokens_details"]["multimodal_tokens"] == 64 * n


@pytest.mark.parametrize(
    ("request_body", "status", "code", "words"),
    [
        (b"{not json", 400, None, "not valid JSON"),
        (body(model="gpt-5"), 404, "model_not_found", "does not exist"),
        (body({"type": "input_audio"}), 400, "unsupported_content", "input_audio"),
        (body(image_part(jpeg()[:200])), 400, "invalid_media", "cannot be decoded"),
        (body(image_part(b"text named .jpg")), 400, "invalid_media", "cannot be decoded"),
        (body(image_part(jpeg(2, 900))), 400, "invalid_media", "one side may be 200 times"),
        (
            body({"type": "image_url", "image_url": {"url": "http://example.com/a.png"}}),
            *(400, "invalid_media", "loopback addresses only"),
        ),
    ],
)
def test_errors_are_openais(
    server: Embedded, request_body: Any, status: int, code: str | None, words: str
) -> None:
    got, headers, data = talk(server, lambda s: chat(s, request_body, "bad-1"))
    error = json.loads(data)["error"]
    assert (got, error["code"]) == (status, code) and words in error["message"]
    assert headers["X-Request-Id"] == "bad-1" and headers["Content-Type"] == "application/json"


def test_other_paths(server: Embedded) -> None:
    async def act(session: aiohttp.ClientSession) -> list[tuple[int, Any]]:
        answers = []
        for method, path in (
            ("GET", "/health"),
            ("GET", "/v1/models"),
            ("GET", "/v1/nothing"),
            ("GET", "/v1/chat/completions"),
        ):
            async with session.request(method, path) as response:
                text = await response.text()
                answers.append((response.status, json.loads(text) if text else None))
        return answers

    health, models, nothing, wrong_method = talk(server, act)
    assert health == (200, None)
    assert [model["id"] for model in models[1]["data"]] == ["mmload-embedded"]
    assert nothing[0] == 404 and nothing[1]["error"]["message"] == "GET /v1/nothing: Not Found"
    assert wrong_method[0] == 405 and "error" in wrong_method[1]


def test_a_body_of_30_mb(server: Embedded) -> None:
    request = body(padding="x" * 30_000_000, max_tokens=1)
    status, _, data = talk(server, lambda s: chat(s, request))
    assert status == 200 and json.loads(data)["usage"]["completion_tokens"] == 1


def test_media_by_url_from_this_host(server: Embedded) -> None:
    async def act(session: aiohttp.ClientSession) -> list[tuple[int, Any, bytes]]:
        app = web.Application()

        async def picture(_: web.Request) -> web.Response:
            return web.Response(body=jpeg())

        async def elsewhere(_: web.Request) -> web.Response:
            raise web.HTTPFound("http://example.com/a.jpg")

        app.router.add_get("/a.jpg", picture)
        app.router.add_get("/moved.jpg", elsewhere)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            base = f"http://127.0.0.1:{runner.addresses[0][1]}"
            return [
                await chat(
                    session,
                    body({"type": "image_url", "image_url": {"url": f"{base}/{name}"}}),
                    f"url-{name}",
                )
                for name in ("a.jpg", "moved.jpg", "none.jpg")
            ]
        finally:
            await runner.cleanup()

    good, moved, missing = talk(server, act)
    assert good[0] == 200
    assert moved[0] == 400 and b"gave HTTP 302" in moved[2]
    assert missing[0] == 400 and b"gave HTTP 404" in missing[2]


def test_a_client_that_leaves_cancels_its_request(server: Embedded) -> None:
    async def act(session: aiohttp.ClientSession) -> None:
        gone = 'mmload_requests_total{status="499"}'
        before = await gauge(session, gone)
        request = body(image_part(jpeg()), max_tokens=4_000, ignore_eos=True, **STREAM)
        async with session.post("/v1/chat/completions", json=request) as response:
            await response.content.readany()
            assert await gauge(session, "mmload_num_requests_running") == 1
        await until(session, "mmload_num_requests_running", 0)
        await until(session, gone, before + 1)

    talk(server, act)


def test_what_the_hook_and_the_log_have_seen(video: str, tmp_path: Path) -> None:
    with embedded(tmp_path, "--renderer-workers=2", "--omp-threads=1") as server:

        async def act(session: aiohttp.ClientSession) -> list[tuple[int, Any, bytes]]:
            part = {"type": "video_url", "video_url": {"url": video}}
            return await asyncio.gather(
                *(chat(session, body(part, **STREAM), f"clip-{n}") for n in range(4)),
                chat(session, body(max_tokens=1), "text"),
                chat(session, body(image_part(b"x")), "bad"),
            )

        answers = talk(server, act)
        assert [status for status, _, _ in answers] == [200] * 5 + [400]
        assert server.stop() == 0
        by_request, settings = server.spans()
        log = {line["request_id"]: line for line in server.log()}

    assert settings["renderer_workers"] == 2 and settings["simulated"].startswith("accelerator")
    for n in range(4):
        spans = by_request[f"clip-{n}"]
        assert [span.stage for span in spans if span.stage != "stream_out"] == CAUSAL
        chain = [span for span in spans if span.stage != "stream_out"]
        for before, after in zip(chain, chain[1:], strict=False):
            assert before.start_ns <= before.end_ns <= after.start_ns
        stage = {span.stage: span for span in spans}
        facts = stage["processor"].facts
        assert (facts["frames"], facts["pixels"]) == (15, 15 * 854 * 480)
        assert (facts["pool_width"], facts["threads"]) == (2, 1)
        assert facts["cpu_ns"] > 0 and facts["minor_faults"] >= 0
        assert stage["media_decode"].facts["frames"] == 15
        assert stage["decode"].facts == {"simulated": True, "pool_width": 64, "steps": 3}
        out = stage["stream_out"]
        assert stage["prefill"].end_ns <= out.start_ns and stage["decode"].end_ns <= out.end_ns

        line = log[f"clip-{n}"]
        assert (line["status"], line["frames"], line["output_tokens"]) == (200, 15, 4)
        assert (
            line["prompt_tokens"]
            == json.loads(answers[n][2].split(b"\n\n")[-3][6:])["usage"]["prompt_tokens"]
        )
        first_ns = line["headers_ns"] + line["first_token_ms"] * 1e6
        assert abs(first_ns - out.start_ns) < 2_000  # the log rounds to the microsecond
        assert line["headers_ns"] <= spans[0].start_ns

    assert [span.stage for span in by_request["text"]] == [
        *("http_receive", "renderer_wait", "tokenize", "handoff", "engine_wait", "prefill")
    ]
    assert by_request["bad"][-1].stage == "media_decode"
    assert by_request["bad"][-1].facts["error"] == "MediaError"
    assert (log["bad"]["status"], "cannot be decoded" in log["bad"]["error"]) == (400, True)


def test_bounds_a_busy_port_and_a_stop_in_mid_stream(tmp_path: Path) -> None:
    flags = ("--max-body-mib=1", "--processor-fixed-ms=20")
    with embedded(tmp_path, *flags) as server:
        status, _, data = talk(server, lambda s: chat(s, body(padding="x" * 2_000_000)))
        assert status == 413
        assert json.loads(data)["error"]["message"] == "the body is larger than 1 MiB"

        port = server.url.rsplit(":", 1)[1]
        command = [sys.executable, "-m", "mmload.server", "--port", port]
        second = subprocess.run(command, capture_output=True, text=True, timeout=30)
        assert second.returncode == 2 and second.stdout == ""
        assert f"--port {port}" in second.stderr and "--port 0" in second.stderr

        async def act(session: aiohttp.ClientSession) -> None:
            request = body(image_part(jpeg()), max_tokens=4_000, ignore_eos=True, **STREAM)
            async with session.post("/v1/chat/completions", json=request) as response:
                await response.content.readany()
                assert server.stop(signal.SIGINT) == 0
                with pytest.raises(aiohttp.ClientPayloadError):
                    await response.read()

        talk(server, act)
        by_request, settings = server.spans()
        by_request.pop("", None)  # a busy machine's event loop was held up: nobody's span
        [cut] = [spans for spans in by_request.values() if spans[-1].stage != "http_receive"]
        processor = next(span for span in cut if span.stage == "processor")
        assert processor.end_ns - processor.start_ns == 20_000_000
        assert settings["simulated"].endswith("processor, 20 ms by a timer")
