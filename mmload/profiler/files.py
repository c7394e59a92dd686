"""A profile in a folder: `profile.json`, and the same for https://speedscope.app."""

import json
from pathlib import Path
from typing import Final

import msgspec

from mmload.errors import UsageError
from mmload.profiler.session import FORMAT, Session, speedscope

PROFILE: Final = "profile.json"
SPEEDSCOPE: Final = "profile.speedscope.json"


def write(session: Session, folder: Path) -> None:
    """Raises OSError when the disk does not take it."""
    (folder / PROFILE).write_bytes(msgspec.json.encode(session) + b"\n")
    scope = json.dumps(speedscope(session, folder.name), allow_nan=False, separators=(",", ":"))
    (folder / SPEEDSCOPE).write_text(scope + "\n", encoding="utf-8")


def read(folder: Path) -> Session | None:
    """None when there is none. Raises UsageError for a damaged file, or one of a later format."""
    file = folder / PROFILE
    try:
        session = msgspec.json.decode(file.read_bytes(), type=Session)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{file}: damaged: {error}", "restore it, or remove it") from error
    if session.format > FORMAT:
        raise UsageError(
            f"{file}: format {session.format}; this mmload reads up to {FORMAT}",
            "use a later version of mmload, or remove the file",
        )
    return session
