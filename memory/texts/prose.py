"""Which lines of a page are running text: paragraphs without code, headings, menus and tables."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

# More of a page than this is not read, however deep a topic's runs read (research.budgets.depth).
LONGEST_TEXT = 120_000

_BLOCKS = re.compile(r"\n(?:[^\S\n]*\n)+")
_FENCED = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_FRONT_MATTER = re.compile(r"\A\s*---[ \t]*\n(?:[\w-]+:.*\n|[ \t-].*\n)+---[ \t]*(?:\n|\Z)")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_ITEM = re.compile(r"\s{0,8}(?:[-*+•·▪►‣–]|\d{1,3}[.)、]|\(\d{1,2}\)|\[\d+\]:?|>)\s+")
_HEADING = re.compile(r"\s*#{1,6}\s")
_UNDERLINE = re.compile(r"\s*([=\-~^\"'`#*+.:_])\1{2,}\s*$")
_NOT_PROSE = re.compile(
    r"""\s*(?:
      \|  | .*\s\|\s.*\s\|  | \+[-=]{3,}       # rows and rules of tables
    | \.\.(?:\s|$)  | :[\w\- ]{1,30}:(?:\s|$)  # directives and fields of reStructuredText
    | \[?!\[  | \[\^?[^\]]{1,60}\]:            # badges, pictures, link targets
    | </?[a-zA-Z!][^>]*>\s*$                   # a line of markup
    | >>>\s | \$\s | %\s | [#>]!               # a terminal
    | @\w+[({\s] | (?:from|import|def|class|const|let|var|func|public|private|return)\s.*[({;:=]\s*$
    )""",
    re.VERBOSE,
)
_LINK = re.compile(r"!?\[[^\]]{0,300}\]\([^)\s]{0,500}[^)]{0,200}\)|https?://\S+")
_ENDS = re.compile(r"[.!?…。！？][\"'”’»」』）)\]*_]*(?:\s*\[\d+\])*$")


def paragraphs(text: str) -> list[str]:
    """Return the running text of a page, one line a paragraph, in its order.

    Each paragraph stands in `one_line(text)` as it is (what a quote needs), without the marker
    of its list.  Only the first `LONGEST_TEXT` characters are read.
    """
    text = text[:LONGEST_TEXT].replace("\r\n", "\n").replace("\r", "\n").expandtabs(4)
    text = _FRONT_MATTER.sub("", text)
    text = _COMMENT.sub("\n\n", _FENCED.sub("\n\n", text))
    found: list[str] = []
    code_may_follow = True
    for block in _BLOCKS.split(text):
        lines = block.strip("\n").split("\n")
        if code_may_follow and _is_indented_code(lines):
            continue
        code_may_follow = not _ITEM.match(lines[0])
        found += [" ".join(group.split()) for group in _groups(lines)]
    return [paragraph for paragraph in found if paragraph]


def _is_indented_code(lines: list[str]) -> bool:
    """Whether a whole block is indented by four, as code is in Markdown and RST."""
    return all(line.startswith("    ") for line in lines if line.strip()) and not _ITEM.match(
        lines[0]
    )


def _groups(lines: list[str]) -> list[str]:
    """Join the lines of one block that belong to one paragraph, and drop what is no prose."""
    longest = max(map(len, lines))
    groups: list[list[str]] = [[]]
    for number, line in enumerate(lines):
        after = lines[number + 1] if number + 1 < len(lines) else ""
        if _drops(line, after):
            groups.append([])
        elif _ITEM.match(line):
            groups.append([_ITEM.sub("", line, count=1)])
        elif groups[-1] and _breaks(groups[-1][-1], line, longest):
            groups.append([line])
        else:
            groups[-1].append(line)
    return [" ".join(group) for group in groups if group and not _is_links(" ".join(group))]


def _drops(line: str, after: str) -> bool:
    if not line.strip() or _HEADING.match(line) or _UNDERLINE.match(line):
        return True
    under = _UNDERLINE.match(after)
    return bool(_NOT_PROSE.match(line)) or (under is not None and not _ENDS.search(line))


def _breaks(before: str, line: str, longest: int) -> bool:
    """Whether `line` begins a paragraph: the line before is a short one without an end."""
    starts = line.lstrip()[:1]
    begins = starts.isupper() or is_wide(starts)
    return begins and len(before) < 0.6 * longest and not _ENDS.search(before.rstrip())


def _is_links(line: str) -> bool:
    """Whether most of a line is made of links: a menu or a list of further reading."""
    line = line[:1_500]
    links = _LINK.findall(line)
    return bool(links) and sum(map(len, links)) > 0.6 * len(line)


def is_wide(char: str) -> bool:
    """Whether a character is East Asian wide (Chinese, Japanese, Korean)."""
    return bool(char) and unicodedata.east_asian_width(char) in "WF"


def close_up(text: str) -> str:
    """Take out the spaces that a line break left between two East Asian wide characters."""
    if " " not in text or text.isascii():
        return text
    words = text.split(" ")
    joined = words[0]
    for before, word in pairwise(words):
        gap = "" if before and word and is_wide(before[-1]) and is_wide(word[0]) else " "
        joined += gap + word
    return joined


def ends_like_a_sentence(text: str) -> bool:
    """Whether the text ends in a full stop or its like, brackets and citations aside."""
    return _ENDS.search(text) is not None
