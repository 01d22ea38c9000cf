"""The Markdown of a report: parse it, tidy what a model wrote, and lay it out by style."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from beacon_site.text.cleaning import (
    citation_numbers,
    clean,
    match_key,
    one_line,
    plain,
    shorten,
    width,
    without_citations,
)
from research.models import TopicSettings
from research.services.runs.context import inputs
from research.services.runs.context.run_context import RunContext

_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$")
_UNDERLINE = re.compile(r"^\s{0,3}(?:=+|-{2,})\s*$")
_BULLET = re.compile(r"^\s*(?:[-*+•·]|\d{1,3}[.)])\s+(.*)$")
_BOLD_LINE = re.compile(r"^\s*(?:\*\*|__)(.+?)(?:\*\*|__):?\s*$")
_CITED = re.compile(r"\[(\d{1,3}(?:\s*[,;]\s*\d{1,3})*)\](?!\()")
_SOURCE_LINE = re.compile(
    r"^\s*(?:[-*+]|\d+[.)])?\s*(?:\[\d+\]:?\s*)?"
    r"(?:<?https?://|\[[^\]]*\]\(https?://\S+\)\s*(?:[,·|(–—-].*)?$)",
    re.I,
)
_LISTS_SOURCES = {
    "sources",
    "references",
    "citations",
    "bibliography",
    "参考资料",
    "来源",
    "quellen",
}
MAX_SENTENCE = 1000  # characters, as of a fact
MIN_FACT = 21  # R22; East Asian wide characters count as two


def _heading(line: str) -> str | None:
    match = _HEADING.match(line) or _BOLD_LINE.match(line)
    return one_line(match[1]) if match else None


def _paragraphs(markdown: str) -> list[str]:
    return [block.strip() for block in re.split(r"\n\s*\n", markdown) if block.strip()]


def first_paragraph(markdown: str) -> str:
    """Return the first paragraph of prose in one line with its citations, never a heading (R25).

    If a report has no prose, return its first bullet. Empty for an empty report.
    """
    for block in _paragraphs(markdown):
        lines = [line for line in block.splitlines() if _heading(line) is None]
        if len(lines) > 1 and _UNDERLINE.match(lines[1]):
            lines = lines[2:]
        prose = [line for line in lines if not _is_markup(line)]
        if prose:
            return one_line(" ".join(prose))
    return next(iter(bullets(markdown)), "")


def _is_markup(line: str) -> bool:
    bare = line.strip()
    return not bare or bool(_BULLET.match(line)) or bare[0] in "|>" or set(bare) <= set("-*_=` ")


def bullets(markdown: str) -> list[str]:
    """Return the bullet findings as plain sentences with their citations (R18, R21, R22).

    Lines of a source list, and bullets shorter than 21 characters, are left out.
    """
    results = []
    for line in without_sections(markdown, _LISTS_SOURCES).splitlines():
        match = _BULLET.match(line)
        if match is None or _SOURCE_LINE.match(line):
            continue
        text = plain(match[1])
        if width(without_citations(text)) >= MIN_FACT and text not in results:
            results.append(text)
    return results


def is_source_line(line: str) -> bool:
    """Return True if the line is an entry in a source list, not a statement (R21)."""
    return bool(_SOURCE_LINE.match(line))


def as_sentence(text: str) -> str:
    """Return a model's finding as a fact is stored: one line, no list marker, no bold (R21)."""
    return shorten(plain(clean(text)[0]), MAX_SENTENCE)


def without_sections(markdown: str, titles: set[str]) -> str:
    """Return the Markdown without the sections titled like one of `titles` (compared by words)."""
    unwanted = {match_key(title) for title in titles}
    kept: list[str] = []
    dropping = False
    for line in markdown.splitlines():
        heading = _heading(line)
        if heading is not None:
            dropping = match_key(heading.rstrip(":")) in unwanted
        if not dropping:
            kept.append(line)
    return "\n".join(kept).strip()


def without_delta(markdown: str, heading: str) -> str:
    """Return a body without a delta section that a model wrote into it."""
    titles = {heading, "What Changed Since Last Week", "What Changed", "What's New", "Changes"}
    return without_sections(markdown, titles)


