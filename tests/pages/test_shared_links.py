"""Shared reports: creating, opening and revoking a link, and what it never shows."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memory.accounts.archive import exporter
from memory.accounts.archive.importer import ImportContext, import_archive
from memory.models import Activity, Topic, User
from research.models import Report, Run, SharedLink
from research.pages import shares
from tests.undo import undone

HTMX = {"HX-Request": "true"}
WANTED = {"days": "30", "note": "Ines"}


@pytest.fixture
def link(run: Run, alice: User) -> SharedLink:
    return shares.make_link(run.report, days=30, note="Ines", by=alice.actor)


def page_of(run: Run) -> str:
    return f"/topics/{run.topic.slug}/runs/{run.pk}/share/"


def read(link: SharedLink, client: Client | None = None) -> Any:
    return (client or Client()).get(f"/shared/{link.token}/")


def test_a_reader_sees_where_the_old_sentence_stood_but_no_page_of_ours(link: SharedLink, run: Run):
    old = {"link": "https://old.example/", "domain": "old.example", "quote": "as it was then"}
    run.delta_items.filter(status="changed").update(previous_source=old)
    ours = {"link": f"library:{uuid.uuid4()}", "domain": "library", "quote": "ours"}
    run.delta_items.filter(status="contradicted").update(previous_source=ours)

    shown = read(link).content.decode()

    assert "as it was then" in shown and 'href="https://old.example/"' in shown
    assert "/library/" not in shown and "/facts/" not in shown


def test_a_reader_sees_a_model_s_summary_above_the_changes(link: SharedLink, run: Run):
    body = "The year in one sentence.\n\n## Findings\n\nMore of it."
    Report.objects.filter(run=run).update(body=body, is_extractive=False)

    shown = read(link).content.decode()

    places = ["The year in one sentence", '<ul class="delta">', ">Findings</h2>"]
    assert sorted(places, key=shown.index) == places
    assert shown.count("The year in one sentence") == 1 and 'id="full-report"' not in shown


def test_a_reader_sees_a_report_without_a_model_folded_below_its_changes(
    link: SharedLink, run: Run
):
    Report.objects.filter(run=run).update(is_extractive=True)

    shown = read(link).content.decode()

    assert shown.index('<ul class="delta">') < shown.index('<details class="fold ui full-report"')


def test_a_reader_is_not_told_that_the_owner_has_a_document_with_the_same_text(
    link: SharedLink, run: Run
):
    report = Report.objects.get(run=run)
    ours = {"link": f"library:{uuid.uuid4()}/1", "domain": "library-of-alice", "published_at": None}
    other = {"link": "https://copy.example/", "domain": "copy.example", "published_at": None}
    report.sources[0] |= {"derived_from": ours, "repeated_by": [ours, other]}
    report.save()

    shown = read(link).content.decode()

    assert "copy.example" in shown and "library-of-alice" not in shown


def test_a_reader_is_not_told_that_what_is_disputed_holds_now(link: SharedLink, run: Run):
    run.delta_items.exclude(status="contradicted").update(hidden_reason="no source says it")

    shown = read(link).content.decode()

    assert "Known</span>" in shown and "A source says</span>" in shown
    assert "Before</span>" not in shown and "Now</span>" not in shown


def test_over_htmx_the_link_comes_with_its_undo(browser: Client, run: Run):
    shown = browser.post(page_of(run), WANTED, headers={"HX-Request": "true"}).content.decode()

    assert "Link created" in shown
    undone(browser, shown)
    assert SharedLink.objects.get().ended_at is not None


def test_a_link_is_created_and_is_on_the_page_whole(browser: Client, run: Run, settings: Any):
    settings.BEACON_URL = "https://beacon.example"
    browser.post(page_of(run), WANTED)

    link = SharedLink.objects.get()
    shown = browser.get(page_of(run)).content.decode()
    assert f"https://beacon.example/shared/{link.token}/" in shown
    assert timedelta(days=29) < link.ends_at - timezone.now() <= timedelta(days=30)
    assert Activity.objects.filter(kind="report-shared", topic=run.topic).exists()


def test_over_htmx_the_part_with_form_and_links_comes_back_alone(browser: Client, run: Run):
    body = browser.post(page_of(run), WANTED, headers=HTMX).content.decode()

    assert body.lstrip().startswith('<div id="share"')
    assert SharedLink.objects.get().token in body


def test_anyone_who_has_it_reads_the_report_without_an_account(link: SharedLink):
    answer = read(link)

    shown = answer.content.decode()
    assert answer.status_code == 200
    assert "Run #2" in shown and "Version 13 receives fixes until November" in shown
    assert 'id="source-2"' in shown and "Asynchronous I/O is on by default." in shown


def test_it_shows_neither_owner_nor_memory_nor_costs_nor_links_that_ask_for_a_sign_in(
    link: SharedLink, alice: User
):
    alice.first_name = "Alice"
    alice.save()
    main = read(link).content.decode().partition("<main")[2]

    assert "alice" not in main.lower() and "Ines" not in main
    assert "Not mentioned" not in main and "Confirmed" not in main and "You keep" not in main
    assert "tokens" not in main and "$" not in main
    assert not re.findall(r'href="/(?!static)[^"]*"', main.replace('href="/"', ""))


def test_no_search_engine_and_no_linked_page_learns_the_address(link: SharedLink):
    answer = read(link)

    assert "noindex" in answer["X-Robots-Tag"]
    assert answer["Referrer-Policy"] == "no-referrer"
    assert "no-store" in answer["Cache-Control"]


def test_a_visit_is_counted_and_a_question_for_the_head_alone_is_none(link: SharedLink):
    read(link)
    read(link)
    Client().head(f"/shared/{link.token}/")

    link.refresh_from_db()
    assert link.view_count == 2
    assert link.opened_at is not None


@pytest.mark.parametrize("wrong", ["x", "x.y", "0f" * 16, "%00", "é.é"])
def test_a_guessed_link_is_explained_and_opens_nothing(link: SharedLink, wrong: str):
    answer = Client().get(f"/shared/{wrong}/")

    assert answer.status_code == 404
    assert "This link doesn’t work" in answer.content.decode()


def test_another_id_with_a_good_signature_of_its_neighbor_opens_nothing(link: SharedLink):
    signature = link.token.partition(".")[2]

    assert Client().get(f"/shared/{uuid.uuid4().hex}.{signature}/").status_code == 404


def test_an_ended_link_says_so_and_works_again_once_that_is_undone(
    browser: Client, link: SharedLink
):
    browser.post(f"/shared-links/{link.pk}/end/")
    gone = read(link)
    browser.post(f"/shared-links/{link.pk}/resume/")

    assert gone.status_code == 410
    assert "has revoked it" in gone.content.decode()
    assert read(link).status_code == 200


def test_a_link_past_its_end_says_until_when_it_worked(link: SharedLink):
    SharedLink.objects.update(ends_at=timezone.now().replace(year=2026, month=3, day=9))

    answer = read(link)

    assert answer.status_code == 410
    assert "The link expired on 9 March 2026." in answer.content.decode()


def test_an_ended_link_past_its_end_is_not_taken_up_again(browser: Client, link: SharedLink):
    SharedLink.objects.update(ends_at=timezone.now() - timedelta(minutes=1))
    browser.post(f"/shared-links/{link.pk}/end/")

    answer = browser.post(f"/shared-links/{link.pk}/resume/", follow=True)

    assert "The link has expired" in answer.content.decode()
    assert SharedLink.objects.get().ended_at is not None


def test_one_that_works_is_listed_however_many_ended_after_it(
    browser: Client, link: SharedLink, alice: User
):
    now = timezone.now()
    SharedLink.objects.bulk_create(
        SharedLink(owner=alice, report=link.report, ends_at=now + timedelta(days=1), ended_at=now)
        for _n in range(shares.MAX_OVER + 5)
    )

    assert link.token in browser.get("/reports/shared-links/").content.decode()


def test_the_report_of_a_topic_in_the_trash_is_not_available_until_it_is_back(
    link: SharedLink, topic: Topic, alice: User
):
    topic.trash(by=alice.actor)
    gone = read(link)
    topic.restore(by=alice.actor)

    assert gone.status_code == 410
    assert read(link).status_code == 200


def test_a_disabled_accounts_links_open_nothing(link: SharedLink, alice: User):
    User.objects.filter(pk=alice.pk).update(is_active=False)

    assert read(link).status_code == 410


def test_a_stranger_finds_neither_the_page_nor_the_acts(
    link: SharedLink, run: Run, bob: User, client_of: Callable[[Any], Client]
):
    stranger = client_of(bob)

    assert stranger.get(page_of(run)).status_code == 404
    assert stranger.post(f"/shared-links/{link.pk}/end/").status_code == 404
    assert "No shared links" in stranger.get("/reports/shared-links/").content.decode()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"days": "3"}, "is not one of the available choices"),
        ({"days": ""}, "This field is required."),
        ({"note": "x" * 151}, "at most 150 characters"),
    ],
)
def test_bad_input_is_explained_and_what_was_typed_stays(
    browser: Client, run: Run, wrong: dict[str, str], said: str
):
    answer = browser.post(page_of(run), WANTED | wrong)

    shown = answer.content.decode()
    assert answer.status_code == 200 and said in shown
    assert (WANTED | wrong)["note"] in shown
    assert not SharedLink.objects.exists()


def test_the_twenty_first_link_of_a_report_is_refused(run: Run, alice: User, browser: Client):
    for _n in range(shares.MAX_LINKS):
        shares.make_link(run.report, days=1, note="", by=alice.actor)

    assert "Revoke one first" in browser.post(page_of(run), WANTED).content.decode()
    assert SharedLink.objects.count() == shares.MAX_LINKS


def test_an_ended_link_is_not_taken_up_again_past_the_twentieth(
    link: SharedLink, run: Run, alice: User, browser: Client, monkeypatch: Any
):
    monkeypatch.setattr(shares, "MAX_LINKS", 1)
    shares.end(link, by=alice.actor)
    shares.make_link(run.report, days=30, note="", by=alice.actor)

    answer = browser.post(f"/shared-links/{link.pk}/resume/", follow=True)

    assert "Revoke it first" in answer.content.decode()
    link.refresh_from_db()
    assert link.ended_at is not None


def test_all_links_are_listed_in_a_fixed_number_of_queries(browser: Client, run: Run, alice: User):
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            browser.get("/reports/shared-links/")
        return len(captured)

    shares.make_link(run.report, days=1, note="one", by=alice.actor)
    few = queries()
    for n in range(9):
        shares.make_link(run.report, days=1, note=f"more {n}", by=alice.actor)
    assert queries() == few <= 6
    assert "more 8" in browser.get("/reports/shared-links/").content.decode()


def test_a_link_that_came_by_an_import_is_ended(link: SharedLink, alice: User, tmp_path: Path):
    path = tmp_path / "a.zip"
    exporter.write(alice, path)
    SharedLink.objects.all().delete()

    import_archive(path, ImportContext(alice, alice.actor, path.name, True), only_look=False)

    assert SharedLink.objects.get().pk == link.pk
    assert read(link).status_code == 410


def test_the_shared_page_asks_a_fixed_number_of_questions(link: SharedLink):
    with CaptureQueriesContext(connection) as captured:
        read(link)

    assert len(captured) <= 4
