"""Which services are set up: the environment first, field by field, then Settings."""

from __future__ import annotations

import logging
from decimal import Decimal
from typing import Any

import pytest

from beacon_site.providers.llm.endpoints import address_of
from beacon_site.providers.llm.probing import ProbeResult
from memory.models import Activity, Connection, User
from memory.services.llm import connections

KEY = "sk-very-secret-1234"


def stored_model(**more: Any) -> Connection:
    row = Connection(kind="model", name="model", base_url="http://stored/v1", model="m1", **more)
    row.set_secret(KEY)
    row.save()
    return row


def test_without_a_model_there_is_none_to_ask(db: None) -> None:
    assert connections.llm_profile() is None
    assert connections.language_model() is None


def test_the_stored_model_is_used_with_its_key_and_prices(db: None) -> None:
    stored_model(prices={"in": "0.15", "out": "0.60"}, profile={"context_tokens": 8192})

    profile = connections.llm_profile()

    assert profile is not None
    assert (profile.base_url, profile.model, profile.api_key) == ("http://stored/v1", "m1", KEY)
    assert (profile.price_in, profile.price_out) == (Decimal("0.15"), Decimal("0.60"))
    assert profile.context_tokens == 8192


def test_the_environment_wins_field_by_field(db: None, settings: Any) -> None:
    stored_model()
    settings.BEACON_LLM_BASE_URL = "http://environment/v1"

    profile = connections.llm_profile()

    assert profile is not None
    assert (profile.base_url, profile.model) == ("http://environment/v1", "m1")
    assert connections.fixed_fields("model") == {"base_url": "BEACON_LLM_BASE_URL"}


def test_the_environment_alone_is_enough(db: None, settings: Any) -> None:
    settings.BEACON_LLM_MODEL = "gpt"
    settings.OPENAI_API_KEY = KEY

    profile = connections.llm_profile()

    assert profile is not None
    assert (profile.kind, profile.api_key) == ("openai", KEY)


def test_the_environments_key_never_goes_to_an_address_of_settings(db: None, settings: Any) -> None:
    stored_model()
    settings.OPENAI_API_KEY = "sk-of-the-environment"
    settings.SEARCH_KEYS = settings.SEARCH_KEYS | {"tavily": "tvly-of-the-environment"}
    Connection.objects.create(kind="search", name="tavily", base_url="http://stored")

    profile = connections.llm_profile()

    assert profile is not None
    assert (profile.base_url, profile.api_key) == ("http://stored/v1", "")
    assert connections.search_profile("tavily").api_key == ""
    assert connections.search_profiles()["tavily"].api_key == ""


@pytest.mark.parametrize(
    ("name", "url", "may"),
    [
        ("model", "", True),
        ("model", "https://api.openai.com/v1", True),
        ("model", "http://127.0.0.1:11434/v1", True),
        ("model", "http://api.openai.com/v1", False),
        ("model", "https://api.openai.com.example.org/v1", False),
        ("model", "https://api.openai.com:8443/v1", False),
        ("model", "http://[::1/v1", False),
        ("serpapi", "", True),
        ("serpapi", "https://SerpApi.com/search.json", True),
        ("serpapi", "https://serpapi.com@example.org", False),
        ("serpapi", "http://[::1", False),
        ("brave", "https://serpapi.com", False),
    ],
)
def test_the_environments_key_goes_to_the_vendor_alone(name: str, url: str, may: bool) -> None:
    assert connections.may_have_environment_key(name, url) is may


def test_the_environments_key_goes_to_the_environments_address(db: None, settings: Any) -> None:
    stored_model()
    settings.OPENAI_API_KEY = "sk-of-the-environment"
    settings.BEACON_LLM_BASE_URL = "http://environment/v1/"

    profile = connections.llm_profile()

    assert profile is not None
    assert (profile.base_url, profile.api_key) == (
        "http://environment/v1",
        "sk-of-the-environment",
    )


def test_what_a_test_found_out_holds_for_that_endpoint_only(db: None) -> None:
    row = stored_model()
    profile = connections.llm_profile()
    assert profile is not None
    connections.keep_probe(
        profile,
        ProbeResult(True, "", 1, json_mode="object", max_tokens_field="max_completion_tokens"),
    )

    found = connections.llm_profile()
    assert found is not None
    assert (found.json_mode, found.max_tokens_field) == ("object", "max_completion_tokens")
    Connection.objects.filter(pk=row.pk).update(model="another")
    other = connections.llm_profile()
    assert other is not None
    assert (other.json_mode, other.max_tokens_field) == ("schema", "")


