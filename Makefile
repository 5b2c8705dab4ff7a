# Everything from a bare machine with Python >= 3.11: `make test` sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PARALLEL := -n 3 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help install browser train train-pixels test test-long test-fast chaos release-check check format bench clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: $(STAMP) ## make the virtual environment and install Tandem into it

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Tandem needs Python >= 3.11; run make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

train: install ## record 25 demonstrations of the gear assembly and learn it
	$(BIN)/tandem train gear_assembly --scripted-demos 25

train-pixels: install ## the same from two cameras on the hand (needs EGL; 5 minutes)
	MUJOCO_GL=$${MUJOCO_GL:-egl} $(BIN)/tandem train gear_assembly_pixels --scripted-demos 25

test: install browser check ## lint, types and the tests (about 10 minutes on 2 cores)
	$(BIN)/python -m pytest $(PARALLEL) -m "not long"

test-long: install browser ## the tests that `make test` leaves out: whole runs (about 6 minutes)
	$(BIN)/python -m pytest $(PARALLEL) -m long

test-fast: install ## the tests without processes, browser and training (at most 90 s on 2 cores)
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow"

browser: # for the tests of the page, where it can be installed; they say what is missing otherwise
	@command -v chromium chromium-browser google-chrome >/dev/null 2>&1 || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 \
	  && { apt-get install -y -qq chromium || { apt-get update -qq && apt-get install -y -qq chromium; }; } >/dev/null 2>&1; } || true

chaos: install ## 1,000 random kills, stops, cuts, full disks, clock jumps and power cuts (an hour)
	$(BIN)/python -m tests.faults.chaos

release-check: install ## build the package, install it into empty environments and use it (minutes; needs a package index)
	$(BIN)/python -m tests.release_check

check: install ## lint and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --level error

format: install ## put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install ## the benchmarks (minutes)
	$(BIN)/python -m benchmarks.gear_calibration
	$(BIN)/python -m benchmarks.simulation
	$(BIN)/python -m benchmarks.learner

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .venv-peers .venv-worlds .pytest_cache .ruff_cache build src/*.egg-info
