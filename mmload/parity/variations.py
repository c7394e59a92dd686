"""What the cases of the gate vary, one function each: sizes, frames, forms, settings, ...

In: a family and a kind. Out: what makes a `matrix.Case` besides these two, as keyword arguments;
`quick` where it is a small one. Sizes know the models' own grids: Qwen3-VL resizes to multiples of
32, Gemma 4 of 48.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

from mmload.parity.media import FORMS, FRAMES, Content, Medium

Kind = Literal["image", "video"]

# -- sizes ---------------------------------------------------------------------------------------

_EXACT: Final = ((32, 32), (64, 96), (96, 48), (256, 256), (512, 512), (864, 480), (960, 528))
_ODD: Final = ((854, 480), (853, 479), (641, 361), (333, 777), (100, 75), (97, 131), (1279, 719))
_HALF: Final = ((48, 80), (80, 48), (144, 112), (272, 240))  # x.5 multiples: half to even
_TINY: Final = ((1, 1), (2, 2), (3, 3), (5, 7), (31, 33), (16, 16), (40, 20), (47, 49))
# 1, 3 and 4 rows or columns can be taken for channels; 200:1 is the most that Qwen3-VL takes
_NARROW: Final = (
    *((width, height) for width in (1, 3, 4, 10) for height in (1, 3, 4, 10) if width != height),
    *((2000, 10), (10, 2000), (6400, 32), (32, 6400), (3000, 40), (40, 3000), (1, 200), (200, 1)),
)
_REFUSED: Final = ((2010, 10), (10, 2010), (6432, 32), (201, 1), (1, 201))
_QUICK_SIZES: Final = {(64, 96), (97, 131), (48, 80), (3, 3), (5, 7), (10, 3), (200, 1), (201, 1)}
_LARGE: Final = ((1920, 1080), (1080, 1920), (2560, 1440), (4032, 3024))
_HUGE: Final = ((8192, 6144), (16384, 1024))


def _frames(kind: Kind, frames: int) -> int | None:
    return frames if kind == "video" else None


def _sizes(family: str, kind: Kind) -> Iterator[dict[str, Any]]:
    for width, height in (*_EXACT, *_ODD, *_HALF, *_TINY, *_NARROW, *_REFUSED):
        medium = Medium(width, height, _frames(kind, 3))
        yield {"media": (medium,), "quick": (width, height) in _QUICK_SIZES}
    contents: tuple[Content, ...] = ("smooth", "checker")
    for (width, height), content in itertools.product(
        ((854, 480), (97, 131), (512, 512), (40, 20)), contents
    ):
        medium = Medium(width, height, _frames(kind, 2), content=content)
        yield {"media": (medium,), "quick": width == 97}


def _huge(family: str, kind: Kind) -> Iterator[dict[str, Any]]:
    for width, height in _LARGE:
        yield {"media": (Medium(width, height, _frames(kind, 2)),)}
    if kind == "image":
        for width, height in _HUGE:
            yield {"media": (Medium(width, height),)}
    else:
        for medium in (Medium(1920, 1080, 16), Medium(854, 480, 64), Medium(640, 360, 129)):
            yield {"media": (medium,)}


def _counts(family: str, kind: Kind) -> Iterator[dict[str, Any]]:
    """How many frames a clip has."""
    if kind == "image":
        return
    for frames, (width, height) in itertools.product(
        (1, 2, 3, 5, 6, 7, 15, 16), ((64, 96), (97, 131), (854, 480))
    ):
        small = width == 97 and frames in (1, 2, 3, 6, 15)
        yield {"media": (Medium(width, height, frames),), "quick": small}


# -- forms ---------------------------------------------------------------------------------------


_QUICK_FORMS: Final = {
    *("numpy", "numpy first", "numpy read-only", "numpy float", "torch", "torch permuted", "pil"),
    *(form + FRAMES for form in ("numpy", "torch first", "pil")),
}
_QUICK_MODES: Final = {
    *(("numpy", "RGBA"), ("torch first", "L"), ("numpy", "HW"), ("pil", "L")),
    *((form + FRAMES, mode) for form, mode in (("numpy", "RGBA"), ("pil", "L"))),
}


def _forms(family: str, kind: Kind) -> Iterator[dict[str, Any]]:
    lists = [form + FRAMES for form in FORMS]
    forms = list(FORMS) if kind == "image" else [*FORMS, *lists]
    for form, (width, height, frames) in itertools.product(
        forms, ((97, 131, 3), (864, 480, 2), (10, 40, 4))
    ):
        if form == "pil" and kind == "video":
            continue  # Pillow has no clips
        medium = Medium(width, height, _frames(kind, frames), form)
        yield {"media": (medium,), "quick": width == 97 and form in _QUICK_FORMS}


def _modes(family: str, kind: Kind) -> Iterator[dict[str, Any]]:
    """Grey, transparent and palette pictures, as stock treats them."""
    arrays = [
        *itertools.product(("numpy", "torch", "numpy first", "torch first"), ("RGBA", "L")),
        *itertools.product(("numpy", "torch"), ("HW",)),
    ]
    pictures = [("pil", mode) for mode in ("L", "LA", "RGBA", "P", "1", "CMYK", "YCbCr")]
    if kind == "video":
        arrays += [(form + FRAMES, mode) for form, mode in arrays if form in ("numpy", "torch")]
        pictures = [(form + FRAMES, mode) for form, mode in pictures]
    for (form, mode), (width, height) in itertools.product(
        (*arrays, *pictures), ((97, 131), (192, 96))
    ):
        medium = Medium(width, height, _frames(kind, 3), form, mode)
        yield {"media": (medium,), "quick": width == 97 and (form, mode) in _QUICK_MODES}


# -- settings ------------------------------------------------------------------------------------

_CLIP: Final = {
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
_BOTH: Final[tuple[dict[str, Any], ...]] = (
    _CLIP,
    {"image_mean": [0.5, 0.25, 0.125], "image_std": [1.0, 0.3, 0.7]},
    {"do_normalize": False},
    {"do_normalize": True, **_CLIP},
    {"do_rescale": False},
    {"do_rescale": False, "do_normalize": False},
    {"rescale_factor": 1 / 127.5},
    {"do_resize": False},
    {"do_convert_rgb": False},
    {"resample": 2},  # bilinear
    {"resample": 0},  # nearest
    {"patch_size": 14},
    {"patch_size": 8},
)
_OF_FAMILY: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "qwen3-vl": (
        {"size": {"shortest_edge": 4096, "longest_edge": 50_000}},
        {"size": {"shortest_edge": 1_000_000, "longest_edge": 4_000_000}},
        {"size": {"shortest_edge": 1, "longest_edge": 1024}},
        {"merge_size": 1},
        {"merge_size": 3},
        {"merge_size": 4},
        {"patch_size": 14, "merge_size": 3, "temporal_patch_size": 3},
        {"temporal_patch_size": 1},
        {"temporal_patch_size": 3},
        {"temporal_patch_size": 4},
    ),
    "gemma-4": (
        *({"max_soft_tokens": budget} for budget in (70, 140, 280, 560, 1120)),
        {"max_soft_tokens": 100},  # refused
        {"pooling_kernel_size": 2},
        {"pooling_kernel_size": 1, "patch_size": 32},
        {"patch_size": 14, "pooling_kernel_size": 4, "max_soft_tokens": 140},
    ),
}
_OF_VIDEO: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "qwen3-vl": (
        {"cap_pixels_per_frame": True},
        {"cap_pixels_per_frame": True, "max_video_tokens": 16},
        {"cap_pixels_per_frame": False},
    ),
    "gemma-4": (),
}
_QUICK_SETTINGS: Final[tuple[dict[str, Any], ...]] = (
    _CLIP,
    _OF_FAMILY["qwen3-vl"][0],
    {"patch_size": 14},
    {"do_resize": False},
    {"max_soft_tokens": 140},
)


def _settings(family: str, kind: Kind) -> Iterator[dict[str, Any]]:
    more = _OF_VIDEO[family] if kind == "video" else ()
    # multiples of every grid above, an odd size, and one that the limits above enlarge or shrink
    media = (Medium(672, 336, _frames(kind, 2)), Medium(97, 131, _frames(kind, 3)))
    large = Medium(854, 480, _frames(kind, 6))
    for settings in (*_BOTH, *_OF_FAMILY[family], *more):
        for medium in (*media, large):
            quick = settings in _QUICK_SETTINGS and medium is media[1]
            yield {
                "media": (medium,),
                "settings": settings,
                "alone": settings in more,
                "quick": quick,
            }
    transparent = Medium(192, 96, _frames(kind, 2), mode="RGBA")
    yield {"media": (transparent,), "settings": {"do_convert_rgb": False}}
    for medium in (
        *media,
        large,
        Medium(5, 7, _frames(kind, 2)),
        Medium(10, 201, _frames(kind, 2)),
    ):
        yield {"media": (medium,), "preset": "class", "quick": medium is media[1]}


# -- several media, and sampling -----------------------------------------------------------------


def _several(family: str, kind: Kind) -> Iterator[dict[str, Any]]:
    def media(*sizes: tuple[int, int, int], forms: Sequence[str] = ("numpy",)) -> dict[str, Any]:
        turns = zip(sizes, itertools.cycle(forms), strict=False)
        made = (Medium(w, h, _frames(kind, frames), form) for (w, h, frames), form in turns)
        return {"media": tuple(made)}

    same, other, third = (97, 131, 3), (131, 97, 2), (192, 96, 6)
    yield {**media(same, same), "quick": True}
    yield {**media(same, other, third, same), "quick": True}
    yield media(*[same] * 7)
    yield media(other, (193, 97, 6), third)  # not alike, alike when resized
    yield media(same, (97, 131, 4))  # frames are all that differs
    yield media(same, (5, 7, 2), (854, 480, 2))
    yield {**media(same, (2010, 10, 2)), "quick": True}  # one of them is refused
    yield media(third, (64, 96, 1))
    yield media(same, other, forms=("numpy", "torch"))
    # clips: stock takes the order of axes from the first one for all of them
    yield {**media(same, other, forms=("numpy", "numpy first")), "quick": True}
    yield media(same, same, forms=("numpy first", "numpy"))
    if kind == "image":
        yield {**media(same, third, same, forms=("pil", "torch permuted", "numpy")), "quick": True}
    yield {"media": ()}


def _sampling(family: str, kind: Kind) -> Iterator[dict[str, Any]]:
    if kind == "image":
        return
    for frames, rate in itertools.product((1, 2, 6, 15, 16, 32, 40, 100), (24.0, 2.0, 29.97)):
        medium = Medium(100, 75, frames)
        quick = (frames, rate) in ((15, 24.0), (40, 24.0))
        yield {"media": (medium,), "sampling": rate, "quick": quick}
    for form in ("torch first", "numpy frames", "pil frames"):
        medium = Medium(100, 75, 40, form)
        yield {"media": (medium,), "sampling": 24.0, "quick": form == "pil frames"}
    two = (Medium(100, 75, 40), Medium(97, 131, 64))
    yield {"media": two, "sampling": 24.0}


VARIATIONS: Final = {
    "size": _sizes,
    "frames": _counts,
    "form": _forms,
    "mode": _modes,
    "several": _several,
    "sampling": _sampling,
    "settings": _settings,
    "huge": _huge,
}
