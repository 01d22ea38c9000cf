"""Topics shared with members: what each person can open, each reader's own mark, comments, and leaving."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from memory.accounts.people import delete_account
from memory.models import Activity, Membership, Note, Revision, Source, Topic, TopicFact, Undo, User
from research.models import Comment, Report, Run, TopicSettings
from research.models.reports import source_lines
from research.services.topics import sharing
from research.services.topics.settings import editing as topic_editing
from tests.pages.rows_written import rows_written
from tests.pages.test_admin import one_of_each
from tests.pages.test_every_address import Address, named
from tests.pages.test_urls import PUBLIC, STAFF, routes
from tests.pages.topic_cast import make, reported, text_of
from tests.research.factories import make_second_run, make_topic
from tests.undo import undo_in, undo_of, undone

PAGES = ("", "facts/", "sources/", "reports/")


@pytest.fixture
def member(run: Run, bob: User) -> Membership:
    """Bob, who can read Alice's topic."""
    return sharing.add_member(run.topic, "bob", "viewer", by=run.topic.owner.actor)


@pytest.fixture
def reader(bob: User, client_of: Callable[[Any], Client]) -> Client:
    """Bob's browser."""
    return client_of(bob)


def shared(topic: Topic, rest: str = "") -> str:
    return f"/topics/shared/{topic.pk}/{rest}"


def all_pages(run: Run) -> list[str]:
    return [shared(run.topic, page) for page in (*PAGES, f"runs/{run.pk}/")]


@pytest.mark.requirement("R391")
def test_a_member_turns_notifications_on_and_off(member: Membership, run: Run, reader: Client):
    page = shared(run.topic)
    assert "Notify me about new reports" in text_of(reader.get(page))
    answer = reader.post(shared(run.topic, "notify/"), {"notify": "on"}, follow=True)
    member.refresh_from_db()
    assert member.notify and "any channels yet" in text_of(answer)
    assert "Turn off notifications" in text_of(reader.get(page))
    reader.post(shared(run.topic, "notify/"), {"notify": "off"})
    member.refresh_from_db()
    assert not member.notify


# --- reading ---


def test_a_member_reads_reports_facts_and_sources(member: Membership, run: Run, reader: Client):
    Source.objects.create(
        topic=run.topic, url="https://a.example/x", domain="a.example", title="A page of it",
        first_run=1, last_run=2,
    )  # fmt: skip
    said = {page: text_of(reader.get(page)) for page in all_pages(run)}

    read, facts, sources, reports, report = said.values()
    assert "Version 13 receives fixes until November" in read and "Shared by" in read
    assert "Version 18.1 repairs index corruption after a crash." in facts
    assert "A page of it" in sources and 'href="https://a.example/x"' in sources
    assert "Run #1" in reports and "Run #2" in reports
    assert "Run #2" in report and 'id="source-2"' in report


@pytest.mark.parametrize(("confirmed_run", "words"), [(1, "found"), (2, "last confirmed")])
def test_a_fact_is_found_until_a_run_confirms_it(
    member: Membership, run: Run, reader: Client, confirmed_run: int, words: str
):
    found = TopicFact.objects.filter(topic=run.topic).current()
    found.update(first_run=1, confirmed_run=confirmed_run, confirmed_at=timezone.now())
    # A person who resolves a conflict confirms a fact without a run.
    found.update(created=timezone.now() - timedelta(days=400))
    day = f"{timezone.now() - timedelta(days=400):%Y-%m-%d}"

    shown = text_of(reader.get(shared(run.topic, "facts/")))

    assert (f'datetime="{day}' in shown) is (words != "last confirmed")
    assert shown.count(f"<span>{words} <time") == shown.count('class="fact"') > 0


def test_it_is_on_the_members_list_of_topics_with_its_unread_reports(
    member: Membership, run: Run, reader: Client
):
    shown = text_of(reader.get("/topics/"))

    assert "Shared with you" in shown and f'href="{shared(run.topic)}"' in shown
    assert "2 unread" in shown and "<bdi>alice</bdi>" in shown


def test_without_shared_topics_the_list_says_nothing_of_them(browser: Client, run: Run):
    assert "Shared with you" not in text_of(browser.get("/topics/"))


