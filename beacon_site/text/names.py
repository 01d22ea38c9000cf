"""Names in a text (people, companies, products, places), found by their capital letters, without a model.

A capital letter within a sentence marks a name. At the beginning of a sentence, a heading or an item
it can mark any word, so such names are stored apart (`MAYBE`). Whether they are names is decided by
how often the word occurs with a capital letter in all of an owner's texts (memory.services.search.names).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from beacon_site.text.terms import ENGLISH, STOP_WORDS, folded, quoted

# In the search index, a name is a term without a position: `=hetzner cloud|Hetzner Cloud`.
NAME = "="  # no other term begins with these
MAYBE = "?"
_FORM = "|"  # between the key and the form in the text
MOST_READ = 100_000  # characters of one text
MOST_NAMES = 60  # of one text
MOST_WORDS = 4  # of one name; a longer row of capital letters is a title
LONGEST_NAME = 60  # characters

_NO_PROSE = re.compile(
    r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)"  # code
    r"|`[^`\n]{1,200}`"
    r"|<[^<>\n]{1,300}>"
    r"|\b\w+@[\w.\-]+"
    r"|[^\s(\[]*[/\\][^\s)\]]*",  # addresses and paths
    re.MULTILINE | re.DOTALL,
)
_WORD = re.compile(r"[^\W\d_][^\W_]*(?:['’\-&+][^\W_]+|\.[a-z]{2,3}\b)*(?:\+\+|#)?")
_BEGINS = re.compile(r"[.!?:;…•|*>]")  # between two words: the second one begins something
_ITEM = re.compile(r"\s*(?:[-*+•>]|\d{1,3}[.)])\s+")
_HEADING = re.compile(r"\s*#{1,6}\s")
_POSSESSIVE = re.compile(r"['’]s$", re.IGNORECASE)
_JOINS = re.compile(r"[ \u00a0]")
_BETWEEN = frozenset(
    [
        "of",
        "de",
        "del",
        "della",
        "di",
        "da",
        "do",
        "dos",
        "du",
        "la",
        "le",
        "van",
        "von",
        "der",
        "den",
        "zu",
        "y",
    ]
)
_CALENDAR = frozenset(
    [
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
        "mon",
        "tue",
        "wed",
        "thu",
        "fri",
        "sat",
        "sun",
        "jan",
        "feb",
        "mar",
        "apr",
        "jun",
        "jul",
        "aug",
        "sep",
        "sept",
        "oct",
        "nov",
        "dec",
        "montag",
        "dienstag",
        "mittwoch",
        "donnerstag",
        "freitag",
        "samstag",
        "sonntag",
        "januar",
        "februar",
        "märz",
        "mai",
        "juni",
        "juli",
        "oktober",
        "dezember",
        "today",
        "yesterday",
        "tomorrow",
    ]
)
# Words at the beginning of a sentence that never belong to a name after them.
_NO_NAMES = STOP_WORDS | frozenset(
    [
        "after",
        "before",
        "during",
        "here",
        "i'm",
        "i've",
        "i'd",
        "i'll",
        "let's",
        "ok",
        "okay",
        "yes",
        "please",
        "since",
        "until",
        "while",
        "der",
        "die",
        "das",
        "ein",
        "eine",
        "ich",
        "wir",
        "sie",
        "er",
        "es",
        "im",
        "am",
        "und",
        "oder",
        "mit",
        "für",
        "von",
        "wenn",
        "aber",
        "le",
        "la",
        "les",
        "un",
        "une",
        "el",
        "los",
        "las",
    ]
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
class _Token:
    text: str
    start: int
    end: int
    begins: bool  # a sentence or an item

    @property
    def is_capital(self) -> bool:
        return self.text[:1].isupper() or self.is_marked

    @property
    def is_marked(self) -> bool:
        """Whether its own letters mark it as a name, such as OpenAI, iPhone or GPT-4."""
        small = any(char.islower() for char in self.text)
        later = any(char.isupper() for char in self.text[1:])
        digit = any(char.isdigit() for char in self.text)
        return (small and later and "-" not in self.text) or (digit and self.text[:1].isupper())

    @property
    def is_plain(self) -> bool:
        """Whether it is a word that is never a name by itself."""
        word = self.text.casefold().replace("’", "'")
        return len(word) < 2 or not {word, word.removesuffix("s")}.isdisjoint(_NEVER)


def name_key(text: str) -> str:
    """Return the key of a name: without case, accents and outer signs."""
    words = re.split(r"[|\s]+", text.strip(" \t\n.,;:!?\"'“”„()[]*_"))
    return " ".join(folded(word) for word in words)[:LONGEST_NAME].strip()


def names_in(text: str, language: str = ENGLISH) -> list[Name]:
    """Return the text's names, each once, in the order of the text."""
    found: dict[str, Name] = {}
    plain = _NO_PROSE.sub(" x ", text[:MOST_READ])
    for line in plain.split("\n"):
        for name in _of_line(line, language):
            key = name.key
            if not key or len(name.form) > LONGEST_NAME:
                continue
            known = found.get(key)
            if known is None and len(found) >= MOST_NAMES:
                continue
            if known is None or (name.is_sure and not known.is_sure):
                found[key] = name
    return list(found.values())


