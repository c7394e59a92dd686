"""`mmload run --api ...`: every API but chat (which all other tests use), as a user has it."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from mmload.processors.arithmetic import count_tokens
from mmload.rundir import RunDir
from mmload.wire import APIS
from mmload.wire.base import Ask, MediaSlot
from tests.e2e.cli import finish, mmload, summary_of
from tests.e2e.test_server import Embedded, embedded, jpeg

IMAGE_TOKENS = count_tokens("image", 1, 240, 320)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    folder = tmp_path_factory.mktemp("server")
    with embedded(folder, "--decode-step-ms=1", "--answer-tokens=8") as running:
        yield running


def run(server: Embedded, folder: Path, *args: str, prefix: str = "") -> tuple[int, str, str]:
    command = ("run", server.url + prefix, *args, "--json", "--quiet")
    load = ("--requests=6", "--qps=40", "--warmup=1", "--out=out")
    key = {"MMLOAD_API_KEY": "s3cret-key"}
    return finish(mmload(*command, *load, cwd=folder, env=key))


@pytest.mark.parametrize(
    ("api", "frames", "prefix"),
    [
        ("completions", "0", ""),
        ("responses", "1", "/v1"),
        ("messages", "1", ""),
        ("predict", "1", "/predict"),
    ],
)
def test_every_api(server: Embedded, tmp_path: Path, api: str, frames: str, prefix: str) -> None:
    args = (f"--api={api}", f"--frames={frames}", "--size=320x240")
    code, out, err = run(server, tmp_path, *args, prefix=prefix)
    assert code in (0, 3), err
    summary = summary_of(out)
    assert summary["ok"] == summary["planned"] == summary["joined"] == 6, summary["failed"]
    records = list(RunDir(tmp_path / "out").records())
    assert len(records) == 6
    log = {line["request_id"]: line for line in server.log()}
    for record in records:
        assert record.answer == "Lorem ipsum dolor sit amet, consectetur adipiscing elit,"
        assert len(record.chunk_ns) <= 8  # predict: as many as there were reads
        witness = log[record.request_id]
        assert witness["frames"] == int(frames) and witness["status"] == 200
        assert witness["path"] == ("" if api == "predict" else "/v1") + f"/{api}"
        if api == "predict":
            assert record.prompt_tokens is None and record.output_tokens is None
        else:
            assert len(record.chunk_ns) == record.output_tokens == 8
            assert record.prompt_tokens == witness["prompt_tokens"]
            assert (record.prompt_tokens or 0) > int(frames) * IMAGE_TOKENS
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["media"]["distinct"] == (6 if frames == "1" else 1)
    for file in (tmp_path / "out").rglob("*"):
        assert not file.is_file() or b"s3cret-key" not in file.read_bytes(), file


def test_what_an_api_cannot_ask(server: Embedded, tmp_path: Path) -> None:
    code, out, err = run(server, tmp_path, "--api=responses", "--frames=4")
    assert code == 2 and out == ""
    words = "--api responses: takes text and images, not videos"
    assert words in re.sub(r"\s+", " ", err)
    assert not (tmp_path / "out").exists()


def test_forms_of_another_library(server: Embedded) -> None:
    """aiohttp writes a form, the embedded server reads it."""

    async def post(*fields: str) -> tuple[int, str, str]:
        form = aiohttp.FormData(default_to_multipart=bool(fields))
        if "prompt" in fields:
            form.add_field("prompt", "What is it?")
        if "image" in fields:
            form.add_field("image", jpeg(), filename="a b.jpg", content_type="image/jpeg")
        async with aiohttp.ClientSession(server.url) as session:
            async with session.post("/predict", data=form) as response:
                return response.status, response.content_type, await response.text()

    answer = "Lorem ipsum dolor sit amet, consectetur adipiscing elit,"
    assert asyncio.run(post("image", "prompt")) == (200, "text/plain", answer)
    status, kind, body = asyncio.run(post("prompt"))
    assert (status, kind) == (422, "application/json")
    assert json.loads(body) == {"detail": "image: must be given as a file, once, not 0 times"}
    status, _, body = asyncio.run(post())
    assert status == 422 and "multipart/form-data" in body


def test_our_form_in_another_library() -> None:
    """We write a form, aiohttp reads it."""
    api = APIS["predict"]
    picture = jpeg()
    ask = Ask("m", "Grüße?\r\n", (MediaSlot("image", "image/jpeg", "@@0@@"),), extra={"top": 5})
    sent = api.body(ask).replace(b"@@0@@", picture)
    got: dict[str, object] = {}

    async def predict(request: web.Request) -> web.Response:
        form = await request.post()
        for name, value in form.items():
            if isinstance(value, web.FileField):
                got[name] = value.content_type, value.file.read()
            else:
                got[name] = value
        return web.Response(text="ok")

    async def talk() -> str:
        app = web.Application()
        app.router.add_post("/predict", predict)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0][:2]
            headers = {"Content-Type": api.content_type}
            async with aiohttp.ClientSession(f"http://{host}:{port}", headers=headers) as session:
                async with session.post("/predict", data=sent) as response:
                    return await response.text()
        finally:
            await runner.cleanup()

    assert asyncio.run(talk()) == "ok"
    assert got == {"image": ("image/jpeg", picture), "prompt": "Grüße?\r\n", "top": "5"}
