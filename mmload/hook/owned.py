"""The switch that puts mmload's owned processor cores beneath a server's multimodal processor.

MMLOAD_OWNED_PROCESSOR: 1 (or auto), the fastest core there is; torch or numba, that one; else the
server stays as it is. Read by vLLM's general plugin `mmload_owned`, where mmload is installed
beside vLLM, and by the hook that `mmload trace --owned` brings, which needs no installation. The
cores are in `mmload.processors.owned`, imported only when they are asked for and the server has
imported the classes that they go beneath: they need numpy, torch and OpenCV, which vLLM brings.
Whatever fails on the way leaves the server as it was, and is said in its log and in the notes of
its process. Stdlib only.
"""

import functools
import importlib
import os
from types import ModuleType
from typing import Any, Final

from mmload.hook import spans, vllm_render
from mmload.hook.after_import import after_import
from mmload.hook.stages import OWNED_CALLS, STOCK_CALLS

VARIABLE: Final = "MMLOAD_OWNED_PROCESSOR"
CORES: Final = {"1": "auto", "auto": "auto", "torch": "torch", "numba": "numba"}
# where transformers has the classes, in all releases that are known
MODULES: Final = (
    "transformers.models.qwen2_vl.image_processing_qwen2_vl",
    "transformers.models.qwen2_vl.image_processing_qwen2_vl_fast",
    "transformers.models.qwen3_vl.video_processing_qwen3_vl",
    "transformers.models.gemma4.image_processing_gemma4",
    "transformers.models.gemma4.image_processing_gemma4_fast",
    "transformers.models.gemma4.video_processing_gemma4",
)

_started = False
_told: set[str] = set()


def plugin() -> None:
    """The entry point that vLLM calls in each of its processes, perhaps more than once."""
    from mmload.hook import bootstrap  # which knows this module

    bootstrap.start()
    start()


def start() -> None:
    """Does nothing unless the variable says so. Safe to repeat."""
    global _started
    asked = os.environ.get(VARIABLE, "").lower()
    if _started or asked in ("", "0"):
        return
    _started = True
    core = CORES.get(asked)
    if core is None:
        _refuse(f"{VARIABLE}={asked}: it takes {', '.join(CORES)}")
        return
    spans.describe(None, owned_processor=core)
    for module in MODULES:
        after_import(module, functools.partial(_put, core))


def _put(core: str, module: ModuleType) -> None:
    try:
        beneath: Any = importlib.import_module("mmload.processors.owned.beneath")
        beneath.put(module, core, served, _log())
    except Exception as error:
        _refuse(f"{module.__name__}: {type(error).__name__}: {error}"[:300])


def _log() -> Any:
    """vLLM's own log, which has a handler for all that is named after it."""
    import logging  # not in every process that the hook is in

    return logging.getLogger("vllm.mmload")


def _refuse(reason: str) -> None:
    _log().warning("owned processor cores: %s; the stock processor it is", reason)
    spans.note("owned", refused=reason)


def served(core: str, reason: str) -> None:
    """Counts one call of a processor with the request that it is for; `reason`: why stock."""
    if reason and reason not in _told:
        _told.add(reason)
        _log().info("owned processor cores: a call was the stock processor's: %s", reason)
    facts = vllm_render.processor_facts()
    if facts is not None:
        name = STOCK_CALLS + reason if reason else OWNED_CALLS
        facts[name] = facts.get(name, 0) + 1
