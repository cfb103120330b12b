# Every target makes .venv and installs the pinned dependencies first, once, and again only
# after pyproject.toml or constraints.txt has changed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

WORKERS ?= 2
PYTEST_ARGS ?=
BENCH ?=
MATRIX ?=
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# The folder with the data sets; tests and experiments read it from the environment.
ifdef ORNSTEIN_DATA
export ORNSTEIN_DATA
endif

# Compiled code is shared by the test processes and by those they start: most of their time is
# spent on compiling.
COMPILED := JAX_COMPILATION_CACHE_DIR=$(CURDIR)/$(VENV)/.compiled \
	JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-matrix lint docs docs-serve dist bench reproduce clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  PYTHON=...       interpreter that makes .venv, 3.11 or newer (now: $(PYTHON))"
	@echo "  WORKERS=...      parallel test processes (now: $(WORKERS))"
	@echo "  PYTEST_ARGS=...  passed on to pytest, such as PYTEST_ARGS='-k kl -x'"
	@echo "  MATRIX=...       options of make test-matrix, such as MATRIX='--only 3.13'"
	@echo "  BENCH=...        sections and options of make bench, such as BENCH='rates --quick'"
	@echo "  ORNSTEIN_DATA=.. folder with the data sets"

demo: $(STAMP) ## sample two small posteriors, check them, leave plots and report.html
	@$(BIN)/ornstein demo

test: $(STAMP) ## the test suite and the doctests, without the slow tests
	@$(COMPILED) $(PYTEST) $(PYTEST_ARGS)

test-slow: $(STAMP) ## the long statistical tests
	@$(COMPILED) $(PYTEST) -m slow $(PYTEST_ARGS)

test-matrix: $(STAMP) ## the suite with oldest and newest versions, on every Python found (an hour)
	@$(BIN)/python .ci/matrix.py --workers $(WORKERS) $(MATRIX)

lint: $(STAMP) ## style, format, types and import direction
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

docs: $(STAMP) ## the documentation as a site, in site/, and its examples
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[docs]"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs --quiet build --strict --site-dir site
	@$(COMPILED) $(PYTEST) -q -m examples tests/documentation/test_readme.py
	@echo "open site/index.html"

docs-serve: $(STAMP) ## the site at a local address, built again whenever a page changes
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[docs]"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

dist: $(STAMP) ## wheel and source archive, in dist/
	@rm -rf dist
	@$(BIN)/uv build --quiet --out-dir dist
	@ls -1 dist

bench: $(STAMP) ## measure speed against other libraries, and write docs/benchmarks.md (an hour)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[bench]"
	@$(BIN)/python -m benchmarks $(BENCH)

reproduce: $(STAMP) ## recompute the paper's Table 1 and Figures 1 to 3
	@$(BIN)/ornstein reproduce all

clean: ## remove caches and build output (.venv stays)
	@rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -path ./$(VENV) -prune -o -path ./.matrix -prune -o -name __pycache__ -type d -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt $(VENV)/pyvenv.cfg
	@echo "Installing the pinned dependencies into $(VENV) ..."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check \
		-c constraints.txt -e ".[dev]"
	@touch $@

# An environment whose interpreter has gone is made anew; a half-made one is removed.
ifneq ($(shell test -x $(BIN)/python && echo usable),usable)
.PHONY: $(VENV)/pyvenv.cfg
endif
$(VENV)/pyvenv.cfg:
	@command -v "$(PYTHON)" >/dev/null || { \
		echo "$(PYTHON) was not found: ornstein needs Python 3.11 or newer." \
			"Name one with make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is $$("$(PYTHON)" --version 2>&1): ornstein needs Python 3.11 or newer." \
			"Name one with make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }
