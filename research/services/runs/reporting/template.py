"""A topic's report template: a person's headings, with placeholders for the parts of a report.

The template replaces the body when the run is saved, after all checks, so a report needs no model
for it: changes -> one list per block -> `laid_out`. It can only place parts that exist.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from beacon_site.text.cleaning import shorten
from beacon_site.text.markdown import as_words
from beacon_site.text.placeholders import alone, count_of, filled, has_open_braces, names_in
from research.models import DeltaItem, Run, TopicSettings
from research.models.reports import source_lines
from research.services.runs.reporting import merged_deltas
from research.services.runs.reporting.delta import Change

MAX_LENGTH = 10_000  # characters
MAX_ITEMS = 200  # of a block
MAX_WORDS = 100  # placeholders inside sentences; an objective can have thousands of characters
MAX_PROBLEMS = 5  # explained at once

_NUMBERED = re.compile(r"^ *\d+[.)] ", re.MULTILINE)

Status = DeltaItem.Status
_LISTS: dict[str, str] = {
    "new": Status.NEW,
    "changed": Status.CHANGED,
    "contradicted": Status.CONTRADICTED,
    "gone": Status.GONE,
    "confirmed": Status.CONFIRMED,
    "not_mentioned": Status.GONE_QUIET,
}
# Each on a line of its own.
BLOCKS: dict[str, str | Promise] = {
    "summary": gettext_lazy("the report’s first paragraph"),
    "text": gettext_lazy("the whole report in its usual style"),
    "new": gettext_lazy("new findings"),
    "changed": gettext_lazy("facts that changed, with their old values"),
    "contradicted": gettext_lazy("known facts that a source contradicts"),
    "gone": gettext_lazy("facts that are no longer on their source page"),
    "confirmed": gettext_lazy("known facts that a source confirmed"),
    "not_mentioned": gettext_lazy("known facts that no source mentioned"),
    "checked": gettext_lazy("known pages that were checked again"),
    "sources": gettext_lazy("the numbered sources"),
}
WORDS: dict[str, str | Promise] = {
    "topic": gettext_lazy("the topic’s title"),
    "objective": gettext_lazy("the topic’s objective"),
    "date": gettext_lazy("the run’s date"),
    "since": gettext_lazy("the run that this one is compared with"),
    "run_number": gettext_lazy("the run’s number"),
    "new_count": gettext_lazy("the number of new pages"),
    "known_count": gettext_lazy("the number of known pages"),
}


@dataclass(frozen=True, slots=True)
class Contents:
    """What a template can place, from a run that is being saved or one that is stored."""

    run: Run
    number: int
    at: datetime
    text: str
    summary: str
    changes: Sequence[Change]
    sources: Sequence[Mapping[str, Any]]
    checked: str = ""
    since: str = ""


def problems_of(template: str) -> list[str]:
    """Return what is wrong with a template, as sentences for the person who typed it."""
    lines = template.splitlines()
    inside = "\n".join(line for line in lines if alone(line) not in BLOCKS)
    problems = [*_unknown(template), *_inside(inside)]
    placed = Counter(name for line in lines if (name := alone(line)) in BLOCKS)
    for name, times in placed.items():
        if times > 1:
            message = _("“{{ %(name)s }}” can only be used once.")
            problems.append(message % {"name": name})
    if count_of(inside) > MAX_WORDS:
        message = _("A template can have at most %(most)d placeholders inside sentences.")
        problems.append(message % {"most": MAX_WORDS})
    if has_open_braces(template):
        problems.append(_("Some double braces aren’t closed. Write {{ new }}, for example."))
    return problems[:MAX_PROBLEMS]


def _unknown(template: str) -> Iterator[str]:
    known = BLOCKS | WORDS
    for name in names_in(template):
        if name not in known:
            message = _("“{{ %(name)s }}” isn’t a placeholder. Available: %(names)s.")
            yield message % {"name": shorten(name, 60), "names": ", ".join(known)}


def _inside(sentences: str) -> Iterator[str]:
    for name in names_in(sentences):
        if name in BLOCKS:
            message = _("“{{ %(name)s }}” needs its own line because it’s a list or a paragraph.")
            yield message % {"name": name}


def laid_out(settings: TopicSettings, contents: Contents) -> str:
    """Return the body by the topic's template, in Markdown."""
    blocks = _blocks(contents, settings.report_max_items)
    words = _word_values(settings, contents)
    parts: list[str] = []
    for line in settings.report_template.splitlines():
        name = alone(line)
        if name in BLOCKS:
            # Each block once, however the template came here, so that a body can't become huge.
            added = ["", *_separated(parts, name, blocks.pop(name, "")), ""]
        else:
            # The page shows the title itself, so the body's headings begin at the second level.
            added = [re.sub(r"^# ", "## ", filled(line, words))]
        for part in added:
            if part.strip() or (parts and parts[-1]):
                parts.append(part)
    return "\n".join(parts).strip()


def _separated(before: Sequence[str], name: str, block: str) -> Iterator[str]:
    """Yield a block. The numbers of sources can't continue a numbered list above it.

    A definition of a link that nothing uses ends the list, and isn't shown.
    """
    if name == "sources" and any(map(_NUMBERED.search, before)):
        yield "[//]: #\n"
    yield block


def _blocks(contents: Contents, most: int | None) -> dict[str, str]:
    none = "*" + _("None in this run.") + "*"
    by_number = {source["n"]: source for source in contents.sources}
    blocks = {
        "summary": contents.summary,
        "text": contents.text,
        "checked": contents.checked,
        "sources": source_lines(contents.sources),
    }
    for name, status in _LISTS.items():
        changes = [c for c in contents.changes if c.status == status and not c.hidden_reason]
        blocks[name] = _list(
            [merged_deltas.bullet(change, by_number, with_label=False) for change in changes], most
        )
    return {name: block.strip() or none for name, block in blocks.items()}


def _list(lines: Sequence[str], most: int | None) -> str:
    shown = list(lines[:most])
    if left := len(lines) - len(shown):
        message = ngettext("and %(n)d more", "and %(n)d more", left) % {"n": left}
        shown.append(f"- *{message}*")
    return "\n".join(shown)


def _word_values(settings: TopicSettings, contents: Contents) -> dict[str, str]:
    run = contents.run
    words = {
        "topic": run.topic.title,
        "objective": settings.objective,
        "date": date_format(timezone.localtime(contents.at), "j F Y"),
        "since": contents.since,
        "run_number": str(contents.number),
        "new_count": str(run.new_count),
        "known_count": str(run.known_count),
    }
    return {name: as_words(text) or "–" for name, text in words.items()}
