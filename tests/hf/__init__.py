"""Tests of the stock and owned processors. Skipped, with the reason, where the extra `[hf]` is not
installed: importing any module of this package asks for it first."""

import warnings

import pytest

_REASON = "the extra [hf] is not installed: pip install 'mmload[hf,fast]'"

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of these libraries' own imports
    for _name in ("torch", "torchvision", "PIL", "transformers"):
        pytest.importorskip(_name, reason=_REASON, exc_type=ImportError)
    # transformers imports models when they are first used
    import transformers.models.gemma4.image_processing_gemma4
    import transformers.models.gemma4.video_processing_gemma4
    import transformers.models.qwen2_vl.image_processing_qwen2_vl
    import transformers.models.qwen3_vl.video_processing_qwen3_vl  # noqa: F401
