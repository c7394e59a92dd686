"""Collapsed stacks to the cake: a profile of 100 samples at 100 a second, added up by hand."""

import json

import pytest

from mmload.profiler import layers, waits
from mmload.profiler.cake import cake
from mmload.profiler.collect import refused
from mmload.profiler.layers import LAYERS, PACKAGES, layer_of, module_path
from mmload.profiler.session import Profiled, Session, speedscope
from mmload.profiler.stacks import Frame, Stack, frame, parse

SITE = "/opt/venv/lib/python3.12/site-packages"
HEAD = 'process 7:"python -m vllm serve m; x";thread (0x9): renderer_'
POOL = "Thread.run (/usr/lib/python3.12/threading.py:900)"
CORE = (
    "BaseRenderer._process (/src/vllm/vllm/renderers/base.py:10);"
    f"apply ({SITE}/vllm/multimodal/p.py:5)"
)
ADAPTER = f"_call_hf ({SITE}/vllm/model_executor/models/qwen3_vl.py:3)"
HF = (
    f"__call__ ({SITE}/transformers/models/qwen3_vl/processing.py:1);"
    f"preprocess ({SITE}/transformers/v.py:2)"
)
MAIN = 'process 7:"python -m vllm";thread (7): MainThread;run (/src/uvloop/loop.c:7)'
VISION = f"resize ({SITE}/torchvision/transforms/v2/functional/_geometry.py:4)"
KERNEL = (
    f"interpolate ({SITE}/torch/nn/functional.py:9);"
    f"at::native::upsample(at::Tensor const&, double) ({SITE}/torch/lib/libtorch_cpu.so);"
    "0x7fe1 (/usr/lib/x86_64-linux-gnu/libgomp.so.1)"
)
STACKS = f"""\
{HEAD}0;{POOL};{CORE};{ADAPTER};{HF};{VISION};{KERNEL} 50
{HEAD}1;{POOL};{CORE};{ADAPTER};{HF};{VISION};{KERNEL} 10
{HEAD}0;{POOL};{CORE};{ADAPTER};{HF} 20
{HEAD}0;{POOL};{CORE} 10
process 1:"sh";{MAIN};uv_run (/p/libuv-1.48.0/core.c:9) 10
{HEAD}0;{POOL};_worker (/usr/lib/python3.12/concurrent/futures/thread.py:60) 400
{MAIN};epoll_wait (/usr/lib/libc.so.6) 300
"""


def session(text: str = STACKS) -> Session:
    stacks, damaged = parse(text.splitlines())
    assert damaged == 0
    made = Session(
        profiler="py-spy 0", rate_hz=100, duration_s=8.0, processes=[Profiled(7, "vllm", 1.25)]
    )
    made.put(stacks)
    return made


def test_a_line_of_the_raw_format() -> None:
    """Semicolons of the command line and parentheses of C++ are not taken for separators."""
    stacks, damaged = parse([*STACKS.splitlines(), "", "no sense", "a;b;c 7"])
    assert damaged == 2 and [one.samples for one in stacks] == [50, 10, 20, 10, 10, 400, 300]
    first = stacks[0]
    assert (first.pid, first.thread, len(first.frames)) == (7, "renderer_0", 10)
    assert first.frames[0] == Frame("Thread.run", "/usr/lib/python3.12/threading.py", 900)
    assert first.frames[-2].name == "at::native::upsample(at::Tensor const&, double)"
    assert first.frames[-1] == Frame("?", "/usr/lib/x86_64-linux-gnu/libgomp.so.1")
    assert stacks[4].pid == 7  # the child, not the shell that started it


def test_a_native_function_is_one_function() -> None:
    assert frame("decode.part.0 (/x/site-packages/msgspec/_core.so)").name == "decode"
    assert frame("Loop_run (/src/uvloop/loop.c:5)") == frame("Loop_run (/src/uvloop/loop.c:9)")


