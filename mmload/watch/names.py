"""The metrics that a run keeps of a server's own, under names that all servers share: one table.

In: Prometheus samples. Out: values by key; a metric that is split by a label has keys such as
`in_stage.processor`. Everything else that a server exposes is left where it is.
"""

import math
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from mmload.watch.exposition import Reading, read


class Metric(NamedTuple):
    """`names`: what servers call it. Several series of one name are joined by `join`."""

    key: str
    title: str
    kind: Literal["gauge", "counter"]
    names: tuple[str, ...]
    join: Literal["sum", "max"] = "sum"
    by: str = ""  # a label whose values stay apart


METRICS: Final = (
    Metric(
        "running",
        "running",
        "gauge",
        (
            "vllm:num_requests_running",
            "sglang:num_running_reqs",
            "llamacpp:requests_processing",
            "mmload_num_requests_running",
        ),
    ),
    Metric(
        "waiting",
        "waiting",
        "gauge",
        (
            "vllm:num_requests_waiting",
            "sglang:num_queue_reqs",
            "llamacpp:requests_deferred",
            "mmload_num_requests_waiting",
        ),
    ),
    Metric("in_stage", "in stage", "gauge", ("mmload_requests_in_stage",), by="stage"),
    Metric(
        "kv_cache_used",
        "KV cache used",
        "gauge",
        ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"),
        "max",
    ),
    Metric("cache_hit_rate", "prefix cache hit rate", "gauge", ("sglang:cache_hit_rate",), "max"),
    Metric(
        "mm_cache_queries",
        "media cache queries",
        "counter",
        ("vllm:mm_cache_queries_total", "vllm:mm_cache_queries"),
    ),
    Metric(
        "mm_cache_hits",
        "media cache hits",
        "counter",
        ("vllm:mm_cache_hits_total", "vllm:mm_cache_hits"),
    ),
    Metric(
        "prefix_cache_queries",
        "prefix cache queries",
        "counter",
        ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_queries"),
    ),
    Metric(
        "prefix_cache_hits",
        "prefix cache hits",
        "counter",
        ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_hits"),
    ),
    Metric("preemptions", "preemptions", "counter", ("vllm:num_preemptions_total",)),
    Metric(
        "requests",
        "requests ended",
        "counter",
        ("vllm:request_success_total", "sglang:num_requests_total", "mmload_requests_total"),
    ),
    Metric(
        "prompt_tokens",
        "prompt tokens",
        "counter",
        (
            "vllm:prompt_tokens_total",
            "sglang:prompt_tokens_total",
            "llamacpp:prompt_tokens_total",
            "mmload_prompt_tokens_total",
        ),
    ),
    Metric(
        "output_tokens",
        "output tokens",
        "counter",
        (
            "vllm:generation_tokens_total",
            "sglang:generation_tokens_total",
            "llamacpp:tokens_predicted_total",
            "mmload_generation_tokens_total",
        ),
    ),
)
_METRIC: Final = {name: metric for metric in METRICS for name in metric.names}


def chosen(text: str) -> dict[str, float]:
    """What is kept of one scrape; empty when the server has none of it."""
    return joined(read(text, _METRIC))


def joined(readings: Iterable[Reading]) -> dict[str, float]:
    values: dict[str, float] = {}
    for name, labels, value in readings:
        metric = _METRIC[name]
        if not math.isfinite(value):
            continue
        key = f"{metric.key}.{labels.get(metric.by, '')}" if metric.by else metric.key
        if key not in values:
            values[key] = value
        elif metric.join == "sum":
            values[key] += value
        else:
            values[key] = max(values[key], value)
    return values
