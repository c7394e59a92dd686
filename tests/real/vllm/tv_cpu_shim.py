"""Lets a torchvision that was built for CUDA be imported beside a CPU-only torch.

`torchvision/_meta_registrations.py` registers fake kernels for two operators whose schemas live in
a library that needs CUDA. Here the schemas are declared just before that import. No kernel is
supplied: calling the operators still fails, and no processor calls them.

`install.sh` copies this file into the environment, with a `.pth` file that imports it.
"""

import importlib.abc
import sys
from typing import Any

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


class _Declare(importlib.abc.MetaPathFinder):
    """Finds nothing; declares the schemas when their first user is about to be imported."""

    library: Any = None  # kept: the declarations live as long as it does

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name != "torchvision._meta_registrations" or self.library is not None:
            return
        import torch

        self.library = torch.library.Library("torchvision", "FRAGMENT")
        for schema in SCHEMAS:
            if not torch._C._jit_get_schemas_for_operator(f"torchvision::{schema.split('(')[0]}"):
                self.library.define(schema)


sys.meta_path.insert(0, _Declare())
