"""`mmload parity`: are the owned processors the stock ones, bit for bit? Are two files?"""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter

from mmload.errors import ThresholdFailed, UsageError
from mmload.parity import document, files, gate, matrix
from mmload.parity.document import Bounds
from mmload.parity.tensors import compare
from mmload.processors.base import FAMILIES, Core, MediaProcessor, Which
from mmload.report.parity import render
from mmload.rundir import machine_facts

CORES: Final[tuple[Core, ...]] = ("auto", "torch")
NOT_YET: Final = {"buffers", "calls", "fallbacks"}  # a processor is asked before its first call


def parity(
    a: Annotated[Path | None, Parameter(help="A file of tensors, .npz or .safetensors.")] = None,
    b: Annotated[Path | None, Parameter(help="The file to compare with it.")] = None,
    /,
    *,
    family: Annotated[
        str, Parameter(help="Processors to check, with commas between.", group="Processors")
    ] = ",".join(FAMILIES),
    core: Annotated[
        str | None,
        Parameter(
            help="Owned cores: auto (compiled where that is possible), torch. Default: both.",
            group="Processors",
        ),
    ] = None,
    quick: Annotated[
        bool,
        Parameter(
            help="A small matrix and the core that users get, in seconds.",
            negative=(),
            group="Processors",
        ),
    ] = False,
    min_cosine: Annotated[
        float | None,
        Parameter(help="Least cosine similarity of any row.", group="Two files"),
    ] = None,
    max_rel_l2: Annotated[
        float | None,
        Parameter(help="Largest relative L2 error of any row.", group="Two files"),
    ] = None,
    as_json: Annotated[
        bool, Parameter(name="--json", help="Print the result as JSON.", negative=())
    ] = False,
    out: Annotated[Path | None, Parameter(help="Write the result as JSON to this file.")] = None,
) -> int:
    """Compare the owned processors with transformers' own, bit for bit; or two files of tensors.

    Without files: both on a matrix of sizes, frames, forms and settings, every output tensor. With
    two files: which tensors are identical, else their cosine similarity and relative L2 error.
    Exit code 0 when everything is identical (or within the bounds that are asked for), else 4.
    """
    if a is None:
        if min_cosine is not None or max_rel_l2 is not None:
            raise UsageError(
                "--min-cosine, --max-rel-l2: processors have to be identical",
                "name two files, or leave the bounds out",
            )
        found = _processors(_families(family), _cores(core, quick), quick)
    else:
        if b is None:
            raise UsageError(f"{a}: there is nothing to compare it with", "name two files")
        if quick or core is not None or family != ",".join(FAMILIES):
            raise UsageError("--family, --core, --quick: are for processors", "leave them out")
        bounds = _bounds(min_cosine, max_rel_l2)
        compared = compare(files.load(a), files.load(b))
        found = document.of_files(str(a), str(b), compared, bounds)
    text = json.dumps(found, allow_nan=False, indent=1, ensure_ascii=False)
    if out is not None:
        try:
            out.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"--out {out}: cannot be written: {error.strerror}", "name another file"
            ) from None
    print(text if as_json else render(found), end="\n" if as_json else "")
    return 0 if found["passed"] else ThresholdFailed.exit_code


def _processors(families: Sequence[str], cores: Sequence[Core], quick: bool) -> dict[str, Any]:
    cases = matrix.cases(families, quick=quick)
    described: dict[str, Any] = {}

    def build(which: Which, case: matrix.Case, core: Core) -> MediaProcessor:
        made = gate.build(which, case, core)
        if which == "owned" and not case.settings and case.preset == "hub":
            said = {k: v for k, v in made.describe().items() if k not in NOT_YET}
            described.setdefault(f"{case.family}, {core}", said)
        return made

    results = list(_told(gate.run(cases, cores, build), len(cases) * len(cores)))
    facts = machine_facts()
    return document.of_gate(
        results,
        matrix="quick" if quick else "full",
        machine={**gate.machine(), "cpu": facts["cpu"], "cores": facts["cores"]},
        processors=described,
    )


def _told(results: Iterable[gate.CaseResult], total: int) -> Iterator[gate.CaseResult]:
    """The results as they come; on a terminal, which one it is at."""
    seen = sys.stderr.isatty()
    for number, result in enumerate(results, 1):
        if seen and (number % 10 == 0 or number == total):
            print(f"\r{number:,} of {total:,} checks", end="", file=sys.stderr, flush=True)
        yield result
    if seen:
        print(f"\r{'':40}\r", end="", file=sys.stderr, flush=True)


def _families(text: str) -> list[str]:
    wanted = [part.strip() for part in text.split(",") if part.strip()]
    for family in wanted or [text]:
        if family not in FAMILIES:
            raise UsageError(f"--family {family}: mmload owns {', '.join(FAMILIES)}", "choose one")
    return list(dict.fromkeys(wanted))


def _cores(text: str | None, quick: bool) -> list[Core]:
    if text is None:  # without Numba they are the same
        return list(CORES) if find_spec("numba") and not quick else ["auto"]
    wanted = [part.strip() for part in text.split(",")]
    for core in wanted:
        if core not in CORES:
            raise UsageError(f"--core {core}: mmload has {', '.join(CORES)}", "choose one")
    return [core for core in CORES if core in wanted]


def _bounds(min_cosine: float | None, max_rel_l2: float | None) -> Bounds:
    if min_cosine is not None and not -1 <= min_cosine <= 1:
        raise UsageError(f"--min-cosine {min_cosine}: must be from -1 to 1", "0.999, say")
    if max_rel_l2 is not None and not max_rel_l2 >= 0:
        raise UsageError(f"--max-rel-l2 {max_rel_l2}: must not be negative", "0.01, say")
    return Bounds(min_cosine, max_rel_l2)
