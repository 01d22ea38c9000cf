"""The statements of a page, each under its headings: table rows, pairs, list items, sentences.

Reads Markdown, reStructuredText, AsciiDoc, LaTeX, data files, and the text that Beacon extracts from
HTML.
It makes one pass over the lines, so the cost is linear in the length of the page. Pure functions.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

import structlog

from beacon_site.text import line_formats, tables, values
from beacon_site.text.cleaning import (
    match_key,
    one_line,
    plain,
    put_back_code,
    take_out_code,
    without_references,
    without_rst,
)
from beacon_site.text.sentences import language_of, split, word_count
from research.claims import latex, restructured_text, structured

MAX_ENTRIES = 20_000  # per page; enough for a table of 10,000 rows
MAX_ADDED_CELLS = 30_000  # per page, for cells that span several columns or rows
MAX_QUOTE_LENGTH = 1_500
CELL = r"(?:\\.|[^|\\])*\|"  # of a Markdown table, with the bar after it
MAX_CELL_LENGTH = 400
MAX_SIGN_LENGTH = 8  # characters of a cell such as ✅
MAX_KEY_WORDS = 8
FEW_DATA = 1_500  # characters of front matter that only describes its page
GROUPED = 0.7  # share of different names in a column from which it doesn't name groups
FEW_LETTERS = 3  # with which a cell with a number is still a name: "eu-west-1"
MAX_GROUPS = 6  # columns, of which two can name groups
FEW_BARE = 3  # headings beside each other with nothing below them that are a list
MAX_LINK_WORDS = 3  # of each of several links in a line
STATED = 4  # with this many words, a heading is a statement by itself

# What a mistake in reading raises. A task that is out of time raises something else.
MISTAKES = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError,
)  # fmt: skip

logger = structlog.get_logger(__name__)

ROW, PAIR, ITEM, SENTENCE, PARAGRAPH = "row", "pair", "item", "sentence", "paragraph"

LONG_VALUE = 20  # words of a value in YAML that is read as prose
_FENCE = re.compile(r"[ \t]{0,8}(```|~~~)")
_QUOTED = re.compile(r"^[ \t]{0,3}>[ \t]?(?=\|.*\|)")  # the mark before a quoted table row
_COMMENT = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style)\b[^<>]{0,2000}>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE
)
_ATX = re.compile(r"[ \t]{0,3}(#{1,6})[ \t]+(.+?)[ \t]*#*[ \t]*$")
# The beginning of a box, with its title: `::: warning Deprecated options`.
_BOX = re.compile(r"[ \t]*:{3,}[ \t]*\{?\.?[a-z-]{1,20}\}?(?:[ \t]+(\S.{0,200}))?$")
_UNDERLINE = re.compile(r"[ \t]*([=\-~^\"'`#*+.:_])\1{2,}[ \t]*$")
_LEGAL = re.compile(
    r"(?:§§?\s?\d+\w{0,2}|Art(?:ikel|icle|ículo|\.)?\s(?:[ADLR]\.?\s?)?\d+\w{0,2}|Section\s\d+|Chapter\s\d+|第[\d一二三四五六七八九十百]+[条章節节])"
    r"(?:[\s.:(—–-].{0,160})?$"
)
# `** item` is a nested item of AsciiDoc, whose level is the number of marks.
_ITEM = re.compile(
    r"([ \t]*\*{0,4}(?=[^*]|\*[ \t]))(?:[-*+•·▪►‣–]|\d{1,3}[.)]|\(\d{1,2}\))[ \t]+(\S.*)$"
)
_CHECKBOX = re.compile(r"\[([ xX])\][ \t]+")
_ALERT = re.compile(r"^[>\s]*\[!(?:NOTE|TIP|IMPORTANT|WARNING|CAUTION)\][>\s]*")
_ASCIIDOC_TITLE = re.compile(r"\s*(?://[^\n]*\n\s*)*=[ \t]+\S")
# Attributes, comments, included files, pictures and titles of pictures.
_ASCIIDOC_SETTING = re.compile(
    r":!?[\w-]{1,60}!?:(?:\s|$)|//(?!/)|[a-z]{2,20}::\S{0,300}\[|\.(?=[^\W\d])"
)
_ASCIIDOC_EDGE = re.compile(r"[ \t]*\|={3,}[ \t]*$")
# `|`, or with what a cell spans and how it is set: `2.3+|`, `a|`.
_ASCIIDOC_CELL = re.compile(r"(?:(?<!\S)(?:(\d{1,2})?(?:\.(\d{1,2}))?[+*])?[<^>]?[a-z]?|(?<!\\))\|")
_DELIMITER = re.compile(r"[\s|:+=-]*[-=][\s|:+=-]*$")
_SIMPLE_RULE = re.compile(r"[ \t]*={2,}(?:[ \t]+={2,})+[ \t]*$")
_GRID_RULE = re.compile(r"[ \t]*\+(?:[-=]+\+)+[ \t]*$")
# What an MDX page takes from its site's code, and gives to it.
_MODULE = re.compile(r"(?:import\s[^'\"]{1,300}\sfrom\s+['\"]|export\s+(?:const|default)\s)")
_EMOJI = re.compile(r"(?:^|(?<=\s)):[a-z][a-z\d_+-]{1,40}:(?:\s+|$)")  # `:rocket: Features`
_FIELD = re.compile(r"[ \t]*:([\w][\w \-]{0,40}):[ \t]+(\S.*)$")
_DIRECTIVE = re.compile(
    r"[ \t]*\.\.(?:\s|$)|\[?!\[|\[(?:cols|options|%|\[)[^\]]*\]{1,2}\s*$|[ \t]*\[\^?[^\]]{1,60}\]:\s|[ \t]*</?[a-zA-Z!][^>]*>\s*$"
)
_PAIR = re.compile(r"(\*\*|__)?([^:：|*_<>\n]{1,80}?)\1?[ \t]*[:：](?!//)(?:\*\*|__)?[ \t]+(\S.*)$")
_DASHED = re.compile(r"(.{1,90}?)\s+[-–—]{1,2}\s+(\S.*)$")
_LEAD = re.compile(
    r"(?:\[([^\]]{1,90})\](?:\([^)\s]{0,400}[^)]{0,100}\)|\[[^\]]{0,60}\])?|(\*\*|__|`)([^*_`]{1,90})\2)"
)
_VERSION_LEAD = re.compile(r"v?\d+(?:\.\d+)+[\w.+-]*(?:\s*\((?:[^)]{1,30})\))?")
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,2000}>")
# Names between angle brackets that aren't tags: "git checkout <branch>", "online@<INTERFACE>.service",
# "List<String>".
_NAMED = re.compile(
    r"<([a-z][\w.-]*|[A-Z][A-Z\d_.-]+)(?: [\w.-]+){0,3}(?:\.{3}|…)?>|(?<=\w)<([A-Z]\w*)>"
)
_HTML_NAMES = frozenset(
    "a abbr acronym address area article aside audio b base basefont bdi bdo big blockquote body br button"
    " canvas caption center cite code col colgroup data datalist dd del details dfn dialog dir div dl dt em"
    " embed fieldset figcaption figure font footer form frame frameset g h1 h2 h3 h4 h5 h6 head header hgroup"
    " hr html i iframe img input ins kbd label legend li link main map mark math menu meta meter nav noframes"
    " noscript object ol optgroup option output p param picture pre progress q rp rt ruby s samp script"
    " search section select slot small source span strike strong style sub summary sup svg table tbody td"
    " template textarea tfoot th thead time title tr track tt u ul var video wbr".split()
)
_IMAGES = re.compile(
    r"(?:\s*\[?!\[[^\[\]]{0,300}\]\([^()]{0,500}\)(?:\{[^{}]{0,200}\})?(?:\](?:\([^()]{0,500}\)|\[[^\[\]]{0,100}\]))?)+\s*"
)
# Components of MDX before or after a text, such as a call to sign up.
_COMPONENTS = re.compile(
    r"\A(?:\s*<[A-Z]\w*(?:\s[^<>]{0,2000})?/>)+\s*|\s*(?:<[A-Z]\w*(?:\s[^<>]{0,2000})?/>\s*)+\Z"
)
_INLINE_TAG = re.compile(
    r"</?(?:a|abbr|b|cite|code|em|font|i|ins|kbd|mark|s|small|span|strong|sub|sup|u)(?:\s[^<>]{0,2000})?>",
    re.IGNORECASE,
)
# A sentence in such a tag is only text in large letters.
_HTML_HEADING = re.compile(
    r"[ \t]*<h([1-6])\b[^<>]{0,500}>((?:<[^<>]{1,300}>|[^<>\n]){0,200}?[^<>\s.!?。！？])"
    r"(?:</?[a-z][^<>]{0,300}>|\s)*</h\1>[ \t]*$",
    re.IGNORECASE,
)
_IMAGE = re.compile(r"!\[([^\]]{0,300})\](?:\([^)]{0,500}\)|\[[^\]]{0,60}\])?")
# Inline macros of AsciiDoc: xref:page.adoc#part[the words], https://example.org[the words^].
_MACRO = re.compile(
    r"(?<![\w/])(?:(?:xref|link|mailto):|(?=https?://)|(?P<term>glossterm:)(?=[^\[\]\n]{1,200}\[))"
    r"(?P<target>(?(term)[^\[\]\n]|[^\s\[\]]){1,200})\[(?P<text>(?!\d+\])[^\[\]\n]{0,200})\](?!\()"
)
_CROSS_REFERENCE = re.compile(r"<<[^<>,]{1,200}(?:,([^<>]{1,200}))?>>")  # of AsciiDoc
_REFERENCE = re.compile(r"\[([^\[\]]{1,300})\]\[[^\[\]]{0,80}\]")
_FOOTNOTE = re.compile(r"(?<=\S)\[\^[^\[\]\s]{1,60}\](?!:)")
# Comments of MDX, ids of headings, and attributes: `{/* #moodle-50 */}`, `{#moodle-50}`,
# `{: #moodle-50 }`, `{ref="rules"}`.
_STRUCK = re.compile(r"(?<!~)~~(?=[^\s~])(?:[^~\n]|\n(?!\s*\n)){1,400}?(?<=\S)~~(?!~)")
_ATTRIBUTES = re.compile(
    r"\{/\*.{0,200}?\*/\}|\{:?[ ]?#[\w-]{1,100}[ ]?\}|\{(?:[\w-]{1,40}=\"[^\"]{0,200}\"\s*)+\}"
)
_FRONT_MATTER = re.compile(r"\A\s*(---|\+\+\+)[ \t]*\n(.{0,200000}?)\n\1[ \t]*(?:\n|\Z)", re.DOTALL)
# `== Title ==` of MediaWiki, `== Title` of AsciiDoc and Typst.
_WIKI_HEADING = re.compile(r"(={1,6})(?:\s*([^=].*?)\s*\1|[ \t]+([^=\s].{0,200}))\s*$")
_WIKI_STYLE = re.compile(r"^[\w-]+\s*=\s*\"[^\"]*\"(?:\s+[\w-]+\s*=\s*\"[^\"]*\")*\s*$")
_WIKI_LINK = re.compile(r"\[\[(?:[^\[\]|]{0,200}\|)?([^\[\]|]{1,200})\]\]")
_HEADER_BLOCK = re.compile(r"[A-Z][\w-]{1,30}:(?:\s|$)")
_DIGIT = re.compile(r"\d")
_NONE = re.compile(r"[-–—]*|n/?a", re.IGNORECASE)


@dataclass(frozen=True)
class Entry:
    """One statement of a page.

    `subject` names what it is about ("26.x", or "" for a sentence), `fields` are its attributes in
    plain words, `quote` is its line as found in `one_line(page)`, and `headings` is the path above
    it.
    """

    kind: str
    headings: tuple[str, ...]
    subject: str
    fields: tuple[tuple[str, str], ...]
    quote: str
    order: int = 0
    group: int = 0  # shared by the entries of one table, list or paragraph
    part: int = 0  # the position of a sentence in its paragraph
    is_step: bool = field(default=False, compare=False)  # an item of a numbered list

    @cached_property
    def path(self) -> tuple[str, ...]:
        """The headings in normalized form, for comparing."""
        return tuple(map(match_key, self.headings))

    @cached_property
    def key(self) -> str:
        """The subject in normalized form, for comparing."""
        return match_key(self.subject)

    @cached_property
    def text(self) -> str:
        """The statement in plain words, without its headings."""
        said = [f"{name}: {value}" if name else value for name, value in self.fields if value]
        return ": ".join(filter(None, [self.subject, "; ".join(said)]))

    @cached_property
    def words(self) -> int:
        return word_count(self.text)

    @cached_property
    def match(self) -> str:
        """The whole statement in normalized form, for comparing. A paragraph has its markup."""
        return match_key(without_struck(self.text))

    @cached_property
    def signs(self) -> tuple[tuple[str, str], ...]:
        """The fields with signs that `match` leaves out: only a sign, such as ✅ or +, or -5 or 20 €."""
        return tuple(
            (name, sign)
            for name, value in (("", self.subject), *self.fields)
            for sign in (
                (value,)
                if len(value) <= MAX_SIGN_LENGTH and values.is_sign(value)
                else values.marks(value)
            )
        )


@dataclass
class _Reader:
    """What has been read of a page so far."""

    language: str
    keeps_paragraphs: bool = False
    # The columns or fields that name the rows below a head, or the records below keys.
    naming: structured.Naming = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    levels: list[tuple[int, str]] = field(default_factory=list)
    items: list[tuple[int, str]] = field(default_factory=list)
    lead: str = ""  # a short line with a colon, which names the list below it
    is_step: bool = False
    underlines: list[str] = field(default_factory=list)
    group: int = 0
    added_cells: int = 0
    filled: int = 0  # the number of entries when the last heading was read, and that heading
    heading: str = ""
    # Headings with nothing below them, by their level and the headings above.
    bare: dict[tuple[int | str, ...], list[tuple[str, str]]] = field(default_factory=dict)

    @property
    def headings(self) -> tuple[str, ...]:
        return tuple(text for _level, text in self.levels)

    def head(self, level: int, text: str) -> None:
        message = one_line(text)
        if self.levels and self.levels[-1][0] >= level:
            self.close()
        while self.levels and self.levels[-1][0] >= level:
            self.levels.pop()
        text = plain_text(text)[:200]
        self.heading, self.filled = message, len(self.entries)
        if text:
            self.levels.append((level, text))
        self.items.clear()
        self.lead = ""
        self.group += 1

    def close(self) -> None:
        """Turn a heading with nothing below it into an item. Some changelogs consist of headings.

        Shorter headings are a list, such as one of sponsors, if several follow each other.
        """
        if self.heading and self.filled == len(self.entries) and self.levels:
            _level, text = self.levels[-1]
            if len(self.levels) > 1 and len(text.split()) >= STATED:
                self.levels.pop()
                self.add(ITEM, text, (), self.heading)
            else:
                self._note_bare(text)
        self.heading = ""

    def _note_bare(self, text: str) -> None:
        beside = self.bare.setdefault((len(self.levels), *self.headings[:-1]), [])
        beside.append((text, self.heading))
        if len(beside) < FEW_BARE:
            return
        self.levels.pop()
        for name, quote in beside if len(beside) == FEW_BARE else beside[-1:]:
            self.add(ITEM, name, (), quote)

    def add(
        self,
        kind: str,
        subject: str,
        fields: Sequence[tuple[str, str]],
        quote: str,
        under: Sequence[str] = (),
    ) -> None:
        if len(self.entries) >= MAX_ENTRIES:
            return
        kept = tuple((name, value[:MAX_CELL_LENGTH]) for name, value in fields)
        if not subject and not any(value for _name, value in kept):
            return
        headings = (*self.headings, *under)
        quote = one_line(quote)[:MAX_QUOTE_LENGTH]
        place = len(self.entries)
        self.entries.append(
            Entry(kind, headings, subject, kept, quote, place, self.group, is_step=self.is_step)
        )


def parse(
    text: str,
    language: str = "",
    *,
    keep_paragraphs: bool = False,
    naming: structured.Naming | None = None,
) -> list[Entry]:
    """Return the statements of a page in order, without code and comments.

    `language` is a two-letter code for splitting sentences. Without it, the language is guessed.
    With `keep_paragraphs`, prose isn't split, which would take most of the time. See
    `sentences_of`. `naming` keeps which columns and fields name the rows and records, for the next
    version of the page.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    reader = _Reader(
        language[:2].lower() or language_of(text[:6_000]),
        keep_paragraphs,
        {} if naming is None else naming,
    )
    if _read_data(reader, text):
        return reader.entries
    text = text.expandtabs(4)  # below, because tabs separate the cells of data
    front = _FRONT_MATTER.match(text)
    body = text[front.end() :] if front else text
    # The front matter can be most of a page of prose.
    if line_formats.is_yaml(text) and (not body.strip() or line_formats.is_yaml(body)):
        _read_front_matter(reader, text)
        return reader.entries
    if line_formats.is_latex(text):
        text = latex.as_markdown(text)
        front = _FRONT_MATTER.match(text)
    if front:
        _read_front_matter(reader, front.group(2))
        text = text[front.end() :]
    text = tables.with_pipes(_COMMENT.sub("\n", text))
    lines = [_QUOTED.sub("", line) for line in text.split("\n")]
    if _ASCIIDOC_TITLE.match(text):
        lines = [line for line in lines if not _ASCIIDOC_SETTING.match(line)]
    _read_lines(reader, restructured_text.without_comments(lines))
    reader.close()
    return reader.entries


