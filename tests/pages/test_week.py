"""The week's page: what was learned, corrected and forgotten in one week, of one person."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from html import unescape
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from django.utils.html import strip_tags

from memory.models import Activity, Note, Revision, User
from memory.models.actors import RESEARCH, Actor
from research.pages.week import MAX_LINES, Week
from tests.research.factories import make_fact, make_topic
from tests.research.notice_cast import saved_run

PAGE = reverse("research:week")
THIS_WEEK = Week.named("")


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


def text_of(response: Any) -> str:
    """Return the words of the page's main part."""
    main = response.content.decode().partition("<main")[2].partition("</main>")[0]
    return " ".join(unescape(strip_tags(f"<main{main}")).split())


def noted(owner: User, content: str, by: Actor | None = None) -> Note:
    note = Note.objects.create(owner=owner, content=content)
    Revision.record_first([note], by=by or owner.actor)
    return note


@pytest.mark.requirement("R379")
def test_it_says_what_was_learned_corrected_and_forgotten(browser: Client, alice: User):
    saved_run(make_topic(alice, "Databases"), "Version 18.1 is out.")
    noted(alice, "Nightly builds run at two", Actor("agent", "claude"))
    wrong = noted(alice, "Billing runs on PostgreSQL 13", Actor("agent", "claude"))
    wrong.change(by=alice.actor, content="Billing runs on PostgreSQL 17")
    noted(alice, "The old office is in Bonn").trash(by=alice.actor)

    answer = browser.get(PAGE)

    html = answer.content.decode()
    text = text_of(answer)
    assert "This week" in text
    learned, corrected, forgotten = (
        text.index(f"{part} ") for part in ("Learned", "Corrected", "Forgotten")
    )
    assert learned < text.index("Version 18.1 is out.") < corrected
    assert "2 notes" in text[learned:corrected]
    assert "<del>13</del> <ins>17</ins>" in html
    assert corrected < text.index("Billing runs on PostgreSQL") < forgotten
    assert forgotten < text.index("The old office is in Bonn")


def test_each_week_has_only_its_own(browser: Client, alice: User):
    note = noted(alice, "The plan of last week")
    note.change(by=alice.actor, content="The plan of this week")
    before = THIS_WEEK.before

    assert "The plan of last this week" in text_of(browser.get(PAGE))
    html = browser.get(PAGE, {"week": before}).content.decode()
    assert "Nothing happened this week" in html
    assert f"?week={THIS_WEEK.key}" in html


def test_nothing_of_others_and_nothing_deleted_permanently_is_on_it(
    browser: Client, alice: User, bob: User
):
    saved_run(make_topic(bob, "Databases"), "Version 18.1 is out.")
    noted(bob, "Bob's plan").trash(by=bob.actor)
    gone = noted(alice, "A secret plan")
    gone.change(by=alice.actor, content="A secret plan, changed")
    gone.trash(by=alice.actor)
    gone.purge(by=alice.actor)

    text = text_of(browser.get(PAGE))

    for words in ("18.1", "Databases", "Bob", "secret"):
        assert words not in text
    assert "deleted permanently" in text


def test_a_fact_marked_as_wrong_and_a_resolved_conflict_are_corrections(
    browser: Client, alice: User
):
    topic = make_topic(alice, "Databases")
    make_fact(topic, text="Version 13 is supported.").strike(by=alice.actor)
    Activity.log(alice, alice.actor, "conflict-resolved", label="13 or 14", how="keep")

    corrected = browser.get(PAGE).context["corrected"]

    assert [line.label for line in corrected["shown"]] == ["13 or 14", "Version 13 is supported."]


def test_what_a_run_changes_by_itself_is_not_a_correction(browser: Client, alice: User):
    note = noted(alice, "Version 13 is the newest")
    note.change(by=RESEARCH, content="Version 14 is the newest")

    assert browser.get(PAGE).context["corrected"]["total"] == 0


