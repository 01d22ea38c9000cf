"""Parsing search queries, and the rows that match."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from beacon_site.text.terms import ENGLISH
from memory.models import Note, Observation, Revision, Topic, TopicFact, Use, User
from memory.models.actors import RESEARCH
from memory.services.search.filters import holding, narrowed
from memory.services.search.query import Filter, Question, parse

NAUGHTY = (
    "", " ", '"', '""', '"""', "-", "--", ":", "kind:", "-kind:", 'kind:"', "kind:,,,", "\x00", "\ud800",
    "the of and", "kind:rule -tag:x", "word " * 1000, "after:9999-99-99", "after:0000-01", "is:," * 200,
    'a "b', "'; DROP TABLE --", "%s %(x)s", "💥", "topic:" + "x" * 5000, "人工智能", "a:b:c", "before:9999y",
)  # fmt: skip


def note(owner: Any, content: str = "a note", **fields: Any) -> Note:
    made = Note(owner=owner, content=content, **fields)
    made.save(force_insert=True)
    Note.follow([made])
    return made


def kept(query: str, model: type[Any] = Note) -> list[Any]:
    rows = model.objects.order_by("created")
    if model is Note:
        rows = rows.exclude(kind__in=Note.IDENTITY)  # an account starts with those
    question = parse(query)
    assert not question.problems, question.problems
    alice = User.objects.get(username="alice")
    return list(holding(narrowed(rows, question, zone=UTC), question, ENGLISH, alice))


def test_words_phrases_operators_and_what_is_left_out_are_distinguished() -> None:
    asked = parse('fares "night train" -bus -"slow boat" kind:rule,log -is:pinned')
    assert asked.words == "fares night train"
    assert asked.phrases == ("night train",)
    assert asked.without == ("bus", "slow boat")
    assert asked.filters == (Filter("kind", ("rule", "log")), Filter("is", ("pinned",), True))
    assert asked.problems == ()


def test_a_value_in_quotes_can_hold_spaces_and_commas() -> None:
    assert parse('topic:"AI, agents",other').filters == (Filter("topic", ("AI, agents", "other")),)


@pytest.mark.requirement("R239")
@pytest.mark.parametrize("text", NAUGHTY)
def test_any_text_is_a_question_and_narrows_without_an_error(alice: Any, text: str) -> None:
    question = parse(text)
    for model in (Note, Observation, TopicFact):
        rows = narrowed(model.objects.for_user(alice), question, zone=UTC)
        found = holding(rows, question, ENGLISH, alice)
        assert set(found) <= set(model.objects.for_user(alice))
    assert all(isinstance(problem, str) and problem for problem in question.problems)


@pytest.mark.requirement("R239")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("knid:rule", "“knid:” isn’t an operator"),
        ("kind:rulle", "“rulle” isn’t a valid value"),
        ("after:soon", "isn’t a date"),
        ('"unclosed', "closing quotation mark is missing"),
        ("x" * 20_000, "20000 characters"),
    ],
)
def test_what_is_not_understood_is_explained_in_words(text: str, said: str) -> None:
    assert said in " ".join(parse(text).problems)


def test_addresses_and_times_are_words_without_a_complaint() -> None:
    asked = parse("https://example.org at 10:30 std::vector")
    assert (asked.problems, asked.filters) == ((), ())
    assert asked.words == "https://example.org at 10:30 std::vector"


def test_a_hyphen_inside_a_word_or_alone_leaves_nothing_out() -> None:
    assert parse("solid-state - cells").without == ()


def test_notes_are_narrowed_by_what_they_are(alice: Any) -> None:
    rule = note(alice, kind="rule", tags=["food"], pinned=True, source="run:12")
    log = note(alice, scope="run:12", trust="external", lock="read-only", sensitivity="sensitive")
    for query in (
        "kind:rule",
        "tag:food,drink",
        "is:pinned",
        "source:run:*",
        "-is:locked",
        "kind:rules",
    ):
        assert kept(query) == [rule], query
    for query in ("scope:run:12", "trust:external", "is:locked", "is:sensitive", "-kind:rule"):
        assert kept(query) == [log], query


@pytest.mark.requirement("R193")
def test_a_note_is_expired_from_the_very_second_of_its_expiry(alice: Any) -> None:
    at = timezone.now()
    due = note(alice, expires_at=at)
    expired = parse("is:expired")
    second = timedelta(seconds=1)
    assert list(narrowed(Note.objects.all(), expired, zone=UTC, now=at)) == [due]
    assert not narrowed(Note.objects.all(), expired, zone=UTC, now=at - second)


