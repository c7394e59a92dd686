"""transformers' table on stand-ins with its classes' names and order of calls, and the counting of
media. Against transformers itself: tests/hf/test_hook_transformers.py."""

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mmload.hook import probes, spans
from mmload.hook import transformers as table
from mmload.hook.media_facts import media_facts
from mmload.hook.probes import attach
from mmload.records import Span
from mmload.rundir import SpanLines

MODULES = {
    "transformers.image_processing_base": """
        class ImageProcessingMixin:
            def __init__(self): pass
        """,
    "transformers.image_processing_utils": """
        from transformers.image_processing_base import ImageProcessingMixin
        class BaseImageProcessor(ImageProcessingMixin):
            def __init__(self): super().__init__()
            def __call__(self, images, *args, **kwargs): return self.preprocess(images)
            def process_image(self, image): return image
            def resize(self, image): return image
            def rescale_and_normalize(self, image): return image
            def preprocess(self, images):
                return [self.rescale_and_normalize(self.resize(self.process_image(i)))
                        for i in images]
        """,
    "transformers.video_processing_utils": """
        from transformers.image_processing_utils import BaseImageProcessor
        class BaseVideoProcessor(BaseImageProcessor):
            def __call__(self, videos, **kwargs): return self.preprocess(videos)
        """,
    "transformers.models.demo": """
        from transformers.image_processing_utils import BaseImageProcessor
        from transformers.video_processing_utils import BaseVideoProcessor
        class DemoImageProcessor(BaseImageProcessor):
            def resize(self, image): return super().resize(image)
            def patchify(self, image): return image
        class DemoVideoProcessor(BaseVideoProcessor):
            pass
        """,
    "transformers.processing_utils": """
        class ProcessorMixin:
            def __init__(self, image_processor, video_processor, tokenizer):
                self.image_processor = image_processor
                self.video_processor = video_processor
                self.tokenizer = tokenizer
            def __call__(self, images=None, text=None, videos=None, audio=None, **kwargs):
                if images is not None: self.image_processor(images)
                if videos is not None: self.video_processor(videos)
                return self.tokenizer(text)
        """,
    "transformers.tokenization_utils_base": """
        class PreTrainedTokenizerBase:
            def __call__(self, text): return [self.encode(t) for t in text]
            def encode(self, text): return len(text)
        """,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("MMLOAD_HOOK_DIR", str(tmp_path / "spans"))
    monkeypatch.setattr(probes, "_tables", {})
    monkeypatch.setattr(table, "_seen", set())
    before = {n: m for n, m in sys.modules.items() if n.partition(".")[0] == "transformers"}
    for name in before:
        monkeypatch.delitem(sys.modules, name)
    root = tmp_path / "modules"
    for name, source in MODULES.items():
        path = root.joinpath(*name.split("."))
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.with_suffix(".py").write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(str(root))
    assert spans.arm("test")
    attach(table.TABLE)
    for name in MODULES:
        __import__(name)
    yield tmp_path / "spans"
    spans.shutdown()
    for name in [n for n in sys.modules if n.partition(".")[0] == "transformers"]:
        del sys.modules[name]
    sys.modules.update(before)


def module(name: str) -> Any:
    return sys.modules[f"transformers.{name}"]


def read(folder: Path) -> list[Span]:
    spans.shutdown()
    found = SpanLines(sorted(folder.glob("*.jsonl")))
    return sorted(found, key=lambda span: (span.start_ns, -span.end_ns))


def processor() -> Any:
    demo = module("models.demo")
    tokenizer = module("tokenization_utils_base").PreTrainedTokenizerBase()
    parts = (demo.DemoImageProcessor(), demo.DemoVideoProcessor(), tokenizer)
    return module("processing_utils").ProcessorMixin(*parts)


def test_the_outermost_call_is_the_processor_and_steps_count_once(folder: Path) -> None:
    image = SimpleNamespace(size=(40, 30))
    video = np.zeros((4, 30, 40, 3), np.uint8)
    spans.request_id.set("r1")
    assert processor()([image], ["hello"], videos=[video]) == [5]
    spans.request_id.set(None)
    found = read(folder)
    assert {span.request_id for span in found} == {"r1"}
    stages = [span.stage for span in found]
    assert {stage: stages.count(stage) for stage in stages} == {
        "processor": 1,
        "processor_tensor": 2,
        "processor_resize": 2,  # the image's calls itself by way of the class above it
        "processor_normalise": 2,
        "tokenize": 1,
    }
    whole = found[0]
    assert whole.stage == "processor"
    assert (whole.facts["frames"], whole.facts["pixels"]) == (5, 5 * 1200)
    assert "cpu_ns" in whole.facts


def test_a_video_processor_alone_is_the_processor(folder: Path) -> None:
    video = module("models.demo").DemoVideoProcessor()
    video([np.zeros((3, 8, 6, 3), np.uint8)])
    [one] = [span for span in read(folder) if span.stage == "processor"]
    assert one.facts["frames"] == 3


def test_inside_vllm_only_the_steps_are_recorded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace())
    processor()([SimpleNamespace(size=(4, 4))], ["a"])
    stages = [span.stage for span in read(folder)]
    assert "processor" not in stages and "processor_resize" in stages


def test_an_error_leaves_nothing_open(folder: Path) -> None:
    whole = processor()
    for _ in range(2):
        with pytest.raises(TypeError):
            whole([SimpleNamespace(size=(4, 4))], None)
    found = [span for span in read(folder) if span.stage == "processor"]
    assert [span.facts["error"] for span in found] == ["TypeError", "TypeError"]


@pytest.mark.parametrize(
    ("images", "videos", "frames", "pixels"),
    [
        (None, None, None, None),
        (SimpleNamespace(size=(40, 30)), None, 1, 1200),
        ([SimpleNamespace(size=(40, 30)), np.zeros((20, 10, 3))], None, 2, 1400),
        (np.zeros((3, 20, 10)), None, 1, 200),
        (np.zeros((20, 10)), None, 1, 200),
        (None, np.zeros((15, 48, 64, 3)), 15, 15 * 3072),
        (None, [np.zeros((2, 3, 48, 64)), np.zeros((5, 8, 8, 3))], 7, 2 * 3072 + 5 * 64),
        (None, [(np.zeros((2, 48, 64, 3)), {"fps": 2})], 2, 2 * 3072),
        ("http://x/a.png", None, None, None),
    ],
)
def test_media_are_counted(
    images: Any, videos: Any, frames: int | None, pixels: int | None
) -> None:
    found = media_facts(images, videos)
    assert (found.get("frames"), found.get("pixels")) == (frames, pixels)
