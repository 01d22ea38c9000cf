"""Facts over time: rows of questions, blocks of answers, the date line, and a fact's history both ways."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pgtrigger
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from beacon_site.text.cleaning import match_key
from memory.models import Conflict, Observation, Revision, Topic, TopicFact, Use, User
from memory.models.as_of import at
from memory.services.review import conflicts
from memory.services.topic_memory import FoundFact, replace_facts
from research.models import Run
from research.services.reports import facts_over_time
from research.services.reports.compare import choices_of
from research.services.reports.facts_over_time import Question, over_time
from tests.research.factories import (
    make_fact,
    make_hit,
    make_item,
    make_report,
    make_run,
    make_topic,
)

OLD = "The newest minor releases are 16.4, 15.8 and 14.13."
NEW = "The newest minor releases are 17.6, 16.10 and 15.14."
OTHER = "Asynchronous I/O came with version 18 of PostgreSQL."


@pytest.fixture
def topic(alice: User) -> Topic:
    return make_topic(alice)


@pytest.fixture
def browser(alice: User, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


def ran(topic: Topic, days: int) -> Run:
    """Return a saved run of so many days ago."""
    at = timezone.now() - timedelta(days=days)
    run = make_run(topic)
    make_report(run)
    Run.objects.filter(pk=run.pk).update(finished_at=at, created=at)
    run.refresh_from_db()
    return run


def aged(days: int) -> None:
    """Make the changes of the last seconds so many days older."""
    at = timezone.now() - timedelta(days=days)
    fresh = timezone.now() - timedelta(minutes=5)
    with pgtrigger.ignore("memory.Revision:append_only"):
        Revision.objects.filter(created__gt=fresh).update(created=at)
    TopicFact.objects.filter(created__gt=fresh).update(created=at)


def found(topic: Topic, run: Run, *facts: FoundFact) -> list[TopicFact]:
    changes = replace_facts(
        topic, facts, number=run.number or 0, source=run.source, at=timezone.now()
    )
    return changes.new


@pytest.fixture
def facts(topic: Topic) -> list[TopicFact]:
    """Run #1 finds a fact that Run #2 replaces, and Run #3 finds another one."""
    first = ran(topic, 30)
    (old,) = found(topic, first, FoundFact(OLD))
    aged(30)
    (new,) = found(topic, ran(topic, 20), FoundFact(NEW, replaces=str(old.pk)))
    aged(20)
    third = ran(topic, 5)
    known = FoundFact(NEW, known_id=str(new.pk))
    (other,) = found(topic, third, known, FoundFact(OTHER))
    aged(5)
    return [old, new, other]


def shown(topic: Topic, until: Any = None, page: int = 1) -> dict[str, Any]:
    return over_time(topic, choices_of(topic), until, page=page)


def row_of(page: dict[str, Any], fact: TopicFact) -> Question:
    return next(one for one in page["questions"] if one.chain == fact.chain)


def address(topic: Topic, query: str = "") -> str:
    return reverse("research:topic-facts", args=[topic.slug]) + query


def day(days: int) -> str:
    return f"{timezone.localtime(timezone.now() - timedelta(days=days)):%Y-%m-%d}"


@pytest.mark.requirement("R260")
def test_answers_that_replace_one_another_share_a_row(topic: Topic, facts: list[TopicFact]) -> None:
    old, new, other = facts
    old.refresh_from_db()
    assert old.chain == new.chain != other.chain

    page = shown(topic)
    row = row_of(page, new)

    assert [(one.text, one.start, one.end, one.kind) for one in row.blocks] == [
        (OLD, 0, 2, "past"),
        (NEW, 2, 6, "now"),
    ]
    assert row.name == "Newest minor releases"
    assert [one.label for one in row.blocks] == ["16.4, 15.8 and 14.13", "17.6, 16.10 and 15.14"]
    assert [(one.start, one.end) for one in row_of(page, other).blocks] == [(4, 6)]


