"""A tiny Qwen3-VL with random weights, made here: a real model's work, and nothing to download.

Architecture, arithmetic and control flow are transformers' Qwen3-VL; the sizes are the least that
keep all its parts (vision tower, DeepStack, merger, three-axis positions, grouped attention). The
same seed gives the same weights. What it says means nothing: printable pieces of the embedded
server's own tokenizer, never an end, so that the server ends its answers. Needs torch.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from mmload.server.tokenizer import IMAGE_PAD, VIDEO_PAD, Tokenizer

HIDDEN: Final = 64
VISION_HIDDEN: Final = 32
HEAD: Final = 32  # of the text model; its rotary pairs are dealt to time, height and width
SECTIONS: Final = (6, 5, 5)  # add up to HEAD / 2


class Vocabulary(Protocol):
    """What the model has to know of its tokenizer."""

    @property
    def special(self) -> Mapping[str, int]: ...

    @property
    def size(self) -> int: ...


def tiny_config(tokenizer: Vocabulary) -> Any:
    """A `Qwen3VLConfig` for the tokenizer's ids."""
    from transformers import Qwen3VLConfig

    special = tokenizer.special
    rope = {"rope_type": "default", "rope_theta": 5e6}
    return Qwen3VLConfig(
        image_token_id=special[IMAGE_PAD],
        video_token_id=special[VIDEO_PAD],
        vision_start_token_id=special["<|vision_start|>"],
        vision_end_token_id=special["<|vision_end|>"],
        tie_word_embeddings=False,
        text_config={
            "vocab_size": tokenizer.size,
            "hidden_size": HIDDEN,
            "intermediate_size": 3 * HIDDEN,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "head_dim": HEAD,
            "max_position_embeddings": 262_144,
            "rope_parameters": {**rope, "mrope_interleaved": True, "mrope_section": [*SECTIONS]},
            "bos_token_id": None,
            "eos_token_id": None,
        },
        vision_config={
            "hidden_size": VISION_HIDDEN,
            "intermediate_size": 4 * VISION_HIDDEN,
            "depth": 1,
            "num_heads": 1,
            "deepstack_visual_indexes": [0],
            "out_hidden_size": HIDDEN,
            "num_position_embeddings": 2304,
        },
    )


def tiny_model(seed: int, tokenizer: Tokenizer) -> Any:
    """A `Qwen3VLForConditionalGeneration` in float32. Leaves torch's random state as it was."""
    import torch
    from transformers import Qwen3VLForConditionalGeneration

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3VLForConditionalGeneration(tiny_config(tokenizer))
    model.generation_config.suppress_tokens = unprintable(tokenizer)
    return model.eval()


def unprintable(tokenizer: Tokenizer) -> list[int]:
    """Ids that are no printable ASCII text: marks, control characters, parts of characters."""
    texts = (tokenizer.decode([number]) for number in range(tokenizer.size))
    marks = set(tokenizer.special.values())
    return [
        number
        for number, text in enumerate(texts)
        if number in marks or not (text.isascii() and text.isprintable())
    ]
