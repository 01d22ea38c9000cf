"""Style sheets as production serves them."""

from __future__ import annotations

from pathlib import Path

import pytest

from beacon_site.web.static_files import shrink
from tests.browser.visitor import chromium

STYLE_SHEETS = sorted(
    path
    for folder in ("css", "vendor")
    for path in (Path(__file__).parents[2] / "static" / folder).glob("*.css")
)
RULES = """text => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(text);
  return [...sheet.cssRules].map(rule => rule.cssText.replace(/\\s+/g, " ")).join("\\n");
}"""


def test_comments_and_indentation_go_but_strings_and_licenses_stay():
    given = b"""/*! A license. */
/* A comment
   of two lines. */
@media (width > 1px) {
    .a :is(b, i)::before { content: "/* a  string */"; margin: calc(1px + 2px); }
    .c > d { content: '\\'  /*'; }
}
"""

    assert shrink(given) == (
        b"/*! A license. */  @media (width > 1px) {"
        b""" .a :is(b, i)::before { content: "/* a  string */"; margin: calc(1px + 2px); }"""
        b""" .c > d { content: '\\'  /*'; } } """
    )


@pytest.mark.slow
def test_a_browser_reads_the_same_rules(chromium_path: str):
    assert len(STYLE_SHEETS) > 30
    with chromium(chromium_path) as browser:
        page = browser.new_page()
        for path in STYLE_SHEETS:
            given = path.read_bytes()
            shrunk = shrink(given)

            assert page.evaluate(RULES, shrunk.decode()) == page.evaluate(RULES, given.decode())
            assert page.evaluate(RULES, shrunk.decode())
            assert len(shrunk) < len(given)
