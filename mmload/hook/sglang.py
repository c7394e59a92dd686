"""SGLang: where in its code each event of a request can be seen. Read in the source of 0.5.23.

In the main process: chat template and tokeniser, media (a pool), the processor (in a pool where
there is one; on CUDA with the default backend there is none, and it runs on the event loop, which
its span then says), and the hand-over. In the scheduler's process: its queue, prefill and decode
from its own stamps of a request, which it always takes; the vision encoder of a batch by CUDA
events where there is a GPU, else by the host. Its ids are its own: the hand-over's span says which
(`also_known_as`).

`mmload trace` brings the table into every process. What it cannot see: requests that the Rust
server takes (SGLANG_RUST_SERVER=1), and servers behind --skip-tokenizer-init. Stdlib only.
"""

import os
import sys
from typing import Any, Final

from mmload.hook import machine_facts, pools, spans
from mmload.hook.device_clock import Device
from mmload.hook.media_facts import media_facts
from mmload.hook.probes import Probe, Table, Target
from mmload.hook.wrap import Leave, around, guarded, timed

_RID: Final = "_mmload_rid"
_devices: dict[int, Device] = {}

RUST: Final = "SGLANG_RUST_SERVER: requests do not pass through Python on their way in"

# attributes of SchedulerReqTimeStats, seconds of perf_counter (CLOCK_MONOTONIC on Linux)
_STAGES: Final = (
    ("engine_receive", "scheduler_recv_time", "wait_queue_entry_time"),
    ("engine_wait", "wait_queue_entry_time", "forward_entry_time"),
    ("prefill", "forward_entry_time", "prefill_finished_time"),
    ("decode", "prefill_finished_time", "completion_time"),
)


def _greet() -> None:
    spans.describe(None, server="sglang")
    if os.environ.get("SGLANG_RUST_SERVER", "0") not in ("", "0", "false"):
        spans.note("blind", **{"main process": RUST})


def _main_process(_self: Any, *_args: Any, **_kwargs: Any) -> None:
    spans.describe("tokenizer_manager")


def _scheduler(self: Any, *_args: Any, **_kwargs: Any) -> Leave:
    """Tensor-parallel ranks do the same at the same time: the first one tells."""
    spans.describe("scheduler")

    def leave(_result: object, _error: BaseException | None) -> None:
        _rank.set(int(getattr(self, "tp_rank", 0) or 0))

    return leave


class _Rank:
    """Of this process among those that compute the same."""

    def __init__(self) -> None:
        self.tells = True

    def set(self, rank: int) -> None:
        self.tells = rank == 0


_rank: Final = _Rank()


# -- main process ----------------------------------------------------------------------------------


def _media_pool(self: Any, *_args: Any, **_kwargs: Any) -> Leave:
    def leave(_result: object, error: BaseException | None) -> None:
        if error is None:
            pools.name(self.io_executor, "media_wait")

    return leave


def _processor_pool(self: Any, *_args: Any, **_kwargs: Any) -> Leave:
    def leave(_result: object, error: BaseException | None) -> None:
        if error is None:
            pools.name(self._executor, "processor_wait")

    return leave


def _media_in(_self: Any, base_output: Any, *_args: Any, **_kwargs: Any) -> dict[str, Any]:
    """What reaches the processor: images and frames, as far as they can be counted."""
    machine_facts.note_process()
    images, videos = getattr(base_output, "images", None), getattr(base_output, "videos", None)
    return {**media_facts(images, videos), **machine_facts.threads()}


def _rid(_self: Any, tokenized_obj: Any, *_args: Any, **_kwargs: Any) -> dict[str, Any]:
    return {"also_known_as": str(tokenized_obj.rid)}


_PROCESSORS: Final = "sglang.srt.multimodal.processors"
_MANAGER: Final = "sglang.srt.managers.tokenizer_manager:TokenizerManager"

