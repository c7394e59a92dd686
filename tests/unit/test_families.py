"""Prompt tokens by family: worked out by hand from the published processors' rules."""

import pytest

from mmload.processors.families import FAMILIES, FAMILY, PUBLISHED, Cost, guess
from mmload.scenario import Scenario


def published(key: str, *size: int) -> Cost:
    """Of an image (height, width) or a video (frames, height, width)."""
    variant = FAMILY[key].variants[0]
    assert variant.words == PUBLISHED
    if len(size) == 2:
        return variant.image(*size)
    assert variant.video is not None
    return variant.video(*size)


@pytest.mark.parametrize(
    ("key", "size", "tokens"),
    [
        # 480/28 = 17.1 -> 17, 854/28 = 30.5 -> 30 (half to even)
        ("qwen2-vl", (480, 854), 17 * 30),
        ("qwen2.5-vl", (480, 854), 17 * 30),
        ("qwen2.5-vl", (15, 480, 854), 8 * 17 * 30),
        ("qwen2.5-vl", (14, 480, 854), 7 * 17 * 30),
        # 28 x 28 is under 3,136 pixels: scaled by 2 to 56 x 56
        ("qwen2-vl", (28, 28), 4),
        # 4480 x 4480 is over 12,845,056 = 3584 x 3584: 128 x 128 tokens
        ("qwen2-vl", (4480, 4480), 128 * 128),
        # real-servers.md: an image of 854x480 left 18 of 423 prompt tokens for text and marks
        ("qwen3-vl", (480, 854), 405),
        ("qwen3-vl", (15, 480, 854), 3240),
        ("qwen3-vl", (4, 480, 854), 810),
        # whatever its size
        ("gemma-3", (480, 854), 256),
        ("gemma-3", (32, 3000), 256),
        # 280 tokens of 48 x 48: scale sqrt(645120 / 409920) = 1.2545; 602/48 -> 12, 1071/48 -> 22
        ("gemma-4", (480, 854), 12 * 22),
        # 70 tokens a frame: scale 0.62725; 301/48 -> 6, 535/48 -> 11
        ("gemma-4", (15, 480, 854), 15 * 6 * 11),
        # one side rounds to nothing: it becomes one token high, and as wide as the aspect allows
        ("gemma-4", (10, 5000), 280),
    ],
)
def test_placeholders(key: str, size: tuple[int, ...], tokens: int) -> None:
    assert published(key, *size).media == tokens


def test_tokens_around_the_placeholders() -> None:
    # Two marks; Qwen3-VL and Gemma 4 write a timestamp and marks for each pair or frame.
    assert published("qwen2.5-vl", 15, 480, 854)[1:] == (2, 6)
    assert published("qwen3-vl", 480, 854)[1:] == (2, 6)
    assert published("qwen3-vl", 15, 480, 854)[1:] == (2, 6 + 8 * (2 + 9))
    assert published("gemma-4", 15, 480, 854)[1:] == (30, 15 * 9)


def test_other_limits_of_the_same_family() -> None:
    qwen2, qwen3 = FAMILY["qwen2-vl"].variants[1], FAMILY["qwen3-vl"].variants[1]
    assert qwen2.video is not None and qwen3.video is not None
    # 1080p, at most 768 tokens for two frames: sqrt(602112 / 2073600) = 0.53886;
    # 581.9/28 -> 20, 1034.6/28 -> 36
    assert qwen2.video(15, 1080, 1920).media == 8 * 20 * 36
    # 480 frames share 115,200 tokens, a pair 480 (376,320 pixels): sqrt(376320 / 2073600) = 0.426;
    # 460/28 -> 16, 817.9/28 -> 29
    assert qwen2.video(480, 1080, 1920).media == 240 * 16 * 29
    # 768 * 1024 pixels a frame: sqrt(786432 / 2073600) = 0.61584; 665/32 -> 20, 1182/32 -> 36
    assert qwen3.video(15, 1080, 1920).media == 8 * 20 * 36
    # 15 small frames are under every cap: the same as published
    assert qwen3.video(15, 480, 854) == published("qwen3-vl", 15, 480, 854)
    scan = FAMILY["gemma-3"].variants[1]
    assert scan.image(480, 854).media == 3 * 256  # 1.78 rounds to 2 crops of 427 x 480
    assert scan.image(2000, 500).media == 5 * 256  # 4 crops of 500 x 500
    assert scan.image(480, 500).media == 256  # hardly longer than high
    assert scan.image(200, 854).media == 256  # crops would be under 256 pixels
    by_budget = {v.words: v.image(480, 854).media for v in FAMILY["gemma-4"].variants}
    assert by_budget["max_soft_tokens 560"] == 17 * 31


def test_media_that_no_processor_takes() -> None:
    for key in ("qwen2-vl", "qwen3-vl"):
        with pytest.raises(ValueError, match="picture"):
            published(key, 10, 5000)
    with pytest.raises(ValueError, match="2 frames"):
        published("qwen3-vl", 1, 480, 854)
    assert FAMILY["gemma-3"].variants[0].video is None


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ("Qwen/Qwen2-VL-7B-Instruct", "qwen2-vl"),
        ("Qwen/Qwen2.5-VL-72B-Instruct-AWQ", "qwen2.5-vl"),
        ("qwen2_5_vl", "qwen2.5-vl"),
        ("Qwen/Qwen3-VL-8B-Instruct", "qwen3-vl"),
        ("tiny-qwen3-vl", "qwen3-vl"),
        ("Qwen/Qwen3.5-35B-A3B-FP8", "qwen3-vl"),
        ("qwen3.6", "qwen3-vl"),
        ("mmload-embedded", "qwen3-vl"),
        ("google/gemma-3-4b-it", "gemma-3"),
        ("gemma4:31b", "gemma-4"),
        ("google/gemma-3n-E4B-it", None),
        ("Qwen/Qwen3-8B", None),
        ("Qwen/Qwen3.51-VL", None),
        ("llava-1.5", None),
        ("", None),
    ],
)
def test_guess_from_the_name(model: str, key: str | None) -> None:
    found = guess(model)
    assert (found.key if found else None) == key


def test_the_flag_names_every_family() -> None:
    for family in FAMILIES:
        assert Scenario.model_validate({"model_family": family.key}).model_family == family.key
