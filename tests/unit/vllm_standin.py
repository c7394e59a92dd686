"""Objects of the shape of vLLM 0.32's, as far as the probes look at them: same modules, names,
parameters and threads, and next to no work. Made anew for each test, since probes change classes.
"""

import asyncio
import contextlib
import functools
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

HEIGHT, WIDTH = 48, 64


def make_async(fn: Callable[..., Any], executor: Executor) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        work = functools.partial(fn, *args, **kwargs)
        return asyncio.get_event_loop().run_in_executor(executor, work)

    return call


def install(monkeypatch: pytest.MonkeyPatch, *, older: bool = False) -> SimpleNamespace:
    """Puts the modules where an import finds them. `older`: one pool for tokeniser and processor,
    no timing context, statistics of another shape."""

    class SwappableExecutor(Executor):
        def __init__(self, max_workers: int) -> None:
            self._max_workers = max_workers
            self._inner = ThreadPoolExecutor(max_workers)

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            return self._inner.submit(fn, *args, **kwargs)

        def replace_inner(self) -> None:
            self._inner.shutdown(wait=False)
            self._inner = ThreadPoolExecutor(self._max_workers)

    class MediaWithBytes:
        def __init__(self, media: Any, original_bytes: bytes) -> None:
            self.media = media
            self.original_bytes = original_bytes

    class VideoMediaIO:
        """Keeps every second frame."""

        def load_bytes(self, data: bytes) -> MediaWithBytes:
            frames = np.zeros((len(data) // 2, HEIGHT, WIDTH, 3), np.uint8)
            return MediaWithBytes((frames, {"total_num_frames": len(data)}), data)

        def load_base64(self, media_type: str, data: str) -> MediaWithBytes:
            if media_type == "broken":
                raise ValueError("no video")
            return self.load_bytes(data.encode())

        def load_file(self, filepath: str) -> MediaWithBytes:
            return self.load_bytes(filepath.encode())

    class ImageMediaIO:
        def load_bytes(self, data: bytes) -> MediaWithBytes:
            return MediaWithBytes(SimpleNamespace(size=(WIDTH, HEIGHT)), data)

        def load_base64(self, media_type: str, data: str) -> MediaWithBytes:
            return self.load_bytes(data.encode())

        def load_file(self, filepath: str) -> MediaWithBytes:
            return self.load_bytes(filepath.encode())

    class HTTPConnection:
        async def async_get_bytes(self, url: str, *, timeout: float | None = None) -> bytes:
            await asyncio.sleep(0)
            return url.encode()

    class BaseVideoProcessor:
        """Keeps one frame in two."""

        def _decode_and_sample_videos(
            self, videos: Any, video_metadata: Any, do_sample_frames: bool = True
        ) -> Any:
            return [video[::2] if do_sample_frames else video for video in videos], video_metadata

    class TimingContext:
        @contextlib.contextmanager
        def record(self, stage: str) -> Iterator[None]:
            yield

    class InputProcessingContext:
        def call_hf_processor(self, hf_processor: Any, data: Any, kwargs: Any = {}) -> Any:  # noqa: B006
            output: dict[str, Any] = {}
            if "videos" in data:
                arrays = [video for videos in data["videos"] for video in videos]
                kept, _ = hf_processor._decode_and_sample_videos(arrays, [None], kwargs["sample"])
                output["pixel_values_videos"] = np.zeros((sum(len(v) for v in kept) * 6, 8))
            return output

    class BaseMultiModalProcessor:
        cached = False
        sample = True

        def _get_cache_missing_items(self, cache: Any, mm_data_items: Any, mm_hashes: Any) -> Any:
            return {"video": [self.cached for _ in mm_data_items]}, mm_data_items

        def apply(self, videos: list[Any], timing_ctx: Any) -> str:
            with timing_ctx.record("get_mm_hashes"):
                pass
            with timing_ctx.record("get_cache_missing_items"):
                self._get_cache_missing_items(None, videos, None)
            with timing_ctx.record("apply_hf_processor"):
                for video in [] if self.cached else videos:
                    data = {"videos": [[video]]}
                    kwargs = {"sample": self.sample}
                    context = InputProcessingContext()
                    context.call_hf_processor(BaseVideoProcessor(), data, kwargs)
                    context.call_hf_processor(BaseVideoProcessor(), {"text": "once more"}, {})
            with timing_ctx.record("apply_prompt_updates"):
                return "tensors"

    hf: Any = ModuleType("vllm.renderers.hf")

    def safe_apply_chat_template(model_config: Any, tokenizer: Any, conversation: Any) -> str:
        return "prompt"

    hf.safe_apply_chat_template = safe_apply_chat_template

    class BaseRenderer:
        def __init__(self, config: Any, tokenizer: Any) -> None:
            workers = config.model_config.renderer_num_workers
            self.mm_processor = BaseMultiModalProcessor()
            self._executor: Any = (
                ThreadPoolExecutor(workers) if older else SwappableExecutor(workers)
            )
            pool = self._executor
            if not older:
                pool = self._mm_executor = ThreadPoolExecutor(1)
            self._mm_processor_cache = SimpleNamespace()
            self.template = make_async(hf.safe_apply_chat_template, self._executor)
            self.tokenize = make_async(self._tokenize_prompt, self._executor)
            self.process = make_async(self._process_multimodal, pool)

        def _tokenize_prompt(self, prompt: Any, params: Any) -> Any:
            return {"prompt_token_ids": [1, 2, 3]}

        def _process_multimodal(self, prompt: Any, mm_data: Any, mm_uuids: Any = None) -> str:
            return self.mm_processor.apply(mm_data, TimingContext())

        def close(self) -> None:
            self._executor.shutdown() if older else self._executor._inner.shutdown()
            if not older:
                self._mm_executor.shutdown()

    class AsyncLLM:
        def __init__(self, log_stats: bool) -> None:
            self.log_stats = log_stats

        async def add_request(self, request_id: str, prompt: Any, params: Any) -> str:
            await asyncio.sleep(0)
            if prompt == "too long":
                raise ValueError(prompt)
            return "queue"

        async def generate(self, request_id: str) -> AsyncIterator[str]:
            yield await self.add_request(request_id, "tensors", None)

    class OutputProcessor:
        def _update_stats_from_finished(
            self, req_state: Any, finish_reason: Any, iteration_stats: Any
        ) -> None: ...

    class EngineCore:
        def __init__(self, vllm_config: Any) -> None: ...

        def preprocess_add_request(self, request: Any) -> tuple[Any, int]:
            return request, 0

    class GPUModelRunner:
        def __init__(self, device: str = "cpu", rank: int = 0) -> None:
            parallel = SimpleNamespace(rank=rank)
            self.vllm_config = SimpleNamespace(parallel_config=parallel)
            self.device = SimpleNamespace(type=device, index=0)

        def _execute_mm_encoder(self, scheduler_output: Any) -> list[str]:
            return ["features"]

        def execute_model(self, scheduler_output: Any) -> str:
            return "tokens"

    pool = ThreadPoolExecutor(8)
    base = {"BaseRenderer": BaseRenderer}
    if not older:
        base["_SwappableExecutor"] = SwappableExecutor  # type: ignore[assignment]
    modules: dict[str, dict[str, Any]] = {
        "vllm.connections": {"HTTPConnection": HTTPConnection},
        "vllm.multimodal.media.connector": {"global_thread_pool": pool},
        "vllm.multimodal.media.video": {"VideoMediaIO": VideoMediaIO},
        "vllm.multimodal.media.image": {"ImageMediaIO": ImageMediaIO},
        "vllm.multimodal.processing.context": {
            "InputProcessingContext": InputProcessingContext,
            **({} if older else {"TimingContext": TimingContext}),
        },
        "vllm.multimodal.processing.processor": {
            "BaseMultiModalProcessor": BaseMultiModalProcessor
        },
        "transformers.video_processing_utils": {"BaseVideoProcessor": BaseVideoProcessor},
        "vllm.renderers.base": base,
        "vllm.v1.engine.async_llm": {"AsyncLLM": AsyncLLM},
        "vllm.v1.engine.output_processor": {"OutputProcessor": OutputProcessor},
        "vllm.v1.engine.core": {"EngineCore": EngineCore},
        "vllm.v1.worker.gpu_model_runner": {"GPUModelRunner": GPUModelRunner},
    }
    found: dict[str, Any] = {"pool": pool, "hf": hf}
    monkeypatch.setitem(sys.modules, hf.__name__, hf)
    for name, members in modules.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
        found.update(members)
    return SimpleNamespace(**found)


def config(workers: int) -> Any:
    multimodal = SimpleNamespace(mm_processor_cache_gb=4, mm_device_do_normalize=True)
    model = SimpleNamespace(renderer_num_workers=workers, multimodal_config=multimodal)
    return SimpleNamespace(
        model_config=model,
        parallel_config=SimpleNamespace(_api_process_count=1),
        device_config=SimpleNamespace(device_type="cpu"),
    )
