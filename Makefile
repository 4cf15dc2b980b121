# The front desk. Needs Python 3.11 or later and a C++ compiler; everything else goes into .venv.

PYTHON ?= python3
BIN := .venv/bin
SOURCES := pyproject.toml CMakeLists.txt $(wildcard native/*)

# one thread of linear algebra beside the threads of the kernels and of the test runner
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1

.PHONY: help bench demo docs gallery test lint format clean

help:
	@echo "make demo    recover a hyperspectral image from a fifth of its entries, write demo-output/"
	@echo "make bench   time our methods beside their peers in about a minute, write bench-output/"
	@echo "make docs    build the documentation site, write docs/_build/"
	@echo "make gallery run the examples, write docs/gallery.md and its pictures"
	@echo "make test    lint, types and all tests"
	@echo "make lint    ruff and mypy only"
	@echo "make format  let ruff format and fix the sources"
	@echo "make clean   remove what was built, and .venv"

demo: .venv/demo.stamp
	$(BIN)/tensormend demo

# tucker-riemopt wants NumPy 1, so it has an environment of its own
bench: .venv/bench.stamp .venv/riemopt.stamp
	$(BIN)/tensormend bench --peer-python .venv/riemopt/bin/python

# warnings are errors: a missing page, link, picture or formula fails the build
docs: .venv/docs.stamp
	$(BIN)/python docs/draw_architecture.py
	$(BIN)/python -m sphinx -W --keep-going -q -b html -d docs/_build/doctrees docs docs/_build/html
	$(BIN)/python docs/check_site.py docs/_build/html
	@echo "open docs/_build/html/index.html"

# the traffic data come with no package: TENSORMEND_DATA names their folder
gallery: .venv/realdata.stamp
	$(BIN)/python docs/make_gallery.py

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
	rm -rf .venv build dist docs/_build demo-output examples-output bench-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@echo "installing into .venv, which takes a few minutes the first time"
	$(PYTHON) -m venv .venv

# the stamps follow what is compiled; Python sources are read in place
.venv/demo.stamp: $(SOURCES) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[files,plot]"
	touch $@

.venv/dev.stamp: $(SOURCES) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@ .venv/demo.stamp

.venv/docs.stamp: $(SOURCES) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@ .venv/demo.stamp

.venv/realdata.stamp: $(SOURCES) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[realdata,files,labelled]"
	touch $@ .venv/demo.stamp

.venv/bench.stamp: $(SOURCES) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	touch $@

.venv/riemopt.stamp: $(SOURCES) .venv/bench.stamp | $(BIN)/python
	$(PYTHON) -m venv .venv/riemopt
	.venv/riemopt/bin/python -m pip install --quiet --editable ".[riemopt]"
	touch $@
