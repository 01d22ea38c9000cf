"""One content item: every transform, what agents see of it, where it comes from and went."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memory.models import ContentItem, Use, User
from memory.services.content.compaction import citation_line, compact_form
from memory.services.content.items import store
from memory.services.content.snapshots import take_snapshot
from research.models import ToolCall
from tests.pages.record_cast import text_of
from tests.research.factories import make_hit, make_run, make_topic
from tests.undo import undone

HTMX = {"HX-Request": "true", "HX-Target": "content_view"}
LINES = "\n".join(f"Line {number} tells of cells." for number in range(1, 2_001))


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


@pytest.fixture
def item(alice: User) -> ContentItem:
    return store(
        alice, LINES, by=alice.actor, type="web_content", title="A long <i>page</i>",
        url="https://example.org/long", trust="external", tags=["web"],
    )  # fmt: skip


def shown(browser: Client, item: ContentItem, **asked: str) -> Any:
    return browser.get(item.get_absolute_url(), asked).context["shown"]


@pytest.mark.requirement("R114")
@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"transform": "first_n", "n": "2", "unit": "lines"}, LINES[: len("Line 1 tells of cells.\n") * 2]),
        ({"transform": "last_n", "n": "6"}, "cells."),
        ({"transform": "first_n", "n": "4"}, "Line"),
        ({"transform": "filtered", "q": "1999"}, "Line 1999 tells of cells."),
        ({"transform": "excerpt", "q": "1999", "n": "9"}, "1999"),
        ({"transform": "full"}, LINES),
    ],
)  # fmt: skip
def test_each_transform_is_shown(
    browser: Client, item: ContentItem, asked: dict[str, str], text: str
):
    seen = shown(browser, item, **asked)
    assert "problem" not in seen
    assert text in seen["text"]
    assert seen["view"].description() in text_of(browser.get(item.get_absolute_url(), asked))


def test_an_item_is_shown_in_full_at_first(browser: Client, item: ContentItem):
    assert shown(browser, item)["text"] == LINES


def test_over_htmx_the_view_alone_answers(browser: Client, item: ContentItem):
    answer = browser.get(item.get_absolute_url(), {"transform": "summary"}, headers=HTMX)
    assert answer.content.decode().lstrip().startswith('<section id="content_view"')
    assert "Agent view" not in answer.content.decode()


@pytest.mark.parametrize(
    "asked",
    [
        {"transform": "shout"}, {"transform": "first_n", "n": "-1"}, {"transform": "filtered"},
        {"transform": "first_n", "n": "1000000000"},
        {"transform": "first_n", "n": "many"}, {"transform": "first_n", "unit": "words"},
        {"transform": "first_n", "n": "9" * 5_000},
    ],
)  # fmt: skip
def test_what_cannot_be_shown_is_explained_and_kept(
    browser: Client, item: ContentItem, asked: dict[str, str]
):
    answer = browser.get(item.get_absolute_url(), asked)
    assert answer.status_code == 200
    assert answer.context["shown"]["problem"]
    assert 'role="alert"' in text_of(answer)
    assert f'value="{asked.get("n", "")[:20]}"' in text_of(answer)


def test_a_problem_names_the_field_as_the_page_does(browser: Client, item: ContentItem):
    page = text_of(browser.get(item.get_absolute_url(), {"transform": "first_n", "n": "-1"}))
    assert "“Length” must be a whole number from 1 to 8,388,608, not “-1”." in page
    page = text_of(browser.get(item.get_absolute_url(), {"transform": "filtered"}))
    assert "Enter the words to find." in page


def test_a_field_that_the_view_does_not_use_is_ignored(browser: Client, item: ContentItem):
    asked = {"transform": "full", "n": "3", "q": "nowhere"}
    assert shown(browser, item, **asked)["text"] == LINES


def test_what_came_from_the_web_is_plain_text(browser: Client, alice: User):
    bad = store(alice, "<script>alert(1)</script>", by=alice.actor, title="<img src=x>")
    html = browser.get(bad.get_absolute_url()).content.decode()
    assert "<script>alert" not in html
    assert "<img" not in html
    assert "&lt;script&gt;alert(1)" in html


def test_an_address_that_no_browser_can_follow_isnt_a_link(browser: Client, alice: User):
    bad = store(alice, "x", by=alice.actor, url="javascript:alert(1)")
    assert 'href="javascript' not in browser.get(bad.get_absolute_url()).content.decode()


def test_the_page_of_a_huge_item_stays_small(browser: Client, alice: User):
    huge = store(alice, "word " * 1_600_000, by=alice.actor, title="Huge")
    answer = browser.get(huge.get_absolute_url(), {"transform": "full"})
    assert len(answer.content) < 300_000
    assert "Only the first 200,000 characters are shown" in text_of(answer)


def test_the_compact_form_and_the_citation_line_are_those_of_an_agent(
    browser: Client, item: ContentItem
):
    page = browser.get(item.get_absolute_url()).context["page"]
    assert page["compact"] == compact_form(item)
    assert page["citation"] == citation_line(item)


def test_relations_are_shown_both_ways(browser: Client, alice: User, item: ContentItem):
    newer = store(alice, "b", by=alice.actor, title="The newer", related_to=[item.pk])
    assert browser.get(newer.get_absolute_url()).context["page"]["names"] == [item]
    assert browser.get(item.get_absolute_url()).context["page"]["named_by"] == [newer]


@pytest.mark.requirement("R134")
def test_it_shows_with_which_step_of_which_run_it_is_kept_and_who_cites_it(
    browser: Client, alice: User
):
    run = make_run(make_topic(alice, "Cells"))
    item = store(alice, "x", by=alice.actor, run_step=f"run:{run.pk}/step:7")
    make_hit(run, 1, content_item=item, cited_as=3)
    Use.objects.create(owner=alice, record_type="contentitem", record_id=item.pk, place=run.source)
    html = text_of(browser.get(item.get_absolute_url()))
    run_url = reverse("research:run", args=[run.topic.slug, run.pk])
    assert ", step 7</a>" in html
    assert f'href="{run_url}#source-3"' in html
    assert "cited as [3] in the report for" in html
    assert "in the prompt for" in html


def test_a_runs_hit_leads_to_the_text_that_was_read(browser: Client, alice: User):
    run = make_run(make_topic(alice, "Cells"))
    item = store(alice, "x", by=alice.actor)
    make_hit(run, 1, content_item=item)
    run_url = reverse("research:run", args=[run.topic.slug, run.pk])
    assert f'href="{item.get_absolute_url()}">page text' in text_of(browser.get(run_url))


def test_it_shows_which_call_of_a_deep_run_it_answered(browser: Client, alice: User):
    run = make_run(make_topic(alice, "Cells"))
    item = store(alice, "x", by=alice.actor)
    ToolCall.objects.create(
        run=run, part=1, position=1, round=1, tool="open_page", content_item=item
    )
    html = text_of(browser.get(item.get_absolute_url()))
    assert "result of open_page in" in html


def test_it_says_how_long_it_is_kept(browser: Client, alice: User, item: ContentItem):
    assert "for 90 more days, then moved to Trash" in text_of(browser.get(item.get_absolute_url()))
    item.change(by=alice.actor, pinned=True)
    assert browser.get(item.get_absolute_url()).context["page"]["kept"] == "until deleted"


def test_snapshots_that_hold_it_are_named(browser: Client, alice: User, item: ContentItem):
    kept = take_snapshot(alice, "owner", by=alice.actor, title="Before the trip")
    html = text_of(browser.get(item.get_absolute_url()))
    assert kept.get_absolute_url() in html


def test_the_whole_is_a_text_file_and_nothing_else(browser: Client, item: ContentItem):
    answer = browser.get(reverse("memory:content-raw", args=[item.pk]))
    assert answer.content.decode() == LINES
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert answer["Content-Disposition"].startswith("attachment")
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_marked_sensitive_no_agent_sees_it_and_no_one_vouched_for_it(
    browser: Client, item: ContentItem
):
    mark = reverse("memory:content-sensitivity", args=[item.pk])
    answer = browser.post(mark, {"mark": "1"}, follow=True)
    item.refresh_from_db()
    assert (item.sensitivity, item.trust) == ("sensitive", "external")
    assert "Only people can see" in browser.get(item.get_absolute_url()).context["page"]["compact"]
    undone(browser, answer)
    item.refresh_from_db()
    assert (item.sensitivity, item.trust) == ("normal", "external")


def test_it_is_trashed_shown_in_the_trash_and_brought_back(browser: Client, item: ContentItem):
    browser.post(reverse("memory:record-trash", args=["contentitem", item.pk]))
    html = text_of(browser.get(item.get_absolute_url()))
    assert "This record is in Trash." in html
    browser.post(reverse("memory:record-restore", args=["contentitem", item.pk]))
    item.refresh_from_db()
    assert item.trashed_at is None


def test_pinned_it_says_so(browser: Client, item: ContentItem):
    browser.post(reverse("memory:record-pin", args=["contentitem", item.pk]))
    item.refresh_from_db()
    assert item.pinned
    assert "Unpin" in text_of(browser.get(item.get_absolute_url()))


@pytest.mark.parametrize("name", ["content-item", "content-raw"])
def test_a_stranger_finds_nothing(
    item: ContentItem, bob: User, client_of: Callable[[User], Client], name: str
):
    bobs = client_of(bob)
    assert bobs.get(reverse(f"memory:{name}", args=[item.pk])).status_code == 404
    mark = reverse("memory:content-sensitivity", args=[item.pk])
    assert bobs.post(mark, {"mark": "1"}).status_code == 404


def test_the_page_takes_a_fixed_number_of_queries(
    browser: Client, alice: User, item: ContentItem, django_assert_max_num_queries: Any
):
    for number in range(15):
        store(alice, f"b{number}", by=alice.actor, related_to=[item.pk])
        Use.objects.create(
            owner=alice, record_type="contentitem", record_id=item.pk, place=f"run:{number}"
        )
        take_snapshot(alice, "owner", by=alice.actor)
    with django_assert_max_num_queries(16):
        browser.get(item.get_absolute_url())
