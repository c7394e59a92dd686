"""The vision encoder's results for the last N images and videos, by the hash of their frames.

Chat clients send a conversation's pictures again with every turn: the encoder need not look twice.
Least recently used first out. Belongs to one thread, the engine's.
"""

from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")


class EmbeddingCache(Generic[T]):
    """`size` 0: keeps nothing, finds nothing."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[bytes, T] = OrderedDict()

    def find(self, key: bytes) -> T | None:
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, key: bytes, value: T) -> None:
        if not self._size:
            return
        self._kept[key] = value
        self._kept.move_to_end(key)
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)