def tidy_body(markdown: str, *, delta_heading: str) -> str:
    """Return a model's text as a body: no title, no delta section, no source list."""
    lines = markdown.strip().splitlines()
    if lines and _heading(lines[0]) is not None and lines[0].lstrip().startswith("# "):
        lines = lines[1:]
    body = without_delta("\n".join(lines), delta_heading)
    body = without_sections(body, _LISTS_SOURCES)
    # The page shows the title itself, so the body's headings begin at the second level.
    return re.sub(r"^# ", "## ", body, flags=re.M)


def spread_citations(markdown: str) -> str:
    """Return the Markdown with `[1, 2]` written as `[1][2]`."""
    return _CITED.sub(
        lambda match: "".join(f"[{n}]" for n in re.findall(r"\d+", match[1])), markdown
    )


def renumbered(markdown: str, numbers: Mapping[int, int]) -> str:
    """Return the Markdown with its `[n]` marks renumbered. Marks without a new number are removed."""

    def mapped(match: re.Match[str]) -> str:
        new = numbers.get(int(match[2]))
        return f"{match[1]}[{new}]" if new is not None else ""

    text = re.sub(r"([ \t]*)\[(\d{1,3})\](?!\()", mapped, spread_citations(markdown))
    return re.sub(r"[ \t]+([.,;])(?=\s|$)", r"\1", text)


def cited(texts: Sequence[str]) -> list[int]:
    """Return the citation numbers of several texts in order of appearance, each once."""
    numbers = [n for text in texts for n in citation_numbers(spread_citations(text))]
    return list(dict.fromkeys(numbers))


def sentence_key(sentence: str) -> str:
    """Return the key of a report's sentence: the first 16 hex digits of the SHA-256 of its words.

    Citations, markup, case and punctuation make no difference.
    """
    words = match_key(sentence) or one_line(sentence)
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:16]


# --- styles ---

Style = TopicSettings.Style
IN_SHORT = 5  # lines of an executive summary
_MARKUP = re.compile(r"([\\`*_\[\]<>#|~])")
_NOTE = re.compile(r"(?:- )?\*(?!\*).+(?<!\*)\*")
_HEAD_LINE = re.compile(
    r"\s*>?\s*(?:[-*]\s+|#{1,6}\s+)?\**(?:to|from|date|re|subject|memo|memorandum)\b\**\s*(?::|\**$).*",
    re.IGNORECASE,
)
_TITLE = re.compile(r"\s*>?\s*(?:#{1,6}\s.*|\*\*[^*]+\*\*\s*)")
_BLANK = " \t>-*_="  # a line that contains only these says nothing
# Words that mark consequences. Not "may", which is also a month.
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
    """The parts of a body. Each line is a cited sentence in Markdown, without a list marker.

    `fresh` are the findings (if there is a delta, its section already lists them), `more` is what
    else the new sources say, `known` the facts still valid, `notes` how the report was written.
    """

    summary: str
    fresh: Sequence[str]
    more: Sequence[str]
    known: Sequence[str]
    is_baseline: bool
    background: Sequence[str] = ()
    is_in_passing: bool = False
    notes: Sequence[str] = ()


def body_in_style(style: str, parts: Parts) -> str:
    """Return the body of an extractive report in this style."""
    blocks = _LAYOUTS[Style(style)](parts)
    return "\n\n".join(block for block in blocks if block)


def framed(context: RunContext, body: str, notes: Sequence[str] = ()) -> str:
    """Return a body with its frame: a memo's head, and notes on how the report was written."""
    style = Style(context.settings.report_style)
    if style == Style.MEMO:
        body = f"{_memo_head(context)}\n\n{body}"
    marker = "- " if style == Style.BULLETS else ""
    # In the bullets style, notes are list items. In the others, each is a paragraph.
    parts = [f"{marker}*{note}*" for note in [*notes, *_time_frame(context)]]
    if style == Style.BULLETS and parts:
        parts = ["## " + _("About this report"), "\n".join(parts)]
    return "\n\n".join([body, *parts])


def without_notes(body: str) -> str:
    """Return a body without the notes of its frame, which are about the run, not about its topic."""
    return "\n".join(line for line in body.splitlines() if not _NOTE.fullmatch(line))