def test_it_shows_nothing_of_the_owners_memory_or_setup(
    member: Membership, run: Run, reader: Client
):
    alice = run.topic.owner
    Note.objects.create(owner=alice, topic=run.topic, content="A secret thought")
    Source.objects.create(
        topic=run.topic, url="library:x/1", domain="", title="A private document",
        first_run=1, last_run=2,
    )  # fmt: skip
    for page in all_pages(run):
        main = reader.get(page).content.decode().partition("<main")[2].partition("</main>")[0]
        links = re.findall(r'(?:href|action|data-mark-read)="(/(?!static)[^"]*)"', main)
        inside = {link for link in links if not link.startswith(shared(run.topic))}
        assert inside <= {"/topics/"}, page
        assert "secret thought" not in main and "private document" not in main
        assert "It is the fastest." not in main and "Not mentioned" not in main
        assert "tokens" not in main and "$" not in main


def test_a_report_by_a_template_is_shown_whole_with_one_list_of_sources(
    member: Membership, run: Run, reader: Client
):
    report = run.report
    body = f"Before.\n\n{source_lines(report.sources)}\n\n## Outlook\n\nIt goes on."
    Report.objects.filter(run=run).update(body=body)
    Run.objects.filter(pk=run.pk).update(
        settings=run.settings | {"report_template": "{{ text }}\n{{ sources }}\n{{ new }}"}
    )

    shown = reader.get(shared(run.topic, f"runs/{run.pk}/")).content.decode()

    assert "Before." in shown and "It goes on." in shown
    assert shown.index("Before.") < shown.index('id="source-1"') < shown.index("It goes on.")
    assert shown.count('id="source-1"') == 1
    assert 'id="what-changed"' not in shown


def test_no_quote_of_the_owners_library_is_shown(member: Membership, run: Run, reader: Client):
    report = run.report
    quote = "Version 18.1 repairs index corruption after a crash."
    sources = [
        one | {"link": "library:2b6b6a2e-0000-4000-8000-000000000001/1"} for one in report.sources
    ]
    Report.objects.filter(run=run).update(sources=sources, body="Nothing.", summary="")
    run.delta_items.update(quote=quote, sentence="It was repaired.", previous_text="")

    for page in (shared(run.topic, f"runs/{run.pk}/"), shared(run.topic)):
        assert quote not in text_of(reader.get(page))


@pytest.mark.parametrize("fields", [{"sensitivity": "sensitive"}, {"trust": "quarantined"}])
def test_records_that_agents_do_not_get_are_not_shown(
    member: Membership, run: Run, reader: Client, fields: dict[str, str]
):
    fact = "Version 18.1 repairs index corruption after a crash."
    TopicFact.objects.filter(topic=run.topic, text=fact).update(**fields)
    Report.objects.filter(run=run).update(**fields)

    assert fact not in text_of(reader.get(shared(run.topic, "facts/")))
    assert "Run #2" not in text_of(reader.get(shared(run.topic, "reports/")))
    assert reader.get(shared(run.topic, f"runs/{run.pk}/")).status_code == 404
    assert "Run #2" not in text_of(reader.get(shared(run.topic)))


def test_a_report_of_another_topic_of_the_owner_is_not_there(
    member: Membership, run: Run, reader: Client
):
    other = reported(make(run.topic.owner, "Another subject"), 1)

    assert reader.get(shared(run.topic, f"runs/{other.pk}/")).status_code == 404
    assert reader.get(shared(other.topic)).status_code == 404


def test_the_members_own_topic_of_the_same_name_stays_their_own(
    member: Membership, run: Run, bob: User, reader: Client
):
    own = make(bob, run.topic.title)
    assert own.slug == run.topic.slug

    shown = text_of(reader.get(f"/topics/{own.slug}/"))
    assert "Version 13 receives fixes" not in shown and "Run now" in shown


def test_the_owner_is_led_to_the_topics_own_page(browser: Client, topic: Topic):
    answer = browser.get(shared(topic))

    assert (answer.status_code, answer.headers["Location"]) == (302, f"/topics/{topic.slug}/")


