PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.installed-docs

.DEFAULT_GOAL := help
.PHONY: results help install reproduce reproduce-all test coverage test-thorough test-slow test-versions test-datasets torture lint style types benchmark docs claims architectures clean laboratory

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

install: $(STAMP) ## the virtual environment, with everything the other targets need

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) was not found; install Python 3.11 or name another: make PYTHON=python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

reproduce: $(STAMP) ## Figure 1, and models of equal KL: 6 to 13 minutes on two cores, ending in an HTML report
	$(BIN)/isoloss reproduce figure-1 flatten-polish --scale laptop

reproduce-all: $(STAMP) ## every figure, table and statement of the paper at laptop scale, ending in a site
	$(BIN)/isoloss theory
	$(BIN)/isoloss reproduce paper --scale laptop

# Tests that start processes wait for imports, which compile what a process before them has not kept.
test coverage test-thorough test-slow: export PYTHONDONTWRITEBYTECODE :=

# mypy takes one core: it runs beside the tests, and what it says comes after what they say
test: style ## lint, types, import rules and the test suite
	@$(MAKE) --no-print-directory types > $(VENV)/types.txt 2>&1 & types=$$!; \
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow and not thorough'; tests=$$?; \
	wait $$types; types=$$?; cat $(VENV)/types.txt; exit $$((tests || types))

coverage: $(STAMP) ## the test suite and the thorough tests, and the lines that they leave out
	$(BIN)/python -m pytest -n 2 -m 'not slow' --cov --cov-report=term:skip-covered

test-thorough: $(STAMP) ## more cases of what the test suite tests, and from end to end
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'thorough and not slow'

test-slow: $(STAMP) ## the checks that take minutes
	$(BIN)/python -m pytest -m slow

# torch 2.6 is on PyPI with CUDA's libraries alone: some gigabytes, and twice as many on the disk. The newest torch
# need not be asked for where the disk is small: VERSIONS="'transformers==5.16.*'" tests the oldest transformers alone.
VERSIONS ?= 'torch==2.6.* transformers==5.16.*' 'torch transformers'

test-versions: ## models and flatness with the oldest torch and transformers promised (gigabytes), and the newest
	@for pins in $(VERSIONS); do \
		echo "make: $$pins in an environment of its own, .venv-versions; torch's wheels are gigabytes, once" && \
		rm -rf .venv-versions && $(PYTHON) -m venv .venv-versions && \
		.venv-versions/bin/python -m pip install --quiet --editable '.[dev]' $$pins && \
		.venv-versions/bin/python -c "import torch, transformers as t; print('torch', torch.__version__, 'transformers', t.__version__)" && \
		du -sh .venv-versions && \
		.venv-versions/bin/python -m pytest -m 'not slow' tests/models tests/objectives tests/curvature \
			tests/architectures tests/command_line/test_flatness_command.py tests/command_line/test_flatness_quantities.py || exit 1; \
	done

# What 4.0.0 needs is older than what the environment has: each comes with such packages, put before the others.
DATASETS ?= datasets==4.0.0 datasets==4.8.5 datasets==5.0.0

test-datasets: $(STAMP) ## data sets of a hub on this machine, with other versions of the package datasets
	@for pin in $(DATASETS); do \
		rm -rf .venv-datasets && echo "make: $$pin beside the environment, in .venv-datasets" && \
		$(BIN)/python -m pip install --quiet --target .venv-datasets --no-deps $$pin httpx httpcore h11 anyio sniffio \
			'dill<0.3.9' 'multiprocess<0.70.17' 'fsspec<2025.4' && \
		PYTHONPATH=.venv-datasets $(BIN)/python -c "import datasets; print('datasets', datasets.__version__)" && \
		PYTHONPATH=.venv-datasets $(BIN)/python -m pytest -m 'not slow' tests/corpora/test_local_hub.py \
			tests/corpora/test_data_sets.py || exit 1; \
	done

lint: style types ## lint, types and import rules alone

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy
	$(BIN)/lint-imports

torture: $(STAMP) ## an hour of kills, flipped bytes, useless inputs and planted code; stopped, it goes on
	$(BIN)/python tests/torture/torture.py --state build/torture.json

benchmark: $(STAMP) ## every speed claim, beside its peer, in one process
	$(BIN)/python -m benchmarks

docs: $(DOCS_STAMP) ## the documentation as a site, build/docs/index.html; any warning fails it
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs build/docs

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@

claims: $(STAMP) ## docs/claims.md anew, where claims were changed on purpose
	$(BIN)/python docs/extensions/claims_page.py

results: $(STAMP) ## docs/what-we-found.md and README's numbers anew, from reference/ and records/
	$(BIN)/python docs/extensions/results_page.py
	$(BIN)/python docs/extensions/results_on_a_card.py

laboratory: $(STAMP) ## docs/laboratory.ipynb anew: its cells carried out, their outputs stored
	$(BIN)/python docs/extensions/laboratory.py

architectures: $(STAMP) ## docs/architectures.md anew: every type of transformers measured, in minutes
	$(BIN)/python docs/extensions/architectures_page.py

build: $(STAMP) ## the package as a wheel, in build/wheel
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/wheel .

clean: ## remove the environment and caches, never results
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info
