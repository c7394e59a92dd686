"""The owned processors: bit for bit what the stock ones give, several times faster.

`OwnedProcessor` wraps a stock processor and reproduces it for what has been validated (plain RGB,
the usual configurations, this version of transformers); everything else goes to stock, and each
such call is counted with its reason. The parts: `media` reads what callers pass, `qwen3vl` and
`gemma4` know sizes and layouts, `resize`, `patchify` and `fused_numba` move pixels, `buffers` and
`threads` are where the time is won, `validated` says when not to, `prepare` puts them together.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mmload.errors import UsageError
from mmload.processors.base import Core, Counts, Processed, Which
from mmload.processors.owned.buffers import Buffers
from mmload.processors.owned.media import Unusual, image_frame, video_frames
from mmload.processors.owned.prepare import prepare, validated_core
from mmload.processors.owned.threads import Threads
from mmload.processors.stock import StockProcessor


class OwnedProcessor:
    """`stock` with owned cores where they are validated.

    `core`: "numba" (compiled; raises UsageError when Numba is missing), "torch" (nothing compiled),
    "auto" (the faster one there is). `threads`: most for one call, one a usable CPU when None.
    `image_core` and `video_core` are None where nothing is validated, for the reason that
    `image_refusal` and `video_refusal` give.
    """

    name: Which = "owned"

    def __init__(
        self, stock: StockProcessor, *, core: Core = "auto", threads: int | None = None
    ) -> None:
        if threads is not None and threads < 1:
            raise UsageError(f"threads {threads}", "at least 1")
        self.stock = stock
        self.family = stock.family
        self.counts = Counts()
        self._buffers = Buffers()
        self._threads = Threads(threads)
        shared = (core, self._buffers, self._threads)
        self.image_core, self.image_refusal = prepare(stock, "image", *shared)
        self.video_core, self.video_refusal = prepare(stock, "video", *shared)

    def images(self, images: Sequence[Any]) -> Processed:
        def owned() -> Processed:
            if not images:
                raise Unusual("no images")
            return validated_core(self.image_core, self.image_refusal).images(
                [image_frame(image) for image in images]
            )

        return self._either(owned, lambda: self.stock.process_images(images))

    def videos(
        self,
        videos: Sequence[Any],
        *,
        do_sample_frames: bool = False,
        metadata: Sequence[Mapping[str, Any]] | None = None,
    ) -> Processed:
        def owned() -> Processed:
            if do_sample_frames:
                raise Unusual("frames are sampled")
            if len(videos) == 0:
                raise Unusual("no videos")
            return validated_core(self.video_core, self.video_refusal).videos(video_frames(videos))

        return self._either(
            owned, lambda: self.stock.process_videos(videos, do_sample_frames, metadata)
        )

    def describe(self) -> dict[str, Any]:
        return {
            **self.stock.describe(),
            "processor": self.name,
            "threads": self._threads.most,
            "buffers": self._buffers.describe(),
            "image_core": self.image_refusal or "validated",
            "video_core": self.video_refusal or "validated",
            "calls": self.counts.cores,
            "fallbacks": self.counts.fallbacks,
        }

    def _either(self, owned: Callable[[], Processed], stock: Callable[[], Processed]) -> Processed:
        try:
            processed = owned()
        except Unusual as reason:
            processed = stock()._replace(fallback=str(reason))
        self.counts.add(processed)
        return processed
