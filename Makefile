# Set-up is part of every target: a fresh machine needs Python 3.11 or 3.12 and make. Python 3.13 is enough for `demo`.
PYTHON ?= python3
VENV ?= .venv
MINUTES ?= 3
BIN = $(VENV)/bin
# Extras of the tutorial and of the commands that the demo names: 6 MB beside TensorFlow, installed in a second.
DEMO_EXTRAS = analysis,serving,web
EXTRAS = dev,docs,jax,torch,serving,smt,ngram,analysis,web,ray,metrics,opusfilter,remote

.PHONY: demo packaged-model test test-older-processor coverage lint docs docs-serve bench wheel update-constraints clean

demo: $(VENV)/installed
	$(BIN)/encdec-demo --minutes=$(MINUTES)

# The trained model of the package, with a fixed seed, in a few minutes. A training in build/ that was stopped
# continues; `make clean` removes it.
packaged-model: $(VENV)/installed
	rm -rf build/libreoffice_en_fr
	$(BIN)/python -m keras_encdec.cli.build_model --work_dir=build/packaged-model --output=build/libreoffice_en_fr
	rm -rf keras_encdec/packaged_models/libreoffice_en_fr
	mv build/libreoffice_en_fr keras_encdec/packaged_models/

# Runs the tests of all backends and the linter even if one of them fails; lists the failures at the end.
test: $(VENV)/installed-dev
	@failed=0; $(BIN)/python tests/run.py || failed=1; $(BIN)/ruff check . || failed=1; \
	$(BIN)/ruff format --check . || failed=1; exit $$failed

# Runs the tests that depend on the processor again, with the instructions of an older one.
test-older-processor: $(VENV)/installed-dev
	$(BIN)/python tests/run.py --older_processor

# Measures which lines the suite with TensorFlow runs, including its child processes; fails below the share in
# pyproject.toml.
coverage: $(VENV)/installed-dev
	rm -f .coverage .coverage.*
	$(BIN)/python -m coverage run tests/run.py --whole
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --skip-covered --sort=cover --show-missing

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build/types && mkdir -p build/types/keras_encdec
	ln -s "$(CURDIR)"/keras_encdec/* "$(CURDIR)/trainers" "$(CURDIR)/export" build/types/keras_encdec
	cd build/types && "$(abspath $(BIN))/python" -m mypy --config-file "$(CURDIR)/pyproject.toml" \
		--cache-dir "$(CURDIR)/build/mypy-cache"

# Into site/; open site/index.html. The notebooks run, which takes seven minutes; `make docs EXECUTE_NOTEBOOKS=` shows
# them without results. NO_MKDOCS_2_WARNING hides the theme's notice about its successor.
EXECUTE_NOTEBOOKS ?= 1
docs: $(VENV)/installed-docs
	EXECUTE_NOTEBOOKS=$(EXECUTE_NOTEBOOKS) TF_CPP_MIN_LOG_LEVEL=3 NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# The pages without the notebooks' results, built again when a file changes; open http://127.0.0.1:8000.
docs-serve: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve --dev-addr=127.0.0.1:8000

bench: $(VENV)/installed-dev
	$(BIN)/python benchmarks/run.py

wheel: $(VENV)/installed-dev
	$(BIN)/python -m build --wheel

# The newest versions in the ranges of pyproject.toml, which pins PyTorch, without local version labels such as "+cpu".
update-constraints:
	rm -rf build/constraints
	$(PYTHON) -m venv build/constraints
	build/constraints/bin/python -m pip install --quiet --editable ".[$(EXTRAS),ngram]"
	build/constraints/bin/python -m pip freeze --exclude-editable > build/constraints/versions.txt
	head -1 constraints.txt > build/constraints/new.txt
	sed 's/+.*//' build/constraints/versions.txt >> build/constraints/new.txt
	mv build/constraints/new.txt constraints.txt
	rm -rf build/constraints

clean:
	rm -rf $(VENV) build dist demo site *.egg-info

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[$(DEMO_EXTRAS)]"
	touch $@

$(VENV)/installed-dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[$(EXTRAS)]"
	touch $@ $(VENV)/installed $(VENV)/installed-docs

$(VENV)/installed-docs: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[docs,$(DEMO_EXTRAS)]"
	touch $@ $(VENV)/installed