def parse_versions(
    versions: Sequence[str], language: str, domain: str, *, keep_paragraphs: bool = False
) -> list[list[Entry]]:
    """Return the statements of each version of a page.

    Rows and records are named by the same columns and fields in all of them. If one of them can't
    be parsed, all are read as prose. A run mustn't fail because of one page.
    """
    naming: structured.Naming = {}
    try:
        return [
            parse(text, language, keep_paragraphs=keep_paragraphs, naming=naming)
            for text in versions
        ]
    except MISTAKES:
        logger.exception("page not parsed", domain=domain)
        return [_prose(text, language, keep_paragraphs) for text in versions]


def _prose(text: str, language: str, keep_paragraphs: bool) -> list[Entry]:
    reader = _Reader(language[:2].lower(), keep_paragraphs)
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.strip():
            block.append(line.strip())
        elif block:
            reader.group += 1
            _add_sentences(reader, " ".join(block))
            block = []
    return reader.entries


def code_of(text: str) -> list[Entry]:
    """Return the lines of code blocks in order, each as a value without a name."""
    reader, lines, place = _Reader(""), text.split("\n"), 0
    results: list[Entry] = []
    while place < len(lines) and len(results) < MAX_ENTRIES:
        if fence := _FENCE.match(lines[place]):
            begins, place = place + 1, _behind_fence(lines, place, fence.group(1))
            for number, line in enumerate(lines[begins : place - 1], begins):
                if message := one_line(line)[:MAX_CELL_LENGTH]:
                    order = MAX_ENTRIES + number  # after the statements of the page
                    results.append(
                        Entry(PAIR, reader.headings, "", (("", message),), message, order)
                    )
        else:
            place = _read_heading(reader, lines, place) or place + 1
    return results


