"""Whether finished work is worth a reflection, which costs calls of a model (seed 003, 7)."""

from __future__ import annotations

import json

from django.utils.translation import gettext as _

from memory.texts.text import width

SHORT = 500  # characters of a result below which little work is not looked back on
MOST_TRIVIAL, MOST_READ_ONLY = 1, 2  # iterations
LEAST_MESSAGES, LEAST_OF_USER = 6, 2  # of a conversation (decision 7, "the session gate")


def should_reflect(iterations: int, actions: int, read_only: bool, result: object) -> bool:
    """Say whether a finished task is worth a reflection (R170 to R173).

    `iterations` are calls of a model, `actions` searches, pages read and calls of tools.  A result
    that is no text is measured as it would be written down, in JSON; East Asian wide characters
    count as two.
    """
    return not why_not(iterations, actions, read_only, result)


def why_not(iterations: int, actions: int, read_only: bool, result: object) -> str:
    """Return why a finished task is not reflected on, in words; empty if it is."""
    length = length_of(result)
    told = {"n": length, "least": SHORT}
    if iterations <= MOST_TRIVIAL and actions <= 1 and length < SHORT:
        return (
            _("it was little work: one step, and a result of %(n)d characters (under %(least)d)")
            % told
        )
    if actions <= 0 and iterations <= MOST_TRIVIAL:
        return _("nothing was done: no search, no page read, no tool called")
    if read_only and iterations <= MOST_READ_ONLY and length < SHORT:
        return (
            _(
                "it only looked things up, in few steps, with a result of %(n)d characters (under "
                "%(least)d)"
            )
            % told
        )
    return ""


def length_of(result: object) -> int:
    """Return how long a result is."""
    if result is None:
        return 0
    if not isinstance(result, str):
        result = json.dumps(result, ensure_ascii=False, default=str)
    return width(result)


def why_not_talk(messages: int, by_user: int) -> str:
    """Return why a conversation is not reflected on; empty for six messages, two by the person."""
    if messages >= LEAST_MESSAGES and by_user >= LEAST_OF_USER:
        return ""
    return _(
        "it was short: %(n)d messages, %(own)d of them yours (at least %(least)d and %(least_own)d)"
    ) % {
        "n": messages,
        "own": by_user,
        "least": LEAST_MESSAGES,
        "least_own": LEAST_OF_USER,
    }
