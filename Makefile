# make demo   install into .venv from the lock, run the demo, and print where the results are
# make test   install, and run the tests that a change can break, within six minutes; PYTEST_ARGS=tests/tune runs that room
# make test-all   all tests, less than an hour on two cores
# make test-tools   install tools that some tests need: Debian packages, Snakemake's plugins, an OpenCL driver, trained models
# make test-native   the C++ unit tests, under the address and undefined behaviour sanitizers; needs doctest-dev
# make coverage   all tests, with the coverage of the package's code; slower than make test-all
# make test-soak   the long forms of some tests, hours
# make lint   ruff, the import linter, mypy, snakefmt and snakemake's own lint
# make docs   build the docs into .site, offline; broken links fail
# make lock   resolve dependencies again

PYTHON ?= python3
VENV ?= .venv
TEST_JOBS ?= 2
BIN := $(VENV)/bin
# Each file runs in one process; the longest files start first.
PYTEST = $(BIN)/python -m pytest -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder

.PHONY: demo test test-all test-tools test-soak test-native coverage lint lint-python lint-workflow docs lock clean

demo: $(VENV)/.demo
	$(BIN)/tvmake make

test: $(VENV)/.test
	$(PYTEST) --quick $(PYTEST_ARGS)

test-all: $(VENV)/.test
	$(PYTEST) $(PYTEST_ARGS)

test-soak: $(VENV)/.test
	$(PYTEST) -m soak $(PYTEST_ARGS)

test-tools: $(VENV)/.test
	@envs/test-tools.sh "$(VENV)"

test-native: $(VENV)/.test
	cmake -S native -B build/native -DPython3_EXECUTABLE="$(CURDIR)/$(BIN)/python" -DCMAKE_BUILD_TYPE=Debug \
	  -DSANITIZE=address,undefined -DCMAKE_COMPILE_WARNING_AS_ERROR=ON
	cmake --build build/native --parallel $(TEST_JOBS)
	ctest --test-dir build/native --output-on-failure

coverage: $(VENV)/.test
	$(PYTEST) --cov --cov-report= $(PYTEST_ARGS)
	@echo "$$($(BIN)/coverage report --format=total) % of the package's lines ran in the tests' own processes; child processes are not counted"

lint: lint-python lint-workflow

lint-python: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff check --preview --select DOC102,DOC202,DOC403 .  # docstrings match arguments and results
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

lint-workflow: $(VENV)/.test
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/snakemake --lint

docs: $(VENV)/.test
	$(BIN)/zensical build --strict --clean

lock: $(VENV)/.test
	$(BIN)/pip install --quiet uv
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python envs/lock.py

$(VENV)/.demo: envs/requirements.lock pyproject.toml
	@envs/install.sh "$(PYTHON)" "$(VENV)" envs/requirements.lock
	@touch $@

$(VENV)/.test: envs/test.lock pyproject.toml
	@envs/install.sh "$(PYTHON)" "$(VENV)" envs/test.lock
	@touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) results logs .snakemake .site