def without_front_matter(text: str) -> str:
    """Return the text below the front matter, or all of it if the front matter has most of the data."""
    front = _FRONT_MATTER.match(text)
    return text[front.end() :] if front and front.end() < max(FEW_DATA, len(text) / 2) else text


def plain_text(text: str) -> str:
    """Return a cell, heading or item without markup, link targets and entities."""
    text, code = take_out_code(without_rst(text))
    return put_back_code(_without_markup(text), code)


def cells_of(quote: str) -> list[str]:
    """Return the cells of a quote if it is a row of a Markdown table, otherwise []."""
    quote = quote.strip()
    if len(quote) < 3 or not (quote.startswith("|") and quote.endswith("|")):
        return []
    cells = [one[:-1].strip().replace("\\|", "|") for one in re.findall(CELL, quote[1:])]
    return cells if len(cells) > 1 else []


def plain_quote(quote: str) -> str:
    """Return the quote as a line of text, without markup and the bars between a row's cells."""
    return " · ".join(filter(None, map(plain_text, cells_of(quote)))) or plain_text(quote)


def _macro_words(macro: re.Match[str]) -> str:
    """Return the text of a link or term of AsciiDoc, or else the name of its target."""
    if macro["term"]:
        return macro["text"] or macro["target"].rpartition(",")[2]
    said = re.split(r",\s*\w+=", macro["text"])[0].rstrip("^")
    name = re.split(r"[:/]", macro["target"].partition("#")[0])[-1]
    return said or name.removesuffix(".adoc").replace("-", " ")


