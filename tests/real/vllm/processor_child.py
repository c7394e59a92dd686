"""vLLM's multimodal processor alone, without an engine, driven by lines on standard input.

    VENV/bin/python tests/real/vllm/processor_child.py MODEL_DIR device|host

`device`: rescaling and normalising are left to the device, vLLM's default for this model; `host`:
they are not. Loads vLLM's general plugins as its servers do. Each line is a case, `{"case": NAME,
"seed": N}`; each answer is a line too, `{"tensors", "prompt", "ns", "facts"}`: each tensor's type,
shape and hash, the prompt's tokens, the time that the processor took, and whose its calls were.
`{"case": "keep", "seed": CALLS}` makes many outputs in four threads, keeps some of them, and
answers with what they were when they were made, and are in the end.
"""

import hashlib
import json
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from PIL import Image
from vllm.engine.arg_utils import EngineArgs
from vllm.multimodal import MULTIMODAL_REGISTRY
from vllm.plugins import load_general_plugins

from mmload.hook import vllm_render

IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
VIDEO = "<|vision_start|><|video_pad|><|vision_end|>"


def frames(seed: int, count: int, height: int = 480, width: int = 854) -> Any:
    noise = np.random.default_rng(seed).integers(0, 256, (count, height // 8, width // 8, 3))
    video = noise.astype(np.uint8).repeat(8, axis=1).repeat(8, axis=2)
    return np.ascontiguousarray(np.pad(video, [(0, 0), (0, height % 8), (0, width % 8), (0, 0)]))


def video(seed: int, count: int, *size: int) -> tuple[Any, dict[str, Any]]:
    said = {"fps": 2.0, "total_num_frames": count, "frames_indices": list(range(count))}
    return frames(seed, count, *size), {**said, "duration": count / 2.0, "video_backend": "opencv"}


def picture(seed: int, mode: str = "RGB") -> Any:
    return Image.fromarray(frames(seed, 1)[0]).convert(mode)


def case(name: str, seed: int) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Prompt, media, and the request's own options for the processor."""
    if name == "image":
        return IMAGE, {"image": [picture(seed)]}, {}
    if name == "grey and alpha":
        return IMAGE * 2, {"image": [picture(seed, "L"), picture(seed + 1, "RGBA")]}, {}
    if name == "images and videos":
        media = {
            "image": [picture(seed), picture(seed + 1)],
            "video": [video(seed, 3), video(9, 6)],
        }
        return IMAGE + VIDEO + IMAGE + VIDEO, media, {}
    if name == "smaller":
        size = {"shortest_edge": 4096, "longest_edge": 600_000}
        return VIDEO, {"video": [video(seed, 6)]}, {"size": size}
    if name == "sampled":
        return VIDEO, {"video": [video(seed, 12)]}, {"do_sample_frames": True, "fps": 1.0}
    if name == "not resized":
        return VIDEO, {"video": [video(seed, 4, 448, 832)]}, {"do_resize": False}
    return VIDEO, {"video": [video(seed, int(name))]}, {}


def tensors(made: Any) -> dict[str, Any]:
    found = {}
    for modality, items in made["mm_kwargs"].items():
        for at, item in enumerate(items):
            for name, value in item.get_data().items():
                found[f"{modality} {at} {name}"] = value
    return found


def digests(values: dict[str, Any]) -> dict[str, str]:
    found = {}
    for name, value in values.items():
        if isinstance(value, torch.Tensor):
            data = hashlib.sha256(value.contiguous().view(torch.uint8).numpy().tobytes())
            found[name] = f"{value.dtype} {tuple(value.shape)} {data.hexdigest()}"
        else:
            found[name] = repr(value)
    return found


def apply(processor: Any, name: str, seed: int) -> tuple[Any, int, dict[str, Any]]:
    prompt, media, options = case(name, seed)
    items = processor.info.parse_mm_data(media)
    facts: dict[str, Any] = {}
    token = vllm_render._seen.set(facts)
    start_ns = time.perf_counter_ns()
    made = processor(prompt, items, hf_processor_mm_kwargs=options)
    took_ns = time.perf_counter_ns() - start_ns
    vllm_render._seen.reset(token)
    return made, took_ns, facts


def keep(processor: Any, calls: int) -> dict[str, Any]:
    """Outputs that are kept while others are made and dropped, as a cache and a slow socket do."""
    choose = random.Random(1)
    kept: list[tuple[dict[str, str], dict[str, Any]]] = []

    def one(seed: int) -> None:
        values = tensors(apply(processor, choose.choice(["image", "2", "3"]), seed)[0])
        if seed % 3 == 0:
            kept.append((digests(values), values))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(calls)))
    return {"made": [before for before, _ in kept], "end": [digests(held) for _, held in kept]}


def main() -> None:
    model, mode = sys.argv[1:3]
    load_general_plugins()
    torch.set_num_threads(1)  # as vLLM's renderer does
    arguments = EngineArgs(
        model=model,
        load_format="dummy",
        max_model_len=16384,
        dtype="bfloat16",
        mm_device_do_normalize=mode == "device",
    )
    processor = MULTIMODAL_REGISTRY.create_processor(arguments.create_model_config())
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["case"] == "keep":
            answer = keep(processor, asked["seed"])
        else:
            made, took_ns, facts = apply(processor, asked["case"], asked["seed"])
            answer = {"tensors": digests(tensors(made)), "prompt": made["prompt_token_ids"]}
            answer |= {"ns": took_ns, "facts": facts}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
