"""The architecture, checked: arrows point one way, heavy or impure things stay where they belong.

scenario -> load (schedule, payloads, transport, wire) -> records -> analysis -> report
hook: the standard library alone, since it lives in other people's servers
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "mmload"
MODULES = sorted(ROOT.rglob("*.py"))

# What a part may import of mmload (prefixes). A part may always import itself.
ALLOWED: dict[str, tuple[str, ...]] = {
    "errors": (),
    "clock": (),
    "records": (),
    "rundir": ("errors", "records", ""),
    "scenario": ("load.schedule", "scenario_checks", "scenario_types", "wire"),
    "scenario_types": ("load.schedule", "wire"),
    "scenario_checks": ("scenario", "scenario_types"),
    "scenario_file": ("errors", "scenario", "scenario_types"),
    "hook": ("",),  # the version
    "wire": ("errors", "records", "load.media"),
    "load": (
        "clock",
        "errors",
        "hook.headers",
        "records",
        "scenario",
        "scenario_types",
        "wire",
        "rundir",
    ),
    "slo": ("clock", "errors"),
    "analysis": (
        *("records", "rundir", "hook.stages", "clock", "processors.families"),
        *("slo", "watch.names"),
    ),
    "processors": ("errors",),
    "parity": ("errors", "processors", ""),
    "server": ("clock", "errors", "hook", "processors", ""),
    "report": (
        *("analysis", "clock", "errors", "hook.stages", "profiler", "records", "rundir"),
        *("load.workers", "watch.names"),
    ),
    "compare": ("analysis", "errors", "report", "rundir", "scenario", ""),
    "batch": (*("analysis", "clock", "errors", "run", "rundir", "scenario", "serving", ""),),
    "sweep": (
        *("analysis", "batch", "clock", "errors", "hook.stages", "load.workers", "run", "rundir"),
        *("scenario", "server.settings", "serving", "slo", ""),
    ),
    "capacity": (
        *("analysis", "batch", "clock", "errors", "records", "report.files", "run", "rundir"),
        *("scenario", "slo", ""),
    ),
    "history": ("analysis", "errors", "rundir"),
    "processes": (),
    "profiler": ("clock", "errors", "processes"),
    "watch": ("clock", "load", "processes", "records"),
    "flags": (),
    "trace": ("hook",),
}
# Of parts that do things, the modules that only work something out.
PURE = {
    "sweep": {
        *("axes", "axis_effects", "command", "effects", "figures", "pareto", "plan", "recommend"),
        *("summary", "table"),
    },
    "capacity": {"curve", "judge", "predict", "search"},
}
IMPURE = {"open", "print", "input"}
TIME_READERS = {"clock.py", "keeper.py"}  # the keeper runs by itself, without mmload


def part_of(path: Path) -> str:
    relative = path.relative_to(ROOT)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Imported module names, and whether only for type checking."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) in typing_only
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                yield f"{node.module}.{alias.name}", id(node) in typing_only


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_arrows_point_one_way(path: Path) -> None:
    part = part_of(path)
    if part not in ALLOWED:
        return  # commands, run, serving: they tie the parts together
    for name, _ in imports(path):
        if not name.startswith("mmload."):
            continue
        inner = name.removeprefix("mmload.")
        fine = inner.split(".")[0] == part or any(
            (allowed and (inner + ".").startswith(allowed + "."))
            or (allowed == "" and inner == "__version__")
            for allowed in ALLOWED[part]
        )
        assert fine, f"{ids(path)} imports {name}"


@pytest.mark.parametrize("path", [p for p in MODULES if part_of(p) == "hook"], ids=ids)
def test_the_hook_is_stdlib_only(path: Path) -> None:
    for name, typing_only in imports(path):
        top = name.split(".")[0]
        if top == "mmload" or typing_only:
            continue
        # Frameworks may be imported inside functions, when they are there anyway.
        if top not in sys.stdlib_module_names:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            at_top = {
                n.module if isinstance(n, ast.ImportFrom) else n.names[0].name
                for n in tree.body
                if isinstance(n, ast.Import | ast.ImportFrom)
            }
            assert not any(str(m).split(".")[0] == top for m in at_top), f"{path} imports {name}"


def is_pure(path: Path) -> bool:
    return part_of(path) == "analysis" or path.stem in PURE.get(part_of(path), ())


@pytest.mark.parametrize("path", [p for p in MODULES if is_pure(p)], ids=ids)
def test_analysis_does_no_io(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in IMPURE, f"{ids(path)} calls {node.func.id}"
    banned = {"os", "pathlib", "socket", "subprocess", "time", "asyncio", "threading", "random"}
    assert not {name.split(".")[0] for name, _ in imports(path)} & banned


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_heavy_libraries_stay_at_home(path: Path) -> None:
    homes = {"rich": {"report"}, "plotly": {"report"}, "aiohttp": {"server", "hook"}}
    homes |= {"numba": {"processors"}, "llvmlite": {"processors"}}
    for name, typing_only in imports(path):
        top = name.split(".")[0]
        if top in homes and not typing_only:
            assert part_of(path) in homes[top], f"{ids(path)} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_time_is_read_in_one_place(path: Path) -> None:
    if path.name in TIME_READERS or part_of(path) == "hook":
        return
    for name, _ in imports(path):
        assert name.split(".")[0] != "time", f"{ids(path)} imports time; use mmload.clock"


def test_modules_stay_readable() -> None:
    """One idea each: the longest allowed is a question, not a habit."""
    lengths = {ids(p): len(p.read_text(encoding="utf-8").splitlines()) for p in MODULES}
    assert {name: n for name, n in lengths.items() if n > 350} == {}
    assert all(
        p.read_text(encoding="utf-8").lstrip().startswith('"""') or p.stat().st_size == 0
        for p in MODULES
    ), "a module without a docstring"
