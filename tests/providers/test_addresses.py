"""The rule for URLs that an operator enters."""

from __future__ import annotations

import pytest

from beacon_site.net.address_guard import problem_of, surplus_in
from beacon_site.net.errors import ProviderRejected, ServiceRefused
from beacon_site.providers.llm import endpoints
from beacon_site.providers.llm.base import LlmProfile, Message
from beacon_site.providers.llm.endpoints import complaint_about
from beacon_site.providers.llm.openai_model import OpenAIModel
from beacon_site.providers.search.answers import endpoint
from memory.pages.connections.forms import BaseUrlField

WRONG = [
    ("localhost:1", "starts with http"),
    ("ftp://box", "starts with http"),
    ("http:box", "starts with http"),
    ("http://", "has no host name"),
    ("http://[::1", "isn’t valid"),
    ("http://box:port", "isn’t valid"),
    ("http://b ox", "a space"),
    ("http://box/\u202e", "invisible character"),
    ("http://me:secretword@box", "username and password"),
    ("http://a..b", "isn’t a valid host name"),
    ("http://ä..b/v1", "isn’t a valid host name"),
    ("http://-ä-.de/v1", "isn’t a valid host name"),
    (f"http://{'x' * 64}.example", "isn’t a valid host name"),
]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8888",
        "http://[::1]:11434/v1",
        "HTTPS://räksmörgås.example/a",
        "http://my_box.local.",
        "https://res.openai.azure.com?api-version=1",
    ],
)
def test_an_address_that_can_be_asked_has_no_problem(url):
    assert problem_of(url) == ""


@pytest.mark.parametrize(("url", "words"), WRONG)
def test_what_is_wrong_with_an_address_is_reported_and_it_is_not_repeated(url, words):
    assert words in problem_of(url)
    assert "secretword" not in problem_of(url)


@pytest.mark.parametrize(("url", "words"), WRONG)
def test_forms_services_and_models_judge_alike(url, words):
    assert words in complaint_about(url)
    with pytest.raises(ServiceRefused, match=words):
        endpoint("SearXNG", url, "/search")
    with pytest.raises(Exception, match=words):
        BaseUrlField().clean(url)


def test_a_query_is_too_much_where_beacon_adds_its_own():
    assert "?" in surplus_in("http://box/?key=1") and surplus_in("http://box/v1") == ""


@pytest.mark.parametrize("is_judged", [True, False])
def test_a_host_that_no_client_takes_is_a_rejected_model_and_no_crash(monkeypatch, is_judged):
    if not is_judged:
        monkeypatch.setattr(endpoints, "problem_of", lambda _url: "")

    with pytest.raises(ProviderRejected, match=r"isn’t valid|isn’t a valid model URL"):
        OpenAIModel(LlmProfile("http://ä..b/v1", "m")).ask([Message("user", "Hello?")])
