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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
import transformers

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
        accepted = inspect.signature(model.model.language_model.forward).parameters
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
        config = self._model.config
        seen = (ids == config.image_token_id) | (ids == config.video_token_id)
        device = self.place.device
        embeddings = self._core.get_input_embeddings()(ids.to(device))
        deepstack: dict[str, Any] = {}
        if features:
            seen = seen.to(device)
            mine = self._joined([one.embeddings for one in features], embeddings.dtype)
            embeddings = embeddings.masked_scatter(seen.unsqueeze(-1), mine)
            layers = zip(*(one.deepstack for one in features), strict=True)
            deepstack["visual_pos_masks"] = seen
            deepstack["deepstack_visual_embeds"] = [
                self._joined(layer, embeddings.dtype) for layer in layers
            ]
        out = self._core.language_model(
            inputs_embeds=embeddings,
            position_ids=positions.to(device),
            use_cache=True,
            **deepstack,
        )
        return Decoding(self, out, len(inputs.ids) + shift)

    def _joined(self, tensors: Sequence[Any], dtype: Any) -> Any:
        """All media's, in the order of the prompt, on the model's device."""
        return torch.cat([tensor.to(self.place.device, dtype) for tensor in tensors])

    def _positions(self, ids: Any, media: Sequence[Medium]) -> tuple[Any, int]:
        """Positions on three axes (3, 1, tokens); how much less than its number a token's is."""
        if not media:
            return torch.arange(ids.shape[1]).view(1, 1, -1).expand(3, 1, -1), 0
        config = self._model.config
        kinds = (ids == config.image_token_id).int() + 2 * (ids == config.video_token_id).int()
        images = [medium.grid for medium in media if medium.kind == "image"]
        videos = [medium.grid for medium in media if medium.kind == "video"]
        positions, shift = self._core.get_rope_index(
            ids,
            kinds,
            image_grid_thw=torch.tensor(images) if images else None,
            video_grid_thw=torch.tensor(videos) if videos else None,
        )
        return positions, int(shift)

    def next_of(self, token: Any, position: int, cache: Any) -> Any:
        """One step: `token`, (1, 1) on the device, and what came before."""
        at = torch.full((3, 1, 1), position, device=self.place.device)
        before = {self._cache_name: cache}
        return self._core.language_model(input_ids=token, position_ids=at, use_cache=True, **before)

    def likeliest(self, out: Any) -> Any:
        """The token after the last, (1, 1) on the device."""
        logits = self._model.lm_head(out.last_hidden_state[:, -1]).float()
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
