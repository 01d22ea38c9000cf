"""Messages that rows store as a code with parameters, for readers of any language."""

from __future__ import annotations

import copy
import pickle
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.http import QueryDict
from django.utils import translation

from beacon_site.text.cleaning import clean, shorten
from beacon_site.text.messages import (
    Message,
    gettext,
    is_stored,
    joined,
    loaded,
    loaded_in,
    ngettext,
    stored,
    worded,
)
from memory.models import Activity, Revision, User
from memory.services.notes.saving import write_note
from research.models import Run, Step
from research.pages import home, topic_list
from research.services.sources import figures
from research.services.topics import facts as topic_facts
from tests.research.factories import make_fact, make_hit, make_run, make_topic

LATE = "the worker stopped unexpectedly %(n)d times"
FAILED = "%(step)s failed: %(why)s"
DEEP: Any = {"parts": ["x"]}
for _n in range(5_000):
    DEEP = {"parts": [DEEP]}


def _nested() -> str:
    why = RuntimeError(gettext(LATE) % {"n": 3})
    return gettext(FAILED) % {"step": "write", "why": why.args[0]}


def test_a_message_is_its_text_and_knows_its_code_through_an_exception() -> None:
    text = gettext(FAILED) % {"step": "write", "why": ValueError(gettext(LATE) % {"n": 3}).args[0]}
    raised = str(ValueError(gettext(LATE) % {"n": 3}))

    assert text == "write failed: the worker stopped unexpectedly 3 times"
    assert stored(raised) == {"code": LATE, "with": {"n": 3}}
    assert stored(text) == {
        "code": FAILED,
        "with": {"step": "write", "why": {"code": LATE, "with": {"n": 3}}},
    }


def test_the_reader_gets_it_in_their_language_with_what_is_inside_it() -> None:
    kept = stored(_nested())

    with translation.override("de"):
        expected = translation.gettext(FAILED) % {
            "step": "write",
            "why": translation.gettext(LATE) % {"n": 3},
        }
        assert worded(kept) == expected
        assert "worker stopped" not in worded(kept)


def test_amounts_keep_their_digits_and_exceptions_their_code() -> None:
    limit = gettext("the monthly limit of $%(most)s has been reached")
    text = limit % {"most": Decimal("5.00")}
    assert worded(stored(text)) == text and "$5.00" in text

    why = ValueError(gettext(LATE) % {"n": 3})
    assert stored(gettext(FAILED) % {"step": "a", "why": why}) == {
        "code": FAILED,
        "with": {"step": "a", "why": {"code": LATE, "with": {"n": 3}}},
    }


def test_a_day_is_stored_in_no_language_and_shown_in_the_readers() -> None:
    text = gettext("last run on %(day)s") % {"day": date(2026, 10, 14)}
    kept = stored(text)

    assert text == "last run on 14 Oct 2026"
    assert kept == {"code": "last run on %(day)s", "with": {"day": {"day": "2026-10-14"}}}
    with translation.override("de"):
        assert worded(kept).endswith("14. Okt 2026")


@pytest.mark.parametrize("count", [1, 5])
def test_a_number_gets_the_plural_of_the_readers_language(count: int) -> None:
    text = ngettext("%(n)d page read", "%(n)d pages read", count) % {"n": count}
    for language in ("en", "de", "ja"):
        with translation.override(language):
            assert worded(stored(text)) == translation.ngettext(
                "%(n)d page read", "%(n)d pages read", count
            ) % {"n": count}


def test_parts_are_joined_and_each_is_translated() -> None:
    parts = [gettext(LATE) % {"n": 1}, "arXiv", gettext(LATE) % {"n": 2}]
    told = joined("; ", parts)
    added = parts[0] + "; " + parts[1] + ("; " + parts[2])

    assert told == "; ".join(parts) == added
    assert stored(told) == stored(added)
    assert joined(", ", []) == "" and joined(", ", ["a", "b"]) == "a, b"
    with translation.override("fr"):
        assert worded(stored(told)).count("arXiv") == 1 and "worker stopped" not in worded(
            stored(told)
        )


def test_what_changes_nothing_keeps_the_code_and_what_does_gives_plain_text() -> None:
    text = gettext(LATE) % {"n": 3}
    for same in (clean(text)[0], shorten(text, 200), copy.deepcopy(text), pickle.loads(pickle.dumps(text))):  # fmt: skip # noqa: S301
        assert stored(same) == stored(text)
    for other in (text[:5], f"{text}!", text.upper(), shorten(text, 10)):
        assert not isinstance(other, Message)


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"code": FAILED},
        {"code": FAILED, "with": {"step": "a"}},
        {"code": FAILED, "with": []},
        {"code": 7},
        {"parts": "ab"},
        {"code": LATE, "with": {"n": "many"}},
        {"code": LATE, "plural": 3, "n": "x"},
        {"parts": 7},
        {"parts": None},
        {"code": "%(x)c", "with": {"x": 1_000_000_000}},
        {"code": LATE, "with": {"n": float("inf")}},
        DEEP,
    ],
)
def test_a_broken_row_still_gives_a_text(broken: dict) -> None:
    assert isinstance(loaded(broken), str)


