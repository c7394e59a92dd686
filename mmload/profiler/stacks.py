"""py-spy's raw output ("collapsed stacks") as data.

In: lines `process PID:"CMD";thread (TID): NAME;outermost (FILE:LINE);...;innermost (FILE:LINE) N`,
as `py-spy record --format raw --threads --subprocesses --full-filenames --function` writes them.
Out: `Stack`s. Native frames stand with their library in place of a file. A line that is not of this
form is counted, not guessed at.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

_PID: Final = re.compile(r'process (\d+):"')
_THREAD: Final = re.compile(r"(?:^|;)thread \((?:0x)?[0-9A-Fa-f]+\)(?:: )?")
_FRAME: Final = re.compile(r"(?P<name>.*) \((?P<file>.+?)(?::(?P<line>\d+))?\)", re.DOTALL)
_CLONE: Final = re.compile(r"(?:\.(?:part|isra|constprop|cold|lto_priv|llvm)(?:\.\d+)?)+$")
UNKNOWN: Final = "?"  # a native frame without a symbol: only its address was known


class Frame(NamedTuple):
    """A function. `file` is a source file, or the library of a native frame without one."""

    name: str
    file: str
    line: int = 0  # of a Python function's definition; 0: not known

    @property
    def is_python(self) -> bool:
        return self.file.endswith(".py") or self.file.startswith("<")


class Stack(NamedTuple):
    """What a thread was doing, and in how many samples; the outermost frame first."""

    pid: int
    thread: str
    frames: tuple[Frame, ...]
    samples: int


def parse(lines: Iterable[str]) -> tuple[list[Stack], int]:
    """The stacks, and the number of lines that could not be read."""
    stacks, damaged = [], 0
    for line in lines:
        text, _, samples = line.rstrip("\n").rpartition(" ")
        head = _THREAD.search(text)
        pids = _PID.findall(text[: head.start()]) if head else []
        if head is None or not pids or not samples.isdigit():
            damaged += bool(line.strip())
            continue
        thread, _, rest = text[head.end() :].partition(";")
        frames = tuple(map(frame, rest.split(";"))) if rest else ()
        stacks.append(Stack(int(pids[-1]), thread, frames, int(samples)))
    return stacks, damaged


def frame(text: str) -> Frame:
    """`resize (site-packages/torchvision/x.py:7)` or `0x7f00 (libc.so.6)` as a frame."""
    found = _FRAME.fullmatch(text)
    if found is None:
        return Frame(text, "")
    made = Frame(found["name"], found["file"], int(found["line"] or 0))
    if made.is_python:
        return made
    # A native function is one, whatever its compiler made of it and whichever line is given.
    return Frame(UNKNOWN if made.name.startswith("0x") else _CLONE.sub("", made.name), made.file)
