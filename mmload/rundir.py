"""The run folder: everything about one run, on disk, in a versioned and crash-safe layout.

    RUN/
      manifest.json     what was asked, of whom, when, on which machine (written before the load)
      scenario.yaml     the resolved scenario, ready to run again
      payloads.jsonl    one line a base payload: media, sizes, hashes
      expected.jsonl    what the answers should be, one line a payload (absent: nobody said)
      records.jsonl     one line a request, appended as requests end (kill -9 leaves it readable);
                        records.1.jsonl ... where there were more load workers
      spans/*.jsonl     the server's hook, one file a process
      metrics.jsonl     what the server's own gauges and its processes said, once a second
      profile.json      the layered profile, where one was asked for; profile.speedscope.json
      server.log        the embedded or launched server's output
      end.json          how the run ended (absent: it was killed)
      summary.json      every number of the report (made again by `mmload report`)
      report.html       one self-contained file
      labels.json       tags and a note, by `mmload tag` (absent: none)

Readers accept a torn last line and count it; they never need the server.
"""

import contextlib
import json
import os
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from mmload import __version__
from mmload.errors import UsageError
from mmload.records import Record, Sample, ServerProcess, Span

FORMAT: Final = 1

T = TypeVar("T")


class RunManifest(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What is known before the first request. `origin_ns` is the run's zero on the host's
    CLOCK_MONOTONIC; record times are relative to it, span times are not."""

    format: int = msgspec.field(default_factory=lambda: FORMAT)  # factories: written even so
    mmload: str = msgspec.field(default_factory=lambda: __version__)
    name: str
    digest: str  # of the scenario: what was sent and how fast, not to whom
    started_at: str  # ISO 8601, UTC
    origin_ns: int
    target: str  # URL, without credentials
    model: str = ""
    load_mode: str = "open"  # open | closed | sequential
    planned: int = 0
    warmup: int = 0  # requests sent before the clock started
    asked_qps: float | None = None
    schedule_s: float = 0.0  # length of the arrival window
    scenario: dict[str, Any] = {}
    machine: dict[str, Any] = {}
    server: dict[str, Any] | None = None  # settings of the embedded server
    launched: dict[str, Any] | None = None  # the server that mmload started: command, env, cpus
    simulated: str = ""  # what is simulated in the server, in words; empty: nothing
    media: dict[str, Any] = {}  # see load.prepare.describe
    traced: bool = False
    span_source: str = ""  # where the spans come from, or why there are none
    lag_limit_ms: float = 25.0
    notes: list[str] = []  # warnings found before the start


class _Version(msgspec.Struct):
    """The part of a manifest that every format has."""

    format: int = FORMAT
    mmload: str = "of an unknown version"


class RunEnd(msgspec.Struct, omit_defaults=True, kw_only=True):
    """How the run ended, written last."""

    interrupted: bool = False
    ended_ns: int = 0  # since the origin
    lost_records: int = 0
    problems: list[str] = []  # anything that makes the run INVALID besides the load's own figures
    notes: list[str] = []  # warnings that came up after the start


class ExpectedAnswer(msgspec.Struct):
    """A line of expected.jsonl: what a request with this payload should be answered."""

    payload: int  # as in `Record.payload`
    expected: list[str]  # any of them; for vqa what the annotators said
    metric: Literal["exact", "contains", "vqa", "yesno"] = "exact"


def machine_facts() -> dict[str, Any]:
    """The machine in words: processor, cores, memory, kernel, Python."""
    import psutil

    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    boot_id = ""
    with contextlib.suppress(OSError):
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return {
        "boot_id": boot_id,
        "host_os": f"{platform.system()} {platform.release()}",
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "python": platform.python_version(),
    }


class RunDir:
    """Reads and writes one run folder. Methods raise UsageError that names the file at fault."""

    def __init__(self, path: Path) -> None:
        self.path = path

    # -- writing -------------------------------------------------------------------------------

    @classmethod
    def create(cls, path: Path) -> "RunDir":
        """Makes the folder (it must be new or empty) and proves that it can be written."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise UsageError(
                    f"--out {path}: the folder is not empty",
                    "name a new folder, or remove that one",
                )
            (path / "spans").mkdir()
        except OSError as error:
            raise UsageError(
                f"--out {path}: cannot be written: {error.strerror}",
                "name a folder that you may write to",
            ) from error
        return cls(path)

    def discard_if_empty(self) -> None:
        """Removes the folder again if nothing was written into it."""
        with contextlib.suppress(OSError):
            self.spans_path.rmdir()
            self.path.rmdir()

    def write_json(self, name: str, value: object) -> None:
        """Writes a file whole or not at all."""
        data = json.dumps(msgspec.to_builtins(value), indent=1, allow_nan=False, ensure_ascii=False)
        self.write_text(name, data + "\n")

    def write_text(self, name: str, text: str) -> None:
        target = self.path / name
        part = target.with_name(target.name + ".part")
        try:
            part.write_text(text, encoding="utf-8")
            part.replace(target)
        except OSError:
            part.unlink(missing_ok=True)
            raise

    def write_lines(self, name: str, values: Iterable[object]) -> None:
        """Writes a JSON lines file."""
        self.write_text(name, "".join(msgspec.json.encode(v).decode() + "\n" for v in values))

    # -- reading -------------------------------------------------------------------------------

    @property
    def spans_path(self) -> Path:
        return self.path / "spans"

    def manifest(self) -> RunManifest:
        file = self.path / "manifest.json"
        try:
            data = file.read_bytes()
            made = msgspec.json.decode(data, type=_Version)
            if made.format <= FORMAT:  # a later one may look otherwise in every other way
                manifest = msgspec.json.decode(data, type=RunManifest)
                manifest.mmload = made.mmload
                return manifest
        except OSError as error:
            raise UsageError(
                f"{self.path}: not a run folder: {file.name}: {error.strerror}",
                "name a folder that `mmload run` made",
            ) from error
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise UsageError(f"{file}: damaged: {error}", "restore the file from a copy") from error
        raise UsageError(
            f"{file}: format {made.format}, made by mmload {made.mmload};"
            f" this mmload {__version__} reads up to {FORMAT}",
            "use that version or a later one",
        )

    def end(self) -> RunEnd | None:
        """None when the run was killed before it could say how it ended."""
        try:
            return msgspec.json.decode((self.path / "end.json").read_bytes(), type=RunEnd)
        except FileNotFoundError:
            return None

    def records(self) -> "Lines[Record]":
        return Lines(sorted(self.path.glob("records*.jsonl")), Record)

    def expected(self) -> "Lines[ExpectedAnswer]":
        """Nothing when the run expects no answers."""
        return Lines([self.path / "expected.jsonl"], ExpectedAnswer)

    def spans(self) -> "SpanLines":
        return SpanLines(sorted(self.spans_path.glob("*.jsonl")))

    @property
    def samples_path(self) -> Path:
        return self.path / "metrics.jsonl"

    def samples(self) -> "Lines[Sample]":
        """Nothing when nothing was watched."""
        return Lines([self.samples_path], Sample)

    def payloads(self) -> list[dict[str, Any]]:
        try:
            text = (self.path / "payloads.jsonl").read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.splitlines() if line]


