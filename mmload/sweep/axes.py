"""Axes and points: what a sweep varies, from text or YAML, judged before anything is started.

In: names with values, from `--set`, `--env`, load flags or a file. Out: a `Design`: axes, and the
points of their grid (or of a list), each a server setting, an environment and a load. Pure. An axis
that nobody knows is a UsageError with the nearest names; a value that a server will refuse is not
known here, since a refusal is a result.
"""

import difflib
import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from mmload.errors import UsageError

Kind = Literal["set", "env", "load"]
Value = str | int | float | bool | None | list[Any] | dict[str, Any]  # None: unset, the default

KINDS: Final[tuple[Kind, ...]] = ("set", "env", "load")
MOST_POINTS: Final = 1000
# Load keys that say to whom and where, not what: a sweep has one of each.
NOT_AXES: Final = frozenset(("url", "out", "name", "model", "model_family"))
# Load keys whose text may hold a comma: a flag gives one value, a list in a file an axis.
_WHOLE: Final = frozenset(
    ("profile", "trace", "media", "dataset", "prompt", "prompts")
    + ("extra_body", "mm_processor_kwargs", "media_io_kwargs", *NOT_AXES)
)
_LISTS: Final = frozenset(("frames", "size"))  # a mix within one point is written 1+6+15
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET: Final = re.compile(
    r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_|$)", re.I
)


