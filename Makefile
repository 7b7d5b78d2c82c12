# For GNU make 3.81 (macOS) and newer. Plain `make` lists the targets.
.DEFAULT_GOAL := help

# Its programs are called by python -m: a script's first line, as in .venv/bin/jupyter, names the folder where it was made,
# so it's dead once the checkout has moved.
BIN := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
# Which Python makes .venv and looks after it: .venv's own once it has one, so that PYTHON= is needed only once.
PYTHON ?= $(shell $(BIN)/python -I -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null && echo $(BIN)/python || echo python3)
PORT ?= 8888

# What a user's Python settings would break: .venv has its own packages, and its programs end by themselves.
unexport PYTHONHOME PYTHONPATH PYTHONINSPECT PYTHONWARNINGS PYTHONOPTIMIZE PYTHONIOENCODING PYTHONUTF8

ENSURE = @$(PYTHON) -c pass 2>/dev/null || { \
	echo "'$(PYTHON)' isn't a Python that runs here: install one from 3.11 to 3.14, or name one that you have, as in: make $@ PYTHON=/path/to/python3" >&2; \
	exit 1; }; $(PYTHON) tools/setup/ensure_venv.py

# The language model that tests decode is kept here, not in the cache folder of whoever runs them.
test-unit test-notebooks test-slow test-browser site test-site refresh real-sentence: export ATTENTION_HELPERS_CACHE ?= $(CURDIR)/build/cache

.PHONY: help lab reset test test-unit test-notebooks test-slow test-browser site test-site classroom test-classroom lint format mutants course exercises \
	refresh lookup-models trained-models overfitting long-texts real-sentence upgrade clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile

lab: ## open the course in JupyterLab (PORT=8888, TORCH=cuda for a GPU, ARGS=... for JupyterLab)
	$(ENSURE) lab
	@$(BIN)/python tools/setup/workbook.py fill
	$(BIN)/python -m jupyterlab --ip=127.0.0.1 --port=$(PORT) --ServerApp.root_dir=workbook \
		--ContentsManager.pre_save_hook=tools.setup.lab_hook.drop_dead_views \
		--LabApp.workspaces_dir=workbook/.lab --LabApp.default_url=/lab/tree/00_start_here.ipynb $(ARGS)

reset: ## bring a notebook's newest version, keeping yours beside it (NOTEBOOK=03)
	$(ENSURE) lab
	@$(BIN)/python tools/setup/workbook.py reset "$$NOTEBOOK"

test: test-unit test-notebooks ## run the unit tests, and every lesson against its stored outputs

test-unit: ## run the unit tests alone (ARGS=... for pytest, such as tests/test_probes.py)
	$(ENSURE) test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -p no:nbval --numprocesses=logical --dist=worksteal $(ARGS)

