"""Settings of the embedded server: one validated model behind `mmload serve` and its flags.

No imports beyond pydantic's, so that OMP_NUM_THREADS can be set before numpy or OpenCV load.
"""

import os
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mmload.errors import UsageError

Threads = Annotated[int, Field(ge=1, le=256)]
Count = Annotated[int, Field(ge=1)]
Milliseconds = Annotated[float, Field(ge=0, le=3_600_000, allow_inf_nan=False)]
Port = Annotated[int, Field(ge=0, le=65_535)]

SIMULATED_ACCELERATOR: Final = "accelerator (encoder, prefill, decode) by a cost model"


class ServerSettings(BaseModel):
    """Everything that can be set. Times are milliseconds of the simulated accelerator."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(default="127.0.0.1", description="Address to listen on (127.0.0.1).")
    port: Port = Field(default=0, description="Port to listen on; 0: a free one (0).")
    model: Annotated[str, Field(min_length=1)] = Field(
        default="mmload-embedded", description="Name of the model served (mmload-embedded)."
    )

    # the CPU side: real
    renderer_workers: Threads = Field(
        default=1, description="Threads that tokenise and run the processor (1)."
    )
    media_workers: Threads = Field(default=8, description="Threads that decode media (8).")
    omp_threads: Threads | None = Field(
        default=None, description="Threads that OpenCV uses within one call (one a core)."
    )
    processor_fixed_ms: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="Simulate the processor: each request takes exactly this long."
    )
    max_video_frames: Annotated[int, Field(ge=2)] = Field(
        default=768, description="Longer videos are sampled down to so many frames (768)."
    )

    # the accelerator: simulated
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
        """What of this server is simulated, in words."""
        if self.processor_fixed_ms is None:
            return SIMULATED_ACCELERATOR
        return f"{SIMULATED_ACCELERATOR}; processor, {self.processor_fixed_ms:g} ms by a timer"

    def described(self) -> dict[str, Any]:
        """For the hook: every setting, and what is simulated."""
        return {**self.model_dump(), "simulated": self.simulated()}

    def environment(self) -> Mapping[str, str]:
        """Variables that native libraries read when they load.

        `omp_threads`: OpenCV is told again by `cv2.setNumThreads`, which works at any time. Nothing
        here runs BLAS or OpenMP; the variables keep those pools small should a build of numpy or
        OpenCV use them. OpenCV and FFmpeg do not write of corrupt media: clients' errors go to
        them.
        """
        variables = {"OPENCV_LOG_LEVEL": "SILENT", "OPENCV_FFMPEG_LOGLEVEL": "-8"}
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
        return ServerSettings.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        name = "--" + ".".join(map(str, first["loc"])).replace("_", "-")
        raise UsageError(
            f"{name} {first['input']!r}: {first['msg']}",
            "`python -m mmload.server --help` lists the settings",
        ) from error


def server_flags(settings: ServerSettings) -> tuple[str, ...]:
    """The command line of `python -m mmload.server` that gives these settings."""
    flags: list[str] = []
    for name, value in settings.model_dump(exclude_defaults=True).items():
        flag = "--" + name.replace("_", "-")
        flags.append(flag if value is True else f"{flag}={value}")
    return tuple(flags)
