# The commands of this repository. Each one sets up what it needs; a second run is fast.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Tests and benchmarks start thousands of processes: what is compiled is kept.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test check format bench chaos fuzz lock clean
.DEFAULT_GOAL := help

help:  ## list the commands
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

setup: $(READY)  ## make .venv and install the locked dependencies

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "agor needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) scripts/setup
	@touch $@

demo: setup  ## watch Claude Code work in an isolated executor against a scripted model; no account, no key
	@$(BIN)/agor demo

test: setup  ## run every test
	@scripts/system-packages
	@scripts/agents
	@# More processes than processors: most tests wait for others rather than compute.
	@$(BIN)/python -m pytest --numprocesses 4 --dist loadgroup

check: setup  ## formatting, lint, types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: setup  ## format and mend what can be mended
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: setup  ## measure against peers, side by side; ONLY=wire for one group
	@$(BIN)/python -m bench $(if $(ONLY),--only $(ONLY)) $(BENCH_ARGS)

chaos: setup  ## kill -9 at random under load; ONLY=pool DURATION=40
	@$(BIN)/python -m tests.chaos $(if $(ONLY),--only $(ONLY)) $(if $(DURATION),--duration $(DURATION)) $(CHAOS_ARGS)

fuzz: setup  ## send LINES random lines (default a million) to a live executor
	@$(BIN)/python -m tests.fuzz --lines $(or $(LINES),1000000)

lock: setup  ## resolve the dependencies, and those of agents, anew into the lock files
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header \
		--extra dev pyproject.toml --output-file requirements.lock
	@$(BIN)/python scripts/lock-agents

clean:  ## remove what the other commands made
	@rm -rf $(VENV) .agents .mypy_cache .ruff_cache .pytest_cache .hypothesis bench/.peers bench/build
