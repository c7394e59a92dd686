"""User files and datasets: their own bytes unless asked otherwise, and named when strange."""

import base64
import json
from pathlib import Path
from typing import Any

import cv2
import pytest

from mmload.errors import UsageError
from mmload.load.media import synthetic, videos
from tests.unit.bodies import Made, files, parts, prompt
from tests.unit.media_samples import encoded, jpeg_with, quadrants, tiff_orientation
from tests.unit.test_prepare import pixels


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two images (one turned by its EXIF note) and a clip of ten frames."""
    media = tmp_path / "media"
    media.mkdir()
    (media / "a.png").write_bytes(encoded(".png", quadrants()))
    jpeg = encoded(".jpg", quadrants(), cv2.IMWRITE_JPEG_QUALITY, 95)
    exif = b"Exif\0\0" + tiff_orientation(6)
    (media / "b.jpg").write_bytes(jpeg_with(jpeg, 0xE1, exif))
    frames = synthetic.video_frames(synthetic.seeded(1), 64, 48, 10)
    (media / "c.mp4").write_bytes(videos.encode_mp4(frames, 5.0).data)
    return media


def test_files_go_as_their_own_bytes_videos_too(folder: Path) -> None:
    made = Made(media=str(folder), requests=6, size=None)
    # Two thirds of the files are images; each class goes round.
    assert sorted(made.names()) == ["image"] * 4 + ["video"] * 2
    own = {file.name: file.read_bytes() for file in folder.iterdir()}
    sent = [f for body in made.bodies() for f in files(body) + files(body, "video_url")]
    assert sorted(map(hash, sent)) == sorted(map(hash, list(own.values()) * 2))
    about = made.about
    assert (about["reuse_asked"], about["reuse_actual"], about["distinct"]) == (None, 0.5, 3)
    image, video = about["classes"]["image"], about["classes"]["video"]
    assert (video["kind"], video["width"], video["frames"], video["as"]) == (
        "video",
        64,
        10,
        "video",
    )
    # One is 48x32, the other, turned, 32x48: no one size.
    assert (image["kind"], image["width"], image["height"], image["as"]) == (
        "image",
        None,
        None,
        None,
    )
    assert any("b.jpg: " in note for note in made.pool.notes)


def test_files_are_encoded_again_only_when_asked(folder: Path) -> None:
    made = Made(media=str(folder), requests=9, size=None, reencode=True, fps=4)
    shapes = set()
    for body in made.bodies():
        for data in files(body):
            shapes.add((data[:4], pixels(data).shape[:2]))
        for clip in files(body, "video_url"):
            assert clip != (folder / "c.mp4").read_bytes()
    # The PNG stays one; the JPEG now lies as it is displayed.
    assert shapes == {(b"\x89PNG", (32, 48)), (b"\xff\xd8\xff\xe0", (48, 32))}


def test_a_format_and_a_size_for_files(folder: Path) -> None:
    made = Made(media=str(folder), requests=4, frames=1, size="40x30", format="webp")
    assert made.pool.class_names == ("image 40x30",)
    for body in made.bodies():
        (data,) = files(body)
        assert data.startswith(b"RIFF") and pixels(data).shape == (30, 40, 3)


def test_frames_are_cut_out_of_clips(folder: Path) -> None:
    made = Made(as_="frames", media=str(folder / "c.mp4"), requests=2, frames=4, size=None)
    assert made.pool.class_names == ("4 images",)
    for body in made.bodies():
        assert [pixels(f).shape for f in files(body)] == [(48, 64, 3)] * 4


def test_unique_files_need_what_can_be_varied(folder: Path) -> None:
    with pytest.raises(UsageError, match="5 distinct bodies are needed, 1 can be made of 1 media"):
        Made(media=str(folder / "a.png"), requests=5, reuse=0, size=None)
    (folder / "a.png").rename(folder / "a.bak")
    photo = synthetic.image_pixels(synthetic.seeded(5), 160, 120)
    (folder / "photo.jpg").write_bytes(encoded(".jpg", photo))
    made = Made(media=str(folder / "photo.jpg"), requests=5, reuse=0, size=None)
    assert len({pixels(files(body)[0]).tobytes() for body in made.bodies()}) == 5


def test_strange_files_are_named_or_sent_as_they_are(folder: Path) -> None:
    for name, data in (
        ("cut.jpg", encoded(".jpg", quadrants())[:-40]),
        ("text.png", b"no picture"),
    ):
        file = folder / name
        file.write_bytes(data)
        with pytest.raises(UsageError, match=name):
            Made(media=str(file), requests=1, size=None)
        made = Made(media=str(file), requests=1, size=None, send_invalid=True)
        assert files(made.body(0)) == [data]
        assert [note for note in made.pool.notes if note.startswith(name)]


# -- datasets --------------------------------------------------------------------------------------


def dataset(folder: Path, *lines: Any) -> str:
    file = folder / "questions.jsonl"
    file.write_text("".join((v if isinstance(v, str) else json.dumps(v)) + "\n" for v in lines))
    return str(file)


def test_each_line_is_a_request_with_its_media_prompt_and_answer(folder: Path) -> None:
    file = dataset(
        folder,
        {"prompt": "which colour?", "image": "a.png", "expected": "red", "metric": "exact"},
        {"prompt": "and here?", "image": "a.png", "expected": ["red", "rot"], "class": "hard"},
        {"prompt": "same?", "images": ["a.png", "b.jpg"], "max_tokens": 5},
        {"video": "c.mp4", "expected": "yes", "metric": "yesno"},
        {"prompt": "2 + 2?", "expected": "4"},
    )
    made = Made(dataset=file, requests=10, size=None, max_tokens=9)
    names = ["image", "hard", "2 images", "video", "text"]
    assert made.names() == names * 2
    own = {f.name: f.read_bytes() for f in folder.iterdir()}
    shown = [["a.png"], ["a.png"], ["a.png", "b.jpg"], ["c.mp4"], []]
    asked = ["which colour?", "and here?", "same?", "Describe what you see.", "2 + 2?"]
    for i, body in enumerate(made.bodies()):
        sent = files(body) + files(body, "video_url")
        assert sent == [own[name] for name in shown[i % 5]]
        assert prompt(body) == asked[i % 5]
        assert body["max_tokens"] == (5 if i % 5 == 2 else 9)
    assert made.payloads.plan.payload.tolist() == [0, 1, 2, 3, 4] * 2
    assert list(made.payloads.expected()) == [
        {"payload": 0, "expected": ["red"], "metric": "exact"},
        {"payload": 1, "expected": ["red", "rot"], "metric": "contains"},
        {"payload": 3, "expected": ["yes"], "metric": "yesno"},
        {"payload": 4, "expected": ["4"], "metric": "contains"},
    ]
    # Of 8 requests with media 3 show something new: a.png, a.png and b.jpg, c.mp4.
    assert made.about["reuse_actual"] == 0.625 and made.about["distinct"] == 5


def test_lines_in_a_seeded_order_keep_together(folder: Path) -> None:
    file = dataset(folder, *({"prompt": f"q{i}", "expected": f"a{i}"} for i in range(20)))
    orders = []
    for seed in (1, 1, 2):
        made = Made(dataset=file, requests=20, order="shuffled", seed=seed)
        expected = {line["payload"]: line["expected"] for line in made.payloads.expected()}
        asked = [prompt(body) for body in made.bodies()]
        for i, text in enumerate(asked):
            assert expected[int(made.payloads.plan.payload[i])] == ["a" + text[1:]]
        orders.append(asked)
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2]) == sorted(f"q{i}" for i in range(20))


def test_urls_are_sent_as_they_are(folder: Path) -> None:
    url = 'http://127.0.0.1:9/a%20"b".jpg'
    file = dataset(
        folder, {"prompt": "p", "image": url}, {"prompt": "p", "video": "https://h/c.mp4"}
    )
    made = Made(dataset=file, requests=2, detail="high")
    assert parts(made.body(0), "image_url") == [{"url": url, "detail": "high"}]
    assert parts(made.body(1), "video_url") == [{"url": "https://h/c.mp4"}]
    (image, video) = made.payloads.manifest()
    assert image["media"] == [{"kind": "image", "url": url}]
    cls = made.about["classes"]["image"]
    assert (cls["width"], cls["frames"], cls["media"]) == (None, 1, ["image by URL"])
    assert video["media"] == [{"kind": "video", "url": "https://h/c.mp4"}]


def test_frames_of_the_videos_of_a_dataset(folder: Path) -> None:
    file = dataset(folder, {"prompt": "p", "video": "c.mp4"})
    made = Made(as_="jpeg-frames", dataset=file, requests=1, frames=3, size="32x32")
    shown = files(made.body(0), "video_url")
    assert [pixels(f).shape for f in shown] == [(32, 32, 3)] * 3
    assert base64.b64encode(shown[0]) in made.bytes(0)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({}, "questions.jsonl:2: neither a prompt nor an image"),
        ({"image": "a.png", "video": "c.mp4"}, "questions.jsonl:2: image and video: give one"),
        ({"image": "no.png"}, "questions.jsonl:2: "),
        ({"image": "c.mp4"}, "questions.jsonl:2: image: c.mp4: a file of another kind: video"),
        ({"video": "a.png"}, "questions.jsonl:2: video: a.png: a file of another kind: image"),
        ({"images": []}, "questions.jsonl:2: images"),
        ({"prompt": "p", "metric": "exact"}, "questions.jsonl:2: metric without expected"),
        ({"prompt": "p", "expected": "a", "metric": "bleu"}, "questions.jsonl:2: metric: 'bleu'"),
        ({"prompt": "p", "expceted": "a"}, "questions.jsonl:2: expceted: no such key"),
    ],
)
def test_errors_of_a_dataset_name_file_and_line(folder: Path, line: Any, words: str) -> None:
    file = dataset(folder, {"prompt": "fine"}, line)
    with pytest.raises(UsageError) as caught:
        Made(dataset=file, requests=1, size=None)
    assert words in caught.value.message, caught.value.message


def test_a_dataset_alone_is_sent_once(folder: Path) -> None:
    file = dataset(folder, {"prompt": "a"}, "", {"prompt": "b"}, {"prompt": "c"})
    for pacing in ({}, {"sequential": True}, {"concurrency": 2}):
        made = Made(dataset=file, **pacing)
        assert [prompt(body) for body in made.bodies()] == ["a", "b", "c"]
    assert len(Made(dataset=file, qps=5, duration=2).schedule) == 10
