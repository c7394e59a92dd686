"""The points that no other point beats in both of two figures. Pure."""

from collections.abc import Sequence


def front(points: Sequence[tuple[float, float] | None]) -> list[int]:
    """Indices of the points on the front, both figures lower is better, in order of the first.

    A point is off it if another is at least as good in both and better in one. None: no such point.
    """
    known = [(point, i) for i, point in enumerate(points) if point is not None]
    on = [
        (a, i)
        for a, i in known
        if not any(b[0] <= a[0] and b[1] <= a[1] and b != a for b, _ in known)
    ]
    return [i for _, i in sorted(on)]
