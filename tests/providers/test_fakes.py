"""The fakes that are shipped: they keep to the Protocols and remember what they were asked."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from beacon_site.net.errors import ProviderNonsense, ProviderRejected, ProviderUnavailable
from beacon_site.net.fetch import PageFetcher, WebPage
from beacon_site.providers.llm.base import LanguageModel, Message, Tool
from beacon_site.providers.search.base import SearchHit, SearchOptions, SearchProvider
from tests.providers.fakes import (
    FakeFetcher,
    FakeLanguageModel,
    FakeSearch,
    NoAnswerQueued,
)

ASK = [Message("user", "What?")]


class Plan(BaseModel):
    queries: list[str]


def test_they_are_what_the_protocols_ask():
    model: LanguageModel = FakeLanguageModel()
    search: SearchProvider = FakeSearch()
    fetcher: PageFetcher = FakeFetcher()

    assert (model.profile.model, search.service, fetcher.fetch.__name__) == (
        "fake",
        "fake",
        "fetch",
    )


def test_a_model_says_what_was_enqueued_and_remembers_the_question():
    model = FakeLanguageModel("one", {"queries": ["a"]})

    assert model.ask(ASK).text == "one"
    assert model.ask(ASK, schema=Plan).parsed == Plan(queries=["a"])
    assert [(asked.prompt, asked.schema) for asked in model.history] == [
        ("What?", None),
        ("What?", Plan),
    ]


def test_a_model_shows_its_text_in_growing_pieces():
    heard: list[str] = []
    FakeLanguageModel("one two three", pieces=3).ask(ASK, on_text=heard.append)

    assert heard == ["one t", "one two th", "one two three"]


def test_a_model_remembers_the_tools_that_it_was_offered():
    model = FakeLanguageModel("one")
    tool = Tool("weather", "Tells the weather.", {"type": "object"})
    model.ask(ASK, tools=[tool])

    assert model.history[0].tools == (tool,)


def test_a_model_that_is_told_nonsense_raises_it():
    model = FakeLanguageModel("no json", ProviderUnavailable("down"))

    with pytest.raises(ProviderNonsense):
        model.ask(ASK, schema=Plan)
    with pytest.raises(ProviderUnavailable):
        model.ask(ASK)


def test_a_model_with_nothing_to_say_is_a_mistake_of_the_test():
    with pytest.raises(NoAnswerQueued):
        FakeLanguageModel().ask(ASK)
    assert FakeLanguageModel(default="always").ask(ASK).text == "always"


def test_a_search_serves_a_list_to_every_query_or_a_list_for_each():
    every, each = FakeSearch(["https://a.example/"]), FakeSearch({"b": ["https://b.example/"]})

    assert every.search("x", SearchOptions()) == [
        SearchHit("https://a.example/", "https://a.example/", service="fake", rank=1)
    ]
    assert (each.search("x", SearchOptions()), len(each.search("b", SearchOptions()))) == ([], 1)
    assert each.asked == ["x", "b"]


def test_a_search_raises_what_is_enqueued_and_keeps_the_limit():
    search = FakeSearch([f"https://a.example/{n}" for n in range(9)])
    search.enqueue(ProviderUnavailable("down"), [])

    with pytest.raises(ProviderUnavailable):
        search.search("x", SearchOptions())
    assert search.search("x", SearchOptions()) == []
    assert len(search.search("x", SearchOptions(limit=4))) == 4


def test_a_fetcher_serves_texts_pages_and_failures():
    page = WebPage("https://b.example/", "https://b.example/", "B", "text")
    fetcher = FakeFetcher({"https://a.example/": "Title\n\nBody", "https://b.example/": page})

    assert fetcher.fetch("https://a.example/").title == "Title"
    assert fetcher.fetch("https://b.example/") is page
    with pytest.raises(ProviderRejected):
        fetcher.fetch("https://c.example/")
    assert len(fetcher.history) == 3
