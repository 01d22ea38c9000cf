"""Charts of spending by month and topic, with text for screen readers."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memory.models import ModelCall, User
from memory.pages import usage as spending_chart
from memory.services.llm.spending import UsageTotals

URL = "/settings/spending/"


@pytest.fixture
def browser(alice: User, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


def spent(money: str, tokens: int, unpriced: int = 0) -> UsageTotals:
    return UsageTotals(1, tokens, 0, Decimal(money), unpriced)


def test_months_without_a_call_are_between_the_others():
    months = {date(2026, 2, 1): spent("4", 900), date(2025, 11, 1): spent("1", 100)}

    money, tokens = spending_chart.of_months(months, None)

    assert [pillar["label"] for pillar in money["pillars"]] == ["Nov", "Dec", "Jan", "Feb"]
    assert [pillar["height"] for pillar in money["pillars"]] == [22, 0, 0, spending_chart.HIGH]
    assert [pillar["year"] for pillar in tokens["pillars"]] == ["2025", "", "2026", ""]
    assert [bool(pillar["key"]) for pillar in money["pillars"]] == [True, False, False, True]


def test_only_the_last_twelve_months_are_drawn():
    months = {date(2026, 2, 1): spent("4", 900), date(2019, 1, 1): spent("1", 100)}

    money, _tokens = spending_chart.of_months(months, None)

    assert len(money["pillars"]) == spending_chart.MAX_MONTHS
    assert money["words"] == "Cost per month, March 2025 to February 2026"


def test_an_unknown_price_is_an_open_box_and_never_nothing():
    (pillar,) = spending_chart.of_months({date(2026, 2, 1): spent("0", 900, 1)}, None)[0]["pillars"]

    assert pillar["is_unknown"] and pillar["amount"] == "?" and "unknown" in pillar["words"]


def test_the_page_draws_both_and_each_pillar_opens_its_month(browser: Client, alice: User):
    ModelCall.objects.create(
        owner=alice,
        purpose="plan",
        model="m",
        prompt_tokens=1200,
        completion_tokens=80,
        money="0.5",
    )
    long_ago = timezone.now() - timedelta(days=70)
    ModelCall.objects.create(owner=alice, purpose="plan", model="m", money="0.1", created=long_ago)

    page = browser.get(URL).content.decode()

    key = f"{timezone.localtime():%Y-%m}"
    assert page.count('class="chart months"') == 2
    assert re.search(rf'href="{URL}\?month={key}" aria-label="\w+ \d+: \$0.50"', page)
    assert "1,280 tokens" in page


def test_without_calls_there_is_no_drawing(browser: Client):
    assert "chart months" not in browser.get(URL).content.decode()


@pytest.mark.parametrize(
    ("money", "tokens", "lines"),
    [
        (None, None, []),
        ("400", None, []),  # far above all months
        ("0.80", None, ["Your current limit: $0.80"]),
        ("0.80", 1500, ["Your current limit: $0.80", "Your current limit: 1,500 tokens"]),
    ],
)
def test_a_dashed_line_is_explained_only_if_there_is_one_and_has_words(
    browser: Client, alice: User, money: str | None, tokens: int | None, lines: list[str]
):
    used = {"purpose": "plan", "model": "m", "prompt_tokens": 1200, "money": "0.5"}
    for at in (timezone.now(), timezone.now() - timedelta(days=70)):
        ModelCall.objects.create(owner=alice, created=at, **used)
    User.objects.filter(pk=alice.pk).update(monthly_money=money, monthly_tokens=tokens)

    page = browser.get(URL).content.decode()

    assert re.findall(r'<path class="limit" role="img" aria-label="([^"]+)"', page) == lines
    assert ("The dashed line is your current limit." in page) == bool(lines)
    assert "Outlined boxes show calls with an unknown price." in page