def without_struck(text: str) -> str:
    """Return Markdown without what is crossed out: the page no longer says it."""
    return _STRUCK.sub(" ", text) if "~~" in text else text


def _without_markup(text: str) -> str:
    if text.count(":") > 1:
        text = _EMOJI.sub("", text)
    text = without_struck(text)
    if "{" in text:
        text = _ATTRIBUTES.sub(" ", text)
    if "[!" in text:
        text = _ALERT.sub("", text)
    if "![" in text:
        text = _IMAGE.sub(_badge, text)
    if "[^" in text:
        text = _FOOTNOTE.sub("", text)
    if "[" in text:
        text = _REFERENCE.sub(r"\1", _MACRO.sub(_macro_words, text))
    if "<<" in text:
        text = _CROSS_REFERENCE.sub(r"\1", text)
    if "<" in text:
        text = _TAG.sub(_name_or_space, _INLINE_TAG.sub("", text))
    if "&" in text:
        text = html.unescape(text).replace("\xa0", " ").replace("\u2011", "-")
    if _MARKED.search(text) and not _DAY_FIRST.match(text):
        text = without_references(plain(text))
    if "\\" in text:
        text = _ESCAPED.sub(r"\1", text)
    text = one_line(text)
    return _BARE_LINK.sub(r"\1", text) if "[" in text else text


def _name_or_space(tag: re.Match[str]) -> str:
    """Return a name between angle brackets, and a space for a tag of HTML or of a component."""
    name = _NAMED.match(tag.string, tag.start())
    if name is None or name.end() != tag.end():
        return " "
    bare = name[1] or name[2]
    is_tag = bare.lower() in _HTML_NAMES or f"</{bare}>" in tag.string
    return " " if is_tag else tag[0]


def _badge(image: re.Match[str]) -> str:
    """Return the text of an image that only shows a state, such as "deprecated"."""
    return f" {image[1]} " if values.states(image[1]) == [image[1].casefold()] else " "


_MARKED = re.compile(r"[\[\]`*_~]|^\s*(?:[-+•·–—#>]|\d{1,3}[.)])\s")
# "13. November 2026" is a date, not item 13 of a list.
_DAY_FIRST = re.compile(
    rf"\s*\d{{1,2}}\.\s(?:{'|'.join(values.MONTHS)})\b[^\[\]`*_~]*$", re.IGNORECASE
)
_ESCAPED = re.compile(r"\\([\[\]()`*_{}#+.!|<>~&-])|\\(?=[A-Za-z])")
_BARE_LINK = re.compile(r"\[([^\[\]]{1,200})\](?!\()")


# --- lines ---