@pytest.mark.parametrize(
    "file, layer",
    [
        (f"{SITE}/vllm/v1/engine/core.py", "vllm"),
        (f"{SITE}/vllm/model_executor/models/transformers/base.py", "vllm_model"),
        ("/src/vllm/vllm/model_executor/models/qwen3_vl.py", "vllm_model"),
        (f"{SITE}/sglang/srt/managers/tokenizer_manager.py", "sglang"),
        (f"{SITE}/sglang/srt/multimodal/processors/qwen_vl.py", "sglang_model"),
        (f"{SITE}/tokenizers/tokenizers.abi3.so", "transformers"),
        ("/home/u/.cargo/registry/src/i/tokenizers-0.22.1/src/lib.rs", "transformers"),
        (f"{SITE}/torchvision/image.so", "torchvision"),
        (f"{SITE}/torch/lib/libgomp-a34b3233.so.1", "torch"),
        (f"{SITE}/numpy.libs/libscipy_openblas64_-8fb3d286.so", "numeric"),
        (f"{SITE}/opencv_python_headless.libs/libavcodec-c4.so.62", "numeric"),
        (f"{SITE}/cv2/cv2.abi3.so", "numeric"),
        (f"{SITE}/aiohttp/_http_parser.pyx", "web"),
        ("/usr/lib/python3.12/asyncio/base_events.py", "web"),
        ("/usr/lib/python3.12/json/decoder.py", "python"),
        ("/usr/lib/python3.12/lib-dynload/_json.cpython-312-x86_64-linux-gnu.so", "python"),
        ("<frozen importlib._bootstrap>", "python"),
        ("/srv/mmload/processors/qwen3vl_numpy.py", "mmload_processor"),
        ("/srv/mmload/hook/spans.py", "mmload_hook"),
        ("/srv/mmload/server/app.py", "mmload_server"),
        ("/srv/app/predict.py", "other"),
        (f"{SITE}/msgspec/_core.so", "other"),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", None),
        ("/opt/python/lib/libpython3.11.so.1.0", None),
        ("/usr/bin/python3.12", None),
        ("/build/Python-3.12.1/Modules/_queuemodule.c", None),
        ("", None),
    ],
)
def test_the_table_of_layers(file: str, layer: str | None) -> None:
    assert layer_of(Frame("f", file)) == layer


def test_the_table_names_only_layers_that_exist() -> None:
    assert set(PACKAGES.values()) <= {layer.key for layer in LAYERS}
    assert module_path("/src/vllm/vllm/v1/a.py") == "vllm/v1/a.py"
    assert module_path(f"{SITE}/a.py") == "a.py"
    assert layers.TITLES["torch"] == "torch"


def test_waiting_is_told_from_working() -> None:
    loop = Frame("Runner.run", "/usr/lib/python3.12/asyncio/runners.py")
    uvloop = Frame("run", "/src/uvloop/loop.c")
    libc = "/usr/lib/libc.so.6"
    assert waits.waits((loop,))  # without native frames nobody can tell
    assert waits.waits((loop, uvloop, Frame("epoll_wait", libc)))
    assert not waits.waits((loop, uvloop))
    assert not waits.waits((loop, uvloop, Frame("write", libc)))
    assert waits.waits(
        (Frame("Condition.wait", "/usr/lib/python3.12/threading.py"), Frame("?", libc))
    )
    assert not waits.waits((Frame("?", libc),))


def test_the_cake_by_hand() -> None:
    """60 samples in torch, 20 in transformers, 10 in vLLM's core, 10 in libuv; 700 waited."""
    made = cake(session())
    assert (made["samples"], made["waiting_samples"]) == (100, 700)
    assert (made["sampled_s"], made["cpu_s"]) == (1.0, 1.25)
    found = made["layers"]
    assert {key: one["self_s"] for key, one in found.items()} == {
        "web": 0.1,
        "vllm": 0.1,
        "vllm_model": 0.0,
        "transformers": 0.2,
        "torchvision": 0.0,
        "torch": 0.6,
        "python": 0.0,
    }
    assert sum(one["self_s"] for one in found.values()) == pytest.approx(made["sampled_s"])
    assert {key: one["inclusive_s"] for key, one in found.items()} == {
        "web": 0.1,
        "vllm": 0.9,
        "vllm_model": 0.8,
        "transformers": 0.8,
        "torchvision": 0.6,
        "torch": 0.6,
        "python": 0.9,
    }
    # libgomp, a library of the system, is folded into torch: 9 functions, not 10.
    # Depths: 60 x 9, 20 x 6, 10 x 3, 10 x 2 = 710 frames over 100 samples.
    assert made["depth"]["mean"] == 7.1 and made["depth"]["max"] == 9
    assert sum(one["frames"] for one in found.values()) == pytest.approx(7.1)
    # Before the work: 7 calls before torch, 4 before transformers, 1 before vLLM, 0 before libuv.
    assert made["depth"]["calls_to_work"] == (60 * 7 + 20 * 4 + 10 * 1) / 100
    # Layers on a stack: python, vllm, adapter, HF, torchvision, torch = 6; 4; 2; 1.
    assert made["depth"]["layers"] == (60 * 6 + 20 * 4 + 10 * 2 + 10 * 1) / 100


