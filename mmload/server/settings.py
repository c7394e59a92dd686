"""Settings of the embedded server: one validated model behind `mmload serve` and its flags.

Nothing here imports numpy, OpenCV or torch, so that OMP_NUM_THREADS can be set before they load.
"""

import importlib.util
import os
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mmload.errors import UsageError
from mmload.processors.families import GEMMA4_BUDGETS

Threads = Annotated[int, Field(ge=1, le=256)]
Count = Annotated[int, Field(ge=1)]
Milliseconds = Annotated[float, Field(ge=0, le=3_600_000, allow_inf_nan=False)]
Port = Annotated[int, Field(ge=0, le=65_535)]

SIMULATED_ACCELERATOR: Final = "accelerator (encoder, prefill, decode) by a cost model"


# settings of one engine that mean nothing to the other
UNUSED: Final = {
    "simulated": {
        *("model_path", "model_seed", "engine_threads", "encoder_device", "embedding_cache"),
    },
    "torch": {
        *("encoder_fixed_ms", "encoder_ms_per_1k_patches"),
        *("prefill_fixed_ms", "prefill_ms_per_1k_tokens"),
        *("decode_step_ms", "decode_ms_per_sequence", "max_batch"),
    },
}
EMBEDDED_FAMILIES: Final = ("qwen3-vl", "gemma-4")  # values of `model_family`
LEAVE_OUT: Final = "leave out one of them"
EXTRA: Final = "pip install 'mmload[hf]'"


