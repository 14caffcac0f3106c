# Every target sets up what it needs in .venv; PYTHON picks the interpreter.
PYTHON ?= python3
BIN := .venv/bin
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: run test check lint types doctest bench torture clean

run: .venv/ready ## stream a real data set through OnlineRegression
	$(BIN)/python examples/stream_regression.py

test: .venv/ready ## all tests, slow ones included
	$(BIN)/python -m pytest -q -n auto

check: lint types test doctest ## what CI runs

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/ready
	$(BIN)/mypy

doctest: .venv/ready ## the examples in README.md and in the docstrings
	$(BIN)/python -m pytest -q --doctest-modules --doctest-glob=README.md src README.md

bench: .venv/ready ## regret and speed, a few minutes
	$(BIN)/python benchmarks/regression_regret.py
	$(BIN)/python benchmarks/regression_speed.py
	$(BIN)/python benchmarks/lowrank_speed.py --repeats 1
	$(BIN)/python benchmarks/lowrank_regret.py --seeds 2 --sets letter china_patches

torture: .venv/ready ## kills, power loss, flipped bits, fuzzed files, bad input: docs/reliability.md in full, about two hours
	cd tests && ../$(BIN)/python -m torture

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
