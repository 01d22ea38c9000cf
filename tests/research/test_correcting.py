"""Checking or correcting a sentence of a report: facts, lesson, prompts, and Undo."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memory.models import Activity, Observation, Topic, TopicFact
from memory.models.errors import InvalidValue, MemoryRefused
from memory.services.context import topic_block as context_topic_block
from memory.services.context.topic_block import topic_block
from research.models import CheckedSentence, Correction, Report, Run
from research.services.facts import correcting
from research.services.facts.correcting import SeenFact
from research.services.runs.reporting import sentences as report_sentences
from tests.research import cast
from tests.research.conftest import Providers
from tests.research.factories import make_fact, make_report, make_run, make_topic

WRONG = "Version 18.1 closes nine faults."
RIGHT = "Version 18.1 closes two faults."


@pytest.fixture
def report(alice: Any) -> Report:
    run = make_run(make_topic(alice))
    return make_report(run, body=f"## News\n\n- {WRONG} [1]\n- Support for version 13 ends. [2]")


def sentence(report: Report, text: str = WRONG) -> report_sentences.ReportSentence:
    return next(one for one in report_sentences.sentences_of(report) if one.text == text)


def seen(report: Report) -> list[SeenFact]:
    return [(one, one.version) for one in correcting.facts_of(report, sentence(report))]


def corrected(report: Report, alice: Any, right: str = RIGHT) -> Correction:
    return correcting.correct(
        report,
        sentence(report),
        wrong="It is two.",
        right=right,
        facts=seen(report),
        by=alice.actor,
    )


def test_the_fact_says_what_is_right_and_the_report_says_what_it_said(report: Report, alice: Any):
    fact = make_fact(report.run.topic, WRONG, report.run)
    before = report.body

    corrected(report, alice)

    fact.refresh_from_db()
    report.refresh_from_db()
    assert fact.text == RIGHT
    assert fact.trust == "owner"
    assert report.body == before
    assert f"“{WRONG}” Correct: {RIGHT}" in report.as_markdown()


def test_without_what_is_right_the_fact_is_struck(report: Report, alice: Any):
    fact = make_fact(report.run.topic, WRONG, report.run)

    corrected(report, alice, right="")

    fact.refresh_from_db()
    assert fact.state == TopicFact.State.STRUCK


def test_the_lesson_is_the_owners_and_later_prompts_hold_it(report: Report, alice: Any):
    lesson = corrected(report, alice).lesson

    assert lesson is not None
    assert (lesson.category, lesson.trust, lesson.source) == ("lesson", "owner", "human:alice")
    assert context_topic_block.of_topic(report.run.topic) == [lesson]
    assert "It is two." in topic_block(report.run.topic)[0]


def test_taking_it_back_undoes_all_of_it(report: Report, alice: Any):
    fact = make_fact(report.run.topic, WRONG, report.run, trust="external")
    made = corrected(report, alice)

    assert correcting.undo_change(made, by=alice.actor)

    fact.refresh_from_db()
    assert (fact.text, fact.trust, fact.edited_by_person) == (WRONG, "external", False)
    assert not Observation.objects.live().exists()
    assert report.remarks() == []
    assert not correcting.undo_change(made, by=alice.actor)


def test_a_struck_fact_of_the_timeline_goes_back_to_the_run_that_retired_it(
    report: Report, alice: Any
):
    fact = make_fact(report.run.topic, WRONG, report.run, state="retired", retired_run=4)
    made = corrected(report, alice)

    correcting.undo_change(made, by=alice.actor)

    fact.refresh_from_db()
    assert (fact.state, fact.retired_run) == ("retired", 4)


def test_a_fact_that_was_changed_again_is_not_half_undone(report: Report, alice: Any):
    fact = make_fact(report.run.topic, WRONG, report.run)
    made = corrected(report, alice)
    TopicFact.objects.get(pk=fact.pk).edit("Version 18.1 closes three.", by=alice.actor)

    with pytest.raises(MemoryRefused, match="can’t be undone"):
        correcting.undo_change(made, by=alice.actor)

    assert Correction.objects.standing().exists()
    assert Observation.objects.live().exists()


def test_a_fact_that_changed_since_it_was_seen_stops_the_correction(report: Report, alice: Any):
    fact = make_fact(report.run.topic, WRONG, report.run)
    facts = seen(report)
    TopicFact.objects.get(pk=fact.pk).edit("Version 18.1 closes three.", by=alice.actor)

    with pytest.raises(InvalidValue, match="changed since you opened this page"):
        correcting.correct(
            report, sentence(report), wrong="x", right=RIGHT, facts=facts, by=alice.actor
        )

    assert not Correction.objects.exists()
    assert not Observation.objects.exists()


@pytest.mark.parametrize(
    ("wrong", "field"), [("", "wrong"), (" \u200b", "wrong"), ("x" * 1001, "wrong")]
)
def test_what_is_wrong_must_be_said_and_not_at_length(
    report: Report, alice: Any, wrong: str, field: str
):
    with pytest.raises(InvalidValue) as refused:
        correcting.correct(report, sentence(report), wrong=wrong, by=alice.actor)

    assert list(refused.value.errors) == [field]


def test_a_sentence_is_corrected_once_at_a_time(report: Report, alice: Any):
    corrected(report, alice)

    with pytest.raises(InvalidValue, match="already has a correction"):
        corrected(report, alice)

    assert Observation.objects.count() == 1


def test_a_sentence_is_checked_once_and_that_is_undone(report: Report, alice: Any):
    one = sentence(report)

    assert correcting.check(report, one, by=alice.actor)
    assert not correcting.check(report, one, by=alice.actor)
    assert f"Verified by alice on {report.remarks()[0].created:%Y-%m-%d}" in report.as_markdown()
    assert correcting.uncheck(report, one.key, by=alice.actor)
    assert not correcting.uncheck(report, one.key, by=alice.actor)
    assert CheckedSentence.objects.get().undone_at
    assert list(Activity.objects.order_by("id").values_list("kind", flat=True))[-2:] == [
        "sentence-checked",
        "sentence-unchecked",
    ]


def test_the_next_run_is_reported_and_does_not_find_it_again(
    topic: Topic, providers: Providers, alice: Any
):
    cast.set_up(providers, 1, 2)
    providers.model = cast.model(cast.PLAN, cast.report(1, 2))
    run = cast.carried_out(cast.started(topic))
    report = Report.objects.get(run=run)
    one = sentence(report, cast.sentence(1))
    correcting.correct(report, one, wrong="The line was never built.", by=topic.owner.actor)
    cast.set_up(providers, 1, 3)
    providers.model = cast.model(cast.PLAN, cast.report(1, 3))

    after = cast.carried_out(cast.started(topic))

    asked = [call.messages[0].content for call in providers.model.history]
    assert all("The line was never built." in system for system in asked[:2])
    plan = after.steps.get(name="plan")
    assert "1 lesson learned" in plan.detail
    assert not Run.objects.get(pk=after.pk).report.delta.count(cast.sentence(1))


def test_what_is_said_of_a_sensitive_fact_reaches_no_model(
    topic: Topic, providers: Providers, alice: Any
):
    cast.set_up(providers, 1, 2)
    providers.model = cast.model(cast.PLAN, cast.report(1, 2))
    report = Report.objects.get(run=cast.carried_out(cast.started(topic)))
    one = sentence(report, cast.sentence(1))
    fact, *_others = correcting.facts_of(report, one)
    fact.change(by=topic.owner.actor, sensitivity="sensitive")
    wrong, told = "The line was never built.", [(fact, fact.version)]
    correcting.correct(report, one, wrong=wrong, facts=told, by=topic.owner.actor)
    Topic.objects.filter(pk=topic.pk).update(summary="")  # it quotes the report, by the run itself
    cast.set_up(providers, 1, 3)
    providers.model = cast.model(cast.PLAN, cast.report(1, 3))

    after = cast.carried_out(cast.started(topic))

    plan = providers.model.history[0].messages[0].content
    assert "do not repeat" not in plan and wrong not in plan
    assert cast.sentence(1) not in plan
    assert cast.sentence(1) not in Run.objects.get(pk=after.pk).report.delta


def test_the_topic_is_held_before_anything_that_hangs_on_it(report: Report, alice: Any):
    # A run's save takes it first too: the other way round, each would wait for the other.
    make_fact(report.run.topic, WRONG, report.run)
    with CaptureQueriesContext(connection) as asked:
        correcting.undo_change(corrected(report, alice), by=alice.actor)
    rows = [one["sql"] for one in asked.captured_queries]
    acts = [sql for sql in rows if sql.startswith(("INSERT", "UPDATE")) or "FOR UPDATE" in sql]
    assert 'FROM "memory_topic"' in acts[0] and "FOR UPDATE" in acts[0]
