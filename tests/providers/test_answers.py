"""What the search services' adapters share: addresses, failures in words, hits."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from beacon_site.net.errors import (
    ProviderRejected,
    ProviderUnavailable,
    ServiceRefused,
    ServiceUnreachable,
)
from beacon_site.net.http import Reply, ServiceHttp
from beacon_site.providers.search import answers
from beacon_site.providers.search.answers import text_of_html
from beacon_site.providers.search.base import SearchHit, SearchOptions

KEY = "shared-secret-0123456789"
HTTP = ServiceHttp("Vendor", secret={"key": KEY})


def reply(status: int = 200, body: object = None, **headers: str) -> Reply:
    return Reply(status, headers, json.dumps(body).encode())


def hit(number: int, day: date | None = None) -> SearchHit:
    return SearchHit(url=f"https://a.example/{number}", title="t", published_at=day)


@pytest.mark.parametrize(
    ("base", "address"),
    [
        ("https://a.example", "https://a.example/w/api.php"),
        (" HTTPS://a.example/ ", "https://a.example/w/api.php"),
        ("https://a.example:8443/w/", "https://a.example:8443/w/api.php"),
        ("https://a.example/w/api.php", "https://a.example/w/api.php"),
        ("https://a.example/deep/w", "https://a.example/deep/w/api.php"),
        ("https://a.example/wiki", "https://a.example/w/api.php"),
        ("http://[::1]:8888", "http://[::1]:8888/w/api.php"),
    ],
)
def test_a_base_url_can_carry_what_belongs_to_the_service(base, address):
    assert answers.endpoint("Vendor", base, "/w/api.php", also=("/wiki",)) == address


@pytest.mark.parametrize(
    "base", ["", "a.example", f"https://u:{KEY}@a.example", f"https://a.example?k={KEY}", "//a.b"]
)
def test_a_base_url_of_another_form_is_refused_and_not_repeated(base):
    with pytest.raises(ServiceRefused, match="The base URL of Vendor isn’t valid") as failure:
        answers.endpoint("Vendor", base, "/search")
    assert KEY not in str(failure.value) and "a.example" not in str(failure.value)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"error": "Broken."}, "Broken"),
        ({"error": {"message": "Broken"}}, "Broken"),
        ({"detail": {"error": "Broken"}}, "Broken"),
        ({"detail": [{"loc": ["q"], "msg": "Broken"}]}, "Broken"),
        ({"errors": [{"detail": "Broken"}]}, "Broken"),
        ({"error": f"no such key {KEY}"}, "no such key [key]"),
        ({"error": 5}, ""),
        ({"error": {}}, ""),
        (["error"], "error"),
        ("error", "error"),
        (None, ""),
    ],
)
def test_a_services_own_words_are_found_where_services_put_them(body, text):
    assert answers.error_text_in(HTTP, body) == text


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (301, ServiceRefused, "redirects to another URL"),
        (400, ProviderRejected, "rejected the search"),
        (401, ServiceRefused, "rejected the key"),
        (404, ServiceRefused, "wasn’t found at this URL"),
        (408, ProviderUnavailable, "isn’t available"),
        (418, ProviderRejected, "HTTP 418: no reason given"),
        (429, ProviderUnavailable, "rate limit"),
        (503, ProviderUnavailable, "isn’t available"),
    ],
)
def test_each_status_has_its_kind_and_words(status, kind, words):
    failure = answers.failure(HTTP, reply(status))

    assert type(failure) is kind and words in str(failure)
    assert not isinstance(failure, ServiceUnreachable)


def test_without_a_key_a_refusal_is_not_about_one():
    text = str(answers.failure(HTTP, reply(401), keyed=False))

    assert "rejected the search" in text and "doesn’t need a key" in text


def test_a_time_to_wait_is_handed_on():
    failure: Any = answers.failure(HTTP, reply(503, **{"retry-after": "9"}))

    assert failure.retry_after == 9


def test_json_of_another_service_is_reported_with_what_it_says():
    failure = answers.odd_shape(HTTP, answers.error_text_in(HTTP, {"message": "Wrong door."}))

    assert str(failure) == "Vendor responded in an unknown format (Wrong door)."


@pytest.mark.parametrize("content", [b"", b"<html>", b"[1]", b"[" * 5000, b"\xff"])
def test_what_isnt_an_object_is_not_taken_for_one(content):
    with pytest.raises(ProviderUnavailable, match="didn’t return JSON"):
        answers.json_object(HTTP, Reply(200, {}, content))


def test_pages_are_taken_until_there_are_enough():
    asked: list[int] = []

    def pages() -> Any:
        for number in range(5):
            asked.append(number)
            yield [hit(2 * number), hit(2 * number + 1)]

    hits = answers.gathered(pages(), SearchOptions(limit=3))

    assert [(found.rank, found.url[-1]) for found in hits] == [(1, "0"), (2, "1"), (3, "2")]
    assert asked == [0, 1]


def test_doubles_old_ones_and_what_is_none_are_left_out():
    page = [hit(1, date(2019, 1, 1)), None, hit(2), hit(2), hit(3, date(2026, 1, 2))]

    hits = answers.gathered([page], SearchOptions(since=date(2026, 1, 1)))

    assert [(found.rank, found.url[-1]) for found in hits] == [(1, "2"), (2, "3")]


@pytest.mark.parametrize(
    ("query", "characters", "words", "short"),
    [
        ("a bb ccc", 20, 0, "a bb ccc"),
        ("a  bb ccc", 5, 0, "a bb"),
        ("a bb ccc", 20, 2, "a bb"),
        ("固态电池固态电池", 4, 0, "固态电池"),
        ("", 4, 0, ""),
    ],
)
def test_a_query_is_cut_behind_a_whole_word(query, characters, words, short):
    assert answers.shortened(query, characters=characters, words=words) == short


@pytest.mark.parametrize(
    ("markup", "words"),
    [
        ('Skip to <b>it</b> <circle cx="8" cy=', "Skip to it"),
        ("Skip to it <circle", "Skip to it"),
        (f'Skip to it <path d="{"M0 8 " * 900}"/>', "Skip to it"),
        ('Skip <svg width="8"><circle cx="8"/>to it', "Skip"),
        ("<style>p {color: red}</style>Skip to it", "Skip to it"),
        ("3 < 4 and a <b or so", "3 < 4 and a <b or so"),
    ],
)
def test_no_markup_is_left_of_a_piece_of_html(markup: str, words: str):
    assert text_of_html(markup, 300) == words
