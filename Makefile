# `make demo` and `make test` do all the set-up; everything they install goes into .venv in this checkout.
#
# PYTHON      interpreter that creates the environment (3.11 or newer)
# TORCH_ARGS  arguments for pip when it installs torch, for example --index-url of the CPU builds
# PIP_ARGS    arguments for pip everywhere
# MAX_JOBS    C++ compilers at a time
# DATA        folder of published measurements, for `make fidelity`
PYTHON ?= python3
TORCH ?= torch==2.13.0
TORCH_ARGS ?=
PIP_ARGS ?=
PYTEST_ARGS ?= -n 2
DATA ?= ../shared/data
export MAX_JOBS ?= $(shell nproc)

VENV := .venv
BIN := $(VENV)/bin
# torch's build looks ninja up on the path
export PATH := $(CURDIR)/$(BIN):$(PATH)

SOURCES := $(shell find src/trnscope/device/csrc -name '*.cpp' -o -name '*.h' ! -name build_torch_version.h)

.PHONY: demo test lint types layers unit test-slow test-ops bench fidelity docs golden clean fuzz
.DELETE_ON_ERROR:

demo: $(VENV)/extension.stamp
	$(BIN)/python examples/rmsnorm.py

test: lint types layers unit

lint: $(VENV)/extension.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/extension.stamp
	$(BIN)/mypy

layers: $(VENV)/extension.stamp
	$(BIN)/lint-imports

unit: $(VENV)/extension.stamp
	$(BIN)/python -m pytest $(PYTEST_ARGS)

# What takes minutes: every published trace, where DATA is at hand
test-slow: $(VENV)/extension.stamp
	TRNSCOPE_TEST_DATA=$(abspath $(DATA)) $(BIN)/python -m pytest -m slow

# The whole operator database, in crash-safe shards
test-ops: $(VENV)/extension.stamp
	$(BIN)/python tests/ops/sweep.py

bench: $(VENV)/extension.stamp
	$(BIN)/python benchmarks/overhead/overhead.py
	$(BIN)/python benchmarks/overhead/recording.py
	$(BIN)/python benchmarks/core/core.py

fidelity: $(VENV)/extension.stamp
	$(BIN)/python benchmarks/fidelity/fidelity.py $(DATA)

# Mutated traces against every reader
fuzz: $(VENV)/extension.stamp
	$(BIN)/python tests/fuzz/fuzz_import.py --runs 10000

# Pages that are made from the code; the tests say when one is stale
docs: $(VENV)/extension.stamp
	$(BIN)/python tools/schema_page.py
	$(BIN)/python tools/tutorial.py
	$(BIN)/python tools/readme_picture.py

# Captures that the tests read; reproducible, so that `git diff` shows what a change of the model means
golden: $(VENV)/extension.stamp
	$(BIN)/python tools/make_golden.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -f src/trnscope/device/_C*.so src/trnscope/device/csrc/build_torch_version.h

$(VENV)/torch.stamp:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "trnscope needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q $(PIP_ARGS) 'setuptools>=77' wheel ninja
	$(BIN)/python -m pip install -q $(PIP_ARGS) $(TORCH_ARGS) '$(TORCH)'
	touch $@

$(VENV)/install.stamp: $(VENV)/torch.stamp pyproject.toml src/trnscope_compat.pth
	TRNSCOPE_BUILD_EXTENSION=0 $(BIN)/python -m pip install -q $(PIP_ARGS) --no-build-isolation -e '.[device,test]'
	touch $@

# Built in place and apart from the installation: only what changed is compiled again
$(VENV)/extension.stamp: $(VENV)/install.stamp setup.py $(SOURCES)
	TRNSCOPE_BUILD_EXTENSION=1 $(BIN)/python setup.py -q build_ext --inplace
	touch $@
