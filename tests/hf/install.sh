#!/bin/bash
# An environment for tests/hf and tests/examples: mmload with [dev], [hf] and [fast] from this
# checkout, and what the example server needs. Torch 2.13 and the torchvision that belongs to it.
#
#     tests/hf/install.sh VENV
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
venv=$1
${PYTHON:-python3.11} -m venv "$venv"
"$venv/bin/pip" install -q torch==2.13.0
"$venv/bin/pip" install -q --no-deps torchvision==0.28.0
"$venv/bin/pip" install -q "$root[dev,hf,fast]" -r "$root/examples/fastvlm/requirements.txt"
# Beside a CPU-only build of torch, PyPI's torchvision lacks the declaration of two operators.
if ! "$venv/bin/python" -c 'import torchvision' 2> /dev/null; then
  site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  cp "$root/tests/real/vllm/tv_cpu_shim.py" "$site/"
  echo 'import tv_cpu_shim' > "$site/tv_cpu_shim.pth"
  "$venv/bin/python" -c 'import torchvision'
fi
