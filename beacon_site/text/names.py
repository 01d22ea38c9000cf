"""Names in a text (people, companies, products, places), found by their capital letters, without a model.

A capital letter within a sentence marks a name. At the beginning of a sentence, a heading or an item
it can mark any word, so such names are stored apart (`MAYBE`). Whether they are names is decided by
how often the word occurs with a capital letter in all of an owner's texts (memory.services.search.names).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from beacon_site.text.terms import ENGLISH, STOP_WORDS, folded, quoted

# In the search index, a name is a term without a position: `=hetzner cloud|Hetzner Cloud`.
NAME = "="  # no other term begins with these
MAYBE = "?"
_FORM = "|"  # between the key and the form in the text
MAX_READ = 100_000  # characters of one text
MAX_NAMES = 60  # of one text
MAX_WORDS = 4  # of one name; a longer row of capital letters is a title
MAX_NAME_LENGTH = 60  # characters

# What is left out, by a sign without which a text can't contain it.
_NO_PROSE = (
    (("```", "~~~"), re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)", re.M | re.S)),
    (("`",), re.compile(r"`[^`\n]{1,200}`")),
    (("<",), re.compile(r"<[^<>\n]{1,300}>")),
    (("@",), re.compile(r"\b\w+@[\w.\-]+")),
    (("/", "\\"), re.compile(r"(?<![^\s(\[])[^\s(\[/\\]*[/\\][^\s)\]]*")),  # addresses and paths
)
_WORD = re.compile(r"[^\W\d_][^\W_]*(?:['’\-&+][^\W_]+|\.[a-z]{2,3}\b)*(?:\+\+|#)?")
_BEGINS = frozenset(".!?:;…•|*>\t")  # before a word: it begins something
_COLUMNS = re.compile(r"^[^\n|]*\|[^\n]*\n(?=[ \t]*\|?[ \t]*:?-[-:| \t]*\|[-:| \t]*$)", re.M)
_ITEM = re.compile(r"\s*(?:[-*+•>]|\d{1,3}[.)])\s+")
_HEADING = re.compile(r"\s*#{1,6}\s")
# "PostgreSQL 18: Status Preview; Forced upgrade 2030", "PostgreSQL 18: Status Available (was Preview)."
_RECORD = re.compile(
    r"[^:;]{2,120}:(?:\s+[^\s:;(]+){1,5}(?:\s*(?:\(was [^()]{1,60}\)|(?:;(?:\s+[^\s:;]+){1,6})+))\W*\Z"
)
_CITATIONS = re.compile(r"(?:\s*\[\d{1,3}\])+\s*\Z")  # "It ended.[2] Every": they hide no full stop
_AFTER_NUMBER = re.compile(r"\d[ \u00a0]?\Z")
_UNITS = frozenset(
    (
        "kb mb gb tb pb kib mib gib tib kbit mbit gbit mbps gbps hz khz mhz ghz w kw mw gw kwh mwh "
        "gwh twh mah eur usd gbp chf jpy ppm"
    ).split()
)
_NUMBERED = re.compile(r"\s+[#№]\s?\d")  # "Run #4" is the fourth run, not a name
_POSSESSIVE = re.compile(r"['’]s$", re.IGNORECASE)
_SMALL = "of|de|del|della|di|da|do|dos|du|la|le|van|von|der|den|zu|y"
_JOINS = re.compile(rf"[ \u00a0](?:(?P<small>(?:{_SMALL})(?: (?:{_SMALL}))?) )?")  # within a name
_CALENDAR = frozenset(
    (
        "monday tuesday wednesday thursday friday saturday sunday january february march "
        "april may june july august september october november december mon tue wed thu fri "
        "sat sun jan feb mar apr jun jul aug sep sept oct nov dec montag dienstag mittwoch "
        "donnerstag freitag samstag sonntag januar februar märz mai juni juli oktober "
        "dezember today yesterday tomorrow"
    ).split()
)
# Words at the beginning of a sentence that never belong to a name after them.
_NO_NAMES = STOP_WORDS | frozenset(
    (
        "after before during here i'm i've i'd i'll let's ok okay yes please since until "
        "while der die das ein eine ich wir sie er es im am und oder mit für von wenn aber le "
        "la les un une el los las"
    ).split()
)
_NEVER = _NO_NAMES | _CALENDAR
NOUNS_CAPITALIZED = frozenset({"de"})  # languages in which a capital letter marks any noun


@dataclass(frozen=True, slots=True)
class Name:
    """A name in a text; `is_sure` if the place of its capital letter marks a name."""

    form: str
    is_sure: bool

    @property
    def key(self) -> str:
        return name_key(self.form)


@dataclass(frozen=True, slots=True)
class _Word:
    """A word with a capital letter; `begins` a sentence or an item, `small` words before it."""

    text: str
    start: int
    end: int
    begins: bool

    @property
    def is_marked(self) -> bool:
        """Return True if its own letters mark it as a name, such as OpenAI, iPhone or GPT-4."""
        text = self.text
        if text.isalpha() and text[1:].islower():  # most words
            return False
        has_small = text.upper() != text
        has_later = text[1:].lower() != text[1:]
        has_digit = not text.isalpha() and any(char.isdigit() for char in text)
        return (has_small and has_later and "-" not in text) or (has_digit and text[:1].isupper())

    @property
    def is_plain(self) -> bool:
        """Return True if it is a word that is never a name by itself."""
        word = self.text.casefold().replace("’", "'")
        return len(word) < 2 or not {word, word.removesuffix("s")}.isdisjoint(_NEVER)


@lru_cache(maxsize=20_000)
def name_key(text: str) -> str:
    """Return the key of a name: without case, accents and outer signs."""
    words = re.split(r"[|\s]+", text.strip(" \t\n.,;:!?\"'“”„()[]*_"))
    return " ".join(folded(word) for word in words)[:MAX_NAME_LENGTH].strip()


def names_in(text: str, language: str = ENGLISH) -> list[Name]:
    """Return the text's names, each once, in the order of the text."""
    found: dict[str, Name] = {}
    plain = text[:MAX_READ]
    if "|" in plain and "--" in plain:  # what the columns of a table are called
        plain = _COLUMNS.sub("", plain)
    for signs, pattern in _NO_PROSE:
        if any(sign in plain for sign in signs):
            plain = pattern.sub(" x ", plain)
    for line in plain.split("\n"):
        for name in _of_line(line, language):
            key = name.key
            if not key or len(name.form) > MAX_NAME_LENGTH:
                continue
            known = found.get(key)
            if known is None and len(found) >= MAX_NAMES:
                continue
            if known is None or (name.is_sure and not known.is_sure):
                found[key] = name
    return list(found.values())


