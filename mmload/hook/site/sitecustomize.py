"""Brings the hook into a Python process: `mmload trace` puts this folder on PYTHONPATH.

Python imports `sitecustomize` at its start, in every process that the server starts too. The hook
is taken from where this file is, so that nothing has to be installed beside the server, another
version that is does not matter, and nothing else of mmload's environment gets into its import path.
Never raises; a sitecustomize that this one hides is run as well. Stdlib only.
"""

import importlib.util
import os
import sys
from importlib.machinery import PathFinder

_HERE = os.path.dirname(os.path.abspath(__file__))
_HERE_BEFORE = "_mmload_sitecustomize"
_PACKAGE = os.path.dirname(os.path.dirname(_HERE))


def _bring_mmload() -> None:
    """The package `mmload` that this file is of, whatever else goes by that name: spans are written
    by the version that reads them, and a checkout's folder is no package."""
    spec = importlib.util.spec_from_file_location(
        "mmload", os.path.join(_PACKAGE, "__init__.py"), submodule_search_locations=[_PACKAGE]
    )
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["mmload"] = module
        spec.loader.exec_module(module)


def _run_the_hidden_one() -> None:
    others = [path for path in sys.path if os.path.abspath(path or ".") != _HERE]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module  # as it would be without this one
        spec.loader.exec_module(module)


if not hasattr(sys, _HERE_BEFORE):  # the hidden one may run those that it hides in turn
    setattr(sys, _HERE_BEFORE, True)
    try:
        if sys.hexversion < 0x030A0000:  # a server's, or its helpers', may be any
            raise RuntimeError("it needs Python 3.10")
        _bring_mmload()
        from mmload.hook import bootstrap

        bootstrap.start()
    except Exception as error:
        print(f"mmload: the hook could not start: {error!r}", file=sys.stderr)
    _run_the_hidden_one()
