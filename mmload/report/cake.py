"""The cake in words and tables: the server's time by layer, and how deep the calls go.

In: the `profile` object of docs/summary.md, in which anything may be null. Out: sentences and
`Rows`, as text, unescaped, the same for all formats.
"""

import re
from typing import Final

from mmload.report import numbers
from mmload.report.fields import Summary, get
from mmload.report.results import Rows, share

TITLE: Final = "Whose code the server's time is spent in"
GLUE: Final = (
    "Self: the layer's own function is innermost. Inclusive: it is anywhere on the stack. Calls:"
    " functions of the layer on the mean stack; glue: those of which less than 5% of the time under"
    " them is their own"
)
TOP_SHOWN: Final = 8
LONG_NAME: Final = 70
_KERNEL: Final = re.compile(r"\w+_kernel\b")


def sentences(profile: Summary | None) -> list[str]:
    """How much was sampled, and how deep the stacks are."""
    if not profile:
        return []
    native = "native functions too" if get(profile, "native") else "Python functions only"
    said = [
        f"{numbers.seconds(get(profile, 'sampled_s'))} of busy threads in"
        f" {numbers.seconds(get(profile, 'duration_s'))}, {get(profile, 'rate_hz')} samples a"
        f" second, {native} ({get(profile, 'profiler')})."
    ]
    said[0] += _against_cpu(get(profile, "sampled_s") or 0.0, get(profile, "cpu_s"))
    depth = get(profile, "depth")
    if depth:
        said.append(
            f"The mean stack is {numbers.digits(depth['mean'])} calls deep in"
            f" {numbers.digits(depth['layers'])} layers; {numbers.digits(depth['glue'])} of the"
            f" calls only hand on, and {numbers.digits(depth['calls_to_work'])} come before the"
            f" layer that works. The deepest has {numbers.count(depth['max'])}."
        )
    worst = _deepest_thread(profile)
    if worst:
        said.append(worst)
    said.extend(get(profile, "problems") or [])
    return said


def _against_cpu(sampled_s: float, cpu_s: float | None) -> str:
    """Samples count a thread that waits for a core, and do not see one without Python."""
    if not cpu_s:
        return ""
    said = f" The processes used {numbers.seconds(cpu_s)} of CPU in that time"
    if sampled_s > 1.15 * cpu_s:
        return f"{said}: for the difference, threads that could run had no core."
    if sampled_s < 0.85 * cpu_s:
        return f"{said}: py-spy does not see threads without Python, which used the rest."
    return f"{said}."


def _deepest_thread(profile: Summary) -> str:
    """The busiest group of threads, when there are several."""
    threads = [one for one in get(profile, "threads") or [] if get(one, "depth")]
    if len(threads) < 2:
        return ""
    first, depth = threads[0], threads[0]["depth"]
    layers = get(first, "layers") or {}
    main = max(layers, key=lambda key: layers[key])
    title = get(profile, "layers", main, "title") or main
    part = layers[main] / first["self_s"] if first["self_s"] else None
    return (
        f"Busiest threads: {first['thread']}, {numbers.seconds(first['self_s'])};"
        f" {numbers.percent(part)} of that in {title}, after"
        f" {numbers.digits(depth['calls_to_work'])} calls in {numbers.digits(depth['layers'])}"
        " layers on average."
    )


def layers(profile: Summary) -> Rows:
    """The table of the cake, outermost layer first."""
    rows = [
        [
            str(get(one, "title")),
            numbers.seconds(get(one, "self_s")),
            share(get(one, "self_share")),
            share(get(one, "inclusive_share")),
            numbers.digits(get(one, "frames") or 0),
            numbers.digits(get(one, "glue_frames") or 0),
        ]
        for one in (get(profile, "layers") or {}).values()
    ]
    return Rows(TITLE, GLUE, ("layer", "self", "self %", "inclusive", "calls", "glue"), rows)


def functions(profile: Summary, shown: int = TOP_SHOWN) -> Rows:
    """Those that took most time themselves."""
    rows = [
        [
            f"{name_of(one)}",
            str(get(profile, "layers", str(get(one, "layer")), "title") or get(one, "layer")),
            numbers.seconds(get(one, "self_s")),
            share(get(one, "self_share")),
        ]
        for one in (get(profile, "functions") or [])[:shown]
    ]
    return Rows("Functions", "by their own time", ("function", "layer", "self", "self %"), rows)


def deepest(profile: Summary) -> Rows | None:
    """Of the busiest threads the stack with most calls before the work, outermost first."""
    found = (get(profile, "deepest") or [None])[0]
    if not found:
        return None
    rows: list[list[str]] = []
    calls: list[Summary] = found["frames"]
    for number, call in enumerate(calls, 1):
        layer = str(get(profile, "layers", call["layer"], "title") or call["layer"])
        does = "hands on" if call["glue"] else "works"
        rows.append([f"{number}  {name_of(call)}", layer, does])
    title = (
        f"The deepest stack: {found['calls_to_work']} calls before the layer that works"
        f" ({found['thread']})"
    )
    return Rows(title, "", ("call", "layer", "does"), rows)


def name_of(function: Summary) -> str:
    """`resize (torchvision/transforms/v2/functional/_geometry.py)`."""
    name = str(get(function, "name"))
    if len(name) > LONG_NAME:  # C++ with all its template arguments
        kernel = _KERNEL.search(name)
        name = f"... {kernel[0]} ..." if kernel else f"{name[: LONG_NAME - 4]} ..."
    return f"{'no symbol' if name == '?' else name} ({get(function, 'where')})"
