"""Processors without torch, honest ones and such as have one fault each."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mmload.parity.gate import CaseResult, run
from mmload.parity.matrix import Case
from mmload.parity.media import Medium
from mmload.processors.base import Core, Counts, Processed, Which

Change = Callable[[Processed], Processed]


class Fake:
    """Halves every pixel; refuses media of one row. `change` is what is wrong with its output."""

    family = "qwen3-vl"

    def __init__(self, which: Which, change: Change = lambda processed: processed) -> None:
        self.name: Which = which
        self.counts = Counts()
        self._change = change

    def images(self, images: Sequence[Any]) -> Processed:
        for image in images:
            if image.shape[0] == 1:
                raise ValueError(f"{image.shape} is too flat")
        pixels = np.concatenate([image.reshape(-1, 3) for image in images]) / np.float32(2)
        grids = [(1, image.shape[0], image.shape[1]) for image in images]
        core = "stock" if self.name == "stock" else "owned (fake)"
        tensors = {"pixel_values": pixels, "image_grid_thw": np.array(grids)}
        return self._change(Processed(tensors, grids, [h * w for _, h, w in grids], core))

    def videos(
        self,
        videos: Sequence[Any],
        *,
        do_sample_frames: bool = False,
        metadata: Sequence[Mapping[str, Any]] | None = None,
    ) -> Processed:
        assert metadata is None or len(metadata) == len(videos)
        return self.images([frame for video in videos for frame in video])

    def describe(self) -> dict[str, Any]:
        return {"processor": self.name}


def case(*media: Medium, settings: Mapping[str, Any] | None = None) -> Case:
    media = media or (Medium(6, 4),)
    return Case("qwen3-vl", "image", "size", media, settings=settings or {})


def check(change: Change, *cases: Case) -> list[CaseResult]:
    """The gate's results with an owned processor that has this fault."""

    def build(which: Which, case: Case, core: Core) -> Fake:
        return Fake("stock") if which == "stock" else Fake("owned", change)

    return list(run(cases or (case(),), ["torch"], build))
