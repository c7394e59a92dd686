"""Settings of the processor and the engine: what excludes what, and what is simulated."""

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest

from mmload.errors import UsageError
from mmload.server.settings import ServerSettings, server_settings

TORCH = {"engine": "torch"}
STOCK = {"processor": "stock"}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if torch and transformers were there."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: object())
    yield


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"embedding_cache": 8}, "--embedding-cache: is for --engine torch, and this is simulated"),
        ({"model_path": "."}, "--model-path: is for --engine torch"),
        ({"engine_threads": 1}, "--engine-threads: is for --engine torch"),
        ({**TORCH, "decode_step_ms": 1}, "--decode-step-ms: is for --engine simulated"),
        ({**TORCH, "max_batch": 1}, "--max-batch: is for --engine simulated"),
        ({**TORCH, "processor_fixed_ms": 5}, "--processor-fixed-ms: simulates the processor"),
        ({**STOCK, "processor_fixed_ms": 5}, "--processor-fixed-ms: simulates the processor"),
        ({"model_family": "gemma-4"}, "--model-family gemma-4: the numpy processor is Qwen3-VL's"),
        ({**TORCH, **STOCK, "model_family": "gemma-4"}, "--model-family gemma-4: --engine torch"),
        ({**TORCH, "model_path": "."}, "--model-path: the numpy processor resizes unlike"),
        ({**TORCH, **STOCK, "model_path": "nowhere"}, "--model-path nowhere: no such folder"),
        ({"processor": "fast"}, "--processor 'fast': Input should be 'numpy', 'stock' or 'owned'"),
        ({"max_image_tokens": "0"}, "--max-image-tokens '0': Input should be greater than"),
    ],
)
@pytest.mark.usefixtures("installed")
def test_what_excludes_what(values: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        server_settings(values)
    assert caught.value.message.startswith(words)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("values", "flag"),
    [(TORCH, "--engine torch"), (STOCK, "--processor stock")],
)
def test_without_torch(values: dict[str, Any], flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(UsageError) as caught:
        server_settings(values)
    assert caught.value.message == f"{flag}: needs torch, which is not installed"
    assert "pip install 'mmload[hf]'" in caught.value.hint


@pytest.mark.usefixtures("installed")
def test_a_real_model_simulates_nothing() -> None:
    settings = server_settings({**TORCH, **STOCK, "embedding_cache": "32"})
    assert settings.simulated() == ""
    described = settings.described()
    assert "simulated" not in described and "decode_step_ms" not in described
    assert described["embedding_cache"] == 32


def test_the_simulated_engine_does_not_speak_of_a_model() -> None:
    described = ServerSettings().described()
    assert "engine_threads" not in described and described["decode_step_ms"] == 8.0
