"""Topics: their names, their memory's life, the archive and the trash."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from django.db import connection
from django.utils import timezone

from beacon_site.text.cleaning import slug_of
from memory.models import Revision, Topic, User
from memory.models.actors import RESEARCH
from memory.models.errors import InvalidValue
from memory.models.topics import TITLE_LENGTH
from tests.research.factories import make_fact, make_topic


@pytest.mark.parametrize("title", ["", "   ", "\x00", "x" * 501])
def test_a_title_that_cannot_be_is_refused_with_what_to_do(alice: User, title: str):
    with pytest.raises(InvalidValue) as refused:
        make_topic(alice, title)

    assert refused.value.errors["title"]
    assert Topic.objects.count() == 0


@pytest.mark.requirement("R5")
@pytest.mark.parametrize(
    "titles",
    [("C", "C++", "C#"), ("人工智能", "机器学习"), ("إيران", "مصر"), ("🚀", "🛰"), ("!!!", "???")],
)
def test_titles_that_the_seeds_rule_would_map_to_one_slug_stay_apart(
    alice: User, titles: tuple[str, ...]
):
    topics = [make_topic(alice, title) for title in titles]

    assert len({topic.slug for topic in topics}) == len(titles)
    assert [topic.title for topic in topics] == list(titles)


def test_the_seeds_slugs_are_kept_where_nothing_is_lost():
    assert slug_of("AI  agents") == "ai-agents"
    assert slug_of("C") == "c"
    assert slug_of("Solid-state batteries").startswith("solidstate-batteries-")


@pytest.mark.requirement("R3")
def test_a_topic_is_found_by_its_exact_name_never_by_a_like_one(alice: User, bob: User):
    made = make_topic(alice, "Solid-state batteries")

    assert Topic.objects.titled(alice, "  solid-state   BATTERIES ") == made
    assert Topic.objects.titled(alice, "Solid state batteries") is None
    assert Topic.objects.titled(bob, "Solid-state batteries") is None


def test_one_owner_has_a_name_once_two_owners_can_share_it(alice: User, bob: User):
    make_topic(alice, "Batteries")
    make_topic(bob, "Batteries")

    with pytest.raises(InvalidValue, match="already have a topic named"):
        make_topic(alice, "  batteries ")


def test_a_renamed_topic_keeps_its_memory_under_its_new_address(alice: User):
    topic = make_topic(alice, "Batteries")
    fact = make_fact(topic, "Pilot lines are named for 2027.")
    topic.rename("Solid batteries", by=alice.actor)

    assert topic.slug == "solid-batteries"
    assert list(topic.facts.all()) == [fact]
    assert Revision.objects.filter(record_id=topic.pk).latest("id").before["title"] == "Batteries"


def test_a_name_in_use_isnt_a_new_name(alice: User):
    make_topic(alice, "Batteries")
    other = make_topic(alice, "Cells")

    with pytest.raises(InvalidValue):
        other.rename("batteries", by=alice.actor)
    other.rename("CELLS", by=alice.actor)

    assert other.title == "CELLS"


def test_a_topic_whose_name_was_taken_is_restored_under_a_free_one(alice: User):
    topics = [make_topic(alice, "Batteries")]
    for _time in range(2):
        topics[-1].trash(by=alice.actor)
        topics.append(make_topic(alice, "Batteries"))

    for topic in topics[:2]:
        topic.restore(by=alice.actor)

    assert [topic.title for topic in topics] == ["Batteries (2)", "Batteries (3)", "Batteries"]
    assert all(topic.slug == slug_of(topic.title) and not topic.trashed_at for topic in topics)


def test_a_title_of_full_length_finds_a_free_one_too(alice: User):
    topic = make_topic(alice, "x" * TITLE_LENGTH)
    topic.trash(by=alice.actor)
    make_topic(alice, "x" * TITLE_LENGTH)
    topic.restore(by=alice.actor)
    assert topic.title.endswith("x (2)")
    assert len(topic.title) == TITLE_LENGTH


@pytest.fixture
def checks_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two threads both find a title free before either writes it."""
    both, look, has_looked = threading.Barrier(2), Topic._twin, threading.local()

    def looked(topic: Topic) -> Topic | None:
        found = look(topic)
        if not hasattr(has_looked, "once"):
            has_looked.once = True
            both.wait(10)
        return found

    monkeypatch.setattr(Topic, "_twin", looked)


def at_once(acts: list[Callable[[], object]]) -> list[str]:
    """Run the acts in threads and return what the errors of the refused ones say about the title."""
    said: list[str] = []

    def run(act: Callable[[], object]) -> None:
        try:
            act()
        except InvalidValue as exc:
            said.extend(exc.errors["title"])
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=[act]) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return said


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("act", ["create", "rename", "restore"])
def test_of_two_who_take_a_name_at_once_one_is_told_that_it_is_taken(
    alice: User, act: str, request: pytest.FixtureRequest
):
    topics = [Topic(owner=alice, title=title, slug=slug_of(title)) for title in ("One", "Two")]
    if act == "restore":
        topics = [Topic(owner=alice, title="Cells", slug="cells") for _time in range(2)]
    for topic in topics:
        topic.trashed_at = timezone.now() if act == "restore" else None
        topic.save()
    request.getfixturevalue("checks_first")
    by = alice.actor
    acts: dict[str, Callable[[Topic], object]] = {
        "create": lambda _topic: make_topic(alice, "Cells"),
        "rename": lambda topic: topic.rename("Cells", by=by),
        "restore": lambda topic: topic.restore(by=by),
    }

    said = at_once([partial(acts[act], topic) for topic in topics])

    assert said == ["You already have a topic named “Cells”."]
    assert Topic.objects.live().filter(title="Cells").count() == 1


@pytest.mark.requirement("R10", "R12")
def test_memory_lapses_at_its_time_is_kept_and_can_be_revived(alice: User):
    topic = make_topic(alice)
    assert not topic.memory_is_live()
    assert not topic.memory_has_lapsed

    Topic.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    topic.refresh_from_db()
    make_fact(topic, "Pilot lines are named for 2027.")
    assert topic.memory_has_lapsed

    topic.revive(by=alice.actor, until=timezone.now() + timedelta(days=30))
    assert topic.memory_is_live()
    assert topic.facts.count() == 1


def test_words_are_searched_for_in_title_labels_and_summary(alice: User):
    make_topic(alice, "Batteries", labels=["energy"])
    topic = make_topic(alice, "Rail freight")
    topic.change(by=RESEARCH, summary="Tariffs rise in spring.")

    assert [t.title for t in Topic.objects.for_user(alice).matching("energy batt")] == ["Batteries"]
    assert [t.title for t in Topic.objects.for_user(alice).matching("tariffs")] == ["Rail freight"]
    assert Topic.objects.for_user(alice).matching("100% _").count() == 0


def test_an_archived_topic_is_kept_but_not_active(alice: User):
    topic = make_topic(alice)
    topic.archive(by=alice.actor)

    assert Topic.objects.for_user(alice).active().count() == 0
    assert Topic.objects.for_user(alice).live().get() == topic