def test_pages_take_a_fixed_number_of_queries(member: Membership, run: Run, reader: Client):
    def asked() -> list[int]:
        counted = []
        for page in ("/topics/", *all_pages(run)):
            with CaptureQueriesContext(connection) as queries:
                assert reader.get(page).status_code == 200
            counted.append(len(queries))
        return counted

    sharing.set_role(member, "editor", by=run.topic.owner.actor)
    before = asked()
    for number in (3, 4, 5):
        reported(run.topic, number, changes=4)
    for number in range(4):
        sharing.add_comment(run.report, f"Comment {number}", author=run.topic.owner)
        topic = make(run.topic.owner, f"Subject {number}")
        sharing.add_member(topic, "bob", "viewer", by=topic.owner.actor)

    assert asked() == before


# --- comments ---


def comments(run: Run, rest: str = "") -> str:
    return shared(run.topic, f"runs/{run.pk}/comments/{rest}")


@pytest.fixture
def commenter(member: Membership) -> Membership:
    """Bob, who can also comment."""
    sharing.set_role(member, "commenter", by=member.topic.owner.actor)
    return member


@pytest.mark.requirement("R394")
def test_a_comment_is_listed_for_every_member_and_the_owner_newest_last(
    browser: Client, commenter: Membership, run: Run, reader: Client, admin: User,
    client_of: Callable[[Any], Client],
):  # fmt: skip
    own_page = f"/topics/{run.topic.slug}/runs/{run.pk}/"
    sharing.add_member(run.topic, "admin", "viewer", by=run.topic.owner.actor)

    answer = reader.post(comments(run), {"text": "Is **13.2** out?"}, follow=True)
    browser.post(comments(run), {"text": "Yes, since Monday."})

    made = Comment.objects.earliest("created")
    assert answer.redirect_chain[-1][0].endswith(f"runs/{run.pk}/#comment-{made.pk}")
    for client, page in (
        (reader, shared(run.topic, f"runs/{run.pk}/")), (reader, shared(run.topic)),
        (client_of(admin), shared(run.topic)), (browser, own_page),
    ):  # fmt: skip
        shown = text_of(client.get(page))
        first, second = shown.index("Is <strong>13.2</strong> out?"), shown.index("since Monday")
        assert first < second and "<bdi>bob</bdi>" in shown
    assert 'name="text"' not in text_of(client_of(admin).get(shared(run.topic)))  # a viewer
    assert f'{own_page}#comments">2 comments' in text_of(browser.get(f"/topics/{run.topic.slug}/"))
    line = Activity.objects.for_user(run.topic.owner).filter(kind="report-commented").last()
    assert line is not None and line.actor == "human:bob"


def test_a_topic_that_is_not_shared_shows_no_comments(browser: Client, run: Run):
    assert 'id="comments"' not in text_of(browser.get(f"/topics/{run.topic.slug}/runs/{run.pk}/"))


def test_markup_in_a_comment_is_harmless(commenter: Membership, run: Run, reader: Client):
    text = "<script>alert(1)</script> ![x](https://evil.example/x.png) [y](javascript:alert(1))"
    reader.post(comments(run), {"text": text})

    shown = reader.get(shared(run.topic)).content.decode()

    assert "<script>alert" not in shown and "<img" not in shown and 'href="javascript' not in shown


def test_the_author_edits_a_comment_and_undoes_that(
    commenter: Membership, run: Run, reader: Client, bob: User
):
    made = sharing.add_comment(run.report, "It is out.", author=bob)
    page = comments(run, f"{made.pk}/")
    assert "It is out." in text_of(reader.get(page))

    shown = reader.post(page, {"text": "It was delayed."}, follow=True)

    assert "It was delayed." in text_of(shown) and "edited" in text_of(shown)
    undone(reader, shown)
    assert Comment.objects.get().text == "It is out."


def test_a_deleted_comment_is_restored_by_undo(
    browser: Client, commenter: Membership, run: Run, reader: Client, bob: User
):
    for client in (reader, browser):  # its author, and the topic's owner
        made = sharing.add_comment(run.report, "It is out.", author=bob)
        shown = client.post(comments(run, f"{made.pk}/delete/"), follow=True)
        assert not Comment.objects.exists()

        undone(client, shown)

        back = Comment.objects.get()
        assert (back.pk, back.author, back.text) == (made.pk, bob, "It is out.")
        back.delete()


