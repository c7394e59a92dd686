"""Recycled memory: it comes back, and never while anybody looks at it."""

import numpy as np
import pytest
import torch

from mmload.processors.base import load
from mmload.processors.owned.buffers import ALIGNMENT, Buffers
from mmload.processors.owned.resize import stays_in_bounds
from mmload.processors.owned.validated import sample

pytestmark = pytest.mark.hf


def test_a_block_comes_back_when_the_last_view_is_gone() -> None:
    buffers = Buffers()
    first = buffers.take((100, 8), np.float32)
    address = first.ctypes.data
    assert address % ALIGNMENT == 0
    row = first[3:5]
    del first
    other = buffers.take((100, 8), np.float32)  # the row still looks at the first one
    assert other.ctypes.data != address
    assert buffers.describe()["made"] == 2
    del row
    again = buffers.take((99, 8), np.float32)  # a little smaller fits too
    assert again.ctypes.data == address
    assert buffers.describe() == {"made": 2, "reused": 1, "idle": 0, "idle_bytes": 0}


def test_tensors_and_what_is_made_of_them_hold_the_block() -> None:
    buffers = Buffers()
    array = buffers.take((64, 4), np.float32)
    address = array.ctypes.data
    tensor = torch.from_numpy(array)
    view = tensor[10:20].view(torch.int32)
    detached = view.detach().numpy()[2:3]
    holders = [array, tensor, view, detached]
    del array, tensor, view, detached
    while holders:
        assert buffers.take((64, 4), np.float32).ctypes.data != address
        holders.pop(0)
    made = [buffers.take((64, 4), np.float32) for _ in range(2)]
    assert address in [block.ctypes.data for block in made]


def test_idle_memory_is_bounded() -> None:
    buffers = Buffers(keep_bytes=3000)
    blocks = [buffers.take((1000,), np.uint8) for _ in range(5)]
    blocks.clear()
    described = buffers.describe()
    assert described["idle"] == 2  # of 1,064 bytes each
    assert described["idle_bytes"] == 2128
    big = buffers.take((400,), np.uint8)  # none of less than half its size is wasted on it
    assert buffers.describe()["made"] == 6
    del big


@pytest.mark.parametrize(
    "family, name", [("qwen3-vl", "pixel_values_videos"), ("gemma-4", "pixel_values_videos")]
)
def test_a_kept_tensor_is_never_overwritten(family: str, name: str) -> None:
    owned = load("owned", family, threads=2)
    one, other = sample(4, 64, 96), 255 - sample(4, 64, 96)
    kept = owned.videos([one]).tensors[name]
    slice_of_another = owned.videos([one]).tensors[name][1:2]
    copies = kept.clone(), slice_of_another.clone()
    for _ in range(5):
        made = owned.videos([other]).tensors[name]
        assert made.data_ptr() not in (kept.data_ptr(), slice_of_another.data_ptr())
        made.fill_(7)  # consumers may write into what they got
    assert torch.equal(kept, copies[0])
    assert torch.equal(slice_of_another, copies[1])
    again = owned.videos([one]).tensors[name]
    assert torch.equal(again, copies[0])


def test_memory_is_used_again_from_call_to_call() -> None:
    owned = load("owned", "qwen3-vl", threads=1)
    video = sample(4, 64, 96)
    owned.videos([video])
    before = owned.describe()["buffers"]["made"]
    addresses = {owned.videos([video]).tensors["pixel_values_videos"].data_ptr() for _ in range(5)}
    assert len(addresses) == 1
    assert owned.describe()["buffers"]["made"] == before


def test_the_resize_kernel_writes_where_it_should() -> None:
    assert stays_in_bounds()