def test_a_conflict_decided_for_the_newer_fact_is_a_succession(
    alice: User, topic: Topic, browser: Client
) -> None:
    (old,) = found(topic, ran(topic, 30), FoundFact(OLD))
    aged(30)
    (new,) = found(topic, ran(topic, 20), FoundFact(OLD, known_id=str(old.pk)), FoundFact(NEW))
    aged(20)
    pair = Conflict.objects.note(alice, "contradiction", old, new, reason="version")
    assert pair is not None
    conflicts.resolve(pair, "right", by=alice.actor)
    ran(topic, 1)

    old.refresh_from_db()
    row = row_of(shown(topic), old)
    blocks = [(one.text, one.start, one.end, one.kind) for one in row.blocks]
    assert blocks == [(OLD, 0, 5, "past"), (NEW, 2, 6, "now")]
    page = browser.get(address(topic), {"as_of": day(10)}).content.decode()
    assert OLD in page and NEW in page
    with at(alice, timezone.now() - timedelta(days=10)):
        told = set(TopicFact.objects.filter(topic=topic).current().values_list("chain", "text"))
        assert {text for _chain, text in told} == {OLD, NEW}
        assert len({chain for chain, _text in told}) == 2
    assert [one.text for one in TopicFact.objects.filter(topic=topic).current()] == [NEW]

    conflicts.undo_change(pair, by=alice.actor)
    assert [len(row_of(shown(topic), one).blocks) for one in facts_now(topic)] == [2, 1]


def facts_now(topic: Topic) -> list[TopicFact]:
    return list(TopicFact.objects.filter(topic=topic).current().order_by("created"))


def test_a_label_is_the_value_or_the_whole_answer() -> None:
    with_title = "Suppliers: Helios GmbH sells panels for 210 euros."
    known = [with_title, "Helios GmbH sells panels for 189 euros."]
    shared = facts_over_time._shared(known)
    assert [facts_over_time._label(one, shared, "") for one in known] == ["210", "189"]

    rewritten = [
        "PostgreSQL 12 is scheduled to reach its end of life on 14 November 2024, after its release.",
        "PostgreSQL 12 reached its end of life on 21 November 2024, with 12.22 as its last minor.",
    ]
    shared = facts_over_time._shared(rewritten)
    assert [facts_over_time._label(one, shared, "") for one in rewritten] == [
        one.rstrip(".") for one in rewritten
    ]


def test_a_row_is_named_as_in_its_table_and_shows_all_values_that_differ() -> None:
    texts = [
        "Single tickets, Hallen – Norderstad: Adult €8.00; Child €3.90",
        "Single tickets, Hallen – Norderstad: Adult €7.90; Child €3.80",
    ]
    shared = facts_over_time._shared(texts)
    name = facts_over_time._name(texts[0], shared)

    assert name == "Single tickets, Hallen – Norderstad"
    assert [facts_over_time._label(text, shared, name) for text in texts] == [
        "Adult €8.00; Child €3.90",
        "Adult €7.90; Child €3.80",
    ]


def test_every_line_fills_the_same_columns(topic: Topic, facts: list[TopicFact]) -> None:
    page = shown(topic)
    for question in page["questions"]:
        for line in question.lines:
            assert sum(span for span, _block in line) == page["columns"]


def test_answers_at_the_same_time_need_two_lines(topic: Topic, facts: list[TopicFact]) -> None:
    facts[0].refresh_from_db()
    facts[0].unstrike(by=topic.owner.actor)
    assert len(row_of(shown(topic), facts[1]).lines) == 2


def test_an_edit_by_a_person_is_a_new_block(topic: Topic, facts: list[TopicFact]) -> None:
    facts[2].edit("Asynchronous I/O came with version 18.0 of PostgreSQL.", by=topic.owner.actor)
    ran(topic, 0)
    blocks = row_of(shown(topic), facts[2]).blocks
    assert [(one.start, one.end) for one in blocks] == [(4, 5), (5, 8)]


def test_a_struck_fact_is_shown_as_wrong(topic: Topic, facts: list[TopicFact]) -> None:
    facts[2].strike(by=topic.owner.actor)
    ran(topic, 0)
    assert [one.kind for one in row_of(shown(topic), facts[2]).blocks] == ["past", "struck"]


def test_the_page_at_a_date(browser: Client, topic: Topic, facts: list[TopicFact]) -> None:
    text = browser.get(address(topic, f"?as_of={day(25)}")).content.decode()
    assert re.search(r"<output[^>]*>Known on [^<]*, after Run #1<", text)
    assert "1 current fact<" in text and "2 added later" in text
    assert text.count('class="later"') >= 2
    panel = text.partition('class="sheet fact-panel"')[2]
    assert OLD in panel and "Back to current view" in panel
    assert "fact-strike" not in panel

    later = browser.get(address(topic, f"?as_of={day(25)}&fact={facts[2].pk}")).content.decode()
    assert "wasn’t known yet" in later


