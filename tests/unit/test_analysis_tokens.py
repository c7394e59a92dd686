"""What the server did with the media, by its token counts: measured truths, worked-out ones."""

from typing import Any

import numpy as np
import pytest

from mmload.analysis.summary import summarise
from mmload.records import Record, RecordTable
from mmload.rundir import RunEnd
from tests.unit.analysis_samples import MS, documented_keys, manifest, record, span

VIDEO: dict[str, Any] = {
    "kind": "video",
    "width": 854,
    "height": 480,
    "frames": 15,
    "media_a_request": 1,
}
IMAGE = VIDEO | {"kind": "image", "frames": 1}
TEXT = {"kind": "text"}
PROMPT = "Describe what you see."  # 22 bytes: an allowance of 0 to 150 tokens


def summary(
    *records: Record,
    classes: dict[str, Any],
    model: str = "tiny-qwen3-vl",
    seen: int | None = None,
    **scenario: Any,
) -> dict[str, Any]:
    spans = [
        span(r.request_id, "processor", r.intended_ns, r.intended_ns + MS, frames=seen)
        for r in records
        if seen is not None
    ]
    one = manifest(
        model=model,
        planned=len(records),
        media={"classes": classes, "reuse_asked": 0.0},
        scenario={"prompt": PROMPT, **scenario},
    )
    return summarise(one, RunEnd(), RecordTable.of(records), spans, []).summary


def counted(index: int, name: str, prompt: int | None, **more: Any) -> Record:
    start = index * 100 * MS
    return record(index, start, start + MS, media_class=name, prompt_tokens=prompt, **more)


def check_of(name: str, *records: Record, **more: Any) -> dict[str, Any]:
    found = summary(*records, **more)["media_check"]["classes"][name]
    assert isinstance(found, dict)
    return found


def warned(of: dict[str, Any]) -> list[str]:
    return [w["code"] for w in of["warnings"] if w["code"] in ("sampled", "media_tokens")]


@pytest.mark.parametrize(
    ("prompt", "verdict", "used"),
    [
        (3330, "as_sent", [15, 15]),  # vLLM 0.32, a 2 fps mp4, or comma frames
        (846, "sampled", [3, 4]),  # the same at 30 fps: it took 4
    ],
)
def test_what_vllm_did_with_15_frames(prompt: int, verdict: str, used: list[int]) -> None:
    """real-servers.md; two frames are one patch, so 3 and 4 frames cost the same."""
    one = counted(0, "video", prompt)
    found = check_of("video", one, classes={"video": VIDEO})
    assert (found["verdict"], found["used"], found["expected_media_tokens"]) == (
        verdict,
        used,
        3240,
    )
    assert found["text_tokens"] == [0, 150]
    assert found["counted_by"] == "prompt_tokens"


def test_what_vllm_did_with_an_image() -> None:
    found = check_of("image", counted(0, "image", 423), classes={"image": IMAGE})
    assert (found["verdict"], found["expected_media_tokens"]) == ("as_sent", 405)


def test_the_warning_says_what_was_sent_used_and_how_to_stop_it() -> None:
    of = summary(counted(0, "15 frames", 846), classes={"15 frames": VIDEO})
    (warning,) = [w for w in of["warnings"] if w["code"] == "sampled"]
    assert warning["message"] == (
        "15 frames: 15 frames sent, the server used 3 or 4: 846 prompt tokens counted, 3,240 by the"
        " arithmetic and 0 to 150 for the text (an allowance for prompt and template). It samples"
        " video."
    )
    assert """--media-io-kwargs '{"video":{"fps":30}}'""" in warning["hint"]
    assert """--mm-processor-kwargs '{"do_sample_frames":false}'""" in warning["hint"]


def test_the_family_is_named_and_said_to_be_guessed() -> None:
    one = counted(0, "video", 3330)
    guessed = summary(one, classes={"video": VIDEO})["media_check"]
    assert (guessed["family"], guessed["guessed_from"]) == ("qwen3-vl", "tiny-qwen3-vl")
    given = summary(one, classes={"video": VIDEO}, model="x", model_family="qwen3-vl")
    assert given["media_check"]["guessed_from"] is None
    assert given["media_check"]["title"] == "Qwen3-VL"
    unknown = summary(one, classes={"video": VIDEO}, model="llava")
    assert unknown["media_check"]["family"] is None
    assert unknown["media_check"]["classes"]["video"]["verdict"] == "not_counted"
    assert "family is not known" in unknown["media_check"]["classes"]["video"]["sentence"]
    assert warned(unknown) == []
    assert summary(counted(0, "text", 20), classes={"text": TEXT})["media_check"] is None


