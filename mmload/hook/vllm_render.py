"""vLLM's API server, from the media's bytes to the processor's tensors: what the probes record.

Media are decoded in a module-wide pool; the chat template and the tokeniser run in the renderer's
pool (`--renderer-num-workers`); the multimodal processor runs in a pool of its own, one thread wide
since mid-2026, in the renderer's pool before. The request has no id of vLLM's yet: the door's
context variable carries ours. Work without a request (warm-ups) is not recorded. Stdlib only.
"""

import functools
from collections.abc import Iterable
from contextvars import ContextVar
from types import ModuleType, TracebackType
from typing import Any, Final

from mmload.hook import machine_facts, pools, spans
from mmload.hook.context import current_id
from mmload.hook.probes import version_of
from mmload.hook.wrap import Function, Leave, Work, guarded

# vLLM's names of the processor's steps
STEPS: Final = {
    "get_mm_hashes": "processor_hash",
    "get_cache_missing_items": "processor_cache",
    "apply_hf_processor": "processor_hf",
    "merge_mm_kwargs": "processor_merge",
    "apply_prompt_updates": "processor_prompt",
}

_decoding: ContextVar[bool] = ContextVar("mmload_vllm_decoding", default=False)
_seen: ContextVar[dict[str, Any] | None] = ContextVar("mmload_vllm_processor", default=None)


# -- pools -----------------------------------------------------------------------------------------


def media_pool(module: ModuleType) -> None:
    """The module of the media connector: its pool's wait is the media wait."""
    pools.name(module.global_thread_pool, "media_wait")


def renderer(self: Any, config: Any, *_args: Any, **_kwargs: Any) -> Leave:
    """`BaseRenderer.__init__`: names the pools, and tells what the server was told."""

    def leave(_result: object, error: BaseException | None) -> None:
        if error is not None:
            return
        guarded(name_renderer_pool, self._executor)
        own = getattr(self, "_mm_executor", None)
        if own is not None:
            guarded(pools.name, own, "processor_wait")
        spans.describe("api_server", **_settings(self, config))
        spans.note("versions", **{name: version_of(name) for name in ("torch", "transformers")})

    return leave


def name_renderer_pool(executor: Any) -> None:
    pools.name(getattr(executor, "_inner", executor), "renderer_wait")


def swapped(self: Any) -> Leave:
    """The renderer's pool is replaced after a request that hung."""
    return lambda _result, _error: name_renderer_pool(self)


def _settings(self: Any, config: Any) -> dict[str, Any]:
    model, parallel = config.model_config, config.parallel_config
    multimodal = getattr(model, "multimodal_config", None)
    cache = getattr(self, "_mm_processor_cache", None)
    device = getattr(getattr(config, "device_config", None), "device_type", None)
    return {
        "server": "vllm",
        "device": device.upper() if isinstance(device, str) else None,  # the engine's
        "renderer_num_workers": getattr(model, "renderer_num_workers", None),
        "api_server_count": getattr(parallel, "_api_process_count", None),
        "mm_device_do_normalize": getattr(multimodal, "mm_device_do_normalize", None),
        "mm_processor_cache": type(cache).__name__ if cache is not None else None,
        "mm_processor_cache_gb": getattr(multimodal, "mm_processor_cache_gb", None),
    }


# -- media and text --------------------------------------------------------------------------------


def decode(_self: Any, *_args: Any, **_kwargs: Any) -> Leave | None:
    """`load_bytes`, `load_base64`, `load_file` of images and videos; they may call each other."""
    if current_id() is None or _decoding.get():
        return None
    token = _decoding.set(True)
    work = Work(measure=True)

    def leave(result: Any, error: BaseException | None) -> None:
        work.end(error)
        _decoding.reset(token)
        work.record("media_decode", (guarded(_decoded, result) or {}) if error is None else {})

    return leave


def _decoded(result: Any) -> dict[str, Any]:
    """Frames and pixels that the loader gives on, and how many frames the file had."""
    facts: dict[str, Any] = {}
    size = getattr(result, "original_bytes", None)
    if isinstance(size, bytes | bytearray | memoryview):
        facts["bytes"] = len(size)
    media = getattr(result, "media", result)
    if isinstance(media, tuple) and len(media) == 2 and isinstance(media[1], dict):
        media, said = media
        if isinstance(said.get("total_num_frames"), int):
            facts["frames_in_file"] = said["total_num_frames"]
    facts["frames"], facts["pixels"] = frames_of(media)
    return facts


