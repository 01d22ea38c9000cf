"""Remember: one field, a guessed kind, and what is also known; and decisions about contradictions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from beacon_site.text.dates import until_of
from memory.models import Conflict, Note, Observation, Section, TopicFact, User
from memory.pages.remember import guess
from memory.services.files.reading import read_file
from memory.services.files.saving import append_to, save_file
from memory.services.notes.saving import write_note
from memory.services.review import conflicts as conflict_services
from memory.services.review import contradictions
from tests.memory.conflict_cast import topic_of

HTMX = {"HX-Request": "true"}
REMEMBER, KNOWN = reverse("memory:remember"), reverse("memory:also-known")
OLD, NEW = "Billing runs PostgreSQL 13.", "Billing still runs PostgreSQL 12.22."
AUCKLAND = ZoneInfo("Pacific/Auckland")
THURSDAY = date(2026, 11, 26)


@pytest.fixture
def known(alice: User) -> Note:
    return write_note(alice, "log", OLD, by=alice.actor)


def written(owner: User) -> list[tuple[str, str]]:
    notes = Note.objects.for_user(owner).live().exclude(kind__in=Note.IDENTITY)
    seen = Observation.objects.for_user(owner).live()
    return [(one.kind, one.content) for one in notes] + [(o.category, o.content) for o in seen]


# --- guessing ---


@pytest.mark.requirement("R250")
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Always take a base backup first.", "rule"),
        ("Never deploy on Friday", "rule"),
        ("Don’t send invoices by mail", "rule"),
        ("Iris prefers reports on Monday", "preference"),
        (OLD, "finding"),
        ("Lesson: ask the maker first.", "lesson"),
        ("The line is closed, therefore prices rise.", "insight"),
        ("Anna is away until 9 December", "log"),
        ("The mustard is in the kitchen", "finding"),
        ("", "finding"),
        ("💥\x00" * 900, "finding"),
    ],
)
def test_the_kind_is_guessed_from_the_words(text: str, kind: str) -> None:
    assert guess(text, THURSDAY)[0] == kind


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("until 9 December", date(2026, 12, 9)),
        ("until December 9th, 2027", date(2027, 12, 9)),
        ("until Friday", date(2026, 11, 27)),
        ("until Thursday", date(2026, 12, 3)),
        ("until the 3rd of May", date(2027, 5, 3)),
        ("until 2026-12-24", date(2026, 12, 24)),
        ("bis 9.12.", date(2026, 12, 9)),
        ("until the end of the month", date(2026, 11, 30)),
        ("for the next two weeks", date(2026, 12, 10)),
        ("until tomorrow", date(2026, 11, 27)),
        ("until 31 June", None),
        ("until 1 January 2020", None),
        ("until further notice", None),
        ("until 99999999", None),
        ("until you may leave", None),
        ("until 30 February 2027", None),
        ("The deadline is 9 December", None),
        ("until " * 5_000, None),
    ],
)
def test_a_day_in_words_is_read(text: str, day: date | None) -> None:
    assert until_of(text, THURSDAY) == day


# --- the page ---


@pytest.mark.requirement("R250")
def test_a_rule_needs_no_evidence_of_a_person(browser: Client, alice: User) -> None:
    text = "Always take a base backup first."
    answer = browser.post(REMEMBER, {"text": text, "next": "/memory/?q=a"})
    assert answer.headers["Location"] == "/memory/?q=a"
    [note] = Note.objects.for_user(alice).filter(kind="rule")
    assert (note.content, note.evidence, note.trust) == (text, [], "owner")


def test_the_chosen_kind_wins_over_the_guess(browser: Client, alice: User) -> None:
    browser.post(REMEMBER, {"text": "Always late: line 9.", "kind": "insight"})
    assert written(alice) == [("insight", "Always late: line 9.")]


def test_until_a_day_expires_unless_it_is_kept(browser: Client, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(time_zone=AUCKLAND.key)
    browser.post(REMEMBER, {"text": "Anna is away for the next two weeks"})
    browser.post(REMEMBER, {"text": "Ben is away for the next two weeks", "keep": "1"})
    anna, ben = Note.objects.for_user(alice).filter(content__contains="away").order_by("content")
    tomorrow = timezone.localdate(timezone=AUCKLAND) + timedelta(days=1)
    end = datetime.combine(tomorrow + timedelta(days=14), time(), AUCKLAND)
    assert anna.expires_at == end
    assert ben.expires_at is None


@pytest.mark.parametrize("text", ["", "   ", "x" * 70_000, "\x00"])
def test_what_cannot_be_remembered_stays_in_the_field(
    browser: Client, alice: User, text: str
) -> None:
    answer = browser.post(REMEMBER, {"text": text})
    assert answer.status_code == 200
    assert 'aria-invalid="true"' in answer.content.decode()
    assert answer.context["text"] == text
    assert written(alice) == []


def test_it_is_sent_once(browser: Client, alice: User) -> None:
    for _time in range(2):
        browser.post(REMEMBER, {"text": "Anna is away for the next two weeks"})
    assert len(written(alice)) == 1


def test_more_fields_keep_what_was_begun(browser: Client) -> None:
    html = browser.get(f"{REMEMBER}?{urlencode({'text': OLD})}").content.decode()
    more = f"{reverse('memory:note-new')}?{urlencode({'text': OLD})}"
    assert more in html
    assert OLD in browser.get(more).content.decode()


def test_another_site_isnt_a_next_page(browser: Client) -> None:
    answer = browser.post(REMEMBER, {"text": OLD, "next": "https://evil.example/"})
    assert answer.headers["Location"].startswith("/observations/")


@pytest.mark.parametrize("address", [REMEMBER, KNOWN])
def test_strangers_sign_in_first(client: Client, address: str) -> None:
    assert "/sign-in/" in client.post(address, {"text": OLD}).headers["Location"]


# --- Already in memory ---


@pytest.mark.requirement("R251")
def test_while_typing_it_says_what_is_also_known(browser: Client, known: Note) -> None:
    html = browser.post(KNOWN, {"text": NEW}, headers=HTMX).content.decode()
    assert "Already in memory" in html
    assert OLD in html
    assert "different version" in html
    assert f"known-{known.pk}" in html


def test_while_typing_it_says_that_it_exists_word_for_word(
    browser: Client, alice: User, known: Note
) -> None:
    write_note(alice, "log", NEW, by=alice.actor)
    answer = browser.post(KNOWN, {"text": f"{OLD.upper()} Tea is hot."}, headers=HTMX)
    same, other = (row["known"] for row in answer.context["known"])
    assert (same.record, same.why, other.said) == (known, "same text", NEW)
    html = answer.content.decode()
    assert "same text" in html
    assert f"known-{known.pk}" not in html  # there is nothing to decide
    own = {"text": OLD, "record": f"note:{known.pk}", "for": "form"}
    assert "same text" not in browser.post(KNOWN, own, headers=HTMX).content.decode()


def test_a_strangers_memory_is_not_known(
    known: Note, bob: User, client_of: Callable[[User], Client]
) -> None:
    html = client_of(bob).post(KNOWN, {"text": NEW}, headers=HTMX).content.decode()
    assert OLD not in html
    mine = client_of(bob).post(KNOWN, {"text": NEW, "record": f"note:{known.pk}"}, headers=HTMX)
    assert mine.status_code == 200


@pytest.mark.parametrize("record", ["note:x", "note", "topic:1", ":", "note:" + "9" * 999])
def test_a_record_that_cannot_be_isnt_an_error(browser: Client, known: Note, record: str) -> None:
    asked = {"content": NEW, "record": record, "for": "form"}
    assert OLD in browser.post(KNOWN, asked, headers=HTMX).content.decode()


def test_a_record_does_not_contradict_itself(browser: Client, known: Note) -> None:
    asked = {"content": NEW, "record": f"note:{known.pk}", "for": "form"}
    assert OLD not in browser.post(KNOWN, asked, headers=HTMX).content.decode()


def test_only_the_new_lines_of_a_file_are_compared(
    browser: Client, alice: User, known: Note
) -> None:
    append_to(alice, "facts/user.md", f"- {NEW}", by=alice.actor)
    path = {"path": "facts/user.md", "for": "form"}
    body = "# Facts\n\n- Billing still runs PostgreSQL 12.22.\n"
    assert OLD not in browser.post(KNOWN, {"content": body, **path}, headers=HTMX).content.decode()
    body += "- Billing runs PostgreSQL 14.\n"
    assert OLD in browser.post(KNOWN, {"content": body, **path}, headers=HTMX).content.decode()


def test_a_saved_line_of_a_file_names_what_it_contradicts(
    browser: Client, alice: User, known: Note
) -> None:
    save_file(alice, "facts/user.md", "# User\n", by=alice.actor)
    page = browser.get(reverse("memory:file-edit", args=["facts/user.md"]))
    form = page.context["form"]
    typed = {name: form[name].value() for name in ("content", "seen", "window", "note")}
    typed = {name: value if value is not None else "" for name, value in typed.items()}
    typed["content"] = f"{typed['content']}\n- {NEW}\n"
    address = reverse("memory:file-edit", args=["facts/user.md"])
    html = browser.post(address, typed, follow=True).content.decode()
    assert f"it contradicts a memory: “{OLD}”" in html


@pytest.mark.requirement("R251")
def test_replace_it_moves_the_older_one_to_trash(browser: Client, alice: User, known: Note) -> None:
    browser.post(REMEMBER, {"text": NEW, f"known-{known.pk}": "replace"})
    assert written(alice) == [("finding", NEW)]
    assert not Conflict.objects.for_user(alice).open().exists()


@pytest.mark.requirement("R251")
def test_replace_it_removes_the_line_of_a_file_and_is_undone(browser: Client, alice: User) -> None:
    kept = "# Memory\n\n- The port is Kobe.\n"
    save_file(alice, "facts/memory.md", f"{kept}- {OLD}\n", by=alice.actor)
    section = Section.objects.for_user(alice).get(
        file__path="facts/memory.md", content__contains=OLD
    )
    assert f'name="known-{section.pk}"' in browser.post(KNOWN, {"text": NEW}).content.decode()

    browser.post(REMEMBER, {"text": NEW, f"known-{section.pk}": "replace"})

    assert written(alice) == [("finding", NEW)]
    content = read_file(alice, "facts/memory.md").content
    assert OLD not in content and "The port is Kobe." in content
    conflict_services.undo_change(Conflict.objects.for_user(alice).get(), by=alice.actor)
    assert OLD in read_file(alice, "facts/memory.md").content


def test_a_quoted_line_of_a_file_is_named_but_not_replaced(browser: Client, alice: User) -> None:
    save_file(alice, "facts/memory.md", f"# Memory\n\n> {OLD}\n", by=alice.actor)
    html = browser.post(KNOWN, {"text": NEW}).content.decode()
    assert OLD in html and 'name="known-' not in html


def test_both_are_right_is_remembered(browser: Client, alice: User, known: Note) -> None:
    browser.post(REMEMBER, {"text": NEW, f"known-{known.pk}": "both"})
    assert len(written(alice)) == 2
    assert Conflict.objects.for_user(alice).get().resolution == "both"


def test_undecided_it_waits_in_the_inbox_and_on_its_page(
    browser: Client, alice: User, known: Note
) -> None:
    answer = browser.post(REMEMBER, {"text": NEW, "next": "/memory/"})
    [made] = Observation.objects.for_user(alice)
    assert answer.headers["Location"] == made.get_absolute_url()
    html = browser.get(made.get_absolute_url()).content.decode()
    assert "Keep this text" in html
    assert OLD in html
    assert OLD in browser.get(reverse("research:inbox")).content.decode()


def test_a_fact_that_was_replaced_is_in_the_timeline(browser: Client, alice: User) -> None:
    fact = TopicFact.objects.add(topic_of(alice), OLD, by=alice.actor)
    browser.post(REMEMBER, {"text": NEW, f"known-{fact.pk}": "replace"})
    fact.refresh_from_db()
    assert (fact.state, fact.retired_as) == ("retired", "replaced")


# --- deciding ---


@pytest.mark.requirement("R252")
def test_of_two_tabs_the_second_learns_that_it_was_decided(
    browser: Client, alice: User, known: Note
) -> None:
    new = write_note(alice, "log", NEW, by=alice.actor)
    [pair] = contradictions.report(new)
    address = reverse("memory:conflict-resolve", args=[pair.pk])
    seen = {"left_version": 1, "right_version": 1, "next": "/memory/"}
    browser.post(address, {"how": "right", **seen})
    answer = browser.post(address, {"how": "left", **seen}, follow=True)
    assert "already been resolved" in answer.content.decode()
    assert written(alice) == [("log", NEW)]


@pytest.mark.requirement("R252")
def test_forty_contradictions_are_one_item_and_one_decision(browser: Client, alice: User) -> None:
    for number in range(40):
        write_note(alice, "log", f"{OLD} Seen on server {number + 100}.", by=alice.actor)
    new = write_note(alice, "log", NEW, by=alice.actor)
    pairs = contradictions.report(new)
    page = browser.get(reverse("research:inbox"))
    assert sum(len(group["items"]) for group in page.context["groups"]) == 1
    html = page.content.decode()
    assert "and 39 more" in html
    assert "make the same choice for the newer text’s 39 other conflicts" in html
    pair = next(one for one in pairs if str(one.pk) in html)
    asked = {"how": "right", "left_version": 1, "right_version": 1, "all": "1"}
    browser.post(reverse("memory:conflict-resolve", args=[pair.pk]), asked)
    assert written(alice) == [("log", NEW)]
    assert not Conflict.objects.for_user(alice).open().exists()
