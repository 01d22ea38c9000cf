"""What a topic remembers between runs: facts, seen URLs, sources, summary, expiry."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from beacon_site.text.canonical_urls import canonical_url, domain_of, is_in_domain
from memory.models import Revision, SeenUrl, Source, Topic, TopicFact
from memory.services import topic_memory
from memory.services.topic_memory import (
    FactChanges,
    FoundFact,
    KnownFact,
    ReturnedUrl,
    TopicMemory,
    agent_memory,
)

AT = datetime(2026, 10, 3, 12, tzinfo=UTC)


@pytest.fixture
def topic(alice: Any) -> Topic:
    made: Topic = Topic.objects.create_topic(owner=alice, title="C++", by=alice.actor)
    return made


def statement(n: int) -> str:
    return f"Statement number {n} says something that is long enough."


def keep(
    topic: Topic,
    facts: Sequence[str | FoundFact] | None = (),
    *,
    number: int = 1,
    returned: Sequence[ReturnedUrl] = (),
    summary: str = "What it says.",
) -> FactChanges:
    """Save as run `number` does, thirty days ahead."""
    found = None if facts is None else [FoundFact(f) if isinstance(f, str) else f for f in facts]
    at = timezone.now()
    return topic_memory.save(
        topic,
        number=number,
        source=f"run:{number}",
        facts=found,
        summary=summary,
        returned=returned,
        at=at,
        expires_at=at + timedelta(days=30),
    )


def texts(topic: Topic) -> list[str]:
    return [fact.text for fact in TopicFact.objects.filter(topic=topic).current()]


def urls(topic: Topic) -> list[str]:
    rows = SeenUrl.objects.filter(topic=topic).order_by("-returned_in", "place")
    return list(rows.values_list("url", flat=True))


# --- loading ---------------------------------------------------------------------------------------


@pytest.mark.requirement("R6")
def test_a_topic_that_never_ran_has_no_memory_and_that_isnt_a_failure(topic: Topic):
    assert topic_memory.load(topic) == topic_memory.LoadResult(memory=None, problem="")


@pytest.mark.requirement("R7", "R8")
def test_a_database_that_fails_is_distinguished_from_no_memory(topic: Topic):
    keep(topic, [statement(1)])
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE memory_topicfact RENAME TO elsewhere")

    loaded = topic_memory.load(topic)

    assert loaded.memory is None
    assert loaded.problem.startswith("memory not loaded: ")


@pytest.mark.requirement("R1")
def test_what_is_loaded_is_what_was_saved(topic: Topic):
    dated = FoundFact(statement(1), "https://a.example/1", "A page", "the quote", date(2026, 5, 4))
    keep(topic, [dated], returned=[ReturnedUrl("https://a.example/1", was_read=True)])
    Topic.objects.filter(pk=topic.pk).update(run_count=1, last_run_at=AT)

    memory = topic_memory.load(topic).memory

    assert memory is not None
    assert (memory.topic, memory.summary, memory.run_count) == ("C++", "What it says.", 1)
    assert (memory.last_run_at, memory.seen_count, memory.batch) == (AT, 1, 2)
    assert memory.facts[0].text == statement(1)
    assert memory.facts[0].published_at == date(2026, 5, 4)


@pytest.mark.requirement("R12")
def test_loading_writes_nothing(topic: Topic):
    keep(topic, [statement(1)])

    with CaptureQueriesContext(
        connection,
    ) as asked:
        topic_memory.load(topic)

    assert len(asked)
    assert all(q["sql"].startswith(("SELECT", "SAVEPOINT", "RELEASE")) for q in asked)


def test_a_memory_survives_its_step_as_json(topic: Topic):
    fact = KnownFact("1", statement(1), "https://a.example/", "A", date(2026, 1, 2), is_kept=True)
    memory = TopicMemory("C++", (fact,), ("struck",), "Sum.", AT, 3, 7, 2, ("struck",))

    assert TopicMemory.from_json(memory.as_json()) == memory


@pytest.mark.requirement("R34", "R35")
@pytest.mark.parametrize(("count", "words"), [(1, "1 earlier run,"), (2, "2 earlier runs,")])
def test_the_prompt_says_what_is_known_when_it_was_checked_and_what_not_to_ask(
    count: int, words: str
):
    fact = KnownFact("1", "A fact <b>that</b> is known & stands")
    memory = TopicMemory("C++", (fact,), ("A struck one",), "The summary.", AT, count, 1, 2)

    prompt = memory.as_prompt()

    assert words in prompt
    assert "last checked on 2026-10-03" in prompt
    assert "1. A fact <b>that</b> is known & stands" in prompt
    assert "The summary." in prompt
    assert "Do NOT research or report these again" in prompt
    assert prompt.index("do not repeat") < prompt.index("A struck one")


def test_what_is_both_struck_and_sensitive_is_told_to_no_model_and_still_not_repeated(topic: Topic):
    keep(topic, [statement(1), statement(2)])
    for fact in TopicFact.objects.filter(topic=topic):
        fact.strike(by=topic.owner.actor, why="wrong")
    TopicFact.objects.get(text=statement(1)).change(by=topic.owner.actor, sensitivity="sensitive")

    memory = topic_memory.load(topic).memory

    assert memory is not None
    assert statement(1) not in memory.as_prompt()
    assert statement(2) in memory.as_prompt()
    assert set(memory.struck) == {statement(1), statement(2)}


def test_a_lapsed_memory_is_kept_but_not_loaded_until_it_is_revived(topic: Topic):
    keep(topic, [statement(1)])
    topic.expire_now(by=topic.owner.actor)
    assert topic_memory.load(topic).memory is None
    assert texts(topic) == [statement(1)]

    topic.revive(by=topic.owner.actor, until=timezone.now() + timedelta(days=1))

    assert topic_memory.load(topic).memory is not None


# --- facts -----------------------------------------------------------------------------------------


@pytest.mark.requirement("R18")
def test_at_most_ten_facts_stand_and_the_first_named_win(topic: Topic):
    keep(topic, [statement(n) for n in range(14)])

    assert texts(topic) == [statement(n) for n in range(10)]


@pytest.mark.requirement("R22")
@pytest.mark.parametrize(
    ("text", "stays"),
    [
        ("Twenty characters ok", False),
        ("Twenty-one characters", True),
        ("固态电池量产了很好", False),
        ("固态电池今年量产了很好", True),
    ],
)
def test_facts_of_fewer_than_21_characters_are_left_out(topic: Topic, text: str, stays: bool):
    keep(topic, [text])

    assert texts(topic) == ([text] if stays else [])


@pytest.mark.requirement("R19", "R20")
def test_facts_are_replaced_by_each_run_and_the_old_ones_retired_with_its_number(topic: Topic):
    keep(topic, [statement(1), statement(2)])

    changes = keep(topic, [statement(2), statement(3)], number=2)

    assert texts(topic) == [statement(2), statement(3)]
    retired = TopicFact.objects.filter(topic=topic).retired().get()
    assert (retired.text, retired.retired_run, retired.first_run) == (statement(1), 2, 1)
    assert Revision.objects.filter(record_id=retired.pk).count() == 2
    assert [len(changes.new), len(changes.confirmed), len(changes.retired)] == [1, 1, 1]


def test_a_fact_that_is_named_again_in_other_writing_is_one_fact(topic: Topic):
    keep(topic, [statement(1), statement(1).upper(), f"- **{statement(1)}** [3]"])

    assert len(texts(topic)) == 1


def test_a_fact_that_remains_unconfirmed_keeps_its_date(topic: Topic):
    keep(topic, [statement(1)])
    before = TopicFact.objects.get(topic=topic)

    keep(topic, [FoundFact(statement(1), confirmed=False)], number=2)

    after = TopicFact.objects.get(topic=topic)
    assert (after.confirmed_run, after.confirmed_at) == (1, before.confirmed_at)


def test_facts_and_summary_stay_where_a_run_found_nothing_new(topic: Topic):
    keep(topic, [statement(1)])
    soon = Topic.objects.filter(pk=topic.pk)
    soon.update(expires_at=timezone.now() + timedelta(hours=1))

    keep(topic, None, number=2, summary="Another one.")

    topic.refresh_from_db()
    assert (texts(topic), topic.summary) == ([statement(1)], "What it says.")
    assert topic.expires_at is not None
    assert topic.expires_at - timezone.now() > timedelta(days=29)


def test_what_was_struck_is_not_stored_again(topic: Topic):
    keep(topic, [statement(1)])
    TopicFact.objects.get(topic=topic).strike(by=topic.owner.actor)

    keep(topic, [statement(1), statement(2)], number=2)

    assert texts(topic) == [statement(2)]


def test_what_people_keep_is_first_and_takes_at_most_eight_places(topic: Topic):
    for n in range(8):
        TopicFact.objects.add(topic, statement(n), by=topic.owner.actor)

    keep(topic, [statement(n) for n in range(20, 26)])

    assert texts(topic)[:8] == [statement(n) for n in range(8)]
    assert len(texts(topic)) == 10


def test_a_kept_fact_that_a_run_names_again_is_confirmed_in_its_place(topic: Topic):
    mine = TopicFact.objects.add(topic, statement(1), by=topic.owner.actor)

    changes = keep(topic, [statement(2), statement(1)], number=4)

    mine.refresh_from_db()
    assert (mine.confirmed_run, mine.position, mine.version) == (4, 1, 1)
    assert changes.confirmed == [mine]


def test_a_fact_known_before_is_never_created_again(topic: Topic):
    gone = FoundFact(statement(1), known_id="5d7fdc3e-0000-4000-8000-000000000000")

    keep(topic, [gone])

    assert texts(topic) == []


# --- seen URLs ---------------------------------------------------------------------------------------


def returned(*numbers: int, **more: Any) -> list[ReturnedUrl]:
    return [ReturnedUrl(f"https://s.example/{n}", **more) for n in numbers]


@pytest.mark.requirement("R13", "R14")
def test_each_returned_url_is_kept_once_the_latest_first(topic: Topic):
    keep(topic, returned=returned(1, 2, 2, 1))
    keep(topic, returned=returned(3, 1), number=2)

    assert urls(topic) == [f"https://s.example/{n}" for n in (3, 1, 2)]


@pytest.mark.requirement("R15", "R16")
def test_at_500_the_oldest_drop_out_and_the_new_ones_stay(topic: Topic):
    keep(topic, returned=returned(*range(500)))
    keep(topic, returned=returned(*range(1000, 1010), 0, 1), number=2)

    kept = urls(topic)

    assert len(kept) == 500
    assert kept[:12] == [f"https://s.example/{n}" for n in (*range(1000, 1010), 0, 1)]
    assert "https://s.example/499" not in kept
    assert "https://s.example/2" in kept


def test_a_run_with_more_than_500_urls_keeps_its_best(topic: Topic):
    keep(topic, returned=returned(*range(600)))

    assert urls(topic) == [f"https://s.example/{n}" for n in range(500)]


@pytest.mark.requirement("R14", "R17")
def test_spellings_of_one_address_are_one_seen_url(topic: Topic):
    spelled = [
        "https://Example.org/a/?utm_source=x",
        "HTTPS://example.org:443/a#part",
        "https://example.org/a?gclid=1&fbclid=2",
    ]
    keep(topic, returned=[ReturnedUrl(url) for url in spelled])

    assert urls(topic) == ["https://example.org/a"]


@pytest.mark.requirement("R17")
@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("https://a.example/b/", "https://a.example/b"),
        ("https://a.example", "https://a.example"),
        ("https://a.example/?b=2&a=1", "https://a.example?a=1&b=2"),
        ("http://a.example:80/%7Euser", "http://a.example/~user"),
        ("https://a.example/%e4%ba%ba", "https://a.example/%E4%BA%BA"),
        ("https://a.example/人", "https://a.example/%E4%BA%BA"),
        ("https://[2001:db8::1]/x", "https://[2001:db8::1]/x"),
        ("library:own/1#part", "library:own/1"),
        ("http://[half", "http://[half"),
        ("https://a.example:99999/", "https://a.example:99999/"),
    ],
)
def test_an_address_has_one_canonical_form(written: str, canonical: str):
    assert canonical_url(written) == canonical
    assert canonical_url(canonical) == canonical


def test_what_isnt_an_address_has_no_domain():
    assert domain_of("http://[half") == ""
    assert domain_of("https://www.a.example/") == "a.example"
    assert is_in_domain("https://blog.a.example/", "a.example")
    assert not is_in_domain("https://ba.example/", "a.example")


@pytest.mark.requirement("R49", "R59")
def test_the_ledger_counts_how_often_a_page_was_read_and_cited(topic: Topic):
    keep(topic, returned=returned(1, was_read=True, title="One"))
    keep(topic, returned=returned(1, was_read=True, was_cited=True) + returned(2), number=2)

    row = Source.objects.get(topic=topic)
    assert (row.times_read, row.times_cited, row.first_run, row.last_run) == (2, 1, 1, 2)
    assert (row.title, row.domain) == ("One", "s.example")


# --- the seed's JSON ---------------------------------------------------------------------------------


@pytest.mark.requirement("R1", "R2", "R27", "R237")
def test_the_seeds_json_has_six_fields_in_camel_case(topic: Topic):
    keep(topic, [statement(1)], returned=returned(2))
    Topic.objects.filter(pk=topic.pk).update(run_count=1, last_run_at=AT)
    topic.refresh_from_db()

    assert agent_memory(topic) == {
        "topic": "C++",
        "seenUrls": ["https://s.example/2"],
        "keyFacts": [statement(1)],
        "lastRunAt": "2026-10-03T12:00:00+00:00",
        "runCount": 1,
        "reportSummary": "What it says.",
    }


@pytest.mark.requirement("R3", "R5")
def test_topics_that_look_alike_to_a_slug_have_memories_of_their_own(topic: Topic):
    titles = ["C", "C#", "人工智能", "!!!", "🙂", "c"]
    alice = topic.owner
    made = [Topic.objects.create_topic(owner=alice, title=t, by=alice.actor) for t in titles[:5]]
    for n, one in enumerate([topic, *made]):
        keep(one, [statement(n)])

    assert len({one.slug for one in [topic, *made]}) == 6
    assert [texts(one) for one in [topic, *made]] == [[statement(n)] for n in range(6)]
    assert Topic.objects.titled(alice, "  c++ ") == topic
    assert Topic.objects.titled(alice, "C+") is None
