"""The stock processors: transformers' own classes, built from explicit values, unmodified.

In and out as in `base.py`. No hub: every value that published checkpoints set in their
preprocessor_config.json stands here. Classes are looked up by a table, since their names and
modules move between releases. Imports torch and transformers, so only `base.load` imports it.

Sampling of frames is off unless asked: Qwen's processor takes 24 frames a second for granted
without metadata and keeps 4 of 15 frames; Gemma's wants 32 frames and raises on 15.
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch
import transformers

from mmload.errors import UsageError
from mmload.processors.base import Counts, Preset, Processed, Which

MODULES: Final = "transformers.models."
# family -> kind -> where the class may be, newest release first
CLASSES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "qwen3-vl": {
        "image": (
            "qwen2_vl.image_processing_qwen2_vl.Qwen2VLImageProcessor",
            "qwen2_vl.image_processing_qwen2_vl_fast.Qwen2VLImageProcessorFast",
        ),
        "video": ("qwen3_vl.video_processing_qwen3_vl.Qwen3VLVideoProcessor",),
    },
    "gemma-4": {
        "image": (
            "gemma4.image_processing_gemma4.Gemma4ImageProcessor",
            "gemma4.image_processing_gemma4_fast.Gemma4ImageProcessorFast",
        ),
        "video": ("gemma4.video_processing_gemma4.Gemma4VideoProcessor",),
    },
}

_HALF: Final = [0.5, 0.5, 0.5]
_QWEN: Final = {
    "patch_size": 16,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": _HALF,
    "image_std": _HALF,
}
# preprocessor_config.json and video_preprocessor_config.json of Qwen/Qwen3-VL-8B-Instruct.
# Gemma 4's checkpoints publish what its classes have.
HUB: Final[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
    "qwen3-vl": {
        "image": {**_QWEN, "size": {"shortest_edge": 65_536, "longest_edge": 16_777_216}},
        "video": {**_QWEN, "size": {"shortest_edge": 4_096, "longest_edge": 25_165_824}},
    },
    "gemma-4": {"image": {}, "video": {}},
}
# An option since transformers 5.16: unset, it warns and means False.
_CAP: Final = "cap_pixels_per_frame"


class StockProcessor:
    """Two instances of transformers' classes, `image` and `video`, behind `MediaProcessor`."""

    name: Which = "stock"

    def __init__(self, family: str, image: Any, video: Any) -> None:
        self.family = family
        self.image = image
        self.video = video
        self.counts = Counts()

    @classmethod
    def build(
        cls, family: str, preset: Preset, image: Mapping[str, Any], video: Mapping[str, Any]
    ) -> "StockProcessor":
        """Raises UsageError when this transformers lacks the class, or refuses a value."""
        return cls(
            family,
            _instance(family, "image", preset, image),
            _instance(family, "video", preset, video),
        )

    def images(self, images: Sequence[Any]) -> Processed:
        processed = self.process_images(images)
        self.counts.add(processed)
        return processed

    def videos(
        self,
        videos: Sequence[Any],
        *,
        do_sample_frames: bool = False,
        metadata: Sequence[Mapping[str, Any]] | None = None,
    ) -> Processed:
        processed = self.process_videos(videos, do_sample_frames, metadata)
        self.counts.add(processed)
        return processed

    def process_images(self, images: Sequence[Any]) -> Processed:
        """`images` without the count."""
        data = self.image(images=list(images), return_tensors="pt")
        return read_images(self.family, dict(data), self.image)

    def process_videos(
        self,
        videos: Sequence[Any],
        do_sample_frames: bool,
        metadata: Sequence[Mapping[str, Any]] | None,
    ) -> Processed:
        """`videos` without the count."""
        given = {} if metadata is None else {"video_metadata": [dict(m) for m in metadata]}
        data = self.video(
            videos=list(videos), do_sample_frames=do_sample_frames, return_tensors="pt", **given
        )
        return read_videos(self.family, dict(data), self.video)

    def describe(self) -> dict[str, Any]:
        return {
            "processor": self.name,
            "family": self.family,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "torch_threads": torch.get_num_threads(),
            "image": described(self.image),
            "video": described(self.video),
        }