def test_no_one_changes_another_persons_comment(
    browser: Client, commenter: Membership, run: Run, reader: Client
):
    owners = sharing.add_comment(run.report, "Mine.", author=run.topic.owner)
    bobs = sharing.add_comment(run.report, "His.", author=commenter.user)

    assert reader.get(comments(run, f"{owners.pk}/")).status_code == 404
    assert reader.post(comments(run, f"{owners.pk}/"), {"text": "No."}).status_code == 404
    assert reader.post(comments(run, f"{owners.pk}/delete/")).status_code == 404
    assert browser.post(comments(run, f"{bobs.pk}/"), {"text": "No."}).status_code == 404
    assert sorted(Comment.objects.values_list("text", flat=True)) == ["His.", "Mine."]


@pytest.mark.parametrize("text", ["", "   ", "x" * (Comment.MAX_LENGTH + 1)])
def test_a_wrong_comment_is_shown_again_with_the_reason(
    commenter: Membership, run: Run, reader: Client, text: str
):
    shown = reader.post(comments(run), {"text": text}).content.decode()

    assert "aria-invalid" in shown and text in shown and not Comment.objects.exists()


def test_number_and_rate_of_comments_are_limited(
    commenter: Membership, run: Run, reader: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Comment, "MAX_PER_HOUR", 2)
    for number in range(2):
        reader.post(comments(run), {"text": f"Comment {number}"})
    Comment.objects.first().delete()  # type: ignore[union-attr]

    shown = text_of(reader.post(comments(run), {"text": "One too many"}))

    assert "reached the limit of" in shown and "One too many" in shown
    monkeypatch.setattr(Comment, "MAX_PER_HOUR", 9)
    monkeypatch.setattr(Comment, "MAX", 1)
    assert "limit of 1 comments" in text_of(reader.post(comments(run), {"text": "Another"}))
    assert Comment.objects.count() == 1


def test_a_viewer_is_told_why_a_comment_is_not_posted(member: Membership, run: Run, reader: Client):
    answer = reader.post(comments(run), {"text": "It is out."})

    assert answer.status_code == 409 and "another role" in text_of(answer)
    assert not Comment.objects.exists()


@pytest.mark.requirement("R396")
def test_a_removed_member_can_no_longer_read_write_or_undo(
    commenter: Membership, run: Run, reader: Client, bob: User
):
    kept, gone = (sharing.add_comment(run.report, text, author=bob) for text in ("Kept.", "Gone."))
    shown = reader.post(comments(run, f"{gone.pk}/delete/"), follow=True)

    sharing.remove_member(commenter, by=run.topic.owner.actor)

    for rest in ("", f"{kept.pk}/", f"{kept.pk}/delete/"):
        assert reader.post(comments(run, rest), {"text": "Still here."}).status_code == 404
    assert reader.get(comments(run, f"{kept.pk}/")).status_code == 404
    assert reader.post(undo_in(shown)).status_code == 409
    assert [one.text for one in Comment.objects.all()] == ["Kept."]


def test_a_comment_on_a_report_that_members_do_not_see_is_not_reached(
    commenter: Membership, run: Run, reader: Client, bob: User
):
    made = sharing.add_comment(run.report, "It is out.", author=bob)
    Report.objects.filter(run=run).update(sensitivity="sensitive")

    assert reader.get(comments(run, f"{made.pk}/")).status_code == 404
    assert reader.post(comments(run), {"text": "And now?"}).status_code == 404


def test_a_deleted_account_takes_its_comments_along_and_no_undo_brings_them_back(
    browser: Client, commenter: Membership, run: Run, bob: User
):
    kept, gone = (sharing.add_comment(run.report, text, author=bob) for text in ("Kept.", "Gone."))
    shown = browser.post(comments(run, f"{gone.pk}/delete/"), follow=True)
    assert Comment.objects.get() == kept

    bob.delete()

    assert not Comment.objects.exists()
    assert browser.post(undo_in(shown)).status_code == 409
    assert not Comment.objects.exists()


def test_a_members_deleted_account_is_in_the_owners_log(
    browser: Client, member: Membership, bob: User
):
    topic = member.topic

    delete_account(bob, typed="bob", by=bob)

    assert not topic.members.exists()
    line = Activity.objects.for_user(topic.owner).get(kind="topic-left")
    assert (line.actor, line.detail["member"]) == ("human:bob", "bob")
    assert "a member left" in text_of(browser.get("/activity/"))


