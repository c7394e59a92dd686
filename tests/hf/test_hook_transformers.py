"""transformers' table against transformers itself: a process of its own, as `mmload trace` starts
it, calls a processor of Qwen3-VL."""

import os
import subprocess
import sys
from pathlib import Path

from mmload.rundir import SpanLines
from mmload.trace import environment_for

PROGRAM = """
import numpy as np
from mmload.hook import spans
from transformers import Qwen2VLImageProcessor, Qwen3VLVideoProcessor

image = Qwen2VLImageProcessor(patch_size=16)
video = Qwen3VLVideoProcessor()
spans.request_id.set("r-image")
image(images=[np.zeros((96, 128, 3), np.uint8)], return_tensors="pt")
spans.request_id.set("r-video")
video(videos=[np.zeros((4, 96, 128, 3), np.uint8)], do_sample_frames=False, return_tensors="pt")
"""


def test_a_processor_and_its_steps(tmp_path: Path) -> None:
    environment = {**os.environ, **environment_for(tmp_path / "spans")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    lines = SpanLines(sorted((tmp_path / "spans").glob("*.jsonl")))
    found = list(lines)
    for name, frames in (("r-image", 1), ("r-video", 4)):
        mine = [span for span in found if span.request_id == name]
        [whole] = [span for span in mine if span.stage == "processor"]
        assert whole.facts["frames"] == frames and whole.facts["threads"] >= 1
        assert whole.facts["pixels"] == frames * 96 * 128
        steps = {span.stage for span in mine} - {"processor"}
        assert {"processor_resize", "processor_normalise", "processor_patchify"} <= steps
        inside = [span for span in mine if span.stage != "processor"]
        assert all(whole.start_ns <= s.start_ns <= s.end_ns <= whole.end_ns for s in inside)
        assert sum(s.end_ns - s.start_ns for s in inside) <= whole.end_ns - whole.start_ns
    [process] = lines.processes
    assert process.notes["versions"]["transformers"]
    assert not process.notes.get("missing")
