"""Recall of what research wrote: reports and topic facts, with their topic."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.utils import timezone

from beacon_site.text.cleaning import as_data
from memory.agents.chat import turn
from memory.agents.chat.conversation import ask, start
from memory.models import Note, Observation, SearchEntry, Topic, TopicFact, Trust, Use
from memory.models.actors import RESEARCH
from memory.services.context.topic_block import best_for
from memory.services.notes.saving import write_note
from memory.services.observations.saving import Line, remember_lines
from memory.services.search.recall import recall
from memory.tasks import follow_languages
from research.models import Report
from tests.memory.tool_cast import call
from tests.pages.topic_cast import make, ran
from tests.research.factories import make_fact, make_item, make_report, make_run, make_topic


def report(topic: Topic, body: str, number: int = 1) -> Report:
    run = ran(topic, number)
    made = Report(owner=topic.owner, run=run, title=topic.title, body=body, written_by="test")
    made.save(force_insert=True)
    Report.follow([made])
    return made


def found(owner: Any, query: str) -> list[Any]:
    return [hit.record for hit in recall(owner, query, "lexical")]


def test_a_report_is_recalled_by_its_words_and_leads_to_its_run(alice: Any) -> None:
    topic = make(alice, "Solid state")
    made = report(topic, "The pilot line ships separators.")
    (hit,) = recall(alice, "separators", "lexical")
    assert (hit.record, hit.type) == (made, "report")
    assert hit.url == f"/topics/{topic.slug}/runs/{made.run_id}/"
    assert found(alice, f"separators topic:{topic.slug} type:report") == [made]
    assert found(alice, "separators topic:other") == []


def test_an_edited_report_is_found_by_its_new_words(alice: Any) -> None:
    made = report(make(alice, "Solid state"), "The pilot line ships separators.")
    made.change(by=alice.actor, body="It ships anodes.")
    assert (found(alice, "separators"), found(alice, "anodes")) == ([], [made])


def test_a_fact_leads_to_its_place_on_the_topics_page(alice: Any, client_of: Any) -> None:
    topic = make(alice, "Solid state")
    fact = TopicFact.objects.add(topic, "Separators are made in Kyoto.", by=alice.actor)
    hit = recall(alice, "Kyoto separators", "lexical")[0]
    assert (hit.title, hit.url) == (
        "Solid state",
        f"/topics/{topic.slug}/facts/?fact={fact.pk}#fact-{fact.pk}",
    )
    browser = client_of(alice)
    assert f'id="fact-{fact.pk}"' in browser.get(hit.url).content.decode()  # no runs: a list
    make_report(ran(topic, 1))
    make_report(ran(topic, 2))
    assert browser.get(hit.url).context["row"].fact == fact


def test_what_belongs_to_a_topic_is_found_by_its_title_and_by_a_new_one(alice: Any) -> None:
    topic = make(alice, "Solid state")
    fact = TopicFact.objects.add(topic, "Separators are made in Kyoto.", by=alice.actor)
    made = report(topic, "The pilot line ships.")
    note = Note(owner=alice, content="Look at it again in May.", topic=topic)
    note.save(force_insert=True)
    Note.follow([note])
    assert {fact, note} <= set(found(alice, "solid"))
    topic.change(by=alice.actor, title="Sodium cells")
    assert set(found(alice, "sodium")) == {fact, note}
    assert made in found(alice, "pilot")
    assert fact not in found(alice, "solid")


@pytest.mark.requirement("R215")
def test_a_topic_in_the_trash_hides_its_reports_and_a_purge_forgets_them(alice: Any) -> None:
    topic = make(alice, "Solid state")
    made = report(topic, "The pilot line ships separators.")
    TopicFact.objects.add(topic, "Separators are made in Kyoto.", by=alice.actor)
    topic.trash(by=alice.actor)
    assert found(alice, "separators") == []
    topic.restore(by=alice.actor)
    assert made in found(alice, "separators")
    topic.trash(by=alice.actor)
    topic.purge(by=alice.actor)
    assert not SearchEntry.objects.filter(space__record_type__in=["fact", "report"]).exists()


def test_another_language_is_followed_by_a_task(alice: Any) -> None:
    note = Note(owner=alice, content="Die Häuser wurden verkauft", created=timezone.now())
    note.save(force_insert=True)
    Note.follow([note])
    alice.language = "de"
    alice.save()
    assert found(alice, "verkauft") == [note]  # until then as before
    assert note not in found(alice, "Haus")
    follow_languages()
    assert found(alice, "Haus") == [note]


def test_a_finding_that_never_was_among_the_facts_says_what_a_later_run_found(alice: Any) -> None:
    topic = make_topic(alice, "Urban bees")
    first, second = make_run(topic), make_run(topic)
    was, now = "The garden keeps 6 hives this year.", "The garden keeps 8 hives this year."
    line = Line("finding", was, step_name="save", step_type="RUN")
    remember_lines(alice, [line], by=RESEARCH, source=first.source, topic=topic)
    make_item(second, "changed", now, previous_text=was)
    make_fact(topic, now, second)

    (hit,) = recall(alice, "hives of the garden", "lexical", types=["observation"])

    assert hit.later_finding == now


def test_a_finding_that_changed_says_what_a_later_run_found(alice: Any) -> None:
    topic = make_topic(alice, "Urban bees")
    first, second = make_run(topic), make_run(topic)
    was, now = "The garden keeps 6 hives this year.", "The garden keeps 8 hives this year."
    old = make_fact(topic, was, first)
    lines = [Line("finding", text, step_name="save", step_type="RUN") for text in (was, now)]
    remember_lines(alice, lines, by=RESEARCH, source=first.source, topic=topic)
    make_item(second, "changed", now, previous_fact=old, previous_text=was)
    new = make_fact(topic, now, second)

    def later() -> dict[str, str]:
        hits = recall(alice, "hives of the garden", "lexical", types=["observation"])
        return {hit.content: hit.later_finding for hit in hits}

    assert later() == {was: "", now: ""}  # the fact is current: no run has retired it yet
    old.retire(by=RESEARCH, why="a run found another", run=second.number)
    assert later() == {was: now, now: ""}
    hit = next(hit for hit in recall(alice, "hives", types=["observation"]) if hit.content == was)
    assert hit.dated("6 hives") == f"6 hives (a later run found a change: {now})"
    offered = [one.content for one in best_for(alice, "hives of the garden", topic=topic)]
    assert offered == [now]
    Observation.objects.filter(content=was).update(trust=Trust.OWNER)
    told = call(alice, "recall", query="hives type:observation").text
    marks = as_data("x").split("x")
    assert told.index(marks[0].strip()) < told.index(
        f"found a change: {now}"
    )  # the web's words, marked as data
    new.strike(by=alice.actor)
    assert later() == {was: "", now: ""}  # what was struck isn't shown to anyone


def changes(topic: Topic, *texts: str) -> None:
    """Each text was a fact that the next run found to have changed; the last one is current."""
    lines = [
        Line("finding", text, step_name="save", step_type="RUN") for text in dict.fromkeys(texts)
    ]
    remember_lines(topic.owner, lines, by=RESEARCH, source="run:1", topic=topic)
    was: TopicFact | None = None
    for text in texts:
        run = make_run(topic)
        if was is not None:
            make_item(run, "changed", text, previous_fact=was, previous_text=was.text)
            was.retire(by=RESEARCH, why="a run found another", run=run.number)
        was = make_fact(topic, text, run)


def test_a_finding_that_changed_twice_names_what_the_latest_run_found(alice: Any) -> None:
    was, later, now = (f"The garden keeps {count} hives this year." for count in (6, 7, 8))
    changes(make_topic(alice, "Urban bees"), was, later, now)
    hits = recall(alice, "hives of the garden", "lexical", types=["observation"])
    assert {hit.content: hit.later_finding for hit in hits} == {was: now, later: now, now: ""}


def test_an_answer_without_a_model_quotes_only_the_last_of_several_changes(alice: Any) -> None:
    was, later, now = (f"The garden keeps {count} hives this year." for count in (6, 7, 8))
    changes(make_topic(alice, "Urban bees"), was, later, now)
    assert answers(alice, "How many hives does the garden keep this year?") == [now]


def test_a_finding_that_changed_and_changed_back_is_current(alice: Any) -> None:
    was, other = (f"The garden keeps {count} hives this year." for count in (6, 7))
    topic = make_topic(alice, "Urban bees")
    changes(topic, was, other)
    back = make_run(topic)
    retired = TopicFact.objects.get(topic=topic, text=other)
    make_item(back, "changed", was, previous_fact=retired, previous_text=other)
    retired.retire(by=RESEARCH, why="a run found another", run=back.number)
    hits = recall(alice, "hives of the garden", "lexical", types=["observation"])
    assert {hit.content: hit.later_finding for hit in hits} == {was: "", other: was}


def answers(owner: Any, question: str) -> list[str]:
    """The quotes of Ask's answer without a model."""
    message = ask(start(owner, "Bees"), question, by=owner.actor)
    turn.answer(message.pk)
    message.refresh_from_db()
    return re.findall(r"- “(.*)” \[(?:\w+):", message.content)


