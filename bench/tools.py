"""The load generators of the benchmark: how each is told what to send, and where it says what
it measured.

A tool is given a `Load` and an empty folder, and answers with a command; after the run it reads its
own result files into `Seen`, one a request that succeeded. Nothing here judges: the figures are
worked out in `bench.figures`, from `Seen` and from what the server saw.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar, Final, Protocol

from bench import bodies
from bench.bodies import Kind
from mmload.records import Outcome
from mmload.rundir import RunDir

NAMES: Final = ("mmload", "loop", "vllm", "aiperf", "guidellm")  # in the order of tables


@dataclass(frozen=True)
class Load:
    """What a tool is asked for."""

    url: str  # of the server, without a path
    rate: float  # requests a second, evenly spaced
    seconds: float
    kind: Kind

    @property
    def planned(self) -> int:
        return round(self.rate * self.seconds)


@dataclass(frozen=True)
class Seen:
    """What a tool says of one request. Absolute times are on CLOCK_MONOTONIC."""

    key: str  # the X-Request-Id that was sent, or the server's own name for the request
    ttft_ns: int  # from sent, as the tool reports it
    intended_ns: int | None = None  # where the tool says it
    sent_ns: int | None = None


class Tool(Protocol):
    """One load generator."""

    name: ClassVar[str]
    kinds: ClassVar[tuple[Kind, ...]]  # of bodies that it can send
    fine_exits: ClassVar[tuple[int, ...]]
    environment: ClassVar[Mapping[str, str]]  # what it is told in variables

    def missing(self) -> str:
        """The program that is not there; empty: it is installed."""
        ...

    def version(self) -> str: ...

    def command(self, load: Load, folder: Path) -> list[str]:
        """The command line, after its input files were written into `folder`."""
        ...

    def read(self, folder: Path) -> list[Seen]:
        """Its records. Raises OSError, ValueError or LookupError if they are not as expected."""
        ...


class Mmload:
    """This project's own `mmload run`, one worker."""

    name: ClassVar[str] = "mmload"
    kinds: ClassVar[tuple[Kind, ...]] = ("video", "frames")
    fine_exits: ClassVar[tuple[int, ...]] = (0, 3)  # 3: it says itself that it was too late
    environment: ClassVar[Mapping[str, str]] = {}

    def missing(self) -> str:
        return ""

    def version(self) -> str:
        return version("mmload")

    def command(self, load: Load, folder: Path) -> list[str]:
        asked: dict[str, object] = {
            "qps": f"{load.rate:g}",
            "duration": f"{load.seconds:g}",
            "frames": bodies.FRAMES,
            "as": load.kind,
            "size": bodies.size(load.kind),
            "prompt": bodies.PROMPT,
            "max-tokens": bodies.MAX_TOKENS,
            "warmup": 0,
            "out": folder / "run",
        }
        flags = [text for name, value in asked.items() for text in (f"--{name}", str(value))]
        return [sys.executable, "-m", "mmload", "run", load.url, *flags, "--json", "--quiet"]

    def read(self, folder: Path) -> list[Seen]:
        run = RunDir(folder / "run")
        origin_ns = run.manifest().origin_ns
        return [
            Seen(
                key=record.request_id,
                ttft_ns=record.first_output_ns - record.sent_ns,
                intended_ns=origin_ns + record.intended_ns,
                sent_ns=origin_ns + record.sent_ns,
            )
            for record in run.records()
            if record.outcome is Outcome.ok
            and record.first_output_ns is not None
            and record.sent_ns is not None
        ]


class TrivialLoop:
    """`bench.trivial_loop`."""

    name: ClassVar[str] = "loop"
    kinds: ClassVar[tuple[Kind, ...]] = ("video", "frames")
    fine_exits: ClassVar[tuple[int, ...]] = (0,)
    environment: ClassVar[Mapping[str, str]] = {}

    def missing(self) -> str:
        return ""

    def version(self) -> str:
        return f"aiohttp {version('aiohttp')}, uvloop {version('uvloop')}"

    def command(self, load: Load, folder: Path) -> list[str]:
        file = write_lines(folder / "bodies.jsonl", whole_bodies(load.kind))
        asked = [f"{load.url}/v1/chat/completions", str(file), f"{load.rate:g}", str(load.planned)]
        script = str(Path(__file__).with_name("trivial_loop.py"))
        return [sys.executable, script, *asked, str(folder / "result.jsonl")]

    def read(self, folder: Path) -> list[Seen]:
        with (folder / "result.jsonl").open(encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        return [
            Seen(
                key=str(row["id"]),
                ttft_ns=row["first_ns"] - row["sent_ns"],
                intended_ns=row["intended_ns"],
                sent_ns=row["sent_ns"],
            )
            for row in rows
        ]


def whole_bodies(kind: Kind) -> Iterator[object]:
    return (bodies.body(kind, clip) for clip in range(bodies.CLIPS))


def write_lines(file: Path, values: Iterator[object]) -> Path:
    """A JSON lines file; returns its path."""
    with file.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(value) + "\n" for value in values)
    return file
