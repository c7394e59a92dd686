"""Calls back when a module has been imported: how probes reach classes that are not there yet.

`after_import("vllm.renderers.base", act)` calls `act(module)` at once if the module is there, else
right after its import, on the importing thread. What `act` raises is swallowed: an import of the
server must succeed or fail as it would without us. Stdlib only.
"""

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

Act = Callable[[ModuleType], object]

_waiting: dict[str, list[Act]] = {}
_lock = threading.RLock()


def after_import(name: str, act: Act) -> None:
    """Calls `act` with the module `name`, now or as soon as it has been imported."""
    with _lock:
        module = sys.modules.get(name)
        if module is None:
            _waiting.setdefault(name, []).append(act)
            if _FINDER not in sys.meta_path:
                sys.meta_path.insert(0, _FINDER)
            return
    _call(act, module)


def _call(act: Act, module: ModuleType) -> None:
    with contextlib.suppress(Exception):
        act(module)


class _Finder:
    """Finds what the other finders find, and has the loader tell us when it is done."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _waiting:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None else None
            if spec is not None:
                with contextlib.suppress(Exception):
                    _listen(spec, name)
                return spec
        return None


def _listen(spec: ModuleSpec, name: str) -> None:
    """The loader stays the one it is, since others ask it for its kind, its files and its data."""
    loader = spec.loader
    if loader is None:  # a namespace package: nothing is executed
        return
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        if module.__name__ != name:  # a loader may be one for many: those of zip files are
            return
        with _lock:
            acts = _waiting.pop(name, [])
        for act in acts:
            _call(act, module)

    loader.exec_module = exec_module  # type: ignore[method-assign]


_FINDER = _Finder()


def _reset_in_child() -> None:
    """After fork: another thread may have held the lock, and did not come along."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)
