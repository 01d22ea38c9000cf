"""What model calls spent, by month and within a month."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
import time_machine

from memory.models import ModelCall, Topic, User
from memory.services.llm import spending


@pytest.fixture(autouse=True)
def _in_november() -> Any:
    with time_machine.travel(datetime(2026, 11, 20, 12, tzinfo=UTC), tick=False):
        yield


def call(owner: User, day: str = "2026-11-10", **fields: Any) -> ModelCall:
    given = {"purpose": "plan", "source": "run:1", "model": "m1", "prompt_tokens": 10}
    at = datetime.fromisoformat(day).replace(tzinfo=UTC)
    return ModelCall.objects.create(owner=owner, created=at, **(given | fields))


def detail(user: User, *, whose: User | None) -> dict[str, list[spending.Line]]:
    calls = spending.calls_of(user) if whose else spending.calls_of_all()
    month = next(iter(spending.months(calls, user)))
    return spending.detail(spending.within(calls, month, user), whose=whose)


def test_months_come_newest_first_with_the_present_one_though_empty(alice: User) -> None:
    call(alice, "2026-09-10", money=Decimal("0.5"), completion_tokens=4)
    call(alice, "2026-09-11", money=None)

    found = spending.months(spending.calls_of(alice), alice)

    assert [f"{first:%Y-%m}" for first in found] == ["2026-11", "2026-09"]
    assert [*found.values()] == [
        spending.UsageTotals(),
        spending.UsageTotals(2, 20, 4, Decimal("0.5"), unpriced=1),
    ]


def test_a_month_begins_where_the_person_lives(alice: User) -> None:
    alice.time_zone = "Asia/Tokyo"
    call(alice, "2026-10-31T20:00:00")

    [present] = spending.months(spending.calls_of(alice), alice).values()
    assert present.calls == 1
    assert spending.spent_this_month(alice).calls == 1


def test_a_month_holds_its_last_moment_and_not_the_next_months_first(alice: User) -> None:
    call(alice, "2025-12-31T23:59:59")
    call(alice, "2026-01-01T00:00:00")
    calls = spending.calls_of(alice)
    december = spending.chosen(spending.months(calls, alice), "2025-12")

    assert december is not None
    assert spending.within(calls, december, alice).count() == 1


@pytest.mark.parametrize("key", ["2026-13", "november", "2026-1", "2026-10", "9999-99", "\x00"])
def test_a_month_that_is_not_there_is_none(alice: User, key: str) -> None:
    assert spending.chosen(spending.months(spending.calls_of(alice), alice), key) is None


def test_a_month_is_taken_apart_the_largest_first(alice: User) -> None:
    topic = Topic.objects.create(owner=alice, title="Batteries", slug="batteries")
    call(alice, topic=topic, money=Decimal("0.1"))
    call(alice, model="m2", purpose="write", money=Decimal("0.7"))

    found = detail(alice, whose=alice)

    assert [line["label"] for line in found["by_model"]] == ["m2", "m1"]
    assert [line["label"] for line in found["by_purpose"]] == ["writing the report", "planning"]
    assert [(line["label"], line["slug"]) for line in found["by_topic"]] == [
        ("no topic or deleted topic", ""),
        ("Batteries", "batteries"),
    ]
    assert [(line["label"], line["run"]) for line in found["runs"]] == [("Batteries", 1)]
    assert [line["share"] for line in found["by_topic"]] == [88, 12]
    assert [line["share"] for line in found["runs"]] == [12]


def test_without_known_prices_shares_are_of_the_tokens(alice: User) -> None:
    call(alice, money=None, prompt_tokens=30)
    call(alice, model="m2", money=None, prompt_tokens=90)

    found = detail(alice, whose=alice)

    assert [(line["label"], line["share"]) for line in found["by_model"]] == [
        ("m2", 75),
        ("m1", 25),
    ]


def test_everybodys_calls_show_accounts_and_no_topic(alice: User, bob: User) -> None:
    topic = Topic.objects.create(owner=bob, title="A secret", slug="a-secret")
    call(bob, topic=topic)
    call(alice)

    found = detail(alice, whose=None)

    assert sorted(line["label"] for line in found["by_person"]) == ["alice", "bob"]
    assert not found.keys() & {"by_topic", "runs"}


def test_two_people_of_one_name_are_distinguished(alice: User, bob: User) -> None:
    User.objects.update(display_name="Alex")
    call(alice)
    call(bob)

    found = detail(alice, whose=None)

    assert sorted(line["label"] for line in found["by_person"]) == ["Alex (alice)", "Alex (bob)"]


def test_a_call_is_a_line_of_csv_and_an_unknown_price_an_empty_cell(alice: User) -> None:
    topic = Topic.objects.create(owner=alice, title="=HYPERLINK()", slug="h")
    call(alice, topic=topic, money=None, error="down")

    (line,) = csv.DictReader(io.StringIO(spending.as_csv(spending.calls_of(alice), whose=alice)))
    assert (line["money"], line["topic"], line["error"]) == ("", "'=HYPERLINK()", "down")
    assert (line["created"], line["account"]) == ("2026-11-10T00:00:00+00:00", "alice")


def test_everybodys_csv_shows_no_topic_and_no_error(alice: User) -> None:
    topic = Topic.objects.create(owner=alice, title="A secret", slug="s")
    call(alice, topic=topic, error="secret words")

    assert "secret" not in spending.as_csv(spending.calls_of_all(), whose=None)


def test_limits_say_what_is_used_and_left(alice: User) -> None:
    alice.monthly_tokens, alice.monthly_money = 1000, Decimal("2.00")

    tokens, money = spending.limits_of(
        alice, spending.UsageTotals(3, 900, 200, Decimal("0.5"), unpriced=1)
    )

    assert (tokens.used, tokens.most, tokens.left) == ("1,100", "1,000", "0")
    assert tokens.is_reached
    assert money.used == "$0.50"
    assert (money.left, money.share, money.is_reached) == ("$1.50", 25, False)
