"""When two URLs are one page (R17)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon_site.text.canonical_urls import canonical_url, domain_of, is_in_domain

pytestmark = pytest.mark.requirement("R17")
PAGE = "https://example.org/a/b"


@pytest.mark.parametrize(
    "url",
    [
        "HTTPS://Example.ORG/a/b",
        "https://example.org/a/b/",
        "https://example.org:443/a/b",
        "https://example.org/a/b#part",
        "https://example.org/a/b?utm_source=x&UTM_Medium=y",
        "https://example.org/a/b?fbclid=1&gclid=2#x",
        " https://example.org./a/b ",
        "https://example.org/%61/b",
        "https://example.org/a/b?",
    ],
)
def test_spellings_of_one_page_are_one(url: str):
    assert canonical_url(url) == PAGE


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("https://example.org/?b=2&a=1", "https://example.org/?a=1&b=2"),
        ("https://example.org/%e4%b8%ad", "https://example.org/中"),
        ("https://example.org/a%2fb", "https://example.org/a%2Fb"),
        ("http://example.org:80/a", "http://example.org/a"),
        ("https://example.org", "https://example.org/"),
        ("https://bücher.example/a", "https://xn--bcher-kva.example/a"),
        # Since 2010 ß is a letter of its own: what the client opens, not strasse.example.
        ("https://straße.example/a", "https://xn--strae-oqa.example/a"),
        ("https://example.org。/a", "https://example.org/a"),
    ],
)
def test_two_spellings_meet(left: str, right: str):
    assert canonical_url(left) == canonical_url(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("https://example.org/A", "https://example.org/a"),
        ("https://example.org/a?id=1", "https://example.org/a?id=2"),
        ("https://example.org/a%2Fb", "https://example.org/a/b"),
        ("https://example.org:8443/a", "https://example.org/a"),
        ("https://a.example.org/", "https://example.org/"),
        ("https://example.org/a?x", "https://example.org/a"),
        ("https://example.org/a?q=%26b%3D1", "https://example.org/a?q=&b=1"),
    ],
)
def test_two_pages_stay_two(left: str, right: str):
    assert canonical_url(left) != canonical_url(right)


@pytest.mark.parametrize(
    "url", ["library:12", "not a url", "", "http://[broken", "https://a:99999/"]
)
def test_what_isnt_a_web_address_comes_back_as_it_is(url: str):
    assert canonical_url(url) == url


@given(st.text(max_size=80))
def test_any_text_has_a_form_that_stays(text: str):
    once = canonical_url("https://example.org/" + text)
    assert canonical_url(once) == once
    assert canonical_url(canonical_url(text)) == canonical_url(text)


def test_the_domain_is_the_host_without_www():
    assert domain_of("https://www.Example.org:8443/a") == "example.org"
    assert domain_of("library:12") == "library"
    assert domain_of("http://[broken") == ""


def test_a_host_is_in_its_own_and_in_higher_domains_only():
    assert is_in_domain("https://blog.example.org/a", "Example.org")
    assert is_in_domain("https://example.org/a", "www.example.org")
    assert is_in_domain("https://www.example.org./a", "example.org")
    assert is_in_domain("https://neu.straße.example/a", "xn--strae-oqa.example")
    assert not is_in_domain("https://notexample.org/a", "example.org")