@pytest.mark.requirement("R236")
def test_a_key_is_stored_encrypted_and_is_in_no_repr_and_no_log(admin: User, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    row = Connection(kind="model", name="model", model="m1")
    connections.save(row, by=admin, new_secret=KEY)

    told = repr(connections.llm_profile()) + repr(row) + caplog.text
    told += str(Connection.objects.values()) + str(Activity.objects.values())
    assert KEY not in told
    assert Connection.objects.get().reveal_secret() == KEY


def test_without_a_new_key_the_stored_one_stays(admin: User) -> None:
    row = stored_model()

    connections.save(row, by=admin)

    assert Connection.objects.get().reveal_secret() == KEY


def test_a_changed_secret_key_loses_the_stored_key_and_says_so(db: None, settings: Any) -> None:
    row = stored_model()
    settings.SECRET_KEY = "another key for this Beacon, as long as the one before it was"

    assert row.secret_is_lost
    assert connections.llm_profile().api_key == ""  # type: ignore[union-attr]


def test_with_nothing_set_a_topic_searches_feeds_and_the_library(db: None) -> None:
    assert connections.search_services([]) == ["feeds", "library"]


def test_with_a_key_serpapi_comes_first(db: None, settings: Any) -> None:
    settings.SEARCH_KEYS = settings.SEARCH_KEYS | {"serpapi": KEY}

    assert connections.search_services([]) == ["serpapi", "feeds", "library"]


def test_an_address_of_its_own_needs_no_key(db: None, settings: Any) -> None:
    settings.SEARCH_BASE_URLS = settings.SEARCH_BASE_URLS | {"serpapi": "http://127.0.0.1:1"}

    assert "serpapi" in connections.search_services([])


def test_the_sample_is_used_only_by_topics_that_name_it(db: None) -> None:
    assert "sample" not in connections.search_services([])
    assert connections.search_services(["sample"]) == ["sample"]


def test_beacon_search_is_what_is_usual_and_the_outer_limit(db: None, settings: Any) -> None:
    settings.BEACON_SEARCH = ["library"]

    assert connections.search_services([]) == ["library"]
    assert connections.search_services(["serpapi", "library"]) == ["library"]


def test_saving_keeps_what_a_test_found_out_in_the_meantime(admin: User) -> None:
    stored_model()
    opened = connections.stored("model")
    profile = connections.llm_profile()
    assert profile is not None
    connections.keep_probe(profile, ProbeResult(True, "", 1, json_mode="object"))

    opened.profile["context_tokens"] = 4096
    connections.save(opened, by=admin)

    found = connections.llm_profile()
    assert found is not None
    assert (found.json_mode, found.context_tokens, found.api_key) == ("object", 4096, KEY)


# --- what tests found ---------------------------------------------------------------------------


def probed(**found: Any) -> None:
    profile = connections.llm_profile()
    assert profile is not None
    connections.keep_probe(profile, ProbeResult(True, "", 1, json_mode="object", **found))


def test_calls_begin_with_what_a_test_found(db: None) -> None:
    stored_model()

    probed(tools=False, streams=True, context_tokens=8192, embedding_model="e")

    found = connections.llm_profile()
    assert found is not None
    assert (found.tools, found.streams) == (False, True)
    assert (found.context_tokens, found.embedding_model) == (8192, "e")


def test_what_staff_chose_stands_over_what_a_test_found(db: None) -> None:
    stored_model(profile={"context_tokens": 4096, "json_mode": "prompt"})

    probed(context_tokens=8192)

    found = connections.llm_profile()
    assert found is not None
    assert (found.context_tokens, found.json_mode) == (4096, "prompt")


def test_a_failed_test_of_another_model_leaves_nothing_of_the_earlier_one(db: None) -> None:
    row = stored_model()
    probed(tools=True)
    Connection.objects.filter(pk=row.pk).update(model="another")
    profile = connections.llm_profile()
    assert profile is not None

    connections.keep_probe(profile, ProbeResult(False, "gone", 1))

    found = connections.last_found(connections.stored("model"))
    assert (found["failed"], found["is_stale"], "tools" in found) == ("gone", False, False)


def test_a_kind_without_an_address_means_its_usual_one(db: None) -> None:
    Connection.objects.create(kind="model", name="model", model="m", profile={"kind": "ollama"})

    profile = connections.llm_profile()

    assert profile is not None
    assert address_of(profile).base_url == "http://127.0.0.1:11434/v1"


def test_a_services_last_test_is_kept_until_its_key_changes(admin: User) -> None:
    row = Connection(kind="search", name="brave")
    connections.save(row, by=admin, new_secret=KEY)
    connections.keep_test(connections.stored("brave"), ProbeResult(False, "refused", 9))
    assert not connections.last_found(connections.stored("brave"))["is_stale"]

    connections.save(connections.stored("brave"), by=admin, new_secret="BSA-another-key")

    found = connections.last_found(connections.stored("brave"))
    assert (found["ok"], found["message"], found["is_stale"]) == (False, "refused", True)


@pytest.mark.django_db
def test_a_model_on_this_machine_has_more_time_for_an_answer(settings: Any):
    settings.BEACON_LLM_MODEL = "tiny"
    times = {}
    for address in ("http://127.0.0.1:11434/v1", "https://h.example/v1"):
        settings.BEACON_LLM_BASE_URL = address
        profile = connections.llm_profile()
        times[address] = profile.timeout if profile else 0

    assert list(times.values()) == [300, 90]
