"""The follow-up step that stores a run's findings: facts, and observations from the report."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from memory.models import Observation, Revision, Topic, TopicFact
from research.models import Run, Step
from research.services.runs import presenters
from research.services.runs.execution import pipeline
from tests.research import cast
from tests.research.conftest import Providers

RunOf = Callable[[Topic], Run]
EXTRACTED = {
    "findings": ["A line in Turku is planned for 2030."],
    "insights": ["The lines move north, for power is cheaper there."],
    "lessons": ["Ask the plant's owner for its prices first."],
}


def followed(run: Run) -> Step:
    """Run the run's follow-up, as a worker does, and return its row."""
    step = run.steps.get(is_follow_up=True, name="extract")
    Step.objects.filter(pk=step.pk).update(state="waiting", not_before=Now() - timedelta(seconds=1))
    pipeline.run_follow_up(step.pk)
    step.refresh_from_db()
    run.refresh_from_db()
    return step


def contents(run: Run, **filters: Any) -> list[str]:
    found = Observation.objects.for_user(run.topic.owner).filter(topic=run.topic, **filters)
    return sorted(found.values_list("content", flat=True))


@pytest.mark.requirement("R94")
def test_each_fact_of_the_run_is_kept_as_a_finding_with_its_source(run: Run):
    step = followed(run)

    facts = list(TopicFact.objects.filter(topic=run.topic).values_list("text", flat=True))
    kept = Observation.objects.for_user(run.topic.owner).filter(source=run.source)
    assert facts
    assert set(facts) <= {one.content for one in kept}
    assert {(one.category, one.trust, one.step_type) for one in kept} == {
        ("finding", "external", "RUN")
    }
    assert (step.state, run.status, run.warnings) == ("done", "succeeded", [])
    assert step.detail.startswith(f"{step.counts['observations']} observations")


@pytest.mark.requirement("R94")
def test_a_model_takes_from_the_report_what_the_facts_do_not_say(
    topic: Topic, providers: Providers, run_of: RunOf
):
    said = EXTRACTED | {"findings": [*EXTRACTED["findings"], cast.sentence(1)]}
    run = cast.by_model(topic, providers, run_of, said)
    step = followed(run)

    assert contents(run, category="finding") == sorted([*EXTRACTED["findings"], cast.sentence(1)])
    assert contents(run, category="insight") == EXTRACTED["insights"]
    assert contents(run, category="lesson", source=run.source) == EXTRACTED["lessons"]
    assert step.counts == {"observations": 4, "facts": 1, "extracted": 3}
    assert "3 of them by the model" in step.detail
    assert providers.model is not None
    assert cast.sentence(1) in providers.model.history[-1].prompt


def test_a_follow_up_that_is_repeated_adds_nothing_and_asks_no_model(
    topic: Topic, providers: Providers, run_of: RunOf
):
    run = cast.by_model(topic, providers, run_of, EXTRACTED)
    followed(run)
    first = contents(run)

    step = followed(run)
    assert contents(run) == first
    assert step.counts["observations"] == 0


@pytest.mark.requirement("R89", "R93")
def test_nonsense_is_a_warning_on_the_run_and_the_facts_are_kept(
    topic: Topic, providers: Providers, run_of: RunOf
):
    run = cast.by_model(topic, providers, run_of, "I would rather not.")
    step = followed(run)

    assert contents(run) == [cast.sentence(1)]
    assert (run.status, step.state) == ("succeeded", "done")
    assert "the model failed" in step.warning
    assert run.warnings == [step.warning]


@pytest.mark.requirement("R93")
def test_a_model_that_is_away_is_asked_again_and_then_given_up(
    topic: Topic, providers: Providers, run_of: RunOf
):
    run = cast.by_model(topic, providers, run_of, *[ProviderUnavailable("it is away")] * 3)

    assert followed(run).state == "waiting"
    assert followed(run).state == "waiting"
    step = followed(run)
    assert (step.state, run.status) == ("done", "succeeded")
    assert "it is away" in run.warnings[0]
    assert contents(run) == [cast.sentence(1)]


def test_a_model_that_refuses_is_not_asked_again(topic: Topic, providers: Providers, run_of: RunOf):
    run = cast.by_model(topic, providers, run_of, ProviderRejected("no credit"))

    assert followed(run).state == "done"
    assert "no credit" in run.warnings[0]


