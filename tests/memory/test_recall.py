"""Recall: what is found in memory, in which order, and why."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from memory.models import MemoryFile, Note, Observation, Topic, TopicFact, Use
from memory.models.errors import InvalidValue
from memory.services.files.saving import save_file
from memory.services.search.bm25 import rebuild_owner
from memory.services.search.recall import RecallHit, recall, recall_page


def note(owner: Any, content: str, **fields: Any) -> Note:
    made = Note(owner=owner, content=content, **fields)
    made.save(force_insert=True)
    Note.follow([made])
    return made


def observation(owner: Any, content: str, category: str = "finding", **fields: Any) -> Observation:
    digest = Observation.digest_of(content)
    made = Observation(owner=owner, content=content, category=category, digest=digest, **fields)
    made.save(force_insert=True)
    Observation.follow([made])
    return made


def fact(owner: Any, text: str, title: str = "Solid state") -> TopicFact:
    topic = Topic.objects.titled(owner, title)
    topic = topic or Topic.objects.create_topic(owner=owner, title=title, by=owner.actor)
    return TopicFact.objects.add(topic, text, by=owner.actor)


def supersede(old: Note, content: str) -> Note:
    new = note(old.owner, content)
    old.change(by=old.owner.actor, superseded_by_id=new.pk)
    return new


def found(owner: Any, query: str, mode: str = "lexical", **how: Any) -> list[Any]:
    return [hit.record for hit in recall(owner, query, mode, **how)]


@pytest.mark.requirement("R73", "R80")
def test_all_types_are_found_in_one_list_by_score(alice: Any) -> None:
    made = {
        "note": note(alice, "The night train to Vienna leaves at nine."),
        "observation": observation(alice, "Vienna has a night train from Paris."),
        "fact": fact(alice, "A night train to Vienna runs since 2021."),
    }
    hits = recall(alice, "night train Vienna", "lexical")
    assert {hit.type: hit.record for hit in hits} == made
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    for hit in hits:
        assert 0 < hit.score < 1
        assert hit.content == hit.record.search_text()
        assert hit.id == hit.record.pk


@pytest.mark.requirement("R73")
def test_ten_hits_are_given_unless_more_are_asked_for(alice: Any) -> None:
    for number in range(15):
        note(alice, f"train number {number}")
    assert len(recall(alice, "train", "exact")) == 10
    assert len(recall(alice, "train", "exact", limit=12)) == 12
    assert recall(alice, "train", "exact", min_score=0.99) == []


@pytest.mark.requirement("R76")
@pytest.mark.parametrize("mode", ["exact", "lexical"])
def test_the_word_finding_does_not_match_by_category(alice: Any, mode: str) -> None:
    observation(alice, "Sodium cells cost less.", category="finding")
    note(alice, "Sodium cells again.", kind="log")
    assert found(alice, "finding", mode) == []
    assert found(alice, "log", mode) == []


@pytest.mark.requirement("R76")
def test_exact_looks_at_the_content_alone_and_lexical_at_labels_too(alice: Any) -> None:
    tagged = note(alice, "Lunch is at noon.", tags=["canteen"], source="agent:claude")
    assert found(alice, "canteen", "exact") == []
    assert found(alice, "canteen claude") == [tagged]
    hit = recall(alice, "canteen noon", "lexical")[0]
    assert "canteen" in hit.explanation.boosts[0]


@pytest.mark.requirement("R193", "R215")
def test_what_expired_was_superseded_or_trashed_is_never_returned(alice: Any) -> None:
    now = timezone.now()
    kept = note(alice, "train alpha")
    note(alice, "train beta", expires_at=now)
    note(alice, "train gamma").trash(by=alice.actor)
    successor = supersede(note(alice, "train delta"), "bus delta")
    assert found(alice, "alpha beta gamma", now=now) == [kept]
    assert set(found(alice, "train", now=now)) == {kept, successor}


@pytest.mark.requirement("R193")
def test_a_note_is_recalled_until_the_second_of_its_expiry(alice: Any) -> None:
    at = timezone.now() + timedelta(hours=1)
    due = note(alice, "train due", expires_at=at)
    assert found(alice, "train", now=at - timedelta(seconds=1)) == [due]
    assert found(alice, "train", now=at) == []


@pytest.mark.requirement("R193")
@pytest.mark.parametrize("mode", ["exact", "lexical"])
def test_what_expired_this_second_takes_no_hits_place(alice: Any, mode: str) -> None:
    now = timezone.now()
    for number in range(8):
        note(alice, f"train {number}", expires_at=now)
    kept = note(alice, "A train that is still there, and that is told of at some length.")
    assert found(alice, "train", mode, now=now, limit=1) == [kept]


def test_a_superseding_note_stands_in_for_what_it_replaced(alice: Any) -> None:
    first = note(alice, "Ada's badge number is 4711.")
    second = supersede(first, "The number was changed: 1234.")
    last = supersede(second, "It is 9999 now.")
    (hit,) = recall(alice, "badge", "lexical")
    assert (hit.record, hit.replaces) == (last, (first.pk,))
    assert hit.content == "It is 9999 now."
    assert "replaces a record" in hit.explanation.boosts[-1]


def test_a_stand_in_must_itself_be_what_is_asked_for(alice: Any) -> None:
    old = note(alice, "train old", kind="rule")
    supersede(old, "bus new")
    assert found(alice, "train kind:rule") == []
    assert [one.content for one in found(alice, "train kind:log")] == ["bus new"]


@pytest.mark.requirement("R74", "R79")
@pytest.mark.parametrize("mode", ["exact", "lexical"])
def test_recall_is_narrowed_by_time(alice: Any, mode: str) -> None:
    now = timezone.now()
    old = note(alice, "train old", created=now - timedelta(days=10))
    new = note(alice, "train new", created=now)
    week = now - timedelta(days=7)
    assert found(alice, "train", mode, after=week) == found(alice, "train after:1w", mode) == [new]
    assert (
        found(alice, "train", mode, before=week) == found(alice, "train before:7d", mode) == [old]
    )


@pytest.mark.requirement("R79")
def test_operators_and_arguments_narrow_alike(alice: Any) -> None:
    topic = Topic.objects.create_topic(owner=alice, title="Rail", by=alice.actor)
    one = note(
        alice, "train one", kind="rule", tags=["x"], source="run:12", scope="run:12", topic=topic
    )
    note(alice, "train two")
    for query in (
        "kind:rule",
        "tag:x",
        "source:run:*",
        "topic:rail",
        "topic:ra*",
        "scope:run:12",
        "-tag:y is:unused tag:x",
    ):
        assert found(alice, f"train {query}") == [one], query
    for how in ({"kinds": ["rule"]}, {"topic": topic}, {"topic": "Rail"}, {"scope": "run:12"}):
        assert found(alice, "train", **how) == [one], how
    assert [n.content for n in found(alice, "train -kind:rule")] == ["train two"]
    assert found(alice, "train type:fact") == found(alice, "train", types=["fact"]) == []


def test_a_phrase_must_stand_there_and_what_is_left_out_must_not(alice: Any) -> None:
    right = note(alice, "The night train is late.")
    note(alice, "A train at night.")
    assert found(alice, '"night train"') == [right]
    assert found(alice, "train -late") != found(alice, "train")
    assert recall(alice, '"night train"', "lexical")[0].explanation.boosts


def test_what_is_left_out_is_stemmed_in_the_language_the_owner_writes_in(alice: Any) -> None:
    alice.language = "de"
    alice.save()
    rebuild_owner(alice)
    note(alice, "Die Häuser wurden verkauft.")
    kept = note(alice, "Der Garten bleibt.")
    assert found(alice, "kind:log -Häuser") == [kept]


def test_a_struck_or_retired_fact_is_recalled_only_when_asked_for(alice: Any) -> None:
    struck = fact(alice, "Cells of this kind burn at once.")
    struck.strike(by=alice.actor)
    assert found(alice, "cells burn") == []
    assert found(alice, "cells burn is:struck") == [struck]


def test_facts_of_a_topic_in_the_trash_are_not_recalled(alice: Any) -> None:
    kept, gone = (
        fact(alice, "Cells of this kind burn at once."),
        fact(alice, "Cells cost less each year.", "Other"),
    )
    gone.topic.trash(by=alice.actor)
    assert found(alice, "cells") == [kept]
    gone.topic.restore(by=alice.actor)
    assert set(found(alice, "cells")) == {kept, gone}


def test_what_is_edited_is_found_by_its_new_words_at_once(alice: Any) -> None:
    made = note(alice, "train")
    made.change(by=alice.actor, content="bus")
    assert (found(alice, "train"), found(alice, "bus")) == ([], [made])
    made.change(by=alice.actor, tags=["tram"], kind="rule")
    assert found(alice, "tram kind:rule") == [made]


@pytest.mark.parametrize("mode", ["exact", "lexical"])
def test_what_a_record_is_marked_as_counts_from_that_change_on(alice: Any, mode: str) -> None:
    made = note(alice, "The train leaves at nine.")
    for query in ("train -sensitivity:sensitive", "train trust:owner"):
        assert found(alice, query, mode) == [made]
    made.change(by=alice.actor, sensitivity="sensitive", trust="quarantined")
    for query in ("train -sensitivity:sensitive", "train -trust:quarantined", "train trust:owner"):
        assert found(alice, query, mode) == []
    assert found(alice, "train sensitivity:sensitive trust:quarantined", mode) == [made]


def test_a_files_sections_take_its_marks_also_where_their_words_stay(alice: Any) -> None:
    file = MemoryFile.objects.for_user(alice).get(path="facts/memory.md")
    save_file(alice, file.path, "# Memory\n\n## Trains\n\nAt nine.\n", by=alice.actor)
    file.refresh_from_db()
    assert len(found(alice, "trains -sensitivity:sensitive")) == 1
    file.change(by=alice.actor, sensitivity="sensitive")
    assert found(alice, "trains -sensitivity:sensitive") == []
    file.change(by=alice.actor, sensitivity="normal")
    assert len(found(alice, "trains -sensitivity:sensitive")) == 1


@pytest.mark.requirement("R239")
@pytest.mark.parametrize(
    "query",
    [
        "",
        " ",
        "!!!",
        '"',
        "-",
        "\x00",
        "\ud800",
        "the of and",
        "a:b",
        "word " * 1000,
        "kind:",
        "-x",
        "%s",
        "''",
        "💥",
    ],
)
@pytest.mark.parametrize("mode", ["exact", "lexical", "auto"])
def test_no_query_is_an_error(alice: Any, query: str, mode: str) -> None:
    note(alice, "plain text")
    assert len(recall(alice, query, mode)) <= 10


def test_operators_alone_give_the_newest(alice: Any) -> None:
    now = timezone.now()
    old = note(alice, "one", kind="rule", created=now - timedelta(days=1))
    new = note(alice, "two", kind="rule", created=now)
    assert found(alice, "kind:rule") == [new, old]
    assert found(alice, "kind:rule -two") == [old]
    assert found(alice, "") == []


def test_what_was_not_understood_is_told_on_the_page(alice: Any) -> None:
    page = recall_page(alice, "knid:rule trains is:expired", "lexical")
    assert "knid" in page.notices[0]
    assert "Trash" in page.notices[1]
    assert page.stems == ("knid", "rule", "train")
    assert page.milliseconds > 0


def test_why_names_lanes_stems_and_ranks(alice: Any) -> None:
    note(alice, "running trains")
    note(alice, "trains and other things that have wheels")
    hits = recall(alice, "train runs", "lexical")
    assert [hit.explanation.ranks for hit in hits] == [{"words": 1}, {"words": 2}]
    assert [set(hit.explanation.matched_terms) for hit in hits] == [{"train", "run"}, {"train"}]
    retriever = hits[0].retrievers["words"]
    assert retriever.score == pytest.approx(retriever.raw / (1 + retriever.raw))


def test_hits_are_noted_as_used_only_where_a_place_is_named(alice: Any) -> None:
    note(alice, "train")
    recall(alice, "train", "lexical")
    assert not Use.objects.exists()
    for _time in range(2):
        hits = recall(alice, "train", "lexical", place="run:7")
    assert Use.objects.get().record_id == hits[0].id


def test_another_persons_records_are_never_found(alice: Any, bob: Any) -> None:
    for make in (note, observation, fact):
        make(alice, "The secret train runs at night.")
    for query in ("secret train", "scope:owner", "topic:solid-state", '"secret train"'):
        assert [h for h in recall(bob, query, "lexical") if h.record.owner_id != bob.pk] == []


def test_what_cannot_be_asked_is_explained(alice: Any) -> None:
    with pytest.raises(InvalidValue, match="isn’t a search mode"):
        recall(alice, "x", "fuzzy")
    with pytest.raises(InvalidValue, match="isn’t a searchable type"):
        recall(alice, "x", types=["nonsense"])


def test_a_replacement_is_returned_only_if_it_matches_the_filters(alice: Any) -> None:
    old = note(alice, "The night train is slow.", kind="log")
    new = supersede(old, "The sleeper runs again.")
    new.change(by=alice.actor, kind="rule")
    assert found(alice, "train kind:rule") == [new]
    assert found(alice, "train kind:log") == []
    assert found(alice, 'train "is slow"') == []
    assert found(alice, "train -slow") == [new]
    assert found(alice, "train -sleeper") == []
    assert found(alice, "train", now=timezone.now() + timedelta(days=1)) == [new]
    new.change(by=alice.actor, expires_at=timezone.now() + timedelta(hours=1))
    assert found(alice, "train", now=timezone.now() + timedelta(days=1)) == []


def test_recall_asks_a_fixed_number_of_queries(
    alice: Any, django_assert_max_num_queries: Any
) -> None:
    for number in range(30):
        note(alice, f"train {number}", tags=[f"t{number}"])
        observation(alice, f"train observed {number}")
    fact(alice, "The train of this kind runs at night.")
    with django_assert_max_num_queries(6):
        hits: list[RecallHit] = recall(alice, "train topic:none,solid-state", "lexical", limit=50)
        assert len({hit.title for hit in hits}) > 30
