# The front desk. Needs Python 3.11 or later and a C++ compiler; everything else goes into .venv.

PYTHON ?= python3
BIN := .venv/bin
SOURCES := pyproject.toml CMakeLists.txt $(wildcard native/*)

# one thread of linear algebra beside the threads of the kernels and of the test runner
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1

.PHONY: help demo test lint format clean

help:
	@echo "make demo    recover a hyperspectral image from a fifth of its entries, write demo-output/"
	@echo "make test    lint, types and all tests"
	@echo "make lint    ruff and mypy only"
	@echo "make format  let ruff format and fix the sources"
	@echo "make clean   remove what was built, and .venv"

demo: .venv/plot.stamp
	$(BIN)/tensormend demo

test: lint
	$(BIN)/pytest -n auto --dist loadfile

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build dist demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv .venv

# the stamps follow what is compiled; Python sources are read in place
.venv/plot.stamp: $(SOURCES) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[plot]"
	touch $@

.venv/dev.stamp: $(SOURCES) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@ .venv/plot.stamp