def test_text_of_its_own_class_is_known_to_the_token() -> None:
    """Small frames, 15 tokens a pair: only a known text length tells 15 frames from 12."""
    small = VIDEO | {"width": 160, "height": 96}
    records = [counted(0, "video", 20 + 8 * (15 + 8) + 2), counted(1, "text", 20)]
    vague = check_of("video", *records[:1], classes={"video": small})
    assert (vague["verdict"], vague["used"]) == ("cant_tell", [3, 15])  # 2 pairs: 30 + 28 + 150
    # 206 = 20 of text + 186: 8 pairs take 120 + 2 to 94; 7 take 105 + 2 to 83; 6 take 90 + 2 to 72
    found = check_of("video", *records, classes={"video": small, "text": TEXT})
    assert found["text_tokens"] == [20, 20]
    assert found["text_rule"] == "the class 'text'"
    assert (found["verdict"], found["used"]) == ("cant_tell", [13, 15])
    fewer = [counted(0, "video", 20 + 4 * (15 + 8) + 2), counted(1, "text", 20)]
    found = check_of("video", *fewer, classes={"video": small, "text": TEXT})
    # 94 = 4 pairs of 15 + 34; 5 pairs take 77 at least, 6 pairs 92: up to 12 frames would fit
    assert (found["verdict"], found["used"]) == ("sampled", [7, 12])


def test_what_an_image_leaves_over_is_the_text() -> None:
    records = [counted(0, "video", 3330), counted(1, "image", 423)]
    found = check_of("video", *records, classes={"video": VIDEO, "image": IMAGE})
    assert found["text_tokens"] == [423 - 405 - 6, 423 - 405 - 2]
    assert found["text_rule"] == "what 'image' leaves over"
    assert found["verdict"] == "as_sent"
    # An image that is itself unlike the arithmetic says nothing of the text.
    odd = [counted(0, "video", 3330), counted(1, "image", 200)]
    of = summary(*odd, classes={"video": VIDEO, "image": IMAGE})
    assert of["media_check"]["classes"]["video"]["text_tokens"] == [0, 150]
    assert of["media_check"]["classes"]["image"]["verdict"] == "unexplained"
    assert warned(of) == ["media_tokens"]


@pytest.mark.parametrize("scenario", [{"dataset": "vqa.jsonl"}, {"prompts": "p.txt"}, {"turns": 3}])
def test_prompts_of_unknown_length_are_not_judged(scenario: dict[str, Any]) -> None:
    of = summary(counted(0, "video", 846), classes={"video": VIDEO}, **scenario)
    found = of["media_check"]["classes"]["video"]
    assert found["verdict"] == "cant_tell" and found["sentence"].startswith("can't tell: the ")
    assert warned(of) == []


def test_conversations_are_not_judged_by_media_tokens_either() -> None:
    records = [counted(i, "image", 900, media_tokens=405 * (i + 1)) for i in range(3)]
    of = summary(*records, classes={"image": IMAGE}, turns=3)
    assert of["media_check"]["classes"]["image"]["verdict"] == "cant_tell"
    assert warned(of) == []


@pytest.mark.parametrize(
    ("media", "verdict", "used"),
    [
        (3240, "as_sent", [15, 15]),  # the placeholders alone
        (3240 + 8 * 8 + 2, "as_sent", [15, 15]),  # with marks and timestamps
        (1215, "sampled", [5, 6]),
        (810 + 18, "sampled", [3, 4]),
        (3240 + 500, "unexplained", None),
        (405 + 90, "unexplained", None),  # more than one pair's marks, less than two pairs
    ],
)
def test_media_tokens_apart_need_no_allowance(
    media: int, verdict: str, used: list[int] | None
) -> None:
    one = counted(0, "video", 9999, media_tokens=media)
    found = check_of("video", one, classes={"video": VIDEO}, dataset="any.jsonl")
    assert (found["verdict"], found["used"]) == (verdict, used)
    assert (found["counted_by"], found["text_tokens"]) == ("multimodal_tokens", None)


