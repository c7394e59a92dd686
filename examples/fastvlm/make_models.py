"""Makes the two tiny models of the example, with random weights: nothing is downloaded.

    python make_models.py [FOLDER]

vision.onnx     pixels (1, 3, 512, 512) float32 to embeddings (1, 64, 128): strided convolutions
                with a stack of 3x3 ones between, as the stages of FastVLM's encoder
language.npz    a recurrent language model over 128 dimensions and a vocabulary of 96 characters
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

DIM = 128
VOCABULARY = "".join(chr(c) for c in range(32, 127)) + "\n"
LAYERS = 36  # 3x3 convolutions at 128 x 128: what makes it take its time


def vision(path: Path, rng: np.random.Generator) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    weights: list[Any] = []
    last = "pixel_values"

    def convolve(name: str, inner: int, outer: int, kernel: int, stride: int) -> None:
        nonlocal last
        scale = 1 / np.sqrt(inner * kernel * kernel)
        weight = rng.normal(0, scale, (outer, inner, kernel, kernel)).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"{name}.weight"))
        pads = [kernel // 2] * 4 if stride == 1 else [0] * 4
        shape = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": pads}
        nodes.append(helper.make_node("Conv", [last, f"{name}.weight"], [name], **shape))
        nodes.append(helper.make_node("Relu", [name], [f"{name}.relu"]))
        last = f"{name}.relu"

    convolve("stem", 3, 32, 4, 4)
    for layer in range(LAYERS):
        convolve(f"block{layer}", 32, 32, 3, 1)
    convolve("down", 32, 64, 4, 4)
    convolve("project", 64, DIM, 4, 4)
    weights.append(numpy_helper.from_array(np.array([1, DIM, 64], np.int64), "flat"))
    nodes.append(helper.make_node("Reshape", [last, "flat"], ["columns"]))
    nodes.append(helper.make_node("Transpose", ["columns"], ["image_embeddings"], perm=[0, 2, 1]))
    graph = helper.make_graph(
        nodes,
        "vision",
        [helper.make_tensor_value_info("pixel_values", TensorProto.FLOAT, [1, 3, 512, 512])],
        [helper.make_tensor_value_info("image_embeddings", TensorProto.FLOAT, [1, 64, DIM])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save_model(model, str(path))


def language(path: Path, rng: np.random.Generator) -> None:
    n = len(VOCABULARY)
    np.savez(
        path,
        tokens=rng.normal(0, 1, (n, DIM)).astype(np.float32),
        inward=rng.normal(0, 1 / np.sqrt(DIM), (DIM, DIM)).astype(np.float32),
        onward=rng.normal(0, 1 / np.sqrt(DIM), (DIM, DIM)).astype(np.float32),
        outward=rng.normal(0, 1, (DIM, n)).astype(np.float32),
    )


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "models"
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    vision(folder / "vision.onnx", rng)
    language(folder / "language.npz", rng)
    print(folder)


if __name__ == "__main__":
    main()
