"""A Qwen3-VL of transformers, loaded and taken apart into what an engine does with it.

    model = load_tiny(seed, tokenizer, place) or load_checkpoint(path, place)
    features = model.encode(medium)                  # the vision tower
    decoding = model.prefill(inputs, [features])     # the prompt; gives the first token
    decoding.advance()                               # one token more

Greedy: always the likeliest token, whatever a client asks for. Each call queues its work on the
device and, on CUDA, returns before that is done; tokens stay on the device until `Pending.read`.
transformers itself reads the media's grids back from the device, a few numbers each, and waits for
that. For one thread; the caller has torch's inference mode on. Needs torch and transformers.
"""

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
import transformers
from transformers.models.qwen3_vl.modeling_qwen3_vl import BaseModelOutputWithDeepstackFeatures

from mmload.errors import UsageError
from mmload.server.inputs import Medium, ModelInputs
from mmload.server.tiny_model import tiny_model
from mmload.server.tokenizer import Tokenizer

CHECKPOINT_TYPE: Final = "qwen3_vl"


class Features(NamedTuple):
    """What the vision tower makes of one medium, on the tower's device."""

    embeddings: Any  # (tokens, hidden)
    deepstack: tuple[Any, ...]  # the same shape, one a layer that takes them


@dataclass(frozen=True, slots=True)
class Place:
    """Where it computes: torch device names."""

    device: str
    encoder: str


def choose_place(encoder_on_cpu: bool) -> Place:
    """CUDA where there is one, else the CPU."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return Place(device, "cpu" if encoder_on_cpu else device)


class VisionLanguageModel:
    """`ends`: tokens by which the model ends an answer."""

    def __init__(self, model: Any, place: Place, words: str) -> None:
        accepted = inspect.signature(model.forward).parameters
        if "mm_encoder_outputs" not in accepted:
            raise UsageError(
                f"--engine torch: transformers {transformers.__version__} is too old: its Qwen3-VL"
                " takes no encoder outputs",
                "pip install -U transformers",
            )
        self._cache_name = "cache" if "cache" in accepted else "past_key_values"
        self.words = words  # for people
        self.place = place
        self._model = model.to(place.device).eval()
        self._core = model.model
        self._tower = model.model.visual
        if place.encoder != place.device:  # in float32: see `--encoder-device`
            self._tower.to(place.encoder, torch.float32)
        made = model.generation_config
        ends = made.eos_token_id
        self.ends = frozenset([ends] if isinstance(ends, int) else ends or ())
        suppressed = made.suppress_tokens
        self._never = torch.tensor(suppressed, device=place.device) if suppressed else None

    def encode(self, medium: Medium) -> Features:
        """The features of a medium that has its pixels."""
        pixels = torch.as_tensor(medium.pixels).to(self.place.encoder, self._tower.dtype)
        grid = torch.tensor([medium.grid], device=self.place.encoder)
        out = self._tower(pixels, grid_thw=grid)
        return Features(out.pooler_output, tuple(out.deepstack_features))

    def prefill(self, inputs: ModelInputs, features: Sequence[Features]) -> "Decoding":
        """Runs the whole prompt. `features`: of `inputs.media`, in their order."""
        ids = torch.tensor([inputs.ids])
        positions, shift = self._positions(ids, inputs.media)
        by_kind: dict[str, Any] = {}
        for kind in ("image", "video"):
            mine = [f for f, m in zip(features, inputs.media, strict=True) if m.kind == kind]
            if mine:
                layers = zip(*(one.deepstack for one in mine), strict=True)
                by_kind[kind] = BaseModelOutputWithDeepstackFeatures(
                    pooler_output=self._here(one.embeddings for one in mine),
                    deepstack_features=[self._here(layer) for layer in layers],
                )
        out = self._model(
            input_ids=ids.to(self.place.device),
            position_ids=positions.to(self.place.device),
            mm_encoder_outputs=by_kind or None,
            use_cache=True,
            logits_to_keep=1,
        )
        return Decoding(self, out, len(inputs.ids) + shift)

    def _here(self, tensors: Iterable[Any]) -> list[Any]:
        """On the model's device, wherever the tower is."""
        return [tensor.to(self.place.device) for tensor in tensors]

    def _positions(self, ids: Any, media: Sequence[Medium]) -> tuple[Any, int]:
        """Positions on three axes (3, 1, tokens); how much less than its number a token's is."""
        if not media:
            return torch.arange(ids.shape[1]).view(1, 1, -1).expand(3, 1, -1), 0
        config = self._model.config
        kinds = (ids == config.image_token_id).int() + 2 * (ids == config.video_token_id).int()
        grids = {
            kind: torch.tensor([m.grid for m in media if m.kind == kind]) if there else None
            for kind, there in (
                ("image", any(m.kind == "image" for m in media)),
                ("video", any(m.kind == "video" for m in media)),
            )
        }
        positions, shift = self._core.get_rope_index(
            ids, kinds, image_grid_thw=grids["image"], video_grid_thw=grids["video"]
        )
        return positions, int(shift)

    def next_of(self, token: Any, position: int, cache: Any) -> Any:
        """One step: `token`, (1, 1) on the device, and what came before."""
        at = torch.full((3, 1, 1), position, device=self.place.device)
        before = {self._cache_name: cache}
        return self._model(input_ids=token, position_ids=at, use_cache=True, **before)

    def likeliest(self, out: Any) -> Any:
        """(1, 1) on the device."""
        logits = out.logits[:, -1].float()
        if self._never is not None:
            logits[:, self._never] = -torch.inf
        return logits.argmax(-1, keepdim=True)

    def cache_of(self, out: Any) -> Any:
        return getattr(out, self._cache_name)


