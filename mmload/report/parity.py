"""The result of `mmload parity` as text: the verdict first, then tables, then every difference.

In: an object of docs/parity.md. Out: plain lines of at most 80 columns, names of tensors and files
excepted, which are never cut.
"""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any, Final

from mmload.report.fields import visible

Document = Mapping[str, Any]

WIDTH: Final = 80
SHOWN: Final = 40  # differences and tensors on a terminal; --json and --out have all of them
_GATE: Final = ("checks", "identical", "fell_back", "refused", "differs")
_TITLES: Final = ("checks", "by owned", "fell back", "refused", "different")
_WORDS: Final = {
    "identical": "identical",
    "values": "same values",
    "differs": "differs",
    "shape": "shape",
    "only_a": "only in A",
    "only_b": "only in B",
}


def render(document: Document) -> str:
    """Text of either kind of result, with a line break at the end."""
    lines = _files(document) if document["kind"] == "files" else _gate(document)
    first = fill(f"{document['verdict']}  {document['sentence']}", WIDTH, subsequent_indent="  ")
    return "\n".join([first, "", *lines]) + "\n"


# -- the processor gate --------------------------------------------------------------------------


def _gate(document: Document) -> Iterator[str]:
    yield _cells(("family", "kind", "core"), _TITLES)
    for row in document["table"]:
        counts = [f"{row[key]:,}" for key in _GATE]
        yield _cells((row["family"], row["kind"], row["core"]), counts)
    yield from _differences(document["differences"])
    yield from _counted("Left to stock, and why", document["fallbacks"])
    yield from _counted("Refused by both, with", _kinds(document["refusals"]))
    yield ""
    facts = [f"{name} {version}" for name, version in document["versions"].items() if version]
    facts += [f"{key.replace('_', ' ')} {value}" for key, value in document["machine"].items()]
    yield from _folded([f"{document['matrix']} matrix", *facts])


def _cells(words: Sequence[str], numbers: Sequence[str]) -> str:
    left = "".join(f"{word:{width}}" for word, width in zip(words, (10, 7, 5), strict=True))
    return f"  {left}" + "".join(f"{number:>10}" for number in numbers)


def _differences(differences: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if differences:
        yield from ("", "Differences")
    for one in differences[:SHOWN]:
        yield _filled(f"{one['name']} (core {one['asked_core']})", 2)
        if one["reason"] != ", ".join(tensor["name"] for tensor in one["tensors"]):
            yield _filled(one["reason"], 4)
        for tensor in one["tensors"]:
            yield _filled(f"{tensor['name']}: {_apart(tensor)}", 4)
    yield from _more(len(differences))


def _filled(text: str, indent: int) -> str:
    """One paragraph; what follows its first line stands two further in."""
    first, rest = " " * indent, " " * (indent + 2)
    words = visible(text)
    return fill(
        words,
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _apart(tensor: Mapping[str, Any]) -> str:
    """How one tensor differs, in words."""
    dtypes, shapes = tensor["dtypes"], tensor["shapes"]
    if tensor["verdict"] in ("only_a", "only_b"):
        return f"only {'stock' if tensor['verdict'] == 'only_a' else 'owned'} has it"
    if tensor["verdict"] == "shape":
        return f"{shapes[0]} by stock, {shapes[1]} by owned"
    if tensor["verdict"] == "values":
        return f"the same values, {dtypes[0]} by stock, {dtypes[1]} by owned"
    first = tensor["first"]
    words = (
        f"{tensor['differing']:,} of {tensor['elements']:,} elements, first at {first['index']}:"
        f" {first['a']} by stock, {first['b']} by owned; largest difference"
        f" {_small(tensor['max_abs'])}"
    )
    return words if dtypes[0] == dtypes[1] else f"{words}; {dtypes[0]} and {dtypes[1]}"


def _kinds(refusals: Mapping[str, int]) -> dict[str, int]:
    """By exception alone: messages repeat the sizes."""
    found: dict[str, int] = {}
    for reason, count in refusals.items():
        kind = reason.partition(":")[0]
        found[kind] = found.get(kind, 0) + count
    return found


def _counted(title: str, counts: Mapping[str, int]) -> Iterator[str]:
    if counts:
        yield from ("", title)
    for reason, count in counts.items():
        yield f"  {count:>6,}  {visible(reason)}"


def _folded(words: Sequence[str]) -> Iterator[str]:
    line = " "
    for word in words:
        if len(line) + len(word) + 3 > WIDTH and line.strip():
            yield line
            line = " "
        line += f" {word},"
    yield line.rstrip(",")


# -- two files -----------------------------------------------------------------------------------


def _files(document: Document) -> Iterator[str]:
    yield f"  A  {visible(document['a'])} (the reference)"
    yield f"  B  {visible(document['b'])}"
    if bounds := document["bounds"]:
        asked = {"min_cosine": "cosine at least", "max_rel_l2": "relative L2 at most"}
        words = [f"{asked[key]} {value:g}" for key, value in bounds.items() if value is not None]
        yield f"  asked of the worst row: {', '.join(words)}"
    yield ""
    if document["tensors"]:
        yield _row("", "", "cosine", "cosine", "rel. L2", "rel. L2", "largest", "")
        yield _row("", "", "worst", "mean", "worst", "mean", "|a - b|", "tensor")
    for tensor in document["tensors"][:SHOWN]:
        yield from _tensor(tensor)
    yield from _more(len(document["tensors"]))


def _tensor(tensor: Mapping[str, Any]) -> Iterator[str]:
    cosine, error = tensor["cosine"] or {}, tensor["rel_l2"] or {}
    yield _row(
        "" if tensor["passed"] else "!",
        _WORDS[tensor["verdict"]],
        _cosine(cosine.get("worst")),
        _cosine(cosine.get("mean")),
        _small(error.get("worst")),
        _small(error.get("mean")),
        _small(tensor["max_abs"]),
        visible(tensor["name"]),
    )
    if kinds := _unlike(tensor):
        yield f"      {kinds}"
    if tensor["unmeasured_rows"]:
        yield f"      {tensor['unmeasured_rows']:,} of {tensor['rows']:,} rows have no measure"


def _unlike(tensor: Mapping[str, Any]) -> str:
    """Types and shapes where they are not the same on both sides."""
    return ", ".join(
        f"{sides[0]} in A, {sides[1]} in B"
        for sides in (tensor["dtypes"], tensor["shapes"])
        if None not in sides and sides[0] != sides[1]
    )


def _row(mark: str, verdict: str, *cells: str) -> str:
    *numbers, name = cells
    widths = (11, 11, 9, 9, 9)
    right = "".join(f"{cell:>{width}}" for cell, width in zip(numbers, widths, strict=True))
    return f"{mark:1} {verdict:11}{right}  {name}".rstrip()


def _cosine(value: float | None) -> str:
    if value is None:
        return "-"
    if value < 1 and 1 - value < 5e-9:
        return f"1-{1 - value:.1e}"
    return f"{value:.8f}"


def _small(value: float | None) -> str:
    return "-" if value is None else "0" if value == 0 else f"{value:.2e}"


def _more(total: int) -> Iterator[str]:
    if total > SHOWN:
        yield f"  and {total - SHOWN:,} more: see --json or --out"
