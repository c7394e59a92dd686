#!/bin/bash
# vLLM with the tiny random Qwen3-VL, in the foreground; ready when /health answers (about 35 s).
#
#     tests/real/vllm/serve.sh VENV MODEL_DIR PORT [vllm flags]
#
# `MMLOAD_TRACE="python -m mmload trace --"` before it puts that command in front of the server's.
set -euo pipefail
venv=$1 model=$2 port=$3
shift 3
unset PYTHONDONTWRITEBYTECODE # each start would compile everything again
state=${VLLM_STATE:-${TMPDIR:-/tmp}/mmload-vllm-state}
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
export VLLM_HOST_IP=127.0.0.1 VLLM_CPU_KVCACHE_SPACE=${VLLM_CPU_KVCACHE_SPACE:-1}
export VLLM_CONFIG_ROOT=$state VLLM_CACHE_ROOT=$state HF_HOME=$state/hf
# --trust-request-mm-kwargs: without it vLLM refuses a request's own mm_processor_kwargs (400).
exec ${MMLOAD_TRACE:-} "$venv/bin/vllm" serve "$model" --served-model-name tiny-qwen3vl \
  --host 127.0.0.1 --port "$port" --load-format dummy --enforce-eager --max-model-len 16384 \
  --dtype bfloat16 --max-num-seqs 16 --trust-request-mm-kwargs "$@"
