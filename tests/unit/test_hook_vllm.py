"""The table of probes for vLLM, on objects of the same shape (`vllm_standin.py`): which span is
recorded where, with which facts, and that vLLM goes on as before when what it gives is another."""

import asyncio
import multiprocessing
import re
import sys
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mmload.hook import bootstrap, machine_facts, pools, probes, spans, vllm, vllm_engine
from mmload.hook.device_clock import Device
from mmload.records import ServerProcess, Span
from mmload.rundir import SpanLines
from tests.unit import vllm_standin

FRAMES = 16  # in the file; the stand-in's loader keeps 8 of them, its processor 4


class Server:
    """The stand-in under the hook, and what it recorded."""

    def __init__(self, parts: SimpleNamespace, folder: Path) -> None:
        self.parts = parts
        self.folder = folder

    def start(self, workers: int = 4) -> None:
        self.renderer = self.parts.BaseRenderer(vllm_standin.config(workers), None)
        self.client = self.parts.AsyncLLM(log_stats=True)

    async def request(self, name: str, data: str = "x" * FRAMES) -> str:
        """One request's way, as the API server goes it."""
        spans.request_id.set(name)
        loop = asyncio.get_running_loop()
        io = self.parts.VideoMediaIO()
        video = await loop.run_in_executor(self.parts.pool, io.load_base64, "video/mp4", data)
        await self.renderer.template(None, None, "conversation")
        await self.renderer.tokenize("prompt", None)
        tensors = await self.renderer.process([1], [video.media[0]])
        assert await self.client.add_request(f"chatcmpl-{name}", tensors, None) == "queue"
        return str(tensors)

    def serve(self, *names: str) -> list[str]:
        async def all_of_them() -> list[str]:
            return await asyncio.gather(*(asyncio.create_task(self.request(n)) for n in names))

        return asyncio.run(all_of_them())

    def recorded(self) -> tuple[list[Span], ServerProcess]:
        spans.shutdown()
        lines = SpanLines(sorted(self.folder.glob("*.jsonl")))
        found = sorted(lines, key=lambda span: (span.start_ns, -span.end_ns))
        assert lines.damaged == 0
        return found, lines.processes[0]


@pytest.fixture
def hooked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MMLOAD_HOOK_DIR", str(tmp_path / "spans"))
    monkeypatch.setattr(probes, "_tables", {})
    monkeypatch.setattr(ThreadPoolExecutor, "submit", ThreadPoolExecutor.submit)  # as it was, after
    monkeypatch.setattr(machine_facts, "_noted_in", None)
    monkeypatch.setattr(vllm_engine, "_devices", {})
    monkeypatch.setattr(vllm_engine, "_handed_over", OrderedDict())
    assert spans.arm("test")
    pools.watch()
    yield
    spans.shutdown()


