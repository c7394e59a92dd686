"""The bit-identity gate: the stock and the owned processors on the same media, output by output.

In: cases, and how to build a processor. Out: one `CaseResult` a case and owned core. The owned
core is called twice for each case, the first output alive during the second call: buffers that are
used again must neither hold leftovers nor belong to two outputs at once. It keeps its
processors as long as the settings stay the same, and one case's media and outputs at a time.
"""

import enum
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from mmload.parity import media
from mmload.parity.matrix import Case
from mmload.parity.tensors import BFLOAT16, Compared, Tensor, compare, of_array
from mmload.processors.base import Core, MediaProcessor, Processed, Which, load

SEED: Final = 20_261_129
STOCK: Final = "stock"  # as `Processed.core` has it


class Outcome(enum.StrEnum):
    """What became of a case."""

    identical = "identical"  # an owned core made every tensor, bit for bit as stock
    fell_back = "fell_back"  # identical, since stock made it: `reason` says why
    refused = "refused"  # stock refuses it, and so does the owned one, with the same exception
    differs = "differs"


class CaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """`reason`: why it fell back, the exception of both, or in words how it differs."""

    name: str
    family: str
    kind: str
    varies: str
    asked_core: Core
    core: str  # who made the owned output; empty when it was refused
    outcome: Outcome
    reason: str
    tensors: list[Compared]  # those that are not identical
    tokens: list[int]  # of each medium, by stock


class Refused(NamedTuple):
    """A call that raised."""

    kind: str
    message: str


Output = Processed | Refused
Build = Callable[[Which, Case, Core], MediaProcessor]


def build(which: Which, case: Case, core: Core) -> MediaProcessor:
    """The processor of a case. Raises UsageError without the extra `[hf]`."""
    settings = case.settings_of
    return load(
        which,
        case.family,
        image=settings["image"],
        video=settings["video"],
        preset=case.preset,
        core=core,
    )


def machine() -> dict[str, Any]:
    """What the bits may depend on besides versions: vector instructions and threads."""
    import torch

    return {
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "torch_threads": torch.get_num_threads(),
    }


def run(cases: Sequence[Case], cores: Sequence[Core], build: Build = build) -> Iterator[CaseResult]:
    """Results as they come, one a case and core. Raises what `build` raises for no settings."""
    processors = _Processors(build)
    for case in cases:
        yield from _case(case, cores, processors)


class _Processors:
    """Builds processors, and keeps them while cases ask for the same configuration."""

    def __init__(self, build: Build) -> None:
        self._build = build
        self._held: dict[tuple[Which, Core], MediaProcessor | Refused] = {}
        self._configuration: Any = None

    def get(self, which: Which, case: Case, core: Core) -> MediaProcessor | Refused:
        if case.configuration != self._configuration:
            self._held.clear()
            self._configuration = case.configuration
        if (which, core) not in self._held:
            try:
                with _quiet():
                    self._held[which, core] = self._build(which, case, core)
            except Exception as error:
                if not case.settings:  # nothing that the case asks for can be the reason
                    raise
                self._held[which, core] = _refused(error)
        return self._held[which, core]


def _case(case: Case, cores: Sequence[Core], processors: _Processors) -> Iterator[CaseResult]:
    given = [media.make(medium, SEED + place) for place, medium in enumerate(case.media)]
    before = media.fingerprint(given)
    stock = _call(processors.get("stock", case, "auto"), case, given)
    for core in cores:
        owned = processors.get("owned", case, core)
        first = _call(owned, case, given)
        by_owned = isinstance(first, Processed) and first.core != STOCK
        second = _call(owned, case, given) if by_owned else first
        found = _judge(case, core, stock, first)
        again = _judge(case, core, stock, second) if by_owned else found
        if again.outcome is not found.outcome is not Outcome.differs:
            found = msgspec.structs.replace(again, reason=f"the second time: {again.reason}")
        if media.fingerprint(given) != before:
            words = "a processor wrote into the media that it was given"
            found = msgspec.structs.replace(found, outcome=Outcome.differs, reason=words)
        del first, second  # the buffers go back before the next call
        yield found