def test_former_texts_are_deleted_with_the_topic(commenter: Membership, run: Run, reader: Client):
    made = sharing.add_comment(run.report, "A secret thought", author=commenter.user)
    reader.post(comments(run, f"{made.pk}/delete/"))
    assert Undo.objects.filter(act="comment-deleted").exists()

    run.topic.trash(by=run.topic.owner.actor)
    run.topic.purge(by=run.topic.owner.actor)

    assert not Undo.objects.filter(act="comment-deleted").exists()


# --- editors ---


@pytest.fixture
def editor(member: Membership) -> Membership:
    """Bob, who can also start runs and edit what they look for."""
    sharing.set_role(member, "editor", by=member.topic.owner.actor)
    TopicSettings.objects.filter(topic=member.topic).update(
        objective="What is new?", always_check=["postgres 19", LIBRARY]
    )
    return member


LIBRARY = "library:2b6b6a2e-0000-4000-8000-000000000001/1"


def typed(reader: Client, topic: Topic, **fields: str) -> dict[str, str]:
    """Return what a browser sends from the editor's page, with some fields changed."""
    form = reader.get(shared(topic, "settings/")).context["form"]
    shown = {name: form[name].value() for name in form.fields}
    return {name: form.fields[name].prepare_value(value) for name, value in shown.items()} | fields


@pytest.mark.requirement("R395")
def test_the_owner_sees_and_undoes_an_editors_change(
    browser: Client, editor: Membership, run: Run, reader: Client
):
    sent = typed(reader, run.topic, objective="Which fixes?")
    reader.post(shared(run.topic, "settings/"), sent)
    change = Revision.objects.filter(record_id=run.topic.pk).latest("id")
    assert "bob" in text_of(browser.get(f"/activity/changes/{change.pk}/"))

    browser.post(undo_of("revision", change.pk))

    assert TopicSettings.objects.get(topic=run.topic).objective == "What is new?"


@pytest.mark.requirement("R395")
def test_an_editor_edits_what_runs_look_for_and_undoes_that(
    editor: Membership, run: Run, reader: Client
):
    page = shared(run.topic, "settings/")
    assert "library:" not in reader.get(page).content.decode()
    sent = typed(reader, run.topic, objective="Which fixes?", always_check="https://a.example/x")

    shown = reader.post(page, sent, follow=True)

    stored = TopicSettings.objects.get(topic=run.topic)
    assert (stored.objective, stored.always_check) == (
        "Which fixes?", ["https://a.example/x", LIBRARY],
    )  # fmt: skip
    change = Revision.objects.filter(record_id=run.topic.pk).latest("id")
    assert change.actor == "human:bob" and change.before["objective"] == "What is new?"
    undone(reader, shown)
    stored.refresh_from_db()
    assert (stored.objective, stored.always_check) == ("What is new?", ["postgres 19", LIBRARY])


@pytest.mark.requirement("R395")
def test_an_editor_starts_a_run_which_names_them(editor: Membership, run: Run, reader: Client):
    shown = text_of(reader.post(shared(run.topic, "run/"), follow=True))

    started = Run.objects.latest("pk")
    assert (started.topic, started.actor, started.status) == (run.topic, "human:bob", "queued")
    assert "Run started" in shown and "Run in progress" in shown
    assert "already in progress" in text_of(reader.post(shared(run.topic, "run/"), follow=True))
    assert Run.objects.filter(topic=run.topic).unfinished().count() == 1


def test_an_editors_run_doesnt_search_the_owners_library(
    editor: Membership, run: Run, reader: Client
):
    TopicSettings.objects.update(services=["library"])
    answer = reader.post(shared(run.topic, "run/"))
    assert answer.status_code == 409 and "Only this topic’s owner" in text_of(answer)
    assert "The run wasn’t started" in text_of(answer)

    TopicSettings.objects.update(services=["library", "wikipedia"])
    reader.post(shared(run.topic, "run/"))
    assert Run.objects.latest("pk").settings["services"] == ["wikipedia"]


def test_an_editor_is_told_why_no_run_starts_and_nothing_of_the_owner(
    editor: Membership, run: Run, reader: Client, settings: Any
):
    Topic.objects.filter(pk=run.topic_id).update(archived_at="2026-01-01T00:00Z")
    answer = reader.post(shared(run.topic, "run/"))
    assert answer.status_code == 409 and "archived this topic" in text_of(answer)
    Topic.objects.filter(pk=run.topic_id).update(archived_at=None)
    settings.BEACON_RUNS_PER_HOUR = 1

    answer = reader.post(shared(run.topic, "run/"))

    assert answer.status_code == 429 and "owner has reached the limit" in text_of(answer)