def test_the_list_at_a_date(browser: Client, topic: Topic, facts: list[TopicFact]) -> None:
    text = browser.get(address(topic, f"?view=list&as_of={day(25)}")).content.decode()
    assert OLD in text and NEW not in text and OTHER not in text
    assert 'id="add-fact"' not in text and "fact-edit" not in text
    now = browser.get(address(topic, "?view=list")).content.decode()
    assert NEW in now and OTHER in now and 'id="add-fact"' in now


def test_the_date_line_works_without_a_script(
    browser: Client, topic: Topic, facts: list[TopicFact]
) -> None:
    told = browser.get(address(topic, "?slot=1&fact=1"))
    assert told.status_code == 302
    text = browser.get(told["Location"]).content.decode()
    assert "after Run #1" in text and 'value="1"' in text
    now = browser.get(address(topic, f"?slot=3&as_of={day(25)}"))
    assert "as_of" not in now["Location"]
    for slot in ("99999999999", "-1", "x", "", "0"):
        assert browser.get(address(topic, f"?slot={slot}"), follow=True).status_code == 200


def test_search_and_context_can_follow_the_date(
    browser: Client, topic: Topic, facts: list[TopicFact]
) -> None:
    then = browser.get(address(topic, f"?as_of={day(25)}")).content.decode()
    assert f'href="/memory/?as_of={day(25)}"' in then
    assert f'href="/agents/?as_of={day(25)}"' in then
    assert "?as_of=" not in browser.get(address(topic)).content.decode().partition("<main")[2]


def test_one_run_is_a_list(browser: Client, topic: Topic) -> None:
    found(topic, ran(topic, 3), FoundFact(OLD))
    text = browser.get(address(topic)).content.decode()
    assert 'id="add-fact"' in text and 'id="over-time"' not in text


@pytest.mark.parametrize(
    "query", ["?page=999", "?page=x", "?fact=x", "?fact=%00", "?view=lanes&page=-3"]
)
def test_bad_parameters_are_harmless(
    browser: Client, topic: Topic, facts: list[TopicFact], query: str
) -> None:
    assert browser.get(address(topic, query)).status_code == 200


def test_a_question_is_renamed_and_keeps_its_name(
    browser: Client, topic: Topic, facts: list[TopicFact]
) -> None:
    url = reverse("research:fact-question", args=[topic.slug, facts[1].pk])
    browser.post(url, {"question": "Which minor releases are the newest?"})
    assert row_of(shown(topic), facts[1]).name == "Which minor releases are the newest?"
    newer = "The newest minor releases are 18.1, 17.7 and 16.11."
    (newest,) = found(
        topic, ran(topic, 0), FoundFact(newer, replaces=str(facts[1].pk)), FoundFact(OTHER)
    )
    assert newest.chain == facts[1].chain
    assert row_of(shown(topic), newest).name == "Which minor releases are the newest?"


def test_strangers_see_none_of_it(
    client_of: Callable[[Any], Client], bob: User, topic: Topic, facts: list[TopicFact]
) -> None:
    stranger = client_of(bob)
    history = reverse("research:fact-history", args=[topic.slug, facts[0].pk])
    rename = reverse("research:fact-question", args=[topic.slug, facts[0].pk])
    assert stranger.get(address(topic)).status_code == 404
    assert stranger.get(address(topic, f"?as_of={day(25)}")).status_code == 404
    assert stranger.get(history).status_code == 404
    assert stranger.post(rename, {"question": "Mine"}).status_code == 404
    other = make_topic(bob, "Bob's topic")
    for days in (9, 3):
        ran(other, days)
    text = stranger.get(address(other, f"?fact={facts[0].pk}")).content.decode()
    assert OLD not in text


