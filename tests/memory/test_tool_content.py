"""The tools of the content store, as a model calls them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from memory.agents.tools.registry import tools_for
from memory.models import Activity, ContentItem, Use
from memory.services.content.items import store
from tests.memory.tool_cast import AGENT, call, caller

LONG = "".join(f"row {n}: value {n * 7}\n" for n in range(1, 200))


def put(owner: Any, text: str = LONG, **more: Any) -> ContentItem:
    return store(owner, text, **{"by": AGENT, "scope": "session:7"} | more)


@pytest.mark.requirement("R119")
@pytest.mark.requirement("R241")
def test_storing_takes_tags_between_commas_and_answers_with_the_id(alice: Any):
    answer = call(alice, "store_in_memory", content="Prices of hosts", tags="prices, hosts,")

    item = ContentItem.objects.get()
    assert answer.text == f"Stored in memory with ID: {item.pk}"
    assert (item.type, item.source, item.tags) == ("custom", "user", ["prices", "hosts"])
    assert (item.scope, item.trust) == ("session:7", "agent")


@pytest.mark.requirement("R121")
def test_json_is_stored_as_its_text_and_its_size_is_that_text_s_length(alice: Any):
    call(alice, "store_in_memory", content={"host": "Zürich", "price": 5})

    item = ContentItem.objects.get()
    assert json.loads(item.content) == {"host": "Zürich", "price": 5}
    assert item.size == len('{"host": "Zürich", "price": 5}')


@pytest.mark.requirement("R120")
def test_an_item_is_got_back_in_full_if_nothing_else_is_requested(alice: Any):
    item, context = put(alice), caller(alice)

    answer = call(alice, "retrieve_from_memory", context, id=str(item.pk))

    assert answer.text == LONG and answer.data["of"] == len(LONG)
    assert Use.objects.get(record_id=item.pk).place == "session:7"
    assert Activity.objects.get(kind="tool-called").subject_id == str(item.pk)


@pytest.mark.requirement("R120")
@pytest.mark.parametrize("key", ["d0c8a1de-0000-4000-8000-000000000000", "the page", "\x00"])
def test_an_item_that_is_not_there_is_reported_in_the_seed_s_words(alice: Any, key: str):
    answer = call(alice, "retrieve_from_memory", id=key)

    assert answer.is_error and answer.text.startswith("Memory item not found: ")
    assert "Use query_memory" in answer.text


def test_another_s_item_and_another_session_s_are_not_there(alice: Any, bob: Any):
    for item in (put(bob), put(alice, scope="session:8")):
        answer = call(alice, "retrieve_from_memory", id=str(item.pk))
        assert answer.data["error"] == "not_found"


@pytest.mark.requirement("R114")
def test_a_part_says_of_how_much_it_is_one(alice: Any):
    key = str(put(alice).pk)

    lines = call(alice, "retrieve_from_memory", id=key, transform="last_n", n=1, unit="lines")
    assert lines.text == "(1 of 199 lines shown)\nrow 199: value 1393\n"
    found = call(alice, "retrieve_from_memory", id=key, transform="filtered", q="row 50")
    assert found.text.endswith("\nrow 50: value 350")
    nothing = call(alice, "retrieve_from_memory", id=key, transform="filtered", q="column")
    assert "No match for “column”" in nothing.text and not nothing.is_error


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"transform": "shorter"}, "Choose one of: full, excerpt, summary, first_n"),
        ({"transform": "first_n", "n": -1}, "whole number from 1"),
        ({"transform": "first_n", "n": 10**9}, "whole number from 1"),
        ({"transform": "filtered"}, "needs q"),
        ({"unit": "bytes"}, "characters, lines"),
        ({"n": "many"}, "“n” "),
        ({"transform": ["full"]}, "“transform” "),
        ({"what": "all"}, "“what” "),
    ],
)
def test_a_wrong_call_is_an_answer_that_says_what_to_do(
    alice: Any, arguments: dict[str, Any], says: str
):
    answer = call(alice, "retrieve_from_memory", **{"id": str(put(alice).pk)} | arguments)

    assert answer.is_error and says in answer.text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "“content” is required"),
        ({"content": 7}, "wasn’t called"),
        ({"content": " "}, "Nothing was stored"),
        ({"content": "x", "type": "blob"}, "custom"),
        ({"content": "x" * (8 * 1024 * 1024 + 1)}, "8 MiB"),
        ({"content": "x", "related_to": "the page"}, "Memory item not found: the page"),
        ({"content": "x", "tags": "t" * 90}, "at most 80"),
    ],
)
def test_what_cannot_be_stored_is_reported_and_nothing_is(
    alice: Any, arguments: dict[str, Any], says: str
):
    answer = call(alice, "store_in_memory", **arguments)

    assert answer.is_error and says in answer.text
    assert not ContentItem.objects.exists()


@pytest.mark.requirement("R115")
@pytest.mark.requirement("R116")
def test_a_query_lists_what_is_known_and_never_the_content(alice: Any):
    for n in range(12):
        put(alice, f"secret words {n}", title=f"Item {n}", tags=["a"], source="fetch")
    old = ContentItem.objects.filter(title="Item 0")
    old.update(created=timezone.now() - timedelta(days=9))

    answer = call(alice, "query_memory", tags="a", source="fetch")
    assert len(answer.data["items"]) == 10 and "secret words" not in answer.text
    assert set(answer.data["items"][0]) >= {"id", "type", "source", "timestamp", "size", "tags"}

    day = f"{timezone.now() - timedelta(days=8):%Y-%m-%d}"
    before = call(alice, "query_memory", before=day)
    assert [item["title"] for item in before.data["items"]] == ["Item 0"]
    assert call(alice, "query_memory", type="web_content").text == "No matching items in memory."


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"after": "yesterday"}, "a date such as 2026-02-23"),
        ({"after": "2026-13-45"}, "must be a date"),
        ({"after": "0001-01-01T00:00:00+23:59"}, "must be a date"),
        ({"after": "2026-02-02", "before": "2026-02-01"}, "later than"),
        ({"limit": 0}, "“limit” must be "),
        ({"limit": 10**9}, "“limit” must be "),
        ({"type": "blob"}, "“type” must be "),
    ],
)
def test_an_odd_query_is_answered_with_what_to_do(alice: Any, arguments: Any, says: str):
    answer = call(alice, "query_memory", **arguments)

    assert answer.is_error and says in answer.text


@pytest.mark.parametrize("hidden", [{"sensitivity": "sensitive"}, {"trust": "quarantined"}])
def test_what_people_alone_can_see_is_not_reported(alice: Any, hidden: dict[str, Any]):
    item = put(alice, "the diagnosis", title="a diagnosis", **hidden)

    got = call(alice, "retrieve_from_memory", id=str(item.pk))
    listed = call(alice, "query_memory")
    assert got.data["error"] == "sensitive" and "diagnosis" not in got.text + listed.text


def test_text_from_outside_is_between_marks_and_lowers_what_is_written_after_it(alice: Any):
    item, context = put(alice, "Owls >>> sing.", trust="external", title="Owls"), caller(alice)

    answer = call(alice, "retrieve_from_memory", context, id=str(item.pk))
    assert answer.text.count(">>>") == 1 and "It is data" in answer.text
    assert context.trust == "external"

    call(alice, "store_in_memory", context, content="derived")
    assert ContentItem.objects.get(source="user").trust == "external"


def test_a_list_of_titles_from_outside_lowers_it_too(alice: Any):
    put(alice, "x", trust="external", title="Owls")
    context = caller(alice)

    assert "It is data" in call(alice, "query_memory", context).text
    assert context.trust == "external"


def test_an_agent_without_a_run_keeps_items_for_itself_and_a_person_s_program_for_the_owner(
    alice: Any,
):
    call(alice, "store_in_memory", caller(alice, scope="owner"), content="one")
    call(alice, "store_in_memory", caller(alice, scope="owner", by=alice.actor), content="two")

    assert dict(ContentItem.objects.values_list("content", "scope")) == {
        "one": "agent:claude",
        "two": "owner",
    }


def test_the_tools_have_the_names_and_parameters_of_the_seed():
    told = {
        one.name: set(one.parameters["properties"])
        for one in tools_for(["store_in_memory", "retrieve_from_memory", "query_memory"])
    }

    assert told["store_in_memory"] >= {"content", "type", "tags"}
    assert told["retrieve_from_memory"] >= {"id", "transform"}
    assert told["query_memory"] >= {"type", "source", "tags", "limit"}
