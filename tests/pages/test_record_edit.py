"""Writing and correcting notes and observations: all their fields, and two tabs that edit one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django import forms
from django.test import Client
from django.urls import reverse

from beacon_site.web.responses import RefusalErrorsMixin
from memory.models import Note, Observation, Revision
from memory.models.errors import MemoryRefused
from memory.services.notes.saving import edit_note, pin
from memory.services.search.recall import recall
from tests.pages.record_cast import HTMX, note, observation, text_of
from tests.undo import undone

NEW = reverse("memory:note-new")
NEW_OBSERVATION = reverse("memory:observation-new")
WORDS = "Fares are stale.\nAsk the airline.\nThe desk opens at nine.\n"


@pytest.fixture
def browser(alice: Any, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


def typed(record: Any, content: str, **more: Any) -> dict[str, Any]:
    """What the edit form of a record sends."""
    fields = {"content": content, "version": record.version, "sensitivity": record.sensitivity}
    if isinstance(record, Observation):
        return fields | {"category": record.category, "tags": ""} | more
    return fields | {
        "kind": record.kind, "stability": record.stability, "ttl_days": record.ttl_days or "",
        "confidence": "1", "tags": ", ".join(record.tags), "scope": "owner",
        "evidence": "\n".join(record.evidence),
    } | more  # fmt: skip


def edit_page(record: Any) -> str:
    return f"{record.get_absolute_url()}edit/"


# --- new ------------------------------------------------------------------------------------------


def test_a_note_is_written_by_hand_and_found(browser: Client, alice: Any) -> None:
    sent = {"content": "Fares are stale.", "kind": "log", "stability": "stable", "tags": "air, x"}
    browser.post(NEW, sent | {"sensitivity": "normal"})
    made = Note.objects.for_user(alice).get(content="Fares are stale.")
    assert (made.tags, made.trust, made.confidence) == (["air", "x"], "owner", 1.0)
    assert [hit.id for hit in recall(alice, "stale fares")] == [made.pk]


@pytest.mark.parametrize(
    ("kind", "stability", "days"),
    [("log", "volatile", 30), ("summary", "volatile", 7), ("rule", "stable", None)],
)
@pytest.mark.requirement("R188")
def test_what_is_usual_for_the_kind_holds_unless_another_is_chosen(
    browser: Client, alice: Any, kind: str, stability: str, days: int | None
) -> None:
    sent = {"content": "Ask twice.", "kind": kind, "sensitivity": "normal", "evidence": "run 7"}
    browser.post(NEW, sent)
    made = Note.objects.for_user(alice).get(content="Ask twice.")
    assert (made.stability, made.ttl_days) == (stability, days)


def test_a_kind_in_the_address_is_chosen_already(browser: Client) -> None:
    assert '<option value="rule" selected>' in browser.get(NEW, {"kind": "rule"}).content.decode()


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ({"content": " "}, "Enter the text"),
        ({"kind": "poem"}, "is not one of the available choices"),
        ({"stability": "volatile"}, "Set “Expires after”"),
        ({"stability": "permanent", "ttl_days": "3"}, "A permanent note never expires"),
        (
            {"kind": "rule", "evidence": "x", "confidence": "0.5"},
            "at least 0.8, but this one has 0.5",
        ),
        ({"confidence": "many"}, "a number from 0 to 1"),
        ({"ttl_days": "-1"}, "a whole number of days from 1"),
        ({"tags": "t" * 10_000}, "at most 80 characters"),
        ({"content": "é" * 40_000}, "14,464 over the limit"),
        ({"scope": "everybody"}, "isn’t a valid scope"),
        ({"sensitivity": "secret"}, "is not one of the available choices"),
    ],
)
def test_what_cannot_be_a_note_is_explained_and_nothing_typed_is_lost(
    browser: Client, alice: Any, sent: dict[str, str], why: str
) -> None:
    before = Note.objects.for_user(alice).count()
    usual = {"content": "Keep me.", "kind": "log", "stability": "stable", "sensitivity": "normal"}
    response = browser.post(NEW, usual | sent, headers=HTMX)
    html = text_of(response)
    assert response.status_code == 200
    assert why in html
    assert {**usual, **sent}["content"].strip() in html
    assert Note.objects.for_user(alice).count() == before


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        ("except:claude", "All agents except “claude”"),
        ("except:claude:desk", "All agents except “claude” and “desk”"),
        ("except:a:b:c", "All agents except “a”, “b” and “c”"),
        ("agent:gone", "Only the agent “gone”"),
        ("run:7", "run 7 (deleted)"),
    ],
)
def test_the_scope_that_a_note_has_is_offered_in_words_and_kept(
    browser: Client, alice: Any, scope: str, words: str
) -> None:
    record = note(alice)
    Note.objects.filter(pk=record.pk).update(scope=scope)

    html = text_of(browser.get(edit_page(record)))
    browser.post(edit_page(record), typed(record, "Other words.", scope=scope))

    assert f'<option value="{scope}" selected>{words}</option>' in html
    record.refresh_from_db()
    assert (record.content, record.scope) == ("Other words.", scope)


@pytest.mark.parametrize("scope", ["everybody", "agent:", "except:"])
def test_a_scope_that_none_can_be_is_shown_again_with_its_error(
    browser: Client, alice: Any, scope: str
) -> None:
    record = note(alice)

    answer = browser.post(edit_page(record), typed(record, "Other words.", scope=scope))

    assert answer.context["form"].errors["scope"]
    assert f'<option value="{scope}" selected>{scope}</option>' in text_of(answer)


def test_all_that_is_wrong_is_explained_at_once(browser: Client) -> None:
    sent = {"content": "Keep me.", "kind": "rule", "tags": "t" * 100, "sensitivity": "normal"}
    html = text_of(browser.post(NEW, sent | {"confidence": "0.5"}))
    for why in ("at least 0.8", "at most 80 characters"):
        assert why in html


def test_a_rule_that_a_person_writes_needs_no_evidence(browser: Client, alice: Any) -> None:
    sent = {"content": "Cite two sources.", "kind": "rule", "sensitivity": "normal"}

    browser.post(NEW, sent)

    assert Note.objects.for_user(alice).get(kind="rule").evidence == []
    assert "Optional for rules you write." in text_of(browser.get(NEW, {"kind": "rule"}))


def test_characters_that_cannot_be_stored_are_removed_and_said_so(
    browser: Client, alice: Any
) -> None:
    sent = {"content": "Fa\x00res.", "kind": "log", "stability": "stable", "sensitivity": "normal"}
    html = text_of(browser.post(NEW, sent, follow=True))
    assert Note.objects.for_user(alice).filter(content="Fares.").exists()
    assert "from: Text to remember" in html


def test_an_observation_is_written_by_hand(browser: Client, alice: Any) -> None:
    sent = {"content": "A cell costs 89.", "category": "finding", "sensitivity": "normal"}
    response = browser.post(NEW_OBSERVATION, sent, headers=HTMX)
    made = Observation.objects.for_user(alice).get()
    assert response.headers["HX-Redirect"] == made.get_absolute_url()


def test_an_observation_of_no_category_is_explained(browser: Client, alice: Any) -> None:
    sent = {"content": "A cell costs 89.", "category": "rumour", "sensitivity": "normal"}
    assert "is not one of the available choices" in text_of(browser.post(NEW_OBSERVATION, sent))


def test_the_forms_take_a_fixed_number_of_queries(
    browser: Client, alice: Any, django_assert_max_num_queries: Any
) -> None:
    for address in (NEW, NEW_OBSERVATION, edit_page(note(alice)), edit_page(observation(alice))):
        with django_assert_max_num_queries(8):
            browser.get(address)


# --- edit -----------------------------------------------------------------------------------------


@pytest.mark.requirement("R210")
def test_an_edit_keeps_what_it_does_not_name_and_is_a_revision(browser: Client, alice: Any) -> None:
    one = note(alice, tags=["air"], evidence=["run 7"], sensitivity="sensitive", confidence=0.9)
    browser.post(edit_page(one), typed(one, "Fares are fresh.", confidence="0.9", why="asked"))
    one.refresh_from_db()
    kept = (one.content, one.tags, one.evidence, one.sensitivity, one.confidence)
    assert kept == ("Fares are fresh.", ["air"], ["run 7"], "sensitive", 0.9)
    last = Revision.objects.filter(record_id=one.pk).latest("id")
    assert (last.reason, last.before["content"]) == ("asked", "Fares are stale.")


@pytest.mark.requirement("R75")
def test_an_edit_is_found_by_its_new_words_and_not_the_old_ones_at_once(
    browser: Client, alice: Any
) -> None:
    one = note(alice, "Fares are stale.")
    browser.post(edit_page(one), typed(one, "Prices have ripened."))
    assert [hit.id for hit in recall(alice, "ripened prices")] == [one.pk]
    assert recall(alice, "stale fares") == []


def test_an_edit_of_an_observation_is_found_by_its_new_words(browser: Client, alice: Any) -> None:
    one = observation(alice, "A cell costs 89 dollars.")
    browser.post(edit_page(one), typed(one, "A pack weighs nine kilograms.", category="lesson"))
    one.refresh_from_db()
    assert (one.category, one.trust) == ("lesson", "owner")
    assert recall(alice, "cell dollars") == []
    assert [hit.id for hit in recall(alice, "kilograms")] == [one.pk]


def test_a_locked_note_says_so_and_a_person_can_edit_it(browser: Client, alice: Any) -> None:
    one = note(alice, lock="read-only")
    assert "You can still edit it" in text_of(browser.get(edit_page(one)))
    browser.post(edit_page(one), typed(one, "Fares are fresh."))
    one.refresh_from_db()
    assert one.content == "Fares are fresh."


def test_over_htmx_a_bad_edit_answers_with_the_form(browser: Client, alice: Any) -> None:
    one = note(alice)
    html = browser.post(edit_page(one), typed(one, "Keep me.", ttl_days="0"), headers=HTMX)
    assert html.content.decode().split("#}")[-1].lstrip().startswith('<div id="record-edit"')
    assert "Keep me." in text_of(html)


def test_a_soul_is_not_reworded_here(browser: Client, alice: Any) -> None:
    soul = Note.objects.for_user(alice).get(kind="soul", superseded_by=None)
    browser.post(edit_page(soul), typed(soul, "Be evil."))
    soul.refresh_from_db()
    assert "Be evil." not in soul.content
    assert "Edit this text under Agents or Settings." in text_of(browser.get(edit_page(soul)))


def test_two_edits_of_a_souls_tags_are_merged(browser: Client, alice: Any) -> None:
    record = Note.objects.for_user(alice).current_identity().get(kind="soul")
    sent = typed(record, record.content, tags="mine")
    edit_note(record, by=alice.actor, tags=["theirs"])

    html = text_of(browser.post(edit_page(record), sent))

    assert "This item changed while you were editing it" in html
    assert "your value will replace “theirs”" in html


def test_an_edit_that_changes_nothing_says_so_and_offers_no_undo(
    browser: Client, alice: Any
) -> None:
    record = note(alice)
    html = text_of(browser.post(edit_page(record), typed(record, record.content), follow=True))

    record.refresh_from_db()
    assert record.version == 1
    assert "Nothing changed." in html
    assert "/undo/" not in html


def test_a_stranger_edits_nothing(client_of: Callable[[Any], Client], alice: Any, bob: Any) -> None:
    one = note(alice)
    assert client_of(bob).get(edit_page(one)).status_code == 404
    assert client_of(bob).post(edit_page(one), typed(one, "Bob was here.")).status_code == 404


# --- two tabs -------------------------------------------------------------------------------------


def test_the_second_tab_is_told_keeps_its_text_and_gets_both_changes_merged(
    browser: Client, alice: Any
) -> None:
    one = note(alice, WORDS)
    mine = typed(one, WORDS.replace("nine", "ten"))
    edit_note(one, by=alice.actor, content=WORDS.replace("stale", "fresh"))
    html = text_of(browser.post(edit_page(one), mine, headers=HTMX))
    assert "This item changed while you were editing" in html
    assert "Fares are fresh. Ask the airline. The desk opens at ten." in html
    assert "Fares are stale. Ask the airline. The desk opens at ten." in html  # whole, as typed
    assert 'name="version" value="2"' in html


def test_where_both_changed_the_same_words_a_side_is_chosen(browser: Client, alice: Any) -> None:
    one = note(alice, WORDS)
    mine = typed(one, WORDS.replace("nine", "ten"))
    edit_note(one, by=alice.actor, content=WORDS.replace("nine", "eleven"))
    html = text_of(browser.post(edit_page(one), mine))
    assert "Both versions changed the text in 1 place." in html
    again = mine | {"version": 2, "mine": mine["content"], "base_version": 1, "compose": "1"}
    html = text_of(browser.post(edit_page(one), again | {"choice-0": "both"}))
    assert "The desk opens at eleven. The desk opens at ten.</textarea>" in html

    again |= {"merge": "1", "choice-0": "both"}
    again.pop("compose")
    browser.post(edit_page(one), again)
    one.refresh_from_db()
    assert one.content.splitlines()[-2:] == ["The desk opens at eleven.", "The desk opens at ten."]
    assert one.version == 3


def test_saving_the_merge_is_on_the_newest_version(browser: Client, alice: Any) -> None:
    one = note(alice, WORDS)
    edit_note(one, by=alice.actor, content=WORDS.replace("nine", "eleven"))
    merged = {"version": 2, "mine": "x", "base_version": 1}
    browser.post(edit_page(one), typed(one, "The desk opens at noon.", **merged))
    one.refresh_from_db()
    assert (one.content, one.version) == ("The desk opens at noon.", 3)


def test_fields_that_only_one_of_the_two_changed_are_both_kept(browser: Client, alice: Any) -> None:
    one = note(alice, WORDS, tags=["air"])
    mine = typed(one, WORDS.replace("nine", "ten"), confidence="0.5")
    edit_note(one, by=alice.actor, tags=["air", "desk"])
    html = text_of(browser.post(edit_page(one), mine))
    assert 'value="air, desk"' in html
    assert 'value="0.5"' in html


def test_a_pin_in_the_meantime_isnt_a_conflict(browser: Client, alice: Any) -> None:
    one = note(alice)
    mine = typed(one, "Fares are fresh.")
    pin(Note.objects.get(pk=one.pk), by=alice.actor)
    browser.post(edit_page(one), mine)
    one.refresh_from_db()
    assert (one.content, one.pinned) == ("Fares are fresh.", True)


# --- supersede ------------------------------------------------------------------------------------


@pytest.mark.requirement("R200")
def test_a_note_is_superseded_by_hand_and_undone(browser: Client, alice: Any) -> None:
    one = note(alice, tags=["air"])
    page = reverse("memory:note-supersede", args=[one.pk])
    html = browser.post(page, {"content": "Fares are fresh.", "version": 1}, follow=True)
    made = Note.objects.for_user(alice).get(content="Fares are fresh.")
    undone(browser, html)
    one.refresh_from_db()
    assert one.superseded_by_id is None
    assert Note.objects.get(pk=made.pk).trashed_at is not None


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ({"content": "", "version": 1}, "Enter some text"),
        ({"content": "x", "version": 9}, "changed"),
    ],
)
def test_what_cannot_supersede_is_explained(
    browser: Client, alice: Any, sent: dict[str, Any], why: str
) -> None:
    page = reverse("memory:note-supersede", args=[note(alice).pk])
    assert why in text_of(browser.post(page, sent, headers=HTMX))


def test_a_superseded_note_is_not_superseded_again(browser: Client, alice: Any) -> None:
    one = note(alice)
    page = reverse("memory:note-supersede", args=[one.pk])
    browser.post(page, {"content": "Fares are fresh.", "version": 1})
    version = Note.objects.get(pk=one.pk).version
    html = text_of(browser.post(page, {"content": "Again.", "version": version}))
    assert "was already replaced" in html


def test_a_record_that_was_deleted_while_it_was_edited_is_a_refusal():
    class TitleForm(RefusalErrorsMixin, forms.Form):
        title = forms.CharField()

    form = TitleForm({"title": "Kept"})
    assert form.is_valid()

    assert form.on_newest(None, MemoryRefused("It was deleted.")) == {}
    assert form.non_field_errors() == ["It was deleted."]
    assert form["title"].value() == "Kept"