def _read_lines(reader: _Reader, lines: list[str]) -> None:
    place = _read_header_block(reader, lines)
    while place < len(lines):
        line = lines[place]
        if not line.strip():
            reader.group += 1
            place += 1
        elif (behind := _read_any_table(reader, lines, place)) or (
            behind := _read_heading(reader, lines, place)
        ):
            place = behind
        elif fence := _FENCE.match(line):
            place = _behind_fence(lines, place, fence.group(1))
        elif _UNDERLINE.match(line) or _DIRECTIVE.match(line) or _MODULE.match(line):
            place += 1
        elif box := _BOX.match(line):
            reader.lead = plain_text(box.group(1) or "").rstrip(":：")
            place += 1
        elif (match := _FIELD.match(line)) and not match[2].startswith("**"):
            reader.add(PAIR, plain_text(match.group(1)), [("", plain_text(match.group(2)))], line)
            place += 1
        elif _ITEM.match(line):
            place = _read_item(reader, lines, place)
        else:
            place = _read_paragraph(reader, lines, place)


def _read_heading(reader: _Reader, lines: list[str], place: int) -> int:
    """Read a heading and return the place after it, or 0 if there is none."""
    line = lines[place]
    if heading := (_ATX.match(line) or _WIKI_HEADING.match(line)):
        reader.head(len(heading.group(1)), heading.group(2) or heading.group(3))
        return place + 1
    if heading := _HTML_HEADING.match(line):
        reader.head(int(heading.group(1)), heading.group(2))
        return place + 1
    if not _is_underlined(lines, place):
        return 0
    mark = lines[place + 1].strip()[0]
    if mark not in reader.underlines:
        reader.underlines.append(mark)
    reader.head({"=": 1, "-": 2}.get(mark) or 2 + reader.underlines.index(mark), line)
    return place + 2


def _read_any_table(reader: _Reader, lines: list[str], place: int) -> int:
    """Read a table and return the place after it, or 0 if there is none."""
    line = lines[place]
    if line.lstrip().startswith(".. "):
        head, rows, end = restructured_text.read_table(lines, place)
        if end:
            _add_rows(reader, head, rows)
        return end
    if _GRID_RULE.match(line) or _SIMPLE_RULE.match(line):
        return _read_ruled_table(reader, lines, place)
    if line.lstrip().startswith("{|"):
        return _read_wiki_table(reader, lines, place)
    if _ASCIIDOC_EDGE.match(line):
        return _read_asciidoc_table(reader, lines, place)
    return _read_table(reader, lines, place) if _is_row(lines, place) else 0


def _read_header_block(reader: _Reader, lines: list[str]) -> int:
    """Read lines such as `Status: Final` at the start of a text. Return the place after them."""
    place = 0
    while place < len(lines) and not lines[place].strip():
        place += 1
    end = place
    while end < len(lines) and (_HEADER_BLOCK.match(lines[end]) or lines[end].startswith("  ")):
        end += 1
    if end - place < 3 or not _HEADER_BLOCK.match(lines[place]):
        return place
    name, text, quote = "", "", ""
    for line in [*lines[place:end], "End: "]:
        if _HEADER_BLOCK.match(line):
            if name and text:
                reader.add(PAIR, name, [("", plain_text(text))], quote)
            name, _colon, text = line.partition(":")
            quote = line
        else:
            text, quote = f"{text} {line.strip()}", f"{quote} {line.strip()}"
    return end


def _behind_fence(lines: list[str], place: int, mark: str) -> int:
    place += 1
    while place < len(lines) and not lines[place].lstrip().startswith(mark):
        place += 1
    return place + 1


def _is_underlined(lines: list[str], place: int) -> bool:
    if place + 1 >= len(lines) or not _UNDERLINE.match(lines[place + 1]):
        return False
    line, rule = lines[place].strip(), lines[place + 1].strip()
    return len(line) <= 200 and len(rule) >= min(len(line), 3) and not _UNDERLINE.match(line)


def _read_item(reader: _Reader, lines: list[str], place: int) -> int:
    match = _ITEM.match(lines[place])
    assert match is not None  # noqa: S101 (the caller looked)  # nosec B101
    indent, text = len(match.group(1)), match.group(2)
    first, whole = place, [lines[place].strip()]
    place += 1
    while place < len(lines) and lines[place].strip() and not _starts(lines, place):
        whole.append(lines[place].strip())
        text = f"{text} {lines[place].strip()}"
        place += 1
    while reader.items and reader.items[-1][0] >= indent:
        reader.items.pop()
    under = [*filter(None, [reader.lead]), *(name for _indent, name in reader.items)]
    quote = one_line(" ".join(whole))
    # The list marker isn't part of a quote.
    quote = quote[quote.index(match.group(2)[:1]) :] if match.group(2)[:1] in quote else quote
    reader.is_step = lines[first].lstrip()[0].isdigit()
    _add_item(reader, text, quote, under)
    reader.is_step = False
    name = plain_text(text).rstrip(":")
    if len(name.split()) <= 12:
        reader.items.append((indent, name[:120]))
    return place


def _starts(lines: list[str], place: int) -> bool:
    """Return True if a line begins a new block."""
    line = lines[place]
    return bool(
        _ITEM.match(line) or _ATX.match(line) or _ASCIIDOC_EDGE.match(line) or _WIKI_HEADING.match(line) or _FENCE.match(line)
        or _HTML_HEADING.match(line) or _BOX.match(line)
        or _is_row(lines, place)
        or _is_underlined(lines, place) or _UNDERLINE.match(line) or _DIRECTIVE.match(line)
    )  # fmt: skip


def _add_item(reader: _Reader, text: str, quote: str, under: Sequence[str]) -> None:
    done = ""
    if box := _CHECKBOX.match(text):
        done, text = ("done" if box.group(1) in "xX" else "open"), text[box.end() :]
    subject, message = key_and_value(text)
    if not subject and len(plain_text(text).split()) > 30:
        _add_sentences(reader, text, under)
        return
    fields = [("", message)] if message else []
    if done:
        subject, fields = subject or message, [("", done)] if not subject else [*fields, ("", done)]
    if not subject:
        # A short item without a colon is its own subject, so a move can be detected.
        subject, fields = message, []
    reader.add(ITEM, subject, fields, quote, under)