def test_exact_placeholders_of_small_media_are_taken_as_such() -> None:
    small = VIDEO | {"width": 160, "height": 96}
    found = check_of("video", counted(0, "video", 200, media_tokens=120), classes={"video": small})
    assert (found["verdict"], found["used"]) == ("as_sent", [15, 15])


def test_images_that_were_left_out() -> None:
    images = IMAGE | {"frames": 5, "media_a_request": 5}
    of = summary(counted(0, "5 images", 20 + 2 * 407), classes={"5 images": images})
    found = of["media_check"]["classes"]["5 images"]
    assert (found["sent"], found["used"], found["verdict"]) == (5, [2, 2], "sampled")
    assert "5 images sent, the server used 2" in found["sentence"]
    (warning,) = [w for w in of["warnings"] if w["code"] == "sampled"]
    assert "--limit-mm-per-prompt" in warning["hint"]


def test_limits_that_servers_choose_are_explanations() -> None:
    """Gemma 4 with a larger budget: not as published, and not wrong either."""
    one = counted(0, "image", 0, media_tokens=527)
    found = check_of("image", one, classes={"image": IMAGE}, model="gemma-4-31b-it")
    assert (found["verdict"], found["limits"]) == ("as_sent", "max_soft_tokens 560")
    assert "max_soft_tokens 560" in found["sentence"]


def test_a_family_without_videos() -> None:
    of = summary(counted(0, "video", 300), classes={"video": VIDEO}, model="gemma-3-4b-it")
    found = of["media_check"]["classes"]["video"]
    assert (found["verdict"], found["expected_media_tokens"]) == ("not_counted", None)
    assert "no rule" in found["sentence"] and warned(of) == []


def test_the_hook_sees_the_frames() -> None:
    without_usage = counted(0, "video", None)
    found = check_of("video", without_usage, classes={"video": VIDEO}, seen=6)
    assert (found["verdict"], found["used"]) == ("sampled", [6, 6])
    # It narrows what the tokens leave open ...
    found = check_of("video", counted(0, "video", 846), classes={"video": VIDEO}, seen=4)
    assert (found["verdict"], found["used"]) == ("sampled", [4, 4])
    # ... and does not overrule them: a processor may sample after it was given the frames.
    found = check_of("video", counted(0, "video", 846), classes={"video": VIDEO}, seen=15)
    assert (found["verdict"], found["used"]) == ("sampled", [3, 4])
    found = check_of("video", counted(0, "video", 3330), classes={"video": VIDEO}, seen=15)
    assert found["verdict"] == "as_sent"


def test_no_usage_no_verdict() -> None:
    of = summary(counted(0, "video", None), classes={"video": VIDEO})
    found = of["media_check"]["classes"]["video"]
    assert (found["verdict"], found["counted_by"]) == ("not_counted", None)
    assert "does not say" in found["sentence"] and warned(of) == []


def test_media_of_several_sizes_are_left_alone() -> None:
    mixed = VIDEO | {"width": None}
    assert summary(counted(0, "video", 1), classes={"video": mixed})["media_check"] is None


def test_cached_tokens_by_class() -> None:
    records = [
        counted(0, "image", 400, cached_tokens=320),
        counted(1, "image", 400, cached_tokens=0),
        counted(2, "video", 3000, cached_tokens=16),
        counted(3, "text", 20, cached_tokens=16),
    ]
    of = summary(*records, classes={"image": IMAGE, "video": VIDEO, "text": TEXT})
    assert of["classes"]["image"]["cached_tokens"] == 160
    assert of["classes"]["video"]["cached_tokens"] == 16
    (hits,) = [w["message"] for w in of["warnings"] if w["code"] == "cache_hits"]
    # a shared text prefix is far below a tenth, and text alone always repeats
    assert hits.endswith("although no media was repeated: 40% of image.")


def test_frames_of_nested_calls_are_not_added_up() -> None:
    from mmload.analysis.join import join

    one = counted(0, "video", 846)
    spans = [span(one.request_id, "processor", 0, k * MS, frames=k) for k in (0, 1, 4, 2)]
    joined = join(RecordTable.of([one]), spans, [], 0)
    np.testing.assert_array_equal(joined.frames, [4.0])


def test_every_key_is_documented() -> None:
    found = summary(counted(0, "video", 846), classes={"video": VIDEO})["media_check"]
    assert set(documented_keys("media_check")) == {*found, *found["classes"]["video"]}