class ServerSettings(BaseModel):
    """Everything that can be set. Times are milliseconds of simulated work."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(default="127.0.0.1", description="Address to listen on (127.0.0.1).")
    port: Port = Field(default=0, description="Port to listen on; 0: a free one (0).")
    model: Annotated[str, Field(min_length=1)] = Field(
        default="mmload-embedded", description="Name of the model served (mmload-embedded)."
    )

    # the CPU side: real
    processor: Literal["numpy", "stock", "owned"] = Field(
        default="numpy",
        description="The multimodal processor: numpy, stock (transformers'), owned (numpy).",
    )
    model_family: Literal["qwen3-vl", "gemma-4"] = Field(
        default="qwen3-vl", description="Whose processor: qwen3-vl, gemma-4 (qwen3-vl)."
    )
    max_image_tokens: Count | None = Field(
        default=None,
        description="Larger images are made smaller until they cost so many tokens at most.",
    )
    renderer_workers: Threads = Field(
        default=1, description="Threads that tokenise and run the processor (1)."
    )
    media_workers: Threads = Field(default=8, description="Threads that decode media (8).")
    omp_threads: Threads | None = Field(
        default=None,
        description="Threads within one call of OpenCV (one a core), of the stock processor's"
        " torch (OMP_NUM_THREADS, else 1, as in vLLM), of the owned processor (one a core).",
    )
    processor_fixed_ms: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="Simulate the processor: each request takes exactly this long."
    )
    max_video_frames: Annotated[int, Field(ge=2)] = Field(
        default=768, description="Longer videos are sampled down to so many frames (768)."
    )

    # the accelerator: simulated, or a real model
    engine: Literal["simulated", "torch"] = Field(
        default="simulated",
        description="What encodes and decodes: simulated, or torch, a real model (simulated).",
    )
    model_path: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="Folder of a Qwen3-VL for --engine torch (a tiny one, made here)."
    )
    model_seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(
        default=0, description="Seed of the tiny model's random weights (0)."
    )
    engine_threads: Threads | None = Field(
        default=None,
        description="Torch's threads in --engine torch (one a core; 1 for the tiny model).",
    )
    encoder_device: Literal["auto", "cpu"] = Field(
        default="auto",
        description="Where --engine torch runs the vision encoder: with the model (auto), or cpu.",
    )
    embedding_cache: Annotated[int, Field(ge=0)] = Field(
        default=0,
        description="Images and videos whose encoder output --engine torch keeps, by content (0).",
    )
    encoder_fixed_ms: Milliseconds = Field(
        default=2.0, description="Vision encoder, each request (2)."
    )
    encoder_ms_per_1k_patches: Milliseconds = Field(
        default=3.0, description="Vision encoder, 1,000 patches (3)."
    )
    prefill_fixed_ms: Milliseconds = Field(default=2.0, description="Prefill, each request (2).")
    prefill_ms_per_1k_tokens: Milliseconds = Field(
        default=10.0, description="Prefill, 1,000 prompt tokens (10)."
    )
    decode_step_ms: Milliseconds = Field(
        default=8.0, description="A decode step, one token of all that run (8)."
    )
    decode_ms_per_sequence: Milliseconds = Field(
        default=0.25, description="What each running sequence adds to a step (0.25)."
    )
    max_batch: Count = Field(default=64, description="Sequences that decode together (64).")
    answer_tokens: Count = Field(
        default=64, description="Tokens after which the model ends an answer by itself (64)."
    )
    max_tokens_limit: Count = Field(
        default=4096, description="Most tokens that an answer may have (4096)."
    )

    # bounds
    max_body_mib: Count = Field(
        default=64, description="Larger request bodies are refused with 413 (64)."
    )
    max_waiting_media_mib: Count = Field(
        default=8192, description="With more decoded media waiting, requests get a 503 (8192)."
    )
    no_request_log: bool = Field(default=False, description="No line a request on standard error.")

    def simulated(self) -> str:
        """What of this server is simulated, in words; empty: nothing."""
        parts = [SIMULATED_ACCELERATOR] if self.engine == "simulated" else []
        if self.processor_fixed_ms is not None:
            parts.append(f"processor, {self.processor_fixed_ms:g} ms by a timer")
        return "; ".join(parts)

    def described(self) -> dict[str, Any]:
        """For the hook: every setting that is used, and what is simulated."""
        settings = self.model_dump(exclude=UNUSED[self.engine])
        simulated = self.simulated()
        return {**settings, "simulated": simulated} if simulated else settings

    def environment(self) -> Mapping[str, str]:
        """Variables that native libraries read when they load.

        `omp_threads`: OpenCV is told again by `cv2.setNumThreads`, which works at any time, and
        torch in each of its threads; the variables keep the pools of other libraries small.
        OpenCV and FFmpeg do not write of corrupt media: clients' errors go to them. Nothing is
        ever asked of a model hub.
        """
        variables = {"OPENCV_LOG_LEVEL": "SILENT", "OPENCV_FFMPEG_LOGLEVEL": "-8"}
        variables["HF_HUB_OFFLINE"] = "1"
        if self.omp_threads is not None:
            variables["OMP_NUM_THREADS"] = str(self.omp_threads)
            variables["OPENBLAS_NUM_THREADS"] = str(self.omp_threads)
        return variables

    def apply_environment(self) -> None:
        """Sets them in this process: to be called before numpy and OpenCV are imported."""
        os.environ.update(self.environment())


def server_settings(values: Mapping[str, Any]) -> ServerSettings:
    """Settings from flags or a file. Raises UsageError that names the flag."""
    try:
        settings = ServerSettings.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        name = "--" + ".".join(map(str, first["loc"])).replace("_", "-")
        raise UsageError(
            f"{name} {first['input']!r}: {first['msg']}",
            "`python -m mmload.server --help` lists the settings",
        ) from error
    check_settings(settings)
    return settings


def check_settings(settings: ServerSettings) -> None:
    """Raises UsageError for settings that exclude each other, and for what is not installed."""
    engine, processor = settings.engine, settings.processor
    fixed = settings.processor_fixed_ms is not None
    for name in sorted(UNUSED[engine] & settings.model_fields_set):
        other = "torch" if engine == "simulated" else "simulated"
        flag = "--" + name.replace("_", "-")
        raise UsageError(f"{flag}: is for --engine {other}, and this is {engine}", LEAVE_OUT)
    if fixed and (processor != "numpy" or engine == "torch"):
        raise UsageError(
            "--processor-fixed-ms: simulates the processor, which --processor and --engine torch"
            " want in earnest",
            LEAVE_OUT,
        )
    if settings.model_family == "gemma-4" and processor == "numpy":
        raise UsageError(
            "--model-family gemma-4: the numpy processor is Qwen3-VL's",
            "add --processor stock, or owned",
        )
    if settings.model_family == "gemma-4" and engine == "torch":
        raise UsageError("--model-family gemma-4: --engine torch runs a Qwen3-VL", LEAVE_OUT)
    most = settings.max_image_tokens
    if settings.model_family == "gemma-4" and most is not None and most < GEMMA4_BUDGETS[0]:
        raise UsageError(
            f"--max-image-tokens {most}: Gemma 4 spends {GEMMA4_BUDGETS[0]} or more",
            f"its budgets are {', '.join(map(str, GEMMA4_BUDGETS))}",
        )
    if settings.model_path is not None and processor == "numpy":
        raise UsageError(
            "--model-path: the numpy processor resizes unlike a checkpoint expects it",
            "add --processor stock, or owned",
        )
    if settings.model_path is not None and not os.path.isdir(settings.model_path):
        raise UsageError(f"--model-path {settings.model_path}: no such folder", "name a folder")
    if engine == "torch" or processor != "numpy":
        flag = "--engine torch" if engine == "torch" else f"--processor {processor}"
        for module in ("torch", "transformers"):
            if importlib.util.find_spec(module) is None:
                raise UsageError(f"{flag}: needs {module}, which is not installed", EXTRA)


def usable_cores() -> int:
    """CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def server_flags(settings: ServerSettings) -> tuple[str, ...]:
    """The command line of `python -m mmload.server` that gives these settings."""
    flags: list[str] = []
    for name, value in settings.model_dump(exclude_defaults=True).items():
        flag = "--" + name.replace("_", "-")
        flags.append(flag if value is True else f"{flag}={value}")
    return tuple(flags)
