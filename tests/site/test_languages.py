"""Pages in other languages: complete catalogs, a person's choice, and English for programs."""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable
from datetime import date
from functools import cache
from typing import Any

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from django.conf import settings
from django.test import Client
from django.utils import translation
from django.utils.formats import date_format

from beacon_site.text.dates import day_typed
from memory.models import Note
from memory.services.context import layers
from memory.services.notes.saving import write_note
from scripts import languages
from tests.api.cast import Program, problem

OFFERED = settings.LANGUAGES
OTHERS = ["de", "es", "fr", "ja", "zh-hans"]


@pytest.fixture(scope="module")
def wanted() -> Catalog:
    """All messages of the product."""
    return languages.template()


@pytest.fixture(autouse=True)
def _every_language_is_offered(settings: Any) -> None:
    """Offer all languages, also those without a catalog. Django has its own texts in each."""
    settings.LANGUAGES = [("en", "English"), *((code, code) for code in OTHERS)]


@cache
def stored_of(language: str) -> Catalog:
    """Read each catalog once. No test may change it."""
    return languages.read(language)


def test_the_languages_with_a_catalog_are_offered() -> None:
    offered = [translation.to_locale(code) for code, _name in OFFERED if code != "en"]

    assert offered == list(languages.LANGUAGES)


@pytest.mark.parametrize("language", languages.LANGUAGES)
def test_every_message_is_translated_with_its_placeholders(language: str, wanted: Catalog) -> None:
    stored = stored_of(language)
    keys = {(m.context, m.id) for m in wanted if m.id}

    assert {(m.context, m.id) for m in stored if m.id} == keys, "run `make languages`"
    assert list(languages.problems(language, stored)) == []


@pytest.mark.parametrize("language", languages.LANGUAGES)
def test_the_compiled_catalog_is_the_readable_one(language: str) -> None:
    compiled = io.BytesIO()
    write_mo(compiled, stored_of(language))

    path = languages.path_of(language).with_suffix(".mo")
    assert path.read_bytes() == compiled.getvalue(), "run `make languages`"


def test_problems_of_translations_are_found() -> None:
    catalog = Catalog(locale="de")
    catalog.add("Delete %(name)s", "Löschen")
    catalog.add(("%(n)d note", "%(n)d notes"), ("Eine Notiz", "%(m)d Notizen"))
    catalog.add("Save ", "Speichern")
    catalog.add("Undo")
    catalog.add("<b>Run</b>", "<i>Lauf</i>")

    found = list(languages.problems("de", catalog))

    assert len(found) == 5
    assert "no translation of 'Undo'" in found[3]


def test_messages_behind_other_names_and_in_templates_are_found(wanted: Catalog) -> None:
    assert wanted.get("signed out") is not None  # gettext_lazy as _lazy
    assert wanted.get("Save") is not None  # {% translate %}


def test_no_message_is_overlooked() -> None:
    assert list(languages.overlooked()) == []


def test_messages_in_f_strings_and_behind_assigned_names_are_noticed() -> None:
    source = """
from django.utils.translation import gettext as _
from django.utils.translation import ngettext as _many
_L = _
text = f"{n} {_('Changed')} {', '.join(names)}"
text = f"{_many('%(n)d note', '%(n)d notes', n) % {'n': n}}"
text = f"{n} " + _("Changed")
"""

    assert [line for line, _why in languages.overlooked_in(source)] == [4, 5, 6]


# --- whose language -------------------------------------------------------------------------------


def test_a_page_for_strangers_follows_the_browser(alice: Any) -> None:
    page = Client().get("/sign-in/", headers={"accept-language": "fr-CA,fr;q=0.9,en;q=0.5"})

    assert '<html lang="fr">' in page.content.decode()
    assert page["Content-Language"] == "fr"
    assert "Accept-Language" in page["Vary"]


@pytest.mark.requirement("R390")
def test_a_persons_choice_is_stronger_than_the_browser(
    alice: Any, client_of: Callable[[Any], Client]
) -> None:
    client = client_of(alice)
    form = {"time_zone": "UTC", "language": "en", "shortcuts": "on", "page_language": "ja"}

    client.post("/settings/profile/", form)
    page = client.get("/", headers={"accept-language": "de"})

    assert '<html lang="ja">' in page.content.decode()
    assert translation.get_language() == "en"  # nothing stays for the next request


def test_without_a_choice_the_browser_decides(
    alice: Any, client_of: Callable[[Any], Client]
) -> None:
    page = client_of(alice).get("/", headers={"accept-language": "zh-CN"})

    assert '<html lang="zh-hans">' in page.content.decode()


@pytest.mark.parametrize("code", ["xx", "../de", "zh"])
def test_an_unknown_language_is_refused(
    alice: Any, client_of: Callable[[Any], Client], code: str
) -> None:
    form = {"time_zone": "UTC", "language": "en", "page_language": code}

    answer = client_of(alice).post("/settings/profile/", form)

    assert "page_language" in answer.context["form"].errors
    alice.refresh_from_db()
    assert alice.page_language == ""


def test_programs_always_get_english(alice: Any) -> None:
    alice.page_language = "de"
    alice.save()
    program = Program(alice, "read")
    nobody = f"/notes/{uuid.uuid4()}"

    answer = program.get(nobody, Accept_Language="de")

    assert answer["Content-Language"] == "en"
    assert problem(answer, 404) == problem(program.get(nobody), 404)


@pytest.mark.parametrize("code", OTHERS)
def test_an_agents_context_is_the_same_in_every_language(alice: Any, code: str) -> None:
    write_note(alice, kind=Note.Kind.RULE, content="Green tea only.", by=alice.actor)
    english = layers.build_context(alice)
    with translation.override(code):
        other = layers.build_context(alice)

    # The second line of the place is the time.
    assert _without_time(other.text) == _without_time(english.text)


def _without_time(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("- Time:")]


# --- dates ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [*OTHERS, "en"])
def test_a_day_as_pages_show_it_can_be_typed(code: str) -> None:
    with translation.override(code):
        for month in range(1, 13):
            day = date(2026, month, 26)
            assert day_typed(date_format(day, "j M Y"), day) == day


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("de", "26. Nov 2026"),
        ("es", "26 nov 2026"),
        ("fr", "26 nov 2026"),
        ("ja", "2026年11月26日"),
        ("zh-hans", "2026年11月26日"),
    ],
)
def test_each_language_writes_dates_its_own_way(code: str, shown: str) -> None:
    with translation.override(code):
        assert date_format(date(2026, 11, 26), "j M Y").lower() == shown.lower()
