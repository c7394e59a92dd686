"""Owned cores beneath transformers' own processor classes, in whatever server uses them.

In: a module of transformers that has some of `stock.CLASSES`. From then on the last step of those
classes, `_preprocess`, which takes prepared pixels and gives the tensors, is an owned core's where
one is validated, and stock's own otherwise. Everything before and after it stays transformers' and
the server's: sampling, conversion to RGB, per-call options, prompts, caches. Each such call is
reported with who served it and, where that was stock, why. What goes wrong in here is stock's turn.

A core is made for each configuration that calls have, the first time, and checked against stock.
"""

import copy
import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from logging import Logger
from threading import Lock
from types import ModuleType
from typing import Any, Final

import numpy as np
import torch

from mmload.processors.base import Core, Processed
from mmload.processors.owned.buffers import Buffers
from mmload.processors.owned.media import Frame, Unusual, interleaved
from mmload.processors.owned.prepare import Kind, OwnedCore, prepare, validated_core
from mmload.processors.owned.threads import Threads, usable_cpus
from mmload.processors.owned.trial import compiles
from mmload.processors.stock import CLASSES, MODULES, StockProcessor

Report = Callable[[str, str], object]  # who served a call ("owned (numba)", "stock"), and why stock

MOST_THREADS: Final = 8  # a call has eight pieces or so
MOST_CONFIGURATIONS: Final = 16  # a caller may choose one a request
# Options of a call that decide its output, and those that do not, here.
DECIDING: Final = (
    *("do_resize", "size", "resample", "do_rescale", "rescale_factor", "do_normalize"),
    *("image_mean", "image_std", "do_center_crop", "crop_size", "do_pad", "pad_size"),
    *("patch_size", "temporal_patch_size", "merge_size", "cap_pixels_per_frame"),
    *("max_soft_tokens", "pooling_kernel_size"),
)
_SETTLED: Final = frozenset(
    (  # before this step, or after it
        *("do_convert_rgb", "input_data_format", "do_sample_frames", "fps", "num_frames"),
        *("min_frames", "max_frames", "video_metadata", "return_metadata", "return_tensors"),
        *("disable_grouping", "default_to_square", "device", "data_format", "image_seq_length"),
        "max_video_tokens",  # stock reads its instance's
    )
)
_OURS: Final = "_mmload_step"
_TWIN: Final = "_mmload_stock_only"  # an instance that is stock's, whatever its class
_VIEW: Final = "_mmload_view"  # a tensor that stock would have had in another layout


def put(module: ModuleType, core: Core, report: Report, log: Logger) -> list[str]:
    """Puts owned cores beneath the classes that `module` has. Returns their names. Idempotent."""
    found = []
    for family, kinds in CLASSES.items():
        for kind, paths in kinds.items():
            for path in paths:
                home, _, name = path.rpartition(".")
                cls: Any = vars(module).get(name) if MODULES + home == module.__name__ else None
                if getattr(cls, "__module__", "") == module.__name__:  # no alias
                    found.append(name)
                    if not getattr(cls._preprocess, _OURS, False):
                        which: Kind = "image" if kind == "image" else "video"
                        _Beneath(cls, family, which, core, report, log)
    return found


class _Beneath:
    """One class of transformers, with its last step replaced."""

    def __init__(
        self, cls: Any, family: str, kind: Kind, core: Core, report: Report, log: Logger
    ) -> None:
        self._class, self._family, self._kind, self._core = cls, family, kind, core
        self._report, self._log = report, log
        self._stock_step = cls._preprocess
        cls._preprocess = self._step()
        if kind == "video" and hasattr(cls, "_prepare_input_videos"):
            cls._prepare_input_videos = _kept_interleaved(cls, cls._prepare_input_videos)

    def _step(self) -> Callable[..., Any]:
        @functools.wraps(self._stock_step)
        def step(instance: Any, *media: Any, **options: Any) -> Any:
            if _TWIN in vars(instance):
                return self._stock_step(instance, *media, **options)
            try:
                made = self._owned(instance, *media, **options)
                who, reason = made.core, ""
            except Unusual as unusual:
                who, reason = "stock", str(unusual)
            except Exception as error:
                self._log.warning("the owned core failed; stock does it", exc_info=True)
                who, reason = "stock", f"{type(error).__name__} in the owned core"
            self._tell(who, reason)
            if reason:
                media, options = _as_stock_has_it(media, options)
                return self._stock_step(instance, *media, **options)
            feature = sys.modules[self._class.__module__].BatchFeature
            return feature(data=made.tensors, tensor_type=options.get("return_tensors"))

        setattr(step, _OURS, True)
        return step

    def _owned(self, instance: Any, *media: Any, **options: Any) -> Processed:
        if type(instance) is not self._class:
            raise Unusual(f"class {type(instance).__name__}")
        given = media[0] if len(media) == 1 else options.pop(f"{self._kind}s", None)
        if len(media) > 1 or not isinstance(given, list) or not given:
            raise Unusual("media that are no list")
        wanted = options.get("return_tensors")
        if getattr(wanted, "value", wanted) != "pt":
            raise Unusual("no torch tensors are asked for")
        for name, value in options.items():
            if value is not None and name not in DECIDING and name not in _SETTLED:
                raise Unusual(f"an option that is not known: {name}")
        if self._kind == "image":
            frames = [_frames(image, 3)[0] for image in given]
            return self._validated(instance, options).images(frames)
        videos = [_frames(video, 4) for video in given]
        return self._validated(instance, options).videos(videos)

    def _tell(self, who: str, reason: str) -> None:
        try:
            self._report(who, reason)
        except Exception:
            self._log.warning("a call could not be counted", exc_info=True)

    def _validated(self, instance: Any, options: Mapping[str, Any]) -> OwnedCore:
        values = {name: options[name] for name in DECIDING if name in options}
        said = [values.get(name, getattr(instance, name, None)) for name in DECIDING]
        said.append(getattr(instance, "max_video_tokens", None))
        return _cores().of(
            (self._class, self._core, *map(repr, said)), lambda: self._make(instance, values)
        )

    def _make(self, instance: Any, values: Mapping[str, Any]) -> "_Made":
        """A core that does what `instance` does when it is called with these values."""
        twin = copy.copy(instance)
        for name, value in {**values, _TWIN: True}.items():
            setattr(twin, name, value)
        name, cores = self._class.__name__, _cores()
        try:
            core = self._core if self._core == "torch" or compiles() else "torch"
            stock = StockProcessor(self._family, twin, twin)
            made, reason = prepare(stock, self._kind, core, cores.buffers, cores.threads)
        except Exception as error:
            made, reason = None, f"{type(error).__name__}: {error}"[:200]
        if made is None:
            self._log.warning("%s stays the stock one: %s", name, reason)
        else:
            self._log.info("an owned core (%s) beneath %s", made.tools.patcher.name, name)
        return made, reason


