"""mmload's reader and its distances against the safetensors library and torch."""

from pathlib import Path

import numpy as np
import pytest
import torch

from mmload.parity.files import load
from mmload.parity.tensors import BFLOAT16, Tensor, compare, of_array, values

pytestmark = pytest.mark.hf


def test_files_of_the_library(tmp_path: Path) -> None:
    save = pytest.importorskip("safetensors.torch").save_file
    torch.manual_seed(0)
    kinds = (
        *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    )
    made = {str(kind): (torch.randn(3, 5) * 20).to(kind) for kind in kinds}
    save(made, tmp_path / "t.safetensors", metadata={"made": "here"})
    read = load(tmp_path / "t.safetensors")
    assert set(read) == set(made)
    for name, tensor in made.items():
        assert read[name].dtype == name.removeprefix("torch.")
        assert torch.equal(torch.from_numpy(values(read[name], read[name].bits)), tensor.double())


def test_distances_are_those_of_torch() -> None:
    torch.manual_seed(1)
    a = torch.randn(40, 64)
    b = a.bfloat16().float() + torch.randn(40, 64) * 1e-3
    (found,) = compare({"t": of_array(a.numpy())}, {"t": of_array(b.numpy())})
    cosines = torch.nn.functional.cosine_similarity(a.double(), b.double(), dim=1)
    errors = (a.double() - b.double()).norm(dim=1) / a.double().norm(dim=1)
    assert found.cosine is not None and found.rel_l2 is not None
    assert found.cosine.worst == pytest.approx(cosines.min().item(), abs=1e-14)
    assert found.cosine.mean == pytest.approx(cosines.mean().item(), abs=1e-14)
    assert found.rel_l2.worst == pytest.approx(errors.max().item(), rel=1e-12)
    assert found.rel_l2.mean == pytest.approx(errors.mean().item(), rel=1e-12)
    whole = (a.double() - b.double()).norm() / a.double().norm()
    assert found.rel_l2.whole == pytest.approx(whole.item(), rel=1e-12)


def test_every_bfloat16() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    theirs = torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16).double().numpy()
    mine = values(Tensor(BFLOAT16, bits), bits)
    assert np.array_equal(mine, theirs, equal_nan=True)
