"""Template tags available without `{% load %}`: icons, dates, run states, statuses of delta items.

A page shows dozens of them, and a list of fifty rows about a hundred, so results are cached.
"""

from __future__ import annotations

import re
from datetime import date as day_of_year
from datetime import datetime
from functools import lru_cache
from typing import Any

from django import template
from django.forms import BoundField, CheckboxInput
from django.forms.widgets import ChoiceWidget
from django.template import Context, defaultfilters
from django.utils import dateformat
from django.utils.formats import get_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _

from beacon_site.text.markdown import by_direction, render

register = template.Library()

_MAX_KEPT = 500  # labels can be any text, so only the most recent stay cached
_STATES = {
    "queued": _("Queued"),
    "running": _("Running"),
    "succeeded": _("Succeeded"),
    "partial": _("Partial"),
    "failed": _("Failed"),
    "cancelled": _("Cancelled"),
    "scheduled": _("Scheduled"),
    "paused": _("Paused"),
}
# Class, symbol and label of each delta status; any other status is `_QUIET`.
_DELTA = {
    "new": ("new", "+", _("New")),
    "changed": ("changed", "≠", _("Changed")),
    "contradicted": ("contra", "!", _("Contradicted")),
    "gone": ("gone", "−", _("Gone")),
    "confirmed": ("confirmed", "✓", _("Confirmed")),
    "returning": ("info", "↺", _("Seen again")),
    "known": ("known", "=", _("Known")),
}
_COUNTS = {
    "new": ("new", _("+ %(n)s new")),
    "changed": ("changed", _("≠ %(n)s changed")),
    "gone": ("gone", _("− %(n)s gone")),
    "contradicted": ("contra", _("! %(n)s contradicted")),
}
_QUIET = ("quiet-tag", "·", _("Not mentioned"))
# Formats whose result is the same all day, up to a time at the end.
_OF_A_DAY = re.compile("([^\\\\aABceEfgGhHiIOPrsTuUZ]*)(H:i)?")
_RTL_NAME = re.compile("(.*?[“„«「])([^”“»」]*[\\u0590-\\u08ff].*)([”“»」].*)")


@register.simple_tag
@lru_cache(_MAX_KEPT)
def icon(name: str) -> SafeString:
    """Return an icon of `_sprite.html`.  It is decoration, since there is always a word beside it.

    The line breaks add a space between the icon and that word.
    """
    return format_html(
        '\n<svg class="icon" aria-hidden="true" focusable="false"><use href="#i-{}"></use></svg>\n',
        name,
    )


@register.simple_tag
def status(state: str, label: str = "") -> SafeString:
    """Return the state of a run or step as word, shape and color; `label` replaces the word."""
    return _status(state, str(label or _STATES.get(state, state)))


@lru_cache(_MAX_KEPT)
def _status(state: str, word: str) -> SafeString:
    return format_html('\n\n<span class="status {}">{}{}</span>\n', state, icon(state), word)


@register.filter(expects_localtime=True, is_safe=False)
def date(value: Any, form: str | None = None) -> str:
    """Do the same as Django's filter, which is slow: a list has a hundred dates, but few days."""
    if not isinstance(value, datetime) or form is None:
        return str(defaultfilters.date(value, form))
    if form == "c":
        return value.isoformat()
    language = get_language()
    parts = _day_and_time_formats(get_format(form, language))
    if parts is None:
        return str(defaultfilters.date(value, form))
    day, clock = parts
    shown = _day(value.date(), day, language)
    return f"{shown}{value.hour:02}:{value.minute:02}" if clock else shown


@lru_cache(_MAX_KEPT)
def _day_and_time_formats(form: str) -> tuple[str, str] | None:
    """Return the format of the day, and of the time that may follow; None for other formats."""
    match = _OF_A_DAY.fullmatch(form)
    return (match[1], match[2]) if match else None


@lru_cache(_MAX_KEPT)
def _day(day: day_of_year, form: str, _language: str | None) -> str:
    return dateformat.format(day, form)


@register.filter
def must_be_filled(field: BoundField) -> bool:
    """Whether a field can be left empty but shouldn't be, in a form where others may be empty."""
    if not field.field.required or isinstance(field.field.widget, ChoiceWidget | CheckboxInput):
        return False
    return any(not other.field.required for other in field.form.visible_fields())


@register.filter
def markdown(text: str) -> SafeString:
    return by_direction(render(text))


@register.filter
def path_parts(path: str) -> SafeString:
    """Return a path such as “Episodes › Prices” with isolated parts.

    They can have different writing directions.
    """
    return format_html_join(" › ", "<bdi>{}</bdi>", ((part,) for part in path.split(" › ")))


@register.filter
def boxed_name(words: str) -> str:
    """Put a quoted name from right to left in a box, so that CSS can cut it at its end."""
    match = _RTL_NAME.fullmatch(words)
    return format_html("{}<bdi>{}</bdi>{}", *match.groups()) if match else words


@register.filter
def wrap_path(path: str) -> SafeString:
    """Let a long path wrap after its slashes."""
    return format_html_join(SafeString("/<wbr>"), "{}", ((part,) for part in path.split("/")))


@register.simple_tag(takes_context=True)
def dated(context: Context, url: str) -> str:
    """Return the URL of a page as of the date that this page shows."""
    date = getattr(context.get("request"), "date", None)
    if not (date and date.is_past):
        return url
    page, sign, anchor = url.partition("#")
    return f"{page}{date.more if '?' in page else date.query}{sign}{anchor}"


@register.simple_tag
def delta_tag(state: str) -> SafeString:
    """Return the status label of a delta item."""
    kind, sign, word = _DELTA.get(state, _QUIET)
    return _delta_tag(kind, sign, str(word))


@lru_cache(_MAX_KEPT)
def _delta_tag(kind: str, sign: str, word: str) -> SafeString:
    return format_html('\n\n<span class="tag {}">{} {}</span>\n', kind, sign, word)


@register.simple_tag
def delta_count(state: str, number: int) -> SafeString:
    """Return the tag for the number of a report's changes of one kind."""
    return _delta_count(state, number, get_language())


@lru_cache(_MAX_KEPT)
def _delta_count(state: str, number: int, _language: str | None) -> SafeString:
    kind, words = _COUNTS.get(state, _COUNTS["contradicted"])
    return format_html('<span class="tag {}">{}</span>', kind, str(words) % {"n": number})