def frames_of(media: Any) -> tuple[int, int]:
    """Frames and pixels of an image, a video, or lists of them: arrays of (frames,) height, width
    and channels in any order, PIL images, vLLM's wrappers."""
    media = getattr(media, "media", media)
    if isinstance(media, list | tuple):
        counts = [frames_of(one) for one in media]
        return sum(frames for frames, _ in counts), sum(pixels for _, pixels in counts)
    shape = getattr(media, "shape", None)
    if shape is not None:
        sizes = [int(size) for size in shape]
        if len(sizes) not in (3, 4):
            return 0, 0
        frames = sizes[0] if len(sizes) == 4 else 1
        across = sorted(sizes[-3:])[1:]  # channels are the shortest side
        return frames, frames * across[0] * across[1]
    size = getattr(media, "size", None)
    if isinstance(size, tuple) and len(size) == 2:
        return 1, int(size[0]) * int(size[1])
    return 0, 0


def prompt_tokens(result: Any) -> dict[str, Any]:
    return {"tokens": len(result["prompt_token_ids"])}


# -- the processor ---------------------------------------------------------------------------------


def processor(_self: Any, *_args: Any, **_kwargs: Any) -> Leave | None:
    """`_process_multimodal`, on the processor's thread."""
    if current_id() is None:
        return None
    machine_facts.note_process()
    seen: dict[str, Any] = {}
    token = _seen.set(seen)
    work = Work(measure=True)

    def leave(_result: object, error: BaseException | None) -> None:
        work.end(error)
        _seen.reset(token)
        work.record("processor", seen)

    return leave


def processor_facts() -> dict[str, Any] | None:
    """What the processor's span, which is open on this thread, will say; None: there is none."""
    return _seen.get()


def step(record: Function) -> Function:
    """`TimingContext.record(stage)`, a context manager around each step, timed by vLLM or not."""

    @functools.wraps(record)
    def wrapper(self: Any, stage: str) -> Any:
        context = record(self, stage)
        if _seen.get() is None:
            return context
        return _Step(STEPS.get(stage, f"processor_{stage}"), context)

    return wrapper


class _Step:
    """vLLM's own context manager, and a span around what it contains."""

    __slots__ = ("_name", "_context", "_work")

    def __init__(self, name: str, context: Any) -> None:
        self._name = name
        self._context = context

    def __enter__(self) -> Any:
        entered = self._context.__enter__()
        self._work = Work(measure=True)
        return entered

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Any:
        self._work.end(error)
        self._work.record(self._name, {})
        return self._context.__exit__(kind, error, trace)


def cache_looked_up(_self: Any, *_args: Any, **_kwargs: Any) -> Leave | None:
    """`_get_cache_missing_items`: which media the processor's cache has."""
    seen = _seen.get()
    if seen is None:
        return None

    def leave(result: Any, error: BaseException | None) -> None:
        if error is None:
            found = [bool(hit) for hits in result[0].values() for hit in hits]
            seen["cache_queries"] = len(found)
            seen["cache_hits"] = sum(found)

    return leave


def called(_self: Any, hf_processor: Any, data: Any, *_args: Any, **_kwargs: Any) -> Leave | None:
    """`call_hf_processor`, perhaps once a medium: what arrives at transformers' processor."""
    seen = _seen.get()
    if seen is None:
        return None
    seen.update(machine_facts.threads())
    frames, pixels = frames_of([data[key] for key in ("images", "videos") if key in data])
    seen["frames_in"] = seen.get("frames_in", 0) + frames
    seen["pixels"] = seen.get("pixels", 0) + pixels
    before = seen.get("frames", 0)
    seen["frames"] = before + frames

    def leave(result: Any, error: BaseException | None) -> None:
        kept = seen.pop("kept", None)
        if kept is not None:
            seen["frames"] = before + kept
        if error is None:
            seen["patches"] = seen.get("patches", 0) + sum(_patches(result))

    return leave


def _patches(result: Any) -> Iterable[int]:
    for key in ("pixel_values", "pixel_values_videos"):
        shape: tuple[int, ...] = tuple(getattr(result.get(key), "shape", ()))
        if len(shape) == 2:  # one row a patch
            yield int(shape[0])


def sampled(_self: Any, *_args: Any, **_kwargs: Any) -> Leave | None:
    """transformers' video processor: the frames that it keeps of those that it was given."""
    seen = _seen.get()
    if seen is None:
        return None

    def leave(result: Any, error: BaseException | None) -> None:
        if error is None:
            seen["kept"] = seen.get("kept", 0) + frames_of(list(result[0]))[0]

    return leave