def test_what_was_restored_is_not_forgotten(browser: Client, alice: User):
    note = noted(alice, "The old office is in Bonn")
    note.trash(by=alice.actor)
    note.restore(by=alice.actor)

    assert browser.get(PAGE).context["forgotten"]["total"] == 0


def test_a_source_that_was_deleted_is_one_line(browser: Client, alice: User):
    note = noted(alice, "From a page")
    note.change(by=alice.actor, trashed_at=timezone.now(), source="forget:1")
    Activity.log(alice, alice.actor, "forgot-source", label="example.org", records=1, key="1")

    forgotten = browser.get(PAGE).context["forgotten"]
    assert [line.label for line in forgotten["shown"]] == ["example.org"]


def test_of_many_lines_the_newest_are_shown_and_the_rest_is_in_activity(
    browser: Client, alice: User
):
    for number in range(MAX_LINES + 2):
        noted(alice, f"Note {number}").trash(by=alice.actor)

    forgotten = browser.get(PAGE).context["forgotten"]

    assert len(forgotten["shown"]) == MAX_LINES
    assert forgotten["shown"][0].label == f"Note {MAX_LINES + 1}"
    assert forgotten["more"] == 2
    html = browser.get(PAGE).content.decode()
    assert f"?from={THIS_WEEK.first}&amp;to={THIS_WEEK.last}" in html


def test_the_number_of_queries_is_fixed(browser: Client, alice: User):
    def queries() -> int:
        with CaptureQueriesContext(connection) as found:
            browser.get(PAGE)
        return len(found)

    saved_run(make_topic(alice, "Databases"), "Version 18.1 is out.")
    noted(alice, "One").trash(by=alice.actor)
    noted(alice, "Two").change(by=alice.actor, content="Two and a half")
    browser.get(PAGE)
    few = queries()
    saved_run(make_topic(alice, "Cells"), "A cell costs 80 dollars.", "A cell lasts a year.")
    for number in range(9):
        noted(alice, f"Note {number}").trash(by=alice.actor)
        noted(alice, f"Text {number}").change(by=alice.actor, content=f"Other {number}")

    assert queries() == few


@pytest.mark.parametrize(
    "key", ["", "x", "2026", "2026-W", "2026-W0", "2026-W54", "0000-W01", "99999-W01", "²-W1", "9999-W52"]
)  # fmt: skip
def test_of_a_name_that_isnt_a_week_the_current_one_is_shown(browser: Client, key: str):
    answer = browser.get(PAGE, {"week": key})

    assert answer.status_code == 200
    assert answer.context["week"] == THIS_WEEK


@pytest.mark.parametrize("key", ["0001-W01", "0001-W02", "1999-W52", "2020-W53"])
def test_weeks_long_ago_are_empty(browser: Client, key: str):
    answer = browser.get(PAGE, {"week": key})

    assert answer.status_code == 200
    assert answer.context["week"].key == key
    assert "Nothing happened this week" in text_of(answer)


def test_a_week_starts_on_monday_in_the_persons_time_zone(browser: Client, alice: User):
    zone = ZoneInfo("Pacific/Auckland")
    User.objects.filter(pk=alice.pk).update(time_zone=zone.key)
    monday = datetime.combine(THIS_WEEK.first - timedelta(days=7), datetime.min.time(), zone)
    for at, content in ((monday, "On Monday"), (monday - timedelta(seconds=1), "On Sunday")):
        note = Note.objects.create(owner=alice, content=content)
        Revision.record_first([note], by=alice.actor)
        Activity.log(alice, alice.actor, "conflict-resolved", label=content)
        Activity.objects.filter(label=content).update(created=at)

    week = Week(monday.date())
    shown = browser.get(PAGE, {"week": week.key}).context["corrected"]["shown"]
    assert [line.label for line in shown] == ["On Monday"]


def test_a_stranger_is_asked_to_sign_in(client: Client):
    assert client.get(PAGE).status_code == 302
