"""What ends a run before its report, in words: a server that died, a disk that takes nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mmload.errors import MmloadError
from mmload.serving import Server


@contextmanager
def blamed(server: Server) -> Iterator[None]:
    """What fails because the server has died says so."""
    try:
        yield
    except MmloadError as error:
        if (why := server.died()) is not None:
            raise MmloadError(why, f"see {server.log}") from error
        raise


@contextmanager
def on_disk(path: Path) -> Iterator[None]:
    """A disk that takes nothing ends the run before the load, in words."""
    try:
        yield
    except OSError as error:
        raise MmloadError(
            f"{path}: cannot be written: {error.strerror}", "free space on that disk"
        ) from None
