"""transformers' processors in any server: the call, and the steps inside it.

A processor, image processor or video processor is looked at when the first of its class is built:
the steps that its class and the classes above it define are wrapped there, by name. The outermost
call is the `processor` stage; inside vLLM and SGLang, whose tables know it better, only the steps
are recorded. A step that calls itself by way of a class above it counts once. Stdlib only.
"""

import functools
import sys
import threading
from typing import Any, Final

from mmload.hook import machine_facts
from mmload.hook.media_facts import media_facts
from mmload.hook.probes import Probe, Table, Target
from mmload.hook.wrap import Decorator, Leave, around, timed

# method -> stage; the names of transformers 4.5x to 5.24
STEPS: Final[dict[str, str]] = {
    "_decode_and_sample_videos": "processor_sample",
    "_prepare_input_videos": "processor_tensor",
    "process_image": "processor_tensor",
    "resize": "processor_resize",
    "aspect_ratio_preserving_resize": "processor_resize",
    "rescale_and_normalize": "processor_normalise",
    "patchify": "processor_patchify",
    "get_text_with_replacements": "processor_prompt",
}
# Gemma 4's steps are functions of its modules
_FUNCTIONS: Final = (
    ("patches of images", "gemma4.image_processing_gemma4:convert_image_to_patches"),
    ("patches of videos", "gemma4.video_processing_gemma4:convert_video_to_patches"),
    ("padding of videos", "gemma4.video_processing_gemma4:pad_to_max_patches"),
)
_CALL: Final = "__call__"
_PATCHES: Final = "processor_patchify"
_SERVERS: Final = ("vllm", "sglang")  # they have tables of their own


class _Open(threading.local):
    """The stages that this thread is in, so that nested calls count once."""

    def __init__(self) -> None:
        self.stages: set[str] = set()


_open: Final = _Open()
_seen: Final[set[type]] = set()
_lock: Final = threading.Lock()


def _once(stage: str, decorator: Decorator) -> Decorator:
    """`decorator`, but for calls from within the same stage on the same thread."""

    def decorate(function: Any) -> Any:
        recorded = decorator(function)

        def enter(*_args: Any, **_kwargs: Any) -> Leave:
            _open.stages.add(stage)

            def leave(_result: object, _error: BaseException | None) -> None:
                _open.stages.discard(stage)

            return leave

        outermost = around(enter)(recorded)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return (function if stage in _open.stages else outermost)(*args, **kwargs)

        return call

    return decorate


def _step(stage: str) -> Decorator:
    return timed(stage, measure=True)


def _called(
    _self: Any, images: Any = None, *_args: Any, videos: Any = None, **_kwargs: Any
) -> dict[str, Any]:
    machine_facts.note_process()
    return {**media_facts(images, videos), **machine_facts.threads()}


def _called_with_videos(self: Any, videos: Any = None, *_a: Any, **_k: Any) -> dict[str, Any]:
    return _called(self, None, videos=videos)


def instrument(kind: type) -> None:
    """Wraps the steps that a class and those above it define. Each class once."""
    with _lock:
        for one in kind.__mro__:
            if one in _seen or not one.__module__.partition(".")[0] == "transformers":
                continue
            _seen.add(one)
            for name, stage in STEPS.items():
                function = vars(one).get(name)
                if callable(function) and not isinstance(function, staticmethod | classmethod):
                    setattr(one, name, _once(stage, _step(stage))(function))
            call = vars(one).get(_CALL)
            if callable(call) and not any(server in sys.modules for server in _SERVERS):
                facts = _called_with_videos if "video" in one.__name__.lower() else _called
                recorded = timed("processor", measure=True, before=facts)
                setattr(one, _CALL, _once("processor", recorded)(call))


def _built(self: Any, *_args: Any, **_kwargs: Any) -> None:
    instrument(type(self))


def _when_built(event: str, *paths: str) -> Probe:
    targets = tuple(Target(f"transformers.{path}.__init__", around(_built)) for path in paths)
    return Probe(event, targets, merged="unattributed")


TABLE: Final = Table(
    "transformers",
    (
        _when_built("processor", "processing_utils:ProcessorMixin"),
        _when_built("image processor", "image_processing_base:ImageProcessingMixin"),
        _when_built("video processor", "video_processing_utils:BaseVideoProcessor"),
        Probe(
            "tokenize",
            (
                Target(
                    "transformers.tokenization_utils_base:PreTrainedTokenizerBase.__call__",
                    _once("tokenize", _step("tokenize")),
                ),
            ),
            merged="processor",
        ),
        *(
            Probe(
                event,
                (Target(f"transformers.models.{path}", _once(_PATCHES, _step(_PATCHES))),),
                merged="processor",
            )
            for event, path in _FUNCTIONS
        ),
    ),
)