def test_states_that_hang_on_other_rows_are_found(alice: Any) -> None:
    old, new = note(alice, "old"), note(alice, "new")
    Note.objects.filter(pk=old.pk).update(superseded_by=new, trashed_at=timezone.now())
    Use.objects.create(owner=alice, record_type="note", record_id=new.pk, place="run:1")
    assert kept("is:superseded") == kept("is:trashed") == kept("is:unused") == [old]
    assert kept("is:used") == kept("-is:superseded") == [new]


def test_observations_are_edited_where_a_person_changed_them(alice: Any) -> None:
    made = [
        Observation.objects.create(owner=alice, content=c, category="lesson", digest=c)
        for c in ("one", "two")
    ]
    Revision.record_first(made, by=RESEARCH)
    made[0].change(by=alice.actor, content="changed")
    assert kept("is:edited category:lesson", Observation) == [made[0]]
    assert kept("-is:edited", Observation) == [made[1]]


def test_a_topic_is_named_by_its_slug_or_its_title(alice: Any) -> None:
    topic = Topic.objects.create_topic(owner=alice, title="Solid state", by=alice.actor)
    mine, other = note(alice, topic=topic), note(alice)
    assert kept(f"topic:{topic.slug}") == kept('topic:"solid STATE"') == [mine]
    assert kept('topic:"solid s*"') == kept("topic:solid*,none -topic:none") == [mine]
    assert kept("topic:none") == [other]


@pytest.mark.parametrize(
    "query",
    ["after:2026-03", "after:2026-03-01", "-before:2026-03-05", "after:2026-03 before:2026-04"],
)
def test_days_and_months_bound_the_time(alice: Any, query: str) -> None:
    early, late = datetime(2026, 2, 28, 23, 59, tzinfo=UTC), datetime(2026, 3, 5, tzinfo=UTC)
    note(alice, created=early)
    wanted = note(alice, created=late)
    assert kept(query) == [wanted]


def test_how_long_ago_bounds_the_time_too(alice: Any) -> None:
    now = timezone.now()
    old, new = note(alice, created=now - timedelta(days=20)), note(alice, created=now)
    assert kept("after:2w") == [new]
    assert kept("before:14d") == [old]


def test_a_filter_that_a_type_does_not_know_matches_none_of_it(alice: Any) -> None:
    Observation.objects.create(owner=alice, content="seen", category="finding", digest="x")
    assert kept("kind:log", Observation) == []
    assert len(kept("-kind:log", Observation)) == len(kept("type:observation", Observation)) == 1
    assert kept("type:note", Observation) == []


def test_words_of_a_list_narrow_by_stem_and_phrases_by_order(alice: Any) -> None:
    right = note(alice, "Trains run at night from Paris.")
    note(alice, "At night nothing runs; the trains stand in Paris.")
    assert kept('"run at night"') == [right]
    assert len(kept("running train")) == 2
    assert kept("train -nothing") == [right]
    assert kept("train bus") == []


def test_a_phrase_of_a_script_without_spaces_is_found(alice: Any) -> None:
    right = note(alice, "晨星公司宣布固态电池试产线投产。")
    note(alice, "电池固态")
    assert kept('"固态电池"') == [right]


def test_a_question_of_filters_alone_has_no_words() -> None:
    assert not parse("kind:rule -tag:x").has_words
    assert parse("kind:rule word").has_words
    assert Question("", "").problems == ()


def test_thousands_of_words_left_out_are_cut_and_looked_for_at_once(
    alice: Any, django_assert_num_queries: Any
) -> None:
    right = note(alice, "Trains run at night.")
    note(alice, "Trains run by day.")
    asked = parse("train -day " + " ".join(f"-left{number}" for number in range(900)))
    assert (len(asked.without), len(asked.problems)) == (100, 1)
    with django_assert_num_queries(3):  # what holds the word, what is left out, the rows
        assert list(holding(Note.objects.for_user(alice), asked, ENGLISH, alice)) == [right]


def test_of_a_text_that_isnt_a_question_ten_problems_are_reported_and_the_others_counted() -> None:
    problems = parse(" ".join(f"kind:no{number}" for number in range(500))).problems
    assert len(problems) == 11
    assert problems[-1] == "490 other parts of the search weren’t understood."


def test_fifteen_hundred_topics_are_cut_and_looked_up_at_once(alice: Any) -> None:
    note(alice)
    names = [f"topic:{','.join(f'none{first}x{n}' for n in range(30))}" for first in range(50)]
    asked = parse(" ".join(names))
    assert sum(len(one.values) for one in asked.filters) == 200
    assert "Only the first 50 operators and 200 values were used." in asked.problems
    kept = narrowed(Note.objects.for_user(alice), asked, zone=UTC)
    assert str(kept.query).count("SELECT") < 10
