"""The stages of a request and the phase each belongs to, in the order a request meets them.

One table for both sides: the hook stamps these names inside the server, the analysis maps them to
phases. A name that is not in the table (a server's own span) belongs to the phase that its span
names, else to CPU preprocessing. Stdlib only.
"""

from typing import Final, Literal, NamedTuple

Phase = Literal["client", "queueing", "cpu", "gpu", "output", "unattributed"]

PHASES: Final[tuple[Phase, ...]] = ("client", "queueing", "cpu", "gpu", "output", "unattributed")

PHASE_TITLES: Final[dict[Phase, str]] = {
    "client": "client",
    "queueing": "queueing",
    "cpu": "CPU preprocessing",
    "gpu": "GPU",
    "output": "output",
    "unattributed": "unattributed",
}


class Stage(NamedTuple):
    """One stage: its name on disk, its phase, its title, and whether it is a wait for a pool."""

    name: str
    phase: Phase
    title: str


STAGES: Final[tuple[Stage, ...]] = (
    Stage("schedule_lag", "client", "schedule lag"),  # intended -> first byte handed to the socket
    Stage("send", "client", "send"),  # first byte handed over -> last byte handed over
    Stage("accept_wait", "queueing", "accept wait"),  # in the socket, before the server reads it
    Stage("loop_wait", "queueing", "wait for the event loop"),  # another request holds it up
    Stage("http_receive", "cpu", "HTTP receive and parse"),
    Stage("media_wait", "queueing", "media-pool wait"),
    Stage("media_fetch", "cpu", "media fetch"),
    Stage("media_decode", "cpu", "media decode"),
    Stage("renderer_wait", "queueing", "renderer-pool wait"),
    Stage("tokenize", "cpu", "chat template + tokenise"),
    Stage("processor_wait", "queueing", "processor wait"),
    Stage("processor", "cpu", "processor"),
    Stage("processor_hash", "cpu", "processor: hash"),
    Stage("processor_cache", "cpu", "processor: cache look-up"),
    Stage("processor_hf", "cpu", "processor: HF call"),
    Stage("processor_sample", "cpu", "processor: sample frames"),
    Stage("processor_tensor", "cpu", "processor: to tensors"),
    Stage("processor_resize", "cpu", "processor: resize"),
    Stage("processor_normalise", "cpu", "processor: rescale, normalise"),
    Stage("processor_patchify", "cpu", "processor: patchify"),
    Stage("processor_merge", "cpu", "processor: merge"),
    Stage("processor_prompt", "cpu", "processor: prompt update"),
    Stage("pool_wait", "queueing", "wait for a thread pool"),
    Stage("pool_work", "cpu", "work in a thread pool"),
    Stage("handoff", "cpu", "hand-off to the engine"),
    Stage("engine_inbox", "queueing", "engine inbox wait"),  # sent -> known to the scheduler
    Stage("engine_receive", "cpu", "engine receive"),
    Stage("engine_wait", "queueing", "engine queue"),
    Stage("encoder", "gpu", "vision encoder"),
    Stage("prefill", "gpu", "prefill"),
    Stage("decode", "gpu", "decode"),
    Stage("detokenize", "output", "detokenise"),
    Stage("stream_out", "output", "stream out"),
)

STAGE_BY_NAME: Final[dict[str, Stage]] = {stage.name: stage for stage in STAGES}
STAGE_ORDER: Final[dict[str, int]] = {stage.name: i for i, stage in enumerate(STAGES)}


# Facts of the processor's span where mmload's owned cores are beneath the server's processor: how
# many of its calls they served, and how many were stock's, for the reason that follows.
OWNED_CALLS: Final = "owned_calls"
STOCK_CALLS: Final = "stock_calls: "


def phase_of(stage: str, said: str | None = None) -> Phase:
    """The phase of a stage name; `said` is what the span itself claims, for unknown names."""
    known = STAGE_BY_NAME.get(stage)
    if known is not None:
        return known.phase
    for phase in PHASES:
        if phase == said:
            return phase
    return "cpu"
