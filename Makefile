# Every target prepares what it needs: the first one builds .venv, later ones reuse it until
# pyproject.toml or constraints.txt change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CONSTRAINTS ?= constraints.txt
PYTHON311 ?= python3.11
LOWEST := .venv-lowest
# One thread per test process: the networks of the tests are too small to share.
# A process that has run out of tests takes some of another's: the long ones stand together.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help setup demo check test test-all test-gpu test-lowest release-check docs bench reproduce-smoke format clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/make \1|\2/' \
		| while IFS='|' read -r name text; do printf '  %-16s%s\n' "$$name" "$$text"; done

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "No '$(PYTHON)' found. Install Python 3.11 or later, or name yours: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "resel needs Python 3.11 or later, but '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Name another: make PYTHON=python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "==> Creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "==> Installing resel and its dependencies into $(VENV) (several minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[all,dev]' -c $(CONSTRAINTS)
	@touch $@

setup: $(STAMP)  ## install everything into .venv
	@echo "==> Ready: source $(BIN)/activate, then resel --help"

demo: $(STAMP)  ## train a small agent and watch what it learned
	@echo "==> Running the demo"
	@$(BIN)/python examples/demo.py

check: $(STAMP)  ## formatting, lint, types and import rules
	@echo "==> Checking the formatting"
	@$(BIN)/ruff format --check --quiet . || { echo "Run 'make format' to mend it." >&2; exit 1; }
	@echo "==> Checking the style"
	@$(BIN)/ruff check --quiet .
	@echo "==> Checking the types"
	@$(BIN)/mypy
	@echo "==> Checking the direction of imports"
	@$(BIN)/lint-imports

test: check  ## everything checked on every change
	@echo "==> Running the quick tests"
	@$(PYTEST) -m "not slow"

test-all: check  ## the same with the slow tests; counts the faults that were survived
	@echo "==> Running all tests"
	@$(PYTEST) --reliability-report=docs/results/reliability/README.md

docs: $(STAMP)  ## build the documentation into site/ (warnings are errors)
	@echo "==> Building the site"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet --clean
	@echo "==> Ready: open site/index.html"

test-gpu: $(STAMP)  ## on a machine with a GPU: every kernel on it, and agents that learn there
	@echo "==> Looking at this installation"
	@$(BIN)/resel doctor
	@$(BIN)/python -c 'import os, sys, torch; wanted = os.environ.get("RESEL_TEST_DEVICE", "cuda"); sys.exit(wanted.startswith("cuda") and not torch.cuda.is_available())' || { echo "No GPU was found ('devices' above says why): nothing was tested on one." >&2; exit 1; }
	@echo "==> Running the tests of devices"
	@$(BIN)/python -m pytest -q -rs -m gpu

test-lowest:  ## quick tests with the lowest versions that pyproject.toml promises (not of torch)
	@command -v $(PYTHON311) >/dev/null || { echo "No '$(PYTHON311)' found: the lowest versions are tested on Python 3.11. Name yours: make test-lowest PYTHON311=/path/to/python3.11" >&2; exit 1; }
	@echo "==> Installing the lowest versions into $(LOWEST)"
	@rm -rf $(LOWEST)
	@$(PYTHON311) -m venv $(LOWEST)
	@$(PYTHON311) tools/lowest.py $(LOWEST_TORCH) > $(LOWEST)/lowest.txt
	@$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check \
		-e $$($(PYTHON311) tools/lowest.py --install) -c $(LOWEST)/lowest.txt
	@echo "==> Running the quick tests with them"
	@OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest -q -n 2 --dist worksteal -m "not slow" \
		-W ignore::DeprecationWarning $$($(PYTHON311) tools/lowest.py --tests)

release-check: $(STAMP)  ## build the package, install it elsewhere and run every verb there
	@$(BIN)/python tools/release_check.py

bench: $(STAMP)  ## measure speed and memory on this machine (it should be quiet)
	@for part in scan update step scaling buffer startup growth; do \
		echo "==> Measuring: $$part"; \
		$(BIN)/resel bench $$part --out docs/results/performance || exit 1; \
	done
	@echo "==> Measuring: methods, without hidden tasks and with them"
	@$(BIN)/resel bench methods --out docs/results/performance/methods
	@$(BIN)/resel bench methods --task Pendulum-gravity-v0 \
		--out docs/results/performance/methods/gravity
	@echo "==> Measuring: update of a gru, and of a tiny mamba agent"
	@$(BIN)/resel bench update --encoder gru --out docs/results/performance/gru
	@$(BIN)/resel bench update --size tiny --task Pendulum-V-v0 --batch-steps 1000 \
		--out docs/results/performance/tiny
	@$(BIN)/resel bench update --size tiny --batch-steps 10 --out docs/results/performance/overhead
	@echo "==> Measuring: what an automatic LR_CE costs"
	@$(BIN)/resel bench update --lr-ce-auto --out docs/results/performance/auto-lr
	@$(BIN)/resel bench update --lr-ce-auto --size tiny --task Pendulum-V-v0 \
		--out docs/results/performance/auto-lr/tiny

reproduce-smoke: $(STAMP)  ## every figure and table of the paper on small tasks (about an hour)
	@$(BIN)/resel reproduce all --scale smoke --out reproduce-output/smoke

format: $(STAMP)  ## put the code into its standard form
	@echo "==> Formatting"
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .

clean:  ## remove caches and build products (not .venv, not runs)
	@echo "==> Removing caches and build products"
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build demo-output site
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