_Made = tuple[OwnedCore | None, str]


class _Cores:
    """The cores of this process by configuration, and what they share."""

    def __init__(self) -> None:
        self.buffers = Buffers()
        self.threads = Threads(min(MOST_THREADS, usable_cpus()))
        self._lock = Lock()
        self._made: dict[tuple[Any, ...], _Made] = {}

    def of(self, key: tuple[Any, ...], make: Callable[[], _Made]) -> OwnedCore:
        """Raises `Unusual` where there is none."""
        with self._lock:
            if key not in self._made:
                if len(self._made) >= MOST_CONFIGURATIONS:
                    raise Unusual(f"more than {MOST_CONFIGURATIONS} configurations")
                self._made[key] = make()
            return validated_core(*self._made[key])


_the_cores: _Cores | None = None
_cores_lock = Lock()


def _cores() -> _Cores:
    global _the_cores
    with _cores_lock:
        if _the_cores is None:
            _the_cores = _Cores()
        return _the_cores


def _forget() -> None:
    """After fork: the threads did not come along, and locks may be held."""
    global _the_cores, _cores_lock
    _the_cores, _cores_lock = None, Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _frames(tensor: Any, dimensions: int) -> list[Frame]:
    """Frames of one of stock's prepared media: (frames,) 3, height, width, in any memory layout."""
    if not isinstance(tensor, torch.Tensor):
        raise Unusual(f"a {type(tensor).__name__}")
    if tensor.device.type != "cpu":
        raise Unusual("a tensor on another device")
    if tensor.dtype != torch.uint8:
        raise Unusual("pixels other than uint8")
    if tensor.ndim != dimensions or tensor.shape[-3] != 3:
        raise Unusual("grey or alpha")
    if 0 in tensor.shape:
        raise Unusual("a picture without pixels")
    planar = tensor if dimensions == 4 else tensor[None]
    last = planar.permute(0, 2, 3, 1)
    if last.is_contiguous():
        frames: list[Frame] = list(last.numpy())
        return frames
    return [interleaved(frame) for frame in planar.numpy()]


def _kept_interleaved(cls: type, prepare_videos: Callable[..., Any]) -> Callable[..., Any]:
    """Stock makes videos planar by a copy. Here they get that shape as a view, where an array's
    layout is beyond doubt; `_as_stock_has_it` makes up for it when it is stock's turn."""

    @functools.wraps(prepare_videos)
    def prepared(instance: Any, *videos: Any, **options: Any) -> Any:
        given = options.get("videos")
        if (
            type(instance) is not cls
            or _TWIN in vars(instance)
            or not isinstance(given, list)
            or options.get("input_data_format", "") is not None
            or not all(map(_interleaved_array, given))
        ):
            return prepare_videos(instance, *videos, **options)
        views = [torch.from_numpy(video).permute(0, 3, 1, 2) for video in given]
        options |= {"videos": views, "input_data_format": "channels_first"}
        made = prepare_videos(instance, *videos, **options)
        for tensor in made:
            setattr(tensor, _VIEW, True)
        return made

    return prepared


def _interleaved_array(video: Any) -> bool:
    return (
        isinstance(video, np.ndarray)
        and video.dtype == np.uint8
        and video.ndim == 4
        and video.shape[3] == 3
        and video.shape[1] not in (1, 3, 4)
        and video.flags.c_contiguous
    )


def _as_stock_has_it(
    media: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if media:
        return (_planar(media[0]), *media[1:]), options
    return media, {n: _planar(v) if n == "videos" else v for n, v in options.items()}


def _planar(media: Any) -> Any:
    if not isinstance(media, Sequence):
        return media
    return [one.contiguous() if getattr(one, _VIEW, False) else one for one in media]
