"""Tables of probes: for each event of a server, where in its code it can be seen.

A server's names move between releases. So a probe lists its targets in order of preference; each is
looked at when its module is imported, checked for existence and for the parameters that the wrapper
relies on, and wrapped if it fits. The best that fits is the one that stays. What was attached, and
what is missing and why, goes into the process's notes. Never raises into the server. Stdlib only.

    TABLE = Table("vllm", (Probe("media_decode", (Target("vllm.x:VideoIO.load", timed(...)),)),))
    attach(TABLE)
"""

import functools
import inspect
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from mmload.hook import spans
from mmload.hook.after_import import after_import
from mmload.hook.wrap import Decorator


@dataclass(frozen=True)
class Target:
    """`path` is `module:qualified.name`. `parameters` must be among those of its signature."""

    path: str
    wrap: Decorator
    parameters: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        return self.path.partition(":")[0]

    @property
    def name(self) -> str:
        return self.path.partition(":")[2]


@dataclass(frozen=True)
class Probe:
    """An event, the places where it can be seen, best first, and the stage that its time becomes a
    part of where it cannot."""

    event: str
    targets: tuple[Target, ...]
    merged: str = ""


@dataclass(frozen=True)
class Table:
    """The probes of one server or library. `package`: its distribution, for the version."""

    package: str
    probes: tuple[Probe, ...]
    on_import: Callable[[], None] | None = None  # once, when its first module is there


class Unfit(Exception):
    """Why a target cannot be wrapped."""


@dataclass
class _State:
    """What is wrapped for one probe so far."""

    rank: int | None = None
    undo: Callable[[], None] | None = None
    reasons: list[str] = field(default_factory=list)  # why the others were not

    def take(self, rank: int, target: Target, module: ModuleType) -> None:
        """Wraps the target in place of a worse one."""
        if self.rank is not None and self.rank <= rank:
            return
        try:
            undo = wrap(module, target)
        except Unfit as unfit:
            self.reasons.append(str(unfit))
            return
        if self.undo is not None:
            self.undo()
        self.rank, self.undo = rank, undo

    def say(self, probe: Probe) -> None:
        if self.rank is None:
            said = {"reason": "; ".join(self.reasons), "merged": probe.merged}
            spans.note("missing", **{probe.event: said})
        else:
            spans.note("attached", **{probe.event: probe.targets[self.rank].path})
            if self.reasons:  # said before a better module came
                spans.note("missing", **{probe.event: None})


_lock = threading.RLock()
_tables: dict[str, "_Watch"] = {}


def attach(table: Table) -> None:
    """Watches the imports that a table needs. Safe to repeat: a package is watched once."""
    with _lock:
        if table.package in _tables:
            return
        watch = _tables[table.package] = _Watch(table)
    for module in dict.fromkeys(t.module for p in table.probes for t in p.targets):
        after_import(module, watch.arrived)


class _Watch:
    def __init__(self, table: Table) -> None:
        self._table = table
        self._state = {probe.event: _State() for probe in table.probes}
        self._greeted = False

    def arrived(self, module: ModuleType) -> None:
        with _lock:
            if not self._greeted:
                self._greeted = True
                spans.note("versions", **{self._table.package: version_of(self._table.package)})
                if self._table.on_import is not None:
                    self._table.on_import()
            for probe in self._table.probes:
                state = self._state[probe.event]
                here = [(k, t) for k, t in enumerate(probe.targets) if t.module == module.__name__]
                for rank, target in here:
                    state.take(rank, target, module)
                if here:
                    state.say(probe)


def wrap(module: ModuleType, target: Target) -> Callable[[], None]:
    """Wraps the target where it is, and returns what undoes it. Raises Unfit."""
    owner: Any = module
    *path, last = target.name.split(".")
    for part in path:
        owner = getattr(owner, part, None)
        if owner is None:
            raise Unfit(f"{target.path}: there is no {part}")
    try:
        found = inspect.getattr_static(owner, last)
    except AttributeError:
        raise Unfit(f"{target.path}: there is no {last}") from None
    kind = type(found) if isinstance(found, staticmethod | classmethod) else None
    function = found.__func__ if kind is not None else found
    if not inspect.isroutine(function):  # in place of a class, a function would break isinstance
        raise Unfit(f"{target.path}: is a {type(function).__name__}, not a function")
    if target.parameters:
        try:
            has = inspect.signature(function).parameters
        except (TypeError, ValueError):
            raise Unfit(f"{target.path}: does not say its parameters") from None
        lacking = [name for name in target.parameters if name not in has]
        if lacking:
            raise Unfit(f"{target.path}: has no parameter {', '.join(lacking)}")
    own = last in vars(owner)
    wrapper = target.wrap(function)
    put = wrapper if kind is None else kind(wrapper)
    try:
        setattr(owner, last, put)
    except (AttributeError, TypeError) as error:
        raise Unfit(f"{target.path}: cannot be replaced: {error}") from None
    return functools.partial(_undo, owner, last, put, found if own else None)


def _undo(owner: Any, name: str, ours: Any, before: Any) -> None:
    if vars(owner).get(name) is not ours:
        return  # somebody wrapped it in turn: ours stays beneath
    if before is None:
        delattr(owner, name)
    else:
        setattr(owner, name, before)


def _reset_in_child() -> None:
    """After fork: another thread may have held the lock, and did not come along."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)


def version_of(package: str) -> str:
    """The version of an installed distribution; empty where nobody says."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except Exception:
        return ""
