"""The languages in which a person may say that they write."""

from __future__ import annotations

from django.utils.translation import get_language_info

from memory.texts.terms import ENGLISH, STEMMED


def choices() -> list[tuple[str, str]]:
    """Return the codes of languages whose words have stems here, with their own names."""
    named = {code: _own_name(code) for code in STEMMED}
    others = sorted(code for code in named if code != ENGLISH)
    return [(code, named[code]) for code in (ENGLISH, *others)]


def _own_name(code: str) -> str:
    """Return how a language calls itself; Django knows no name of a few."""
    try:
        return str(get_language_info(code)["name_local"])
    except KeyError:
        return STEMMED[code].title()