@pytest.mark.parametrize("line", [LIBRARY, "https://", "\n".join("abcdef"), "\n".join("abcde")])
def test_a_wrong_rule_of_an_editor_is_explained_and_changes_nothing(
    editor: Membership, run: Run, reader: Client, line: str
):
    sent = typed(reader, run.topic, always_check=line, objective="Mine")

    shown = reader.post(shared(run.topic, "settings/"), sent).content.decode()

    assert "aria-invalid" in shown and "Mine" in shown
    assert TopicSettings.objects.get(topic=run.topic).objective == "What is new?"


def test_an_editor_and_the_owner_at_once_lose_nothing(editor: Membership, run: Run, reader: Client):
    page, topic = shared(run.topic, "settings/"), run.topic
    sent = typed(reader, topic, objective="The editor’s")
    topic_editing.edit_topic(
        topic, by=topic.owner.actor, wanted={"objective": "The owner’s", "focus": "Fixes"}
    )

    shown = reader.post(page, sent)

    stored = TopicSettings.objects.get(topic=topic)
    assert "The owner’s" in text_of(shown) and stored.objective == "The owner’s"
    form = shown.context["form"]
    again = {name: form[name].value() for name in form.fields}
    reader.post(page, again)
    stored.refresh_from_db()
    assert (stored.objective, stored.focus) == ("The editor’s", "Fixes")


@pytest.mark.parametrize("role", ["viewer", "commenter"])
def test_only_editors_start_runs_and_edit(member: Membership, run: Run, reader: Client, role: str):
    sharing.set_role(member, role, by=run.topic.owner.actor)
    page = text_of(reader.get(shared(run.topic)))
    assert "Run now" not in page and ">Settings</a>" not in page.partition('class="tabs"')[2]

    for rest in ("settings/", "run/"):
        assert reader.post(shared(run.topic, rest), {"objective": "Mine"}).status_code == 409
    assert reader.get(shared(run.topic, "settings/")).status_code == 409
    assert not Run.objects.filter(topic=run.topic).unfinished().exists()
    assert TopicSettings.objects.get(topic=run.topic).objective == ""


# --- each reader's own mark ---


@pytest.mark.requirement("R381")
def test_what_changed_since_last_read_differs_for_two_readers(
    topic: Topic, bob: User, admin: User, client_of: Callable[[Any], Client]
):
    for number in range(1, 5):
        reported(topic, number, changes=1 if number > 1 else 0)
    first, second = client_of(bob), client_of(admin)
    for name in ("bob", "admin"):
        sharing.add_member(topic, name, "viewer", by=topic.owner.actor)
    assert first.post(shared(topic, "read/?upto=1")).status_code == 302
    assert second.post(shared(topic, "read/?upto=3")).status_code == 302

    shown = [text_of(client.get(shared(topic))) for client in (first, second)]
    lists = [text_of(client.get("/topics/")) for client in (first, second)]

    assert "Since you last read" in shown[0] and "Run #1," in shown[0]
    assert "Since you last read" not in shown[1]
    assert "3 unread" in lists[0] and "1 unread" in lists[1]
    assert not Report.objects.exclude(read_at=None).exists()  # the owner's mark is another


def test_the_page_marks_up_to_the_newest_shown_and_not_what_came_later(
    topic: Topic, bob: User, reader: Client
):
    reported(topic, 1)
    member = sharing.add_member(topic, "bob", "viewer", by=topic.owner.actor)
    shown = reader.get(shared(topic)).content.decode()
    address = re.search(r'data-mark-read="([^"]+)"', shown)
    assert address is not None
    reported(topic, 2, changes=1)

    assert reader.post(address[1], headers={"X-Requested-With": "fetch"}).status_code == 204

    member.refresh_from_db()
    assert member.read_run == 1
    assert "1 unread" in text_of(reader.get("/topics/"))


@pytest.mark.parametrize("upto", ["", "x", "9", "-1", "99999999999999"])
def test_a_run_that_is_not_there_is_not_marked(member: Membership, reader: Client, upto: str):
    address = shared(member.topic, f"read/?upto={upto}")
    assert reader.post(address).status_code == 404


