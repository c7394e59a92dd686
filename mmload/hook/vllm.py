"""vLLM: where in its code each event of a request can be seen, for the releases that are known.

Written and tried on 0.32; the alternatives are where older releases have the same. In layers, each
of use without the next: the door (`doors.py`) and the engine's own statistics; the API server's
pools, media, tokeniser, processor and hand-over; inside the engine, its input thread and the vision
encoder. `mmload trace` brings the table; so does vLLM itself, as the general plugin `mmload`, where
mmload is installed beside it and MMLOAD_HOOK_DIR names a folder. Both together stamp once.

What it cannot see: requests served by the Rust front end (VLLM_USE_RUST_FRONTEND=1), and the
engine's times with --disable-log-stats. As a plugin only, it is not loaded where VLLM_PLUGINS
leaves it out. Stdlib only.
"""

import os
from types import ModuleType
from typing import Final

from mmload.hook import spans, vllm_engine, vllm_render
from mmload.hook.after_import import after_import
from mmload.hook.probes import Probe, Table, Target, Unfit, wrap
from mmload.hook.wrap import around, timed

_DECODE: Final = around(vllm_render.decode)
_TOKENIZE: Final = timed("tokenize", measure=True)
_SAMPLING: Final = Target(
    "transformers.video_processing_utils:BaseVideoProcessor._decode_and_sample_videos",
    around(vllm_render.sampled),
    ("videos", "video_metadata"),
)
_ROLES: Final = (
    ("EngineCore", "engine_core"),
    ("VllmWorker", "worker"),
    ("ApiServer", "api_server"),
)
RUST: Final = "VLLM_USE_RUST_FRONTEND: requests do not pass through Python in the API server"


def _probe(event: str, merged: str, *targets: Target) -> Probe:
    return Probe(event, targets, merged)


def _decode_probe(kind: str, method: str, parameter: str) -> Probe:
    """A loader of media; `kind` is image or video. Before 2026 they lay one package higher."""
    name = f"{kind.capitalize()}MediaIO.{method}"
    return _probe(
        f"media_decode: {kind}, {method}",
        "unattributed",
        Target(f"vllm.multimodal.media.{kind}:{name}", _DECODE, (parameter,)),
        Target(f"vllm.multimodal.{kind}:{name}", _DECODE, (parameter,)),
    )


def role() -> str | None:
    """By the name that vLLM gives to a process that it starts; None for the one of its command."""
    import multiprocessing  # vLLM has it by now; a process of something else may do without

    name = multiprocessing.current_process().name
    return next((role for start, role in _ROLES if name.startswith(start)), None)


def _watch_sampling(module: ModuleType) -> None:
    """In transformers, and so not in the table, which is that of a process with vLLM in it."""
    event = "frames that the processor keeps"
    try:
        wrap(module, _SAMPLING)
        spans.note("attached", **{event: _SAMPLING.path})
    except Unfit as unfit:
        spans.note("missing", **{event: {"reason": str(unfit), "merged": ""}})


def _greet() -> None:
    """vLLM is being imported."""
    spans.describe(role(), server="vllm")
    after_import(_SAMPLING.module, _watch_sampling)
    for module in ("vllm.multimodal.media.connector", "vllm.multimodal.utils"):
        after_import(module, vllm_render.media_pool)
    if os.environ.get("VLLM_USE_RUST_FRONTEND", "0") not in ("", "0"):
        spans.note("blind", **{"API server": RUST})


_BASE: Final = "vllm.renderers.base"
_PROCESSING: Final = "vllm.multimodal.processing"
_PROCESSOR: Final = around(vllm_render.processor)
_LOOKED_UP: Final = around(vllm_render.cache_looked_up)
_CALLED: Final = around(vllm_render.called)

