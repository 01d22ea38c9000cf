"""A proposal that quotes what later runs replaced, or whose target was changed, says so."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from memory.models import Note, Proposal, Topic, TopicFact
from memory.services.files.reading import read_file
from memory.services.files.saving import save_file
from memory.services.notes import saving as notes
from memory.services.review import acts
from memory.services.review import proposals as review_services
from memory.services.review.outdated import Outdated, outdated, with_newer_texts
from memory.services.topic_memory import FoundFact, replace_facts
from tests.memory.review_cast import AGENT, MEMORY, proposed_file, proposed_note
from tests.research.factories import make_topic

pytestmark = pytest.mark.django_db
OLD = "A solid-state cell costs 89 dollars in lots of a thousand."
NEW = "A solid-state cell costs 71 dollars in lots of a thousand."


@pytest.fixture
def topic(alice: Any) -> Topic:
    topic = make_topic(alice, "Batteries")
    run(topic, [FoundFact(OLD)], 1, "run:8")
    return topic


def run(topic: Topic, facts: list[FoundFact], number: int, source: str) -> None:
    replace_facts(topic, facts, number=number, source=source, at=timezone.now())


def replaced(topic: Topic, new: str = NEW, number: int = 7) -> None:
    old = TopicFact.objects.filter(topic=topic).current().get()
    run(topic, [FoundFact(new, replaces=str(old.pk))], number, f"run:{number + 8}")


def of(owner: Any, proposal: Proposal) -> list[Outdated]:
    return outdated(owner, [proposal]).get(proposal.pk, [])


def test_a_quoted_fact_that_a_run_replaced_is_shown_with_both_texts(alice: Any, topic: Topic):
    proposal = proposed_file(alice, f"- {OLD}")
    assert of(alice, proposal) == []
    replaced(topic)
    (one,) = of(alice, proposal)
    assert (one.words, one.old, one.new) == ("Run #7 replaced this", OLD, NEW)


def test_the_newest_of_several_replacements_is_offered(alice: Any, topic: Topic):
    proposal = proposed_file(alice, f"- {OLD}")
    replaced(topic)
    newest = NEW.replace("71", "64")
    replaced(topic, newest, 9)
    (one,) = of(alice, proposal)
    assert (one.run, one.new) == (7, newest)


def test_a_fact_marked_as_wrong_or_corrected_is_shown(alice: Any, topic: Topic):
    proposal = proposed_file(alice, f"- {OLD}")
    fact = TopicFact.objects.get(topic=topic)
    fact.edit(NEW, by=alice.actor)
    (one,) = of(alice, proposal)
    assert (one.kind, one.old, one.new) == ("corrected", OLD, NEW)
    other = proposed_file(alice, f"- {NEW}")
    fact.strike(by=alice.actor)
    (one,) = of(alice, other)
    assert (one.kind, one.new) == ("wrong", "")


def test_a_fact_that_was_found_again_is_not_outdated(alice: Any, topic: Topic):
    proposal = proposed_file(alice, f"- {OLD}")
    replaced(topic)
    current = TopicFact.objects.filter(topic=topic).current().get()
    run(topic, [FoundFact(OLD, replaces=str(current.pk))], 8, "run:16")
    assert of(alice, proposal) == []


def test_another_owners_facts_say_nothing(alice: Any, bob: Any, topic: Topic):
    proposal = proposed_file(bob, f"- {OLD}")
    replaced(topic)
    assert of(bob, proposal) == []


def test_the_newer_text_is_accepted_in_place_of_the_old_one(alice: Any, topic: Topic):
    proposal = proposed_file(alice, f"- {OLD}")
    replaced(topic)
    after = with_newer_texts(proposal, of(alice, proposal))
    review_services.accept(proposal, by=alice.actor, after=after)
    content = read_file(alice, MEMORY).content
    assert NEW in content and OLD not in content


def test_what_is_out_of_date_is_not_accepted_with_others(alice: Any, topic: Topic):
    behind, fresh = proposed_file(alice, f"- {OLD}"), proposed_note(alice)
    replaced(topic)
    done = acts.decide(alice, [behind, fresh], "accept", by=alice.actor)
    assert (done.done, done.apart) == (1, 1)
    assert list(review_services.waiting(alice)) == [behind]


def test_a_file_changed_since_says_from_which_version_to_which(alice: Any):
    proposal = proposed_file(alice, "- By sea")
    file = read_file(alice, MEMORY)
    save_file(alice, MEMORY, f"{file.content}\n- By rail\n", by=alice.actor)
    (one,) = of(alice, proposal)
    assert f"version {file.version} is now {file.version + 1}" in one.words
    assert "- By rail" in one.new and "- By rail" not in one.old


def test_what_other_proposals_wrote_does_not_count(alice: Any):
    first, second = proposed_file(alice, "- By sea"), proposed_file(alice, "- By rail")
    review_services.accept(first, by=alice.actor)
    assert of(alice, second) == []


def test_a_note_replaced_since_says_so(alice: Any):
    old = notes.write_note(alice, "log", "Fares fall.", by=AGENT)
    proposal = review_services.hold(
        alice, "note", by=AGENT, source="run:1", before={"content": old.content}, why="", held="x",
        after={"kind": "log", "content": "Fares rise."}, target_id=old.pk, version_seen=1,
    )  # fmt: skip
    assert of(alice, proposal) == []
    notes.supersede(
        Note.objects.get(pk=old.pk), "Fares stay.", by=alice.actor, expected_version=old.version
    )
    (one,) = of(alice, proposal)
    assert (one.old, one.new) == ("Fares fall.", "Fares stay.")