@pytest.mark.django_db
def test_rows_hold_codes_and_pages_of_any_language_read_them(alice: User) -> None:
    run = make_run(make_topic(alice))
    run.warn_afterwards(_nested())
    run.warn_afterwards("A provider’s own words.")
    run.warn_afterwards(_nested())
    lookalike = '{"code": "stop"} was the answer'
    step = Step.objects.create(run=run, name="write", detail=_nested(), warning=lookalike)

    with connection.cursor() as cursor:
        cursor.execute("SELECT warnings::text FROM research_run WHERE id = %s", [run.pk])
        [raw] = cursor.fetchone()
        cursor.execute("SELECT detail FROM research_step WHERE id = %s", [step.pk])
        [detail] = cursor.fetchone()
    assert "failed: the worker" not in raw + detail and FAILED in raw and FAILED in detail

    for language in ("en", "es"):
        with translation.override(language):
            again, part = Run.objects.get(pk=run.pk), Step.objects.get(pk=step.pk)
            assert again.warnings == [worded(stored(_nested())), "A provider’s own words."]
            assert part.detail == again.warnings[0] and part.warning == lookalike
            # Saved again by a reader of this language, the code stays.
            again.save()
            part.save()
    with connection.cursor() as cursor:
        cursor.execute("SELECT warnings::text FROM research_run WHERE id = %s", [run.pk])
        assert cursor.fetchone() == (raw,)
    assert list(Step.objects.values_list("warning", flat=True)) == [lookalike]


@pytest.mark.django_db
def test_what_is_read_by_sql_is_in_the_readers_language_too(alice: User) -> None:
    topic = make_topic(alice)
    fact = make_fact(topic, "PostgreSQL 12 is the newest.", make_run(topic))
    run, text = make_run(topic, saved=False), _nested()
    Step.objects.create(run=run, name="write", state="running", detail=text, warning=text)
    make_hit(run, 1, reading="failed", reason=text)
    fact.retire(by=alice.actor, why=text)

    with translation.override("de"):
        told = worded(stored(text))
        [row] = figures.page_of(topic, figures.SourcesFilter(by="page"), figures.Rules.of(topic))
        [going] = home.unfinished_runs(alice)
        [gone] = topic_facts.timeline_of(topic).rows
        reason = gone.change.reason if gone.change else ""
        assert told != text and row.why == told and reason == told
        assert going["detail"] == told


@pytest.mark.django_db
def test_a_message_that_was_in_a_list_can_be_stored_in_a_text_column(alice: User) -> None:
    run = make_run(make_topic(alice))
    text = ngettext("%(n)d page read", "%(n)d pages read", 2) % {"n": 2}
    Run.objects.filter(pk=run.pk).update(warnings=[text])
    [warning] = Run.objects.get(pk=run.pk).warnings  # jsonb has another order of keys

    Run.objects.filter(pk=run.pk).update(error=warning)

    assert Run.objects.get(pk=run.pk).error == "2 pages read"


@pytest.mark.django_db
def test_search_looks_at_the_text_that_the_reader_sees(alice: User) -> None:
    topic = make_topic(alice)
    run = make_run(topic, saved=False, status="failed", error=_nested())
    other = make_run(topic, saved=False, status="failed", error="The code was 7.")

    def found(words: str) -> set[int]:
        return {
            one["run"].pk
            for one in topic_list.runs_of(topic, QueryDict(f"q={words}"), cursor="").rows
        }

    assert found("STOPPED") == {run.pk} and found("code") == {other.pk} and found("with") == set()
    with translation.override("de"):
        german = worded(stored(_nested())).split()[0]
        assert found(german) == {run.pk} and found("stopped") == set()


@pytest.mark.django_db
def test_purging_a_record_redacts_no_message_for_its_keys_or_code(alice: User) -> None:
    """A deleted word can be a key of the stored form, or a word of Beacon's own message."""
    gone = write_note(
        alice, "log", "The Zweitakter parts were sold with a plural code.", by=alice.actor
    )
    kept = write_note(alice, "log", "Tea is hot.", by=alice.actor)
    kept.change(by=alice.actor, why=_nested(), confidence=0.5)
    quoted = write_note(alice, "log", "Coffee is hot.", by=alice.actor)
    why = gettext(FAILED) % {
        "step": "merge",
        "why": "The Zweitakter parts were sold with a plural code",
    }
    quoted.change(by=alice.actor, why=why, confidence=0.5)
    gone.trash(by=alice.actor)
    gone.purge(by=alice.actor)

    reasons = Revision.objects.filter(record_id__in=[kept.pk, quoted.pk]).exclude(reason="")
    assert _nested() in reasons.values_list("reason", flat=True)
    assert not any("Zweitakter" in one for one in reasons.values_list("reason", flat=True))


@pytest.mark.django_db
def test_a_reason_in_an_activity_line_is_read_in_the_readers_language(alice: User):
    why = gettext(LATE) % {"n": 3}
    line = Activity.log(alice, alice.actor, "run-requeued", why=why, rows=2, names=["code"])

    with translation.override("de"):
        detail = Activity.objects.get(pk=line.pk).detail
    assert detail["why"] == worded_in("de", {"code": LATE, "with": {"n": 3}}) != why
    assert (detail["rows"], detail["names"]) == (2, ["code"])


def worded_in(language: str, stored_message: Any) -> str:
    with translation.override(language):
        return worded(stored_message)


@pytest.mark.parametrize(
    "value",
    [{"code": 5}, {"code": "x", "more": 1}, {"parts": "x"}, {"with": {}}, {}, [], "code"],
)
def test_an_object_that_only_looks_like_a_message_stays_as_it_is(value: Any):
    assert not is_stored(value)
    assert loaded_in([value]) == [value]
    assert loaded_in({"why": value}) == {"why": value}
