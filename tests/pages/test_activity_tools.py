"""Activity shows the tools that agents called."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memory.models import Section, TopicFact, User
from memory.services.files.saving import append_to
from research.pages import activity_streams
from tests.memory.tool_cast import call, caller
from tests.research.factories import make_run, make_topic

LIST = reverse("research:activity")


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


@pytest.mark.requirement("R235")
def test_a_tool_call_says_who_called_what_and_how_it_ended(browser: Client, alice: User):
    call(alice, "recall", query="batteries")
    call(alice, "retrieve", id="nothing")

    [missed, asked] = browser.get(LIST, {"kind": "tools"}).context["lines"]

    assert (asked.who, asked.said, asked.label) == (
        "the agent “claude”",
        "searched memory for “batteries”",
        "",
    )
    assert asked.noun == missed.noun == ""
    assert (asked.tool, asked.details) == ("recall", ["source: session:7"])
    assert missed.said == "called retrieve, but the call failed" and "not found" in missed.details
    acts = browser.get(LIST, {"kind": "acts"}).context["lines"]
    assert {line.said for line in acts}.isdisjoint({asked.said, missed.said})


def test_only_the_run_of_a_call_replaces_its_source(browser: Client, alice: User):
    run = make_run(make_topic(alice))
    call(alice, "recall", caller(alice, source=run.source), query="batteries")
    call(alice, "recall", query="cables")

    [of_session, of_run] = browser.get(LIST, {"kind": "tools"}).context["lines"]

    assert (of_run.run, of_run.details) == (run, [])
    assert (of_session.run, of_session.details) == (None, ["source: session:7"])


def test_a_download_names_the_tool(browser: Client, alice: User):
    call(alice, "recall", query="batteries")

    def downloaded(name: str) -> str:
        answer: Any = browser.get(reverse("research:activity-file", args=[name]), {"kind": "tools"})
        return b"".join(answer.streaming_content).decode()

    assert json.loads(downloaded("activity.jsonl"))["tool"] == "recall"
    names, values = csv.reader(downloaded("activity.csv").splitlines())
    assert dict(zip(names, values, strict=True))["tool"] == "recall"


def test_a_call_tells_its_tags_as_words_and_names_its_agent_once(browser: Client, alice: User):
    call(alice, "remember", content="The printer is upstairs.", tags=["office", "printer"])

    [line] = browser.get(LIST, {"kind": "tools"}).context["lines"]

    assert "tags: office, printer" in line.details
    told = {"tags": "office", "source": line.actor}
    assert activity_streams.of_detail(told, line.actor) == ["tags: office"]


def test_anothers_tool_calls_are_not_told(
    client_of: Callable[[User], Client], alice: User, bob: User
):
    call(alice, "recall", query="batteries")

    assert not client_of(bob).get(LIST, {"kind": "tools"}).context["lines"]


def test_a_call_leads_to_the_record_that_it_wrote(browser: Client, alice: User):
    answer = call(alice, "remember", content="The printer is upstairs.")

    [line] = browser.get(LIST, {"kind": "tools"}).context["lines"]

    note_id = answer.data["records"][0]["id"]
    assert line.url == reverse("memory:record-open", args=["note", note_id])


def test_what_was_read_is_linked_by_the_type_that_has_a_page(browser: Client, alice: User):
    fact = TopicFact.objects.create(owner=alice, topic=make_topic(alice), text="It rains.")
    append_to(alice, "episodes/2026-02.md", "## Tokyo\n- Findings: Zebra air", by=alice.actor)
    section = Section.objects.for_user(alice).get(content__contains="Zebra")

    call(alice, "retrieve", id=str(fact.pk))
    call(alice, "retrieve", id=str(section.pk))

    [of_section, of_fact] = browser.get(LIST, {"kind": "tools"}).context["lines"]
    assert of_fact.url == reverse("memory:record-open", args=["topicfact", fact.pk])
    assert of_section.url == ""
