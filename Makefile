# Every target creates .venv if needed; PYTHON selects the interpreter.
PYTHON ?= python3
BIN := .venv/bin
export OPENBLAS_NUM_THREADS ?= 1
unexport PYTHONDONTWRITEBYTECODE # compile once, not in each process that a test starts

.PHONY: run test test-slow test-full test-lowest check lint types doctest docs docs-tables bench bench-full torture mutants dist clean

run: .venv/ready ## run all three problems on real data, with reports in results/
	$(BIN)/batch2online run --dataset china_pixels --task clustering --k 5 --order random --out results/clustering
	$(BIN)/batch2online run --dataset digits --task lowrank --k 10 --order random --out results/lowrank
	$(BIN)/batch2online run --dataset diabetes --task regression --order random --out results/regression

test: .venv/ready .venv/oracle ## the tests but the slow ones: two minutes on two cores
	$(BIN)/python -m pytest -q -n auto --dist loadfile -m "not slow"

test-slow: .venv/ready .venv/oracle ## the slow ones: laws, large samples, commands of the pages
	$(BIN)/python -m pytest -q -n auto -m slow

test-full: .venv/ready .venv/oracle ## all combinations of parameters, and all campaigns in short form: half an hour
	$(BIN)/python -m pytest -q -n auto --full

QUICK := assignments batch_to_online clustering_coreset clustering_solver distances exports law metadata \
	names race randomness reference scores sensitivity stable_ids theory

test-lowest: .venv-lowest/ready ## quick tests without extras, with the lowest versions that pyproject.toml allows
	.venv-lowest/bin/python -m pytest -q -n auto -m "not slow" $(foreach name,$(QUICK),$(wildcard tests/*/test_$(name).py tests/*/*/test_$(name).py))

check: lint types test-slow test doctest docs ## what CI runs

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: .venv/ready
	$(BIN)/mypy

doctest: .venv/ready ## run the examples of docstrings, README.md and docs/
	$(BIN)/python -m pytest -q --doctest-modules --doctest-glob='*.md' --ignore-glob='*/storage/system/*' --ignore-glob='*/spark.py' src README.md docs

docs: .venv/ready ## build the documentation in site/ and run the gallery; a warning is an error
	$(BIN)/sphinx-build -q -W --keep-going -d .doctrees docs site

docs-tables: .venv/ready ## write every measured table and figure of README.md and docs/ from benchmarks/results
	$(BIN)/python -m benchmarks.suite --pages

bench: .venv/ready ## speed compared with other libraries and physical limits: a quarter of an hour; stores results, writes the pages
	$(BIN)/python -m benchmarks.suite

bench-full: .venv/ready ## the same with more rows and repetitions, and all studies: hours
	$(BIN)/python -m benchmarks.suite --full

torture: .venv/ready ## kills, power failures, flipped bits, fuzzed files, bad input (tests/README.md): hours
	$(BIN)/python -m pytest -q -n auto --full tests/storage/test_reliability.py tests/storage/test_loading.py tests/storage/test_interrupts.py tests/estimator/test_hostile_input.py
	cd tests && ../$(BIN)/python -m torture

mutants: .venv/ready ## mutation tests: small wrong changes of the mathematics that the named tests must detect: minutes
	cd tests && ../$(BIN)/python -m mutants

dist: .venv/ready ## build wheel and sdist in dist/, check their metadata, and run quick tests from the unpacked sdist
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[release]'
	rm -rf dist && $(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	rm -rf .sdist && mkdir .sdist && tar -xzf dist/*.tar.gz -C .sdist --strip-components=1
	cd .sdist && PYTHONPATH=src ../$(BIN)/python -m pytest -q -n auto -m "not slow" tests/package tests/sketches tests/theory
	rm -rf .sdist

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

.venv/oracle: .venv/ready tests/oracle/build.py ## the package of an earlier commit, to compare results with
	$(BIN)/python tests/oracle/build.py
	touch $@

.venv-lowest/ready: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-lowest.txt -e . \
		pytest pytest-xdist hypothesis mpmath
	touch $@

clean:
	rm -rf .venv .venv-lowest .oracle .import_linter_cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .doctrees site docs/generated docs/gallery
