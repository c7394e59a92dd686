"""What is said of how the processor ran, and what moves it: each on a run made to have just that.

The run: 150 requests at 5/s, 300 ms each in a processor that takes one at a time.
"""

from typing import Any

import pytest

from mmload.analysis.remedies import ANY_SERVER, remedies
from mmload.analysis.summary import summarise
from mmload.records import ServerProcess
from tests.unit.analysis_samples import DeterministicQueue, S, manifest, span

VLLM = {"server": "vllm", "renderer_num_workers": 4, "omp_num_threads": None, "allocator": "glibc"}
POOLS = {"renderer_wait": 4, "processor_wait": 1}


def process(
    settings: dict[str, Any] | None = None, pools: dict[str, int] | None = None, **notes: Any
) -> ServerProcess:
    pools = POOLS if pools is None else pools
    said = {"versions": {"vllm": "0.32.0"}, "pools": pools, **notes}
    return ServerProcess(pid=1, settings={**VLLM, **(settings or {})}, notes=said)


def summary(
    *processes: ServerProcess, media: dict[str, Any] | None = None, **facts: Any
) -> dict[str, Any]:
    queue = DeterministicQueue()
    for one in queue.spans:
        if one.stage == "processor":
            one.facts |= facts
    asked = manifest(planned=150, asked_qps=5.0, schedule_s=30.0, traced=True, media=media or {})
    return summarise(asked, queue.end, queue.table, queue.spans, list(processes), 0).summary


def said(found: dict[str, Any], code: str) -> list[str]:
    return [f"{w['message']} {w['hint']}" for w in found["warnings"] if w["code"] == code]


def test_workers_that_did_not_widen_the_processor() -> None:
    assert said(summary(process()), "one_wide") == [
        "The processor ran one at a time: --renderer-num-workers 4 did not widen it in this version"
        " (vLLM 0.32.0), which gives it a pool of one thread. More API server processes do"
        " (--api-server-count); each then has a processor cache of its own."
    ]


@pytest.mark.parametrize(
    ("settings", "pools"),
    [
        ({"renderer_num_workers": 1}, POOLS),  # nobody asked for more
        ({}, {"renderer_wait": 4}),  # an older version: the renderer's pool is the processor's
        ({}, {"renderer_wait": 4, "processor_wait": 4}),  # wide, and the load may be what is low
        ({"renderer_num_workers": None}, POOLS),
    ],
)
def test_a_processor_that_is_as_wide_as_was_asked(
    settings: dict[str, Any], pools: dict[str, int]
) -> None:
    assert said(summary(process(settings, pools)), "one_wide") == []


@pytest.mark.parametrize(
    ("omp", "words"),
    [(None, "; OMP_NUM_THREADS is unset."), (1, "; OMP_NUM_THREADS is 1.")],
)
def test_one_thread_and_why(omp: int | None, words: str) -> None:
    [warning] = said(summary(process({"omp_num_threads": omp}), threads=1), "one_thread")
    assert warning == (
        f"processor: torch was held to one thread, on 2 cores{words}"
        " Set OMP_NUM_THREADS higher and compare; it frees the engine's threads too."
    )
    assert said(summary(process({"omp_num_threads": omp}), threads=2), "one_thread") == []


@pytest.mark.parametrize(
    ("facts", "settings", "warned"),
    [
        ({"minor_faults": 91_131}, {}, True),
        ({"minor_faults": 9_999}, {}, False),
        ({"minor_faults": 91_131}, {"allocator": "tcmalloc"}, False),
        ({"minor_faults": 91_131}, {"malloc_tuned": True}, False),
    ],
)
def test_page_faults_and_what_to_try(
    facts: dict[str, Any], settings: dict[str, Any], warned: bool
) -> None:
    found = said(summary(process(settings), **facts), "page_faults")
    assert len(found) == warned
    if warned:
        assert "took 91,131 page faults a call" in found[0]
        assert "MALLOC_MMAP_THRESHOLD_=" in found[0]


def test_cache_hits_that_nobody_meant() -> None:
    asked = {"reuse_asked": 0}
    facts: dict[str, Any] = {"cache_queries": 2, "cache_hits": 1}
    [warning] = said(summary(process(), media=asked, **facts), "processor_cache")
    assert "answered for 150 of 300 media, although none was repeated" in warning
    assert said(summary(process(), media={"reuse_asked": 0.5}, **facts), "processor_cache") == []


