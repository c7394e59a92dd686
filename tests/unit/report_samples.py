"""Hand-made summaries for the report's tests, one for each situation that a report must handle.

The numbers of `growing` hang together: 5 requests/s against one processor thread of 300 ms
(capacity 3.33/s) leave 1.67 requests/s behind, so after 30 s the queue holds 50 of 150.
"""

import copy
from typing import Any

Summary = dict[str, Any]

EVIL = '<script>alert(1)</script> | "quoted" & \x1b[31mred\x1b[0m </script> [bold]x[/bold] \x00'


def dist(n: int, p50: float, p90: float, p99: float, top: float, mean: float) -> Summary:
    return {"n": n, "mean": mean, "p50": p50, "p90": p90, "p99": p99, "p99_9": None, "max": top}


def _stage(phase: str, title: str, mean: float, **more: Any) -> Summary:
    ms = dist(150, mean * 0.98, mean * 1.15, mean * 1.3, mean * 1.31, mean)
    values = {
        "title": title,
        "phase": phase,
        "ms": ms,
        "self_ms": ms,
        "mean_ms": mean,
        "n": 150,
        "calls": 150,
        "utilisation": 5 * mean / 1000,
        "observed_width": 1,
        "configured_width": None,
        "capacity_qps": 1000 / mean,
        "facts": {},
    }
    if title.endswith(("wait", "queue")):
        values |= {"utilisation": None, "capacity_qps": None, "observed_width": 49}
    return values | more


STAGES: Summary = {
    "schedule_lag": _stage("client", "schedule lag", 0.21, utilisation=None, capacity_qps=None),
    "send": _stage("client", "send", 0.94),
    "http_receive": _stage("cpu", "HTTP receive and parse", 6.1, observed_width=2),
    "media_decode": _stage("cpu", "media decode", 41.0, observed_width=2, configured_width=8),
    "tokenize": _stage("cpu", "chat template + tokenise", 3.4, configured_width=1),
    "processor_wait": _stage("queueing", "processor wait", 8264.0),
    "processor": _stage(
        "cpu",
        "processor",
        300.0,
        configured_width=1,
        facts={"threads": 1, "cpu_ms": 291.0, "frames": 15},
    ),
    "engine_wait": _stage("queueing", "engine queue", 0.8),
    "prefill": _stage("gpu", "prefill", 60.0, facts={"simulated": True}),
    "decode": _stage("gpu", "decode", 180.0, observed_width=2, facts={"simulated": True}),
    "stream_out": _stage("output", "stream out", 2.2),
}


def _column(request: int | None, scale: float) -> Summary:
    """A split whose queueing is `scale` times the mean's and whose work is the mean's."""
    stages = {name: stage["mean_ms"] for name, stage in STAGES.items()}
    stages["processor_wait"] *= scale
    phases = dict.fromkeys(("client", "queueing", "cpu", "gpu", "output"), 0.0)
    for name, value in stages.items():
        phases[STAGES[name]["phase"]] += value
    phases["unattributed"] = 4.3
    column = {"e2e_ms": sum(phases.values()), "phases": phases, "stages": stages}
    who = {} if request is None else {"request_id": f"r-{request:06d}", "index": request}
    return who | column


