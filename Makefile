# Every target makes its own environment: Python 3.11+ and make are all that has to be there.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
PIP    := $(PY) -m pip install --quiet --disable-pip-version-check
JOBS   ?= 2
FRAMEWORKS ?= torch jax

# Tests start hundreds of interpreters: each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

RUNTIME := $(VENV)/.installed-runtime
DEV     := $(VENV)/.installed-dev
DOCS_VENV := .venv-docs
DOCS      := $(DOCS_VENV)/.installed

.PHONY: demo test test-all test-frameworks cute-ir docs lint types package format clean

demo: $(RUNTIME)
	$(PY) examples/gemm.py

test: $(DEV)
	$(PY) -c 'from lit.main import main; main()' -q -j $(JOBS) test
	$(PY) -m pytest -q -n $(JOBS) --dist worksteal

test-all: $(DEV)
	$(PY) -c 'from lit.main import main; main()' -q -j $(JOBS) --param shell=1 test
	$(PY) -m pytest -q -n $(JOBS) --dist worksteal -m "long or not long"

# The tests that need torch and JAX, which `make test` skips without them; not in requirements-dev
# for their size. On a machine without a GPU, torch's own index has a small build:
# make test-frameworks PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
test-frameworks: $(DEV)
	$(PIP) $(FRAMEWORKS)
	$(PY) -m pytest -q -n $(JOBS) --dist worksteal -m "long or not long" test/torch test/jax

# CuTe IR's own lit tests, which are not here: CUTE_IR is cutlass_compiler/cute_ir/test of a checkout of
# github.com/NVIDIA/cutlass. Without it this says that nothing ran, and fails.
cute-ir: $(DEV)
	$(PY) -m cutedialect.tools.cute_ir_tests $(CUTE_IR)

# The site, in build/site: static, searchable without a network. Then its links are followed, and where a
# Chromium is installed, each page is looked at as a phone shows it, and screenshots are compared with those
# of before (`.ci/screenshots.py build/site --update` takes them anew).
docs: $(DOCS)
	PYTHONPATH=$(CURDIR) NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --quiet
	$(DOCS_VENV)/bin/python .ci/check_site.py build/site
	$(DOCS_VENV)/bin/python .ci/screenshots.py build/site

lint: $(DEV)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m pyright

# The types of everything public, and a user's strict program, against the checkout.
types: $(DEV)
	PYTHONPATH=$(CURDIR) .ci/types $(CURDIR)/$(PY)

# The wheel in dist/, and README, tutorial, doctor and types in an environment that has it alone.
package:
	PYTHON=$(PYTHON) .ci/package

format: $(DEV)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

clean:
	rm -rf build dist $(VENV) $(DOCS_VENV) *.egg-info .pytest_cache .ruff_cache .hypothesis
	find cutedialect test examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
	find test -name Output -prune -exec rm -rf {} + 2>/dev/null || true

# A usable interpreter in .venv is kept, a missing, broken or too old one is made anew.
define ensure_venv
@$(PY) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "expected Python 3.11 or newer, got $$($(PYTHON) --version 2>&1);" \
		     "name one with: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }; \
	$(PYTHON) -m venv --clear $(VENV); }
endef

$(DOCS): requirements-docs.txt requirements.txt Makefile
	$(PYTHON) -m venv --clear $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	@touch $@

$(RUNTIME): requirements.txt pyproject.toml Makefile
	$(ensure_venv)
	$(PIP) -r requirements.txt
	$(PIP) --no-deps -e .
	@touch $@

$(DEV): requirements-dev.txt requirements.txt pyproject.toml Makefile
	$(ensure_venv)
	$(PIP) -r requirements-dev.txt
	$(PIP) --no-deps -e .
	@touch $@
