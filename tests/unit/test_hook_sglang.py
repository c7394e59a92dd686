"""SGLang's table on stand-ins: modules with the names, parameters and order of calls of SGLang
0.5.23's source. SGLang itself needs a GPU or a build for the CPU that is not to be had here."""

import asyncio
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mmload.hook import pools, probes, sglang, spans
from mmload.hook.probes import attach
from mmload.records import ServerProcess, Span
from mmload.rundir import SpanLines

MODULES = {
    "sglang.srt.managers.tokenizer_manager": """
        class TokenizerManager:
            def __init__(self, server_args, port_args):
                self.mm_processor = server_args
            async def _tokenize_texts(self, texts, is_cross_encoder=False):
                return [1, 2, 3], None
            async def _tokenize_one_request(self, obj):
                ids, _ = await self._tokenize_texts(obj.text)
                await self.mm_processor.process_mm_data_async(obj.image_data)
                return obj
            async def _send_one_request(self, tokenized_obj):
                return None
        """,
    "sglang.srt.entrypoints.openai.serving_chat": """
        class OpenAIServingChat:
            def _convert_to_internal_request(self, request, raw_request=None):
                return request, request
        """,
    "sglang.srt.multimodal.processors.executor": """
        import asyncio, concurrent.futures
        class MultimodalProcessorExecutor:
            def __init__(self, resolve_processor, max_workers):
                self._executor = concurrent.futures.ThreadPoolExecutor(max_workers=max_workers)
            async def run(self, function, *args, **kwargs):
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._executor, self._run, function, args, kwargs)
            def _run(self, function, args, kwargs):
                return function(*args, processor=None, **kwargs)
        """,
    "sglang.srt.multimodal.processors.base_processor": """
        import asyncio, concurrent.futures
        from types import SimpleNamespace
        class BaseMultimodalProcessor:
            def __init__(self, hf_config, server_args, _processor, pool=None):
                self.io_executor = concurrent.futures.ThreadPoolExecutor(max_workers=4)
                self.mm_processor_executor = pool
            @classmethod
            def _load_single_item(cls, data, modality, frame_count_limit=None):
                return data
            async def process_mm_data_async(self, image_data):
                futures = [self.io_executor.submit(self.__class__._load_single_item, d, "image")
                           for d in image_data]
                loaded = [await asyncio.wrap_future(f) for f in futures]
                output = SimpleNamespace(images=loaded, videos=[])
                return await self.process_and_combine_mm_data_async(output, None)
            async def process_and_combine_mm_data_async(self, base_output, mm_tokens, **kwargs):
                if self.mm_processor_executor is None:
                    return self.process_and_combine_mm_data(base_output, mm_tokens, **kwargs)
                return await self.mm_processor_executor.run(
                    self.process_and_combine_mm_data, base_output, mm_tokens, **kwargs)
            def process_and_combine_mm_data(self, base_output, mm_tokens, processor=None):
                return self._call_processor(processor, "", None, {})
            def _call_processor(self, processor, input_text, processor_device, kwargs):
                return {}
        """,
    "sglang.srt.multimodal.processors.qwen_vl": """
        async def preprocess_video(vr, image_factor=28, video_config={}):
            return vr
        """,
    "sglang.srt.managers.scheduler": """
        class Scheduler:
            def __init__(self, server_args, tp_rank=0):
                self.tp_rank = tp_rank
                self.queue = []
            def _add_request_to_queue(self, req, is_retracted=False):
                self.queue.append(req)
        """,
    "sglang.srt.observability.req_time_stats": """
        class SchedulerReqTimeStats:
            scheduler_recv_time = wait_queue_entry_time = forward_entry_time = 0.0
            prefill_finished_time = completion_time = 0.0
            def set_completion_time(self, ts=None):
                self.completion_time = ts
        """,
    "sglang.srt.managers.mm_utils": """
        def prepare_mm_inputs(input_ids, forward_batch, language_model, kwargs,
                              multimodal_model=None):
            return "embeddings"
        """,
}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The hook armed and the stand-ins imported: the folder of the spans."""
    monkeypatch.setenv("MMLOAD_HOOK_DIR", str(tmp_path / "spans"))
    monkeypatch.setattr(probes, "_tables", {})
    monkeypatch.setattr(ThreadPoolExecutor, "submit", ThreadPoolExecutor.submit)
    monkeypatch.setattr(sglang, "_rank", sglang._Rank())
    root = tmp_path / "modules"
    for name, source in MODULES.items():
        path = root.joinpath(*name.split("."))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".py").write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(str(root))
    assert spans.arm("test")
    pools.watch()
    attach(sglang.TABLE)
    for name in MODULES:
        __import__(name)
    yield tmp_path / "spans"
    spans.shutdown()
    for name in [name for name in sys.modules if name.partition(".")[0] == "sglang"]:
        del sys.modules[name]


def read(folder: Path) -> tuple[list[Span], ServerProcess]:
    spans.shutdown()
    lines = SpanLines(sorted(folder.glob("*.jsonl")))
    found = sorted(lines, key=lambda span: (span.start_ns, -span.end_ns))
    return found, lines.processes[0]


def module(name: str) -> Any:
    return sys.modules[f"sglang.srt.{name}"]


async def serve(manager: Any, chat: Any, name: str) -> None:
    spans.request_id.set(name)
    loop = asyncio.get_running_loop()
    image = SimpleNamespace(size=(64, 32))
    obj = SimpleNamespace(text="hello", image_data=[image, image], rid="uuid-of-sglang")
    await loop.run_in_executor(None, chat._convert_to_internal_request, obj, None)
    await manager._send_one_request(await manager._tokenize_one_request(obj))


def test_the_main_process_with_a_processor_pool(server: Path) -> None:
    executor = module("multimodal.processors.executor").MultimodalProcessorExecutor(lambda: 1, 2)
    base = module("multimodal.processors.base_processor").BaseMultimodalProcessor
    processor = base(None, None, None, executor)
    manager = module("managers.tokenizer_manager").TokenizerManager(processor, None)
    chat = module("entrypoints.openai.serving_chat").OpenAIServingChat()
    asyncio.run(serve(manager, chat, "r1"))
    found, process = read(server)
    assert {span.request_id for span in found} == {"r1"}
    stages = [span.stage for span in found]
    assert {stage: stages.count(stage) for stage in stages} == {
        "pool_wait": 1,  # asyncio's own pool, for the chat template
        "pool_work": 1,
        "tokenize": 2,
        "media_wait": 2,
        "media_decode": 2,
        "processor_wait": 1,
        "processor": 1,
        "processor_hf": 1,
        "handoff": 1,
    }
    by_stage = {span.stage: span for span in found}
    assert by_stage["processor"].facts["frames"] == 2
    assert by_stage["processor"].facts["pixels"] == 2 * 64 * 32
    assert "on_loop" not in by_stage["processor"].facts
    assert by_stage["processor_wait"].facts == {"pool_width": 2}
    assert by_stage["handoff"].facts["also_known_as"] == "uuid-of-sglang"
    assert process.role == "tokenizer_manager" and process.settings["server"] == "sglang"
    assert process.notes["pools"] == {"processor_wait": 2, "media_wait": 4}
    assert "missing" not in process.notes


def test_without_a_pool_the_processor_runs_on_the_event_loop(server: Path) -> None:
    processor = module("multimodal.processors.base_processor").BaseMultimodalProcessor(1, 2, 3)
    manager = module("managers.tokenizer_manager").TokenizerManager(processor, None)
    chat = module("entrypoints.openai.serving_chat").OpenAIServingChat()
    asyncio.run(serve(manager, chat, "r1"))
    found, _ = read(server)
    [one] = [span for span in found if span.stage == "processor"]
    assert one.facts["on_loop"] is True
    assert not [span for span in found if span.stage == "processor_wait"]


def request(rid: str, *stamps_s: float) -> Any:
    stats = module("observability.req_time_stats").SchedulerReqTimeStats()
    names = ("scheduler_recv_time", "wait_queue_entry_time", "forward_entry_time")
    for name, stamp in zip((*names, "prefill_finished_time"), stamps_s, strict=True):
        setattr(stats, name, stamp)
    return SimpleNamespace(rid=rid, time_stats=stats)


def test_the_schedulers_own_stamps(server: Path) -> None:
    scheduler = module("managers.scheduler").Scheduler(None)
    req = request("rid-1", 10.0, 10.001, 10.5, 10.75)
    scheduler._add_request_to_queue(req)
    req.time_stats.set_completion_time(12.0)
    aborted = request("rid-2", 10.0, 10.1, 0.0, 0.0)  # never scheduled
    scheduler._add_request_to_queue(aborted)
    aborted.time_stats.set_completion_time(11.0)
    found, process = read(server)
    assert [(s.request_id, s.stage, s.start_ns, s.end_ns) for s in found] == [
        ("rid-2", "engine_receive", 10_000_000_000, 10_100_000_000),
        ("rid-1", "engine_receive", 10_000_000_000, 10_001_000_000),
        ("rid-1", "engine_wait", 10_001_000_000, 10_500_000_000),
        ("rid-1", "prefill", 10_500_000_000, 10_750_000_000),
        ("rid-1", "decode", 10_750_000_000, 12_000_000_000),
    ]
    assert process.role == "scheduler"


def batch(decodes: bool, *media: object) -> Any:
    mode = SimpleNamespace(is_decode=lambda: decodes)
    rids = [f"rid-{i}" for i in range(len(media))]
    return SimpleNamespace(rids=rids, mm_inputs=list(media), forward_mode=mode)


def test_the_encoder_works_for_the_requests_of_the_batch_that_have_media(server: Path) -> None:
    module("managers.scheduler").Scheduler(None)
    encode = module("managers.mm_utils").prepare_mm_inputs
    assert encode([], batch(False, "image", None, "video"), None, {}) == "embeddings"
    encode([], batch(True, "image"), None, {})  # a step of decoding
    encode([], batch(False, None), None, {})
    found, _ = read(server)
    assert [(s.request_id, s.stage, s.facts) for s in found] == [
        ("rid-0", "encoder", {"batched": True, "host_time": True}),
        ("rid-2", "encoder", {"batched": True, "host_time": True}),
    ]
    assert found[0].start_ns == found[1].start_ns and found[0].end_ns == found[1].end_ns


def test_other_ranks_are_silent(server: Path) -> None:
    scheduler = module("managers.scheduler").Scheduler(None, tp_rank=1)
    req = request("rid-1", 10.0, 10.001, 10.5, 10.75)
    scheduler._add_request_to_queue(req)
    req.time_stats.set_completion_time(12.0)
    module("managers.mm_utils").prepare_mm_inputs([], batch(False, "image"), None, {})
    spans.record("probe", 1, 2, request_id="x")
    found, _ = read(server)
    assert [span.stage for span in found] == ["probe"]


def test_the_rust_server_is_named_as_a_blind_spot(
    server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGLANG_RUST_SERVER", "1")
    sglang._greet()
    spans.record("probe", 1, 2, request_id="x")
    _, process = read(server)
    assert process.notes["blind"] == {"main process": sglang.RUST}