@pytest.mark.requirement("R261")
def test_a_history_leads_from_the_page_to_the_prompts(
    browser: Client, alice: User, topic: Topic
) -> None:
    first = ran(topic, 10)
    make_hit(first, 1, cited_as=1)
    fact = make_fact(topic, OTHER, first, url="https://example.org/1", quote="came with version 18")
    second = ran(topic, 2)
    make_item(second, "confirmed", OTHER, previous_fact=fact, previous_text=OTHER)
    Use.note(alice, [("topicfact", fact.pk)], second.source)
    Observation.objects.create(
        owner=alice, topic=topic, content=OTHER, category="finding", digest="1"
    )
    text = browser.get(
        reverse("research:fact-history", args=[topic.slug, fact.pk])
    ).content.decode()
    wanted = [
        "came with version 18", "example.org", "PostgreSQL 18", "Run #1", "Created",
        "Where this fact was used", "used this fact in a prompt", "Report for Run #2", "Observation",
    ]  # fmt: skip
    places = [text.index(words) for words in wanted]
    assert text.index("Where this fact was used") < text.index("Report for Run #2")
    assert len(places) == len(wanted)
    assert "1 prompt or answer" in text  # shown before it is marked as wrong


def test_true_from_and_until_are_edited_by_a_person(
    browser: Client, topic: Topic, facts: list[TopicFact]
) -> None:
    fact = facts[2]
    url = reverse("research:fact-edit", args=[topic.slug, fact.pk])
    data = {"text": OTHER, "url": "", "version": fact.version}
    wrong = browser.post(url, data | {"true_from": "2026-03-01", "true_until": "2026-02-01"})
    assert "before “True from”" in wrong.content.decode()
    browser.post(url, data | {"true_from": "25 Sep 2025", "true_until": ""})
    fact.refresh_from_db()
    assert (fact.true_from, fact.true_until) == (date(2025, 9, 25), None)
    assert "25 Sep 2025" in browser.get(address(topic, f"?fact={fact.pk}")).content.decode()
    browser.post(url, data | {"version": fact.version})  # a form without the dates keeps them
    fact.refresh_from_db()
    assert fact.true_from == date(2025, 9, 25)


def test_the_number_of_queries_doesnt_grow(browser: Client, topic: Topic, alice: User) -> None:
    """With 5,000 facts and 200 runs as with a few."""

    def queries(query: str = "") -> int:
        with CaptureQueriesContext(
            connection,
        ) as told:
            assert browser.get(address(topic, query)).status_code == 200
        return len(told)

    runs = [ran(topic, 300 - number) for number in range(3)]
    make_fact(topic, OTHER, runs[0])
    browser.get(address(topic))
    few, few_then = queries(), queries(f"?as_of={day(2)}")
    assert few <= 14
    for _number in range(197):
        run = make_run(topic)
        make_report(run)
    TopicFact.objects.bulk_create(
        TopicFact(
            owner=alice, topic=topic, text=f"{OTHER} {number}", key=match_key(f"{OTHER} {number}"),
            first_run=1 + number % 200, state="retired", retired_run=1 + number % 200 + 1,
        )
        for number in range(5_000)
    )  # fmt: skip
    assert queries() <= few + 2
    assert queries(f"?as_of={day(2)}") <= few_then + 2
    assert len(shown(topic)["questions"]) == 40
    assert shown(topic)["pages"] == 126


@pytest.mark.requirement("R18", "R20")
def test_a_fact_that_ten_others_outranked_is_not_called_replaced(
    topic: Topic, browser: Client
) -> None:
    (old,) = found(topic, ran(topic, 30), FoundFact(OLD))
    aged(30)
    (gone,) = found(topic, ran(topic, 20), FoundFact(OTHER), FoundFact(OLD, known_id=str(old.pk)))
    aged(20)
    ten = [FoundFact(f"The release notes name change number {n}.") for n in range(10)]
    found(topic, ran(topic, 10), *ten, FoundFact(OLD, known_id=str(old.pk)))

    url = reverse("research:topic-facts", args=[topic.slug])
    lanes = over_time(topic, choices_of(topic), None, page=1)
    kinds = {block.text: block.kind for one in lanes["questions"] for block in one.blocks}
    assert (kinds[OLD], kinds[OTHER]) == ("outranked", "gone")
    page = browser.get(url, {"fact": old.pk}).content.decode()
    assert '<span class="tag">not in the top 10</span>' in page
    assert "then not in the top 10." in page
    listed = browser.get(url, {"view": "list"}).content.decode()
    assert "Not in the top 10 since Run #3" in listed and "Not found since Run #3" in listed
    assert "Replaced in Run" not in listed
    history = browser.get(reverse("research:fact-history", args=[topic.slug, old.pk]))
    assert "this one ranked lower" in history.content.decode()

    gone.refresh_from_db()
    gone.unstrike(by=topic.owner.actor)
    assert (gone.retired_as, gone.state_words) == ("", "current")
