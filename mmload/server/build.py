"""Which renderer, processor, prompts and engine the settings ask for, put together.

torch and transformers are imported here, and only when a part needs them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mmload.clock import Clock
from mmload.server.engine import Engine
from mmload.server.engine_simulated import SimulatedEngine
from mmload.server.media_processors import HfProcessor, NumpyProcessor, Processor
from mmload.server.metrics import Metrics
from mmload.server.prompts import Layout, OwnPrompts, Prompts
from mmload.server.renderer import FixedRenderer, Renderer, ThreadRenderer
from mmload.server.settings import ServerSettings, usable_cores


class Parts(NamedTuple):
    renderer: Renderer
    engine: Engine
    describe: Callable[[], dict[str, Any]]  # what serves, for the hook


def build(settings: ServerSettings, clock: Clock, metrics: Metrics) -> Parts:
    """Loads the model, where there is one. Raises UsageError for what cannot be loaded."""
    prompts: Prompts = OwnPrompts(_layout(settings))
    if settings.engine == "simulated":
        engine: Engine = SimulatedEngine(settings, clock, metrics)
        engine_words: dict[str, Any] = {}
    else:
        engine, prompts, engine_words = _torch_engine(settings, clock, metrics)
    if settings.processor_fixed_ms is not None:
        fixed = FixedRenderer(settings, clock, metrics, prompts)
        return Parts(fixed, engine, lambda: engine_words)
    keep = engine.needs_inputs
    processor: Processor = (
        NumpyProcessor(settings, prompts.layout, keep)
        if settings.processor == "numpy"
        else HfProcessor(settings, prompts.layout, metrics, keep)
    )
    renderer = ThreadRenderer(settings.renderer_workers, metrics, prompts, processor, keep=keep)
    return Parts(renderer, engine, lambda: {**processor.describe(), **engine_words})


def _layout(settings: ServerSettings) -> Layout:
    """A family's own where its own processor or model is used."""
    if settings.processor == "numpy" and settings.engine == "simulated":
        return "plain"
    return settings.model_family


def _torch_engine(
    settings: ServerSettings, clock: Clock, metrics: Metrics
) -> tuple[Engine, Prompts, dict[str, Any]]:
    import transformers

    from mmload.server.engine_torch import TorchEngine
    from mmload.server.prompts_checkpoint import CheckpointPrompts
    from mmload.server.vision_language import choose_place, load_checkpoint, load_tiny

    transformers.utils.logging.disable_progress_bar()  # the log is for requests
    place = choose_place(settings.encoder_device == "cpu")
    threads = settings.engine_threads
    if settings.model_path is None:
        threads = threads or 1  # its operations are too small to be shared
        own = OwnPrompts("qwen3-vl")
        prompts: Prompts = own
        model = load_tiny(settings.model_seed, own.tokenizer, place)
    else:
        path = Path(settings.model_path)
        prompts = CheckpointPrompts(path)
        model = load_checkpoint(path, place)
    engine = TorchEngine(
        model,
        prompts,
        clock,
        metrics,
        threads=threads or usable_cores(),
        cached_media=settings.embedding_cache,
    )
    return engine, prompts, engine.describe()
