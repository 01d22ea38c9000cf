"""Reflected input: every form, submitted with hostile text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth import get_user_model
from django.db import transaction
from django.test import Client
from selectolax.lexbor import LexborHTMLParser, LexborNode

from memory.models import User
from tests.attacks.cast import everything
from tests.attacks.payloads import Payload, markup
from tests.attacks.sweep import HTMX, Seen, sweep

SINK = "forms: what was typed, errors, messages"
TYPED = frozenset(("text", "search", "url", "email", "number", "password", "date", "time", "hidden", "file"))  # fmt: skip
OURS = frozenset(("csrfmiddlewaretoken", "version", "seen"))


class Form:
    """A form of a page, and what a person would send with it."""

    def __init__(self, page: str, node: LexborNode) -> None:
        self.method = (node.attributes.get("method") or "get").lower()
        asked = node.attributes.get("action") or node.attributes.get("hx-post") or page
        self.path = asked if asked.startswith("/") else page.partition("?")[0] + asked
        self.fields = list(node.css("input[name], textarea[name], select[name], button[name]"))

    @property
    def key(self) -> tuple[str, str, tuple[str, ...]]:
        """Forms that only differ in their rows are one."""
        names = sorted({str(field.attributes["name"]) for field in self.fields})
        return self.method, urlsplit(self.path).path, tuple(names)

    def filled(self, text: str) -> dict[str, str]:
        """Return the form's data with `text` in each text field."""
        sent = {}
        for field in self.fields:
            name, kind = str(field.attributes["name"]), field.attributes.get("type") or "text"
            typed = field.tag == "textarea" or (field.tag == "input" and kind in TYPED)
            given = field.attributes.get("value") or ""
            if field.tag == "select":
                chosen = field.css_first("option[selected]") or field.css_first("option")
                given = (chosen.attributes.get("value") or "") if chosen else ""
            if name not in OURS and typed and (kind != "hidden" or not given):
                given = text
            sent.setdefault(name, given)
        return sent


def forms_of(pages: dict[str, str]) -> Iterator[Form]:
    """Yield each different form of some pages once."""
    known = set()
    for address, body in pages.items():
        for node in LexborHTMLParser(body).css("form"):
            form = Form(address.partition(" ")[0], node)
            if form.key not in known and not form.path.startswith(("/admin/", "/sign-out")):
                known.add(form.key)
                yield form


def send(browser: Client, form: Form, payload: Payload, *, htmx: bool) -> Any:
    """Send the form, follow the redirect, and undo its effect."""
    headers = HTMX if htmx else {}
    given = form.filled(payload.text.replace("\0", ""))
    with transaction.atomic():
        if form.method == "post":
            answer = browser.post(form.path, given, headers=headers, follow=not htmx)
        else:
            answer = browser.get(form.path, given, headers=headers)
        answer.getvalue()
        transaction.set_rollback(True)
    return answer


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_form_gives_hostile_text_back_as_words(
    admin: User, client_of: Callable[[Any], Client], count: Callable[..., None]
) -> None:
    places = [place for place in everything(admin) if place.name != "admin"]
    pages = sweep(client_of(admin), places).pages
    seen, forms, refused = Seen(), list(forms_of(pages)), 0
    for number, form in enumerate(forms):
        browser = client_of(get_user_model().objects.get(pk=admin.pk))
        browser.raise_request_exception = False
        payload = markup()[number * 7 % len(markup())]
        answer = send(browser, form, payload, htmx=number % 2 == 1)
        refused += 400 <= answer.status_code < 500
        seen.look(SINK, f"{form.method} {form.path}", answer)
    run = len(seen.harmful[SINK]) + len(seen.broken)
    count(SINK, len(forms), refused=refused, run=run)

    assert seen.problems() == {}
    assert len(forms) > 100