def without_memo_head(body: str) -> str:
    """Return a model's memo without the head that it wrote against instructions.

    Titles above the head are removed too. A heading without a head after it is kept.
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


def _memo_head(context: RunContext) -> str:
    lines = {
        _("To"): str(context.topic.owner),
        _("From"): _("Beacon"),
        _("Date"): date_format(timezone.localdate(), "j F Y"),
        _("Re"): context.topic.title,
    }
    return "\\\n".join(f"> **{name}:** {_escaped(value)}" for name, value in lines.items())


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\1", text)


def _time_frame(context: RunContext) -> list[str]:
    """Return the sentence about the time frame, if the topic has one."""
    since = inputs.since(context.settings)
    if since is None:
        return []
    params = {
        "frame": context.settings.get_time_frame_display(),
        "date": date_format(since, "j F Y"),
    }
    text = _("Covers %(frame)s, excluding sources dated before %(date)s.")
    return [text % params]


# --- layouts ---


def _standard(parts: Parts) -> list[str]:
    findings = _section(_findings_heading(parts), parts.fresh) if parts.is_baseline else []
    return [
        parts.summary,
        *findings,
        *_more(parts.more),
        *_background(parts),
        *_known_section(parts),
    ]


def _executive(parts: Parts) -> list[str]:
    """Return 5 lines for a decision, then the rest, best findings first."""
    lines = [*parts.fresh, *parts.more]
    lead, bullets = lines[:1] or [parts.summary], lines[1:IN_SHORT]
    rest = [line for line in parts.fresh if line not in lines[:IN_SHORT]]
    more = [line for line in parts.more if line not in lines[:IN_SHORT]]
    findings = (
        _section(_findings_heading(parts), [*rest, *more]) if parts.is_baseline else _more(more)
    )
    shown = [*findings, *_background(parts), *_known_section(parts)]
    return ["## " + _("In short"), *lead, _list(bullets), *shown]


def _bullets(parts: Parts) -> list[str]:
    """Return grouped bullets, or the sentence that says there is nothing new."""
    findings = _section(_findings_heading(parts), parts.fresh) if parts.is_baseline else []
    if not (parts.fresh or parts.more):
        findings = [_list([parts.summary])]
    return [*findings, *_more(parts.more), *_background(parts), *_known_section(parts)]


def _memo(parts: Parts) -> list[str]:
    """Return the main point, what happened, and what it means according to the sources.

    Without a model, the last part quotes sentences that mention consequences. Beacon never invents
    any.
    """
    means = [line for line in [*parts.fresh, *parts.more] if _FOLLOWS.search(line)]
    more = [line for line in parts.more if line not in means]
    if parts.is_baseline:
        found = [line for line in parts.fresh if line not in means]
        blocks = [parts.summary, *_section(_("Findings"), found)]
    else:
        # The section above already lists each change.
        blocks = ["## " + _("What happened"), parts.summary]
    if parts.fresh or parts.more:
        nothing = _("The sources don’t say what this means.")
        heading = "## " + _("What it means, according to the sources")
        blocks += [heading, _list(means) or nothing]
    return [*blocks, *_more(more), *_background(parts), *_known_section(parts)]


_LAYOUTS: dict[Style, Callable[[Parts], list[str]]] = {
    Style.STANDARD: _standard,
    Style.EXECUTIVE: _executive,
    Style.BULLETS: _bullets,
    Style.MEMO: _memo,
}


def _findings_heading(parts: Parts) -> str:
    """Return the heading of the findings.  If no page is about the topic, it says so."""
    if parts.is_in_passing:
        return _("Only mentioned in passing")
    return _("Findings")


def _background(parts: Parts) -> list[str]:
    return _section(_("New background information"), parts.background)


def _more(lines: Sequence[str]) -> list[str]:
    return _section(_("More from the new sources"), lines)


def _known_section(parts: Parts) -> list[str]:
    return _section(_("Already known"), parts.known)


def _section(heading: str, lines: Sequence[str]) -> list[str]:
    return [f"## {heading}", _list(lines)] if lines else []


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
