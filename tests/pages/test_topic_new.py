"""Creating a topic, with known topics suggested while typing."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.test import Client

from memory.models import Topic, TopicFact
from research.models import Run
from research.pages import topic_settings as topic_templates
from tests.pages.topic_cast import make, ran, text_of

pytestmark = pytest.mark.usefixtures("no_broker")

URL = "/topics/new/"
KNOWN = "/topics/new/known/"
PREVIEW = "/topics/new/schedule/"
HTMX = {"HX-Request": "true"}
VALID = {"title": "Sailing", "preset": "weekly", "hour": "7", "weekday": "1", "time_zone": "UTC"}
ClientOf = Callable[[Any], Client]


@pytest.fixture
def browser(client_of: ClientOf, alice: Any) -> Client:
    return client_of(alice)


def test_a_topic_is_created_with_all_that_was_chosen(browser: Client, alice: Any):
    chosen = {
        "objective": "Know the rules",
        "labels": "sea, sport",
        "private": "on",
        "services": ["feeds", "library"],
        "feeds": "https://a.example/feed",
        "block_domains": "spam.example",
        "languages": "de",
        "max_pages": "9",
        "max_money": "1.5",
    }

    response = browser.post(URL, VALID | chosen)

    topic = Topic.objects.for_user(alice).get()
    assert response["Location"] == "/topics/sailing/"
    assert (topic.labels, topic.private, topic.source) == (["sea", "sport"], True, "human:alice")
    assert (topic.settings.services, topic.settings.max_pages) == (["feeds", "library"], 9)
    assert (topic.schedule.cron, topic.schedule.next_run_at.hour) == ("0 7 * * 1", 7)


def test_it_can_be_run_at_once(browser: Client):
    response = browser.post(URL, VALID | {"run": "1"})

    assert response["Location"] == f"/topics/sailing/runs/{Run.objects.get().pk}/"


def test_without_a_web_search_the_page_says_where_runs_look(browser: Client, settings: Any):
    without = text_of(browser.get(URL))
    settings.SEARCH_KEYS = settings.SEARCH_KEYS | {"serpapi": "key-of-a-test"}

    assert "Web search isn’t set up yet" in without
    assert 'href="/library/add/"' in without
    assert "Web search isn’t set up yet" not in text_of(browser.get(URL))


def test_over_htmx_a_refused_form_comes_back_alone(browser: Client):
    response = browser.post(URL, VALID | {"title": ""}, headers=HTMX)

    assert text_of(response).startswith('<form id="topic-form"')
    assert "Enter a topic" in text_of(response)


def test_over_htmx_success_leads_on(browser: Client):
    response = browser.post(URL, VALID, headers=HTMX)

    assert response["HX-Redirect"] == "/topics/sailing/"


@pytest.mark.requirement("R232")
def test_a_stranger_must_sign_in_and_copies_nothing(client_of: ClientOf, alice: Any, bob: Any):
    make(alice, "Sailing")

    assert Client().get(URL)["Location"].startswith("/sign-in/")
    assert client_of(bob).get(URL, {"from": "sailing"}).status_code == 404


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"title": "x" * 501}, "this one has 501"),
        ({"title": ""}, "Enter a topic"),
        ({"preset": "cron", "cron": "* * * * *"}, "15 minutes"),
        ({"time_zone": "Europe/Atlantis"}, "Unknown time zone"),
        ({"block_domains": "https://x.example/y"}, "“x.example”"),
        ({"max_pages": "0"}, "Enter 1 or more."),
    ],
)
def test_bad_input_is_explained_and_nothing_typed_is_lost(
    browser: Client, typed: dict[str, str], words: str
):
    given = VALID | {"objective": "my own words", "labels": "sea"} | typed

    response = browser.post(URL, given)

    page = text_of(response)
    assert (response.status_code, Topic.objects.count()) == (200, 0)
    assert words in page
    assert "my own words" in page
    for value in typed.values():
        assert value in page


def test_characters_that_cannot_be_stored_are_removed_and_that_is_explained(browser: Client):
    response = browser.post(URL, VALID | {"title": "Sail\x00ing"})

    assert Topic.objects.get().title == "Sailing"
    said = [str(message) for message in get_messages(response.wsgi_request)]
    assert any("or shown were removed from: Topic" in words for words in said)


def test_the_domain_is_put_where_an_address_was(browser: Client):
    typed = VALID | {"block_domains": "https://x.example/y", "use_domains": "block_domains"}

    page = text_of(browser.post(URL, typed))

    assert Topic.objects.count() == 0
    assert ">x.example</textarea>" in page.replace("> x", ">x")


def test_a_name_that_exists_leads_to_the_topic_that_has_it(browser: Client, alice: Any):
    make(alice, "Sailing")

    page = text_of(browser.post(URL, VALID | {"title": "SAILING"}))

    assert "You already have a topic named" in page
    assert "Open topic" in page
    assert Topic.objects.count() == 1


def test_its_number_of_queries_is_fixed(
    browser: Client, alice: Any, django_assert_max_num_queries: Any
):
    for number in range(9):
        make(alice, f"Topic {number}")
    browser.get(URL)

    with django_assert_max_num_queries(8):
        browser.get(URL)


# --- what is known already ------------------------------------------------------------------------


def test_while_typing_the_same_topic_is_shown_with_what_is_known(browser: Client, alice: Any):
    topic = make(alice, "Solid-state batteries")
    TopicFact.objects.add(topic, "A cell costs 89 dollars a kilowatt hour.", by=alice.actor)
    ran(topic, 3)

    page = text_of(browser.get(KNOWN, {"title": "solid-state  Batteries"}))

    for words in ("You already have this topic", "1 fact ", "Run #3", "Open topic"):
        assert words in page


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("solid", True),
        ("batteries in cars", True),
        ("人工智能", False),
        ("Gardening", False),
        ("", False),
    ],
)
def test_while_typing_similar_topics_are_shown(
    browser: Client, alice: Any, typed: str, found: bool
):
    make(alice, "Solid-state batteries")

    page = text_of(browser.get(KNOWN, {"title": typed}, headers=HTMX))

    assert ("Solid-state" in page) is found
    assert page.startswith('<div id="known"')


def test_similar_means_similar_in_chinese_too(browser: Client, alice: Any):
    make(alice, "人工智能芯片")

    assert "人工智能芯片" in text_of(browser.get(KNOWN, {"title": "人工智能"}))


def test_c_is_not_taken_for_c_plus_plus(browser: Client, alice: Any):
    make(alice, "C++")

    assert "You already have this topic" not in text_of(browser.get(KNOWN, {"title": "C"}))


@pytest.mark.requirement("R232")
def test_what_others_know_is_not_shown(client_of: ClientOf, alice: Any, bob: Any):
    make(alice, "Sailing")

    assert "Sailing" not in text_of(client_of(bob).get(KNOWN, {"title": "Sailing"}))


def test_what_is_known_takes_a_fixed_number_of_queries(
    browser: Client, alice: Any, django_assert_max_num_queries: Any
):
    for number in range(20):
        make(alice, f"Sailing {number}")

    with django_assert_max_num_queries(7):
        browser.get(KNOWN, {"title": "Sailing", "x": "\x00"})


# --- the next runs --------------------------------------------------------------------------------


def test_the_next_five_runs_are_shown_in_the_schedules_own_time(browser: Client):
    chosen = {"preset": "cron", "cron": "30 2 * * *", "time_zone": "Europe/Berlin"}

    page = text_of(browser.get(PREVIEW, chosen, headers=HTMX))

    assert page.startswith('<div id="next-runs"')
    assert page.count("<li>") == 5
    assert page.count("02:30") >= 4  # at most one of five nights changes the clocks


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"preset": "none", "time_zone": "UTC"}, "only when you start it"),
        ({"preset": "cron", "cron": "0 9 30 2 *", "time_zone": "UTC"}, "would never run"),
        ({"preset": "daily", "time_zone": "Nowhere"}, "Unknown time zone"),
        ({}, "This field is required."),
    ],
)
def test_a_schedule_without_next_runs_says_why(browser: Client, chosen: Any, words: str):
    assert words in text_of(browser.get(PREVIEW, chosen))


def test_without_scripts_a_button_shows_the_next_runs(browser: Client):
    typed = VALID | {"preset": "monthly", "day": "L", "show_runs": "1", "objective": "kept"}

    page = text_of(browser.post(URL, typed))

    assert Topic.objects.count() == 0
    assert "on the last day of every month at 07:00 (UTC)" in page
    assert "kept" in page


def test_a_duplicate_starts_from_the_others_settings(browser: Client, alice: Any):
    topic = make(alice, "Sailing", preset="daily", settings={"objective": "Know the rules"})

    where = browser.post(f"/topics/{topic.slug}/duplicate/")["Location"]
    page = text_of(browser.get(where))

    assert Topic.objects.count() == 1
    for words in ("Sailing (copy)", "Know the rules", "every day at 07:00 (UTC)"):
        assert words in page


# --- templates ------------------------------------------------------------------------------------


def shown(page: str, name: str) -> str:
    """Return the content of a text field of the form, or the value of its chosen option."""
    found = re.search(rf'<textarea name="{name}"[^>]*>\s?([^<]*)', page) or re.search(
        rf'<input type="text" name="{name}"[^>]* value="([^"]*)"', page
    )
    assert found, name
    return html.unescape(found[1]).strip()


def chosen(page: str, name: str) -> list[str]:
    inputs = re.findall(rf'<input[^>]*name="{name}"[^>]*>', page)
    return [
        found[1]
        for one in inputs
        if "checked" in one and (found := re.search('value="([^"]*)"', one))
    ]


def sent(page: str, **typed: Any) -> dict[str, Any]:
    """Return what a browser would send for the form, with the typed text."""
    texts = {name: shown(page, name) for name in ("title", "objective", "focus")}
    radios = ("preset", "report_style", "reading", "plan_review")
    picked = {name: chosen(page, name)[0] for name in radios}
    template = re.search(r'name="template"[^>]*?value="([^"]*)"', page)
    rest = {
        "services": chosen(page, "services"),
        "time_frame": (re.findall(r'<option value="(\w+)" selected>the last', page) or ["any"])[0],
        "hour": "7", "weekday": "1", "day": "1", "time_zone": "UTC",
        "template": template[1] if template else "",
    }  # fmt: skip
    return texts | picked | rest | typed


@pytest.mark.parametrize("name", list(topic_templates.BY_NAME))
def test_each_template_fills_in_the_form_and_what_it_fills_in_can_be_saved(
    browser: Client, name: str
):
    template = topic_templates.BY_NAME[name]
    page = text_of(browser.get(URL, {"template": name}))

    browser.post(URL, sent(page, title="Sailing"))

    topic = Topic.objects.get()
    assert topic.settings.objective == template.values["objective"]
    assert topic.settings.report_style == template.values["report_style"]
    assert topic.settings.time_frame == template.values["time_frame"]
    assert topic.settings.services == topic_templates.filled_in(name)["services"]
    assert topic.schedule.preset == template.values["preset"]


def test_what_a_template_leaves_to_be_named_is_its_help_and_no_query(browser: Client):
    page = text_of(browser.get(URL, {"template": "competitor-scan"}))

    assert "Start with the competitors’ names" in page
    assert shown(page, "focus") == "new products, prices, announcements"
    assert not [one for one in topic_templates.TEMPLATES if "here" in str(one.values["focus"])]


def test_a_template_names_no_service_that_lacks_its_key(browser: Client, settings: Any):
    without = chosen(text_of(browser.get(URL, {"template": "release-watch"})), "services")
    settings.SEARCH_KEYS = settings.SEARCH_KEYS | {"brave": "key-of-a-test"}
    with_key = chosen(text_of(browser.get(URL, {"template": "release-watch"})), "services")

    assert without == ["feeds", "hackernews", "library"]
    assert with_key == ["feeds", "brave", "hackernews", "library"]


def test_taking_another_template_keeps_what_was_typed_and_changes_the_rest(browser: Client):
    page = text_of(browser.get(URL, {"template": "weekly-tracker"}))
    typed = sent(page, title="Sailing", focus="knots", take="competitor-scan")

    page = text_of(browser.post(URL, typed, headers=HTMX))

    assert (shown(page, "title"), shown(page, "focus")) == ("Sailing", "knots")
    assert shown(page, "objective").startswith("Find out what competitors")
    assert chosen(page, "report_style") == ["executive"]
    assert Topic.objects.count() == 0


def test_taking_nothing_gives_the_usual_form_again(browser: Client):
    page = text_of(browser.get(URL, {"template": "release-watch"}))

    page = text_of(browser.post(URL, sent(page, take="")))

    assert (shown(page, "objective"), chosen(page, "report_style")) == ("", ["standard"])
    assert (chosen(page, "services"), chosen(page, "preset")) == ([], ["weekly"])


def test_a_template_taken_with_an_empty_name_calls_nothing_wrong(browser: Client):
    page = text_of(browser.post(URL, VALID | {"title": "", "take": "research-field"}))

    assert "Enter a topic" not in page
    assert "Perovskite tandem solar cells" in page


@pytest.mark.parametrize("name", ["", "no-such", "\x00", "../x"])
def test_a_template_that_there_is_not_isnt_a_template(browser: Client, name: str):
    assert browser.get(URL, {"template": name}).status_code == 200
    assert browser.post(URL, VALID | {"take": name}).status_code == 200


def test_the_rest_of_the_form_is_a_sentence_that_follows_the_fields(browser: Client):
    def sentence(page: str) -> str:
        return page.partition('id="topic-sentence"')[2].partition("</p>")[0]

    blank = sentence(text_of(browser.get(URL)))
    assert '<a href="#part-schedule"><bdi>every Monday at' in blank
    assert '<a href="#part-told"><bdi>every change</bdi></a>' in blank

    typed = VALID | {"title": "", "focus": "knots <b>", "preset": "daily", "hour": "7", "say": "1"}
    page = text_of(browser.post(URL, typed, headers=HTMX))

    assert "every day at 07:00" in sentence(page)
    assert '<a href="#part-goal"><bdi>knots &lt;b&gt;</bdi></a>' in sentence(page)
    assert "aria-invalid" not in page and not Topic.objects.exists()
    for part in ("goal", "schedule", "where", "report", "told", "freshness", "limits"):
        assert f'href="#part-{part}"' in page and f'id="part-{part}"' in page


# --- services in their order ----------------------------------------------------------------------


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_service_is_moved_and_nothing_typed_is_lost(browser: Client, headers: dict[str, str]):
    ticked = ["wikipedia", "arxiv", "library"]
    typed = VALID | {"title": "", "focus": "knots", "services": ticked, "up": "library"}

    page = text_of(browser.post(URL, typed, headers=headers))

    assert chosen(page, "services") == ["wikipedia", "library", "arxiv"]
    assert (shown(page, "focus"), "Enter a topic" in page) == ("knots", False)
    assert re.search(r'id="up-library"[^>]*data-focus', page)


def test_the_form_names_the_usual_services_and_what_one_lacks(browser: Client):
    page = text_of(browser.get(URL))

    assert "If you select none, runs search Feeds and Library, in this order." in page
    assert "needs a key, but none is set" in page


def test_a_service_that_is_selected_without_its_key_is_said_to_fail(browser: Client):
    page = text_of(browser.post(URL, VALID | {"services": ["brave"], "down": "brave"}))

    assert "needs a key, but none is set: each run will show a warning" in page