class _Found(NamedTuple):
    cls: Any
    path: str


def _find(family: str, kind: str) -> _Found:
    paths = CLASSES[family][kind]
    for path in paths:
        module, _, name = path.rpartition(".")
        try:
            return _Found(getattr(importlib.import_module(MODULES + module), name), path)
        except (ImportError, AttributeError):
            continue
    raise UsageError(
        f"transformers {transformers.__version__} has no {family} {kind} processor "
        f"where it was looked for: {', '.join(paths)}",
        "transformers 5.16 to 5.24 have it; it also needs torchvision and pillow",
    )


def _instance(family: str, kind: str, preset: Preset, values: Mapping[str, Any]) -> Any:
    cls, path = _find(family, kind)
    given = {**(HUB[family][kind] if preset == "hub" else {}), **values}
    if hasattr(cls, _CAP):
        given.setdefault(_CAP, False)
    unknown = [key for key in given if not hasattr(cls, key)]
    if unknown:
        raise UsageError(f"{path} has no {', '.join(unknown)}", "transformers' names of values")
    try:
        return cls(**given)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{path}: {error}", "its documentation says what is allowed") from error


def described(instance: Any) -> dict[str, Any]:
    """The class and every value of it that decides its output."""
    names = (
        *("size", "resample", "do_resize", "do_rescale", "rescale_factor", "do_normalize"),
        *("image_mean", "image_std", "do_convert_rgb", "patch_size", "temporal_patch_size"),
        *("merge_size", "max_soft_tokens", "pooling_kernel_size", _CAP, "max_video_tokens"),
    )
    values = {name: getattr(instance, name) for name in names if hasattr(instance, name)}
    return {
        "class": type(instance).__name__,
        **{k: _plain(v) for k, v in values.items() if v is not None},
    }


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return {k: v for k, v in dict(value).items() if v is not None}


def read_images(family: str, tensors: dict[str, Any], instance: Any) -> Processed:
    """`Processed` of what transformers' image processor gave."""
    if family == "qwen3-vl":
        return _read_grids(tensors, "image_grid_thw", instance)
    tokens = [int(n) for n in tensors["num_soft_tokens_per_image"]]
    positions = tensors["image_position_ids"]
    grids = [(1, *_extent(positions[i])) for i in range(len(tokens))]
    return Processed(tensors, grids, tokens, "stock")


def read_videos(family: str, tensors: dict[str, Any], instance: Any) -> Processed:
    """`Processed` of what transformers' video processor gave."""
    if family == "qwen3-vl":
        return _read_grids(tensors, "video_grid_thw", instance)
    frames = [int(n) for n in tensors["num_frames_per_video"]]
    soft = [int(n) for n in tensors["num_soft_tokens_per_video"]]
    grids: list[tuple[int, int, int]] = []
    first = 0
    for count in frames:
        grids.append((count, *_extent(tensors["video_position_ids"][first])))
        first += count
    tokens = [count * each for count, each in zip(frames, soft, strict=True)]
    return Processed(tensors, grids, tokens, "stock")


def _read_grids(tensors: dict[str, Any], name: str, instance: Any) -> Processed:
    grids = [(int(t), int(h), int(w)) for t, h, w in tensors[name].tolist()]
    merged = instance.merge_size**2
    return Processed(tensors, grids, [t * h * w // merged for t, h, w in grids], "stock")


def _extent(positions: Any) -> tuple[int, int]:
    """Rows and columns of patches; (column, row) of each patch, -1 where there is none."""
    columns, rows = positions.amax(dim=0).tolist()
    return int(rows) + 1, int(columns) + 1
