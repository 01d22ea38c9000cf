"""Reading and changing the Markdown of a report: paragraphs, bullets, sections, citations."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

from memory.texts.text import (
    citation_numbers,
    clean,
    match_key,
    one_line,
    plain,
    shorten,
    width,
    without_citations,
)

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
MOST_SENTENCE = 1000  # characters, as of a fact
LEAST_FACT = 21  # R22; East Asian wide characters count as two


def _heading(line: str) -> str | None:
    match = _HEADING.match(line) or _BOLD_LINE.match(line)
    return one_line(match[1]) if match else None


def _paragraphs(markdown: str) -> list[str]:
    return [block.strip() for block in re.split(r"\n\s*\n", markdown) if block.strip()]


def first_paragraph(markdown: str) -> str:
    """Return the first paragraph of prose in one line, citations kept; never a heading (R25).

    Where a report holds no prose at all it is its first bullet, and empty for an empty report.
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

    Source-list lines and what is shorter than 21 characters are left out.
    """
    found = []
    for line in without_sections(markdown, _LISTS_SOURCES).splitlines():
        match = _BULLET.match(line)
        if match is None or _SOURCE_LINE.match(line):
            continue
        text = plain(match[1])
        if width(without_citations(text)) >= LEAST_FACT and text not in found:
            found.append(text)
    return found


def is_source_line(line: str) -> bool:
    """Whether the line is an entry of a list of sources, not a statement (R21)."""
    return bool(_SOURCE_LINE.match(line))


def as_sentence(text: str) -> str:
    """Return a model's finding as a fact is stored: one line, no list marker, no bold (R21)."""
    return shorten(plain(clean(text)[0]), MOST_SENTENCE)


def without_sections(markdown: str, titles: set[str]) -> str:
    """Return the Markdown without the sections that bear one of `titles` (compared by words)."""
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
    """Return a body without a delta section that a model wrote into it (decision 11)."""
    titles = {heading, "What Changed Since Last Week", "What Changed", "What's New", "Changes"}
    return without_sections(markdown, titles)


def tidy_body(markdown: str, *, title: str, delta_heading: str) -> str:
    """Return what a model wrote as a body: no title, no delta section, no source list."""
    lines = markdown.strip().splitlines()
    if lines and _heading(lines[0]) is not None and lines[0].lstrip().startswith("# "):
        lines = lines[1:]
    body = without_delta("\n".join(lines), delta_heading)
    body = without_sections(body, _LISTS_SOURCES)
    # The page has its own title above: the body's headings begin at the second level.
    return re.sub(r"^# ", "## ", body, flags=re.M)


def spread_citations(markdown: str) -> str:
    """Return the Markdown with `[1, 2]` written as `[1][2]`."""
    return _CITED.sub(
        lambda match: "".join(f"[{n}]" for n in re.findall(r"\d+", match[1])), markdown
    )


def renumbered(markdown: str, numbers: Mapping[int, int]) -> str:
    """Return the Markdown with its `[n]` marks mapped; a mark without a new number goes."""

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
    """Return by what a report's sentence is known: 16 hex of the SHA-256 of its words.

    Citations, markup, case and punctuation make no difference.
    """
    words = match_key(sentence) or one_line(sentence)
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:16]