def test_without_a_model_what_is_taken_says_so_in_its_source(run: Run):
    report = run.report
    report.body += "\n\nWe decided to look at Graz next, because its lines are the newest."
    report.save(update_fields=["body"])
    followed(run)

    [one] = Observation.objects.for_user(run.topic.owner).filter(category="insight")
    assert one.source == f"{run.source}:heuristic"
    assert one.content.startswith("We decided to look at Graz")


def test_what_no_source_supports_is_not_taken(run: Run):
    report = run.report
    report.body = "Lines of 2031 cost 5 euros a cell, all told. *(unsupported)*"
    report.save(update_fields=["body"])
    followed(run)

    assert not [text for text in contents(run) if "2031" in text]


def test_notes_on_how_the_report_was_written_are_not_taken(run: Run):
    report = run.report
    report.body += "\n\n*6 known pages were checked again and 2 have changed.*\n"
    report.body += "\n- *We decided to look at pages since 2026 only.*\n"
    report.save(update_fields=["body"])
    followed(run)

    assert not [text for text in contents(run) if "checked again" in text or "since 2026" in text]


def test_a_struck_fact_is_not_kept_as_a_finding(run: Run):
    fact = TopicFact.objects.filter(topic=run.topic).first()
    assert fact is not None
    fact.strike(by=run.topic.owner.actor)
    followed(run)

    assert fact.text not in contents(run, source=run.source)


def test_a_later_run_keeps_what_is_new_and_not_what_it_confirms(
    run: Run, providers: Providers, run_of: RunOf
):
    followed(run)
    cast.set_up(providers, 1, 2, 3)
    second = run_of(run.topic)
    followed(second)

    new = contents(second, source=second.source)
    assert new
    assert not set(new) & set(contents(run, source=run.source))


def test_what_a_report_says_was_known_before_isnt_a_new_finding(
    run: Run, providers: Providers, run_of: RunOf
):
    cast.set_up(providers, 1, 2, 3)
    second = run_of(run.topic)
    second.report.delta += "\n  - before: The line in Lyon made 2,000 cells in 2001."
    second.report.save(update_fields=["delta"])
    followed(second)

    assert not [text for text in contents(second) if "before" in text]


def test_a_report_s_background_and_what_was_struck_are_no_findings(
    run: Run, providers: Providers, run_of: RunOf
):
    known, struck = TopicFact.objects.filter(topic=run.topic)[:2]
    struck.strike(by=run.topic.owner.actor)
    cast.set_up(providers, 1, 2, 3)
    second = run_of(run.topic)
    second.report.body = f"{known.text}\n\n{struck.text}"
    second.report.save(update_fields=["body"])
    followed(second)

    assert not {known.text, struck.text} & set(contents(second))


def test_what_a_person_threw_away_stays_so_when_the_follow_up_is_repeated(run: Run):
    followed(run)
    one = Observation.objects.for_user(run.topic.owner).filter(source=run.source).first()
    assert one is not None
    one.trash(by=run.topic.owner.actor)

    assert followed(run).counts["observations"] == 0


def test_a_topic_in_the_trash_keeps_nothing(run: Run):
    Topic.objects.get(pk=run.topic.pk).trash(by=run.topic.owner.actor)

    assert "in Trash" in followed(run).detail
    assert contents(run) == []


@pytest.mark.requirement("R248")
def test_the_run_s_memory_changes_name_its_observations_with_what_became_of_them(run: Run):
    followed(run)
    first, second = Observation.objects.for_user(run.topic.owner).order_by("created")[:2]
    first.trash(by=run.topic.owner.actor)

    told = {one["text"]: one for one in presenters.of_run(run, [])["observations"]}
    assert told[first.content]["note"] == "now in Trash"
    assert told[second.content]["url"] == second.get_absolute_url()
    made = Revision.objects.filter(source=run.source, record_type="observation", version=1)
    assert len(told) == made.count()


def test_that_nothing_is_new_isnt_a_finding(topic: Topic, providers: Providers, run_of: RunOf):
    cast.set_up(providers, 1, 2)
    followed(run_of(topic))
    known = set(contents(run_of(topic)))

    last = run_of(topic)
    followed(last)

    assert "facts are still on their pages" in last.report.summary
    assert set(contents(last)) == known