def key_and_value(text: str) -> tuple[str, str]:
    """Split `Status: Final`, `**1.2** - fixed`, `[EIP-1](…) title` into a subject and the rest."""
    bare = plain_text(text)
    text = without_struck(text)
    pair = _PAIR.match(text)
    if pair and pair.group(2).count("[") > pair.group(2).count("]"):
        pair = _PAIR.match(bare)  # the colon is in the text of a link
    if pair:
        name = plain_text(pair.group(2))
        if 0 < len(name.split()) <= MAX_KEY_WORDS and not name.endswith((".", "?", "!")):
            return name, plain_text(pair.group(3))
    if lead := _LEAD.match(text):
        name = plain_text(lead.group(1) or lead.group(3))
        rest = plain_text(text[lead.end() :]).lstrip(":：-–— ,.")
        if name and (rest or lead.end() == len(text.rstrip())):
            return name, rest
    if version := _VERSION_LEAD.match(bare):
        return version.group(), bare[version.end() :].lstrip(":：-–— ,.")
    if (dashed := _DASHED.match(bare)) and len(dashed.group(1).split()) <= MAX_KEY_WORDS:
        return dashed.group(1), dashed.group(2)
    return "", bare


def _read_paragraph(reader: _Reader, lines: list[str], place: int) -> int:
    block = [lines[place]]
    place += 1
    while place < len(lines) and lines[place].strip() and not _starts(lines, place):
        block.append(lines[place])
        place += 1
    reader.items.clear()
    named = plain_text(" ".join(block))
    reader.lead = named.rstrip(":") if named.endswith(":") and len(named.split()) <= 8 else ""
    if len(block) == 1 and _LEGAL.match(block[0].strip()):
        reader.head(5, block[0].strip())
        return place
    if len(block) == 2 and block[1].startswith((": ", ":   ")):
        reader.add(PAIR, plain_text(block[0]), [("", plain_text(block[1][1:]))], " ".join(block))
        return place
    if all(_is_pair_line(line) for line in block):
        for line in block:
            name, text = key_and_value(line.strip())
            reader.add(PAIR, name, [("", text)], line)
        return place
    _add_sentences(reader, " ".join(line.strip() for line in block))
    return place


def _is_pair_line(line: str) -> bool:
    pair = _PAIR.match(line.strip())
    if pair is None or len(line) > 160:
        return False
    name, said = pair.group(2).strip(), pair.group(3).strip()
    return len(name.split()) <= 5 and not said.endswith((".", "。")) and name[:1].isalnum()


def _add_sentences(reader: _Reader, text: str, under: Sequence[str] = ()) -> None:
    if "/>" in text and not (text := _COMPONENTS.sub("", text)):
        return
    if "![" in text and _IMAGES.fullmatch(text):
        return
    if reader.keeps_paragraphs:
        place = len(reader.entries)
        said = (("", one_line(text)),)
        headings = (*reader.headings, *under)
        reader.entries.append(Entry(PARAGRAPH, headings, "", said, "", place, reader.group))
        return
    for quote in split(one_line(text), reader.language):
        words = plain_text(quote)
        if _has_content(words):
            reader.add(SENTENCE, "", [("", words)], quote, under)


def _has_content(words: str) -> bool:
    parts = words.split(" | ")
    most = MAX_LINK_WORDS if len(parts) > 2 and not _DIGIT.search(words) else MAX_LINK_WORDS - 1
    if len(parts) > 1 and all(len(part.split()) <= most for part in parts):
        return False  # only links: "Docs | GitHub"
    return len(words.split()) >= 3 or (len(words) > 5 and not words.isascii())


def sentences_of(paragraph: Entry, language: str) -> list[Entry]:
    """Return the sentences of a paragraph that `parse` kept whole."""
    results = []
    for part, quote in enumerate(split(paragraph.fields[0][1], language)):
        words = plain_text(quote)
        if _has_content(words):
            said = (("", words),)
            quote = quote[:MAX_QUOTE_LENGTH]
            results.append(replace(paragraph, kind=SENTENCE, fields=said, quote=quote, part=part))
    return results


# --- tables ---


def _is_row(lines: list[str], place: int) -> bool:
    line = lines[place].strip()
    if line.count("|") >= 2 and (line.startswith("|") or line.endswith("|")):
        return True
    if " | " not in line:
        return False
    near = [lines[n] for n in (place - 1, place + 1) if 0 <= n < len(lines)]
    return any(" | " in one or _is_delimiter(one) for one in near)


def _is_delimiter(line: str) -> bool:
    return "|" in line and _DELIMITER.match(line) is not None


def _cells(line: str) -> list[str]:
    line = line.strip().removeprefix("|")
    line = line[:-1] if line.endswith("|") and not line.endswith("\\|") else line
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]


def _read_table(reader: _Reader, lines: list[str], place: int) -> int:
    rows: list[tuple[list[str], str]] = []
    head: list[str] = []
    while place < len(lines) and "|" in lines[place] and lines[place].strip():
        line = lines[place]
        if _is_delimiter(line):
            if rows and not head:
                head = rows.pop()[0]
        else:
            _add_line(rows, line, len(head))
        place += 1
    if any("span=" in line or "^^" in line for _cells, line in rows):
        rows = _spread(reader, [(list(map(tables.cell, cells)), line) for cells, line in rows])
    _add_rows(reader, head, rows)
    return place


def _spread(reader: _Reader, rows: Sequence[tables.Row]) -> list[tuple[list[str], str]]:
    """Return rows with the text of each cell in all places it spans, within the limit of the page."""
    left = max(MAX_ADDED_CELLS - reader.added_cells, 0)
    found = tables.spread(rows, min(left, tables.MAX_ADDED_CELLS))
    written = sum(len(cells) for cells, _line in rows)
    reader.added_cells += max(sum(len(cells) for cells, _line in found) - written, 0)
    return found