def name_terms(text: str, language: str) -> list[str]:
    """Return the names of a text as terms of the search index."""
    return [term_of(name) for name in names_in(text, language)]


def term_of(name: Name) -> str:
    return f"{NAME if name.is_sure else MAYBE}{name.key}{_FORM}{name.form}"


def name_of(term: str) -> Name:
    return Name(term[1:].partition(_FORM)[2], term[0] == NAME)


def name_query(key: str) -> str:
    """Return the tsquery literal that matches texts with this name in any form."""
    return " | ".join(f"{quoted(f'{sign}{key}{_FORM}')}:*" for sign in (NAME, MAYBE))


def _of_line(line: str, language: str) -> Iterator[Name]:
    if line.islower():
        return
    words = _capitals(line)
    if len(words) > MAX_WORDS:
        capitals = sum(map(str.isupper, line))
        if capitals > 20 and capitals * 2 > len(line):  # all in capital letters
            return
    is_heading = bool(words) and _HEADING.match(line) is not None
    values_at = line.index(":") if words and _is_record(line) else len(line)
    for group in _groups(words, line):
        if values_at < len(line):
            yield from _of_record(group, line, values_at, language)
        elif len(group) > 1 or not _NUMBERED.match(line, group[0].end):
            yield from _of_group(group, line, is_heading, language)


