"""Where the server's spans are, and how they come into the run folder.

A server that was started for the run writes them there itself. Another traced server on this host
says in a response header where its hook writes (`mmload.hook.headers`): after the run, the lines of
the run's time are copied. A server elsewhere can send them inside its responses, if it is asked to.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from mmload.clock import pause
from mmload.hook.headers import parse_trace
from mmload.rundir import RunDir, machine_facts

NOT_TRACED: Final = (
    "none: the answer had no trace header; start the server with the hook, and go to it directly"
    " (gateways drop the header, and request ids)"
)
IN_RESPONSE: Final = "ask for them inside its responses by --spans response"
FLUSH_WAIT_S: Final = 1.0  # the hook's writer runs a few times a second


@dataclass(frozen=True)
class SpanSource:
    """`folder` is copied from when it is not the run's own; None: there is nothing to copy."""

    traced: bool
    words: str
    run: RunDir
    folder: Path | None = None

    @classmethod
    def of(
        cls, trace: str | None, run: RunDir, own: str = "", *, in_response: bool = False
    ) -> "SpanSource":
        """`trace` is the header of the server's first answer; `own` says whose hook writes into the
        run's folder, if one does."""
        if own:
            return cls(True, own, run)
        if in_response and trace is not None:
            return cls(True, "the server's hook, inside its responses", run)
        if trace is None:
            return cls(False, NOT_TRACED, run)
        parsed = parse_trace(trace)
        if parsed is None or parsed[0] != machine_facts()["boot_id"]:
            words = f"none: the server is traced, but on another host; {IN_RESPONSE}"
            return cls(False, words, run)
        folder = Path(parsed[1])
        if not os.access(folder, os.R_OK | os.X_OK):
            words = (
                f"none: the server's hook writes to {folder}, which cannot be read; {IN_RESPONSE}"
            )
            return cls(False, words, run)
        return cls(True, f"the server's hook, from {folder}", run, folder)

    def bring_home(self, origin_ns: int) -> None:
        """Copies what the hook wrote since the run's origin, process lines included."""
        if self.folder is None:
            return
        pause(FLUSH_WAIT_S)
        lost: dict[str, int] = {}  # before the run, by process
        for source in sorted(self.folder.glob("*.jsonl"), key=_part):
            process, _ = _part(source)
            with source.open("rb") as written:
                lines = list(lines_of_run(written, origin_ns, process, lost))
            if any(line.startswith(b'{"request_id"') for line in lines):
                (self.run.spans_path / source.name).write_bytes(b"".join(lines))


def _part(file: Path) -> tuple[str, int]:
    """The process, and which of its files this is: `PID-START.jsonl`, then `PID-START-2.jsonl`."""
    pid, _, rest = file.stem.partition("-")
    start, _, part = rest.partition("-")
    return f"{pid}-{start}", int(part) if part.isdigit() else 1


def lines_of_run(
    lines: Iterable[bytes], origin_ns: int, process: str, lost: dict[str, int]
) -> Iterator[bytes]:
    """A process's lines without the spans that ended before the run, and with its lost spans
    counted from there on: a server may have been traced for weeks. `lost`: how many each process
    had lost before the run, as far as its earlier lines said; is kept up."""
    for line in lines:
        if line.startswith(b'{"lost"'):
            try:
                said = msgspec.json.decode(line, type=dict[str, int])
                total = said["lost"]
            except (msgspec.MsgspecError, KeyError):
                yield line  # torn; who reads it counts it as damaged
                continue
            if said.get("last_ns", origin_ns) < origin_ns:
                lost[process] = total
            yield b'{"lost":%d}\n' % (total - lost.get(process, 0))
        elif _belongs(line, origin_ns):
            yield line


def _belongs(line: bytes, origin_ns: int) -> bool:
    if not line.startswith(b'{"request_id"'):
        return True
    _, _, rest = line.partition(b'"end_ns":')
    digits = rest.lstrip().split(b",", 1)[0].rstrip(b"} \n")
    return digits.isdigit() and int(digits) >= origin_ns