def _add_line(rows: list[tuple[list[str], str]], line: str, columns: int) -> None:
    """Add a row, or the rest of the last row if that one was broken in two."""
    cells = _cells(line)
    if rows and len(rows[-1][0]) < columns and len(rows[-1][0]) + len(cells) == columns:
        before, quote = rows[-1]
        if _is_rest(quote.strip(), line.strip()):
            rows.pop()
            cells, line = [*before, *cells], f"{quote} {line.strip()}"
    rows.append((cells, line))


def _is_rest(before: str, line: str) -> bool:
    """Return True if a line completes the row before it: the two have the outer bars of one row."""
    is_begun = before.startswith("|") and line.endswith("|")
    return is_begun and not (before.endswith("|") and line.startswith("|"))


def _add_rows(reader: _Reader, head: Sequence[str], rows: list[tuple[list[str], str]]) -> None:
    reader.group += 1
    names = [plain_text(name) for name in head]
    if not names and len(rows) > 2 and _looks_like_head(rows):
        names = [plain_text(name) for name in rows.pop(0)[0]]
    plain_rows = [([plain_text(cell) for cell in cells], line) for cells, line in rows]
    _fill_groups([cells for cells, _line in plain_rows])
    keys = _key_columns([cells for cells, _line in plain_rows])
    if any(names):
        keys = reader.naming.setdefault((reader.headings, *names), keys)
    above = ""
    for cells, line in plain_rows:
        filled = [cell for cell in cells if cell]
        if len(cells) > 2 and _is_title(filled, len(cells)):
            above = filled[0]  # a cell across the table names the rows below it
            continue
        named = [cells[n] for n in keys if n < len(cells)]
        subject = ", ".join(cell for cell in named if not _NONE.fullmatch(cell)) or "".join(
            named[:1]
        )
        # A column without a name or a value only sets others apart.
        fields = [
            (names[n] if n < len(names) else "", cell)
            for n, cell in enumerate(cells)
            if n not in keys and (cell or (n < len(names) and names[n]))
        ]
        reader.add(ROW, subject, fields, line.strip(), [above] if above else [])
    reader.group += 1


def _is_title(filled: Sequence[str], columns: int) -> bool:
    """Whether a row is one cell across the table. Equal values in all columns are a row of values."""
    if len(filled) == 1:
        return True
    is_same = len(filled) == columns and len(set(filled)) == 1
    return is_same and not _has_value(filled[0]) and not values.is_sign(filled[0])


def _looks_like_head(rows: list[tuple[list[str], str]]) -> bool:
    first, rest = rows[0][0], rows[1:6]
    if not all(first) or any(_DIGIT.search(cell) for cell in first):
        return False
    return any(_DIGIT.search(cell) for cells, _line in rest for cell in cells)


def _fill_groups(rows: Sequence[list[str]]) -> None:
    """Fill a first column that names a group of rows only in the first of them."""
    first = [row[0] for row in rows if len(row) > 1]
    groups = [cell for cell in first if cell]
    if len(groups) == len(first) or len(set(groups)) < 0.9 * len(groups) or not all(first[:1]):
        return
    if not any(map(values.is_sign, groups)):
        above = ""
        for row in rows:
            filled = sum(map(bool, row))
            if filled > 1 and not row[0]:
                row[0] = above
            above = row[0] if filled > 1 else ""


def _key_columns(rows: Sequence[list[str]]) -> tuple[int, ...]:
    """Return the first column whose cells are all filled and different, otherwise 0.

    If the first column names groups of rows, the next one belongs to the name. That's better than
    a column of values.
    """
    if not rows:
        return (0,)
    columns = [[row[n] for row in rows if n < len(row)] for n in range(min(3, max(map(len, rows))))]
    named = [n for n, cells in enumerate(columns) if _are_names(cells, len(rows))]
    are_values = [all(map(_has_value, cells)) for cells in columns]
    if named and (not are_values[named[0]] or not named[0] or are_values[0]):
        return (named[0],)
    pairs = [", ".join(row[:2]) if all(row[:2]) else "" for row in rows if len(row) > 2]
    if len(set(columns[0])) <= GROUPED * len(rows) and _are_names(pairs, len(rows)):
        return (0, 1)
    if not named and (groups := _groups_that_name(rows)):
        return groups
    return (named[0] if named else 0,)


def _groups_that_name(rows: Sequence[list[str]]) -> tuple[int, ...]:
    """Return the first two columns of groups that name each row together: its region and type."""
    columns = [
        [row[n] for row in rows if n < len(row)] for n in range(min(MAX_GROUPS, len(rows[0])))
    ]
    groups = [
        n
        for n, cells in enumerate(columns)
        if all(cells)
        and 1 < len(set(cells)) <= GROUPED * len(rows)
        and not all(
            _has_value(cell) and sum(map(str.isalpha, cell)) < FEW_LETTERS for cell in cells
        )
        and not any(map(values.is_sign, cells))
    ]
    for pair in combinations(groups, 2):
        if _are_names([", ".join(row[n] for n in pair if n < len(row)) for row in rows], len(rows)):
            return pair
    return ()


def _has_value(cell: str) -> bool:
    return values.kind_of(cell) not in (values.STATUS, values.TEXT, values.LINK)


def _are_names(cells: Sequence[str], rows: int) -> bool:
    filled = list(filter(None, cells))
    return len(filled) >= 0.9 * rows and len(set(filled)) >= 0.9 * len(filled)


def _read_wiki_table(reader: _Reader, lines: list[str], place: int) -> int:
    """Read a MediaWiki table.

    It begins with `{|`. Rows are separated by `|-`, and cells by line breaks or `||`.
    """
    head: list[str] = []
    rows: list[tables.Row] = []
    cells: list[tables.Cell] = []
    raw: list[str] = []
    place += 1
    while place < len(lines):
        line = lines[place].strip()
        place += 1
        if line.startswith(("|-", "|}")):
            if cells:
                rows.append((cells, " ".join(raw)))
            cells, raw = [], []
            if line.startswith("|}"):
                break
        elif line.startswith("!"):
            head += [_wiki_cell(cell).text for cell in re.split(r"!!|\|\|", line[1:])]
        elif line.startswith("|") and not line.startswith("|+"):
            cells += [_wiki_cell(cell) for cell in line[1:].split("||")]
            raw.append(line)
        elif cells and line:
            text = f"{cells[-1].text} {line}"[:MAX_CELL_LENGTH]
            cells[-1] = replace(cells[-1], text=text)
            raw.append(line)
    _add_rows(reader, head, _spread(reader, rows))
    return place


