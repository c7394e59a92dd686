"""What moves a stage's limit, in the flags and words of the server that was traced.

In: what the server's processes say of themselves. Out: for each stage the settings to try, and the
sentence that goes with them. A server that does not say what it is gets the names of all.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from mmload.records import ServerProcess


class Remedy(NamedTuple):
    """`words` end the sentence on the bottleneck."""

    settings: tuple[str, ...]
    words: str


_MEDIA: Final = ("--media-workers", "VLLM_MEDIA_LOADING_THREAD_COUNT")
_ENGINE: Final = ("--max-num-batched-tokens", "--max-num-seqs")
ANY_SERVER: Final[Mapping[str, Remedy]] = {
    "http_receive": Remedy(("--api-server-count",), "More API server processes move it."),
    "media_fetch": Remedy(_MEDIA, "More media workers, or media that is nearer, move it."),
    "media_decode": Remedy(_MEDIA, "More media workers, or smaller media, move it."),
    "tokenize": Remedy(
        ("--renderer-workers", "--renderer-num-workers"), "More renderer workers move it."
    ),
    "processor": Remedy(
        (
            "--renderer-workers",
            "--omp-threads",
            "--renderer-num-workers",
            "--api-server-count",
            "OMP_NUM_THREADS",
        ),
        "More renderer workers (--renderer-workers) or a faster processor move it.",
    ),
    "pool_work": Remedy((), "More threads in that pool, or more server processes, move it."),
    "handoff": Remedy(("--api-server-count",), "More API server processes move it."),
    "encoder": Remedy(_ENGINE, "A faster or second engine moves it."),
    "prefill": Remedy(_ENGINE, "A faster or second engine, or shorter prompts, move it."),
    "decode": Remedy(_ENGINE, "A faster or second engine, or shorter answers, move it."),
}

_VLLM_MEDIA: Final = ("VLLM_MEDIA_LOADING_THREAD_COUNT", "--api-server-count")
_VLLM: Final[Mapping[str, Remedy]] = {
    **ANY_SERVER,
    "media_fetch": Remedy((), "Media that is nearer moves it."),
    "media_decode": Remedy(_VLLM_MEDIA, "More media threads, or smaller media, move it."),
    "tokenize": Remedy(("--renderer-num-workers",), "More renderer workers move it."),
}


def remedies(processes: Iterable[ServerProcess]) -> Mapping[str, Remedy]:
    """By stage; a stage that is not there has no known remedy."""
    for process in processes:
        if process.settings.get("server") == "vllm" and "processor_wait" in _pools(process):
            return {**_VLLM, "processor": _own_pool(process.settings)}
        if process.settings.get("server") == "vllm" and _pools(process):
            settings = ("--renderer-num-workers", "--api-server-count", "OMP_NUM_THREADS")
            words = "More renderer workers, or more API server processes, move it."
            return {**_VLLM, "processor": Remedy(settings, words)}
    return ANY_SERVER


def _own_pool(said: Mapping[str, Any]) -> Remedy:
    """The processor has one thread of its own, whatever the renderer's pool is given."""
    settings: tuple[str, ...] = ("--api-server-count", "OMP_NUM_THREADS")
    words = "More API server processes (--api-server-count) or a faster processor move it."
    if said.get("mm_device_do_normalize") is False:
        settings = ("--mm-device-do-normalize", *settings)
        words = (
            "--mm-device-do-normalize (it moves work to the device), more API server processes"
            " (--api-server-count) or a faster processor move it."
        )
    return Remedy(settings, words)


def _pools(process: ServerProcess) -> Mapping[str, Any]:
    return process.notes.get("pools", {})