@pytest.fixture
def server(hooked: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    made = Server(vllm_standin.install(monkeypatch), tmp_path / "spans")
    probes.attach(vllm.TABLE)
    made.start()
    yield made
    made.renderer.close()
    made.parts.pool.shutdown()


def by_stage(found: list[Span]) -> dict[str, Span]:
    return {span.stage: span for span in found}


def test_a_request_s_stages_in_order(server: Server) -> None:
    assert server.serve("r1") == ["tensors"]
    found, process = server.recorded()
    assert {re.sub("^chatcmpl-", "", span.request_id) for span in found} == {"r1"}
    assert [span.stage for span in found] == [
        "media_wait",
        "media_decode",
        "renderer_wait",
        "tokenize",  # the chat template
        "renderer_wait",
        "tokenize",
        "processor_wait",
        "processor",
        "processor_hash",
        "processor_cache",
        "processor_hf",
        "processor_prompt",
        "handoff",
    ]
    one = by_stage(found)
    assert one["processor"].start_ns <= one["processor_hash"].start_ns
    assert one["processor_prompt"].end_ns <= one["processor"].end_ns
    assert "missing" not in process.notes and "observer_errors" not in process.notes


def test_what_was_seen_with_the_media_and_the_processor(server: Server) -> None:
    server.serve("r1")
    found, process = server.recorded()
    one = by_stage(found)
    pixels = vllm_standin.HEIGHT * vllm_standin.WIDTH
    decode = one["media_decode"].facts
    assert decode["frames_in_file"] == decode["bytes"] == FRAMES
    assert (decode["frames"], decode["pixels"]) == (8, 8 * pixels)
    facts = one["processor"].facts
    assert (facts["frames_in"], facts["frames"], facts["pixels"]) == (8, 4, 8 * pixels)
    assert (facts["cache_queries"], facts["cache_hits"], facts["patches"]) == (1, 0, 24)
    assert facts["cpu_ns"] > 0 and facts["minor_faults"] >= 0
    assert "cpu_ns" in one["processor_hf"].facts
    assert one["tokenize"].facts["tokens"] == 3
    widths = {s: one[s].facts["pool_width"] for s in one if s.endswith("_wait")}
    assert widths == {"media_wait": 8, "renderer_wait": 4, "processor_wait": 1}
    assert process.role == "api_server"
    assert process.notes["pools"] == widths
    said = process.settings
    assert (said["server"], said["renderer_num_workers"], said["device"]) == ("vllm", 4, "CPU")
    assert (said["mm_processor_cache"], said["mm_device_do_normalize"]) == ("SimpleNamespace", True)
    assert said["allocator"] in ("glibc", "jemalloc", "tcmalloc", "mimalloc", "unknown", "musl")
    assert "omp_num_threads" in said


def test_frames_that_are_all_kept(server: Server) -> None:
    server.parts.BaseMultiModalProcessor.sample = False
    server.serve("r1")
    facts = by_stage(server.recorded()[0])["processor"].facts
    assert (facts["frames_in"], facts["frames"]) == (8, 8)


def test_a_cached_medium_costs_no_call(server: Server) -> None:
    server.parts.BaseMultiModalProcessor.cached = True
    server.serve("r1")
    facts = by_stage(server.recorded()[0])["processor"].facts
    assert (facts["cache_queries"], facts["cache_hits"]) == (1, 1)
    assert "frames" not in facts and "threads" not in facts


def test_one_after_the_other_through_the_processor(server: Server) -> None:
    names = [f"r{i}" for i in range(6)]
    server.serve(*names)
    work = [span for span in server.recorded()[0] if span.stage == "processor"]
    assert sorted(span.request_id for span in work) == names
    assert all(a.end_ns <= b.start_ns for a, b in zip(work, work[1:], strict=False))


def test_warm_ups_are_nobody_s(server: Server) -> None:
    """Before the first request vLLM runs its processor and its pools: no span."""
    server.renderer._process_multimodal([1], [])
    server.renderer._executor.submit(server.renderer._tokenize_prompt, "", None).result()
    server.renderer._mm_executor.submit(server.renderer._process_multimodal, [1], []).result()
    server.serve("r1")
    found, _ = server.recorded()
    assert [span.stage for span in found if span.request_id == ""] == ["tokenize"]
    assert sum(span.stage == "processor" for span in found) == 1


def test_loaders_that_call_each_other_are_one_piece_of_work(server: Server) -> None:
    """`load_base64` calls `load_bytes`; an error is the caller's, and a fact of the span."""
    server.serve("r1")
    with pytest.raises(ValueError, match="no video"):
        spans.request_id.set("r2")
        server.parts.VideoMediaIO().load_base64("broken", "")
    server.parts.ImageMediaIO().load_file("name")
    spans.request_id.set(None)
    decoded = [span for span in server.recorded()[0] if span.stage == "media_decode"]
    assert [span.request_id for span in decoded] == ["r1", "r2", "r2"]
    assert decoded[1].facts["error"] == "ValueError"
    assert decoded[2].facts["frames"] == 1
    assert decoded[2].facts["pixels"] == vllm_standin.HEIGHT * vllm_standin.WIDTH


def test_the_pool_that_replaces_a_hung_one_keeps_its_name(server: Server) -> None:
    server.renderer._executor.replace_inner()
    server.serve("r1")
    assert "renderer_wait" in by_stage(server.recorded()[0])


def state(name: str, external: str | None, **stamps: float) -> Any:
    """A finished request, as the output processor knows it."""
    stats = SimpleNamespace(
        queued_ts=0.0,
        scheduled_ts=0.0,
        first_token_ts=0.0,
        last_token_ts=0.0,
        num_generation_tokens=16,
        num_preemptions=1,
    )
    vars(stats).update(stamps)
    return SimpleNamespace(
        request_id=name,
        external_req_id=external,
        stats=stats,
        prompt_len=3335,
        num_cached_tokens=5,
    )


def test_the_engine_s_own_times_to_the_nanosecond(server: Server) -> None:
    handed_ns = 1_000_000_000
    vllm_engine._handed_over["chatcmpl-r1"] = handed_ns
    stamps = {"queued_ts": 1.25, "scheduled_ts": 1.5, "first_token_ts": 2.0, "last_token_ts": 3.5}
    processor = server.parts.OutputProcessor()
    inner = "chatcmpl-r1-0123abcd"
    processor._update_stats_from_finished(state(inner, "chatcmpl-r1", **stamps), "stop", None)
    # n = 2: the samples share the hand-over
    sample = state(f"1_{inner}", "chatcmpl-r1", **stamps)
    processor._update_stats_from_finished(sample, "stop", None)
    found, _ = server.recorded()
    first = [span for span in found if span.request_id == inner]
    assert [(s.stage, s.start_ns, s.end_ns) for s in first] == [
        ("engine_inbox", handed_ns, 1_250_000_000),
        ("engine_wait", 1_250_000_000, 1_500_000_000),
        ("prefill", 1_500_000_000, 2_000_000_000),
        ("decode", 2_000_000_000, 3_500_000_000),
    ]
    assert first[2].facts == {"batched": True, "tokens": 3335, "cached_tokens": 5}
    assert first[3].facts == {"tokens": 16, "preempted": 1}
    assert len(found) == 8


@pytest.mark.parametrize(
    ("stamps", "stages"),
    [
        ({}, []),  # aborted before it was queued
        ({"queued_ts": 1.0}, []),  # aborted while it waited
        (
            {"queued_ts": 1.0, "scheduled_ts": 1.0, "first_token_ts": 2.0, "last_token_ts": 2.0},
            ["engine_wait", "prefill"],  # one token
        ),
    ],
)
def test_requests_that_did_not_get_far(
    server: Server, stamps: dict[str, float], stages: list[str]
) -> None:
    finished = state("r9", None, **stamps)
    server.parts.OutputProcessor()._update_stats_from_finished(finished, "abort", None)
    finished.stats = None  # --disable-log-stats
    server.parts.OutputProcessor()._update_stats_from_finished(finished, "abort", None)
    spans.record("end", 5, 6)
    assert sorted(span.stage for span in server.recorded()[0] if span.stage != "end") == stages


def test_without_statistics_the_process_says_so(server: Server) -> None:
    server.parts.AsyncLLM(log_stats=False)
    server.serve("r1")
    blind = server.recorded()[1].notes["blind"]
    assert list(blind) == ["engine queue, prefill, decode"]
    assert "--disable-log-stats" in blind["engine queue, prefill, decode"]


def test_a_refused_hand_over_is_the_caller_s_error(server: Server) -> None:
    with pytest.raises(ValueError, match="too long"):
        asyncio.run(server.client.add_request("chatcmpl-r1", "too long", None))
    handoff = by_stage(server.recorded()[0])["handoff"]
    assert handoff.facts["error"] == "ValueError"
    assert "chatcmpl-r1" not in vllm_engine._handed_over


def test_remembered_hand_overs_are_bounded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_engine, "_KEPT", 2)
    for name in ("a", "b", "c"):
        asyncio.run(server.client.add_request(name, "tensors", None))
    assert list(vllm_engine._handed_over) == ["b", "c"]