def test_an_answer_quotes_both_notes_that_differ_only_in_a_sign_or_currency(alice: Any) -> None:
    texts = {f"The budget for Falcon is {value}." for value in ("20 €", "-20 €", "20 $")}
    for text in texts:
        write_note(alice, "log", text, by=alice.actor)
    assert set(answers(alice, "What is the budget for Falcon?")) == texts


@pytest.mark.requirement("R401")
def test_an_answer_without_a_model_quotes_statements_and_not_a_report_around_them(alice: Any):
    topic = make_topic(alice, "Urban bees")
    first, second = make_run(topic), make_run(topic)
    was, now = "The garden keeps 6 hives this year.", "The garden keeps 8 hives this year."
    only_here = "A hive of the garden of Kyoto is open to visitors on Sundays."
    old = make_fact(topic, was, first)
    lines = [Line("finding", text, step_name="save", step_type="RUN") for text in (was, now)]
    remember_lines(alice, lines, by=RESEARCH, source=first.source, topic=topic)
    make_item(second, "changed", now, previous_fact=old, previous_text=was)
    old.retire(by=RESEARCH, why="a run found another", run=second.number)
    TopicFact.follow([make_fact(topic, now, second)])
    for run in (first, second):
        body = f"- {was} [1] *(confirmed once, on 27 Nov 2026)*\n- {only_here} [2]\n\n*A note.*"
        made = Report(owner=alice, run=run, title=topic.title, body=body, written_by="test")
        made.save(force_insert=True)
        Report.follow([made])
    # Said by two reports and a finding, but a later run found another number.
    assert answers(alice, "How many hives does the garden keep this year?") == [now]
    assert answers(alice, "When is a hive open to visitors?")[0] == only_here
    used = Use.objects.filter(owner=alice).values_list("record_type", flat=True)
    assert sorted(used) == ["report", "topicfact"]