class Decoding:
    """An answer under way. `token`: the latest, (1, 1), on the device."""

    def __init__(self, model: VisionLanguageModel, prefilled: Any, position: int) -> None:
        self._model = model
        self._cache = model.cache_of(prefilled)
        self._position = position
        self.token = model.likeliest(prefilled)

    def advance(self) -> None:
        out = self._model.next_of(self.token, self._position, self._cache)
        self._cache = self._model.cache_of(out)
        self._position += 1
        self.token = self._model.likeliest(out)


class Pending:
    """A token on its way to the host. Read it once the device is past the copy."""

    def __init__(self, token: Any) -> None:
        if token.is_cuda:
            self._host = torch.empty(1, dtype=token.dtype, pin_memory=True)
            self._host.copy_(token.view(-1), non_blocking=True)
        else:
            self._host = token.view(-1)

    def read(self) -> int:
        return int(self._host)


def load_tiny(seed: int, tokenizer: Tokenizer, place: Place) -> VisionLanguageModel:
    model = tiny_model(seed, tokenizer)
    return VisionLanguageModel(model, place, f"{_size(model)}, random weights, seed {seed}")


def load_checkpoint(path: Path, place: Place) -> VisionLanguageModel:
    """Reads the folder and nothing else. Raises UsageError for one that is no Qwen3-VL."""
    hint = "give a folder with a Qwen3-VL's config.json and its .safetensors"
    try:
        config: Any = transformers.AutoConfig.from_pretrained(path, local_files_only=True)
        if config.model_type != CHECKPOINT_TYPE:
            raise ValueError(f"its model_type is {config.model_type!r}, not {CHECKPOINT_TYPE!r}")
        model = transformers.Qwen3VLForConditionalGeneration.from_pretrained(
            path, config=config, local_files_only=True, dtype="auto"
        )
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"--model-path {path}: {str(error).splitlines()[0]}", hint) from error
    return VisionLanguageModel(model, place, f"{_size(model)}, from {path.name}")


def _size(model: Any) -> str:
    count = sum(parameter.numel() for parameter in model.parameters())
    return f"Qwen3-VL of {count / 1e6:,.1f} million parameters"
