"""Every search service in every scenario, searched as in a run, and the document about it."""

from __future__ import annotations

import pytest

from beacon_site.providers.search.base import CATALOGUE
from tests.providers import scenario_table
from tests.providers.scenario_table import DOCUMENT, SENDS_NO_REQUESTS, Outcome
from tests.providers.scenarios import RETRY_AFTER, SCENARIOS
from tests.providers.search_servers import BraveServer, TavilyServer

ASKED = [service.name for service in CATALOGUE if service.name not in SENDS_NO_REQUESTS]
KEYS = (scenario_table.SERPAPI_KEY, TavilyServer.key, BraveServer.key)
# (hits, tries, whether another time may help)
EXPECTED = {
    "ok": (3, 1, False),
    "empty": (0, 1, False),
    "unauthorized": (0, 1, False),
    "rate": (0, 3, True),
    "quota": (0, 1, False),
    "html": (0, 3, True),
    "slow": (0, 3, True),
    "cut": (0, 3, True),
    "500 then ok": (3, 2, False),
}
NO_FEED = (0, 1, False)  # a page where a feed was named is a wrong address, not a passing fault


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[str, str], Outcome]:
    return scenario_table.measured()


@pytest.mark.requirement("R47")
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("service", ASKED)
def test_a_run_tries_again_only_what_may_pass(outcomes, service, scenario):
    outcome = outcomes[service, scenario]

    asked = outcome.asked
    expected = NO_FEED if (service, scenario) == ("feeds", "html") else EXPECTED[scenario]
    assert (len(asked.hits), asked.tries, asked.may_retry) == expected
    # SearXNG does not say whether there are more pages, so one more is asked for where hits lack.
    further = 1 if service == "searxng" and asked.hits else 0
    assert outcome.requests == asked.tries + further
    assert bool(asked.problem) == (scenario not in ("ok", "empty", "500 then ok"))


@pytest.mark.parametrize("service", [name for name in ASKED if name != "gdelt"])
def test_a_time_to_wait_is_kept_where_the_vendor_names_one(outcomes, service):
    assert outcomes[service, "rate"].asked.retry_after == float(RETRY_AFTER)


def test_what_a_run_says_names_the_service_and_never_a_key(outcomes):
    for (service, _scenario), outcome in outcomes.items():
        if outcome.asked.problem:
            assert str(scenario_table.BY_NAME[service].label) in outcome.said
        assert not any(key in outcome.said for key in KEYS)


def test_the_document_says_what_the_services_do(outcomes):
    document = DOCUMENT.read_text()

    renewed = scenario_table.written(document, scenario_table.table(outcomes))
    assert renewed == document, "run: python -m tests.providers.scenario_table --write"


def test_the_users_page_names_every_service_and_its_variables():
    page = (scenario_table.ROOT / "docs" / "providers.md").read_text()

    for service in CATALOGUE:
        assert f"\n| {service.label} |" in page
        for variable in filter(None, (service.key_variable, service.url_variable)):
            assert f"`{variable}`" in page
