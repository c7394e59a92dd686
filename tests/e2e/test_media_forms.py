"""Every media form and source against the embedded server, whose own log is the witness."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from mmload.load.media import images, synthetic, videos
from mmload.rundir import RunDir
from tests.e2e.cli import finish, mmload, summary_of

FAST = ("--max-tokens", "2", "--decode-step-ms", "1", "--warmup", "1", "--quiet", "--json")


def run(folder: Path, *args: str) -> tuple[RunDir, dict[str, Any], dict[int, dict[str, Any]]]:
    """The run folder, the summary, and what the server logged of each measured request."""
    code, out, err = finish(mmload("run", "--out", "run", *FAST, *args, cwd=folder))
    assert code in (0, 3), err  # 3 only if this machine was too busy to send on time
    made = RunDir(folder / "run")
    index = {r.request_id: r.index for r in made.records()}
    log = {}
    for line in (made.path / "server.log").read_text().splitlines():
        entry = json.loads(line)
        if entry["request_id"] in index:
            log[index[entry["request_id"]]] = entry
    summary = summary_of(out)
    assert summary["ok"] == summary["planned"] == len(log), summary["failed"]
    return made, summary, log


def test_all_forms_in_one_mix(tmp_path: Path) -> None:
    classes = [
        {"name": "text", "frames": 0, "prompt": "Hello", "max_tokens": 1},
        {"name": "image", "frames": 1},
        {"name": "mp4", "frames": 5},
        {"name": "images", "frames": 5, "as": "frames"},
        {"name": "commas", "frames": 5, "as": "jpeg-frames"},
    ]
    mix = [{"size": "96x64", **c} if c["frames"] else c for c in classes]
    (tmp_path / "mix.yaml").write_text(json.dumps({"mix": mix}))
    options = ("--scenario", "mix.yaml", "--qps", "20", "--requests", "15", "--detail", "low")
    body = ("--extra-body", '{"top_p": 0.9}', "--mm-processor-kwargs", '{"do_resize": true}')
    made, summary, log = run(tmp_path, *options, *body)
    frames = {"text": 0, "image": 1, "mp4": 5, "images": 5, "commas": 5}
    records = list(made.records())
    assert Counter(r.media_class for r in records) == dict.fromkeys(frames, 3)
    for record in records:
        assert log[record.index].get("frames", 0) == frames[record.media_class]
    about = made.manifest().media
    assert {n: (c["kind"], c["frames"], c["as"]) for n, c in about["classes"].items()} == {
        "text": ("text", None, None),
        "image": ("image", 1, None),
        "mp4": ("video", 5, "video"),
        "images": ("image", 5, "frames"),
        "commas": ("video", 5, "jpeg-frames"),
    }
    assert (about["distinct"], about["reuse_actual"]) == (13, 0.0)  # the three texts are one
    assert set(summary["classes"]) == set(frames)


def test_media_by_url_are_fetched_from_the_tool(tmp_path: Path) -> None:
    options = ("--media-url", "serve", "--frames", "1,4", "--size", "96x64")
    made, _, log = run(tmp_path, *options, "--qps", "20", "--requests", "12")
    assert Counter(entry["frames"] for entry in log.values()) == {1: 6, 4: 6}
    assert all(entry["body_bytes"] < 600 for entry in log.values())
    about = made.manifest().media
    assert about["as_url"] and about["distinct"] == 12 and about["reuse_actual"] == 0.0


def test_a_conversation_sends_its_images_again(tmp_path: Path) -> None:
    options = ("--turns", "3", "--think-time", "0.2", "--qps", "5", "--requests", "9")
    made, summary, log = run(
        tmp_path, *options, "--frames", "2", "--as", "frames", "--size", "96x64"
    )
    assert all(entry["frames"] == 2 for entry in log.values())
    by_turn: dict[int, set[int]] = {}
    starts = sorted(r.intended_ns for r in made.records())
    assert starts == [t * 200_000_000 for t in (0, 1, 1, 2, 2, 2, 3, 3, 4)]
    # Three conversations that begin a think time apart: later turns have longer prompts.
    for i, turn in enumerate((0, 1, 0, 2, 1, 0, 2, 1, 2)):
        by_turn.setdefault(turn, set()).add(log[i]["prompt_tokens"])
    assert max(by_turn[0]) < min(by_turn[1]) and max(by_turn[1]) < min(by_turn[2])
    assert summary["media"]["reuse_actual"] == summary["media"]["reuse_asked"] == 0.666667


def test_a_dataset_with_answers(tmp_path: Path) -> None:
    pixels = synthetic.video_frames(synthetic.seeded(1), 96, 64, 4)
    (tmp_path / "clip.mp4").write_bytes(videos.encode_mp4(pixels, 2).data)
    (tmp_path / "a.png").write_bytes(images.encode(pixels[0], "png").data)
    lines = [
        {"prompt": "Which colour?", "image": "a.png", "expected": ["red"], "metric": "vqa"},
        {"prompt": "What moves?", "video": "clip.mp4"},
        {"prompt": "2 + 2?", "expected": "4", "class": "sums"},
    ]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    made, summary, log = run(tmp_path, "--dataset", "d.jsonl", "--sequential")
    assert [log[i].get("frames", 0) for i in range(3)] == [1, 4, 0]
    assert set(summary["classes"]) == {"image", "video", "sums"}
    expected = (made.path / "expected.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in expected] == [
        {"payload": 0, "expected": ["red"], "metric": "vqa"},
        {"payload": 2, "expected": ["4"], "metric": "contains"},
    ]
    assert [r.payload for r in sorted(made.records(), key=lambda r: r.index)] == [0, 1, 2]


def test_cameras(tmp_path: Path) -> None:
    options = ("--cameras", "4", "--every", "0.4", "--duration", "1.2", "--frames", "3")
    made, _, log = run(tmp_path, *options, "--size", "96x64", "--phases", "even")
    records = sorted(made.records(), key=lambda r: r.index)
    assert [r.intended_ns for r in records] == [i * 100_000_000 for i in range(12)]
    assert all(entry["frames"] == 3 for entry in log.values())
    assert made.manifest().media["distinct"] == 12 and made.manifest().asked_qps == 10


def test_a_trace_and_a_strange_file(tmp_path: Path) -> None:
    lines = [
        {"timestamp": "2024-05-01T12:00:00Z", "frames": 1, "size": "64x48"},
        {"timestamp": "2024-05-01T12:00:00.125Z", "frames": 3, "size": "64x48"},
        {"timestamp": "2024-05-01T12:00:00.5Z", "prompt": "Anyone?"},
    ]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    made, _, log = run(tmp_path, "--trace", "t.jsonl", "--frames", "0")
    records = sorted(made.records(), key=lambda r: r.index)
    assert [r.intended_ns for r in records] == [0, 125_000_000, 500_000_000]
    assert [log[i].get("frames", 0) for i in range(3)] == [1, 3, 0]

    (tmp_path / "cut.jpg").write_bytes(b"\xff\xd8\xff\xe0 no more")
    strange = ("--media", "cut.jpg", "--requests", "2", "--warmup", "0", "--json", "--quiet")
    code, out, err = finish(mmload("run", *strange, "--send-invalid", "--out", "2", cwd=tmp_path))
    summary = summary_of(out)
    assert code == 3 and summary["failed"] == {"http_error": 2}, err
    assert any("cut.jpg: " in note for note in RunDir(tmp_path / "2").manifest().notes)
