# `make up` runs Beacon and `make test` tests it. Both need only Python 3.11 or later. Every target
# goes through scripts/bootstrap.py, which creates .venv and keeps it up to date.

PYTHON ?= python3
RUN = exec $(PYTHON) scripts/bootstrap.py

.PHONY: up down test test-slow test-long coverage faults attacks screenshots pictures docs languages bench lint dist sbom lock audit vendor help

help: ## list all targets
	@grep -E '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/'

up: ## run Beacon until Ctrl-C (BEACON_BIND, BEACON_PORT, BEACON_DATA_DIR: docs/hosting.md)
	@$(RUN) up

down: ## stop the Beacon server that uses this data folder, and processes that a killed one left running
	@$(RUN) down

test: ## run the fast tests on temporary servers (ARGS="-k word" selects some)
	@$(RUN) test $(ARGS)

test-slow: ## run the slow tests: real processes, browser, faults, attacks (ARGS as above)
	@$(RUN) test-slow $(ARGS)

test-long: ## run the slow tests and those marked long, each page in every look (an hour; ARGS as above)
	@$(RUN) test-long $(ARGS)

coverage: ## run the fast tests and fail if they execute less than 95 % of memory and research
	@$(RUN) coverage $(ARGS)

faults: ## break real processes for 15 minutes and print which data survived (ARGS=--write also updates docs/dev/reliability.md)
	@$(RUN) faults $(ARGS)

attacks: ## attack every sink for several minutes and print what was refused, neutralized or executed (ARGS=--write as above)
	@$(RUN) attacks $(ARGS)

screenshots: ## save screenshots of every page, light and dark, wide and narrow, in screenshots/ (ARGS="word" selects some)
	@$(RUN) screenshots $(ARGS)

pictures: ## follow docs/tutorial.md in a browser and save the screenshots in docs/pictures/
	@$(RUN) pictures $(ARGS)

docs: ## regenerate docs/reference/ from the code
	@$(RUN) docs

languages: ## update locale/ after messages have changed, and print what isn't translated
	@$(RUN) languages $(ARGS)

bench: ## run all benchmarks and write bench/report.md (ARGS="--quick", ARGS="--only recall")
	@$(RUN) bench $(ARGS)

lint: ## check style, types, templates, migrations, code size, and production settings (Django)
	@$(RUN) lint

dist: ## build the wheel (with the `beacon` command), the source package and the client into dist/
	@$(RUN) dist

sbom: ## write Beacon's components and their licenses to dist/ (CycloneDX)
	@$(RUN) sbom

lock: ## resolve requirements/*.in into hashed requirements/*.txt (needs network access)
	@$(RUN) lock

audit: ## check the locked packages for known vulnerabilities (needs network access)
	@$(RUN) audit

vendor: ## rebuild static/vendor from its locked packages (needs Node and network access)
	@$(RUN) vendor
