# The entry to everything. `make demo` and `make test` do all of their own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# A file of requirements with hashes that is installed first, as the workflows do. Then only torch and the extras are left.
LOCK ?=
CONSTRAINTS := constraints.txt
EXTRAS := dev
# A second environment, with DMControl and Meta-World at the lowest versions.
LOWEST := .venv-lowest

.PHONY: help demo test test-slow test-lowest setup lint format type bench docs site clean

help:
	@echo "make demo         set up, then train two agents from pixels side by side (10 to 15 minutes on two idle cores)"
	@echo "make test         set up, then lint, types, layers and tests (under ten minutes on two cores)"
	@echo "make test-slow    the heavy checks"
	@echo "make test-lowest  the tests with DMControl and Meta-World at their lowest versions, in $(LOWEST)"
	@echo "make bench        run the benchmarks; most rows are ratios in one run"
	@echo "make docs         generate the reference pages from the registries and the command line"
	@echo "make site         build the documentation site in site/; python -m http.server -d site shows it"
	@echo "make setup lint format type clean"

demo: setup
	$(BIN)/python examples/demo.py

test: lint type
	$(BIN)/pytest -n 2

test-slow: setup
	@sh tools/system-packages.sh chromium || echo "without chromium the browser test is skipped"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[atari,docs,metric-learning,ray,release,slurm,tianshou,torchrl]' optuna==5.0.0
	$(BIN)/pytest -m "slow or reliability" -n 2

test-lowest: $(LOWEST)/constraints.txt
	$(MAKE) setup VENV=$(LOWEST) CONSTRAINTS=$< EXTRAS=dev,metaworld
	$(LOWEST)/bin/pytest -n 2

# The lines of constraints-lowest.txt, and those of constraints.txt for packages that it does not name.
$(LOWEST)/constraints.txt: constraints-lowest.txt constraints.txt
	@mkdir -p $(LOWEST)
	@awk -F '[=<>]' 'FNR == NR { low[$$1] } FNR == NR || !($$1 in low)' $^ > $@

setup: $(READY)

$(READY): pyproject.toml $(CONSTRAINTS) tools/system-packages.sh
	@sh tools/system-packages.sh
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "missing: the venv module of Python >= 3.11 (Debian: apt-get install python3-venv)"; exit 1; }
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "missing: Python >= 3.11 (found $$($(BIN)/python --version)); set PYTHON=..."; exit 1; }
	$(if $(LOCK),$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $(LOCK))
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) $(if $(LOCK),--no-build-isolation) -e '.[$(EXTRAS)]'
	@touch $(READY)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

type: setup
	$(BIN)/mypy

bench: setup
	$(BIN)/python -m benchmarks

docs: setup
	$(BIN)/python tools/reference.py
	$(BIN)/python tools/fidelity.py

site: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) $(LOWEST) site demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build
