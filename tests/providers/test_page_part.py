"""Parts of pages: how they are written, and which text they are."""

from __future__ import annotations

from datetime import date

import pytest

from beacon_site.net.extract import InvalidPart, part_from
from beacon_site.net.extract_child import read
from beacon_site.net.extract_html import read_html

PAGE = """<html><head><title>Plans – Co</title></head><body><nav>Home</nav><main><h1>Co</h1>
<p>An introduction.</p><section><div class=hd><h2>Pricing <a href=#p>¶</a></h2></div><p>All plans.</p>
<table class=prices><tr><th>Plan<th>Price</tr><tr><td>Basic<td>€9</tr><tr><td>Pro<td>€19</tr></table>
<h3>Notes</h3><p>incl. VAT</p></section><h2>Support</h2><p>Mail us</p></main>
<aside class=side><p>Now <b>20 %</b> off</p><nav><p>More</p></nav></aside><footer>© 2026</footer>
<script>var h = '<h2>Hidden</h2>'</script></body></html>"""
PRICES = "| Plan | Price |\n|---|---|\n| Basic | €9 |\n| Pro | €19 |"


@pytest.mark.requirement("R370")
@pytest.mark.parametrize(
    ("kind", "wanted", "text"),
    [
        ("css", ".prices", PRICES),
        ("css", "aside.side", "Now 20 % off\n\nMore"),  # asked for, though usually left out
        ("css", "main, .prices", None),  # the inner one isn't repeated
        ("css", ".side b, .prices", f"{PRICES}\n\n20 %"),
        ("css", ".none", ""),
        ("css", "script", ""),
        ("heading", "pricing", f"## Pricing\n\nAll plans.\n\n{PRICES}\n\n### Notes\n\nincl. VAT"),
        ("heading", "Support", "## Support\n\nMail us"),
        ("heading", "Price", ""),
        ("heading", "Hidden", ""),
    ],
)
def test_only_the_part_is_the_text(kind: str, wanted: str, text: str | None):
    found = read_html(PAGE, "https://co.example/plans", date(2026, 1, 1), (kind, wanted))

    assert found["title"] == "Plans – Co"
    if text is None:
        assert found["text"].count("€19") == 1
    else:
        assert found["text"] == text


def test_what_has_no_parts_and_what_hasnt_got_that_part():
    assert read(b"Plain text", "text/plain", "", ("css", "p")) == {"trouble": "no parts"}
    found = read(PAGE.encode(), "text/html", "", ("css", ".none"))
    assert found == {"trouble": "no part", "has_scripts": True}


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("css: main  .prices", "css: main .prices"),
        ("CSS:#a > p", "css: #a > p"),
        ("Heading:  Our  prices ", "heading: Our prices"),
    ],
)
def test_a_part_as_it_is_kept(typed: str, kept: str):
    assert str(part_from(typed)) == kept
    assert part_from(kept) == part_from(typed)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("main .prices", "isn’t valid here"),
        ("css: div[", "isn’t a valid CSS selector"),
        ("css: .a | .b", "isn’t a valid CSS selector"),
        ("css:", "Enter a CSS selector"),
        ("heading: ¶", "Enter the heading’s text"),
        ("css: " + "a " * 200, "at most 300 characters"),
    ],
)
def test_what_isnt_a_part_is_explained(typed: str, told: str):
    with pytest.raises(InvalidPart, match=told):
        part_from(typed)
