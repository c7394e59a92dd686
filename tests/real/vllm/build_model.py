"""Writes a tiny, random Qwen3-VL for `vllm serve --load-format dummy`: everything but weights.

    VENV/bin/python tests/real/vllm/build_model.py MODEL_DIR

Real are the architecture, the image and video processors' settings and the special tokens; tiny are
the layers and the vocabulary (byte-level BPE of Python's own library). Answers are noise; the path
of a request is that of the large model. Needs `tokenizers`, which vLLM's environment has.
"""

import json
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for c in m.content %}"
    "{% if 'image' in c.type %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif 'video' in c.type %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% else %}{{ c.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PATCH = {"patch_size": 16, "temporal_patch_size": 2, "merge_size": 2}
PROCESSOR = {
    **PATCH,
    "image_mean": [0.5] * 3,
    "image_std": [0.5] * 3,
    "processor_class": "Qwen3VLProcessor",
}


def build(folder: Path) -> None:
    """Writes the model folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = trained()
    ids = {token: tokenizer.token_to_id(token) for token in SPECIAL}
    tokenizer.save(str(folder / "tokenizer.json"))
    bpe = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    merges = (merge if isinstance(merge, str) else " ".join(merge) for merge in bpe["merges"])
    (folder / "merges.txt").write_text("\n".join(merges), encoding="utf-8")
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    ends = [ids["<|im_end|>"], ids["<|endoftext|>"]]
    files: dict[str, dict[str, Any]] = {
        "vocab.json": bpe["vocab"],
        "tokenizer_config.json": tokenizer_config(ids),
        "chat_template.json": {"chat_template": TEMPLATE},
        "preprocessor_config.json": {
            **PROCESSOR,
            "size": {"longest_edge": 16777216, "shortest_edge": 65536},
            "image_processor_type": "Qwen2VLImageProcessorFast",
        },
        "video_preprocessor_config.json": {
            **PROCESSOR,
            "size": {"longest_edge": 25165824, "shortest_edge": 4096},
            "video_processor_type": "Qwen3VLVideoProcessor",
        },
        "config.json": model_config(ids, tokenizer.get_vocab_size()),
        "generation_config.json": {
            "bos_token_id": ids["<|endoftext|>"],
            "pad_token_id": ids["<|endoftext|>"],
            "eos_token_id": ends,
        },
    }
    for name, data in files.items():
        (folder / name).write_text(json.dumps(data, indent=1), encoding="utf-8")


def trained() -> Any:
    """A byte-level BPE of 2,000 tokens and the special ones."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(_corpus(), trainer)
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    return tokenizer


def _corpus() -> Iterator[str]:
    library = Path(sysconfig.get_paths()["stdlib"])
    for file in sorted(library.glob("*.py"))[:60]:
        yield file.read_text(encoding="utf-8", errors="ignore")


def tokenizer_config(ids: dict[str, int]) -> dict[str, Any]:
    plain = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
    return {
        "tokenizer_class": "Qwen2Tokenizer",
        "processor_class": "Qwen3VLProcessor",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": 262144,
        "additional_special_tokens": list(SPECIAL[1:]),
        "added_tokens_decoder": {
            str(number): {"content": token, "special": True, **plain}
            for token, number in ids.items()
        },
    }


def model_config(ids: dict[str, int], tokens: int) -> dict[str, Any]:
    return {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "model_type": "qwen3_vl",
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
        "tie_word_embeddings": True,
        "text_config": {
            "model_type": "qwen3_vl_text",
            "bos_token_id": ids["<|endoftext|>"],
            "eos_token_id": ids["<|im_end|>"],
            "dtype": "bfloat16",
            "head_dim": 32,
            "hidden_act": "silu",
            "hidden_size": 64,
            "intermediate_size": 192,
            "max_position_embeddings": 262144,
            "num_attention_heads": 2,
            "num_hidden_layers": 1,
            "num_key_value_heads": 1,
            "rms_norm_eps": 1e-6,
            "rope_scaling": {
                "mrope_interleaved": True,
                "mrope_section": [6, 5, 5],
                "rope_type": "default",
            },
            "rope_theta": 5e6,
            "tie_word_embeddings": True,
            "vocab_size": (tokens + 63) // 64 * 64,
        },
        "vision_config": {
            "model_type": "qwen3_vl",
            "deepstack_visual_indexes": [0],
            "depth": 1,
            "hidden_act": "gelu_pytorch_tanh",
            "hidden_size": 32,
            "in_channels": 3,
            "intermediate_size": 128,
            "num_heads": 1,
            "num_position_embeddings": 2304,
            "out_hidden_size": 64,  # the text model's hidden size
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
        },
    }


if __name__ == "__main__":
    build(Path(sys.argv[1]))
