"""Named tensors out of `.npz` and `.safetensors` files, with numpy alone.

In: a path. Out: `Tensor`s by name. A damaged or unknown file raises UsageError that says what is
wrong; nothing in a file is ever executed (no pickles).

safetensors is read here, without its library, as numpy has no bfloat16 and the library's numpy
side refuses it. Format: https://huggingface.co/docs/safetensors, "Format": 8 bytes of length
(little-endian), that many bytes of JSON (name -> dtype, shape, data_offsets into the rest).
"""

import json
import math
import zipfile
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np

from mmload.errors import UsageError
from mmload.parity.tensors import BFLOAT16, Tensor, of_array

HEADER_MOST: Final = 100_000_000  # bytes, as the format's own readers allow
_STORED: Final = {
    "BOOL": "?",
    "U8": "<u1",
    "I8": "<i1",
    "U16": "<u2",
    "I16": "<i2",
    "U32": "<u4",
    "I32": "<i4",
    "U64": "<u8",
    "I64": "<i8",
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
    "BF16": "<u2",  # as bits, see `Tensor`
}


def load(path: Path) -> dict[str, Tensor]:
    """The tensors of a file. Raises UsageError."""
    readers = {".npz": _npz, ".safetensors": _safetensors}
    if path.suffix not in readers:
        raise UsageError(f"{path}: mmload reads .npz and .safetensors", "name such a file")
    try:
        return readers[path.suffix](path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}", "name a file to read") from None


def _npz(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        path.open("rb").close()  # says why it cannot be read
    try:
        with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError) as error:
        raise _damaged(path, str(error)) from None
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            raise UsageError(
                f"{path}: {name!r} is {array.dtype}; mmload compares numbers of up to 8 bytes",
                "save bfloat16 in a .safetensors file, or convert it to float32 first",
            )
    return {name: of_array(array) for name, array in arrays.items()}


def _safetensors(path: Path) -> dict[str, Tensor]:
    with path.open("rb") as file:
        head = file.read(8)
        length = int.from_bytes(head, "little")
        left = path.stat().st_size - 8
        if len(head) < 8 or length > min(left, HEADER_MOST):
            raise _damaged(path, "its header is longer than the file")
        header = file.read(length)
    try:
        entries = json.loads(header)
    except ValueError as error:
        raise _damaged(path, f"its header is not JSON: {error}") from None
    if not isinstance(entries, dict):
        raise _damaged(path, "its header is not a JSON object")
    entries.pop("__metadata__", None)
    size = left - length
    data: Any = np.memmap(path, np.uint8, "r", 8 + length) if size else np.empty(0, np.uint8)
    return {name: _tensor(path, name, entry, data) for name, entry in entries.items()}


def _tensor(path: Path, name: str, entry: Any, data: Any) -> Tensor:
    try:
        kind, shape, (start, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        whole = all(type(n) is int and n >= 0 for n in (*shape, start, end))
    except (TypeError, KeyError, ValueError):
        whole = False
    if not whole:
        raise _damaged(path, f"{name!r} has no whole dtype, shape and data_offsets")
    if kind not in _STORED:
        raise UsageError(
            f"{path}: {name!r} is {kind}; mmload reads {', '.join(_STORED)}",
            "convert it to float32 first",
        )
    stored = np.dtype(_STORED[kind])
    if end > data.size or end - start != math.prod(shape) * stored.itemsize:
        raise _damaged(path, f"{name!r} is {kind} {shape} in bytes {start} to {end} of {data.size}")
    bits = np.frombuffer(data[start:end], stored).reshape(shape)
    return Tensor(BFLOAT16 if kind == "BF16" else stored.name, bits)


def _damaged(path: Path, why: str) -> UsageError:
    return UsageError(f"{path}: damaged: {why}", "write the file again")