# event, the stage that has its time where it cannot be seen, where it can be seen
API_SERVER: Final = (
    _probe(
        "media_fetch",
        "unattributed",
        Target("vllm.connections:HTTPConnection.async_get_bytes", timed("media_fetch"), ("url",)),
    ),
    _decode_probe("video", "load_base64", "data"),
    _decode_probe("video", "load_bytes", "data"),
    _decode_probe("video", "load_file", "filepath"),
    _decode_probe("image", "load_base64", "data"),
    _decode_probe("image", "load_bytes", "data"),
    _decode_probe("image", "load_file", "filepath"),
    _probe(
        "pools",
        "pool_wait",
        Target(f"{_BASE}:BaseRenderer.__init__", around(vllm_render.renderer), ("config",)),
    ),
    _probe(
        "renderer pool, replaced",
        "pool_wait",
        Target(f"{_BASE}:_SwappableExecutor.replace_inner", around(vllm_render.swapped)),
    ),
    _probe(
        "chat template",
        "unattributed",
        Target("vllm.renderers.hf:safe_apply_chat_template", _TOKENIZE, ("conversation",)),
    ),
    _probe(
        "chat template, mistral",
        "unattributed",
        Target("vllm.renderers.mistral:safe_apply_chat_template", _TOKENIZE),
    ),
    _probe(
        "tokenize",
        "unattributed",
        Target(
            f"{_BASE}:BaseRenderer._tokenize_prompt",
            timed("tokenize", measure=True, after=vllm_render.prompt_tokens),
            ("prompt", "params"),
        ),
    ),
    _probe(
        "processor",
        "unattributed",
        Target(f"{_BASE}:BaseRenderer._process_multimodal", _PROCESSOR, ("mm_data",)),
        Target(
            "vllm.inputs.preprocess:InputPreprocessor._process_multimodal",
            _PROCESSOR,
            ("mm_data",),
        ),
    ),
    _probe(
        "processor steps",
        "processor",
        Target(f"{_PROCESSING}.context:TimingContext.record", vllm_render.step, ("stage",)),
    ),
    _probe(
        "processor cache",
        "",
        Target(
            f"{_PROCESSING}.processor:BaseMultiModalProcessor._get_cache_missing_items", _LOOKED_UP
        ),
        Target(f"{_PROCESSING}:BaseMultiModalProcessor._get_cache_missing_items", _LOOKED_UP),
    ),
    _probe(
        "what arrives at the processor",
        "",
        Target(
            f"{_PROCESSING}.context:InputProcessingContext.call_hf_processor",
            _CALLED,
            ("hf_processor", "data"),
        ),
        Target(
            "vllm.inputs.registry:InputProcessingContext.call_hf_processor",
            _CALLED,
            ("hf_processor", "data"),
        ),
    ),
    _probe(
        "handoff",
        "unattributed",
        Target(
            "vllm.v1.engine.async_llm:AsyncLLM.add_request",
            around(vllm_engine.handed_over),
            ("request_id",),
        ),
    ),
    _probe(
        "statistics",
        "",
        Target(
            "vllm.v1.engine.async_llm:AsyncLLM.__init__",
            around(vllm_engine.client),
            ("log_stats",),
        ),
    ),
    _probe(
        "engine times",
        "unattributed",
        Target(
            "vllm.v1.engine.output_processor:OutputProcessor._update_stats_from_finished",
            around(vllm_engine.finished),
            ("req_state",),
        ),
    ),
)

_RUNNER: Final = "vllm.v1.worker.gpu_model_runner:GPUModelRunner"
_NEWER: Final = "vllm.v1.worker.gpu"
ENGINE: Final = (
    _probe(
        "role: engine core",
        "",
        Target("vllm.v1.engine.core:EngineCore.__init__", around(vllm_engine.engine_core)),
    ),
    _probe(
        "role: worker",
        "",
        Target(
            "vllm.v1.executor.multiproc_executor:WorkerProc.__init__", around(vllm_engine.worker)
        ),
    ),
    _probe(
        "engine_receive",
        "engine_inbox",
        Target(
            "vllm.v1.engine.core:EngineCore.preprocess_add_request",
            timed("engine_receive", request_id=vllm_engine.received_id),
            ("request",),
        ),
    ),
    _probe(
        "encoder",
        "prefill",
        Target(
            f"{_RUNNER}._execute_mm_encoder",
            around(vllm_engine.encoder_v1),
            ("scheduler_output",),
        ),
    ),
    _probe(
        "encoder, newer runner",
        "prefill",
        Target(
            f"{_NEWER}.model_states.interface:ModelState.execute_mm_encoder",
            around(vllm_engine.encoder_v2),
            ("scheduled_encoder_inputs",),
        ),
    ),
    _probe("GPU events", "", Target(f"{_RUNNER}.execute_model", around(vllm_engine.step))),
    _probe(
        "GPU events, newer runner",
        "",
        Target(f"{_NEWER}.model_runner:GPUModelRunner.execute_model", around(vllm_engine.step)),
    ),
)

TABLE: Final = Table("vllm", (*API_SERVER, *ENGINE), on_import=_greet)


def plugin() -> None:
    """The entry point that vLLM calls in each of its processes, perhaps more than once."""
    from mmload.hook import bootstrap  # it knows this table

    bootstrap.start()