def is_run(folder: Path) -> bool:
    """Whether a folder looks like a run, damaged or not."""
    return (folder / "manifest.json").is_file() or any(folder.glob("records*.jsonl"))


class Lines(Generic[T]):
    """Iterates the JSON lines of files as `T`; `damaged` counts lines that could not be read."""

    def __init__(self, files: list[Path], kind: type[T]) -> None:
        self._files = files
        self._decoder = msgspec.json.Decoder(kind)
        self.damaged = 0

    def __iter__(self) -> Iterator[T]:
        for file in self._files:
            for line in _lines(file):
                try:
                    yield self._decoder.decode(line)
                except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError):
                    self.damaged += 1


class SpanLines:
    """Iterates the spans of a folder; afterwards `processes` and `damaged` are filled.

    Two processes may have one pid: in two containers, which both count from 1, or one after the
    other. The later ones are told apart by a pid that no process has.
    """

    _NO_PID: Final = 2**22  # Linux gives out none from here on

    def __init__(self, files: list[Path]) -> None:
        self._files = files
        self._span = msgspec.json.Decoder(Span)
        self._process = msgspec.json.Decoder(dict[str, ServerProcess])
        self.processes: list[ServerProcess] = []
        self.damaged = 0

    def __iter__(self) -> Iterator[Span]:
        place: dict[tuple[int, int], int] = {}  # a process may have several files
        homonyms: dict[int, int] = {}  # processes by pid
        for file in self._files:
            process: ServerProcess | None = None
            for line in _lines(file):
                try:
                    if line.startswith(b'{"process"'):
                        said = self._process.decode(line)["process"]
                        at = place.setdefault((said.pid, said.monotonic_ns), len(self.processes))
                        if at == len(self.processes):
                            self.processes.append(said)
                            before = homonyms.get(said.pid, 0)
                            homonyms[said.pid] = before + 1
                            said.pid += before * self._NO_PID
                        else:  # the same process, later: it knows more of itself
                            former = self.processes[at]
                            said.pid, said.lost = former.pid, former.lost
                            self.processes[at] = said
                        process = said
                    elif line.startswith(b'{"lost"'):
                        lost = msgspec.json.decode(line, type=dict[str, int])["lost"]
                        if process is not None:
                            process.lost = max(process.lost, lost)  # a running total
                    else:
                        span = self._span.decode(line)
                        if process is not None:
                            span.pid = process.pid
                        yield span
                except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, KeyError):
                    self.damaged += 1


def _lines(file: Path) -> Iterable[bytes]:
    try:
        with file.open("rb") as handle:
            yield from handle
    except FileNotFoundError:
        return
