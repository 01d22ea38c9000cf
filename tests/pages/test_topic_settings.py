"""Editing a topic: what applies from the next run, and what happens when two edit at once."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memory.models import Revision, Topic
from research.models import Schedule, TopicSettings
from research.services.topics.settings import editing as topic_editing
from research.services.topics.topic_form import TopicForm, initial_of
from tests.pages.topic_cast import make, text_of
from tests.research.factories import make_fact, make_report, make_run

URL = "/topics/sailing/settings/"
HTMX = {"HX-Request": "true"}
ClientOf = Callable[[Any], Client]


@pytest.fixture
def browser(client_of: ClientOf, alice: Any) -> Client:
    return client_of(alice)


@pytest.fixture
def topic(alice: Any) -> Topic:
    settings = {"objective": "Know the rules", "max_money": "2.50", "services": ["library"]}
    return make(alice, "Sailing", preset="weekly", settings=settings, labels=["sea"])


def opened(topic: Topic, **typed: Any) -> dict[str, Any]:
    """Return what a browser sends for the form as opened now, with `typed`."""
    form = TopicForm(owner=topic.owner, topic=topic, initial=initial_of(topic))
    shown = {name: form[name].value() for name in form.fields}
    sent = {name: value for name, value in shown.items() if value not in (None, False)}
    return sent | typed


def test_it_shows_what_is_set(browser: Client, topic: Topic):
    page = text_of(browser.get(URL))

    for words in ("Know the rules", "2.50", "sea", "Every Monday at 07:00 (UTC)", "next run"):
        assert words in page


@pytest.mark.parametrize("page", ["settings/", "notices/"])
def test_its_head_is_that_of_the_other_tabs(browser: Client, topic: Topic, page: str):
    make_fact(topic, "The start is at noon.")
    make_run(topic, saved=False)

    shown = browser.get(f"/topics/sailing/{page}").content.decode()

    assert re.search(r'Facts</span> <span class="count">1</span>', shown)
    assert re.search(r'<button type="submit" class="primary"[^>]* disabled>', shown)


def test_a_change_is_stored_with_its_revision(browser: Client, topic: Topic):
    response = browser.post(URL, opened(topic, objective="Know the stars", max_pages="5"))

    stored = TopicSettings.objects.get(topic=topic)
    assert response["Location"] == URL
    assert (stored.objective, stored.max_pages) == ("Know the stars", 5)
    revision = Revision.objects.filter(record_id=topic.pk).latest("id")
    assert revision.before == {"objective": "Know the rules", "max_pages": None}
    assert revision.after == {"objective": "Know the stars", "max_pages": 5}


def test_saving_unchanged_changes_nothing(browser: Client, topic: Topic):
    browser.post(URL, opened(topic))

    topic.refresh_from_db()
    assert topic.version == 1
    assert Revision.objects.filter(record_id=topic.pk).count() == 1


def test_a_new_name_is_a_new_address(browser: Client, topic: Topic):
    response = browser.post(URL, opened(topic, title="Sailing in the dark"))

    assert response["Location"] == "/topics/sailing-in-the-dark/settings/"


def test_a_new_schedule_moves_the_next_run_and_a_pause_stays(browser: Client, topic: Topic):
    Schedule.objects.update(paused=True, next_run_at=None)

    browser.post(URL, opened(topic, preset="daily", hour="5"))

    schedule = Schedule.objects.get()
    assert (schedule.cron, schedule.paused, schedule.next_run_at) == ("0 5 * * *", True, None)


def test_over_htmx_a_refused_form_comes_back_alone(browser: Client, topic: Topic):
    response = browser.post(URL, opened(topic, title=""), headers=HTMX)

    assert text_of(response).startswith('<form id="topic-form"')
    assert "Enter a topic" in text_of(response)


@pytest.mark.requirement("R232")
def test_a_stranger_is_turned_away(client_of: ClientOf, topic: Topic, bob: Any):
    assert client_of(bob).get(URL).status_code == 404
    assert client_of(bob).post(URL, opened(topic, title="Mine")).status_code == 404
    assert Client().get(URL)["Location"].startswith("/sign-in/")


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (
            {"title": "Taken"},
            'You already have a topic named “Taken”. <a href="/topics/taken/">Open topic</a>',
        ),
        ({"preset": "cron", "cron": "0 9 31 2 *"}, "would never run"),
        ({"allow_domains": "http://x.example/"}, "“x.example”"),
        ({"languages": "Klingon"}, "“Klingon”"),
    ],
)
def test_bad_input_is_explained_and_nothing_typed_is_lost(
    browser: Client, topic: Topic, alice: Any, typed: dict[str, str], words: str
):
    make(alice, "Taken")

    page = text_of(browser.post(URL, opened(topic, focus="my own words", **typed)))

    assert words in page
    assert "my own words" in page
    assert all(value in page for value in typed.values())
    assert TopicSettings.objects.get(topic=topic).focus == ""


def test_its_number_of_queries_is_fixed(
    browser: Client, topic: Topic, alice: Any, django_assert_max_num_queries: Any
):
    for number in range(9):
        make(alice, f"Topic {number}")
    browser.get(URL)

    with django_assert_max_num_queries(13):
        browser.get(URL)


# --- two at once ----------------------------------------------------------------------------------


def edited_by_another(topic: Topic, **wanted: Any) -> None:
    topic_editing.edit_topic(topic, by=topic.owner.actor, wanted=wanted)


def base_in(page: str) -> str:
    found = re.search(r'name="base" value="([^"]*)"', page)
    assert found
    return html.unescape(found[1])


def test_edits_of_other_fields_merge_by_themselves(browser: Client, topic: Topic):
    sent = opened(topic, focus="knots")
    edited_by_another(topic, objective="Know the stars", labels=["sky"])

    browser.post(URL, sent)

    stored = TopicSettings.objects.get(topic=topic)
    topic.refresh_from_db()
    assert (stored.objective, stored.focus, topic.labels) == ("Know the stars", "knots", ["sky"])


def test_a_conflict_shows_theirs_next_to_mine_and_stores_nothing(browser: Client, topic: Topic):
    sent = opened(topic, objective="Know the wind", focus="knots")
    edited_by_another(topic, objective="Know the stars", labels=["sky"])

    page = text_of(browser.post(URL, sent))

    for words in ("Nothing was saved", "Know the stars", "Know the wind", "knots", 'value="sky"'):
        assert words in page
    assert TopicSettings.objects.get(topic=topic).objective == "Know the stars"


def test_saving_again_after_a_conflict_keeps_mine_and_their_other_changes(
    browser: Client, topic: Topic
):
    sent = opened(topic, objective="Know the wind")
    edited_by_another(topic, objective="Know the stars", labels=["sky"])
    page = browser.post(URL, sent).content.decode()

    browser.post(URL, sent | {"labels": "sky", "base": base_in(page)})

    topic.refresh_from_db()
    assert TopicSettings.objects.get(topic=topic).objective == "Know the wind"
    assert topic.labels == ["sky"]


def test_a_schedule_that_both_changed_is_shown_as_a_phrase(browser: Client, topic: Topic):
    sent = opened(topic, preset="daily")
    theirs = {"preset": "monthly", "cron": "0 7 1 * *", "time_zone": "UTC", "missed": "once"}
    edited_by_another(topic, schedule=theirs | {"day": "1"})

    page = text_of(browser.post(URL, sent))

    assert "on day 1 of every month at 07:00 (UTC)" in page
    assert Schedule.objects.get(topic=topic).preset == "monthly"


@pytest.mark.parametrize("base", ["", "nonsense", "[]", "{", "[" * 200_000])
def test_a_form_without_its_base_overwrites_nothing_silently(
    browser: Client, topic: Topic, base: str
):
    page = text_of(browser.post(URL, opened(topic, objective="Know the wind", base=base)))

    assert "Nothing was saved" in page
    assert TopicSettings.objects.get(topic=topic).objective == "Know the rules"


def test_a_run_that_ends_in_the_meantime_isnt_a_conflict(browser: Client, topic: Topic):
    sent = opened(topic, focus="knots")
    Topic.objects.filter(pk=topic.pk).update(run_count=3, version=9)

    assert browser.post(URL, sent)["Location"] == URL


# --- services in their order, style, reading, plan review -----------------------------------------


def test_the_order_of_services_is_kept_and_a_move_stores_nothing_yet(browser: Client, topic: Topic):
    order = ["library", "arxiv", "wikipedia"]

    browser.post(URL, opened(topic, services=order, down="library"))
    before = TopicSettings.objects.get(topic=topic).services
    browser.post(URL, opened(topic, services=order))

    assert before == ["library"]
    assert TopicSettings.objects.get(topic=topic).services == order


def test_a_moved_form_is_still_based_on_what_was_first_seen(browser: Client, topic: Topic):
    sent = opened(topic, objective="Know the wind", services=["library", "arxiv"], up="arxiv")
    edited_by_another(topic, objective="Know the stars")
    page = browser.post(URL, sent).content.decode()

    page = browser.post(URL, opened(topic, objective="Know the wind", base=base_in(page)))

    assert "Nothing was saved" in text_of(page)


def test_style_reading_and_plan_review_merge_with_what_others_changed(
    browser: Client, topic: Topic
):
    sent = opened(topic, report_style="memo")
    edited_by_another(topic, reading="thorough", plan_review="wait")

    browser.post(URL, sent)

    stored = TopicSettings.objects.get(topic=topic)
    assert (stored.report_style, stored.reading, stored.plan_review) == ("memo", "thorough", "wait")


def test_a_conflict_of_choices_is_reported_in_words(browser: Client, topic: Topic):
    sent = opened(topic, report_style="memo", services=["arxiv"])
    edited_by_another(topic, report_style="bullets", services=["hackernews", "library"])

    page = text_of(browser.post(URL, sent))

    assert "Hacker News and Library" in page
    assert re.search(r"<dd[^>]*>\s*(?:<p>)?bullets", page)


@pytest.mark.requirement("R370")
def test_a_part_of_a_page_is_kept_or_explained_with_what_was_typed(browser: Client, topic: Topic):
    good = "https://a.example/plans | css: main .prices"
    bad = "https://a.example/news | css: div["

    page = browser.post(URL, opened(topic, always_check=f"{good}\n{bad}"))
    assert "isn’t a valid CSS selector" in text_of(page)
    assert f"{good}\n{bad}" in html.unescape(page.content.decode())

    browser.post(URL, opened(topic, always_check=good))
    assert TopicSettings.objects.get(topic=topic).always_check == [good]


# --- report template ------------------------------------------------------------------------------


@pytest.mark.requirement("R354")
@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_template_with_unknown_names_is_explained_and_kept(
    browser: Client, topic: Topic, headers: dict[str, str]
):
    typed = "## Mine\n{{ new }}\n{{ owner.password }} & <b>\n"

    page = browser.post(URL, opened(topic, report_template=typed), headers=headers)

    shown = html.unescape(page.content.decode())
    assert "“{{ owner.password }}” isn’t a placeholder. Available: summary, text, new," in shown
    assert typed in shown.replace("\r\n", "\n")
    assert not TopicSettings.objects.exclude(report_template="").exists()


def test_a_template_is_stored_with_its_revision(browser: Client, topic: Topic):
    browser.post(
        URL, opened(topic, report_template="{{ new }}", report_max_items="5", report_tone="plain")
    )

    stored = TopicSettings.objects.get(topic=topic)
    assert (stored.report_template, stored.report_max_items, stored.report_tone) == (
        "{{ new }}", 5, "plain",
    )  # fmt: skip
    assert Revision.objects.filter(record_id=topic.pk).latest("id").after["report_max_items"] == 5


@pytest.mark.requirement("R355")
@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_preview_shows_the_last_report_and_saves_nothing(
    browser: Client, topic: Topic, headers: dict[str, str]
):
    run = make_run(topic)
    make_report(run, body="Ships sail.")
    typed = opened(topic, report_template="# Mine of {{ topic }}\n{{ text }}", objective="Else")

    page = browser.post(URL, typed | {"preview_report": "1"}, headers=headers).content.decode()

    assert "Preview of Run #1" in page
    assert re.search(r"<h4[^>]*>Mine of Sailing</h4>\s*<p[^>]*>Ships sail.</p>", page)
    assert "{{ text }}</textarea>" in page and "Else</textarea>" in page
    stored = TopicSettings.objects.get(topic=topic)
    assert (stored.report_template, stored.objective) == ("", "Know the rules")


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "No template"), ("{{ neu }}", "isn’t a placeholder"), ("{{ new }}", "No report yet")],
)
def test_a_preview_that_has_nothing_to_show_says_so(
    browser: Client, topic: Topic, text: str, said: str
):
    if text != "{{ new }}":
        make_report(make_run(topic))

    page = browser.post(URL, opened(topic, report_template=text, preview_report="1"))

    assert said in html.unescape(page.content.decode())


def test_a_folded_row_says_its_numbers_in_words(browser: Client, topic: Topic):
    limits = {"month_tokens": 300_000, "month_money": "2.00", "max_pages": 1, "stale_days": 30}
    TopicSettings.objects.filter(topic=topic).update(**limits)

    page = text_of(browser.get(URL))

    assert "1 page per run, " in page
    assert "300,000 tokens per month, $2.00 per month" in page
    assert "Stale after 30 days" in page


@pytest.mark.parametrize("words", ["Infinity", "NaN", "sNaN", "1e99999999", "1e2000000"])
def test_text_that_reads_as_a_huge_number_is_shown_as_it_is(
    browser: Client, topic: Topic, words: str
):
    TopicSettings.objects.filter(topic=topic).update(focus=words)

    assert f">\n{words}</textarea>" in browser.get(URL).content.decode()


@pytest.mark.parametrize("typed", ["NaN", "Infinity", "1e99999999", "-1e99999999", "9" * 30])
@pytest.mark.parametrize("name", ["stale_days", "max_tokens", "max_money"])
def test_a_number_that_none_can_be_is_explained(
    browser: Client, topic: Topic, name: str, typed: str
):
    answer = browser.post(URL, opened(topic, **{name: typed}))

    assert answer.context["form"].errors[name]
    assert f'value="{typed}"' in answer.content.decode()
