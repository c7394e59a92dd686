"""Owned processor cores beneath a real vLLM: the same tensors and tokens, and whose each call was.

    tests/real/vllm/install.sh && pytest -m vllm tests/real/vllm/test_owned.py

vLLM's processor alone, twice, as it is and with the switch: every tensor bit for bit. Then two
servers, one of them under `mmload trace --owned`, without mmload in vLLM's environment: the same
prompt and the same answer, token by token. How much faster it is, `bench/vllm_owned.py` measures.
"""

import base64
import contextlib
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from tests.real.vllm import server as real
from tests.real.vllm.processors import Processor, processor
from tests.real.vllm.test_vllm import read, run

pytestmark = pytest.mark.vllm

MODES = ("device", "host")
OWN = {"owned_calls": 1}
CASES: dict[str, dict[str, int]] = {
    "15": OWN,
    "6": OWN,
    "3": OWN,
    "image": OWN,
    "grey and alpha": OWN,  # transformers makes them RGB before
    "images and videos": {"owned_calls": 3},  # two images in one call, two videos
    "smaller": OWN,
    "sampled": OWN,
    "not resized": {"stock_calls: do_resize False": 1},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return real.model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module", params=MODES)
def pair(
    request: pytest.FixtureRequest, model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Processor, Processor]]:
    folder = tmp_path_factory.mktemp(request.param)
    with (
        processor(folder / "stock", model, request.param, owned=False) as stock,
        processor(folder / "owned", model, request.param, owned=True) as owned,
    ):
        yield stock, owned


@pytest.mark.parametrize("case", CASES)
def test_the_same_tensors_and_prompts(pair: tuple[Processor, Processor], case: str) -> None:
    stock, owned = pair
    for seed in (1, 2):  # the second may get the first one's memory
        expected, made = stock.ask(case, seed), owned.ask(case, seed)
        assert made["tensors"] == expected["tensors"]
        assert made["prompt"] == expected["prompt"]
        assert (expected["facts"], made["facts"]) == ({}, CASES[case])


def test_what_is_kept_is_never_written_again(pair: tuple[Processor, Processor]) -> None:
    answer = pair[1].ask("keep", 60)
    assert len(answer["made"]) == 20
    assert answer["end"] == answer["made"]


@pytest.fixture(scope="module")
def servers(
    model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[real.Running, real.Running]]:
    folder = tmp_path_factory.mktemp("servers")
    flags = ("--no-mm-device-do-normalize", "--max-num-seqs", "1")
    with contextlib.ExitStack() as stack:
        stock = real.vllm(folder / "stock", model, *flags, trace=True, plugin=False)
        owned = real.vllm(folder / "owned", model, *flags, trace=True, plugin=False, owned=True)
        yield stack.enter_context(stock), stack.enter_context(owned)


def jpeg(seed: int, height: int, width: int) -> str:
    noise = np.random.default_rng(seed).integers(0, 256, (height // 16, width // 16, 3))
    picture = cv2.resize(noise.astype(np.uint8), (width, height))
    return base64.b64encode(cv2.imencode(".jpg", picture)[1].tobytes()).decode()


def answer(server: real.Running, content: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    body = {
        "model": "tiny-qwen3vl",
        "messages": [{"role": "user", "content": [*content, {"type": "text", "text": "What?"}]}],
        "max_completion_tokens": 24,
        "temperature": 0,
        "seed": 1,
        "ignore_eos": True,
        "return_token_ids": True,
        **more,
    }
    request = urllib.request.Request(
        f"{server.url}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "X-Request-Id": f"case-{len(content)}"},
    )
    with urllib.request.urlopen(request, timeout=300) as response:
        found: dict[str, Any] = json.load(response)
    return found


def media(images: int, frames: int, height: int = 480, width: int = 640) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    for seed in range(images):
        url = f"data:image/jpeg;base64,{jpeg(seed, height, width)}"
        content.append({"type": "image_url", "image_url": {"url": url}})
    if frames:
        joined = ",".join(jpeg(100 + seed, height, width) for seed in range(frames))
        url = f"data:video/jpeg;base64,{joined}"
        content.append({"type": "video_url", "video_url": {"url": url}})
    return content


@pytest.mark.parametrize("images, frames", [(1, 0), (0, 6), (2, 4)])
def test_the_same_answers(
    servers: tuple[real.Running, real.Running], images: int, frames: int
) -> None:
    stock, owned = (answer(server, media(images, frames)) for server in servers)
    assert owned["prompt_token_ids"] == stock["prompt_token_ids"]
    told = owned["choices"][0]["token_ids"]
    assert len(told) == 24
    assert told == stock["choices"][0]["token_ids"]
    assert owned["usage"] == stock["usage"]


def test_what_falls_back_is_counted_with_its_request(
    servers: tuple[real.Running, real.Running],
) -> None:
    more = {"mm_processor_kwargs": {"do_resize": False}}
    content = media(5, 0, 448, 832)
    stock, owned = (answer(server, content, **more) for server in servers)
    assert owned["choices"][0]["token_ids"] == stock["choices"][0]["token_ids"]
    for server, facts in zip(servers, ({}, {"stock_calls: do_resize False": 1}), strict=True):
        spans, processes = read(server.spans)
        [span] = [s for s in spans if s.stage == "processor" and s.request_id == "case-5"]
        assert {n: v for n, v in span.facts.items() if "_calls" in n} == facts
        asked = {one.settings.get("owned_processor") for one in processes}
        assert asked == {"auto" if facts else None}


def test_the_report_says_whose_the_calls_were(
    servers: tuple[real.Running, real.Running], tmp_path: Path
) -> None:
    ran = run(servers[1], tmp_path, "--requests=6", "--concurrency=1")
    assert ran.summary["stages"]["processor"]["facts"]["owned_calls"] == 1
    assert [w for w in ran.summary["warnings"] if w["code"] == "owned_core"] == []
