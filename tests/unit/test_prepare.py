"""Scenarios to bodies: what is in them is what was asked, decoded back to pixels and text."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from mmload.errors import UsageError
from mmload.load.media import synthetic, videos
from mmload.scenario import Scenario
from tests.unit.bodies import Made, files, parts, prompt


def pixels(data: bytes) -> np.ndarray:
    decoded = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    assert decoded is not None
    return decoded


def test_sixty_images_are_sixty_pictures() -> None:
    made = Made(requests=60, frames=1)
    shown = {pixels(files(body)[0]).tobytes() for body in made.bodies()}
    assert len(shown) == 60
    about = made.about
    assert (about["distinct"], about["reuse_asked"], about["reuse_actual"]) == (60, 0.0, 0.0)
    (cls,) = about["classes"].values()
    assert {k: cls[k] for k in ("kind", "width", "height", "frames", "as", "requests")} == {
        "kind": "image",
        "width": 64,
        "height": 48,
        "frames": 1,
        "as": None,
        "requests": 60,
    }


@pytest.mark.parametrize(
    ("form", "kind", "name"),
    [
        ("video", "video", "5 frames 64x48"),
        ("frames", "image", "5 images 64x48"),
        ("jpeg-frames", "video", "5 JPEG frames 64x48"),
    ],
)
def test_five_frames_in_each_form(form: str, kind: str, name: str, tmp_path: Path) -> None:
    made = Made(as_=form, requests=3, frames=5)
    assert made.pool.class_names == (name,)
    cls = made.about["classes"][name]
    assert (cls["kind"], cls["frames"], cls["as"], cls["width"]) == (kind, 5, form, 64)
    for body in made.bodies():
        if form == "video":
            (clip,) = files(body, "video_url")
            file = tmp_path / "clip.mp4"
            file.write_bytes(clip)
            capture = cv2.VideoCapture(str(file))
            assert sum(1 for _ in iter(capture.grab, False)) == 5
            continue
        shown = files(body, "image_url" if form == "frames" else "video_url")
        assert [pixels(f).shape for f in shown] == [(48, 64, 3)] * 5
        assert len(set(shown)) == 5
        urls = parts(body, "image_url" if form == "frames" else "video_url")
        start = "data:image/jpeg;base64," if form == "frames" else "data:video/jpeg;base64,"
        assert len(urls) == (5 if form == "frames" else 1)
        assert all(u["url"].startswith(start) for u in urls)


def test_fields_of_the_body() -> None:
    made = Made(
        requests=1,
        detail="low",
        max_tokens=7,
        extra_body='{"top_p": 0.5, "temperature": 1}',
        mm_processor_kwargs='{"do_sample_frames": false}',
        media_io_kwargs={"video": {"fps": 30}},
    )
    body = made.body(0)
    assert parts(body, "image_url")[0]["detail"] == "low"
    assert (body["top_p"], body["temperature"], body["max_tokens"]) == (0.5, 1, 7)
    assert body["mm_processor_kwargs"] == {"do_sample_frames": False}
    assert body["media_io_kwargs"] == {"video": {"fps": 30}}
    assert body["model"] == "a-model"


@pytest.mark.parametrize(("fmt", "magic"), [("png", b"\x89PNG"), ("webp", b"RIFF")])
def test_png_and_webp_are_made_one_by_one(fmt: str, magic: bytes) -> None:
    made = Made(requests=11, format=fmt, warmup=3)
    shown = [files(made.body(i))[0] for i in range(14)]  # and three warm-up requests
    assert len(set(shown)) == 14
    assert all(data.startswith(magic) and pixels(data).shape == (48, 64, 3) for data in shown)


def test_too_many_pngs_are_an_error_that_says_why() -> None:
    with pytest.raises(UsageError, match="300 distinct ones are needed.*at most 256") as caught:
        Made(requests=300, format="png")
    assert "jpeg" in caught.value.hint
    assert Made(requests=300, format="png", reuse=0.9).about["reuse_actual"] == 0.9


def test_a_mix_has_its_own_forms_prompts_and_limits() -> None:
    made = Made(
        size=None,
        requests=12,
        max_tokens=9,
        mix=[
            {"frames": 0, "name": "probe", "prompt": "Say hello.", "max_tokens": 3},
            {"frames": 2, "as": "frames", "size": "32x32", "weight": 2},
            {"frames": 2, "size": "32x32", "prompt": "What moves?"},
            {"frames": 2, "size": "32x32", "prompt": "What stays?"},
        ],
    )
    # 12 by weights 1, 2, 1, 1: 2.4, 4.8, 2.4, 2.4, and the two left go to .8 and the first .4.
    assert Counter(made.names()) == {
        "probe": 3,
        "2 images 32x32": 5,
        "2 frames 32x32": 2,
        "2 frames 32x32 (2)": 2,
    }
    asked = {name: set[Any]() for name in made.pool.class_names}
    for name, body in zip(made.names(), made.bodies(), strict=True):
        shown = (len(files(body)), len(files(body, "video_url")))
        asked[name].add((prompt(body), body["max_tokens"], *shown))
    assert asked == {
        "probe": {("Say hello.", 3, 0, 0)},
        "2 images 32x32": {("Describe what you see.", 9, 2, 0)},
        "2 frames 32x32": {("What moves?", 9, 0, 1)},
        "2 frames 32x32 (2)": {("What stays?", 9, 0, 1)},
    }
    assert made.about["reuse_actual"] == 0.0  # text that repeats repeats no media


def test_prompts_of_a_file_in_turn(tmp_path: Path) -> None:
    text = tmp_path / "prompts.txt"
    text.write_text("one\n\n  zwei ü \n\nthree\n", encoding="utf-8")
    asked = [prompt(body) for body in Made(requests=7, prompts=str(text)).bodies()]
    assert asked == ["one", "zwei ü", "three", "one", "zwei ü", "three", "one"]
    lines = tmp_path / "prompts.jsonl"
    lines.write_text('{"prompt": "a\\nb"}\n{"prompt": "c"}\n')
    made = Made(requests=4, prompts=str(lines))
    assert [prompt(body) for body in made.bodies()] == ["a\nb", "c", "a\nb", "c"]
    assert made.about["distinct"] == 4 and made.about["reuse_actual"] == 0.0


def test_a_thousand_prompts_hold_the_media_once(tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("\n".join(f"question {i}" for i in range(1000)))
    made = Made(requests=1000, frames=4, size=["320x240"], prompts=str(file))
    media_bytes = sum(len(m.data) for m in made.pool.media())
    assert len(made.payloads.bases) == 1000 and len(made.pool.media()) == 8
    assert made.about["held_bytes"] < media_bytes * 1.4 + 1000 * 600


# -- conversations ---------------------------------------------------------------------------------


def test_every_turn_holds_the_earlier_ones_and_the_images_again() -> None:
    made = Made(as_="frames", qps=1, duration=4, turns=3, think_time=0.5, frames=2, max_tokens=6)
    source, turn = made.schedule.source, made.schedule.turn
    assert source is not None and turn is not None
    shown: dict[int, list[bytes]] = {}
    for i, body in enumerate(made.bodies()):
        roles = [m["role"] for m in body["messages"]]
        assert roles == ["user", "assistant"] * int(turn[i]) + ["user"]
        # The images are in the first message alone, the same in every turn.
        assert isinstance(body["messages"][0]["content"], list)
        assert all(isinstance(m["content"], str) for m in body["messages"][1:])
        assert shown.setdefault(int(source[i]), files(body)) == files(body)
        said = [m["content"] for m in body["messages"] if m["role"] == "assistant"]
        assert [len(text.split()) for text in said] == [6] * int(turn[i])
    assert len({tuple(images) for images in shown.values()}) == 4
    about = made.about
    # 12 requests, 4 sets of images: two thirds repeat one, which is what turns declare.
    assert (about["reuse_asked"], about["reuse_actual"]) == (0.666667, 0.666667)
    assert about["distinct"] == 12


def test_the_history_of_a_turn_is_what_was_asked_before(tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("a\nb\nc\n")
    made = Made(qps=1, duration=3, turns=2, think_time=10, prompts=str(file), frames=0)
    texts = [[m["content"] for m in body["messages"][::2]] for body in made.bodies()]
    assert texts == [["a"], ["b"], ["c"], ["a", "b"], ["b", "c"], ["c", "a"]]
    assert made.about["reuse_actual"] == 0.0


# -- cameras ---------------------------------------------------------------------------------------


def test_a_camera_sends_neighbouring_stretches_of_one_scene() -> None:
    made = Made(cameras=2, every=1, duration=5, frames=3, phases="even", seed=3, size=["96x64"])
    by_camera: dict[int, list[bytes]] = {}
    assert made.schedule.source is not None
    for camera, body in zip(made.schedule.source.tolist(), made.bodies(), strict=True):
        by_camera.setdefault(camera, []).append(files(body, "video_url")[0])
    # Each camera's five clips of three frames are one scene of fifteen, cut.
    scenes = []
    for number in range(2):
        scene = synthetic.video_frames(synthetic.seeded(3, 0, number), 96, 64, 15)
        cut = [scene[3 * k : 3 * k + 3] for k in range(5)]
        scenes.append([videos.encode_mp4(clip, 2.0).data for clip in cut])
    assert sorted(by_camera.values()) == sorted(scenes)
    assert made.about["reuse_actual"] == 0.0 and made.about["distinct"] == 10


def test_a_scene_comes_round_in_other_variants() -> None:
    made = Made(cameras=32, every=0.5, duration=4)
    shown = {files(body)[0] for body in made.bodies()}
    assert len(made.schedule) == 32 * 8 == len(shown)
    assert len(made.pool.media()) == 64  # two moments a camera
    assert made.about["source"] == "synthetic, 32 cameras"


# -- traces ----------------------------------------------------------------------------------------


def test_lines_of_a_trace_bring_their_own_media_and_prompts(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    lines = [
        {"timestamp": 0, "frames": 2, "size": "32x32", "prompt": "own"},
        {"timestamp": 1},
        {"timestamp": 2, "frames": 0, "max_tokens": 3},
        {"timestamp": 3, "frames": 2, "size": "32x32"},
        {"timestamp": 4, "max_tokens": 4},
        {"timestamp": 5, "prompt": "mixed"},
        {"timestamp": 6},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = Made(trace=str(file), frames="1,0", prompt="default", max_tokens=8)
    names = made.names()
    assert [names[i] for i in (0, 2, 3)] == ["2 frames 32x32", "text", "2 frames 32x32"]
    assert made.pool.class_names == ("image 64x48", "text", "2 frames 32x32")
    # The other four take the scenario's classes by their shares.
    assert Counter(names[i] for i in (1, 4, 5, 6)) == {"image 64x48": 2, "text": 2}
    asked = [(prompt(body), body["max_tokens"]) for body in made.bodies()]
    default = ("default", 8)
    assert asked == [
        ("own", 8),
        default,
        ("default", 3),
        default,
        ("default", 4),
        ("mixed", 8),
        default,
    ]
    for name, body in zip(names, made.bodies(), strict=True):
        expected = {"2 frames 32x32": (0, 1), "image 64x48": (1, 0)}.get(name, (0, 0))
        assert (len(files(body)), len(files(body, "video_url"))) == expected


def test_a_trace_that_says_everything_needs_no_mix(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text('{"timestamp": 0, "frames": 1}\n{"timestamp": 1, "frames": 1}\n')
    assert Made(trace=str(file), frames=15).pool.class_names == ("image 64x48",)


# -- the digest ------------------------------------------------------------------------------------


def test_the_digest_covers_what_files_hold_and_not_their_names(tmp_path: Path) -> None:
    def digest(name: str, text: str) -> str:
        file = tmp_path / name
        file.write_text(text)
        made = Made(requests=1, prompts=str(file))
        return made.scenario.digest(made.pool.file_hashes)

    assert digest("a.txt", "one") == digest("b.txt", "one") != digest("a.txt", "two")


def test_a_resolved_scenario_is_the_same_scenario() -> None:
    for values in (
        {"frames": "1,6"},
        {"cameras": 3, "phases": "even"},
        {"turns": 2, "qps": 2},
        {"sequential": True, "requests": 3},
        {"mix": [{"frames": 0}, {"frames": 4, "as": "frames"}]},
        {"extra_body": '{"a": [1]}', "profile": "2x10s"},
        {"media": "x", "frames": "file"},
        {"dataset": "x.jsonl"},
        {"prompts": "x.txt", "trace": "t.jsonl"},
    ):
        first = Scenario.model_validate(values)
        again = Scenario.model_validate(first.resolved())
        assert again.resolved() == first.resolved() and again.digest() == first.digest()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"cameras": 2, "qps": 5}, "qps and cameras: give one"),
        ({"every": 2}, "every is for cameras"),
        ({"think_time": 2}, "think_time is for conversations"),
        ({"turns": 2, "concurrency": 2}, "turns: conversations begin by an open loop"),
        ({"turns": 2, "cameras": 2}, "turns: conversations begin by an open loop"),
        ({"cameras": 2, "frames": 0}, "cameras film synthetic scenes"),
        ({"cameras": 2, "reuse": 0.5}, "what cameras film does not repeat"),
        ({"media": "a", "dataset": "b"}, "media and dataset: media come from one"),
        ({"dataset": "b", "prompts": "c"}, "dataset: each line is a request of its own"),
        ({"prompt": "a", "prompts": "c"}, "prompt and prompts: give one"),
        ({"frames": "file"}, "frames: file needs media"),
        ({"as": "jpeg-frames", "format": "png", "frames": 3}, "such frames are JPEG files"),
        ({"as": "jpeg-frames", "media_url": "serve", "frames": 3}, "such frames have no URL"),
        ({"extra_body": "{'a': 1}"}, "not JSON"),
        ({"extra_body": "[1]"}, "a JSON object is needed"),
        ({"extra_body": {"messages": []}}, "extra_body: messages is said elsewhere"),
        (
            {"extra_body": {"media_io_kwargs": {}}, "media_io_kwargs": {}},
            "extra_body: media_io_kwargs is said elsewhere",
        ),
        ({"mix": []}, "one class or more"),
        ({"frames": "-1"}, "an integer from 0 to 512, or file"),
    ],
)
def test_what_does_not_go_together_is_said(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Scenario.model_validate(values)


def test_what_is_held_does_not_grow_with_the_run() -> None:
    """20 times the requests, all distinct: the same bytes."""
    short, long = (Made(requests=n, frames=3) for n in (500, 10_000))
    assert short.about["held_bytes"] == long.about["held_bytes"]
    assert (short.about["distinct"], long.about["distinct"]) == (500, 10_000)
