"""The folder of several runs: one file with what was asked and how each run ended, beside them.

What is finished stays: nothing is overwritten, what has to make way is moved aside, and a folder
that holds anything else is refused.
"""

from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from mmload import __version__
from mmload.errors import UsageError
from mmload.rundir import RunDir


class Kind(NamedTuple):
    """`name` is for error messages: "a sweep"; `format` the highest that this version reads."""

    name: str
    command: str
    file: str
    format: int


class Versioned(Protocol):
    """What the file holds."""

    @property
    def format(self) -> int: ...

    mmload: str


T = TypeVar("T", bound=Versioned)


def holds(path: Path, kind: Kind) -> bool:
    return (path / kind.file).is_file()


def create(path: Path, kind: Kind, saved: Versioned) -> None:
    """Makes a folder that is new or empty. Raises UsageError where that cannot be."""
    try:
        taken = path.is_dir() and any(path.iterdir())
    except OSError as error:
        raise _unwritable(path, error) from error
    if taken:
        raise UsageError(
            f"--out {path}: the folder is not empty, and holds no {kind.name.partition(' ')[2]}",
            "name a new folder, or remove that one",
        )
    save(path, kind, saved)


def save(path: Path, kind: Kind, saved: Versioned) -> None:
    """Raises UsageError where the folder cannot be written."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        RunDir(path).write_json(kind.file, saved)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"--out {path}: cannot be written: {error.strerror}", "name a folder that you may write to"
    )


def load(path: Path, kind: Kind, saved: type[T]) -> T:
    """Raises UsageError that names the file and what is wrong with it."""
    file = path / kind.file
    try:
        found = msgspec.json.decode(file.read_bytes(), type=saved)
    except OSError as error:
        raise UsageError(
            f"{path}: not the folder of {kind.name}: {kind.file}: {error.strerror}",
            f"name a folder that `{kind.command}` made",
        ) from error
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{file}: damaged: {error}", "restore the file from a copy") from error
    if found.format > kind.format:
        raise UsageError(
            f"{file}: format {found.format}, made by mmload {found.mmload};"
            f" this mmload {__version__} reads up to {kind.format}",
            "use that version or a later one",
        )
    return found


def make_way(folder: Path, aside: Path) -> None:
    """Moves what an earlier try left at `folder` to `aside` and a number; empty, it just goes."""
    if not folder.exists():
        return
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        return
    aside.parent.mkdir(parents=True, exist_ok=True)
    k = 1
    while (there := aside.with_name(f"{aside.name}-{k}")).exists():
        k += 1
    folder.rename(there)