def test_the_engine_s_processes(server: Server) -> None:
    core = server.parts.EngineCore(None)
    request = SimpleNamespace(request_id="chatcmpl-r1-0123abcd")
    assert core.preprocess_add_request(request) == (request, 0)
    runner = server.parts.GPUModelRunner()
    output = SimpleNamespace(scheduled_encoder_inputs={"a": [0], "b": [0, 1], "c": []})
    assert runner._execute_mm_encoder(output) == ["features"]
    assert runner.execute_model(output) == "tokens"
    server.parts.GPUModelRunner(rank=1)._execute_mm_encoder(output)
    found, process = server.recorded()
    assert process.role == "engine_core"
    assert [(s.stage, s.request_id) for s in found if s.stage == "engine_receive"] == [
        ("engine_receive", "chatcmpl-r1-0123abcd")
    ]
    encoder = [span for span in found if span.stage == "encoder"]
    assert [span.request_id for span in encoder] == ["a", "b"]
    assert encoder[0].facts == {"batched": True, "host_time": True}
    assert (encoder[0].start_ns, encoder[0].end_ns) == (encoder[1].start_ns, encoder[1].end_ns)


def test_an_older_vllm_lacks_some_stages_and_says_which(
    hooked: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Server(vllm_standin.install(monkeypatch, older=True), tmp_path / "spans")
    probes.attach(vllm.TABLE)
    old.start()
    old.serve("r1")
    old.renderer.close()
    old.parts.pool.shutdown()
    found, process = old.recorded()
    stages = [span.stage for span in found]
    assert stages.count("renderer_wait") == 3  # the processor waits in the same pool
    assert "processor" in stages and "processor_hf" not in stages
    assert process.notes["missing"]["processor steps"] == {
        "reason": "vllm.multimodal.processing.context:TimingContext.record:"
        " there is no TimingContext",
        "merged": "processor",
    }
    assert "processor_wait" not in process.notes["pools"]


def test_an_observer_that_meets_the_unexpected_is_not_vllm_s_error(server: Server) -> None:
    """Statistics, media and requests of another shape: noted, and nothing else."""
    processor = server.parts.OutputProcessor()
    processor._update_stats_from_finished(SimpleNamespace(), "stop", None)
    runner = server.parts.GPUModelRunner()
    assert runner._execute_mm_encoder(SimpleNamespace()) == ["features"]
    server.serve("r1")
    _, process = server.recorded()
    errors = process.notes["observer_errors"]
    assert set(errors) == {"finished", "encoder_v1"}


def test_plugin_and_trace_together_stamp_once(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "TABLES", (vllm.TABLE,))
    vllm.plugin()
    vllm.plugin()
    server.serve("r1")
    found, _ = server.recorded()
    assert sum(span.stage == "processor" for span in found) == 1
    assert sum(span.stage == "processor_wait" for span in found) == 1


def test_a_process_without_vllm_is_not_called_one(
    hooked: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other servers use transformers too."""
    probes.attach(vllm.TABLE)
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "transformers.video_processing_utils", SimpleNamespace())
    spans.record("processor", 1, 2, request_id="r")
    _, process = Server(SimpleNamespace(), tmp_path / "spans").recorded()
    assert (process.role, process.settings, process.notes) == ("test", {}, {})


def test_the_plugin_is_inert_without_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MMLOAD_HOOK_DIR", raising=False)
    monkeypatch.setattr(probes, "_tables", {})
    parts = vllm_standin.install(monkeypatch)
    before = parts.BaseRenderer._process_multimodal
    vllm.plugin()
    assert parts.BaseRenderer._process_multimodal is before
    assert not spans.enabled()
    parts.pool.shutdown()


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("MainProcess", None),
        ("EngineCore_DP1", "engine_core"),
        ("VllmWorker-0", "worker"),
        ("ApiServer_1", "api_server"),
    ],
)
def test_the_role_by_the_process_s_name(
    monkeypatch: pytest.MonkeyPatch, name: str, role: str | None
) -> None:
    monkeypatch.setattr(multiprocessing.current_process(), "_name", name)
    assert vllm.role() == role


def test_a_rust_front_end_is_a_blind_spot(
    hooked: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_USE_RUST_FRONTEND", "1")
    rusty = Server(vllm_standin.install(monkeypatch), tmp_path / "spans")
    probes.attach(vllm.TABLE)
    spans.record("encoder", 1, 2, request_id="r")
    rusty.parts.pool.shutdown()
    assert "VLLM_USE_RUST_FRONTEND" in rusty.recorded()[1].notes["blind"]["API server"]


# -- GPU times, on a clock of the test's -----------------------------------------------------------


class Gpu:
    """A GPU that does what it was given one after the other, from its own zero on."""

    def __init__(self, clock: list[int]) -> None:
        self.clock = clock
        self.busy_until_ns = 0

    def launch(self, work_ns: int) -> None:
        self.busy_until_ns = max(self.busy_until_ns, self.clock[0]) + work_ns

    def event(self) -> "GpuEvent":
        return GpuEvent(self)


class GpuEvent:
    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu

    def record(self) -> None:
        self.at_ns = max(self.gpu.busy_until_ns, self.gpu.clock[0])

    def query(self) -> bool:
        return self.gpu.clock[0] >= self.at_ns

    def elapsed_time(self, later: "GpuEvent") -> float:
        return (later.at_ns - self.at_ns) / 1e6


def test_gpu_times_are_the_gpu_s_and_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two batches of 30 ms are launched 1 ms apart: the second runs when the first is over."""
    clock = [1_000_000_000]
    monkeypatch.setattr(spans, "now_ns", lambda: clock[0])
    gpu = Gpu(clock)
    device = Device(gpu.event)
    done: list[tuple[int, int]] = []
    for _ in range(2):
        stretch = device.begin()
        gpu.launch(30_000_000)
        stretch.end(lambda start_ns, end_ns: done.append((start_ns, end_ns)))
        clock[0] += 1_000_000
    device.poll()
    assert done == []
    clock[0] = 1_040_000_000
    device.poll()
    assert done == [(1_000_000_000, 1_030_000_000)]
    clock[0] = 1_060_000_000
    device.poll()
    assert done[1:] == [(1_030_000_000, 1_060_000_000)]


def test_a_zero_taken_on_a_busy_gpu_is_corrected_by_an_idle_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first event waits 50 ms behind foreign work; a later launch on an idle GPU shows it."""
    clock = [0]
    monkeypatch.setattr(spans, "now_ns", lambda: clock[0])
    gpu = Gpu(clock)
    gpu.launch(50_000_000)
    device = Device(gpu.event)
    done: list[tuple[int, int]] = []
    for _ in range(2):
        stretch = device.begin()
        gpu.launch(10_000_000)
        stretch.end(lambda start_ns, end_ns: done.append((start_ns, end_ns)))
        clock[0] += 100_000_000
        device.poll()
    assert done == [(0, 10_000_000), (100_000_000, 110_000_000)]  # really 50 to 60 ms; then exact


def test_the_gpu_s_zero_is_taken_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0]
    monkeypatch.setattr(spans, "now_ns", lambda: clock[0])
    device = Device(Gpu(clock).event)
    first = device.begin()._epoch
    clock[0] = 60_000_000_000
    assert device.begin()._epoch is first
    clock[0] += 1
    assert device.begin()._epoch is not first


def test_the_encoder_on_a_gpu_is_timed_by_events(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [7_000_000_000]
    monkeypatch.setattr(spans, "now_ns", lambda: clock[0])
    gpu = Gpu(clock)
    torch = SimpleNamespace(cuda=SimpleNamespace(Event=lambda enable_timing: gpu.event()))
    monkeypatch.setitem(sys.modules, "torch", torch)
    runner = server.parts.GPUModelRunner(device="cuda")
    output = SimpleNamespace(scheduled_encoder_inputs={"a": [0]})
    runner._execute_mm_encoder(output)  # the stand-in launches nothing: zero length
    clock[0] += 5_000_000
    runner.execute_model(output)
    [encoder] = [span for span in server.recorded()[0] if span.stage == "encoder"]
    assert (encoder.start_ns, encoder.end_ns) == (7_000_000_000, 7_000_000_000)
    assert "host_time" not in encoder.facts


# -- what holds for a process ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mapped", "name"),
    [
        ("7f r-xp 00 08:01 12 /usr/lib/libc.so.6\n", "glibc"),
        (
            "7f r-xp 00 08:01 12 /usr/lib/libjemalloc.so.2\n7f r-- 0 0 0 /lib/libc.so.6\n",
            "jemalloc",
        ),
        ("7f r-xp 00 08:01 12 /opt/x/libtcmalloc_minimal.so.4\n", "tcmalloc"),
        ("7f r-xp 00 08:01 12 /opt/jemalloc/libother.so\n7f rw-p 00 00:00 0 \n", "glibc"),
        ("7f r-xp 00 08:01 12 /lib/ld-musl-x86_64.so.1\n", "musl"),
    ],
)
def test_the_allocator_by_what_is_mapped(tmp_path: Path, mapped: str, name: str) -> None:
    maps = tmp_path / "maps"
    maps.write_text(mapped)
    assert machine_facts.allocator(maps) == name


def test_process_facts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "2147483648")
    said = "ATen/Parallel:\n\tmkl_get_max_threads() : 2\n"
    torch = SimpleNamespace(
        __config__=SimpleNamespace(parallel_info=lambda: said), get_num_threads=lambda: 1
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    facts = machine_facts.process_facts()
    assert (facts["omp_num_threads"], facts["malloc_tuned"], facts["mkl_threads"]) == (3, True, 2)
    assert machine_facts.threads()["threads"] == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_")
    facts = machine_facts.process_facts()
    assert (facts["omp_num_threads"], facts["malloc_tuned"]) == (None, False)
    assert machine_facts.allocator(tmp_path / "none") == "unknown"
