# Two commands: `make demo` shows the plugin at work, `make test` checks everything. Both set up their own environment.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test lint bench clean
.DELETE_ON_ERROR:

demo: $(VENV)/installed
	$(BIN)/python -m pytest examples --attnmem-report

test: lint
	$(BIN)/python -m pytest

# Timings are for reading, and never asserted.
bench: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python benchmarks/overhead.py

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# torch comes first and by exact version: a range would take the build with several GB of CUDA libraries.
$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,lint]'
	touch $@

clean:
	rm -rf $(VENV)
