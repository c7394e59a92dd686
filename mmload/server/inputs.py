"""What the processor makes of a request's media, and what an engine that computes gets of it.

Plain data. Pixels are float32, (patches, values), as the processor gave them: a torch tensor or a
numpy array; 80 MB for 15 frames of 480p. Whoever needs them no more sets them to None, so that
their memory can be used again while the request lives on.
"""

from dataclasses import dataclass
from typing import Any

from mmload.processors.arithmetic import MediaKind


@dataclass(slots=True)
class Medium:
    """One image or video after the processor."""

    kind: MediaKind
    grid: tuple[int, int, int]  # patches in time (Gemma: frames), down and across
    tokens: int  # placeholders in the prompt
    steps: int = 1  # placeholder runs of equal length, where the prompt writes times between
    pixels: Any = None
    key: bytes = b""  # hash of the decoded frames; empty: nobody asked

    @property
    def patches(self) -> int:
        t, h, w = self.grid
        return t * h * w

    @property
    def runs(self) -> list[int]:
        """Placeholders of each run; their sum is `tokens`."""
        return [self.tokens // self.steps] * self.steps


@dataclass(slots=True)
class ModelInputs:
    """A prompt with its media, in the order of the prompt."""

    ids: list[int]
    media: list[Medium]

    @property
    def pixel_bytes(self) -> int:
        return sum(m.pixels.nbytes for m in self.media if m.pixels is not None)

    def drop_pixels(self) -> None:
        for medium in self.media:
            medium.pixels = None