def _capitals(line: str) -> list[_Word]:
    """Return the words with a capital letter."""
    start = found.end() if (found := _ITEM.match(line)) else 0
    words: list[_Word] = []
    for match in _WORD.finditer(line, start):
        text = match.group()
        if text.islower() or text.lower() == text:
            continue
        text = _POSSESSIVE.sub("", text)
        at = match.start()
        if text.lower() in _UNITS and _AFTER_NUMBER.search(line, max(start, at - 2), at):
            continue
        word = _Word(text, at, at + len(text), _begins(line, start, at))
        if text[0].isupper() or word.is_marked:
            words.append(word)
    return words


def _begins(line: str, start: int, at: int) -> bool:
    """Return True if the word at this place begins a sentence or an item."""
    if line[max(0, at - 3) : at].rstrip().endswith("]") and (
        marks := _CITATIONS.search(line, max(start, at - 40), at)
    ):
        at = marks.start()
    while at > start and not line[at - 1].isalnum():
        at -= 1
        if line[at] in _BEGINS or line[at - 1 : at + 1] == "  ":  # or the next column
            return True
    return at <= start


def _groups(words: Sequence[_Word], line: str) -> Iterator[list[_Word]]:
    """Yield the runs of words that can be one name, such as Bank of America."""
    group: list[_Word] = []
    for word in words:
        if group:
            joint = _JOINS.fullmatch(line, group[-1].end, word.start)
            if joint is None or (joint["small"] and group[-1].text.isupper()):
                yield group
                group = []
        group.append(word)
    if group:
        yield group


def _is_record(line: str) -> bool:
    """Return True if the line lists values of something after a colon, and isn't a sentence."""
    if _RECORD.fullmatch(line) is None:
        return False
    said = re.findall(r"[^\W\d_]+", line.partition(":")[2].partition("(was ")[0])
    return STOP_WORDS.isdisjoint(word.lower() for word in said)


def _of_record(group: list[_Word], line: str, values_at: int, language: str) -> Iterator[Name]:
    """Yield the names of a record's subject, and of its values without the labels before them.

    A single word with a capital letter is a label or a status, unless it's marked.
    """
    if group[0].begins and group[0].start > values_at:
        group = group[1:]
    is_one_word = len(group) == 1 and not group[0].is_marked and not group[0].text.isupper()
    if group and not (is_one_word and (group[0].begins or group[0].start > values_at)):
        yield from _of_group(group, line, is_heading=False, language=language)


def _of_group(group: list[_Word], line: str, is_heading: bool, language: str) -> Iterator[Name]:
    if len(group) > 3 * MAX_WORDS:  # no name, and slow to shorten
        return
    is_first = group[0].begins
    while group and group[0].is_plain:
        group, is_first = group[1:], False
    while group and ((group[-1].is_plain and len(group[-1].text) > 1) or group[-1].text == "I"):
        group = group[:-1]
    if not group or len(group) > MAX_WORDS:
        return
    is_unsure = is_heading or (is_first and not group[0].is_marked)
    yield _name(group, line, is_unsure, language)
    if is_unsure and not is_heading and len(group) > 1 and not group[1].is_plain:
        yield _name(group[1:], line, False, language)


def _name(group: Sequence[_Word], line: str, is_unsure: bool, language: str) -> Name:
    if len(group) == 1:
        word = group[0]
        if word.is_marked:
            is_unsure = False
        elif word.text.isupper():
            is_unsure = is_unsure or len(word.text) > 6  # a word that is stressed
        elif language in NOUNS_CAPITALIZED:
            is_unsure = True
    form = " ".join(line[group[0].start : group[-1].end].split())
    return Name(form, not is_unsure)
