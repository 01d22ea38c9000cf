"""The choices of a topic's form, each with what it means."""

from __future__ import annotations

from typing import Any

from django.contrib.humanize.templatetags.humanize import intcomma
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from research.budgets.budget import DEFAULTS
from research.budgets.depth import DEPTHS
from research.models import TopicSettings

Choices = list[tuple[str, SafeString]]


def styles() -> Choices:
    """Return the styles of a report."""
    about = {
        TopicSettings.Style.STANDARD: _("a paragraph, then findings"),
        TopicSettings.Style.EXECUTIVE: _("five lines to decide by, then findings"),
        TopicSettings.Style.BULLETS: _("bullets alone, in groups"),
        TopicSettings.Style.MEMO: _("to, from, date; what happened, what it means"),
    }
    return [(style.value, _explained(str(style.label), about[style])) for style in about]


def depths() -> Choices:
    """Return the depths of a run, with what each may take."""
    about = {
        TopicSettings.Depth.QUICK: _("search, read, write: at most %(minutes)d minutes"),
        TopicSettings.Depth.DEEP: _(
            "a model searches and reads by itself along up to three tracks first: at most "
            "%(minutes)d minutes, and %(tokens)s tokens instead of %(usual)s"
        ),
    }
    usual = DEFAULTS[TopicSettings.Depth.QUICK].tokens
    return [
        (depth.value, _explained(str(depth.label), words % _costs(depth, usual)))
        for depth, words in about.items()
    ]


def _costs(depth: str, usual: int) -> dict[str, Any]:
    budget = DEFAULTS[depth]
    return {"minutes": budget.minutes, "tokens": intcomma(budget.tokens), "usual": intcomma(usual)}


def readings() -> Choices:
    """Return how deeply a run reads."""
    about = {
        TopicSettings.Reading.SKIM: _("%(pages)d pages a run, the beginning of each"),
        TopicSettings.Reading.NORMAL: _("%(pages)d pages a run"),
        TopicSettings.Reading.THOROUGH: _("%(pages)d pages a run, each to its end"),
    }
    return [
        (each.value, _explained(str(each.label), about[each] % {"pages": DEPTHS[each].pages}))
        for each in about
    ]


def _explained(name: str, about: str) -> SafeString:
    return format_html("{}<small>{}</small>", name[:1].upper() + name[1:], about)
