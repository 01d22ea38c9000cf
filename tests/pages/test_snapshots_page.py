"""Snapshots of the content store: create, view, restore, undo, export and import."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import time_machine
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from memory.models import ContentItem, Snapshot, User
from memory.services.content.items import store
from memory.services.content.snapshots import snapshot_as_json, take_snapshot
from tests.pages.record_cast import text_of
from tests.undo import undo_in

HTMX = {"HX-Request": "true"}
SNAPSHOTS = reverse("memory:content-snapshots")
TAKE = reverse("memory:content-snapshot-take")
UPLOAD = reverse("memory:content-snapshot-upload")


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


@pytest.fixture
def item(alice: User) -> ContentItem:
    return store(alice, "Cells cost 89.", by=alice.actor, title="Prices", scope="agent:desk")


@pytest.fixture
def kept(alice: User, item: ContentItem) -> Snapshot:
    return take_snapshot(alice, "agent:desk", by=alice.actor, title="Before the trip")


def restore(browser: Client, snapshot: Snapshot, scope: str = "") -> Any:
    url = reverse("memory:content-snapshot-restore", args=[snapshot.pk])
    return browser.post(url, {"scope": scope}, follow=True)


def undo_of(answer: Any) -> str:
    return undo_in(answer)


def in_scope(owner: User, scope: str) -> list[str]:
    rows = ContentItem.objects.for_user(owner).live().filter(scope=scope)
    return sorted(rows.values_list("title", flat=True))


def test_one_is_taken_listed_and_shows_what_it_holds(browser: Client, item: ContentItem):
    answer = browser.post(TAKE, {"scope": "agent:desk", "title": "First"}, follow=True)
    assert "Snapshot of 1 item created." in text_of(answer)
    assert "Prices" in text_of(answer)
    html = text_of(browser.get(SNAPSHOTS))
    assert "First" in html
    assert "the agent “desk”" in html


def test_each_row_restores_its_snapshot(browser: Client, kept: Snapshot):
    html = text_of(browser.get(SNAPSHOTS))
    assert f'action="{reverse("memory:content-snapshot-restore", args=[kept.pk])}"' in html
    assert "Restore the agent “desk”" in html


def test_over_htmx_the_parts_alone_answer(browser: Client, kept: Snapshot):
    listed = browser.get(SNAPSHOTS, headers=HTMX).content.decode()
    one = browser.get(kept.get_absolute_url(), headers=HTMX).content.decode()
    assert listed.lstrip().startswith('<section id="snapshots"')
    assert one.lstrip().startswith('<section id="snapshot"')


def test_none_is_kept_yet_says_what_they_are_for(browser: Client):
    assert "No snapshots yet" in text_of(browser.get(SNAPSHOTS))


@pytest.mark.parametrize("scope", ["", "every thing", "run:", "x" * 300])
def test_what_isnt_a_scope_is_explained_and_kept(browser: Client, item: ContentItem, scope: str):
    answer = browser.post(TAKE, {"scope": scope})
    assert answer.status_code == 200
    assert answer.context["take"].errors["scope"]
    assert not Snapshot.objects.exists()


@pytest.mark.requirement("R118")
def test_restored_the_scope_holds_the_same_again_and_that_is_undone(
    browser: Client, alice: User, item: ContentItem, kept: Snapshot
):
    item.change(by=alice.actor, title="Other prices")
    store(alice, "Later", by=alice.actor, title="Later", scope="agent:desk")
    answer = restore(browser, kept)
    assert in_scope(alice, "agent:desk") == ["Prices"]
    assert "1 item restored to agent:desk." in text_of(answer)
    browser.post(undo_of(answer))
    assert in_scope(alice, "agent:desk") == ["Later", "Other prices"]


@pytest.mark.requirement("R242")
def test_restored_into_another_scope_it_seeds_that_and_leaves_its_own(
    browser: Client, alice: User, kept: Snapshot
):
    answer = restore(browser, kept, "agent:news")
    assert in_scope(alice, "agent:news") == in_scope(alice, "agent:desk") == ["Prices"]
    browser.post(undo_of(answer))
    assert in_scope(alice, "agent:news") == []


def test_a_scope_that_cannot_be_restored_into_is_explained(
    browser: Client, alice: User, kept: Snapshot
):
    answer = restore(browser, kept, "no scope")
    assert answer.context["form"].errors["scope"]
    assert Snapshot.objects.count() == 1


def test_as_json_it_can_be_taken_in_again(browser: Client, alice: User, kept: Snapshot):
    answer = browser.get(reverse("memory:content-snapshot-json", args=[kept.pk]))
    assert answer["Content-Disposition"].startswith("attachment")
    file = SimpleUploadedFile("s.json", answer.content)
    page = browser.post(UPLOAD, {"file": file}, follow=True)
    assert "Snapshot uploaded." in text_of(page)
    assert Snapshot.objects.for_user(alice).count() == 2


def changed(kept: Snapshot, **fields: Any) -> bytes:
    return json.dumps(json.loads(snapshot_as_json(kept)) | fields).encode()


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ({"format": 99}, "Update Beacon"),
        ({"owner": "bob"}, "belongs to the account"),
        ({"kind": "shopping list"}, "isn’t a content store snapshot"),
        ({"items": "none"}, "must be a list"),
        ({"items": [{"id": "x"}]}, "Item 1 can’t be read"),
    ],
)
def test_a_file_that_is_not_taken_in_is_refused_with_a_reason(
    browser: Client, kept: Snapshot, what: dict[str, Any], why: str
):
    answer = browser.post(UPLOAD, {"file": SimpleUploadedFile("s.json", changed(kept, **what))})
    assert answer.status_code == 200
    assert why in text_of(answer)
    assert Snapshot.objects.count() == 1


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"{", b"[" * 100_000, b"null"])
def test_a_file_that_is_broken_is_refused_with_a_reason(
    browser: Client, kept: Snapshot, data: bytes
):
    answer = browser.post(UPLOAD, {"file": SimpleUploadedFile("s.json", data)})
    assert answer.status_code == 200
    assert answer.context["upload"].errors["file"]
    assert Snapshot.objects.count() == 1


def test_a_file_that_is_too_large_is_refused_unread(
    browser: Client, kept: Snapshot, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("memory.pages.content.snapshots.MAX_BYTES", 10)
    answer = browser.post(UPLOAD, {"file": SimpleUploadedFile("s.json", changed(kept))})
    assert "the limit is 64 MiB" in text_of(answer)


def test_it_goes_to_the_trash_and_is_restored(browser: Client, kept: Snapshot):
    browser.post(reverse("memory:record-trash", args=["snapshot", kept.pk]))
    assert "Before the trip" not in text_of(browser.get(SNAPSHOTS))
    assert "This record is in Trash." in text_of(browser.get(kept.get_absolute_url()))
    browser.post(reverse("memory:record-restore", args=["snapshot", kept.pk]))
    assert "Before the trip" in text_of(browser.get(SNAPSHOTS))


def test_a_stranger_finds_nothing(kept: Snapshot, bob: User, client_of: Callable[[User], Client]):
    bobs = client_of(bob)
    assert "Before the trip" not in text_of(bobs.get(SNAPSHOTS))
    for name in ("content-snapshot", "content-snapshot-json"):
        assert bobs.get(reverse(f"memory:{name}", args=[kept.pk])).status_code == 404
    restore = reverse("memory:content-snapshot-restore", args=[kept.pk])
    assert bobs.post(restore).status_code == 404


def test_the_pages_take_a_fixed_number_of_queries(
    browser: Client, alice: User, django_assert_max_num_queries: Any
):
    for number in range(20):
        store(alice, "x", by=alice.actor, title=f"Item {number}", scope=f"run:{number}")
        last = take_snapshot(alice, f"run:{number}", by=alice.actor)
    with django_assert_max_num_queries(12):
        browser.get(SNAPSHOTS)
    with django_assert_max_num_queries(12):
        browser.get(last.get_absolute_url())


def scope_list(html: str) -> tuple[str, dict[str, str]]:
    """Return the tag of the scope's list, and the labels of its options."""
    tag, _end, rest = html.partition('<select name="scope"')[2].partition(">")
    options = re.findall(r'<option value="([^"]*)"[^>]*>([^<]*)<', rest.partition("</select>")[0])
    return tag, dict(options)