def _call(processor: MediaProcessor | Refused, case: Case, given: Sequence[Any]) -> Output:
    if isinstance(processor, Refused):
        return processor
    with _quiet():
        try:
            if case.kind == "image":
                return processor.images(given)
            if case.sampling is None:
                return processor.videos(given)
            facts = [
                {"fps": case.sampling, "total_num_frames": medium.frames} for medium in case.media
            ]
            return processor.videos(given, do_sample_frames=True, metadata=facts)
        except Exception as error:
            return _refused(error)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps back what torch and transformers say of odd shapes and read-only arrays."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _refused(error: Exception) -> Refused:
    return Refused(type(error).__name__, " ".join(str(error).split())[:200])


def _judge(case: Case, asked: Core, stock: Output, owned: Output) -> CaseResult:
    def made(outcome: Outcome, reason: str = "", apart: Sequence[Compared] = ()) -> CaseResult:
        return CaseResult(
            name=case.name,
            family=case.family,
            kind=case.kind,
            varies=case.varies,
            asked_core=asked,
            core=owned.core if isinstance(owned, Processed) else "",
            outcome=outcome,
            reason=reason,
            tensors=list(apart),
            tokens=list(stock.tokens) if isinstance(stock, Processed) else [],
        )

    if isinstance(stock, Refused) or isinstance(owned, Refused):
        return made(*_refusals(stock, owned))
    if unlike := _unlike(stock, owned):
        return made(Outcome.differs, unlike)
    apart = [one for one in compare(named(stock), named(owned)) if one.verdict != "identical"]
    if apart:
        return made(Outcome.differs, ", ".join(one.name for one in apart), apart)
    if owned.fallback:
        return made(Outcome.fell_back, owned.fallback)
    if owned.core == STOCK:
        return made(Outcome.differs, "stock served it, and no reason is given")
    return made(Outcome.identical)


def _refusals(stock: Output, owned: Output) -> tuple[Outcome, str]:
    if isinstance(stock, Refused) and isinstance(owned, Refused):
        if stock.kind == owned.kind:
            return Outcome.refused, f"{stock.kind}: {stock.message}"
        return Outcome.differs, (
            f"stock raises {stock.kind} ({stock.message}), owned {owned.kind} ({owned.message})"
        )
    if isinstance(stock, Refused):
        return Outcome.differs, f"owned accepts what stock refuses: {stock.kind}: {stock.message}"
    assert isinstance(owned, Refused)
    return Outcome.differs, f"owned refuses what stock accepts: {owned.kind}: {owned.message}"


def _unlike(stock: Processed, owned: Processed) -> str:
    """What a consumer would notice besides type, shape and values; empty when nothing."""
    for name, value in stock.tensors.items():
        other = owned.tensors.get(name, value)
        if type(other) is not type(value):
            return f"{name} is a {type(other).__name__}, stock's a {type(value).__name__}"
        if hasattr(value, "stride") and other.shape == value.shape:
            if other.stride() != value.stride():
                return f"{name} has strides {other.stride()}, stock's {value.stride()}"
    return ""


def named(processed: Processed) -> dict[str, Tensor]:
    """Every tensor of an output, its grids and its token counts."""
    tensors = {name: _tensor(value) for name, value in processed.tensors.items()}
    counts = {
        "grids": of_array(np.array(processed.grids, np.int64)),
        "tokens": of_array(np.array(processed.tokens, np.int64)),
    }
    return tensors | {name: tensor for name, tensor in counts.items() if name not in tensors}


def _tensor(value: Any) -> Tensor:
    if str(getattr(value, "dtype", "")) == "torch.bfloat16":
        import torch

        return Tensor(BFLOAT16, value.detach().cpu().view(torch.uint16).numpy())
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return of_array(np.asarray(value))
