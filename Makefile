# Every target makes .venv if it is missing; all it takes is Python 3.11 or newer, pip and make.
PYTHON ?= python3
BIN := .venv/bin
BUILD := pyproject.toml setup.py constraints.txt src/coembed/_native.c
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint types bench-speed tables viewer

demo: .venv/light
	$(BIN)/coembed demo --out demo --force

test: .venv/full
	$(BIN)/python -m pytest

lint: .venv/full
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/ruff check src tests benchmarks examples

types: .venv/full
	$(BIN)/mypy

bench-speed: .venv/light
	$(BIN)/python benchmarks/speed.py

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/light: .venv/bin/python $(BUILD)
	$(INSTALL) --editable ".[view]"
	touch $@

.venv/full: .venv/bin/python $(BUILD)
	$(INSTALL) --editable ".[train,view,bench,segment,dev]"
	touch $@ .venv/light

# the tables of docs/reproduce.md; DATA holds faust_r, scape_r, shrec19_r, WEIGHTS the released .pth
tables: .venv/full
	$(BIN)/python benchmarks/tables.py --data $(DATA) --weights $(WEIGHTS)

# src/coembed/data/viewer.html from viewer/; needs node and npm, which nothing else here does
viewer:
	cd viewer && npm ci --no-audit --no-fund && npm run build
