"""How much media reaches a processor: frames and pixels of what it is given, without touching it.

Takes what servers hand over: PIL images (`size`), arrays and tensors (`shape`), lists of them, and
pairs of a video and its metadata. What cannot be told is left out. Stdlib only.
"""

from typing import Any

_COLOURS = (1, 3, 4)


def media_facts(images: Any, videos: Any) -> dict[str, int]:
    """`frames` and `pixels` of all images and videos together; empty: nothing could be told."""
    sizes = [*_frames(images), *_frames(videos)]
    return {"frames": len(sizes), "pixels": sum(sizes)} if sizes else {}


def _frames(media: Any) -> list[int]:
    """Pixels of each frame."""
    if media is None:
        return []
    size = getattr(media, "size", None)
    if isinstance(size, tuple) and len(size) == 2 and not hasattr(media, "shape"):
        return [int(size[0]) * int(size[1])]
    shape = tuple(getattr(media, "shape", ()))
    if len(shape) >= 2:
        return _of_shape(tuple(map(int, shape)))
    if isinstance(media, tuple) and len(media) == 2 and not _is_media(media[1]):
        return _frames(media[0])  # with its metadata
    if isinstance(media, list | tuple):
        return [pixels for one in media for pixels in _frames(one)]
    return []


def _of_shape(shape: tuple[int, ...]) -> list[int]:
    """(H, W), (H, W, C), (C, H, W), and the same with any number of frames before."""
    if len(shape) == 2:
        return [shape[0] * shape[1]]
    last_is_colour = shape[-1] in _COLOURS
    sides = shape[-3:-1] if last_is_colour or shape[-3] not in _COLOURS else shape[-2:]
    before = shape[:-3]
    count = 1
    for n in before:
        count *= n
    return [sides[0] * sides[1]] * count


def _is_media(one: Any) -> bool:
    return hasattr(one, "shape") or hasattr(one, "size")
