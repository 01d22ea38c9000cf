"""Invalid requests to every page and form: nothing crashes, and every rejection is explained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.contrib import admin
from django.test import Client

from memory.models import User
from tests.attacks.figures import Count
from tests.attacks.form_shots import Form, Shot, forms_of, to_any, to_form, to_page
from tests.attacks.shooting import Range
from tests.pages.test_every_address import Address
from tests.pages.test_every_address import addresses as addresses  # the fixture

# A page of each kind: what runs before every view is only tested with these.
ANY = ("/", "/files/facts/user.md/edit/", "/notes/", "/sign-in/", "/nowhere/", "/livez")
EVERY = 40  # in the quick run, of pages


@pytest.fixture
def alices(alice: User, client_of: Callable[[Any], Client]) -> Range:
    """Alice's browser. She is the admin."""
    User.objects.filter(pk=alice.pk).update(is_staff=True, is_superuser=True)
    return Range(client_of(alice))


def forms_on(addresses: list[Address], browser: Client) -> list[Form]:
    """Return every form that the pages show, one of each kind."""
    found: dict[Any, Form] = {}
    for one in addresses:
        answer = browser.get(one.path)
        if not answer.streaming and answer.headers.get("Content-Type", "").startswith("text/html"):
            for form in forms_of(answer.content.decode(), one.path):
                if form.action.startswith("/"):
                    found.setdefault(form.kind, form)
    return list(found.values())


def told(count: Count, sink: str, shot: Range) -> None:
    """Record a sink's attempts, and fail if anything broke."""
    count(sink, shot.tried, refused=shot.refused, run=len(shot.broken))
    assert shot.broken == []


def test_a_sample_of_pages_and_forms_breaks_at_nothing(
    addresses: list[Address], alices: Range, alice: User, client_of: Any, count: Count
) -> None:
    sample = addresses[::EVERY]
    forms = forms_on(sample, client_of(alice))
    for one in sample:
        alices.fire(list(to_page(one.path))[::4])
    for form in forms:
        alices.fire(list(to_form(form))[::12])

    told(count, "fuzz: a sample of all pages", alices)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_every_page_answers_whatever_is_asked_of_it(
    addresses: list[Address], alices: Range, count: Count
) -> None:
    for path in ANY:
        alices.fire(to_any(path))
    for one in addresses:
        alices.fire(to_page(one.path))

    told(count, "fuzz: every page", alices)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_every_form_answers_whatever_is_in_it(
    addresses: list[Address], alices: Range, alice: User, client_of: Any, count: Count
) -> None:
    forms = forms_on(addresses, client_of(alice))
    assert len(forms) > 150
    for form in forms:
        alices.fire(to_form(form))

    told(count, "fuzz: every form", alices)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_list_of_the_admin_answers_whatever_it_is_asked(
    addresses: list[Address], alices: Range, count: Count
) -> None:
    """Each filter, search, order and page number, and rows that don't exist."""
    for model, page in admin.site._registry.items():
        place = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        names = [str(one) for one in page.list_filter if isinstance(one, str)]
        asked = [
            *names,
            *(f"{name}__exact" for name in names),
            "q",
            "o",
            "p",
            "all",
            "e",
            "_to_field",
        ]
        for value in ("\x00", "9" * 30, "²"):
            alices.fire(
                Shot(f"{n}={value!r}"[:60], "GET", f"{place}?{urlencode({n: value})}")
                for n in asked
            )
            alices.fire([Shot(f"the row {value!r}"[:60], "GET", f"{place}{quote(value)}/change/")])

    told(count, "fuzz: the admin", alices)