def growing() -> Summary:
    """VALID, and the queue grows: the failure that this tool is for."""
    one = {
        "planned": 150,
        "sent": 150,
        "ok": 150,
        "failed": {},
        "lag_ms": dist(150, 0.18, 0.31, 0.74, 0.92, 0.21),
        "ttft_ms": dist(150, 8484.0, 15280.0, 16828.0, 16991.0, 8471.3),
        "ttft_from_sent_ms": dist(150, 8483.8, 15279.7, 16827.6, 16990.8, 8471.1),
        "tpot_ms": dist(150, 12.1, 12.9, 13.8, 14.2, 12.0),
        "e2e_ms": dist(150, 8664.0, 15460.0, 17008.0, 17171.0, 8862.95),
        "body_bytes": 1_241_318.0,
        "prompt_tokens": 3330.0,
        "output_tokens": 16.0,
    }
    latency = {k: one[k] for k in ("lag_ms", "ttft_ms", "ttft_from_sent_ms", "tpot_ms", "e2e_ms")}
    return copy.deepcopy(
        {
            "schema": 1,
            "mmload": "0.1.0",
            "run": {
                "name": "fifteen-frames",
                "digest": "9f2c51d0a7be44e1c83f0d6b5a2e7791",
                "started_at": "2026-03-02T10:15:00Z",
                "target": "http://127.0.0.1:8000/v1/chat/completions",
                "model": "tiny-qwen3-vl",
                "load_mode": "open",
                "machine": {
                    "host_os": "Linux 6.1.0",
                    "cpu": "AMD EPYC 7B13",
                    "cores": 2,
                    "memory_gib": 24.0,
                    "python": "3.11.2",
                },
                "server": {"processor_workers": 1, "torch_threads": 1, "media_threads": 8},
                "span_source": "the embedded server's hook",
                "simulated": "prefill and decode sleep for 60 ms and 12 ms a token",
                "scenario": {
                    "name": "fifteen-frames",
                    "qps": 5.0,
                    "duration": 30.0,
                    "arrival": "constant",
                    "frames": [15],
                    "size": ["854x480"],
                    "as": "video",
                },
            },
            "valid": True,
            "invalid_reasons": [],
            "interrupted": False,
            "planned": 150,
            "sent": 150,
            "dropped": 0,
            "unsent": 0,
            "ok": 150,
            "failed": {},
            "failure_messages": {},
            "asked_qps": 5.0,
            "achieved_qps": 5.0003,
            "schedule_s": 30.0,
            "elapsed_s": 45.4,
            "lag_limit_ms": 25.0,
            **latency,
            "ttfo_ms": one["ttft_ms"],
            "chunk_gap_ms": dist(2250, 12.0, 12.6, 14.4, 31.0, 12.1),
            "e2e_from_sent_ms": dist(150, 8663.8, 15459.7, 17007.6, 17170.8, 8862.7),
            "tokens": {
                "prompt": 499_500,
                "output": 2400,
                "cached": None,
                "media": None,
                "source": "usage",
                "output_per_s": 52.9,
            },
            "classes": {"15 frames 854x480": one},
            "stages": STAGES,
            "phases": {
                "mean": _column(None, 1.0),
                "p50": _column(74, 0.98),
                "p90": _column(134, 1.8),
                "p99": _column(148, 1.98),
            },
            "queue": {
                "verdict": "growing",
                "growth_per_s": 1.667,
                "in_flight_max": 51,
                "smallest_overload_seen": 0.231,
                "reason": "the backlog rose in 10 of 10 windows, from 1 to 51 requests",
                "stages": {"processor_wait": {"verdict": "growing", "growth_per_s": 1.66}},
            },
            "bottleneck": {
                "stage": "processor",
                "utilisation": 1.5,
                "capacity_qps": 3.333,
                "width": 1,
                "settings": ["--renderer-num-workers", "--api-server-count", "OMP_NUM_THREADS"],
                "sentence": "The processor is the bottleneck: 300 ms a request on 1 thread serve"
                " 3.33 requests/s, and 5.00 arrive (utilisation 1.50).",
            },
            "joined": 150,
            "unjoined": 0,
            "joined_partly": 0,
            "stray_spans": 0,
            "unattributed_ms": dist(150, 4.1, 5.6, 7.9, 9.2, 4.3),
            "server_processes": [
                {"pid": 4242, "role": "server", "settings": {"processor_workers": 1}, "lost": 0}
            ],
            "media": {
                "classes": {"15 frames 854x480": {"share": 1.0, "frames": 15}},
                "base_contents": 150,
                "reuse_asked": 0.0,
                "reuse_actual": 0.0,
                "bytes": 186_197_700,
            },
            "warnings": [
                {
                    "code": "one_thread",
                    "message": "processor: torch was held to one thread, on 2 cores.",
                    "hint": "Set OMP_NUM_THREADS higher and compare.",
                }
            ],
            "definitions": {
                "TTFT": "First output token's arrival minus the intended send time.",
                "E2E": "Last output token's arrival minus the intended send time.",
            },
        }
    )


