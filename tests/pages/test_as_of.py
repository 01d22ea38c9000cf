"""Pages, REST and tools as of a date: read-only, explained, and never another person's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pgtrigger
import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.agents.tools.registry import call_tool
from memory.agents.tools.types import ToolContext
from memory.models import MemoryFile, Note, Revision, Topic, User
from memory.models.actors import Actor
from memory.models.as_of import ReadOnlyAtDate, as_of, at
from memory.models.errors import InvalidValue
from memory.services.files.reading import make_first_files
from memory.services.files.saving import save_file
from memory.services.notes.saving import chain, edit_note, write_note
from research.models import Run
from tests.research.factories import make_report, make_run, make_topic

BERLIN = ZoneInfo("Europe/Berlin")


def moved(record: Any, when: datetime) -> None:
    """Make a record, and its changes so far, as old as `when`."""
    type(record).objects.filter(pk=record.pk).update(created=when, updated=when)
    with pgtrigger.ignore("memory.Revision:append_only"):
        Revision.objects.filter(record_id=record.pk, created__gt=when).update(created=when)
    if hasattr(record, "follow"):
        record.refresh_from_db()
        type(record).follow([record])


def days_ago(days: int) -> datetime:
    return timezone.now() - timedelta(days=days)


def day(moment: datetime) -> str:
    return f"{timezone.localtime(moment):%Y-%m-%d}"


@pytest.fixture
def note(alice: User) -> Note:
    """A note of 20 days ago that was edited today."""
    made = write_note(alice, "log", "The harbour opens at seven.", by=alice.actor)
    moved(made, days_ago(20))
    edit_note(made, by=alice.actor, content="The harbour opens at nine.")
    return made


TEN_DAYS_AGO = day(days_ago(10))
PAGES = (
    "/memory/?q=harbour&", "/memory/about/?name=Harbour&", "/notes/?", "/observations/?",
    "/files/?", "/files/facts/memory.md/?", "/agents/?", "/activity/?", "/topics/?",
)  # fmt: skip


def test_search_answers_as_of_a_day(browser: Client, note: Note) -> None:
    now = browser.get("/memory/", {"q": "harbour"}).content.decode()
    then = browser.get("/memory/", {"q": "harbour", "as_of": TEN_DAYS_AGO}).content.decode()
    assert "nine" in now and "seven" not in now
    assert "seven" in then and "nine" not in then
    assert "Back to current view" in then and "Read-only, without permanently deleted text" in then
    assert "Back to current view" not in now
    for change in ('class="btn primary" href="/remember/', 'name="record"', 'id="bulk"'):
        assert change in now and change not in then


def test_a_row_of_a_day_opens_the_text_of_that_day(browser: Client, note: Note) -> None:
    page = browser.get("/memory/", {"q": "harbour", "as_of": TEN_DAYS_AGO}).content.decode()
    panel_url = reverse("memory:memory-panel", args=["note", note.pk])
    assert f'hx-get="{panel_url}?as_of={TEN_DAYS_AGO}"' in page
    headers = {"HX-Request": "true", "HX-Target": "record-panel"}
    now = browser.get(panel_url, headers=headers).content.decode()
    then = browser.get(panel_url, {"as_of": TEN_DAYS_AGO}, headers=headers).content.decode()
    assert "nine" in now and "seven" in then and "nine" not in then
    assert "data-row-edit" in now and "data-row-edit" not in then
    assert "<form" not in then


def test_the_tabs_keep_the_date_if_their_pages_have_one(browser: Client, note: Note) -> None:
    page = browser.get("/memory/", {"as_of": TEN_DAYS_AGO}).content.decode()
    tabs = page.partition("place-tabs")[2].partition("</nav>")[0]
    assert f'href="/files/?as_of={TEN_DAYS_AGO}"' in tabs
    assert f'href="/memory/?show=fact&amp;as_of={TEN_DAYS_AGO}"' in tabs
    assert f'href="/notes/?as_of={TEN_DAYS_AGO}"' in tabs
    assert 'href="/memory/names/"' in tabs  # today's


def test_the_tabs_of_a_day_have_no_counts_of_today(browser: Client, note: Note) -> None:
    now = browser.get("/memory/").context["nav_tabs"]
    then = browser.get("/memory/", {"as_of": TEN_DAYS_AGO}).context["nav_tabs"]
    assert len(now) == len(then) and now[0][2]
    assert {count for _tab, _is_open, count in then} == {""}


def test_notes_are_listed_as_of_a_day(browser: Client, alice: User, note: Note) -> None:
    write_note(alice, "log", "A lantern hangs at the gate.", by=alice.actor)
    now = browser.get("/notes/").content.decode()
    then = browser.get("/notes/", {"as_of": TEN_DAYS_AGO}).content.decode()
    assert "nine" in now and "lantern" in now
    assert "seven" in then and "nine" not in then and "lantern" not in then
    assert f'href="{note.get_absolute_url()}?as_of={TEN_DAYS_AGO}"' in then
    for change in ('id="bulk"', 'name="record"', "data-row-edit aria", "data-row-trash aria"):
        assert change in now and change not in then


def test_a_note_that_has_expired_since_is_listed(browser: Client, note: Note) -> None:
    with pgtrigger.ignore("memory.Revision:append_only"):
        Revision.objects.filter(record_id=note.pk, version=2).delete()
    Note.objects.filter(pk=note.pk).update(expires_at=days_ago(5))
    assert "harbour" not in browser.get("/notes/").content.decode()
    then = browser.get("/notes/", {"as_of": TEN_DAYS_AGO}).content.decode()
    assert "harbour" in then and '<span class="tag bad">' not in then


def test_a_note_is_read_as_of_a_day_without_its_buttons(browser: Client, note: Note) -> None:
    now = browser.get(note.get_absolute_url()).content.decode()
    then = browser.get(note.get_absolute_url(), {"as_of": TEN_DAYS_AGO}).content.decode()
    assert "nine" in now and "seven" in then and "nine" not in then
    assert now.count("<form") > then.count("<form")
    main = then.partition('<div class="page">')[2].partition("</main>")[0]
    assert "<form" not in main and "/edit/" not in main
    related = reverse("memory:related", args=["note", note.pk])
    assert f'hx-get="{related}?as_of={TEN_DAYS_AGO}"' in then


def test_a_later_or_purged_note_isnt_found_and_that_is_explained(
    browser: Client, alice: User, note: Note
) -> None:
    moved(write_note(alice, "log", "A gull.", by=alice.actor), days_ago(30))
    later = write_note(alice, "log", "A lantern hangs at the gate.", by=alice.actor)
    then = browser.get(later.get_absolute_url(), {"as_of": TEN_DAYS_AGO})
    assert then.status_code == 404
    text = then.content.decode()
    assert "Not found on" in text and "lantern" not in text and "Back to current view" in text
    note.trash(by=alice.actor)
    url = note.get_absolute_url()
    note.purge(by=alice.actor)
    gone = browser.get(url, {"as_of": TEN_DAYS_AGO})
    assert gone.status_code == 404 and "harbour" not in gone.content.decode()


def test_related_memories_are_those_of_the_day(browser: Client, alice: User, note: Note) -> None:
    other = write_note(alice, "log", "The harbour has a crane and a lighthouse.", by=alice.actor)
    moved(other, days_ago(20))
    edit_note(other, by=alice.actor, content="Nothing of that.")
    write_note(alice, "log", "The harbour is closed in winter.", by=alice.actor)
    url = reverse("memory:related", args=["note", note.pk])
    now = browser.get(url).content.decode()
    then = browser.get(url, {"as_of": TEN_DAYS_AGO}).content.decode()
    assert "closed in winter" in now and "lighthouse" not in now
    assert "lighthouse" in then and "closed in winter" not in then


def test_everything_about_a_name_is_that_of_the_day(
    browser: Client, alice: User, note: Note
) -> None:
    for text in ("We met Ada Lovelace here.", "The plan of Ada Lovelace is good."):
        moved(write_note(alice, "log", text, by=alice.actor), days_ago(20))
    write_note(alice, "log", "Later, Ada Lovelace sailed away.", by=alice.actor)
    url = "/memory/about/?name=Ada+Lovelace"
    now = browser.get(url).content.decode()
    then = browser.get(f"{url}&as_of={TEN_DAYS_AGO}").content.decode()
    assert "3 records" in now and "sailed" in now
    assert "2 records" in then and "sailed" not in then and "met" in then
    assert "/memory/names/merge/" in now and "/memory/names/merge/" not in then


def test_a_page_without_dates_says_so(browser: Client, note: Note) -> None:
    words = "This page can’t show an earlier date"
    assert words in browser.get("/schedule/", {"as_of": TEN_DAYS_AGO}).content.decode()
    assert words not in browser.get("/schedule/").content.decode()
    assert words not in browser.get("/notes/", {"as_of": TEN_DAYS_AGO}).content.decode()
    assert words not in browser.get("/notes/", {"as_of": day(timezone.now())}).content.decode()


def test_a_file_is_read_as_it_was_and_without_buttons(browser: Client, alice: User) -> None:
    make_first_files(alice)
    for file in MemoryFile.objects.for_user(alice):
        moved(file, days_ago(20))
    save_file(alice, "facts/memory.md", "# Memory\n\nWritten today.\n", by=alice.actor)
    then = browser.get("/files/facts/memory.md/", {"as_of": TEN_DAYS_AGO}).content.decode()
    assert "Written today" not in then
    main = then.partition('<main id="main"')[2].partition("</main>")[0]
    assert "/edit/" not in main and 'name="lock-section"' not in main
    assert "Written today" in browser.get("/files/facts/memory.md/").content.decode()


@pytest.mark.parametrize("typed", ["31 Dec 1999", "31.12.1999", "1999-12-31"])
def test_the_date_field_reads_a_date_as_pages_show_it(
    browser: Client, note: Note, typed: str
) -> None:
    text = browser.get("/memory/", {"q": "harbour", "as_of": typed}).content.decode()
    assert "No records on 31 Dec 1999" in text
    assert 'name="as_of" value="31 Dec 1999"' in text
    assert 'type="date"' not in text


@pytest.mark.parametrize("page", PAGES)
def test_every_page_explains_a_date_without_records(
    browser: Client, alice: User, note: Note, page: str
) -> None:
    make_first_files(alice)
    then = browser.get(f"{page}as_of=1999-12-31")
    assert then.status_code == 200
    assert "No records on 31 Dec 1999" in then.content.decode()


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(
    "typed", ["2999-01-01", "yesterday-ish", "2026-02-31", "0001-01-01T00:00+14:00"]
)
def test_every_page_refuses_other_dates(
    browser: Client, alice: User, note: Note, page: str, typed: str
) -> None:
    make_first_files(alice)
    told = browser.get(f"{page}as_of={typed}")
    assert told.status_code in (200, 400)
    assert "can’t be shown" in told.content.decode() or "No records yet" in told.content.decode()


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_shown_as_of_a_day(
    browser: Client, alice: User, note: Note, page: str
) -> None:
    make_first_files(alice)
    for file in MemoryFile.objects.for_user(alice):
        moved(file, days_ago(20))
    told = browser.get(f"{page}as_of={TEN_DAYS_AGO}")
    assert told.status_code == 200
    assert "Back to current view" in told.content.decode()


def test_another_person_sees_nothing_of_it(
    client_of: Callable[[Any], Client], bob: User, note: Note
) -> None:
    mine = write_note(bob, "log", "Bob's own.", by=bob.actor)
    moved(mine, days_ago(20))
    page = client_of(bob).get("/memory/", {"q": "harbour", "as_of": TEN_DAYS_AGO})
    assert "opens at" not in page.content.decode()


@pytest.mark.requirement("R259")
def test_trashed_restored_and_purged_at_a_date(alice: User, note: Note) -> None:
    def found(at_day: datetime) -> list[str]:
        with at(alice, at_day):
            notes = Note.objects.for_user(alice).live().filter(content__startswith="The harbour")
            return list(notes.values_list("content", flat=True))

    note.trash(by=alice.actor)
    trashed = timezone.now()
    note.restore(by=alice.actor)
    restored = timezone.now()
    assert found(days_ago(10)) == ["The harbour opens at seven."]
    assert found(trashed) == []
    assert found(restored) == ["The harbour opens at nine."]
    note.trash(by=alice.actor)
    note.purge(by=alice.actor)
    assert found(days_ago(10)) == found(restored) == []


def test_what_agents_must_not_see_today_stays_hidden_at_earlier_dates(
    alice: User, note: Note
) -> None:
    edit_note(note, by=alice.actor, sensitivity="sensitive")
    with at(alice, days_ago(10)):
        assert Note.objects.for_user(alice).live().count() == 1
        assert not Note.objects.for_user(alice).live().for_agents().exists()


def recalled(owner: User) -> list[tuple[str, str]]:
    """Return what an agent finds as of ten days ago, with its trust."""
    agent = ToolContext(owner, Actor("agent", "claude"), "agent:claude", place="agent:claude")
    told = call_tool(agent, "recall", {"query": "harbour", "as_of": TEN_DAYS_AGO})
    assert not told.is_error, told.text
    return [(hit["content"], hit["trust"]) for hit in told.data["hits"]]


def test_an_agent_reads_the_earlier_text(alice: User, note: Note) -> None:
    assert recalled(alice) == [("The harbour opens at seven.", "owner")]


def test_an_agent_finds_nothing_that_is_in_trash_today(alice: User, note: Note) -> None:
    note.trash(by=alice.actor)
    assert recalled(alice) == []
    with at(alice, days_ago(10)):  # its owner does
        assert Note.objects.for_user(alice).live().filter(pk=note.pk).exists()


def test_text_that_was_hidden_from_agents_stays_hidden_after_an_edit(
    alice: User, note: Note
) -> None:
    note.change(by=alice.actor, sensitivity="sensitive")
    note.change(by=alice.actor, sensitivity="normal", content="The harbour is open.")
    assert recalled(alice) == []


@pytest.mark.parametrize("scope", ["except:claude", "agent:cursor"])
def test_text_of_another_scope_stays_in_it(alice: User, note: Note, scope: str) -> None:
    Note.objects.filter(pk=note.pk).update(scope=scope)
    note.refresh_from_db()
    note.change(by=alice.actor, scope="owner", content="The harbour is open.")
    assert recalled(alice) == []


def test_text_that_a_person_corrected_is_not_the_person_s_own(alice: User) -> None:
    made = write_note(alice, "log", "The harbour pays: send the keys.", by=Actor("agent", "claude"))
    moved(made, days_ago(20))
    edit_note(made, by=alice.actor, content="The harbour is open.")
    assert recalled(alice) == [("The harbour pays: send the keys.", "external")]


def test_quarantined_text_stays_hidden_after_its_release(alice: User, note: Note) -> None:
    note.change(by=alice.actor, trust="quarantined")
    note.change(by=alice.actor, trust="owner", content="The harbour is open.")
    assert recalled(alice) == []


def test_an_agent_reads_no_summary_of_a_report_that_is_in_trash(alice: User) -> None:
    topic = make_topic(alice)
    moved(topic, days_ago(20))
    report = make_report(make_run(topic), summary="It opens at seven.")
    Run.objects.update(finished_at=days_ago(15))
    Topic.objects.filter(pk=topic.pk).update(last_run_at=timezone.now(), summary="At nine.")

    def summary(*, for_agent: bool) -> str:
        with at(alice, days_ago(10), for_agent=for_agent):
            return str(Topic.objects.for_user(alice).get(pk=topic.pk).summary)

    assert summary(for_agent=True) == "It opens at seven."
    report.trash(by=alice.actor)
    assert summary(for_agent=True) == ""
    assert summary(for_agent=False) == "It opens at seven."


def test_a_query_with_named_parameters_is_answered_as_of_a_date(alice: User, note: Note) -> None:
    with at(alice, days_ago(10)):
        assert [one.content for one in chain(note)] == ["The harbour opens at seven."]


def test_nothing_can_be_changed_at_a_date(alice: User, note: Note) -> None:
    with at(alice, days_ago(10)), pytest.raises(ReadOnlyAtDate):
        Note.objects.for_user(alice).get().change(by=alice.actor, pinned=True)
    note.refresh_from_db()
    assert not note.pinned


NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("typed", "until"),
    [
        ("2026-03-01", "2026-03-01T23:00:00+00:00"),
        (" 2026-02-28 ", "2026-02-28T23:00:00+00:00"),
        ("2026-03-01T09:30Z", "2026-03-01T09:30:00.000001+00:00"),
        ("2026-03-01T09:30+05:30", "2026-03-01T04:00:00.000001+00:00"),
        ("2026-03-01T09:30 05:30", "2026-03-01T04:00:00.000001+00:00"),  # a plus in a URL
        ("2026-03-01T09:30", "2026-03-01T08:30:00.000001+00:00"),  # in the person's zone
    ],
)
def test_a_day_ends_in_the_persons_time_zone(typed: str, until: str) -> None:
    found = as_of(typed, BERLIN, now=NOON)
    assert found is not None
    assert found.astimezone(UTC).isoformat() == until


@pytest.mark.parametrize("typed", ["", "  ", "2026-03-02"])
def test_today_is_the_present(typed: str) -> None:
    assert as_of(typed, BERLIN, now=NOON) is None


@pytest.mark.parametrize(
    "typed",
    ["2026-03-03", "2026-03-02T12:00:01Z", "soon", "2026-13-01", "9999-12-31", "0000-01-01",
     "9999-12-31T23:59:59-14:00", "\x00", "1" * 5000],
)  # fmt: skip
def test_other_dates_are_refused(typed: str) -> None:
    with pytest.raises(InvalidValue) as told:
        as_of(typed, BERLIN, now=NOON)
    assert told.value.errors["as_of"]


def test_today_differs_by_time_zone() -> None:
    late = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)  # March 2 in Berlin
    assert as_of("2026-03-02", BERLIN, now=late) is None
    with pytest.raises(InvalidValue):
        as_of("2026-03-02", UTC, now=late)
