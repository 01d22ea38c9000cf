"""Whatever a form refuses, it says in Beacon's words: what is wrong, and what would be right."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from copy import deepcopy
from decimal import Decimal
from typing import Any

import pytest
from django import forms

import memory.forms
import research.forms
from memory.forms.own_words import Form, OwnWords, _djangos, _give_words


def every_form() -> list[type[forms.BaseForm]]:
    """Each form of both apps."""
    for package in (memory.forms, research.forms):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    found = [kind for kind in _below(forms.BaseForm) if kind.__module__.split(".")[1] == "forms"]
    return [kind for kind in found if kind.__module__.startswith(("memory.", "research."))]


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)


def test_every_form_has_beacons_words() -> None:
    whole = {kind for kind in every_form() if getattr(kind, "base_fields", None)}

    assert len(whole) > 40
    assert {kind for kind in whole if not issubclass(kind, OwnWords)} == set()


def test_no_field_is_left_with_a_word_of_django() -> None:
    left = []
    for kind in every_form():
        for name, field in getattr(kind, "base_fields", {}).items():
            given = deepcopy(field)
            if given.widget.is_hidden:
                continue
            _give_words(given, name)
            usual = set(map(str, _djangos(given).values()))
            codes = {getattr(one, "code", "") for one in given.validators} - {""}
            bare = {code for code, said in given.error_messages.items() if str(said) in usual}
            left += [
                f"{kind.__name__}.{name}: {code}"
                for code in bare | codes - given.error_messages.keys()
            ]

    assert not left, left


class Everything(Form):
    title = forms.CharField(max_length=3)
    days = forms.IntegerField(label="Days to live", min_value=2, max_value=9)
    price = forms.DecimalField(max_digits=4, decimal_places=2, max_value=Decimal(50))
    day = forms.DateField()
    mail = forms.EmailField()
    kind = forms.ChoiceField(choices=[("a", "A")])
    many = forms.MultipleChoiceField(choices=[("a", "A")])
    file = forms.FileField()
    agreed = forms.BooleanField(label="I know")
    named = forms.CharField(error_messages={"required": "Which one?"})
    version = forms.IntegerField(widget=forms.HiddenInput)


@pytest.mark.parametrize(
    ("field", "typed", "said"),
    [
        ("title", "", "“title” is missing: type it in."),
        ("title", "long", "It has 4 characters, and at most 3 fit. Shorten it."),
        ("days", "", "“Days to live” is missing: type a whole number."),
        ("days", "two", "This is no whole number. Type digits alone."),
        ("days", "1", "This is too small: the least is 2."),
        ("days", "10", "This is too large: the most is 9."),
        ("price", "cheap", "This is no number. Type one such as 12.50."),
        ("price", "1.234", "At most 2 digits may follow the point."),
        ("price", "60", "This is too large: the most is 50."),
        ("day", "2026-02-31", "There is no such day. Give year-month-day, as in 2026-03-31."),
        ("mail", "ada", "This is no e-mail address. Type one such as ada@example.org."),
        ("kind", "", "“kind” is missing: choose one."),
        ("kind", "b", "“b” is not among the choices. Choose one that is offered."),
        ("many", "b", "“b” is not among the choices. Choose one that is offered."),
        ("many", "", "“many” is missing: tick at least one."),
        ("file", "", "Choose a file first."),
        ("agreed", "", "Tick “I know” first."),
        ("named", "", "Which one?"),
        ("version", "", "The form came without “version”: open the page anew and try again."),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_what_would_be_right(field: str, typed: str, said: str) -> None:
    form = Everything({field: [typed] if field == "many" and typed else typed})

    assert said in form.errors[field]
