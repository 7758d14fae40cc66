# `make test` needs only Python 3.11+ and make: it builds a virtual environment here and runs every check in it.

PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed

.PHONY: test test-all lint types check docs docs-look tables report beyond bench floor mutants clean

test: lint types check

$(STAMP): pyproject.toml
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports --no-cache --no-logo

types: $(STAMP)
	$(VENV)/bin/pyright

check: $(STAMP)
	$(VENV)/bin/python -m pytest -n auto --maxprocesses 4 --dist worksteal

# Also what takes long, about an hour on two cores: by hand, before a release.
test-all: lint types
	$(VENV)/bin/python -m pytest -m '' -n auto --maxprocesses 4 --dist worksteal

# Small mistakes, put into the library at random: do the tests notice them? By hand, about an hour on two cores,
# with Python 3.12 or newer.
COUNT ?= 200
SEED ?= 0
mutants: $(STAMP)
	$(VENV)/bin/python tests/mutants.py --count $(COUNT) --seed $(SEED)

# The site of the documentation, in site/index.html: every Python block of its pages is run, and a warning is an error. What
# ran before is kept in build/docs, and runs again only if its code or the library's has changed.
docs: $(VENV)/.installed-docs
	$(VENV)/bin/python -m sphinx -W --keep-going -q -b html -d build/docs/doctrees docs site \
		|| { rm -rf build/docs/doctrees; exit 1; }

# Its pages in Chromium, on a phone and on a desk: no errors, nothing too wide, links whole.
docs-look: docs
	$(VENV)/bin/python docs/check_site.py site

$(VENV)/.installed-docs: $(STAMP)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test,docs]'
	touch $@

# The tables of the learners' pages, from their metadata and from what was measured.
tables: $(STAMP)
	$(VENV)/bin/python docs/learners/make_tables.py

# The paper, reproduced at a small scale: one page in reproduction/index.html. PROFILE=paper is the paper's own scale.
PROFILE ?= quick
report: $(STAMP)
	$(VENV)/bin/recurra reproduce --profile $(PROFILE) --out reproduction

# What the paper leaves open, at a small scale: one page in beyond/index.html. The study itself is
# `recurra beyond --profile full`.
beyond: $(STAMP)
	$(VENV)/bin/recurra beyond --out beyond

# Step times beside NumPy, braintrace and PyTorch, in a virtual environment of their own: bench/compare.json and a plot.
bench: .bench/.installed
	.bench/bin/python benchmarks/compare.py --out bench
	.bench/bin/recurra bench --out bench

# Every learner, cell and size beside the same algorithm written by hand: bench/step_time.json and a plot. It takes about
# two hours; after a stop, MISSING=--missing goes on with what is not there.
floor: $(STAMP)
	$(VENV)/bin/python benchmarks/step_time.py --all $(MISSING) --out bench

.bench/.installed: pyproject.toml benchmarks/requirements-peers.txt
	test -x .bench/bin/python || $(PYTHON) -m venv .bench
	.bench/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[paper]' \
		-r benchmarks/requirements-peers.txt
	touch $@

clean:
	rm -rf $(VENV) .bench .pytest_cache .ruff_cache dist build site
