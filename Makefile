# Two commands: `make demo` and `make test`; `make docs` builds the site. All build .venv on a machine that has Python 3.11 or newer, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo docs test suite test-machines paper benchmark lint types clean
.DEFAULT_GOAL := demo

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "gbce needs Python 3.11 or newer; run: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# one stamp per set of packages: built again only when the list of packages changes
$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-paper: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[paper]'
	@touch $@

# shapiq only for the tables inside
$(VENV)/.installed-docs: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps shapiq
	@touch $@ $(VENV)/.installed

demo: $(VENV)/.installed
	$(BIN)/python examples/demo.py

# the site, from pages, docstrings and tutorials that the build runs; warnings are errors
docs: $(VENV)/.installed-docs
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -b html -W --keep-going --quiet docs out/site
	@echo "open out/site/index.html"

# every table and figure of the paper; FLAGS=--fast does without AutoML
paper: $(VENV)/.installed-paper
	$(BIN)/python -m experiments $(FLAGS)

# NICE asks for a numpy of before 2.0 and runs with later ones; of the other two only the tables inside are used
$(VENV)/.installed-benchmark: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[benchmark]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps NICEx pysubgroup shapiq
	@touch $@

# gbce beside other methods, up to two hours; FLAGS=--fast takes minutes. alibi has an environment of its own
benchmark: $(VENV)/.installed-benchmark
	-$(BIN)/python -m benchmarks.rivals.alibi
	$(BIN)/python -m benchmarks.rivals $(FLAGS)

test: lint
	@$(MAKE) --no-print-directory -j2 types suite

suite: $(VENV)/.installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto

# wheel and sdist in empty environments, then the tests as other machines run them: other BLAS kernels, another Python,
# other seeds; an hour and more
test-machines: $(VENV)/.installed-test
	$(BIN)/python tests/support/installed.py
	$(BIN)/python tests/support/machines.py $(FLAGS)

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache --no-logo

types: $(VENV)/.installed-test
	$(BIN)/mypy

clean:
	rm -rf $(VENV) $(VENV)-* out docs/api docs/tutorials docs/sg_execution_times.rst .mypy_cache .ruff_cache .hypothesis
