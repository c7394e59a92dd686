"""`mmload run`, and every API, with the extra's processors and a real model, as a user has them."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mmload.processors.arithmetic import count_tokens
from mmload.processors.families import FAMILY
from mmload.rundir import RunDir
from tests.e2e.cli import finish, mmload, summary_of
from tests.e2e.test_server import Embedded, embedded, image_part, jpeg

pytestmark = pytest.mark.hf

GPU = ("encoder", "prefill", "decode")


def run(folder: Path, *args: str) -> dict[str, Any]:
    command = ("run", *args, "--size=320x240", "--warmup=1", "--json", "--quiet", "--out=out")
    code, out, err = finish(mmload(*command, cwd=folder))
    assert code in (0, 3), err  # a busy machine may make it INVALID, and nothing here times
    return summary_of(out)


def test_a_whole_run_is_measured(tmp_path: Path) -> None:
    what = ("--qps=4", "--frames=6", "--requests=6", "--max-tokens=8", "--reuse=0.5")
    how = ("--processor=stock", "--engine=torch", "--omp-threads=1", "--embedding-cache=8")
    summary = run(tmp_path, *what, *how)
    assert summary["ok"] == summary["joined"] == 6
    assert summary["run"]["simulated"] == "", "nothing is"
    for stage in ("processor", *GPU):
        found = summary["stages"][stage]
        assert found["n"] == 6 and found["mean_ms"] > 0
        assert "simulated" not in found["facts"] and found["facts"]["threads"] == 1
    assert summary["stages"]["encoder"]["facts"]["cache_hit"] == 0.5
    assert summary["stages"]["processor"]["facts"].keys() >= {"frames", "pixels", "cpu_ms"}
    assert "simulated" not in {warning["code"] for warning in summary["warnings"]}
    report = (tmp_path / "out" / "report.html").read_text()
    assert "(simulated)" not in report and "simulated time" not in report
    media_tokens = count_tokens("video", 6, 240, 320)
    for record in RunDir(tmp_path / "out").records():
        assert record.output_tokens == 8 and record.answer and record.answer.isascii()
    [check] = summary["media_check"]["classes"].values()
    assert (check["verdict"], check["expected_media_tokens"]) == ("as_sent", media_tokens)
    assert check["counted_tokens"] == [media_tokens] * 2


def test_a_run_of_gemmas_processor(tmp_path: Path) -> None:
    how = ("--processor=owned", "--model-family=gemma-4", "--decode-step-ms=1")
    summary = run(tmp_path, "--qps=20", "--frames=3", "--requests=4", *how)
    video = FAMILY["gemma-4"].variants[0].video
    assert video is not None and summary["media_check"]["family"] == "gemma-4"
    [check] = summary["media_check"]["classes"].values()
    assert check["verdict"] == "as_sent"
    assert check["counted_tokens"] == [video(3, 240, 320).media] * 2
    assert summary["stages"]["processor"]["facts"]["fallbacks"] == 0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    folder = tmp_path_factory.mktemp("server")
    flags = ("--engine=torch", "--processor=stock", "--embedding-cache=4", "--answer-tokens=6")
    with embedded(folder, *flags, "--max-image-tokens=64") as running:
        yield running


def test_every_api(server: Embedded) -> None:
    picture = jpeg(480, 640)
    url = image_part(picture)["image_url"]["url"]
    text = {"type": "text", "text": "What?"}
    source = {"type": "base64", "media_type": "image/jpeg", "data": url.partition(",")[2]}
    user = {"role": "user"}
    bodies: dict[str, dict[str, Any]] = {
        "chat/completions": {"messages": [{**user, "content": [image_part(picture), text]}]},
        "completions": {"prompt": "What?", "max_tokens": 6},
        "responses": {
            "input": [
                {
                    **user,
                    "content": [
                        {"type": "input_image", "image_url": url},
                        {"type": "input_text", "text": "What?"},
                    ],
                }
            ]
        },
        "messages": {
            "max_tokens": 100,
            "messages": [{**user, "content": [{"type": "image", "source": source}, text]}],
        },
    }

    async def ask() -> tuple[dict[str, Any], str, str]:
        answers = {}
        async with aiohttp.ClientSession(server.url) as session:
            for path, body in bodies.items():
                sent = {"model": "mmload-embedded", **body}
                async with session.post(f"/v1/{path}", json=sent) as response:
                    answers[path] = await response.json()
                    assert response.status == 200, answers[path]
            form = aiohttp.FormData()
            form.add_field("prompt", "What?")
            form.add_field("image", picture, filename="a.jpg", content_type="image/jpeg")
            async with session.post("/predict", data=form) as response:
                predicted = await response.text()
            for _ in range(100):  # an engine's times are read after the answer
                async with session.get("/metrics") as response:
                    metrics = await response.text()
                if 'mmload_stage_seconds_count{stage="encoder"} 4' in metrics:
                    break
                await asyncio.sleep(0.05)
            return answers, predicted, metrics

    answers, predicted, metrics = asyncio.run(ask())
    chat, plain = answers["chat/completions"], answers["completions"]
    # a user's turn: 3 tokens of its mark, 2 marks and at most 64 of the image, the text, the rest
    prompts = chat["usage"]["prompt_tokens"]
    assert 64 * 0.8 < prompts < 64 + 32
    assert answers["responses"]["usage"]["input_tokens"] == prompts
    assert answers["messages"]["usage"]["input_tokens"] == prompts
    assert plain["usage"]["prompt_tokens"] < 8
    assert chat["usage"]["completion_tokens"] == plain["usage"]["completion_tokens"] == 6
    words = chat["choices"][0]["message"]["content"]
    assert words and words == predicted == answers["messages"]["content"][0]["text"]
    assert words == answers["responses"]["output"][0]["content"][0]["text"]

    lines = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if line[0] != "#")
    assert lines['mmload_processor_calls_total{core="stock"}'] == "4"
    assert lines["mmload_embedding_cache_misses_total"] == "1"
    assert lines["mmload_embedding_cache_hits_total"] == "3"
    assert lines['mmload_stage_seconds_count{stage="encoder"}'] == "4"
    [file] = (server.folder / "spans").glob("*.jsonl")
    said: dict[str, Any] = {}
    for _ in range(100):  # the hook writes a few times a second
        for line in file.read_text().splitlines():
            said |= json.loads(line).get("process", {}).get("settings", {})
        if "device" in said:
            break
        time.sleep(0.05)
    assert said["device"] and said["phases_timed_by"] and "simulated" not in said