def test_glue_hands_on() -> None:
    """Own: `apply` (10 of 90 samples), `preprocess` (20 of 80), the kernel, `uv_run`. All else is
    glue, `interpolate` too: the kernel below it is another function."""
    made = cake(session())
    glue = {key: one["glue_frames"] for key, one in made["layers"].items()}
    assert glue == {
        "web": 0.1,  # run
        "vllm": 0.9,  # _process, in 90 samples
        "vllm_model": 0.8,
        "transformers": 0.8,  # __call__
        "torchvision": 0.6,
        "torch": 0.6,  # interpolate
        "python": 0.9,
    }
    assert made["depth"]["glue"] == pytest.approx(sum(glue.values()))
    deepest = made["deepest"][0]
    assert (deepest["depth"], deepest["calls_to_work"], deepest["samples"]) == (9, 7, 50)
    assert [one["glue"] for one in deepest["frames"]] == [1, 1, 0, 1, 1, 0, 1, 1, 0]


def test_threads_and_functions_of_the_cake() -> None:
    made = cake(session())
    assert [(one["thread"], one["self_s"]) for one in made["threads"]] == [
        ("renderer", 0.9),
        ("MainThread", 0.1),
    ]
    renderer = made["threads"][0]
    assert renderer["layers"] == {"vllm": 0.1, "transformers": 0.2, "torch": 0.6}
    top = made["functions"][0]
    assert (top["where"], top["layer"]) == ("torch/lib/libtorch_cpu.so", "torch")
    assert (top["self_s"], top["self_share"], top["inclusive_s"]) == (0.6, 0.6, 0.6)
    tree = made["tree"]
    assert [one["s"] for one in tree if one["parent"] is None] == [0.9, 0.1]
    for i, one in enumerate(tree):
        children = [child["s"] for child in tree if child["parent"] == i]
        assert sum(children) <= one["s"] + 1e-9
    entry = next(one["entry"] for one in tree if one["layer"] == "transformers")
    assert entry == "__call__ (transformers/models/qwen3_vl/processing.py)"


def test_an_empty_profile_is_one_too() -> None:
    made = cake(Session(profiler="py-spy 0", rate_hz=100, duration_s=1.0))
    assert made["layers"] == {} and made["depth"] is None and made["cpu_s"] is None
    json.dumps(made, allow_nan=False)


def test_a_session_survives_its_file_and_speedscope_gets_all_samples() -> None:
    import msgspec

    made = session()
    again = msgspec.json.decode(msgspec.json.encode(made), type=Session)
    assert list(again.all_stacks()) == list(made.all_stacks())
    assert isinstance(next(iter(again.all_stacks())), Stack)
    scope = speedscope(made, "run")
    assert scope["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    names = [one["name"] for one in scope["profiles"]]
    assert names == [
        "renderer_0 (process 7)",  # 480 samples, 400 of them waiting
        "MainThread (process 7)",
        "renderer_1 (process 7)",
    ]
    for one in scope["profiles"]:
        assert len(one["samples"]) == len(one["weights"]) and one["unit"] == "seconds"
        assert sum(one["weights"]) == pytest.approx(one["endValue"])
        assert all(0 <= i < len(scope["shared"]["frames"]) for s in one["samples"] for i in s)
    assert sum(one["endValue"] for one in scope["profiles"]) == pytest.approx(8.0)


def test_where_ptrace_is_forbidden_the_fix_is_named() -> None:
    error = refused(1, "Permission Denied: Try running again with elevated permissions")
    assert error.exit_code == 2 and "ptrace" in error.message and "sudo" in error.hint
    error = refused(
        1, "Error: Failed to find python version from target process\n\nStack backtrace"
    )
    assert error.exit_code == 2 and "no Python" in error.message
    gone = refused(2**22 + 1, "Error: Failed to get process executable name.\n\nCaused by: x")
    assert "there is no process" in gone.message
    other = refused(1, "Error: strange\n\nStack backtrace:\n 0: a")
    assert other.exit_code == 1 and other.message.endswith("Error: strange")
