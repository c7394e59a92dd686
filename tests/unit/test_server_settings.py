"""The embedded server's settings and what it says of itself at /metrics."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmload.errors import UsageError
from mmload.server.__main__ import main
from mmload.server.metrics import Metrics
from mmload.server.settings import ServerSettings, server_flags, server_settings

MS = 1_000_000


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"renderer_workers": "0"}, "--renderer-workers '0': Input should be greater than or"),
        ({"processor_fixed_ms": "inf"}, "--processor-fixed-ms 'inf': Input should be a finite"),
        ({"port": 70_000}, "--port 70000: Input should be less than or equal to 65535"),
        ({"colour": 1}, "--colour 1: Extra inputs are not permitted"),
    ],
)
def test_refused_settings_name_the_flag(values: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        server_settings(values)
    assert caught.value.message.startswith(words) and "--help" in caught.value.hint


@given(
    workers=st.integers(1, 256),
    fixed_ms=st.none() | st.floats(0.001, 1e6),
    model=st.text(st.characters(codec="ascii", categories=["L", "P"]), min_size=1, max_size=9),
    quiet=st.booleans(),
)
def test_flags_give_the_settings_back(
    workers: int, fixed_ms: float | None, model: str, quiet: bool
) -> None:
    settings = ServerSettings(
        renderer_workers=workers, processor_fixed_ms=fixed_ms, model=model, no_request_log=quiet
    )
    seen: list[ServerSettings] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mmload.server.__main__.serve", lambda s, **_: seen.append(s))
        assert main(server_flags(settings)) == 0
    assert seen == [settings]


def test_defaults_need_no_flags() -> None:
    assert server_flags(ServerSettings()) == ()


def test_what_is_simulated_is_said() -> None:
    assert ServerSettings().described()["simulated"] == (
        "accelerator (encoder, prefill, decode) by a cost model"
    )
    assert (
        ServerSettings(processor_fixed_ms=300)
        .simulated()
        .endswith("; processor, 300 ms by a timer")
    )


def test_omp_threads_set_the_environment() -> None:
    environment = ServerSettings(omp_threads=3).environment()
    assert environment["OMP_NUM_THREADS"] == environment["OPENBLAS_NUM_THREADS"] == "3"
    assert "OMP_NUM_THREADS" not in ServerSettings().environment()


class ManualClock:
    def __init__(self) -> None:
        self.ns = 0

    def now_ns(self) -> int:
        return self.ns


def test_metrics() -> None:
    clock = ManualClock()
    metrics = Metrics(clock)
    first, second = metrics.enter("renderer_wait"), metrics.enter("renderer_wait")
    metrics.enter("engine_wait")
    metrics.enter("decode")
    clock.ns = 250 * MS
    first.leave()
    first.leave()  # once is enough
    metrics.first_token(3 * MS)
    metrics.request_ended(200, 100_001 * MS)
    metrics.request_ended(400, 1 * MS)
    metrics.answered(3_259, 5)
    lines = metrics.text().splitlines()
    for line in (
        'mmload_requests_in_stage{stage="renderer_wait"} 1',
        "mmload_num_requests_running 1",
        "mmload_num_requests_waiting 1",
        'mmload_requests_total{status="200"} 1',
        'mmload_requests_total{status="400"} 1',
        "mmload_prompt_tokens_total 3259",
        "mmload_generation_tokens_total 5",
        'mmload_stage_seconds_bucket{stage="renderer_wait",le="0.1"} 0',
        'mmload_stage_seconds_bucket{stage="renderer_wait",le="0.25"} 1',
        'mmload_stage_seconds_bucket{stage="renderer_wait",le="+Inf"} 1',
        'mmload_stage_seconds_sum{stage="renderer_wait"} 0.25',
        'mmload_stage_seconds_count{stage="renderer_wait"} 1',
        'mmload_time_to_first_token_seconds_bucket{le="0.005"} 1',
        'mmload_e2e_request_seconds_bucket{le="0.001"} 1',
        'mmload_e2e_request_seconds_bucket{le="100.0"} 1',
        'mmload_e2e_request_seconds_bucket{le="+Inf"} 2',
        "mmload_e2e_request_seconds_sum 100.002",
    ):
        assert line in lines
    second.leave()
    assert metrics.in_stage("renderer_wait") == 0
