"""Settings → Usage and limits: what calls of the model cost, and what a month may cost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memory.models import Activity, ModelCall, User
from tests.research.factories import make_call, make_run, make_topic

HTMX = {"HX-Request": "true"}
PAGE = "/settings/spending/"


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    """Alice's browser."""
    return client_of(alice)


def body_of(browser: Client, query: str = "", **more: Any) -> str:
    answer = browser.get(PAGE + query, **more)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def call(owner: User, *, months_ago: int = 0, **fields: Any) -> ModelCall:
    at = timezone.now().replace(day=2) - timedelta(days=31 * months_ago)
    given = {"purpose": "plan", "source": "session:1", "model": "m1", "prompt_tokens": 10}
    return ModelCall.objects.create(owner=owner, **({"created": at} | given | fields))


def test_without_a_call_the_page_says_so(browser: Client) -> None:
    assert "No model calls this month" in body_of(browser)


def test_a_month_is_shown_by_model_purpose_topic_and_run(browser: Client, alice: User) -> None:
    topic = make_topic(alice, "Batteries")
    make_call(make_run(topic), money=Decimal("0.25"), topic=topic)

    body = body_of(browser)

    assert "$0.25" in body
    assert f'href="/topics/{topic.slug}/">Batteries</a>' in body
    assert f'href="/topics/{topic.slug}/runs/' in body
    assert "a-model" in body


def test_a_month_is_shown_by_purpose_in_words(browser: Client, alice: User) -> None:
    call(alice, purpose="condense")

    assert "condensing a file" in body_of(browser)


def test_an_unknown_price_is_reported_and_never_shown_as_nothing(
    browser: Client, alice: User
) -> None:
    call(alice, money=None)

    body = body_of(browser)

    assert "unknown" in body
    assert "$0" not in body


def test_what_is_known_and_what_is_not_stand_side_by_side(browser: Client, alice: User) -> None:
    call(alice, money=None)
    call(alice, money=Decimal("1.5"))

    assert "$1.50+</span>" in body_of(browser)
    assert "+ 1 call with an unknown price" in body_of(browser)


def test_an_earlier_month_is_opened_over_htmx_alone(browser: Client, alice: User) -> None:
    old = call(alice, months_ago=2, model="of-long-ago")

    body = body_of(browser, f"?month={old.created:%Y-%m}", headers=HTMX)

    assert body.startswith('<div id="spending"')
    assert "of-long-ago" in body


def test_a_month_that_is_not_there_is_explained(browser: Client) -> None:
    body = body_of(browser, "?month=<soon>")

    assert "There are no calls for “&lt;soon&gt;”" in body
    assert browser.get(f"{PAGE}calls.csv?month=soon").status_code == 404


def test_no_one_sees_what_others_spent(browser: Client, bob: User) -> None:
    call(bob, model="bobs-model")

    assert "bobs-model" not in body_of(browser)
    assert "bobs-model" not in browser.get(f"{PAGE}calls.csv").content.decode()


@pytest.mark.parametrize("address", ["", "calls.csv"])
def test_all_accounts_together_are_for_admins(browser: Client, address: str) -> None:
    assert browser.get(f"{PAGE}{address}?who=all").status_code == 404


def test_admins_see_all_accounts_by_person_and_no_topic_of_theirs(
    admin: User, bob: User, client_of: Any
) -> None:
    call(bob, topic=make_topic(bob, "A secret"), money=Decimal(2))

    body = body_of(client_of(admin), "?who=all")

    assert "By person" in body
    assert "bob" in body
    assert "A secret" not in body


def test_the_months_calls_come_as_csv(browser: Client, alice: User) -> None:
    call(alice, money=None)
    call(alice, months_ago=2)

    answer = browser.get(f"{PAGE}calls.csv")

    assert answer["Content-Type"].startswith("text/csv")
    assert len(answer.content.decode().splitlines()) == 2


# --- limits -------------------------------------------------------------------------------------


def test_limits_are_saved_and_what_is_left_is_shown(browser: Client, alice: User) -> None:
    call(alice, money=Decimal("0.25"))
    given = {"monthly_tokens": "1000", "monthly_money": "5"}

    assert browser.post(f"{PAGE}limits/", given)["Location"] == PAGE

    body = body_of(browser)
    assert "Tokens: 10 of 1,000 used. 990 left." in body
    assert "Money: $0.25 of $5.00 used. $4.75 left." in body
    assert Activity.objects.for_user(alice).filter(kind="limits-changed").exists()


def test_limits_over_htmx_come_back_alone_with_a_toast(browser: Client) -> None:
    answer = browser.post(f"{PAGE}limits/", {"monthly_tokens": "7"}, headers=HTMX)
    body = answer.content.decode()

    assert body.lstrip().startswith('<section id="spending_limits"')
    assert "Limits saved" in body


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"monthly_money": "-1"}, "A limit can’t be negative"),
        ({"monthly_tokens": "-1"}, "A limit can’t be negative"),
        ({"monthly_money": "plenty"}, "Enter an amount in US dollars"),
        ({"monthly_money": "NaN"}, "Enter an amount in US dollars"),
        ({"monthly_tokens": "1.5"}, "Enter a whole number of tokens"),
        ({"monthly_tokens": "9" * 12}, "less than or equal to 2000000000"),
    ],
)
def test_a_bad_limit_is_explained_and_kept_in_the_form(
    browser: Client, alice: User, given: dict[str, str], told: str
) -> None:
    body = browser.post(f"{PAGE}limits/", {"monthly_tokens": "77", **given}).content.decode()

    assert told in body
    assert f'value="{next(iter(given.values()))}"' in body
    alice.refresh_from_db()
    assert alice.monthly_tokens is None


def test_a_limit_of_money_next_to_calls_of_unknown_price_is_reported(
    browser: Client, alice: User
) -> None:
    User.objects.filter(pk=alice.pk).update(monthly_money=5)
    call(alice, money=None)

    assert "it doesn’t count toward the cost limit" in body_of(browser)


def test_the_number_of_queries_is_fixed(
    browser: Client, alice: User, django_assert_num_queries: Any
) -> None:
    for number in range(5):
        call(alice, model=f"m{number}", months_ago=number)
    with django_assert_num_queries(8):
        browser.get(PAGE)
