"""Style sheets as production serves them."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.staticfiles.finders import get_finder
from django.core.management import call_command

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


def test_collected_style_sheets_are_shrunk_and_have_a_hash_in_their_names(tmp_path: Path, settings):
    source, collected = tmp_path / "source", tmp_path / "collected"
    source.mkdir()
    collected.mkdir()
    (source / "a.css").write_text("/* why */\n.a {\n    background: url(b.svg);\n}\n")
    (source / "b.svg").write_text("<svg/>")
    settings.STATICFILES_DIRS = [source]
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    settings.STATIC_ROOT = collected
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "beacon_site.web.static_files.StaticFilesStorage"},
    }
    get_finder.cache_clear()
    try:
        call_command("collectstatic", interactive=False, verbosity=0)
    finally:
        get_finder.cache_clear()

    (hashed,) = collected.glob("a.*.css")
    (image,) = collected.glob("b.*.svg")
    assert hashed.read_text() == f' .a {{ background: url("{image.name}"); }} '
    assert (collected / "a.css").read_text() == " .a { background: url(b.svg); } "


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
