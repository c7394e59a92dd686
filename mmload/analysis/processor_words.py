"""Sentences on how the processor ran, from what its spans and its process saw.

One at a time although more workers were asked for; held to one thread; short of memory that
stays; fed with fewer frames than were sent; answered by a cache that the load did not mean to use;
without the owned core that was asked for; and what the hook could not see. In: the loads of the
stages, the joined spans, the processes. Out: (code, message, hint), as `traps` has them.
"""

from collections.abc import Iterator
from typing import Any, Final

from mmload.analysis.bottleneck import NEAR_LIMIT
from mmload.analysis.join import Joined
from mmload.analysis.stages import StageLoad
from mmload.hook.stages import OWNED_CALLS, STAGE_BY_NAME, STOCK_CALLS
from mmload.records import ServerProcess

Warning = tuple[str, str, str]

_THREADS: Final = {"cpu": "OMP_NUM_THREADS (--omp-threads)", "gpu": "--engine-threads"}
MANY_FAULTS: Final = 10_000  # 40 MB of fresh pages a call, a few milliseconds
_KEEP_MEMORY: Final = (
    "Try MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=2147483648 MALLOC_ARENA_MAX=1,"
    " or another allocator by LD_PRELOAD (tcmalloc), and compare."
)


def warnings(
    loads: list[StageLoad],
    joined: Joined | None,
    processes: list[ServerProcess],
    *,
    cores: Any = None,
    reuse_asked: Any = None,
) -> Iterator[Warning]:
    """All of them, those that change the reading most first."""
    by_name = {load.name: load for load in loads}
    processor, decode = by_name.get("processor"), by_name.get("media_decode")
    if decode is not None:
        yield from _frames(decode, processor)
    if joined is not None and reuse_asked == 0:
        yield from _cached(joined)
    if processor is not None:
        yield from _not_owned(joined, processes)
        yield from _one_wide(processor, processes)
    yield from _one_thread(loads, processes, cores)
    if processor is not None:
        yield from _page_faults(processor, processes)
    yield from _blind(processes)
    yield from _merged(processes)


def _frames(decode: StageLoad, processor: StageLoad | None) -> Iterator[Warning]:
    """Where frames were left out; that they were, and what it did, the token check says."""
    had, kept = decode.facts.get("frames_in_file"), decode.facts.get("frames")
    if had is None or kept is None:
        return
    used = processor.facts.get("frames") if processor is not None else None
    given = processor.facts.get("frames_in") if processor is not None else None
    lost_in_processor = used is not None and given is not None and used < given
    if kept >= had and not lost_in_processor:
        return
    message = f"Of {had:.0f} frames a file the loader kept {kept:.0f}"
    if used is not None and given is not None:
        message += f", and the processor used {used:.0f} of the {given:.0f} that it was given"
    where = [
        flag
        for flag, lost in (
            ("--media-io-kwargs (the loader)", kept < had),
            ("--mm-processor-kwargs (the processor)", lost_in_processor),
        )
        if lost
    ]
    yield "frames_lost", message + ".", f"Set by {' and '.join(where)}."


def _cached(joined: Joined) -> Iterator[Warning]:
    for name, facts in zip(joined.stage_names, joined.facts, strict=True):
        hits = facts.sums.get("cache_hits", 0)
        if name == "processor" and hits:
            asked = facts.sums.get("cache_queries", 0)
            yield (
                "processor_cache",
                f"The processor's cache answered for {hits:.0f} of {asked:.0f} media, although none"
                " was repeated: an earlier run had sent the same.",
                "Send other media (--seed), or start the server anew.",
            )


def _not_owned(joined: Joined | None, processes: list[ServerProcess]) -> Iterator[Warning]:
    """Calls that an owned core did not serve in a server that was to have it."""
    if not any("owned_processor" in process.settings for process in processes):
        return
    sums: dict[str, float] = {}
    if joined is not None and "processor" in joined.stage_names:
        sums = joined.facts[joined.stage_names.index("processor")].sums
    stock = {n.removeprefix(STOCK_CALLS): v for n, v in sums.items() if n.startswith(STOCK_CALLS)}
    owned, fell_back = sums.get(OWNED_CALLS, 0), sum(stock.values())
    hint = "docs/processors.md says which calls are the stock processor's."
    if stock:
        reasons = sorted(stock.items(), key=lambda item: -item[1])
        yield (
            "owned_core",
            f"Owned core: {owned:.0f} of {owned + fell_back:.0f} calls; {fell_back:.0f} fell back:"
            f" {', '.join(f'{reason} ({calls:.0f})' for reason, calls in reasons)}.",
            hint,
        )
    elif not owned:
        refused = sorted({str(one.notes["owned"]["refused"]) for one in processes if _refused(one)})
        why = "; ".join(refused) or "the server called no processor that there is one for"
        yield "owned_core", f"Owned core: asked for, but it served no call: {why}.", hint


