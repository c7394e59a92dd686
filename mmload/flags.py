"""The words of the command line: every flag, its kind and its help, in one table a group.

Imports nothing heavy, so that `mmload --help` is quick. Values stay as typed here; the validated
models (`scenario.Scenario`, `server.settings.ServerSettings`) judge them, so that a flag and a key
of a YAML file fail with the same words.
"""

from dataclasses import field, make_dataclass
from typing import Annotated, Any, Final, NamedTuple

from cyclopts import Parameter

DEFAULT_SIZE: Final = "854x480"


class Flag(NamedTuple):
    """`kind` is how the command line reads it: str, bool, or list[str] for repeatable flags."""

    help: str
    kind: Any = str


SCENARIO: Final[dict[str, Flag]] = {
    "qps": Flag("Arrivals per second, whatever the server does (5)."),
    "duration": Flag("Seconds of arrivals (30)."),
    "requests": Flag("How many requests, instead of --duration."),
    "arrival": Flag("Spacing of arrivals: constant, poisson or gamma."),
    "burstiness": Flag("Shape of gamma arrivals: below 1 bursty, 1 as Poisson, above 1 calmer."),
    "profile": Flag("Rates over time instead of --qps: 2x10s,1-10x30s,0x5s; repeats."),
    "concurrency": Flag("Closed loop instead of --qps: keep so many requests under way."),
    "sequential": Flag("One request at a time: a closed loop of one.", bool),
    "max-in-flight": Flag("Drop, and count, arrivals above this many in flight (no cap)."),
    "warmup": Flag("Requests sent one at a time before the clock starts, not measured (2)."),
    "timeout": Flag("Seconds that a request may take in all (300)."),
    "seed": Flag("Seed of arrivals, media and mix (0)."),
    "api": Flag("The server's API: chat."),
    "model": Flag("Model name (the one that /v1/models lists)."),
    "frames": Flag(
        "Frames a request: 0 is text, 1 an image, more a video; 1,6,15 makes a mix (1).",
        list[str],
    ),
    "size": Flag(f"WIDTHxHEIGHT in pixels ({DEFAULT_SIZE}); several make a mix.", list[str]),
    "media": Flag("A file or folder of images and videos to send (synthetic media)."),
    "as": Flag("Send frames as one MP4 (video) or as so many images (frames)."),
    "fps": Flag("Frame rate written into videos; servers sample by it (2)."),
    "quality": Flag("JPEG quality of images that mmload encodes (85)."),
    "reuse": Flag("Share of requests that repeat an earlier medium, exactly (0)."),
    "prompt": Flag("Text of each request."),
    "max-tokens": Flag("Output tokens asked for (64)."),
    "name": Flag("Name of the scenario, for reports and the run folder."),
    "out": Flag("Run folder to make (runs/<time>-<name>)."),
}


def flag_class(name: str, table: dict[str, Flag], group: str) -> type[Any]:
    """A dataclass of optional flags that cyclopts spreads into a command's parameters."""
    fields = []
    for flag, (help_text, kind, *_) in table.items():
        parameter = Parameter(name=f"--{flag}", help=help_text, group=group, negative=())
        default = field(default=None)
        fields.append((flag.replace("-", "_") + "_", Annotated[kind | None, parameter], default))
    return make_dataclass(name, fields, frozen=True)


def given(flags: Any) -> dict[str, Any]:
    """The flags that were typed, by the model's field name (`max_in_flight`, `as`)."""
    values = {} if flags is None else vars(flags)
    return {key.removesuffix("_"): value for key, value in values.items() if value is not None}