class Axis(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that differs between points; a single value is a constant of the sweep."""

    kind: Kind
    name: str
    values: tuple[Value, ...]

    @property
    def varies(self) -> bool:
        return len(self.values) > 1


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One combination. None stands for unset: the flag left out, the variable removed."""

    number: int
    set: dict[str, Value] = {}
    env: dict[str, Value] = {}
    load: dict[str, Value] = {}

    def value(self, axis: Axis) -> Value:
        values: dict[str, Value] = getattr(self, axis.kind)
        return values.get(axis.name)


class Design(msgspec.Struct, frozen=True, kw_only=True):
    axes: tuple[Axis, ...]
    points: tuple[Point, ...]

    @property
    def varying(self) -> tuple[Axis, ...]:
        return tuple(axis for axis in self.axes if axis.varies)

    def label(self, point: Point) -> str:
        """What sets a point apart: "renderer-workers=2, qps=5"."""
        return ", ".join(f"{a.name}={show(point.value(a))}" for a in self.varying) or "one point"

    def folder(self, point: Point) -> str:
        """The name of its folder: the number, and as much of the label as a name can hold."""
        slug = re.sub(r"[^\w.+=,-]+", "_", self.label(point).replace(", ", ","))
        return f"p{point.number:03d}-{slug[:100]}".rstrip("-_,.")


def show(value: Value) -> str:
    """A value in words."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return "+".join(show(part) for part in value)
    if isinstance(value, dict):
        return msgspec.json.encode(value).decode()
    return str(value)


# -- reading -----------------------------------------------------------------------------------


def from_flags(
    settings: Sequence[str], variables: Sequence[str], load: Mapping[str, Any]
) -> list[Axis]:
    """Axes of `--set NAME=A,B`, `--env NAME=A,B` and load flags such as `qps: "2,5"`."""
    axes = [_typed("--set", "set", text, "renderer-workers") for text in settings]
    axes += [_typed("--env", "env", text, "OMP_NUM_THREADS") for text in variables]
    for key, typed in load.items():
        axes.append(_axis("load", key, _load_values(key, typed), f"--{key.replace('_', '-')}"))
    return axes


def from_file(values: Mapping[str, Any], where: str) -> list[Axis]:
    """Axes of the keys `set`, `env` and `load` of a file: a list is an axis, else a constant."""
    axes = []
    for kind in KINDS:
        part = values.get(kind) or {}
        _mapping(part, f"{where}: {kind}")
        for name, given in part.items():
            levels = given if isinstance(given, list) else [given]
            levels = [_clean(kind, level) for level in levels]
            axes.append(_axis(kind, str(name), levels, f"{where}: {kind}.{name}"))
    return axes


def points_from_file(listed: Any, where: str) -> list[Point]:
    """The key `points` of a file: a list of `{set, env, load}`, instead of a grid."""
    if not isinstance(listed, list) or not listed:
        raise UsageError(
            f"{where}: points: a list is needed, of one point or more",
            "write `- {set: {renderer-workers: 2}, load: {qps: 5}}`",
        )
    points = []
    for number, one in enumerate(listed):
        _mapping(one, f"{where}: points[{number}]")
        known(one, KINDS, f"{where}: points[{number}]")
        parts: dict[str, dict[str, Value]] = {}
        for kind in KINDS:
            part = one.get(kind) or {}
            _mapping(part, f"{where}: points[{number}].{kind}")
            parts[kind] = {
                _name(kind, str(name)): _clean(kind, value) for name, value in part.items()
            }
        points.append(Point(number=number, **parts))
    return points


def split(text: str) -> list[str]:
    """Parts between commas that stand outside quotes and brackets: JSON stays whole."""
    parts, depth, quote, start = [], 0, "", 0
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "[{(":
            depth += 1
        elif character in "]})":
            depth -= 1
        elif character == "," and depth <= 0:
            parts.append(text[start:place])
            start = place + 1
    return [part.strip() for part in (*parts, text[start:])]


# -- the design --------------------------------------------------------------------------------


def of_server(settings: Mapping[str, Value], env: Sequence[str]) -> list[Axis]:
    """What a scenario's file says of the embedded server, as constants."""
    variables = (text.partition("=") for text in env)
    return [
        *(Axis(kind="set", name=n.replace("_", "-"), values=(v,)) for n, v in settings.items()),
        *(Axis(kind="env", name=name, values=(value,)) for name, _, value in variables),
    ]


def grid(axes: Sequence[Axis]) -> Design:
    """Every combination of the axes' values. The last of several axes of one name counts."""
    by_name = {(axis.kind, axis.name): axis for axis in axes}
    kept = tuple(by_name.values())
    count = 1
    for axis in kept:
        count *= len(axis.values)
    if count > MOST_POINTS:
        raise UsageError(
            f"{count:,} points: a sweep has at most {MOST_POINTS:,}",
            "give fewer values, or list the points in a file",
        )
    points = []
    for number, values in enumerate(itertools.product(*(axis.values for axis in kept))):
        parts: dict[str, dict[str, Value]] = {kind: {} for kind in KINDS}
        for axis, value in zip(kept, values, strict=True):
            parts[axis.kind][axis.name] = value
        points.append(Point(number=number, **parts))
    return Design(axes=kept, points=tuple(points))


def listed(points: Sequence[Point], constants: Sequence[Axis]) -> Design:
    """The listed points, each completed by the constants, of several of one name by the last.
    Raises UsageError for equal ones."""
    constants = tuple({(axis.kind, axis.name): axis for axis in constants}.values())
    for axis in constants:
        if axis.varies:
            raise UsageError(
                f"points and an axis {axis.name} with {len(axis.values)} values: give one kind",
                "put its values into the points",
            )
    full, levels = [], {(axis.kind, axis.name): [axis.values[0]] for axis in constants}
    for point in points:
        parts = {kind: dict(getattr(point, kind)) for kind in KINDS}
        for axis in constants:
            parts[axis.kind].setdefault(axis.name, axis.values[0])
        full.append(Point(number=point.number, **parts))
    for kind in KINDS:
        for point in full:
            for name in getattr(point, kind):
                levels.setdefault((kind, name), [])
    for kind, name in levels:
        seen: list[Value] = []
        for point in full:
            if (value := getattr(point, kind).get(name)) not in seen:
                seen.append(value)
        levels[kind, name] = seen
    axes = tuple(Axis(kind=k, name=n, values=tuple(vs)) for (k, n), vs in levels.items())
    for first, second in itertools.combinations(full, 2):
        if all(first.value(axis) == second.value(axis) for axis in axes):
            raise UsageError(
                f"points {first.number} and {second.number} are the same",
                "leave one out; `repeats` says how often each is run",
            )
    return Design(axes=axes, points=tuple(full))


def check_names(
    design: Design, *, load_keys: Collection[str], settings: Collection[str] | None
) -> None:
    """Raises UsageError for an axis that nobody knows, with the nearest names.

    `settings` are the embedded server's; None: the server is a command, whose flags only it knows.
    """
    for axis in design.axes:
        if axis.kind == "load":
            if axis.name in NOT_AXES and axis.varies:
                raise UsageError(
                    f"{axis.name}: cannot be an axis: a sweep has one", "give a single value"
                )
            known([axis.name], load_keys, "load")
        elif axis.kind == "set" and settings is not None:
            known([axis.name], settings, "--set")
        elif axis.kind == "env":
            if not _VARIABLE.fullmatch(axis.name):
                raise UsageError(
                    f"--env {axis.name!r}: not a name of an environment variable",
                    "letters, digits and _, as in OMP_NUM_THREADS",
                )
            if _SECRET.search(axis.name):
                raise UsageError(
                    f"--env {axis.name}: looks like a secret, and a sweep writes its settings down",
                    f"`export {axis.name}=...` before the sweep: servers inherit it",
                )


def known(names: Iterable[str], allowed: Collection[str], where: str) -> None:
    """Raises UsageError for the first name that is not allowed, with the nearest ones."""
    for name in names:
        if name in allowed:
            continue
        close = difflib.get_close_matches(name, allowed, n=3, cutoff=0.5)
        raise UsageError(
            f"{where} {name}: there is no such name",
            f"did you mean {' or '.join(close)}?"
            if close
            else f"known: {', '.join(sorted(allowed))}",
        )


def _typed(flag: str, kind: Kind, text: str, example: str) -> Axis:
    name, equals, values = text.partition("=")
    name = name.strip()
    if not equals or not name:
        raise UsageError(
            f"{flag} {text!r} is not allowed: NAME=VALUE or NAME=VALUE,VALUE,...",
            f"as in {flag} {example}=1,2",
        )
    return _axis(kind, name, [_blank(part) for part in split(values)], f"{flag} {name}")


def _axis(kind: Kind, name: str, values: Sequence[Value], where: str) -> Axis:
    if not values:
        raise UsageError(f"{where}: no values", "give one or more, separated by commas")
    for i, value in enumerate(values):
        if value in values[:i]:
            raise UsageError(f"{where}: {show(value)} is there twice", "leave one out")
    return Axis(kind=kind, name=_name(kind, name), values=tuple(values))


def _name(kind: Kind, name: str) -> str:
    if kind == "set":
        return name.removeprefix("--").replace("_", "-")
    return name.replace("-", "_") if kind == "load" else name


def _load_values(key: str, typed: Any) -> list[Value]:
    if not isinstance(typed, str | list):
        return [typed]
    if key in _WHOLE:
        return [typed if isinstance(typed, str) else ",".join(typed)]
    parts = [
        part for text in ([typed] if isinstance(typed, str) else typed) for part in split(text)
    ]
    if key in _LISTS:
        return [part.split("+") if "+" in part else part for part in parts]
    return list(parts)


def _clean(kind: Kind, value: Any) -> Value:
    """Settings and variables are text, as a command line has them; load values stay as they are."""
    if kind == "load":
        kept: Value = value
        return kept
    return None if value is None else _blank(show(value))


def _blank(text: str) -> str | None:
    return text if text != "" else None


def _mapping(value: Any, where: str) -> None:
    if not isinstance(value, dict):
        raise UsageError(f"{where}: names with values are needed", "write `name: value` below it")
