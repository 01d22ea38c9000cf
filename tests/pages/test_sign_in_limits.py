"""A hundred thousand sign-in attempts are rejected, and don't fill the disk."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt, AccessLog
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from beacon_site.web.http import bare_address
from memory.accounts import sign_ins
from memory.models import Activity, SignIn, User
from memory.tasks import forget_sign_ins

SIGN_IN = "/sign-in/"
PASSWORD = "alice-horse-battery"


def tried(typed: str = "wrong", *, name: str = "alice", junk: str = "", **meta: Any) -> Any:
    told = {"username": name, "password": typed, "next": junk}
    return Client().post(SIGN_IN, told, **meta)


def test_what_is_kept_of_failures_does_not_grow_with_them(alice: User) -> None:
    for number in range(12):
        tried(junk=f"{number}" * 900)

    kept = AccessAttempt.objects.get()
    assert (kept.failures_since_start, kept.get_data, kept.post_data) == (12, "", "")


def test_the_owner_is_told_of_the_failures_that_close_the_name_not_of_all_after(
    alice: User,
) -> None:
    for _number in range(9):
        tried()

    assert Activity.objects.for_user(alice).filter(kind="sign-in-failed").count() == 5


def test_behind_a_proxy_a_strangers_failures_close_no_name_for_others(
    alice: User, settings: Any
) -> None:
    settings.BEACON_TRUST_PROXY = True
    for _number in range(6):
        closed = tried(HTTP_X_FORWARDED_FOR="203.0.113.7")

    assert closed.status_code == 429
    assert tried(PASSWORD, HTTP_X_FORWARDED_FOR="203.0.113.8").status_code == 302
    assert tried(PASSWORD, HTTP_X_FORWARDED_FOR="203.0.113.7:4711").status_code == 429
    assert SignIn.objects.get().address == "203.0.113.8"


def test_addresses_of_one_ipv6_network_are_counted_together(alice: User) -> None:
    for number in range(6):
        closed = tried(REMOTE_ADDR=f"2001:db8:1:2::{number:x}")

    assert closed.status_code == 429
    assert tried(PASSWORD, REMOTE_ADDR="2001:db8:1:2:ffff::1").status_code == 429
    assert tried(PASSWORD, REMOTE_ADDR="2001:db8:1:3::1").status_code == 302
    assert SignIn.objects.get().address == "2001:db8:1:3::1"


def test_tries_of_one_ipv6_network_share_the_minutes_limit(
    alice: User, settings: Any, one_minute: None
) -> None:
    settings.BEACON_SIGN_INS_PER_MINUTE = 3
    cache.clear()
    for number in range(4):
        closed = tried(name=f"name{number}", REMOTE_ADDR=f"2001:db8:7:8::{number:x}")

    assert closed.status_code == 429
    assert tried(name="x", REMOTE_ADDR="2001:db8:7:9::1").status_code == 200


@pytest.mark.parametrize(
    ("told", "address"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("203.0.113.7:4711", "203.0.113.7"),
        ("[2001:db8::7]:4711", "2001:db8::7"),
        ("[2001:db8::7]", "2001:db8::7"),
        ("2001:db8::7", "2001:db8::7"),
        ("unknown", ""),
        ("x" * 5000, ""),
        ("203.0.113.7:", ""),
        ("", ""),
    ],
)
def test_an_address_is_read_as_proxies_write_it(told: str, address: str) -> None:
    assert bare_address(told) == address


def test_tries_of_many_names_from_one_address_wait_for_the_next_minute(
    alice: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.BEACON_SIGN_INS_PER_MINUTE = 3
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    monkeypatch.setattr(sign_ins.time, "time", lambda: 600_020.0)
    here = {"REMOTE_ADDR": "203.0.113.9"}
    codes = [tried(name=f"name-{number}", **here).status_code for number in range(3)]
    assert codes == [200] * 3

    answer = tried(PASSWORD, **here)
    assert (answer.status_code, answer["Retry-After"]) == (429, "40")
    assert "Try again in 40 seconds" in answer.content.decode()
    assert tried(PASSWORD, REMOTE_ADDR="203.0.113.10").status_code == 302
    monkeypatch.setattr(sign_ins.time, "time", lambda: 600_060.0)
    assert tried(PASSWORD, **here).status_code == 302
    cache.clear()


def test_without_redis_people_come_in_uncounted(alice: User, settings: Any) -> None:
    settings.BEACON_SIGN_INS_PER_MINUTE = 1
    away = {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": "redis://127.0.0.1:1/0",
    }
    settings.CACHES = {"default": away}

    assert [tried(PASSWORD).status_code for _number in range(3)] == [302] * 3


def test_failures_that_are_over_are_forgotten_and_sign_ins_leave_no_second_list(
    alice: User,
) -> None:
    tried(name="my-password-by-mistake")
    tried()
    over = timezone.now() - timedelta(hours=1)
    AccessAttempt.objects.filter(username="my-password-by-mistake").update(attempt_time=over)
    tried(PASSWORD, REMOTE_ADDR="203.0.113.11")
    forget_sign_ins()

    assert [kept.username for kept in AccessAttempt.objects.all()] == ["alice"]
    assert not AccessLog.objects.exists()