# Strict nbval: every stored output is compared. One thread a kernel, because the notebooks share the cores already.
NOTEBOOKS ?= $(wildcard notebooks/*.ipynb)
NBVAL = -p tools.notebooks.own_sockets --nbval --nbval-current-env --nbval-cell-timeout=120 --numprocesses=logical --dist=loadfile \
	--timeout=300 --timeout-method=signal

test-notebooks: ## execute every lesson and compare it with its stored outputs (ARGS=... for pytest)
	$(ENSURE) test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(NBVAL) $(NOTEBOOKS) $(ARGS)

# How many seconds a test may take that takes minutes. By a signal, the programs that it started are ended too.
LONG = --timeout=1800
LONG_WITH_PROGRAMS = $(LONG) --timeout-method=signal

test-slow: ## run the tests that take minutes, the solutions' notebooks among them
	$(ENSURE) test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(NBVAL) notebooks/solutions
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -p no:nbval --numprocesses=logical -m slow $(LONG) $(ARGS)

test-browser: ## open every notebook in a real JupyterLab, and move the sliders (needs Chromium; one test, Firefox)
	$(ENSURE) test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -p no:nbval --numprocesses=2 --dist=loadscope $(LONG_WITH_PROGRAMS) -rs tests/browser $(ARGS)

site: ## make the pages to read, build/site/index.html (ARGS=... for Sphinx)
	$(ENSURE) site
	rm -rf build/site
	$(BIN)/python -m sphinx --jobs=2 --fail-on-warning --keep-going --quiet --fresh-env -d build/doctrees -c docs $(ARGS) . build/site
	$(BIN)/python -m tools.notebooks.colab_copies build/site/colab

test-site: site ## and look at them in a browser: links, formulas, light and dark, requests, axe (needs Chromium)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -p no:nbval --numprocesses=2 --dist=loadscope $(LONG_WITH_PROGRAMS) -rs tests/site

classroom: ## start a hub for a class, as root: see classroom/README.md (ARGS=... for JupyterHub)
	$(ENSURE) classroom
	@$(BIN)/python classroom/set_up.py
	cd build/classroom/hub && "$(CURDIR)/$(BIN)/python" -m jupyterhub --config "$(CURDIR)/classroom/jupyterhub_config.py" $(ARGS)

test-classroom: ## have five learners work in a real hub at once, and mark a class (the hub needs Linux, root, Node; ARGS=... for pytest)
	$(ENSURE) classroom
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -p no:nbval -rs --numprocesses=2 --dist=loadfile $(LONG_WITH_PROGRAMS) tests/classroom $(ARGS)

lint: ## check code and notebooks with ruff, and who imports whom
	$(ENSURE) test
	$(BIN)/python -m ruff check
	$(BIN)/python -m ruff format --check
	$(BIN)/python $(BIN)/lint-imports --no-cache --no-logo

format: ## let ruff mend and format code and notebooks
	$(ENSURE) test
	$(BIN)/python -m ruff check --fix
	$(BIN)/python -m ruff format

mutants: ## break the exercises' solutions in many ways, and see that each check notices (ARGS=03 for one lesson)
	$(ENSURE) test
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.mutants $(ARGS)

course: ## write notebooks/course.toml into README, docs/teaching.md and notebooks, and data/models.json into the page of names
	$(ENSURE) test
	$(BIN)/python -m tools.notebooks.place_course

exercises: ## write the exercises and the package's classes into the notebooks, and make the solutions (then: make refresh)
	$(ENSURE) test
	$(BIN)/python -m tools.notebooks.place_classes
	$(BIN)/python -m tools.notebooks.place_exercises
	$(BIN)/python -m tools.notebooks.place_course

refresh: ## execute the course's notebooks and store their outputs (NOTEBOOK=03 for one)
	$(ENSURE) test
	$(BIN)/python -m tools.notebooks.refresh_notebooks $$NOTEBOOK

lookup-models: ## train data/lookup_models.npz again, the weights that explorers offer as trained (a minute)
	$(ENSURE) test
	$(BIN)/python -m tools.training.make_data lookup_models

trained-models: ## train data/trained_models.npz again, which notebooks 08, 10 and 11 load (a minute)
	$(ENSURE) test
	$(BIN)/python -m tools.training.make_data trained_models

overfitting: ## train data/overfitting.npz again, whose losses notebook 04 shows (a few seconds)
	$(ENSURE) test
	$(BIN)/python -m tools.training.make_data overfitting

long-texts: ## measure data/long_texts.npz again, which notebook 11's explorer shows (half a minute)
	$(ENSURE) test
	$(BIN)/python -m tools.training.make_data long_texts

real-sentence: ## measure data/real_sentence.json again, what one head of notebook 13's model reads (two minutes)
	$(ENSURE) test
	$(BIN)/python -m tools.training.make_data real_sentence

REQUIREMENTS = requirements.txt requirements-dev.txt requirements-model.txt docs/requirements.txt classroom/requirements.txt

# uv alone, from its pin: requirement files that contradict constraints.txt cannot be installed before this has run.
upgrade: ## pin the newest of what the requirement files bring along (ARGS=--no-upgrade: move only what must)
	$(ENSURE) venv
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c requirements-dev.txt uv
	$(BIN)/python -m uv pip compile --quiet --universal --python-version 3.11 --no-emit-package attention-helpers --no-annotate \
		--custom-compile-command "make upgrade" --output-file constraints.txt --upgrade $(ARGS) \
		--override tools/setup/left_out.txt $(REQUIREMENTS)

clean: ## remove .venv, build and caches (workbook, your own work, stays)
	@[ ! -e .venv ] || [ -e .venv/pyvenv.cfg ] || { echo ".venv isn't a virtual environment: rename or remove it yourself." >&2; exit 1; }
	rm -rf .venv build .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './workbook/*' -prune -exec rm -rf {} +
