# Every developer command.  `make` lists them; `make run` and `make test` need nothing but Python 3.11
# (and use a C compiler if there is one).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Touched when what `make run` needs is installed, and when all the tools are.  Newer than the lock files: nothing
# to install.  Everything comes from requirements/, with its hashes; packages that come as sources are built by
# what is locked, too.
RUNNABLE := $(VENV)/runnable
READY := $(VENV)/ready
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-build-isolation
# Compiled where possible: a folder that is not there is skipped, and the sources in src/ are used.
COMPILED := PYTHONPATH=$(CURDIR)/.compiled/src
# CI has 2 cores.  Files of very different length: idle workers take from busy ones.
PYTEST := $(BIN)/pytest
TESTS := $(BIN)/python scripts/run_tests.py
PARALLEL := -n 2 --dist worksteal
# The tests that run both interpreted and compiled.
CORE := tests/unit tests/property tests/client

.DEFAULT_GOAL := help
.PHONY: help setup run cluster test test-interpreted test-compiled test-spark check static format format-check lint types \
	imports unit compile coverage lock generate docs bench bench-peers bench-cluster-peers bench-scaling bench-spark kafka-reference soak clean

help:            ## show this list
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 18

setup: $(READY)  ## create .venv and install everything into it
$(RUNNABLE): pyproject.toml requirements/build.txt requirements/run.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Penstock needs Python 3.11 or newer, and '$(PYTHON)' is not; try: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "'$(PYTHON)' cannot make virtual environments; install its venv package (Debian: apt install python3-venv)"; exit 1; }
	@echo "setting up $(VENV) (once; mostly Spark, some 1.1 GB)"
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) --require-hashes -r requirements/build.txt
	@$(INSTALL) --require-hashes -r requirements/run.txt
	@$(INSTALL) --no-deps --editable .
	@touch $@
$(READY): $(RUNNABLE) requirements/dev.txt
	@echo "installing the tools for tests (once)"
	@$(INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@

run: $(RUNNABLE)  ## a server on ./data and the archive on Spark, with what to try next; Ctrl-C ends both
	@$(COMPILED) $(BIN)/penstock serve --data ./data --archive

cluster: $(RUNNABLE)  ## three nodes of a cluster on this machine; Ctrl-C ends them
	@$(COMPILED) $(BIN)/penstock cluster dev --data ./data/cluster

test: test-interpreted test-compiled test-spark  ## the whole suite, and the core again compiled (some 25 minutes)
test-interpreted: $(READY)
	@scripts/install-test-tools
	HYPOTHESIS_PROFILE=dev PENSTOCK_BUILD=interpreted $(TESTS) $(PARALLEL) -m 'not jvm'  # Compiled: four times as many.
test-compiled: compile
	@if [ -d .compiled ]; then set -x; \
		$(COMPILED) HYPOTHESIS_PROFILE=ci PENSTOCK_BUILD=compiled $(TESTS) $(PARALLEL) $(CORE); \
	else echo "no C compiler: the compiled run is left out"; fi
test-spark: compile  ## the pipeline, on a Spark session for each of two processes
	$(COMPILED) $(TESTS) -n 2 --dist loadfile --no-loadscope-reorder -m jvm tests/spark

check: static unit  ## before a commit: format, lint, types, imports, unit tests (under 90 s)
static: format-check lint types imports  ## everything that runs no code
unit: $(READY)   ## the unit tests, interpreted
	HYPOTHESIS_PROFILE=dev $(PYTEST) tests/unit tests/test_tidy.py -m "not slow"
format: $(READY)  ## rewrite the files as ruff likes them
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
format-check: $(READY)
	$(BIN)/ruff format --check .
lint: $(READY)   ## ruff
	$(BIN)/ruff check .
types: $(READY)  ## mypy --strict over src, tests and scripts
	$(BIN)/mypy
imports: $(READY)  ## who may import whom
	$(BIN)/lint-imports

compile: $(READY)  ## compile the hot modules into .compiled, if there is a C compiler
	@$(BIN)/python scripts/compile.py

coverage: $(READY)  ## the whole suite with branch coverage
	$(BIN)/coverage erase
	HYPOTHESIS_PROFILE=dev $(BIN)/coverage run -m pytest
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

lock:            ## resolve the dependencies of pyproject.toml into requirements/; UPGRADE=--upgrade: the newest
	@PYTHON=$(PYTHON) scripts/lock $(UPGRADE)

generate: $(READY)  ## write the sources that follow from operations/spec.py and penstock.proto
	$(BIN)/python scripts/operations.py
	$(BIN)/python scripts/grpc_stubs.py

docs: $(READY)   ## write the generated pages again
	$(BIN)/python scripts/errors_page.py
	$(BIN)/python scripts/configuration_page.py
	$(BIN)/python scripts/metrics_page.py

bench: compile   ## benchmarks, each beside its limit; a table, and JSON in benchmarks/results
	$(COMPILED) $(BIN)/python -m benchmarks

bench-peers: compile  ## the same work by Kafka, RabbitMQ, NATS, Redis, Valkey, beanstalkd and SQS's stand-in; 40 minutes
	@scripts/install-peers
	$(COMPILED) $(BIN)/python -m benchmarks.peers --page

bench-cluster-peers: compile  ## three nodes beside three of NATS, RabbitMQ and Kafka, equal durability; 12 minutes
	@scripts/install-peers
	$(COMPILED) $(BIN)/python -m benchmarks.cluster.peers --page

kafka-reference: $(READY)  ## compare the Kafka protocol with Apache Kafka itself, from Maven Central; 1 minute
	@scripts/install-kafka
	$(BIN)/python -m tests.kafka_reference

bench-spark: compile  ## Spark's own Kafka connector, from Maven Central, beside ours, and the lake on S3; some minutes
	@scripts/install-spark-kafka
	$(COMPILED) $(BIN)/python -m benchmarks.spark_kafka
	$(COMPILED) $(BIN)/python -m benchmarks.spark_bucket

bench-scaling: compile  ## how cost grows with topics, partitions, groups, backlog and size; 10 minutes
	$(COMPILED) $(BIN)/python -m benchmarks.scaling --page

soak: compile    ## property tests and fuzzed decoders with 20,000 examples each, power cuts, kills and millions on Spark; prints the seed
	@scripts/install-deploy-tools
	$(COMPILED) HYPOTHESIS_PROFILE=soak $(PYTEST) $(PARALLEL) -o faulthandler_timeout=0 tests/property tests/fuzz
	$(COMPILED) HYPOTHESIS_PROFILE=soak $(PYTEST) -o faulthandler_timeout=0 -m soak tests

clean:           ## remove everything that make made
	rm -rf .venv .compiled .coverage* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find src -name '*.so' -delete
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
