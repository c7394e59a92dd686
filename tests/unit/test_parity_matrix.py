"""The matrix holds what it promises, and the media are what their names say."""

import numpy as np
import pytest

from mmload.parity import matrix
from mmload.parity.matrix import cases
from mmload.parity.media import FORMS, Medium, fingerprint, make


def test_names_and_configurations() -> None:
    made = cases()
    assert len({case.name for case in made}) == len(made)
    seen: list[object] = []
    for case in made:  # together: a processor is built once
        if not seen or seen[-1] != case.configuration:
            assert case.configuration not in seen
            seen.append(case.configuration)


def test_quick_is_a_part_with_every_variation_on_small_media() -> None:
    full, quick = cases(), cases(quick=True)
    assert {case.name for case in quick} < {case.name for case in full}
    for family, kind in {(case.family, case.kind) for case in full}:
        of = [case for case in full if (case.family, case.kind) == (family, kind)]
        varied = {case.varies for case in of} - {"huge"}
        small = {c.varies for c in quick if (c.family, c.kind) == (family, kind)}
        assert small == varied
    for case in quick:
        assert sum(m.width * m.height * (m.frames or 1) for m in case.media) < 2_000_000


@pytest.mark.parametrize("family", ["qwen3-vl", "gemma-4"])
def test_what_issue_6_asks_for(family: str) -> None:
    made = cases([family])
    assert {case.family for case in made} == {family}
    videos = [m for case in made if case.kind == "video" for m in case.media]
    images = [m for case in made if case.kind == "image" for m in case.media]
    assert {1, 2, 3, 6, 15, 16} <= {m.frames for m in videos}
    for media in (videos, images):
        sizes = {(m.width, m.height) for m in media}
        assert {(1, 1), (97, 131), (2000, 10), (10, 2000), (512, 512)} <= sizes
        assert {m.form.split()[0] for m in media} == {"numpy", "torch", "pil"}
        assert {"RGB", "RGBA", "L"} <= {m.mode for m in media}
        assert {"noise", "smooth", "checker"} == {m.content for m in media}
    assert max(m.width * m.height for m in images) > 50_000_000
    keys = {key for case in made for key in case.settings}
    assert {"patch_size", "image_mean", "image_std"} <= keys
    assert ("max_soft_tokens" if family == "gemma-4" else "merge_size") in keys
    assert {case.sampling is None for case in made if case.kind == "video"} == {True, False}
    assert {"hub", "class"} == {case.preset for case in made}


def test_nothing_in_the_matrix_needs_much_memory() -> None:
    for case in cases():
        pixels = sum(m.width * m.height * (m.frames or 1) for m in case.media)
        assert pixels * 3 < 160e6, case.name


def test_media_are_the_same_every_time() -> None:
    medium = Medium(5, 4, 3)
    assert fingerprint([make(medium, 1)]) == fingerprint([make(medium, 1)])
    assert fingerprint([make(medium, 1)]) != fingerprint([make(medium, 2)])


@pytest.mark.parametrize("form", [form for form in FORMS if form.startswith("numpy")])
def test_forms(form: str) -> None:
    plain = make(Medium(5, 4, 3), 1)
    made = make(Medium(5, 4, 3, form), 1)
    assert (plain.shape, plain.dtype) == ((3, 4, 5, 3), np.uint8)
    if "first" in form:
        assert made.shape == (3, 3, 4, 5)
        made = np.moveaxis(made, 1, -1)
    if "float" in form:
        assert made.dtype == np.float32
        made = np.round(made * 255)
    assert np.array_equal(made, plain)
    assert made.flags.writeable is ("read-only" not in form)
    assert ("view" in form) <= (not made.flags.c_contiguous)
    frames = make(Medium(5, 4, 3, f"{form} frames"), 1)
    assert isinstance(frames, list) and len(frames) == 3


@pytest.mark.parametrize("form", ["numpy view"])
@pytest.mark.parametrize(("width", "height"), [(1, 1), (3, 2), (40, 10)])
def test_a_view_of_any_size(form: str, width: int, height: int) -> None:
    assert np.array_equal(
        make(Medium(width, height, None, form), 1), make(Medium(width, height), 1)
    )


def test_modes_and_contents() -> None:
    assert make(Medium(5, 4, mode="RGBA"), 1).shape == (4, 5, 4)
    assert make(Medium(5, 4, mode="L"), 1).shape == (4, 5, 1)
    assert make(Medium(5, 4, mode="HW"), 1).shape == (4, 5)
    assert make(Medium(5, 4, 2, mode="HW"), 1).shape == (2, 4, 5)
    checker = make(Medium(4, 4, 2, content="checker"), 1)
    assert set(np.unique(checker)) == {0, 255}
    assert (checker[0] != checker[1]).all()
    smooth = make(Medium(64, 64, content="smooth"), 1).astype(int)
    assert np.abs(np.diff(smooth, axis=1)).max() < 12 < np.ptp(smooth)


def test_a_name_says_what_is_special() -> None:
    case = matrix.Case(
        "gemma-4",
        "video",
        "settings",
        (Medium(97, 131, 3), Medium(40, 20, 6, "torch first", "RGBA", "smooth")),
        settings={"patch_size": 14},
        sampling=24.0,
    )
    assert case.name == (
        "gemma-4 video: 97x131 x 3 + 40x20 x 6 torch first RGBA smooth, patch_size=14,"
        " sampled at 24 frames/s"
    )
