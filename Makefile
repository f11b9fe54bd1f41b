# Set-up is part of every target: a fresh machine needs Python 3.11 and make.
PYTHON ?= python3
VENV ?= .venv
MINUTES ?= 3
BIN = $(VENV)/bin
# What a backend computes; everything else is the same under all of them and is tested once. How often words are drawn
# is tested with every backend by tests/models/recurrent_language_model_test.py, beams by generator_test.py.
COMPUTED = tests/backend tests/layers tests/models tests/trainers/budget_test.py tests/trainers/checkpoints_test.py \
	$(wildcard tests/scoring/*r_test.py tests/scoring/contract_test.py tests/scoring/attention_test.py) \
	$(filter-out %_file_test.py %/sampler_test.py %/random_sampler_test.py %/beam_sampler_test.py %/search_test.py \
		%/unknown_replacement_test.py,$(wildcard tests/decoding/*_test.py))
# Two files at a time, each by one process, in the order of tests/conftest.py.
PYTEST = $(BIN)/python -m pytest --numprocesses=2 --dist=loadfile --no-loadscope-reorder

.PHONY: demo test lint docs bench wheel clean

demo: $(VENV)/installed
	$(BIN)/encdec-demo --minutes=$(MINUTES)

test: $(VENV)/installed-dev lint
	KERAS_BACKEND=tensorflow $(PYTEST) tests --doctest-modules keras_encdec
	KERAS_BACKEND=jax $(PYTEST) $(COMPUTED)
	KERAS_BACKEND=torch $(PYTEST) $(COMPUTED)

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .

# Into site/; open site/index.html. The variable keeps back the theme's notice of its successor.
docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

bench: $(VENV)/installed-dev
	$(BIN)/python benchmarks/run.py

wheel: $(VENV)/installed-dev
	$(BIN)/python -m build --wheel

clean:
	rm -rf $(VENV) build dist demo site *.egg-info

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[analysis]"
	touch $@

$(VENV)/installed-dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,docs,jax,torch,serving,smt,analysis,web]"
	touch $@ $(VENV)/installed $(VENV)/installed-docs

$(VENV)/installed-docs: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	touch $@ $(VENV)/installed