def name_terms(text: str, language: str = ENGLISH) -> list[str]:
    """Return the names of a text as terms of the search index."""
    return [term_of(name) for name in names_in(text, language)]


def term_of(name: Name) -> str:
    """Return the term of a name."""
    return f"{NAME if name.is_sure else MAYBE}{name.key}{_FORM}{name.form}"


def name_of(term: str) -> Name:
    """Return the name of a term."""
    return Name(term[1:].partition(_FORM)[2], term[0] == NAME)


def name_query(key: str) -> str:
    """Return the tsquery literal that matches texts with this name in any form."""
    return " | ".join(f"{quoted(f'{sign}{key}{_FORM}')}:*" for sign in (NAME, MAYBE))


def _of_line(line: str, language: str) -> Iterator[Name]:
    if line.isascii() and line.islower():
        return
    is_heading = _HEADING.match(line) is not None
    capitals = sum(char.isupper() for char in line)
    if capitals > 20 and capitals * 2 > len(line):  # all in capital letters
        return
    for group in _groups(_tokens(line), line):
        yield from _of_group(group, is_heading, language)


def _tokens(line: str) -> list[_Token]:
    start = found.end() if (found := _ITEM.match(line)) else 0
    tokens: list[_Token] = []
    for match in _WORD.finditer(line, start):
        text = _POSSESSIVE.sub("", match.group())
        between = line[tokens[-1].end : match.start()] if tokens else ""
        begins = not tokens or _BEGINS.search(between) is not None
        tokens.append(_Token(text, match.start(), match.start() + len(text), begins))
    return tokens


def _groups(tokens: Sequence[_Token], line: str) -> Iterator[list[_Token]]:
    """Yield the runs of capitalized words, with the small words between them."""
    group: list[_Token] = []
    between: list[_Token] = []
    for token in tokens:
        last = (between or group)[-1] if group else None
        if last is not None and not _JOINS.fullmatch(line[last.end : token.start]):
            yield group
            group, between = [], []
        if token.is_capital:
            group += [*between, token] if group else [token]
            between = []
        elif group and token.text in _BETWEEN and len(between) < 2 and not group[-1].text.isupper():
            between.append(token)
        elif group:
            yield group
            group, between = [], []
    if group:
        yield group


def _of_group(group: list[_Token], is_heading: bool, language: str) -> Iterator[Name]:
    is_first = group[0].begins
    while group and group[0].is_plain:
        group, is_first = group[1:], False
    while group and group[0].text in _BETWEEN:
        group = group[1:]
    while group and ((group[-1].is_plain and len(group[-1].text) > 1) or group[-1].text == "I"):
        group = group[:-1]
    if not group or len(group) > MOST_WORDS:
        return
    is_unsure = is_heading or (is_first and not group[0].is_marked)
    yield _name(group, is_unsure, language)
    if is_unsure and not is_heading and len(group) > 1:
        rest = group[1:]
        if not rest[0].is_plain and rest[0].text not in _BETWEEN:
            yield _name(rest, False, language)


def _name(group: Sequence[_Token], is_unsure: bool, language: str) -> Name:
    form = " ".join(token.text for token in group)
    if len(group) == 1:
        word = group[0]
        if word.is_marked:
            is_unsure = False
        elif word.text.isupper():
            is_unsure = is_unsure or len(word.text) > 6  # a word that is stressed
        elif language in NOUNS_CAPITALIZED:
            is_unsure = True
    return Name(form, not is_unsure)
