"""Limits apply to calls that are made at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from beacon_site.providers.llm.base import Usage
from memory.models import CallReservation, ModelCall, User
from memory.services.llm import asking
from memory.services.llm.asking import BudgetReached, check_month
from memory.tasks import forget_api_answers


def call_of(user: User) -> ModelCall:
    return ModelCall(owner=user, purpose="plan", source="run:1")


def limited(user: User, **limits: Any) -> User:
    User.objects.filter(pk=user.pk).update(**limits)
    user.refresh_from_db()
    return user


def hold(user: User, tokens: int = 60) -> CallReservation:
    call = call_of(user)
    return asking.reserve(call, Usage(tokens, 0), Decimal("0.5"), lambda: check_month(user))


@pytest.mark.parametrize("limits", [{"monthly_tokens": 50}, {"monthly_money": Decimal("0.5")}])
def test_what_a_call_under_way_may_cost_counts_at_once(alice: User, limits: dict[str, Any]):
    limited(alice, **limits)
    hold(alice)

    with pytest.raises(BudgetReached, match="monthly limit"):
        hold(alice)


def test_once_it_is_settled_the_rest_of_the_month_is_free_again(alice: User):
    limited(alice, monthly_tokens=50)

    asking.settle(hold(alice))
    asking.settle(None)

    assert hold(alice).pk


def test_what_a_process_that_died_had_reserved_runs_out(alice: User):
    limited(alice, monthly_tokens=50)
    hold(alice)
    CallReservation.objects.update(created=timezone.now() - timedelta(minutes=16))

    held = hold(alice)
    forget_api_answers()

    assert list(CallReservation.objects.all()) == [held]


def test_a_refused_call_reserves_nothing(alice: User, bob: User):
    limited(alice, monthly_tokens=0)

    with pytest.raises(BudgetReached):
        hold(alice)
    assert not CallReservation.objects.exists()
    assert not asking.held_by(bob).exists()


@pytest.mark.django_db(transaction=True)
def test_of_many_calls_at_the_very_same_time_one_passes_the_limit(alice: User):
    limited(alice, monthly_tokens=50)

    def one(_number: int) -> bool:
        try:
            return bool(hold(alice).pk)
        except asking.BudgetReached:
            return False
        finally:
            connections["default"].close()

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(one, range(6))) == 1