def test_the_same_fact_is_reported_once_with_its_latest_text(
    topic: Topic, bob: User, reader: Client
):
    run = make_second_run(topic)
    reported(topic, 3, changes=1)
    member = sharing.add_member(topic, "bob", "viewer", by=topic.owner.actor)
    sharing.mark_read(member, 1)

    shown = text_of(reader.get(shared(topic)))

    assert "Since you last read" in shown
    # A citation leads to the report it is from.
    assert f'href="{shared(topic, f"runs/{run.pk}/")}#source-2"' in shown


# --- the owner's page of people, and leaving ---


def people(topic: Topic) -> str:
    return f"/topics/{topic.slug}/people/"


def test_the_owner_shares_it_and_takes_that_back(browser: Client, run: Run, bob: User):
    asked = {"username": "bob", "role": "viewer"}
    shown = browser.post(people(run.topic), asked, follow=True).content.decode()

    assert "“bob” has an account, they can read" in shown and Membership.objects.get().user == bob
    undone(browser, shown)
    assert not Membership.objects.exists()


@pytest.mark.requirement("R399")
def test_the_page_does_not_say_whether_an_account_exists(browser: Client, run: Run, bob: User):
    User.objects.filter(pk=bob.pk).update(display_name="Bob B.")
    seen = []
    for name in ("bob", "nobody"):
        pages = [browser.post(people(run.topic), {"username": name, "role": "viewer"}, follow=True)]
        member = Membership.objects.get()
        for act in ("topic-member-role", "topic-member-remove"):
            address = reverse(f"research:{act}", args=[run.topic.slug, member.pk])
            pages.append(browser.post(address, {"role": "editor"}, follow=True))
        shown = [text_of(page).partition("<main")[2] for page in pages]
        seen.append([re.sub(r'"[^"]*"|\d', "", one).replace(name, "X") for one in shown])
        undone(browser, pages[-1])
        assert Membership.objects.get().role == "editor"
        Membership.objects.all().delete()

    assert seen[0] == seen[1]


@pytest.mark.requirement("R393")
def test_the_owner_chooses_a_role_changes_it_and_undoes_that(browser: Client, run: Run, bob: User):
    browser.post(people(run.topic), {"username": "bob", "role": "commenter"})
    member = Membership.objects.get()
    assert member.role == "commenter"
    address = reverse("research:topic-member-role", args=[run.topic.slug, member.pk])

    shown = browser.post(address, {"role": "editor"}, follow=True).content.decode()

    assert "role was changed to editor" in shown
    assert Membership.objects.get().role == "editor"
    undone(browser, shown)
    assert Membership.objects.get().role == "commenter"


def test_an_older_undo_does_not_replace_a_newer_role(browser: Client, member: Membership):
    address = reverse("research:topic-member-role", args=[member.topic.slug, member.pk])
    first = browser.post(address, {"role": "editor"}, follow=True)
    browser.post(address, {"role": "commenter"})

    assert undone(browser, first).status_code == 409
    assert Membership.objects.get().role == "commenter"


@pytest.mark.parametrize("role", ["", "owner", "viewer"])
def test_a_wrong_or_the_same_role_changes_nothing(browser: Client, member: Membership, role: str):
    address = reverse("research:topic-member-role", args=[member.topic.slug, member.pk])
    answer = browser.post(address, {"role": role}, follow=True)

    assert answer.status_code == (200 if role == "viewer" else 409)
    assert Membership.objects.get().role == "viewer"


def test_a_removed_member_is_restored_by_undo_with_the_same_mark(
    browser: Client, member: Membership, reader: Client
):
    sharing.set_notify(member, wanted=True)
    sharing.mark_read(member, 2)
    address = reverse("research:topic-member-remove", args=[member.topic.slug, member.pk])
    shown = browser.post(address, follow=True).content.decode()
    assert reader.get(shared(member.topic)).status_code == 404

    undone(browser, shown)

    assert Membership.objects.get().read_run == 2
    assert Membership.objects.get().notify


@pytest.mark.parametrize("name", ["alice", "", "x" * 200])
def test_a_wrong_name_is_explained_at_its_field(browser: Client, topic: Topic, name: str):
    shown = browser.post(people(topic), {"username": name, "role": "viewer"}).content.decode()

    assert "aria-invalid" in shown and not Membership.objects.exists()


