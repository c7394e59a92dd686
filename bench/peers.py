"""The peers: `vllm bench serve`, aiperf and guidellm, each in a virtual environment of its own.

Every peer gets its most favourable documented way to send such bodies, its defaults otherwise, and
a tokenizer of two words where it insists on one, so that none spends its time on tokenising.
"""

import json
import shutil
import subprocess
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Final

from bench import bodies
from bench.bodies import Kind
from bench.tools import Load, Seen, whole_bodies, write_lines

# guidellm reads each row of its data once, so that there must be a row a request; rows beyond what
# it can send would only cost it memory and start-up time.
GUIDELLM_ROWS: Final = 2000
VERSION_TIMEOUT_S: Final = 120
GUIDELLM_EXTRA_S: Final = 5.0  # beyond the schedule, before it stops sending


class Peer:
    """A program in its own virtual environment, `HOME/NAME/bin/NAME`."""

    name: ClassVar[str]
    fine_exits: ClassVar[tuple[int, ...]] = (0,)
    environment: ClassVar[Mapping[str, str]] = {}

    def __init__(self, home: Path) -> None:
        self._program = home / self.name / "bin" / self.name

    def missing(self) -> str:
        return "" if shutil.which(self._program) else str(self._program)

    def version(self) -> str:
        """What it prints as its version: the last word."""
        asked = [str(self._program), "--version"]
        found = subprocess.run(asked, capture_output=True, text=True, timeout=VERSION_TIMEOUT_S)
        words = found.stdout.split()
        return words[-1] if words else "unknown"


class Vllm(Peer):
    """`vllm bench serve`: the custom_image dataset takes data URLs of images, as they are.

    None of its datasets takes a video file from disk into the body, so it sends frames.
    """

    name: ClassVar[str] = "vllm"
    kinds: ClassVar[tuple[Kind, ...]] = ("frames",)

    def command(self, load: Load, folder: Path) -> list[str]:
        rows = ({"content": bodies.parts(load.kind, clip)} for clip in range(bodies.CLIPS))
        data = write_lines(folder / "data.jsonl", rows)
        return [
            *(str(self._program), "bench", "serve", "--backend", "openai-chat"),
            *("--base-url", load.url, "--endpoint", "/v1/chat/completions", "--model", "truth"),
            *("--dataset-name", "custom_image", "--dataset-path", str(data)),
            *("--custom-output-len", str(bodies.MAX_TOKENS), "--skip-tokenizer-init"),
            *("--request-rate", f"{load.rate:g}", "--burstiness", "inf"),
            *("--num-prompts", str(load.planned), "--ready-check-timeout-sec", "0"),
            *("--disable-tqdm", "--save-result", "--save-detailed"),
            *("--result-dir", str(folder), "--result-filename", "result.json"),
        ]

    def read(self, folder: Path) -> list[Seen]:
        result = json.loads((folder / "result.json").read_bytes())
        rows = zip(
            result["generated_texts"],
            result["ttfts"],
            result["start_times"],
            result["errors"],
            strict=True,
        )
        return [  # its clock is perf_counter, which is CLOCK_MONOTONIC on Linux
            Seen(key=text.split()[0], ttft_ns=round(ttft * 1e9), sent_ns=round(start * 1e9))
            for text, ttft, start, error in rows
            if not error
        ]


class Aiperf(Peer):
    """`aiperf profile` with raw payloads: the body's bytes are ready and sent as they are."""

    name: ClassVar[str] = "aiperf"
    kinds: ClassVar[tuple[Kind, ...]] = ("video", "frames")

    def command(self, load: Load, folder: Path) -> list[str]:
        data = write_lines(folder / "data.jsonl", whole_bodies(load.kind))
        return [
            *(str(self._program), "profile", "--url", load.url, "--model", "truth"),
            *("--endpoint-type", "chat", "--streaming"),
            *("--input-file", str(data), "--custom-dataset-type", "raw-payload"),
            *("--request-rate", f"{load.rate:g}", "--arrival-pattern", "constant"),
            *("--request-count", str(load.planned)),
            *("--tokenizer", str(tokenizer(folder / "tokenizer")), "--use-server-token-count"),
            *("--no-server-metrics", "--no-gpu-telemetry", "--ui", "none"),
            *("--output-artifact-dir", str(folder / "result")),
        ]

    def read(self, folder: Path) -> list[Seen]:
        with (folder / "result" / "profile_export.jsonl").open(encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        return [
            Seen(
                key=row["metadata"]["x_request_id"],
                ttft_ns=round(row["metrics"]["time_to_first_token"]["value"] * 1e6),  # ms
            )
            for row in rows
            if not row.get("error") and "time_to_first_token" in row.get("metrics", {})
        ]


class Guidellm(Peer):
    """`guidellm run`, with whole chat messages as its data.

    It starts ten worker processes, which get into each other's way on one core: it is told to
    start one, with which it keeps up at rates where else it does not.
    """

    name: ClassVar[str] = "guidellm"
    kinds: ClassVar[tuple[Kind, ...]] = ("video", "frames")
    environment: ClassVar[Mapping[str, str]] = {"GUIDELLM__MAX_WORKER_PROCESSES": "1"}

    def command(self, load: Load, folder: Path) -> list[str]:
        rows = (
            {"messages": bodies.body(load.kind, i % bodies.CLIPS)["messages"]}
            for i in range(load.planned)
        )
        data = write_lines(folder / "data.jsonl", islice(rows, GUIDELLM_ROWS))
        backend = {"target": load.url, "model": "truth", "max_tokens": bodies.MAX_TOKENS}
        words = tokenizer(folder / "tokenizer")
        limit_s = load.seconds + GUIDELLM_EXTRA_S
        return [
            *(str(self._program), "run", "--backend", _pairs("openai_http", **backend)),
            *("--profile", _pairs("constant", rate=f"{load.rate:g}")),
            *("--constraint", _pairs("max_requests", count=load.planned)),
            *("--constraint", _pairs("max_duration", seconds=f"{limit_s:g}")),
            *("--data", _pairs("json_file", path=data)),
            *("--tokenizer", _pairs("huggingface_auto", model=words)),
            *("--metrics", _pairs("generative", sample_size=0)),  # else it keeps every body
            *("--output", _pairs("json", path=folder / "result.json"), "--disable-console"),
        ]

    def read(self, folder: Path) -> list[Seen]:
        result = json.loads((folder / "result.json").read_bytes())
        return [
            Seen(
                key=row["response_id"],
                ttft_ns=round(row["time_to_first_token_ms"] * 1e6),
            )
            for row in result["benchmarks"][0]["requests"]["successful"]
        ]


def _pairs(kind: str, **values: Any) -> str:
    return ",".join([f"kind={kind}", *(f"{name}={value}" for name, value in values.items())])


def tokenizer(folder: Path) -> Path:
    """A tokenizer of two words, for tools that insist on one; returns its folder."""
    folder.mkdir()
    model = {"type": "WordLevel", "vocab": {"[UNK]": 0, "word": 1}, "unk_token": "[UNK]"}
    whole = {"version": "1.0", "added_tokens": [], "model": model}
    split = {"pre_tokenizer": {"type": "Whitespace"}}
    rest: dict[str, None] = dict.fromkeys(
        ("truncation", "padding", "normalizer", "post_processor", "decoder")
    )
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
    (folder / "tokenizer.json").write_text(json.dumps(whole | split | rest))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder
