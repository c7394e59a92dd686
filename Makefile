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

.PHONY: help install test lint run golden ci
