"""Reading .npz and .safetensors: bytes written by hand, and every way in which they can be bad."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mmload.errors import UsageError
from mmload.parity import files
from mmload.parity.files import load


def safetensors(path: Path, header: Any, data: bytes = b"") -> Path:
    """A file as the format's page draws it."""
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + data)
    return path


def entry(dtype: str, shape: list[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def test_safetensors_by_hand(tmp_path: Path) -> None:
    header = {
        "__metadata__": {"format": "pt"},
        "half": entry("BF16", [2], 0, 4),
        "grid": entry("I64", [1, 2], 4, 20),
        "flag": entry("BOOL", [], 20, 21),
        "none": entry("F32", [0, 3], 21, 21),
    }
    data = bytes.fromhex("803f00c0" + "0800000000000000" + "1e00000000000000" + "01")
    read = load(safetensors(tmp_path / "t.safetensors", header, data))
    assert {name: (t.dtype, t.shape) for name, t in read.items()} == {
        "half": ("bfloat16", (2,)),
        "grid": ("int64", (1, 2)),
        "flag": ("bool", ()),
        "none": ("float32", (0, 3)),
    }
    assert read["half"].bits.tolist() == [0x3F80, 0xC000]
    assert read["grid"].bits.tolist() == [[8, 30]]
    assert read["flag"].bits.item() is True


def test_a_safetensors_file_without_tensors(tmp_path: Path) -> None:
    assert load(safetensors(tmp_path / "t.safetensors", {})) == {}


def test_npz(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "t.npz", a=np.arange(3), b=np.ones((2, 2), np.float16))
    read = load(tmp_path / "t.npz")
    assert {name: (t.dtype, t.shape) for name, t in read.items()} == {
        "a": ("int64", (3,)),
        "b": ("float16", (2, 2)),
    }


@pytest.mark.parametrize(
    ("header", "data", "says"),
    [
        (b"{", b"", "its header is not JSON"),
        (b"[]", b"", "its header is not a JSON object"),
        ({"x": 1}, b"", "'x' has no whole dtype, shape and data_offsets"),
        ({"x": entry("F32", [-1], 0, 4)}, b"0000", "'x' has no whole dtype"),
        ({"x": entry("F32", [2], 0, 4)}, b"0000", "'x' is F32 [2] in bytes 0 to 4 of 4"),
        ({"x": entry("F32", [2], 0, 8)}, b"0000", "'x' is F32 [2] in bytes 0 to 8 of 4"),
        ({"x": entry("F8_E4M3", [4], 0, 4)}, b"0000", "'x' is F8_E4M3; mmload reads BOOL, U8"),
    ],
)
def test_bad_safetensors(tmp_path: Path, header: Any, data: bytes, says: str) -> None:
    path = safetensors(tmp_path / "t.safetensors", header, data)
    with pytest.raises(UsageError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert says in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("content", [b"", b"1234", (1 << 40).to_bytes(8, "little") + b"{}"])
def test_truncated_safetensors(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.safetensors"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="its header is longer than the file"):
        load(path)


def test_bad_npz(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    path.write_bytes(b"no zip")
    with pytest.raises(UsageError, match="damaged"):
        load(path)
    np.savez(path, a=np.zeros(1000))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(UsageError, match="damaged"):
        load(path)
    np.savez(path, words=np.array(["a", "b"]))
    with pytest.raises(UsageError, match="'words' is <U1"):
        load(path)
    np.savez(path, things=np.array([{}], object))
    with pytest.raises(UsageError, match="damaged"):  # never unpickled
        load(path)
    np.savez(path, bf16=np.zeros(2, "V2"))  # what ml_dtypes' bfloat16 turns into
    with pytest.raises(UsageError, match="'bf16' is") as caught:
        load(path)
    assert "safetensors" in caught.value.hint


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for name in ("a.npz", "a.safetensors"):
        with pytest.raises(UsageError, match=f"{name}: No such file"):
            load(tmp_path / name)
    with pytest.raises(UsageError, match="reads .npz and .safetensors"):
        load(tmp_path / "a.pt")
    (tmp_path / "d.npz").mkdir()
    with pytest.raises(UsageError, match="Is a directory"):
        load(tmp_path / "d.npz")


def test_a_header_beyond_the_formats_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "HEADER_MOST", 1)
    with pytest.raises(UsageError, match="header"):
        load(safetensors(tmp_path / "t.safetensors", {}))
