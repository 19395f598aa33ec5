# What a newcomer types. Each target sets up by itself what it needs: `.venv` with Reactor in it, once, and again when pyproject.toml changed.
PYTHON3 ?= python3
PYTHON := .venv/bin/python
READY := .venv/.ready
CASES ?= tests/cases
WORKERS ?= 6
ROUNDS ?= 20

RIVALS := bench/.venv/bin/python
RIVALS_READY := bench/.venv/.ready

.PHONY: help run test thorough cases chaos outages mutants bench growth check docs first-hour

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name says; do printf '%-18s %s\n' "$$name" "$$says"; done

run: $(READY) ## the demo, until Ctrl-C (SECONDS=60: for a minute)
	@$(PYTHON) -m reactor demo $(if $(SECONDS),--seconds $(SECONDS))

# With byte code that is kept: else every service that a test starts compiles itself anew.
test: $(READY) ## the tests (ARGS="tests/embedded -m 'not kafka'": some of them)
	@PYTHONDONTWRITEBYTECODE= $(PYTHON) -m pytest --numprocesses $(WORKERS) --dist worksteal $(ARGS)

thorough: $(READY) ## the tests that `make test` has no time for, and those that try more with more time
	@REACTOR_TEST_THOROUGH=1 $(MAKE) --no-print-directory test ARGS="-m 'thorough or long' $(ARGS)"

cases: $(READY) ## the given cases, or those of another folder (CASES=<folder>)
	@$(PYTHON) -m tests.cases $(CASES)

chaos: $(READY) ## rounds of everything that can break, on three real Kafka brokers (ROUNDS=20 SEED=7 FIRST=1)
	@$(PYTHON) -m tests.chaos --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED)) $(if $(FIRST),--first $(FIRST)) $(if $(ACTS),--acts $(ACTS))

outages: $(READY) ## PostgreSQL, Kafka and the lake's folder go away under load, and come back (SECONDS=60: each for so long)
	@$(PYTHON) -m tests.outages $(if $(SECONDS),--seconds $(SECONDS))

mutants: $(READY) ## break one rule of the product after the other, and see a test fall (ARGS="no_token overtaking": these)
	@$(PYTHON) -m tests.mutants $(ARGS)

check: $(READY) ## lint, types and import contracts
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m mypy
	@.venv/bin/lint-imports

docs: $(READY) ## the documentation, as a site in .reactor/site
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict --config-file docs/mkdocs.yml

first-hour: $(READY) ## what the tutorial says, word by word, in a clean folder
	@$(PYTHON) -m docs.first_hour

bench: $(READY) $(RIVALS_READY) ## rates, latency and memory against others, some ten minutes (EVENTS=100000 SECONDS=10 HOPS=50: a short look)
	@$(PYTHON) -m bench speed --rivals-python $(RIVALS) $(if $(EVENTS),--events $(EVENTS)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(HOPS),--hops $(HOPS)) $(if $(ONLY),--only $(ONLY))

growth: $(READY) ## what grows with topics, scripts and snapshots, some twenty minutes (TOPICS=1,10 SCRIPTS=100 SNAPSHOTS=1,1000: less)
	@$(PYTHON) -m bench growth $(if $(TOPICS),--topics $(TOPICS)) $(if $(SCRIPTS),--scripts $(SCRIPTS)) $(if $(SNAPSHOTS),--snapshots $(SNAPSHOTS)) $(if $(EVENTS),--events $(EVENTS)) $(if $(HOPS),--hops $(HOPS))

$(RIVALS_READY): pyproject.toml
	@$(PYTHON3) -m venv --clear bench/.venv
	@echo "Installing what Reactor is measured against into bench/.venv (once)" >&2
	@$(RIVALS) -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@

$(READY): pyproject.toml
	@$(PYTHON3) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Reactor needs Python 3.11 or newer: make PYTHON3=<its path>" >&2; exit 1; }
	@$(PYTHON3) -c 'import ensurepip, venv' || { echo "This Python makes no environments (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@$(PYTHON) -c '' 2>/dev/null || { rm -rf .venv && $(PYTHON3) -m venv .venv; }
	@echo "Installing Reactor and what it needs into .venv (about a minute, once)" >&2
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --editable '.[embedded,dev]'
	@$(PYTHON) -c 'from reactor.wiring import KERNELS; print(*KERNELS)' | xargs -n 2 -P 2 $(PYTHON) -m reactor.compiled
	@touch $@
