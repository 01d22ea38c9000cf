"""The styles of a report: how an extractive one is laid out, and what a model's is framed by.

The delta section is no part of this: it is made from the delta items, and stands above the body.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from research.models import TopicSettings
from research.working import inputs
from research.working.context import RunContext

Style = TopicSettings.Style
IN_SHORT = 5  # lines of an executive summary
_MARKUP = re.compile(r"([\\`*_\[\]<>#|~])")
_HEAD_LINE = re.compile(
    r"\s*>?\s*(?:[-*]\s+|#{1,6}\s+)?\**(?:to|from|date|re|subject|memo|memorandum)\b\**\s*(?::|\**$).*",
    re.IGNORECASE,
)
_TITLE = re.compile(r"\s*>?\s*(?:#{1,6}\s.*|\*\*[^*]+\*\*\s*)")
_BLANK = " \t>-*_="  # a line of these alone says nothing
# Words by which a sentence speaks of what follows: no "may", which is a month as well.
_FOLLOWS = re.compile(
    r"\b(?:means?|meant|meaning|therefore|thus|hence|consequen\w+|result(?:s|ed)? in|leads? to|led to"
    r"|so that|affect\w*|impact\w*|requir\w+|must|should|will|would|could|expect\w*|likely|risks?"
    r"|enabl\w+|forc(?:es|ed|ing)|threat\w+|needs? to|recommend\w*"
    r"|bedeut\w+|deshalb|daher|folglich|muss|müssen|sollte\w*|wird|werden"
    r"|signific\w+|por lo tanto|deber?\w*|signifi\w+|donc|dev(?:ra|ront)\w*)\b"
    r"|意味|因此|必须|必須|预计|預計|影响|影響|导致|導致|ため|べき",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a body is made of; each line is a cited sentence in Markdown, without a marker.

    `fresh` are the findings (in a delta they stand in its own section already), `more` what the
    new sources say besides, `known` the facts that go on standing, `notes` how it was made.
    """

    summary: str
    fresh: Sequence[str]
    more: Sequence[str]
    known: Sequence[str]
    is_baseline: bool
    background: Sequence[str] = ()
    is_in_passing: bool = False
    notes: Sequence[str] = ()


def laid_out(style: str, parts: Parts) -> str:
    """Return the body of an extractive report in this style."""
    blocks = _LAYOUTS[Style(style)](parts)
    return "\n\n".join(block for block in blocks if block)


def framed(work: RunContext, body: str, notes: Sequence[str] = ()) -> str:
    """Return a body with what stands around it: a memo's head, and notes on how it was made."""
    style = Style(work.settings.report_style)
    if style == Style.MEMO:
        body = f"{_memo_head(work)}\n\n{body}"
    marker = "- " if style == Style.BULLETS else ""
    # Bullets stay one list to their end; notes of the others are a paragraph each.
    told = [f"{marker}*{note}*" for note in [*notes, *_time_frame(work)]]
    if style == Style.BULLETS and told:
        told = ["## " + _("About this report"), "\n".join(told)]
    return "\n\n".join([body, *told])


def without_memo_head(body: str) -> str:
    """Return a model's memo without the head that it wrote although it was asked not to.

    Titles above the head go with it; a heading that no head follows is the memo's own.
    """
    lines = body.lstrip().splitlines()
    begins = 0
    for place, line in enumerate(lines):
        if _HEAD_LINE.fullmatch(line):
            begins = place + 1
        elif line.strip(_BLANK) and not _TITLE.fullmatch(line):
            break
    while begins < len(lines) and not lines[begins].strip(_BLANK):
        begins += 1
    return "\n".join(lines[begins:])


def _memo_head(work: RunContext) -> str:
    lines = {
        _("To"): str(work.topic.owner),
        _("From"): _("Beacon"),
        _("Date"): date_format(timezone.localdate(), "j F Y"),
        _("Re"): work.topic.title,
    }
    return "\\\n".join(f"> **{name}:** {_escaped(value)}" for name, value in lines.items())


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\1", text)


def _time_frame(work: RunContext) -> list[str]:
    """Return the sentence that says how far back the run looked, where the topic says so."""
    since = inputs.since(work.settings)
    if since is None:
        return []
    told = {
        "frame": work.settings.get_time_frame_display(),
        "date": date_format(since, "j F Y"),
    }
    text = _("From %(frame)s: sources known to be older than %(date)s were left out.")
    return [text % told]


# --- the layouts ----------------------------------------------------------------------------------


def _standard(parts: Parts) -> list[str]:
    findings = _section(_found(parts), parts.fresh) if parts.is_baseline else []
    return [parts.summary, *findings, *_more(parts.more), *_background(parts), *_known(parts)]


def _executive(parts: Parts) -> list[str]:
    """Return five lines to decide by, then the rest: best first, as the findings stand."""
    lines = [*parts.fresh, *parts.more]
    lead, bullets = lines[:1] or [parts.summary], lines[1:IN_SHORT]
    rest = [line for line in parts.fresh if line not in lines[:IN_SHORT]]
    more = [line for line in parts.more if line not in lines[:IN_SHORT]]
    findings = _section(_found(parts), [*rest, *more]) if parts.is_baseline else _more(more)
    shown = [*findings, *_background(parts), *_known(parts)]
    return ["## " + _("In short"), *lead, _list(bullets), *shown]


def _bullets(parts: Parts) -> list[str]:
    """Return bullets alone, in groups; where there is nothing, the sentence that says so."""
    findings = _section(_found(parts), parts.fresh) if parts.is_baseline else []
    if not (parts.fresh or parts.more):
        findings = [_list([parts.summary])]
    return [*findings, *_more(parts.more), *_background(parts), *_known(parts)]


def _memo(parts: Parts) -> list[str]:
    """Return the point, what happened, and what it means as far as the sources say so.

    Without a model that is every sentence that speaks of consequences, and none is made up.
    """
    means = [line for line in [*parts.fresh, *parts.more] if _FOLLOWS.search(line)]
    more = [line for line in parts.more if line not in means]
    if parts.is_baseline:
        found = [line for line in parts.fresh if line not in means]
        blocks = [parts.summary, *_section(_("What was found"), found)]
    else:
        # The changes stand above one by one, in the section that bears their name.
        blocks = ["## " + _("What happened"), parts.summary]
    if parts.fresh or parts.more:
        nothing = _("The sources say nothing of what follows from it.")
        heading = "## " + _("What it means, as far as the sources say")
        blocks += [heading, _list(means) or nothing]
    return [*blocks, *_more(more), *_background(parts), *_known(parts)]


_LAYOUTS: dict[Style, Callable[[Parts], list[str]]] = {
    Style.STANDARD: _standard,
    Style.EXECUTIVE: _executive,
    Style.BULLETS: _bullets,
    Style.MEMO: _memo,
}


def _found(parts: Parts) -> str:
    """Return the heading of the findings; an honest one if no page is about the topic."""
    if parts.is_in_passing:
        return _("The pages mention it only in passing")
    return _("Findings")


def _background(parts: Parts) -> list[str]:
    return _section(_("Background that earlier runs hadn’t found"), parts.background)


def _more(lines: Sequence[str]) -> list[str]:
    return _section(_("More from the new sources"), lines)


def _known(parts: Parts) -> list[str]:
    return _section(_("Known before"), parts.known)


def _section(heading: str, lines: Sequence[str]) -> list[str]:
    return [f"## {heading}", _list(lines)] if lines else []


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