def stable() -> Summary:
    """VALID and stable, two media classes, nothing simulated, reasoning output."""
    summary = growing()
    summary["run"]["simulated"] = ""
    for stage in summary["stages"].values():
        stage["facts"].pop("simulated", None)
        if stage["utilisation"]:
            stage["utilisation"] *= 0.4
    wait = summary["stages"]["processor_wait"]
    wait |= {"ms": dist(200, 9.0, 41.0, 88.0, 97.0, 14.0), "mean_ms": 14.0, "observed_width": 2}
    wait["self_ms"] = wait["ms"]
    for column in summary["phases"].values():
        extra = column["stages"]["processor_wait"] - 14.0
        column["stages"]["processor_wait"] = 14.0
        column["phases"]["queueing"] -= extra
        column["e2e_ms"] -= extra
    latency = {
        "lag_ms": dist(200, 0.2, 0.3, 0.6, 0.7, 0.2),
        "ttft_ms": dist(200, 421.0, 502.0, 588.0, 601.0, 430.0),
        "ttft_from_sent_ms": dist(200, 420.8, 501.8, 587.9, 600.7, 429.8),
        "tpot_ms": dist(200, 12.0, 12.4, 13.1, 13.9, 12.1),
        "e2e_ms": dist(200, 604.0, 689.0, 771.0, 790.0, 612.0),
    }
    counts = {"planned": 100, "sent": 100, "ok": 100}
    frames = summary["classes"]["15 frames 854x480"] | counts
    frames |= {key: {**latency[key], "n": 100} for key in latency}
    image = frames | {
        "ttft_ms": dist(100, 96.0, 120.0, 131.0, 131.0, 99.0),
        "ttft_from_sent_ms": dist(100, 95.8, 119.7, 130.8, 130.8, 98.8),
        "e2e_ms": dist(100, 276.0, 301.0, 312.0, 312.0, 279.0),
        "body_bytes": 96_400.0,
        "prompt_tokens": None,
    }
    summary["classes"] = {"15 frames 854x480": frames, "1 image 1024x768": image}
    summary |= {
        **latency,
        "ttfo_ms": dist(200, 640.0, 700.0, 802.0, 822.0, 655.0),
        "planned": 200,
        "sent": 200,
        "ok": 200,
        "asked_qps": 2.0,
        "achieved_qps": 2.0,
        "schedule_s": 100.0,
        "elapsed_s": 100.6,
        "joined": 200,
        "queue": {
            "verdict": "stable",
            "growth_per_s": 0.001,
            "in_flight_max": 3,
            "smallest_overload_seen": 0.2,
            "reason": "no trend over 10 windows; an overload of 20% would have shown",
            "stages": {"processor_wait": {"verdict": "stable", "growth_per_s": 0.0}},
        },
        "bottleneck": {
            "stage": "processor",
            "utilisation": 0.6,
            "capacity_qps": 3.333,
            "width": 1,
            "settings": ["--renderer-num-workers"],
            "sentence": "The processor is the busiest stage (utilisation 0.60); it would hold"
            " the server to 3.33 requests/s.",
        },
        "warnings": [],
    }
    return summary


def invalid() -> Summary:
    """INVALID: the generator was late; the reason carries cause and remedy."""
    summary = growing()
    summary |= {
        "valid": False,
        "invalid_reasons": [
            "The generator was late: p99 of the schedule lag is 41.2 ms, over the limit of"
            " 25.0 ms. Use --workers 2, or run the generator on another machine.",
            "3 records were lost. Free some disk space.",
        ],
        "lag_ms": dist(150, 0.4, 12.0, 41.2, 55.0, 3.0),
        "sent": 148,
        "ok": 148,
        "dropped": 2,
    }
    return summary


def no_spans() -> Summary:
    """A third-party server without the hook: everything from inside the server is null."""
    summary = stable()
    outside = {
        "e2e_ms": 612.0,
        "phases": {"client": 1.2, "unattributed": 610.8},
        "stages": {"schedule_lag": 0.2, "send": 1.0, "unattributed": 610.8},
    }
    summary |= {
        "stages": {},
        "phases": {"mean": outside, "p50": outside, "p90": outside, "p99": None},
        "bottleneck": None,
        "joined": 0,
        "unjoined": 200,
        "unattributed_ms": None,
        "server_processes": [],
        "tokens": {"prompt": None, "output": 3200, "source": "chunks", "output_per_s": None},
    }
    summary["run"] |= {
        "server": None,
        "span_source": "the server was started without mmload's hook",
    }
    summary["queue"]["stages"] = {}
    return summary


def failures() -> Summary:
    """Some requests failed, with messages that a hostile server could send; interrupted."""
    summary = growing()
    summary |= {
        "ok": 140,
        "interrupted": True,
        "unsent": 7,
        "planned": 157,
        "failed": {"http_error": 6, "timeout": 4, "malformed": 0},
        "failure_messages": {
            "http_error": [f"HTTP 500: {EVIL}", "HTTP 503: overloaded, try again later"],
            "timeout": ["no answer in 60 s"],
        },
    }
    summary["queue"] |= {"verdict": "cant_tell", "growth_per_s": None, "reason": "too short"}
    summary["run"]["model"] = EVIL
    summary["warnings"].append({"code": "evil", "message": EVIL, "hint": ""})
    summary["classes"] = {EVIL: summary["classes"]["15 frames 854x480"]}
    return summary


def empty() -> Summary:
    """No request was sent, so that every figure is null."""
    full = growing()
    summary: Summary = dict.fromkeys(full)
    summary |= {
        "schema": 1,
        "mmload": "0.1.0",
        "run": dict.fromkeys(full["run"]),
        "valid": False,
        "invalid_reasons": ["No request was sent. Check the target and the scenario's rate."],
        "interrupted": False,
        **dict.fromkeys(("planned", "sent", "dropped", "unsent", "ok"), 0),
    }
    return summary


