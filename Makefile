# `make test` needs only Python 3.11+ and make: it builds a virtual environment here and runs every check in it.

PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed

.PHONY: test lint types check report clean

test: lint types check

$(STAMP): pyproject.toml
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(STAMP)
	$(VENV)/bin/pyright

check: $(STAMP)
	$(VENV)/bin/python -m pytest -n auto --dist worksteal

# The paper, reproduced at a small scale: one page in reproduction/index.html. PROFILE=paper is the paper's own scale.
PROFILE ?= quick
report: $(STAMP)
	$(VENV)/bin/recurra reproduce --profile $(PROFILE) --out reproduction

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache dist build
