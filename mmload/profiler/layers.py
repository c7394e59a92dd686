"""Which layer a function belongs to: the one table of packages, files and libraries.

In: a frame's file. Out: a layer's key. A file is first made into a path inside its package
(`vllm/renderers/base.py`), wherever it is installed; then the longest prefix in `PACKAGES` decides.
Native code outside of Python packages (libc's memcpy, the interpreter's allocator) has no layer of
its own: it works for whoever called it.
"""

import re
import sys
from typing import Final, NamedTuple

from mmload.profiler.stacks import Frame


class Layer(NamedTuple):
    """A slice of the cake."""

    key: str
    title: str


LAYERS: Final = (
    Layer("web", "web stack"),
    Layer("vllm", "vLLM core"),
    Layer("vllm_model", "vLLM model adapter"),
    Layer("sglang", "SGLang"),
    Layer("sglang_model", "SGLang model adapter"),
    Layer("transformers", "transformers"),
    Layer("torchvision", "torchvision"),
    Layer("torch", "torch"),
    Layer("numeric", "numpy, OpenCV, codecs"),
    Layer("mmload_server", "mmload's embedded server"),
    Layer("mmload_processor", "mmload's processor"),
    Layer("mmload_hook", "mmload's hook"),
    Layer("python", "Python's library"),
    Layer("other", "other"),
)
TITLES: Final = {layer.key: layer.title for layer in LAYERS}

PACKAGES: Final[dict[str, str]] = {
    "vllm": "vllm",
    "vllm/model_executor/models": "vllm_model",
    "sglang": "sglang",
    "sglang/srt/models": "sglang_model",
    "sglang/srt/multimodal/processors": "sglang_model",
    **dict.fromkeys(("transformers", "tokenizers", "huggingface_hub"), "transformers"),
    "torchvision": "torchvision",
    **dict.fromkeys(("torch", "triton", "functorch", "torchcodec", "nvidia"), "torch"),
    **dict.fromkeys(
        (
            *("numpy", "cv2", "opencv_python_headless", "opencv_python", "PIL", "pillow", "scipy"),
            *("av", "decord", "numba", "llvmlite", "onnxruntime", "simplejpeg"),
        ),
        "numeric",
    ),
    **dict.fromkeys(
        (
            *("uvloop", "libuv", "libuv-x86_64", "libuv-aarch64", "libuv-arm64", "uvicorn"),
            *("fastapi", "starlette", "httptools", "h11", "anyio", "sniffio"),
            *("aiohttp", "multidict", "yarl", "frozenlist", "aiosignal", "propcache", "websockets"),
            *("pydantic", "pydantic_core", "httpx", "httpcore", "requests", "urllib3", "multipart"),
            *("python_multipart", "flask", "werkzeug", "gunicorn", "tornado", "grpc", "hypercorn"),
            *("asyncio", "selectors", "http", "ssl", "socket", "socketserver", "email"),
        ),
        "web",
    ),
    "mmload": "mmload_server",
    "mmload/processors": "mmload_processor",
    "mmload/hook": "mmload_hook",
}

_INSTALLED: Final = re.compile(r".*/(?:site|dist)-packages/(.+)")
_STDLIB: Final = re.compile(r".*/lib(?:64)?/python\d[0-9.]*[a-z]?/(?:lib-dynload/)?(.+)")
_BUNDLED: Final = re.compile(r"([A-Za-z0-9_]+)\.libs/")  # numpy.libs/libopenblas.so
_SOURCE: Final = re.compile(r".*\.(?:c|h|cc|hh|cpp|hpp|cxx|cu|cuh|rs|s|S|asm)")
_VERSIONED: Final = re.compile(r"-\d.*")  # tokenizers-0.22.1/src/lib.rs
_ENDING: Final = re.compile(r"\.(?:py|pyx|so|abi3|cpython|pyd|dylib)\b.*$")


def layer_of(frame: Frame) -> str | None:
    """Key of the frame's layer; None when it works for its caller."""
    file = frame.file.replace("\\", "/")
    if file.startswith("<frozen "):
        return _by_prefix(file[len("<frozen ") :].rstrip(">").replace(".", "/")) or "python"
    if frame.is_python:
        return _by_prefix(module_path(file)) or _of_stdlib(file) or "other"
    if _SOURCE.fullmatch(file):  # a library with debugging symbols
        parts = (_VERSIONED.sub("", part) for part in file.split("/"))
        return next((PACKAGES[part] for part in parts if part in PACKAGES), None)
    if _INSTALLED.fullmatch(file):
        return _by_prefix(module_path(file)) or "other"
    return _by_prefix(module_path(file)) or ("python" if "/lib-dynload/" in file else None)


def module_path(file: str) -> str:
    """`/x/site-packages/torch/nn/functional.py` -> `torch/nn/functional.py`; for a package that is
    not installed, from the folder on that has its name: `/src/vllm/vllm/v1/a.py` -> `vllm/v1/a.py`.
    """
    for place in (_INSTALLED, _STDLIB):
        found = place.fullmatch(file)
        if found is not None:
            inside = found[1]
            bundled = _BUNDLED.match(inside)
            return f"{bundled[1]}/{inside[bundled.end() :]}" if bundled else inside
    parts = file.split("/")
    for i, part in enumerate(parts):
        # In a checkout, the package's folder lies in one of the same name.
        if part in _CHECKED_OUT and (i + 1 == len(parts) or parts[i + 1] != part):
            return "/".join(parts[i:])
    return parts[-1]


# Packages that people run from a checkout, and that are no plain word.
_CHECKED_OUT: Final = frozenset(("vllm", "sglang", "transformers", "torchvision", "mmload"))


def package_of(frame: Frame) -> str:
    """`torch`, `threading`: the first part of its path inside its package."""
    if frame.file.startswith("<"):
        return "python"
    first = module_path(frame.file.replace("\\", "/")).split("/")[0]
    return first.split(".")[0]


def _by_prefix(path: str) -> str | None:
    """The layer of the longest prefix that is in the table."""
    parts = _ENDING.sub("", path).split("/")
    for n in range(len(parts), 0, -1):
        layer = PACKAGES.get("/".join(parts[:n]))
        if layer is not None:
            return layer
    return None


def _of_stdlib(file: str) -> str | None:
    if file.startswith("<"):
        return "python"
    found = _STDLIB.fullmatch(file)
    named = file.rpartition("/")[2].partition(".")[0] in sys.stdlib_module_names
    inside = found is not None and "-packages/" not in file
    return "python" if inside or ("/" not in file and named) else None