def test_only_the_owner_sees_and_changes_who_has_access(member: Membership, reader: Client):
    assert reader.get(people(member.topic)).status_code == 404
    assert (
        reader.post(people(member.topic), {"username": "admin", "role": "editor"}).status_code
        == 404
    )
    address = reverse("research:topic-member-remove", args=[member.topic.slug, member.pk])
    assert reader.post(address).status_code == 404
    assert Membership.objects.count() == 1


@pytest.mark.requirement("R382")
def test_leaving_ends_access_at_once(member: Membership, run: Run, reader: Client):
    assert all(reader.get(page).status_code == 200 for page in all_pages(run))

    answer = reader.post(shared(run.topic, "leave/"), follow=True)

    assert "You left" in text_of(answer)
    assert {reader.get(page).status_code for page in all_pages(run)} == {404}
    assert "Shared with you" not in text_of(reader.get("/topics/"))


def test_a_topic_in_trash_and_a_disabled_owner_end_access(
    member: Membership, run: Run, reader: Client
):
    User.objects.filter(pk=run.topic.owner_id).update(is_active=False)
    assert {reader.get(page).status_code for page in all_pages(run)} == {404}
    User.objects.filter(pk=run.topic.owner_id).update(is_active=True)
    run.topic.trash(by=run.topic.owner.actor)

    assert {reader.get(page).status_code for page in all_pages(run)} == {404}


# --- the matrix ---

LED_ON = re.compile(r"-moved$")  # redirects that look up nothing


@pytest.mark.slow
@pytest.mark.requirement("R380")
@pytest.mark.timeout(600)
def test_every_url_of_a_topic_by_everyone(
    alice: User, bob: User, admin: User, client_of: Callable[[Any], Client]
):
    one_of_each(alice)
    topic, other = make_topic(alice, "The diagnosis of a friend"), make_topic(alice, "Another one")
    run = make_second_run(topic)
    sharing.add_member(topic, "bob", "viewer", by=alice.actor)
    sharing.add_member(other, "admin", "viewer", by=alice.actor)
    rows = named(topic)
    found = [(name, str(entry.pattern)) for name, _url, entry in routes() if name not in PUBLIC]
    urls = [Address(*one, rows) for one in found if one[0] not in STAFF]
    urls = [one for one in urls if one.path.startswith("/topics/")]
    urls = [one for one in urls if one.names_a_row and not LED_ON.search(one.name)]
    of_members = {f"research:shared-topic{end}" for end in ("", "-facts", "-sources", "-reports", "-report", "-read", "-notify", "-leave")}  # fmt: skip
    of_editors = {f"research:{name}" for name in ("shared-topic-settings", "shared-topic-run")}
    of_members |= of_editors | {"research:comment-add"}
    assert of_members <= {one.name for one in urls}

    leaks: dict[str, Any] = {}
    members = {"viewer": bob}
    for role in ("commenter", "editor"):
        members[role] = User.objects.create_user(role)
        sharing.add_member(topic, role, role, by=alice.actor)
    others = {"member of another topic": admin, "stranger": User.objects.create_user("carol")}
    for who, person in (members | others).items():
        client = client_of(person)
        for one in urls:
            if who in members and one.name in of_members:
                continue
            with rows_written() as tables:
                codes = {client.get(one.path).status_code, client.post(one.path).status_code}
            if not codes <= {404, 405} or 404 not in codes or tables:
                leaks[f"{who}: {one.name}"] = (codes, tables)
    assert leaks == {}
    acts = {f"research:{name}" for name in ("shared-topic-read", "shared-topic-notify", "shared-topic-leave", "shared-topic-run", "comment-add")}  # fmt: skip
    for role, person in members.items():
        client = client_of(person)
        found = [one for one in urls if one.name in of_members]
        got = {one.name: client.get(one.path).status_code for one in found}
        expected = {one.name: 405 if one.name in acts else 200 for one in found}
        if role != "editor":
            expected["research:shared-topic-settings"] = 409
        assert got == expected, role
        posted = client.post(comments(run), {"text": "Seen."}).status_code
        started = client.post(shared(topic, "run/")).status_code
        assert posted == (409 if role == "viewer" else 302), role
        assert started == (302 if role == "editor" else 409), role
    signed_out = {Client().get(page).status_code for page in all_pages(run)}
    assert signed_out == {302}
