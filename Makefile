# `make help` lists the targets. PYTHON is any 3.11 or later.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

install: $(BIN)/mmload  ## a virtual environment with mmload and what developing it needs

$(BIN)/mmload: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -e '.[dev]'
	@touch $@

test: install  ## the tests
	$(BIN)/pytest

slow: install  ## whole sweeps, searches and comparisons
	$(BIN)/pytest -m slow

hf:  ## the tests that need torch and transformers, in .venv-hf
	test -x .venv-hf/bin/pytest || tests/hf/install.sh .venv-hf
	.venv-hf/bin/python -m pytest tests/hf tests/examples

vllm: install  ## the tests against a real vLLM on the CPU
	test -x tests/real/vllm/.venv/bin/vllm || tests/real/vllm/install.sh
	$(BIN)/pytest -m vllm

lint: install  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

run: install  ## the main job, on the embedded server
	$(BIN)/mmload run --qps 5 --frames 15

golden: install  ## write the golden files again; look at the difference
	MMLOAD_UPDATE_GOLDEN=1 $(BIN)/pytest -q tests/unit

ci:  ## what CI runs
	bash .ci/run

.PHONY: help install test slow hf vllm lint run golden ci
