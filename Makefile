# `make up` runs Beacon, `make test` tests it; both need Python 3.11 or later and nothing else.
# Every target goes through scripts/bootstrap.py, which makes and keeps .venv up to date.

PYTHON ?= python3
RUN = exec $(PYTHON) scripts/bootstrap.py

.PHONY: up down test test-slow coverage faults attacks screenshots pictures docs bench lint dist sbom lock audit vendor help

help: ## say what there is
	@grep -E '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/'

up: ## run Beacon until Ctrl-C (BEACON_BIND, BEACON_PORT, BEACON_DATA_DIR: docs/hosting.md)
	@$(RUN) up

down: ## stop the Beacon of this data folder, and whatever a killed one left behind
	@$(RUN) down

test: ## run the fast tests on temporary servers (ARGS="-k word" for some of them)
	@$(RUN) test $(ARGS)

test-slow: ## run the slow tests: real processes, browser, faults, attacks (ARGS as above)
	@$(RUN) test-slow $(ARGS)

coverage: ## run the fast tests and fail if they execute less than 95 % of memory and research
	@$(RUN) coverage $(ARGS)

faults: ## break real processes for 15 minutes and print what was kept (ARGS=--write: docs/dev/reliability.md)
	@$(RUN) faults $(ARGS)

attacks: ## attack every sink for minutes and print what was refused, neutralised, run (ARGS=--write as above)
	@$(RUN) attacks $(ARGS)

screenshots: ## every page, light and dark, wide and narrow, into screenshots/ (ARGS="word" for some)
	@$(RUN) screenshots $(ARGS)

pictures: ## walk docs/tutorial.md in a browser and take the pictures of docs/pictures/
	@$(RUN) pictures $(ARGS)

docs: ## write docs/reference/ anew from the code
	@$(RUN) docs

bench: ## all benchmarks and one report, bench/report.md (ARGS="--quick", ARGS="--only recall")
	@$(RUN) bench $(ARGS)

lint: ## style, types, templates, migrations, size of the code, and Django's check of production settings
	@$(RUN) lint

dist: ## build the wheel (with the command `beacon`), the sources and the client into dist/
	@$(RUN) dist

sbom: ## write what Beacon is made of, with licences, as CycloneDX into dist/
	@$(RUN) sbom

lock: ## resolve requirements/*.in into hashed requirements/*.txt (needs a network)
	@$(RUN) lock

audit: ## look the locked packages up among known vulnerabilities (needs a network)
	@$(RUN) audit

vendor: ## build static/vendor anew from its locked packages (needs Node and a network)
	@$(RUN) vendor