def test_the_list_of_scopes_has_only_attributes_that_a_list_can_have(browser: Client):
    tag, options = scope_list(browser.get(SNAPSHOTS).content.decode())

    assert "maxlength" not in tag
    assert options == {"owner": "The shared scope"}


def test_a_cut_list_of_scopes_says_so_and_offers_the_one_that_was_requested(
    browser: Client, alice: User, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("memory.pages.content.items.MAX_SCOPES", 2)
    for name in ("a", "b", "desk"):
        store(alice, "x", by=alice.actor, title=name, scope=f"agent:{name}")

    html = text_of(browser.get(SNAPSHOTS, {"scope": "agent:desk"}))

    assert '<option value="agent:desk" selected>The agent “desk”</option>' in html
    assert "Only 2 scopes are listed." in html


@pytest.mark.parametrize(
    "scope", ["run:" + "9" * 40, "run:\0", "session:\0", "topic:x", " ", "<b>"]
)
def test_a_scope_that_none_can_be_isnt_a_problem_in_the_address(browser: Client, scope: str):
    assert browser.get(SNAPSHOTS, {"scope": scope}).status_code == 200
    assert browser.post(TAKE, {"scope": scope, "title": "x" * 300}).status_code == 200


def test_a_complete_list_of_scopes_says_nothing(browser: Client, item: ContentItem):
    assert "scopes are listed" not in text_of(browser.get(SNAPSHOTS))


def test_one_without_a_title_is_named_by_its_scope_and_time(
    browser: Client, alice: User, item: ContentItem
):
    with time_machine.travel("2026-11-28T19:20:00Z", tick=False):
        untitled = take_snapshot(alice, "agent:desk", by=alice.actor)

    restore(browser, untitled)

    html = text_of(browser.get(SNAPSHOTS))
    assert ">The agent “desk”</bdi>" in html  # its time has a column
    assert "before “The agent “desk”, 28 Nov 2026, 19:20” was restored" in html
