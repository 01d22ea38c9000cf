"""The delta section as Markdown: each item with its quote, source and date, the old sentence below.

The one form for the report's own text, exports, the command and programs; pages draw the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.providers import sample
from memory.texts.markdown import link
from memory.texts.text import match_key, shorten
from research.deltas.delta import Change, Status

LONGEST_QUOTE = 240  # characters of a quote


def as_markdown(
    changes: Sequence[Change], *, quiet: str, sources: Sequence[Mapping[str, Any]] = ()
) -> str:
    """Return the section: a bullet for each listed change, or the sentence `quiet`.

    `sources` are those of the report, by whose numbers the changes cite.
    """
    by_number = {source["n"]: source for source in sources}
    listed = [change for change in changes if change.is_listed]
    if not listed:
        return quiet
    return "\n".join(_bullet(change, by_number) for change in listed)


def _bullet(change: Change, by_number: Mapping[int, Mapping[str, Any]]) -> str:
    marks = "".join(f"[{number}]" for number in change.citations)
    source = next((by_number[n] for n in change.citations if n in by_number), {})
    now = " ".join(filter(None, [change.sentence, marks, _stands(source, change.quote, change)]))
    line = f"- **{_label(change)}:** {now}"
    if change.status in (Status.CHANGED, Status.CONTRADICTED):
        old = change.previous_source
        before = _("before: %(text)s") % {"text": change.previous_text}
        line += "\n  " + " ".join(
            filter(None, [before, _stands(old, old.get("quote", ""), change)])
        )
    return line


def _label(change: Change) -> str:
    label = str(Status(change.status).label)
    return _("%(status)s, needs review") % {"status": label} if change.unsure else label


def _stands(source: Mapping[str, Any], quote: str, change: Change) -> str:
    """Return where a sentence stands, in brackets: domain, day, and the words if they are others."""
    address, domain = source.get("link", ""), source.get("domain", "")
    is_web = address.startswith(("http://", "https://")) and not sample.is_sample_url(address)
    place = link(domain or address, address) if is_web else domain
    parts = ", ".join(filter(None, [place, source.get("published_at") or ""]))
    told = {match_key(change.sentence), match_key(change.previous_text)}
    words = f"“{shorten(quote, LONGEST_QUOTE)}”" if quote and match_key(quote) not in told else ""
    inner = ": ".join(filter(None, [parts, words]))
    return f"({inner})" if inner else ""


def nothing_asked_for(changes: Sequence[Change]) -> str:
    """Return what stands where a run would list its changes, all of which are withheld."""
    count = sum(bool(change.withheld and change.judged_by) for change in changes)
    return ngettext(
        "Nothing that you asked to be told. %(n)d change is withheld; it is remembered.",
        "Nothing that you asked to be told. %(n)d changes are withheld; they are remembered.",
        count,
    ) % {"n": count}
