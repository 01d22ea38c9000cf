"""What a narrow window does to parts of pages whose words grow with what was spent."""

from __future__ import annotations

import pytest
from django.conf import settings
from playwright.sync_api import Browser

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

STYLES = ("tokens.css", "base.css", "components.css")
LONG = "$1,234.56 + 12 calls whose price is unknown; the limit is $5,000.00"


def test_an_amount_with_words_beside_it_breaks_on_a_phone(browser: Browser) -> None:
    styles = "".join((settings.BASE_DIR / "static/css" / name).read_text() for name in STYLES)
    page = browser.new_page(viewport={"width": 320, "height": 700})
    page.set_content(
        f'<style>{styles}</style><dl class="kv"><dt>Cost</dt><dd class="num">{LONG}</dd></dl>'
    )

    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.close()
