# make demo   install into .venv from the lock, run the demo, say where the results are
# make test   install and run the tests
# make test-slow   the tests marked slow
# make lint   ruff, snakefmt and snakemake's own lint
# make lock   resolve dependencies again

PYTHON ?= python3
VENV ?= .venv
TEST_JOBS ?= 2
BIN := $(VENV)/bin

.PHONY: demo test test-slow lint lock clean

demo: $(VENV)/.demo
	$(BIN)/tvmake make

test: $(VENV)/.test
	$(BIN)/python -m pytest -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

test-slow: $(VENV)/.test
	$(BIN)/python -m pytest -m slow $(PYTEST_ARGS)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/snakemake --lint

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
	rm -rf $(VENV) results logs .snakemake
