"""The topic form: accepted and rejected values, and the errors."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.http import QueryDict

from beacon_site.providers.search.base import SERVICES
from beacon_site.web.responses import cleaned_of
from memory.accounts.forms import TimeZoneField
from research.services.runs.execution.starting import create_topic
from research.services.topics import topic_form
from research.services.topics.settings.editing import NotADomain, domain_from, readable_domain
from research.services.topics.topic_form import TopicForm

VALID = {"title": "Sailing", "preset": "weekly", "hour": "7", "weekday": "1", "time_zone": "UTC"}


def form_of(owner: Any, **typed: Any) -> TopicForm:
    data = QueryDict(mutable=True)
    for name, value in (VALID | typed).items():
        data.setlist(name, value if isinstance(value, list) else [value])
    return TopicForm(data, owner=owner)


def problems(owner: Any, field: str, **typed: Any) -> str:
    form = form_of(owner, **typed)
    assert not form.is_valid()
    return " ".join(map(str, form.errors.get(field, [])))


# --- titles ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("title", ["", "   ", "\x00", "\u3000", "\u200b\u200f"])
def test_an_empty_topic_is_requested(alice: Any, title: str):
    assert "Enter a topic" in problems(alice, "title", title=title)


def test_501_characters_are_told_by_number(alice: Any):
    words = problems(alice, "title", title="x" * 501)

    assert "at most 500 characters, but this one has 501" in words
    assert form_of(alice, title="x" * 500).is_valid()


@pytest.mark.parametrize(
    "title", ["!!!", "C", "C++", "人工智能", "אבג دبي", "🛶", "ما الجديد؟", "new", "  a \t b\n"]
)
def test_any_writing_can_be_a_topic(alice: Any, title: str):
    form = form_of(alice, title=title)

    assert form.is_valid(), form.errors
    assert form.cleaned_data["title"] == " ".join(title.split())


@pytest.mark.requirement("R5")
def test_c_and_its_kin_are_three_topics(alice: Any):
    for title in ("C", "C++", "C#"):
        assert form_of(alice, title=title).is_valid()
        create_topic(owner=alice, title=title, by=alice.actor)

    assert "already" in problems(alice, "title", title="c")
    assert "already" in problems(alice, "title", title=" C++ ")


@pytest.mark.parametrize("zone", ["europe/berlin", "Europe/Berlin", " EUROPE/BERLIN"])
def test_a_zone_is_kept_as_the_system_spells_it(alice: Any, zone: str):
    form = form_of(alice, preset="daily", time_zone=zone)
    assert form.is_valid(), form.errors
    assert (form.schedule or {})["time_zone"] == "Europe/Berlin"


@pytest.mark.parametrize("zone", ["localtime", "posix/Europe/Berlin", "Factory", "../UTC"])
def test_what_one_form_refuses_as_a_zone_the_other_does(alice: Any, zone: str):
    assert "time_zone" in form_of(alice, preset="daily", time_zone=zone).errors
    with pytest.raises(ValidationError):
        TimeZoneField().clean(zone)


def test_nul_is_removed_and_said_so(alice: Any):
    form = form_of(alice, title="Sail\x00ing", objective="a\x00b", focus="clean")

    assert form.is_valid()
    assert form.cleaned_data["title"] == "Sailing"
    assert cleaned_of(form) == ["Topic", "Objective"]


# --- domains --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("Example.ORG", "example.org"),
        ("www.example.org", "example.org"),
        ("*.example.org", "example.org"),
        (" blog.example.co.uk. ", "blog.example.co.uk"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("中文.中国", "xn--fiq228c.xn--fiqs8s"),
        ("*.gov", "gov"),
        ("192.0.2.7", "192.0.2.7"),
    ],
)
def test_a_domain_is_kept_in_one_form(typed: str, kept: str):
    assert domain_from(typed) == kept
    assert domain_from(readable_domain(kept) if "." in kept else f"*.{kept}") == kept


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("https://www.example.org/a?b=c", "example.org"),
        ("//example.org", "example.org"),
        ("example.org/path", "example.org"),
        ("example.org:8080", "example.org"),
        ("http://bücher.example/", "xn--bcher-kva.example"),
    ],
)
def test_for_an_address_its_domain_is_offered(typed: str, meant: str):
    with pytest.raises(NotADomain) as refused:
        domain_from(typed)

    assert refused.value.suggestion == meant


@pytest.mark.parametrize(
    "typed", ["wikipedia", "hello world", "-a.example", "a..b", "x" * 64 + ".org", "http://[", "@"]
)
def test_what_isnt_a_domain_is_shown_how_to_write_one(typed: str):
    with pytest.raises(NotADomain, match="example") as refused:
        domain_from(typed)

    assert refused.value.suggestion == ""


def test_an_address_in_the_block_list_is_explained_and_can_be_replaced(alice: Any):
    form = form_of(alice, block_domains="spam.example\nhttps://www.example.org/news")

    assert "“example.org”" in " ".join(map(str, form.errors["block_domains"]))
    assert form.offers == ["block_domains"]
    assert form.with_domains("block_domains")["block_domains"] == "spam.example\nexample.org"
    assert form["block_domains"].value() == "spam.example\nhttps://www.example.org/news"


def test_a_domain_cannot_be_wanted_and_unwanted(alice: Any):
    words = problems(alice, "block_domains", allow_domains="a.example", block_domains="a.example")

    assert "both lists" in words


# --- the other fields -----------------------------------------------------------------------------


def test_languages_are_taken_by_code_and_by_name(alice: Any):
    form = form_of(alice, languages="English, 中文，de; Français, en")

    assert form.is_valid()
    assert form.cleaned_data["languages"] == ["en", "zh", "de", "fr"]


def test_a_language_that_is_none_is_named(alice: Any):
    assert "“Klingon”" in problems(alice, "languages", languages="en, Klingon")


def test_labels_count_once_whatever_their_case(alice: Any):
    form = form_of(alice, labels="Energy, cars,energy , ")

    assert form.is_valid()
    assert form.cleaned_data["labels"] == ["Energy", "cars"]
    assert "at most 40" in problems(alice, "labels", labels="x" * 41)


@pytest.mark.parametrize("line", ["example.org/feed", "ftp://a.example/f", "http://", "http://[x"])
def test_a_feed_is_an_address(alice: Any, line: str):
    good = "https://a.example/feed.xml"

    assert line in problems(alice, "feeds", services=["feeds"], feeds=f"{good}\n{line}")
    assert form_of(alice, services=["feeds"], feeds=good).is_valid()


def test_feeds_alone_need_an_address(alice: Any):
    assert "at least one feed" in problems(alice, "feeds", services=["feeds"])
    assert "Select “Feeds”" in problems(
        alice, "services", services=["sample"], feeds="https://a.example/f"
    )


def test_each_service_says_what_it_needs(alice: Any):
    rows = {row["name"]: row for row in topic_form.rows([])}

    assert list(rows) == list(SERVICES)
    assert rows["serpapi"]["lacks"] == "needs a key, but none is set"
    assert rows["searxng"]["lacks"] == "needs a URL, but none is set"
    assert not rows["wikipedia"]["lacks"]


def test_what_the_environment_forbids_is_not_offered(alice: Any, settings: Any):
    settings.BEACON_SEARCH = ["library"]

    assert topic_form.offered() == ["library", "sample"]
    assert problems(alice, "services", services=["serpapi"])


def test_services_are_kept_in_the_order_in_which_they_are_sent(alice: Any):
    form = form_of(alice, services=["library", "arxiv", "wikipedia"])

    assert form.is_valid()
    assert form.state()["services"] == ["library", "arxiv", "wikipedia"]


def test_a_service_that_lacks_its_key_can_be_selected(alice: Any):
    form = form_of(alice, services=["brave"])

    assert form.is_valid()
    assert topic_form.rows(["brave"])[0]["lacks"]


def test_those_selected_are_shown_first_in_their_order(alice: Any):
    shown = [row["name"] for row in topic_form.rows(["library", "arxiv"])]

    assert shown[:3] == ["library", "arxiv", "serpapi"]
    assert sorted(shown) == sorted(SERVICES)


@pytest.mark.parametrize(
    ("name", "by", "order"),
    [
        ("b", topic_form.UP, ["b", "a", "c"]),
        ("b", topic_form.DOWN, ["a", "c", "b"]),
        ("a", topic_form.UP, ["a", "b", "c"]),
        ("c", topic_form.DOWN, ["a", "b", "c"]),
        ("x", topic_form.UP, ["a", "b", "c"]),
    ],
)
def test_a_service_moves_by_one_place(name: str, by: int, order: list[str]):
    assert topic_form.moved(["a", "b", "c"], name, by) == order


@pytest.mark.parametrize(
    ("field", "usual"),
    [("report_style", "standard"), ("reading", "normal"), ("plan_review", "no")],
)
def test_what_is_not_chosen_is_the_usual_and_what_there_is_not_is_refused(
    alice: Any, field: str, usual: str
):
    form = form_of(alice)

    assert form.is_valid()
    assert form.state()[field] == usual
    assert "is not one of the available choices" in problems(alice, field, **{field: "loud"})


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many", "99999999999999999999"])
@pytest.mark.parametrize("field", ["max_pages", "max_minutes", "max_tokens"])
def test_a_budget_is_a_sensible_number(alice: Any, field: str, value: str):
    assert problems(alice, field, **{field: value})


@pytest.mark.parametrize("value", ["-0.01", "1.001", "9999999", "NaN", "€5"])
def test_money_is_an_amount(alice: Any, value: str):
    assert problems(alice, "max_money", max_money=value)


def test_no_money_at_all_is_a_budget_too(alice: Any):
    form = form_of(alice, max_money="0")

    assert form.is_valid()
    assert form.state()["max_money"] == "0.00"


# --- schedules ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "field", "words"),
    [
        ({"preset": "cron", "cron": "0 9 30 2 *"}, "cron", "would never run"),
        ({"preset": "cron", "cron": "* * * * *"}, "cron", "15 minutes"),
        ({"preset": "cron", "cron": ""}, "cron", "5 fields"),
        ({"time_zone": "Mars/Olympus"}, "time_zone", "Unknown time zone"),
        ({"preset": "none", "time_zone": "Mars/Olympus"}, "time_zone", "Unknown time zone"),
        ({"time_zone": ""}, "time_zone", "such as Europe/Berlin or UTC"),
        ({"preset": "hourly"}, "preset", "is not one of the available choices"),
        ({"hour": "25"}, "hour", "is not one of the available choices"),
        ({"preset": "monthly", "day": "31"}, "day", "is not one of the available choices"),
    ],
)
def test_a_schedule_that_cannot_be_is_explained_next_to_its_field(
    alice: Any, typed: dict[str, str], field: str, words: str
):
    assert words in problems(alice, field, **typed)


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ({"preset": "none"}, ""),
        ({"preset": "daily", "hour": "23"}, "0 23 * * *"),
        ({"preset": "daily", "hour": ""}, "0 7 * * *"),
        ({"preset": "daily", "cron": "0 9 30 2 *"}, "0 7 * * *"),
        ({"preset": "monthly", "day": "L"}, "0 7 L * *"),
        ({"preset": "cron", "cron": " 30  6 * * mon "}, "30 6 * * MON"),
    ],
)
def test_a_schedule_becomes_a_cron_line(alice: Any, typed: dict[str, str], line: str):
    form = form_of(alice, **typed)

    assert form.is_valid(), form.errors
    assert form.schedule_state()["cron"] == line