def closed() -> Summary:
    """A closed loop: nothing was asked for, and the rate is the answer."""
    summary = stable()
    summary |= {"asked_qps": None, "achieved_qps": 3.21}
    summary["run"] |= {"load_mode": "closed", "scenario": {"concurrency": 4}}
    return summary


def sequential() -> Summary:
    """One at a time over two resolutions, with expected answers; the server samples the video."""
    summary = no_spans()
    frames, image = summary["classes"].values()
    names = ("image 512x512", "image 1024x1024", "15 frames 854x480")
    summary["classes"] = dict(zip(names, (image, image, frames), strict=True))
    summary |= {"asked_qps": None, "achieved_qps": 0.16}
    summary["run"] |= {"load_mode": "sequential", "scenario": {"sequential": True}}
    row = {
        "samples": 60,
        "failed": 0,
        "avg_ttft_ms": 1382.53,
        "min_ttft_ms": 1204.12,
        "max_ttft_ms": 2278.28,
        "std_dev_ttft_ms": 171.63,
        "avg_total_ms": 5975.24,
    }
    slower = {key: value * 3 for key, value in row.items() if key.endswith("_ms")}
    summary["sequential"] = [
        {"class": names[0], "resolution": "512x512"} | row,
        {"class": names[1], "resolution": "1024x1024"} | row | slower,
        {"class": "photographs", "resolution": "1920x1080"}
        | dict.fromkeys(row)
        | {"samples": 0, "failed": 3},
    ]
    scores = {
        "metrics": ["vqa"],
        "n": 60,
        "left_out": 0,
        "score": 0.7221,
        "exact": 0.7744,
        "contains": 0.8012,
        "vqa": 0.7221,
        "yesno": None,
    }
    pope = {
        "n": 60,
        "accuracy": 0.8039,
        "precision": 0.9331,
        "recall": 0.6546,
        "f1": 0.7694,
        "yes_share": 0.35,
        "unclear": 2,
    }
    yes_no = scores | {"metrics": ["yesno"], "score": 0.8039, "vqa": None, "left_out": 1}
    summary["answers"] = {
        "all": scores | {"n": 120, "left_out": 1, "score": 0.763, "yesno": pope},
        "classes": {names[0]: yes_no | {"yesno": pope}, names[1]: scores},
    }
    summary["media_check"] = {
        "family": "qwen3-vl",
        "title": "Qwen3-VL",
        "guessed_from": "tiny-qwen3-vl",
        "classes": {
            names[0]: {
                "verdict": "as_sent",
                "sentence": "1 image used: 274 prompt tokens counted, 256 by the arithmetic and 0"
                " to 150 for the text (an allowance for prompt and template)",
            },
            names[2]: {
                "verdict": "sampled",
                "sentence": "15 frames sent, the server used 5 or 6: 1,215 media tokens counted,"
                " 3,240 by the arithmetic",
            },
        },
    }
    for one in summary["classes"].values():
        one["cached_tokens"] = 16.0
    return summary


def series() -> Summary:
    """The points behind the charts of `growing`: one a second for 45 s, and 150 requests."""
    time_s = [float(t) for t in range(46)]
    arrivals = [min(5 * t, 150) for t in range(46)]
    completions = [min(10 * t // 3, 150) for t in range(46)]
    backlog = [a - c for a, c in zip(arrivals, completions, strict=True)]
    sent = [i / 5 for i in range(150)]
    ttft = [483.0 + 100 * i for i in range(150)]
    e2e = [value + 180 for value in ttft]
    percent = [50.0, 75.0, 90.0, 95.0, 99.0]
    return {
        "queue": {
            "time_s": time_s,
            "arrivals": arrivals,
            "completions": completions,
            "backlog": backlog,
            "stages": {
                "processor_wait": {"time_s": time_s, "backlog": [max(b - 1, 0) for b in backlog]},
                "processor": {"time_s": time_s, "backlog": [min(b, 1) for b in backlog]},
            },
        },
        "latency": {
            "time_s": sent,
            "ttft_ms": ttft,
            "e2e_ms": e2e,
            "class": ["15 frames 854x480"] * 150,
        },
        "curve": {
            "ttft": {"percent": percent, "ms": [8484.0, 12000.0, 15280.0, 16000.0, 16828.0]},
            "e2e": {"percent": percent, "ms": [8664.0, 12180.0, 15460.0, 16180.0, 17008.0]},
            "ttft: 1 image": {"percent": [50.0, 90.0], "ms": [96.0, None]},
        },
        "outcomes": {
            "time_s": [0.0, 10.0, 20.0],
            "bin_s": 10,
            "ok": [50, 46, 44],
            "failed": {"http_error": [0, 2, 4], "timeout": [0, 2, 2]},
        },
    }