@pytest.mark.parametrize(
    ("loader", "processor", "message"),
    [
        ((15, 15), (15, 15), ""),
        (
            (15, 4),
            (4, 4),
            "Of 15 frames a file the loader kept 4, and the processor used 4 of the 4 that it was"
            " given. Set by --media-io-kwargs (the loader).",
        ),
        (
            (15, 15),
            (15, 6),
            "Of 15 frames a file the loader kept 15, and the processor used 6 of the 15 that it was"
            " given. Set by --mm-processor-kwargs (the processor).",
        ),
        (
            (30, 15),
            (15, 6),
            "Of 30 frames a file the loader kept 15, and the processor used 6 of the 15 that it was"
            " given. Set by --media-io-kwargs (the loader) and --mm-processor-kwargs (the"
            " processor).",
        ),
    ],
)
def test_where_frames_were_left_out(
    loader: tuple[int, int], processor: tuple[int, int], message: str
) -> None:
    queue = DeterministicQueue()
    for one in list(queue.spans):
        if one.stage == "processor":
            one.facts |= {"frames_in": processor[0], "frames": processor[1]}
            start_ns = one.start_ns - 7_000 * S
            facts = {"frames_in_file": loader[0], "frames": loader[1]}
            queue.spans.append(span(one.request_id, "media_decode", start_ns, start_ns, **facts))
    asked = manifest(planned=150, asked_qps=5.0, schedule_s=30.0, traced=True)
    found = summarise(asked, queue.end, queue.table, queue.spans, [], 0).summary
    assert said(found, "frames_lost") == ([message] if message else [])


def test_what_could_not_be_seen_and_where_its_time_went() -> None:
    gone = {"reason": "vllm.x:Y: there is no Y", "merged": "processor"}
    inside = process(
        attached={"handoff": "vllm.z:Z"},
        missing={
            "processor steps": gone,
            "handoff": gone,  # a second choice was found
            "tokenize": {"reason": "r", "merged": "unattributed"},
            "processor cache": {"reason": "r", "merged": ""},  # costs facts, not time
        },
    )
    engine = process(attached={"encoder": "e"}, missing={"encoder": gone, "handoff": gone})
    found = summary(inside, engine)
    assert [message.partition(" This")[0] for message in said(found, "merged")] == [
        "Not seen on its own: processor steps. Its time is in processor (vllm.x:Y: there is no Y).",
        "Not seen on its own: tokenize. Its time is unattributed (r).",
    ]


def test_blind_spots_are_told_once() -> None:
    one = process(blind={"engine queue": "--disable-log-stats"})
    assert said(summary(one, one), "blind") == [
        "The hook could not see engine queue: --disable-log-stats. "
    ]


def test_the_bottleneck_s_remedy_is_in_the_server_s_own_flags() -> None:
    plain = summary(process())["bottleneck"]
    assert plain["settings"] == ["--api-server-count", "OMP_NUM_THREADS"]
    assert plain["sentence"].endswith(
        "More API server processes (--api-server-count) or a faster processor move it."
    )
    there = summary(process({"mm_device_do_normalize": False}))["bottleneck"]
    assert there["settings"][0] == "--mm-device-do-normalize"
    older = summary(process(pools={"renderer_wait": 1}))["bottleneck"]
    assert older["settings"][0] == "--renderer-num-workers"


def test_a_server_that_does_not_say_what_it_is_gets_all_names() -> None:
    assert remedies([ServerProcess(pid=1)]) is ANY_SERVER
    engine = ServerProcess(pid=2, settings={"server": "vllm"})  # no pools: not the API server
    assert remedies([engine]) is ANY_SERVER
    assert "--renderer-workers" not in remedies([engine, process()])["tokenize"].settings


OWNED = {"owned_processor": "auto"}


def owned_summary(stock: dict[int, str], **notes: Any) -> dict[str, Any]:
    """Of 150 calls those with these numbers were stock's."""
    queue = DeterministicQueue()
    calls = [one for one in queue.spans if one.stage == "processor"]
    for number, one in enumerate(calls):
        one.facts |= {f"stock_calls: {stock[number]}" if number in stock else "owned_calls": 1}
    asked = manifest(planned=150, asked_qps=5.0, schedule_s=30.0, traced=True)
    server = process(OWNED, **notes)
    return summarise(asked, queue.end, queue.table, queue.spans, [server], 0).summary


def test_calls_that_were_not_the_owned_cores() -> None:
    found = owned_summary({3: "grey or alpha", 7: "do_resize False", 50: "grey or alpha"})
    assert said(found, "owned_core") == [
        "Owned core: 147 of 150 calls; 3 fell back: grey or alpha (2), do_resize False (1)."
        " docs/processors.md says which calls are the stock processor's."
    ]
    # means over calls that say it: of no use for the reasons
    assert found["stages"]["processor"]["facts"] == {"owned_calls": 1.0}


def test_nothing_is_said_where_the_owned_core_served_all() -> None:
    found = owned_summary({})
    assert said(found, "owned_core") == []


def test_an_owned_core_that_never_came() -> None:
    end = " docs/processors.md says which calls are the stock processor's."
    start = "Owned core: asked for, but it served no call: "
    none = "the server called no processor that there is one for."
    assert said(summary(process(OWNED)), "owned_core") == [start + none + end]
    refused = "transformers.x: ImportError: No module named 'cv2'"
    server = process(OWNED, owned={"refused": refused})
    assert said(summary(server), "owned_core") == [f"{start}{refused}.{end}"]
    assert said(summary(process()), "owned_core") == []


def test_torchs_threads_do_not_matter_to_an_owned_core() -> None:
    assert said(summary(process(OWNED), threads=1, owned_calls=1), "one_thread") == []
