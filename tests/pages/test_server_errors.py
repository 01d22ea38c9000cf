"""Responses of pages while a service is down."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest
from django.db import InterfaceError, InternalError, OperationalError
from django.test import Client, RequestFactory

from beacon_site.db import errors
from research.pages import errors as pages_errors
from research.pages import home

HTMX = {"HX-Request": "true"}
FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("error", "cause", "status", "says"),
    [
        (OperationalError, psycopg.OperationalError, 503, "The database isn’t responding"),
        (OperationalError, psycopg.errors.AdminShutdown, 503, "The database isn’t responding"),
        (InterfaceError, psycopg.InterfaceError, 503, "The database isn’t responding"),
        (OperationalError, psycopg.errors.OutOfMemory, 503, "The database is overloaded"),
        (OperationalError, psycopg.errors.DiskFull, 503, "The disk is full"),
        (OperationalError, psycopg.errors.LockNotAvailable, 503, "Another change is in progress"),
        (InternalError, psycopg.errors.IdleInTransactionSessionTimeout, 503, "took too long"),
        (OperationalError, psycopg.errors.SerializationFailure, 409, "Two changes conflicted"),
        (OperationalError, psycopg.errors.DeadlockDetected, 409, "Two changes conflicted"),
        (
            OperationalError,
            psycopg.errors.QueryCanceled,
            503,
            "The database took too long to respond",
        ),
        (ValueError, KeyError, 500, "Something went wrong"),
    ],
)
def test_a_database_that_cannot_is_distinguished_from_a_mistake(
    monkeypatch: pytest.MonkeyPatch,
    client_of: Any,
    alice: Any,
    error: Any,
    cause: Any,
    status: int,
    says: str,
):
    monkeypatch.setattr(errors, "_note_full", lambda: None)

    def broken(*_given: Any, **_more: Any) -> None:
        raise error("no") from cause("no")

    monkeypatch.setattr(home, "context", broken)
    browser: Client = client_of(alice)
    browser.raise_request_exception = False

    answer = browser.get("/")

    assert answer.status_code == status
    assert says in answer.content.decode()
    assert bool(answer.headers.get("Retry-After")) == (status != 500)


def test_a_page_that_broke_is_requested_again_by_a_button_and_a_form_is_not(
    monkeypatch: pytest.MonkeyPatch, client_of: Any, alice: Any
):
    def broken(*_given: Any, **_more: Any) -> None:
        raise ValueError

    monkeypatch.setattr(home, "context", broken)
    browser: Client = client_of(alice)
    browser.raise_request_exception = False

    page = browser.get("/?a=<b>&c=1").content.decode()

    assert '<a class="btn primary" href="/?a=%3Cb%3E&amp;c=1">Try again</a>' in page
    sent = pages_errors.server_error(RequestFactory().post("/notes/new/"))
    assert "Try again</a>" not in sent.content.decode()


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_form_that_is_too_large_is_explained_with_the_limit(
    settings: Any, client_of: Any, alice: Any, headers: dict[str, str]
):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 2048
    words = {"content": "x" * 3000}

    answer = client_of(alice).post("/notes/new/", urlencode(words), FORM, headers=headers)

    assert answer.status_code == 413
    assert "larger than the limit of 2.0\xa0KB" in answer.content.decode()
    assert answer.headers.get("HX-Retarget", "") == ("#notice" if headers else "")


def test_a_form_of_too_many_fields_is_explained(settings: Any, client_of: Any, alice: Any):
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = 3

    answer = client_of(alice).post("/notes/new/", {"record": ["1", "2", "3", "4"]})

    assert answer.status_code == 413
    assert "too many fields or files" in answer.content.decode()


def test_another_host_is_reported_without_a_way_that_leads_nowhere(client_of: Any, alice: Any):
    answer = client_of(alice).get("/", headers={"Host": "elsewhere.example"})

    page = answer.content.decode()
    assert answer.status_code == 400
    assert "isn’t set up for the host" in page
    assert "Go to Home" not in page
