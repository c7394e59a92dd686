"""What one owned core works with: how pixels become floats, memory, threads."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray

from mmload.processors.owned.buffers import Buffers
from mmload.processors.owned.media import Frame
from mmload.processors.owned.patchify import STREAM_FROM_BYTES, Patcher, Values
from mmload.processors.owned.resize import resize
from mmload.processors.owned.threads import Threads


class Tools(NamedTuple):
    """Shared by all calls of a processor; `patcher` fits the configuration of one medium."""

    patcher: Patcher
    buffers: Buffers
    threads: Threads

    def output(self, *shape: int) -> Values:
        return self.buffers.take(shape, self.patcher.dtype)

    def resized(self, frame: Frame, size: tuple[int, int]) -> Frame:
        return resize(frame, size, self.buffers)

    def run(self, pieces: Iterable[Callable[[], None]]) -> None:
        self.threads.run(pieces)


def streamed(out: Values) -> bool:
    """Whether an output is too large to be read back from a cache."""
    return out.nbytes >= STREAM_FROM_BYTES


def tensor(array: NDArray[Any]) -> Any:
    """The array as a tensor, without a copy: it holds the array's memory as long as it lives."""
    return torch.from_numpy(array)
