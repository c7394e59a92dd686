"""vLLM's engine, seen from the API server and from inside: what the probes record.

The API server knows when it handed a request over and, from the engine's own statistics, when the
scheduler got it, scheduled it, and had its first and last token. All of these are CLOCK_MONOTONIC,
one clock for the processes of a host. Inside the engine's processes the input thread and the vision
encoder are timed: the encoder by CUDA events where there is a GPU, else by the host (`host_time`).
Stdlib only.
"""

import collections
import sys
from typing import Any, Final

from mmload.hook import spans
from mmload.hook.device_clock import Device
from mmload.hook.wrap import Leave, Work, guarded

_KEPT: Final = 8192  # requests whose hand-over is remembered; aborted ones never ask for it
_handed_over: "collections.OrderedDict[str, int]" = collections.OrderedDict()
_devices: dict[int, Device] = {}

NO_STATISTICS: Final = "--disable-log-stats: vLLM takes no stamps of requests then"


# -- in the API server -----------------------------------------------------------------------------


def client(self: Any, *_args: Any, **_kwargs: Any) -> Leave:
    """`AsyncLLM.__init__`: whether the engine will tell its times."""

    def leave(_result: object, error: BaseException | None) -> None:
        if error is None and not getattr(self, "log_stats", True):
            spans.note("blind", **{"engine queue, prefill, decode": NO_STATISTICS})

    return leave


def handed_over(_self: Any, request_id: str, *_args: Any, **_kwargs: Any) -> Leave:
    """`AsyncLLM.add_request`: checks the request, encodes it and sends it, tensors and all."""
    work = Work()

    def leave(_result: object, error: BaseException | None) -> None:
        end_ns = work.end(error)
        work.record("handoff", {}, request_id=request_id)
        if error is None:
            _handed_over[request_id] = end_ns
            while len(_handed_over) > _KEPT:
                _handed_over.popitem(last=False)

    return leave


def finished(_self: Any, req_state: Any, *_args: Any, **_kwargs: Any) -> None:
    """`OutputProcessor._update_stats_from_finished`: the engine's stamps of a whole request."""
    stats = req_state.stats
    if stats is None:
        return
    name = req_state.request_id
    queued, scheduled = _ns(stats.queued_ts), _ns(stats.scheduled_ts)
    first, last = _ns(stats.first_token_ts), _ns(stats.last_token_ts)
    if not (queued and scheduled):
        return
    handed = _handed_over.get(getattr(req_state, "external_req_id", None) or name)
    if handed is not None and handed < queued:
        spans.record("engine_inbox", handed, queued, request_id=name)
    spans.record("engine_wait", queued, scheduled, request_id=name)
    if first:
        facts = {
            "tokens": getattr(req_state, "prompt_len", None),
            "cached_tokens": getattr(req_state, "num_cached_tokens", None),
        }
        # Steps are shared with other requests: the time is no measure of the engine's limit.
        spans.record("prefill", scheduled, first, request_id=name, batched=True, **facts)
        if last > first:
            produced = stats.num_generation_tokens
            preempted = getattr(stats, "num_preemptions", 0)
            spans.record(
                "decode", first, last, request_id=name, tokens=produced, preempted=preempted
            )


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


# -- in the engine's processes ---------------------------------------------------------------------


def engine_core(_self: Any, *_args: Any, **_kwargs: Any) -> None:
    spans.describe("engine_core", server="vllm")


def worker(_self: Any, *_args: Any, **_kwargs: Any) -> None:
    spans.describe("worker", server="vllm")


def received_id(_self: Any, request: Any, *_args: Any, **_kwargs: Any) -> str:
    """`EngineCore.preprocess_add_request`: the internal id."""
    return str(request.request_id)


def step(_self: Any, *_args: Any, **_kwargs: Any) -> None:
    """`execute_model`: what the GPU has finished meanwhile."""
    for device in _devices.values():
        device.poll()


def encoder_v1(self: Any, scheduler_output: Any, *_args: Any, **_kwargs: Any) -> Leave | None:
    """`GPUModelRunner._execute_mm_encoder`."""
    config = getattr(getattr(self, "vllm_config", None), "parallel_config", None)
    return _encode(scheduler_output.scheduled_encoder_inputs, self, config)


def encoder_v2(self: Any, scheduled_encoder_inputs: Any) -> Leave | None:
    """`ModelState.execute_mm_encoder` of the newer runner."""
    config = getattr(getattr(self, "vllm_config", None), "parallel_config", None)
    return _encode(scheduled_encoder_inputs, self, config)


def _encode(inputs: Any, owner: Any, parallel: Any) -> Leave | None:
    """`inputs`: request id -> what is to be encoded. One span a request, all of one length."""
    names = [str(name) for name, items in inputs.items() if items]
    if not names or getattr(parallel, "rank", 0) != 0:  # the ranks do the same at the same time
        return None
    facts: dict[str, Any] = {"batched": True}  # it could be several, also where it was one
    device = guarded(_device_of, owner)
    stretch = device.begin() if device is not None else None
    start_ns = spans.now_ns()

    def put(start_ns: int, end_ns: int) -> None:
        for name in names:
            spans.record("encoder", start_ns, end_ns, request_id=name, **facts)

    def leave(_result: object, error: BaseException | None) -> None:
        if error is not None:
            facts["error"] = type(error).__name__
        if stretch is not None:
            stretch.end(put)
        else:
            facts["host_time"] = True
            put(start_ns, spans.now_ns())

    return leave


def _device_of(owner: Any) -> Device | None:
    """The clock of the GPU that the runner works on; None on a CPU."""
    where = getattr(owner, "device", None)
    if getattr(where, "type", "cpu") != "cuda":  # ROCm's too
        return None
    index = getattr(where, "index", None) or 0
    device = _devices.get(index)
    if device is None:
        event = sys.modules["torch"].cuda.Event
        device = _devices[index] = Device(lambda: event(enable_timing=True))
    return device