def _read_asciidoc_table(reader: _Reader, lines: list[str], place: int) -> int:
    """Read a table between two `|===`. Its rows are as long as its first line, and cells can span rows.

    The first line is its head if `header` is among its options or an empty line follows.
    """
    end = place + 1
    while end < len(lines) and not _ASCIIDOC_EDGE.match(lines[end]):
        end += 1
    if end == len(lines):
        return place + 1  # the table has no end, so it isn't one
    cells: list[tuple[tables.Cell, list[str]]] = []
    options = lines[place - 1].strip() if place else ""
    columns, has_head = 0, options.startswith("[") and "header" in options
    for line in map(str.strip, lines[place + 1 : end]):
        columns = columns or len(cells)
        found = list(_ASCIIDOC_CELL.finditer(line))
        if not line:
            has_head = has_head or len(cells) == columns > 0
        elif not found or found[0].start():  # the rest of the last cell
            if cells:
                last, quote = cells[-1]
                text = f"{last.text} {line}"[:MAX_CELL_LENGTH]
                cells[-1] = replace(last, text=text), quote
                quote.append(line)
        else:
            ends = [*(each.start() for each in found[1:]), len(line)]
            cells += [
                (
                    tables.Cell(
                        line[each.end() : until].strip(), int(each[2] or 1), int(each[1] or 1)
                    ),
                    [line],
                )
                for each, until in zip(found, ends, strict=True)
            ]
    flowing = [(cell, " ".join(quote)) for cell, quote in cells]
    rows = _spread(reader, tables.flow(flowing, columns or len(cells)))
    _add_rows(reader, rows.pop(0)[0] if has_head and len(rows) > 1 else [], rows)
    return end + 1


def _wiki_cell(cell: str) -> tables.Cell:
    style, bar, message = cell.partition("|")
    is_styled = bool(bar) and _WIKI_STYLE.match(style.strip()) is not None
    text = _WIKI_LINK.sub(r"\1", message if is_styled else cell)
    return tables.cell(text.replace("'''", "").replace("''", ""), style if is_styled else "")


def _read_ruled_table(reader: _Reader, lines: list[str], place: int) -> int:
    """Read a reStructuredText table, with grid lines or with rules above and below."""
    if _GRID_RULE.match(lines[place]):
        return _read_grid(reader, lines, place)
    edges = [found.span() for found in re.finditer(r"={2,}", lines[place])]
    parts: list[list[tuple[list[str], str]]] = [[]]
    place += 1
    while place < len(lines):
        line = lines[place]
        place += 1
        if _SIMPLE_RULE.match(line):
            parts.append([])
            if len(parts) == 3 or place >= len(lines) or not lines[place].strip():
                break
        elif line.strip():
            last = len(edges) - 1
            cells = [
                line[a : (edges[n + 1][0] if n < last else len(line))].strip()
                for n, (a, _b) in enumerate(edges)
            ]
            parts[-1].append((cells, line))
        elif not lines[place : place + 1] or not lines[place].strip():
            break
    filled = [part for part in parts if part]
    if len(filled) > 1:
        _add_rows(reader, filled[0][-1][0], filled[1])
    elif filled:
        _add_rows(reader, [], filled[0])
    return place


def _read_grid(reader: _Reader, lines: list[str], place: int) -> int:
    head: list[str] = []
    rows: list[tuple[list[str], str]] = []
    current: list[str] = []
    raw: list[str] = []
    while place < len(lines) and lines[place].strip()[:1] in ("+", "|"):
        line = lines[place]
        if line.strip().startswith("+"):
            if current:
                if "=" in line and not head:
                    head = current
                else:
                    rows.append((current, " ".join(raw)))
            current, raw = [], []
        else:
            cells = _cells(line)
            pairs = zip(current, cells, strict=False)
            current = [f"{a} {b}".strip() for a, b in pairs] if current else cells
            raw.append(line.strip())
        place += 1
    _add_rows(reader, head, rows)
    return place


# --- data ---


def _read_front_matter(reader: _Reader, block: str) -> None:
    """Read `key: value` lines as pairs and records, with nested lines under their parent keys."""
    lines = block.split("\n")
    _add_records(reader, structured.read_yaml(lines), lines)


def _read_data(reader: _Reader, text: str) -> bool:
    """Read a file that only has data. Return whether it is one."""
    spaced = text.expandtabs(4)
    root = structured.read_json(spaced) or structured.read_toml(spaced)
    root = root or structured.read_calendar(spaced)
    if root is not None:
        _add_records(reader, root, [])
    elif rows := tables.read_csv(text):
        _add_rows(reader, rows[0][0], rows[1:])
    return bool(reader.entries)


def _add_records(reader: _Reader, root: structured.Node, lines: Sequence[str]) -> None:
    for record in structured.records(root, reader.naming):
        if len(reader.entries) >= MAX_ENTRIES:
            return
        quote = " ".join(line.strip() for line in lines[record.first : record.last + 1])
        if record.first < 0:
            text = "; ".join(f"{name}: {value}" if name else value for name, value in record.fields)
            quote = f"{record.subject}: {text}" if text else record.subject
        kind = ITEM if record.is_item else ROW if record.is_member else PAIR
        value = record.fields[0][1] if len(record.fields) == 1 else ""
        if kind == PAIR and lines and len(value.split()) >= LONG_VALUE:
            reader.group += 1
            _add_sentences(reader, value, record.under)
            reader.group += 1
            continue
        fields = [(name, plain_text(v) if _TAG.search(v) else v) for name, v in record.fields]
        reader.add(kind, record.subject, fields, quote, record.under)
