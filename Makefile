# Set-up is part of every target: a fresh machine needs Python 3.11 and make.
PYTHON ?= python3
VENV ?= .venv
MINUTES ?= 3
BIN = $(VENV)/bin
BACKENDS = tensorflow jax torch
# What a backend computes; everything else is the same under all of them and is tested once.
COMPUTED = tests/layers tests/models tests/scoring tests/decoding tests/trainers/budget_test.py
# Most tests wait for a process that starts: two files at a time.
PYTEST = $(BIN)/python -m pytest --numprocesses=2 --dist=loadfile
# Commands define flags of the same names: each is run in a process of its own, and none imported with the others.
NOT_IMPORTED = --ignore=keras_encdec/cli --ignore=keras_encdec/datasets/build.py

.PHONY: demo test lint bench wheel clean

demo: $(VENV)/installed
	$(BIN)/encdec-demo --minutes=$(MINUTES)

test: $(VENV)/installed-dev lint
	KERAS_BACKEND=tensorflow $(PYTEST) tests --doctest-modules keras_encdec $(NOT_IMPORTED)
	KERAS_BACKEND=jax $(PYTEST) $(COMPUTED) --doctest-modules keras_encdec/layers keras_encdec/models
	KERAS_BACKEND=torch $(PYTEST) $(COMPUTED) --doctest-modules keras_encdec/layers keras_encdec/models

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .

bench: $(VENV)/installed-dev
	$(BIN)/python benchmarks/run.py

wheel: $(VENV)/installed-dev
	$(BIN)/python -m build --wheel

clean:
	rm -rf $(VENV) build dist demo *.egg-info

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/installed-dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,jax,torch,serving,smt]"
	touch $@ $(VENV)/installed