MAIN: Final = (
    Probe("main process", (Target(f"{_MANAGER}.__init__", around(_main_process)),)),
    Probe(
        "chat template",
        (
            Target(
                "sglang.srt.entrypoints.openai.serving_chat:"
                "OpenAIServingChat._convert_to_internal_request",
                timed("tokenize", measure=True),
                ("request",),
            ),
        ),
        merged="pool_work",
    ),
    Probe(
        "tokenize",
        (Target(f"{_MANAGER}._tokenize_texts", timed("tokenize"), ("texts",)),),
        merged="unattributed",
    ),
    Probe(
        "media pool",
        (
            Target(
                f"{_PROCESSORS}.base_processor:BaseMultimodalProcessor.__init__",
                around(_media_pool),
            ),
        ),
        merged="pool_wait",
    ),
    Probe(
        "media_decode",
        (
            Target(
                f"{_PROCESSORS}.base_processor:BaseMultimodalProcessor._load_single_item",
                timed("media_decode", measure=True),
                ("data", "modality"),
            ),
        ),
        merged="pool_work",
    ),
    Probe(
        "media_decode: video frames",
        (Target(f"{_PROCESSORS}.qwen_vl:preprocess_video", timed("media_decode"), ("vr",)),),
        merged="unattributed",
    ),
    Probe(
        "processor pool",
        (
            Target(
                f"{_PROCESSORS}.executor:MultimodalProcessorExecutor.__init__",
                around(_processor_pool),
                ("max_workers",),
            ),
        ),
        merged="pool_wait",
    ),
    Probe(
        "processor",
        (
            Target(
                f"{_PROCESSORS}.base_processor:BaseMultimodalProcessor.process_and_combine_mm_data",
                timed("processor", measure=True, before=_media_in),
                ("base_output",),
            ),
        ),
        merged="unattributed",
    ),
    Probe(
        "processor: HF call",
        (
            Target(
                f"{_PROCESSORS}.base_processor:BaseMultimodalProcessor._call_processor",
                timed("processor_hf", measure=True),
            ),
            Target(
                f"{_PROCESSORS}.base_processor:BaseMultimodalProcessor.process_mm_data",
                timed("processor_hf", measure=True),
            ),
        ),
        merged="processor",
    ),
    Probe(
        "handoff",
        (
            Target(
                f"{_MANAGER}._send_one_request",
                timed("handoff", before=_rid),
                ("tokenized_obj",),
            ),
        ),
        merged="engine_receive",
    ),
)


# -- scheduler's process ---------------------------------------------------------------------------


def _queued(_self: Any, req: Any, *_args: Any, **_kwargs: Any) -> None:
    """The stamps of a request do not say whose they are."""
    if _rank.tells:
        setattr(req.time_stats, _RID, req.rid)


def _completed(stats: Any, *_args: Any, **_kwargs: Any) -> Leave:
    def leave(_result: object, error: BaseException | None) -> None:
        rid = getattr(stats, _RID, None)
        if error is not None or rid is None:
            return
        for stage, begin, end in _STAGES:
            since_s, until_s = getattr(stats, begin, 0.0), getattr(stats, end, 0.0)
            if 0 < since_s <= until_s:  # 0: it was not stamped
                start_ns, end_ns = round(since_s * 1e9), round(until_s * 1e9)
                # a step of prefill serves several requests
                facts: dict[str, Any] = {"batched": True} if stage == "prefill" else {}
                spans.record(stage, start_ns, end_ns, request_id=rid, **facts)

    return leave


def _encode(_input_ids: Any, forward_batch: Any, *_args: Any, **_kwargs: Any) -> Leave | None:
    """The media of a whole batch: each of its requests that has some is in it for all of it."""
    rids = [str(rid) for rid in getattr(forward_batch, "rids", None) or ()]
    inputs = getattr(forward_batch, "mm_inputs", None) or ()
    having = [rid for rid, media in zip(rids, inputs, strict=False) if media is not None]
    if not having or not _rank.tells or not _extends(forward_batch):
        return None
    facts: dict[str, Any] = {"batched": True}  # it could be several, also where it was one

    def record(start_ns: int, end_ns: int) -> None:
        for rid in having:
            spans.record("encoder", start_ns, end_ns, request_id=rid, **facts)

    device = _device()
    if device is not None:
        device.poll()
        stretch = device.begin()

        def leave_gpu(_result: object, error: BaseException | None) -> None:
            if error is None:
                stretch.end(record)

        return leave_gpu
    start_ns = spans.now_ns()
    facts["host_time"] = True

    def leave(_result: object, error: BaseException | None) -> None:
        record(start_ns, spans.now_ns())

    return leave


def _extends(forward_batch: Any) -> bool:
    """Decoding steps come by here too, and have nothing to encode."""
    mode = getattr(forward_batch, "forward_mode", None)
    decodes = getattr(mode, "is_decode", None)
    return not (callable(decodes) and guarded(decodes))


def _device() -> Device | None:
    """The clock of this thread's GPU; None: there is none."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    index = int(torch.cuda.current_device())
    if index not in _devices:
        _devices[index] = Device(lambda: torch.cuda.Event(enable_timing=True))
    return _devices[index]


_SCHEDULER: Final = "sglang.srt.managers.scheduler:Scheduler"

SCHEDULER: Final = (
    Probe("scheduler", (Target(f"{_SCHEDULER}.__init__", around(_scheduler)),)),
    Probe(
        "queued",
        (Target(f"{_SCHEDULER}._add_request_to_queue", around(_queued), ("req",)),),
        merged="unattributed",
    ),
    Probe(
        "engine queue, prefill, decode",
        (
            Target(
                "sglang.srt.observability.req_time_stats:SchedulerReqTimeStats.set_completion_time",
                around(_completed),
            ),
        ),
        merged="unattributed",
    ),
    Probe(
        "encoder",
        (
            Target(
                "sglang.srt.managers.mm_utils:prepare_mm_inputs",
                around(_encode),
                ("forward_batch",),
            ),
        ),
        merged="prefill",
    ),
)

TABLE: Final = Table("sglang", (*MAIN, *SCHEDULER), on_import=_greet)
