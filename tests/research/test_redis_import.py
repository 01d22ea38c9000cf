"""`manage.py import_redis`: topics from the keys of another Redis, a real one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from django.core.management import CommandError, call_command
from django.test import Client

from memory.models import SeenUrl, Topic, TopicFact, User

KEY = "beacon:memory:ai-agents"
MEMORY: dict[str, Any] = {
    "topic": "AI agents",
    "seenUrls": ["https://example.org/a", "https://example.org/b"],
    "keyFacts": ["Agents were given long-term memory.", "Two makers joined their protocols."],
    "lastRunAt": "2026-02-26T08:00:00.000Z",
    "runCount": 7,
    "reportSummary": "Agents remember more than they did.",
}


@pytest.fixture
def server(settings: Any) -> Iterator[redis.Redis]:
    """The tests' own Redis, in one of whose last databases the other one's keys lie."""
    address, _slash, mine = settings.REDIS_URL.rpartition("/")
    url = f"{address}/{60 + int(mine)}"  # each process of the tests has its own
    settings.OTHER_REDIS = url
    with redis.Redis.from_url(url) as opened:
        yield opened
        opened.delete(*opened.keys("beacon:memory:*") or ["none"])


def put(server: redis.Redis, key: str = KEY, **changed: Any) -> None:
    server.set(key, json.dumps(MEMORY | changed), ex=3600)


def imported(settings: Any, *options: str) -> None:
    call_command("import_redis", settings.OTHER_REDIS, *options)


def test_a_key_becomes_a_topic_with_all_that_it_held(
    alice: User, server: redis.Redis, settings: Any, capsys: Any
) -> None:
    put(server)

    imported(settings)

    topic = Topic.objects.get(owner=alice)
    facts = TopicFact.objects.filter(topic=topic).current()
    assert (topic.slug, topic.run_count, topic.summary) == (
        "ai-agents", 7, MEMORY["reportSummary"],
    )  # fmt: skip
    assert topic.last_run_at
    assert topic.last_run_at.isoformat() == "2026-02-26T08:00:00+00:00"
    assert [fact.text for fact in facts] == MEMORY["keyFacts"]
    assert {fact.trust for fact in facts} == {"external"}
    assert SeenUrl.objects.filter(topic=topic).count() == 2
    assert "1 imported, 0 skipped, 0 rejected" in capsys.readouterr().out


def test_its_memory_lives_as_long_as_the_key_would_have(
    alice: User, server: redis.Redis, settings: Any
) -> None:
    put(server)

    imported(settings)

    topic = Topic.objects.get(owner=alice)
    assert topic.expires_at
    assert topic.memory_is_live()
    left = topic.expires_at - topic.created
    assert 3500 < left.total_seconds() < 3700


def test_its_page_reports_what_came_along(
    alice: User, server: redis.Redis, settings: Any, client_of: Callable[[User], Client]
) -> None:
    put(server)
    imported(settings)

    page = client_of(alice).get("/topics/ai-agents/")
    stored = client_of(alice).get("/topics/ai-agents/memory/").content.decode()

    assert page.status_code == 200
    assert "Two makers joined their protocols." in stored


def test_a_topic_that_is_here_already_stays_as_it_is(
    alice: User, server: redis.Redis, settings: Any, capsys: Any
) -> None:
    put(server)
    imported(settings)
    put(server, reportSummary="Another one.")

    imported(settings)

    assert Topic.objects.get(owner=alice).summary == MEMORY["reportSummary"]
    assert "left unchanged" in capsys.readouterr().out


def test_a_trial_stores_nothing_and_says_so(
    alice: User, server: redis.Redis, settings: Any, capsys: Any
) -> None:
    put(server)

    imported(settings, "--dry-run")

    assert not Topic.objects.exists()
    said = capsys.readouterr().out
    assert "facts: 2, seen URLs: 2, runs: 7" in said
    assert "Nothing was saved" in said


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ("{no json", "The value isn’t valid JSON"),
        ("[" * 20_000, "The value isn’t valid JSON"),
        ("[]", "JSON: Input should be"),
        (json.dumps(MEMORY | {"seenUrls": "https://x.org"}), "seenUrls: Input should be a valid"),
        (json.dumps(MEMORY | {"keyFacts": [7]}), "keyFacts.0: Input should be a valid string"),
        (json.dumps(MEMORY | {"runCount": "7"}), "runCount: Input should be a valid integer"),
        (json.dumps(MEMORY | {"runCount": -1}), "runCount: Input should be greater than"),
        (json.dumps(MEMORY | {"lastRunAt": "2026-13-01T00:00:00Z"}), "isn’t a valid time"),
        (json.dumps(MEMORY | {"lastRunAt": "yesterday"}), "isn’t a valid time"),
        (json.dumps(MEMORY | {"topic": "x" * 501}), "at most 500 characters"),
        (json.dumps(MEMORY | {"topic": "\u200b "}), "Enter a topic"),
        (" " * (4 * 1024 * 1024 + 1), "the limit is 4,194,304"),
    ],
)
def test_a_key_that_cannot_be_taken_is_reported_and_the_others_continue(
    alice: User, server: redis.Redis, settings: Any, capsys: Any, held: str, said: str
) -> None:
    server.set("beacon:memory:0-bad", held)
    put(server)

    with pytest.raises(CommandError, match="1 imported, 0 skipped, 1 rejected"):
        imported(settings)

    assert said in capsys.readouterr().err
    assert Topic.objects.get(owner=alice).title == "AI agents"


def test_a_key_of_another_type_is_reported(
    alice: User, server: redis.Redis, settings: Any, capsys: Any
) -> None:
    server.rpush(KEY, "a")

    with pytest.raises(CommandError, match="1 rejected"):
        imported(settings)

    assert "The value is a list, not a string" in capsys.readouterr().err


def test_what_does_not_fit_is_left_out_and_counted(
    alice: User, server: redis.Redis, settings: Any, capsys: Any
) -> None:
    facts = [f"The plant made {n} million cells this year." for n in range(12)]
    put(server, keyFacts=[*facts, "short", "x" * 1001], seenUrls=["https://e.org", "javascript:1"])

    imported(settings)

    assert TopicFact.objects.current().count() == 10
    said = capsys.readouterr().out
    assert "1 fact is longer than 1000 characters" in said
    assert "1 fact is shorter than 21 characters" in said
    assert "2 facts too many for the limit of 10" in said
    assert "1 URL isn’t valid" in said


def test_a_server_that_does_not_answer_is_reported_without_its_password(alice: User) -> None:
    with pytest.raises(
        CommandError, match=r"The Redis server at 127\.0\.0\.1 isn’t responding"
    ) as told:
        call_command("import_redis", "redis://:secret@127.0.0.1:1/0")

    assert "secret" not in str(told.value)


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "nonsense", "redis://127.0.0.1:port/0"])
def test_what_isnt_an_address_of_a_redis_is_reported(alice: User, url: str) -> None:
    with pytest.raises(CommandError, match="isn’t responding"):
        call_command("import_redis", url)


def test_with_several_accounts_it_is_to_be_said_whose(
    alice: User, bob: User, server: redis.Redis, settings: Any
) -> None:
    put(server)
    with pytest.raises(CommandError, match="--user"):
        imported(settings)

    imported(settings, "--user", "bob")

    assert Topic.objects.get().owner == bob
