"""Which parts of a scenario go together: what its single fields cannot say. Pure."""

from typing import TYPE_CHECKING

from mmload.scenario_types import AS_FILE, BODY_FIELDS

if TYPE_CHECKING:
    from mmload.scenario import Scenario


def check(scenario: "Scenario") -> None:
    """What single fields cannot say. Raises ValueError with what goes together."""
    s = scenario
    closed = s.load_mode != "open"
    pacing = [n for n in ("qps", "profile", "trace", "cameras") if getattr(s, n) is not None]
    if s.concurrency is not None and s.sequential:
        raise ValueError("concurrency and sequential: give one of them")
    if closed and pacing:
        raise ValueError(
            f"{pacing[0]} is for the open loop, concurrency and sequential are a closed one:"
            " give one kind"
        )
    if len(pacing) > 1:
        raise ValueError(f"{' and '.join(pacing)}: give one of them")
    if s.duration is not None and s.requests is not None and not closed:
        raise ValueError("duration and requests: give one of them")
    if s.profile and not any(segment.segment().arrivals > 0 for segment in s.profile):
        raise ValueError("profile: every rate is 0, so nothing would be sent")
    if s.every is not None and s.cameras is None:
        raise ValueError("every is for cameras: give their number with cameras")
    if s.think_time is not None and s.turns == 1:
        raise ValueError("think_time is for conversations: give turns of 2 or more")
    if s.turns > 1 and (closed or s.cameras is not None):
        raise ValueError("turns: conversations begin by an open loop of qps, profile or trace")
    _check_media(s)


def _check_media(s: "Scenario") -> None:
    one_of = [n for n in ("media", "dataset", "cameras") if getattr(s, n) is not None]
    if len(one_of) > 1:
        raise ValueError(f"{' and '.join(one_of)}: media come from one of them")
    if s.mix is not None and (s.frames is not None or s.size is not None):
        raise ValueError("mix says the frames and sizes itself: leave out frames and size")
    if s.mix is not None and not s.mix:
        raise ValueError("mix: one class or more is needed")
    if s.prompts is not None and "prompt" in s.given:
        raise ValueError("prompt and prompts: give one of them")
    if s.dataset is not None:
        several = len(s.frames or ()) > 1 or len(s.size or ()) > 1
        if s.mix is not None or s.prompts is not None or s.turns > 1 or several:
            raise ValueError(
                "dataset: each line is a request of its own: leave out mix, prompts and turns,"
                " and give one value for frames and size"
            )
    if s.cameras is not None and s.reuse:
        raise ValueError("reuse: what cameras film does not repeat")
    for cls in s.classes:
        if s.cameras is not None and (cls.frames in (0, AS_FILE) or cls.media is not None):
            raise ValueError("cameras film synthetic scenes: frames of 1 or more, no media")
        if cls.frames == AS_FILE and cls.media is None and s.dataset is None:
            raise ValueError("frames: file needs media: name a file or folder")
        if cls.as_ == "jpeg-frames" and s.format not in (None, "jpeg"):
            raise ValueError(f"as jpeg-frames and format {s.format}: such frames are JPEG files")
        if cls.as_ == "jpeg-frames" and s.media_url is not None:
            raise ValueError("as jpeg-frames and media_url: such frames have no URL")
    extra = s.extra_body or {}
    if taken := [key for key in ("messages", "model", *BODY_FIELDS) if key in extra]:
        if taken[0] == "messages" or getattr(s, taken[0]) is not None:
            raise ValueError(f"extra_body: {taken[0]} is said elsewhere: leave it out")