def _refused(process: ServerProcess) -> bool:
    return "refused" in process.notes.get("owned", {})


def _one_wide(processor: StageLoad, processes: list[ServerProcess]) -> Iterator[Warning]:
    for process in processes:
        workers = process.settings.get("renderer_num_workers")
        width = process.notes.get("pools", {}).get("processor_wait")
        if not isinstance(workers, int) or not isinstance(width, int):
            continue
        if workers > width == processor.observed_width == 1:
            yield (
                "one_wide",
                f"The processor ran one at a time: --renderer-num-workers {workers} did not widen"
                f" it in this version{_version(process)}, which gives it a pool of one thread.",
                "More API server processes do (--api-server-count); each then has a processor cache"
                " of its own.",
            )
            return


def _version(process: ServerProcess) -> str:
    server = process.settings.get("server")
    version = process.notes.get("versions", {}).get(str(server))
    return f" (vLLM {version})" if server == "vllm" and version else ""


def _one_thread(
    loads: list[StageLoad], processes: list[ServerProcess], cores: Any
) -> Iterator[Warning]:
    for load in loads:
        busy = load.capacity_qps is not None and (load.utilisation or 0.0) >= NEAR_LIMIT
        if OWNED_CALLS in load.facts:
            continue  # it has threads of its own
        if busy and load.facts.get("threads") == 1 and isinstance(cores, int) and cores > 1:
            yield (
                "one_thread",
                f"{load.title}: torch was held to one thread, on {cores} cores{_omp(processes)}.",
                f"Set {_THREADS.get(load.phase, 'OMP_NUM_THREADS')} higher and compare."
                if not _traced(processes)
                else "Set OMP_NUM_THREADS higher and compare; it frees the engine's threads too.",
            )


def _traced(processes: list[ServerProcess]) -> list[ServerProcess]:
    return [process for process in processes if "omp_num_threads" in process.settings]


def _omp(processes: list[ServerProcess]) -> str:
    for process in _traced(processes):
        value = process.settings["omp_num_threads"]
        said = "is unset" if value is None else f"is {value}"
        return f"; OMP_NUM_THREADS {said}"
    return ""


def _page_faults(processor: StageLoad, processes: list[ServerProcess]) -> Iterator[Warning]:
    faults = processor.facts.get("minor_faults", 0)
    glibc = any(
        process.settings.get("allocator") == "glibc" and not process.settings.get("malloc_tuned")
        for process in processes
    )
    if faults >= MANY_FAULTS and glibc:
        yield (
            "page_faults",
            f"The processor's thread took {faults:,.0f} page faults a call: glibc gives large"
            " blocks back to the system, and takes them anew each time.",
            _KEEP_MEMORY,
        )


def _blind(processes: list[ServerProcess]) -> Iterator[Warning]:
    """What a process says that it cannot see."""
    said = {(what, why) for one in processes for what, why in one.notes.get("blind", {}).items()}
    for what, why in sorted(said):
        yield "blind", f"The hook could not see {what}: {why}.", ""


def _merged(processes: list[ServerProcess]) -> Iterator[Warning]:
    """Events that no process has a probe for, and where their time went."""
    attached = {event for one in processes for event in one.notes.get("attached", {})}
    missing: dict[str, dict[str, Any]] = {}
    for process in processes:
        missing |= process.notes.get("missing", {})
    for event, said in sorted(missing.items()):
        into = str(said.get("merged") or "")
        if event in attached or not into:
            continue
        stage = STAGE_BY_NAME.get(into)
        where = (
            "is unattributed"
            if into == "unattributed"
            else f"is in {stage.title if stage else into}"
        )
        yield (
            "merged",
            f"Not seen on its own: {event}. Its time {where} ({said.get('reason')}).",
            "This version of the server is not known to the hook.",
        )
