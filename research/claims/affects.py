"""Whether a change meets a line that a person remembers: it is about the same thing, and matters.

"PostgreSQL 13 has reached its end of life" meets "Billing runs PostgreSQL 13", but not "Billing runs
PostgreSQL 17". A false alarm costs more than a miss, so a shared word is never enough. Measured by
`python -m benchmarks.affects`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from beacon_site.text import values
from beacon_site.text.cleaning import one_line, without_citations
from beacon_site.text.values import is_same_release
from research.claims.terms import terms

MAX_LINE_LENGTH = 400  # characters
MAX_SENTENCE_LENGTH = (
    1_000  # of a change that are read, since a page can have a sentence of any length
)
# How surely a change meets a line. A change that matters to its users counts one more.
SAME_MATTER, LISTED_VERSION, SAME_VERSION, OLD_VALUE = 2, 4, 6, 8

# A capitalized word, a mixed one such as ecoTEC, or several: a name. "Node.js" is one, too.
_NAME_WORD = r"(?:[^\W\d_a-z][\w&+#]*|[a-z]+[A-Z]\w*)(?:\.(?:js|io|NET|ai))?(?:-[A-Z]\w*)*"
_NAMES = re.compile(rf"(?<![\w.-]){_NAME_WORD}(?:\s+{_NAME_WORD})*")
_STARTS = re.compile(r"(?:^|[.!?:]\s+|^[-*]\s+)$")
# A version or model number after a word: "PostgreSQL 13", "ubuntu-20.04", "kubernetes 1.29".
_DESIGNATED = re.compile(
    r"(?<![\w.])([^\W\d_][\w.+#]*?[\w+#])[\s-]v?(\d+(?:\.\d+)*)(?:[a-z]\b|\b)(?!%|:\d)"
)
_VERSION = re.compile(r"(?<![\w.,])v?(\d+(?:\.\d+)+)[a-z]?(?![\w%])")
_COMMON = frozenset(
    (
        "the a an and or of in on at to for from with by until since than about over under "
        "every all no version release lot lots page line week day month year number phase "
        "part step room group row i we you he she it they my our your his her its their this "
        "that these those always never contact read buy send go check call see use monday "
        "tuesday wednesday thursday friday saturday sunday"
    ).split()
)
# Words that two sentences share without being about the same thing.
_GENERIC = frozenset(
    terms(
        "new use used version release released year month week day time first last next now plan "
        "planned support supported old one two three get make take go move start begin open "
        "people company office city"
    )
)
# Changes that matter to the users of a thing.
_IMPACT = re.compile(
    r"\b(?:licen[cs]\w*|price\w*|fees?|costs?|rais(?:es|ed)|remov\w+|drops?|dropped|deprecat\w+|vulnerab\w+"
    r"|CVE-\d+|flaws?|security|end(?:s|ed)? of|ended|discontinu\w+|no longer|clos(?:es|ed|ure)|shuts?|cancel\w*"
    r"|recall\w*|requires?|needs|bann?(?:ed|s)?|outages?|breach\w*|strikes?|delay\w*|postpon\w+|moved|without"
    r"|instead of|withdr[ae]w\w*|revok\w+|expir\w+|mandatory|forbid\w*|forbidden|unavailable)\b",
    re.IGNORECASE,
)
_USES = re.compile(
    r"\b(?:we|i|our|my)\b.{0,40}?\b(?:use|uses|using|run|runs|rely|relies|depend|depends|take|takes|drive|host|pay|own|need)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A sentence or line. `names` maps each name to whether it certainly is one.

    `designated` maps words to the versions next to them.
    """

    text: str
    names: dict[str, bool]
    designated: dict[str, frozenset[str]]
    versions: frozenset[str]
    values: frozenset[tuple[str, str]]
    terms: frozenset[str]
    head: str


@lru_cache(maxsize=4_096)
def _parsed(text: str) -> _Parsed:
    text = one_line(without_citations(text[:MAX_SENTENCE_LENGTH]))
    names: dict[str, bool] = {}
    head = ""
    for found in _NAMES.finditer(text):
        before, after = text[: found.start()], text[found.end() :]
        words = found.group().split()
        is_start = _STARTS.search(before) is not None
        # At the start, any word has a capital letter. A common one isn't part of a name.
        while words and words[0].casefold() in _COMMON:
            words, is_start = words[1:], False
        if not words or " ".join(words).casefold() in values.MONTHS:
            continue
        is_mixed = any(char.isupper() for char in words[0][1:])
        certain = not is_start or len(words) > 1 or is_mixed or re.match(r"\s+v?\d", after)
        name = _plain(" ".join(words))
        names[name] = names.get(name, False) or bool(certain)
        head = head or (name if found.start() < 5 else "-")
    designated: dict[str, set[str]] = {}
    for match in _DESIGNATED.finditer(values.without_dates(text)):
        word = _plain(match[1])
        if word not in _COMMON and word not in values.MONTHS:
            designated.setdefault(word, set()).add(match[2])
    return _Parsed(
        text=text,
        names=names,
        designated={word: frozenset(found) for word, found in designated.items()},
        versions=frozenset(_VERSION.findall(text)),
        values=frozenset(values.typed_values(text)),
        terms=frozenset(terms(values.without_values(text))) - _GENERIC,
        head=head,
    )


def _plain(name: str) -> str:
    return name.casefold().removesuffix(".js").removesuffix("'s")


def affects(change: str, line: str, before: str = "") -> int:
    """Return how surely a change meets a line, or 0. `before` is what the sentence said until now."""
    if not 0 < len(line) <= MAX_LINE_LENGTH:
        return 0
    new, mine = _parsed(change), _parsed(line)
    has_impact = _IMPACT.search(new.text) is not None
    if before and _has_old_value(_parsed(before), new, mine):
        return OLD_VALUE + has_impact
    version = _same_version(new, mine)
    if version is not None:
        return version and version + has_impact
    return SAME_MATTER + has_impact if _same_matter(new, mine, has_impact=has_impact) else 0


def _has_old_value(old: _Parsed, new: _Parsed, mine: _Parsed) -> bool:
    """Return True if the line has a value, or a name, that the change has replaced."""
    gone = (old.values - new.values) & mine.values
    left = {name for name in old.names if " " in name and name not in new.names}
    if not gone and not left & mine.names.keys():
        return False
    shared = old.terms & mine.terms
    return len(shared) >= 2


def _same_version(new: _Parsed, mine: _Parsed) -> int | None:
    """Return how clearly both name the same version, 0 for different ones, or None for none."""
    is_other = False
    for word, ours in mine.designated.items():
        theirs = new.designated.get(word, frozenset())
        if not _is_name(word, new, mine):
            continue
        if any(is_same_release(left, right) for left in ours for right in theirs):
            return SAME_VERSION + (word in new.head.split())  # the sentence is about it
        # "The releases of PostgreSQL are 18.1, 17.7 and 16.11": versions next to no other name
        named = {v for found in new.designated.values() for v in found}
        listed = (new.versions - named) if word in _words(new) else frozenset()
        if any(is_same_release(left, right) for left in ours for right in listed):
            return LISTED_VERSION
        is_other = is_other or bool(theirs)
    # "Kafka is on 3.2": the exact version of a thing that both name
    shared = {name for name in new.names if name in mine.names}
    if shared and new.versions & mine.versions:
        return SAME_VERSION
    return 0 if is_other else None


def _words(one: _Parsed) -> set[str]:
    return {word for name in one.names for word in name.split()}


def _is_name(word: str, *texts: _Parsed) -> bool:
    """Return True if a word is written like a name in at least one of the texts."""
    return any(word in _words(text) for text in texts)


def _same_matter(new: _Parsed, mine: _Parsed, *, has_impact: bool) -> bool:
    """Return True if both name the same things, and more than a name."""
    shared = {
        name
        for name, certain in new.names.items()
        if name in mine.names and (certain or mine.names[name])
    }
    if not shared:
        return False
    if len(shared) > 1:
        return True
    used = {term for name in shared for term in terms(name)}
    further = (new.terms & mine.terms) - used
    is_soon = bool(_months(new) & _months(mine))
    if len(further) + is_soon >= (1 if has_impact else 2):
        return True
    return has_impact and new.head in shared and _USES.search(mine.text) is not None


def same_thing(change: str, other: str) -> bool:
    """Return True if two changes are about the same version, or name the same things."""
    new, old = _parsed(change), _parsed(other)
    if _same_version(new, old):
        return True
    return bool(new.names) and new.names.keys() == old.names.keys()


def _months(one: _Parsed) -> set[str]:
    """Return the months of the text's dates."""
    dates = (value.split("-") for kind, value in one.values if kind == values.DATE)
    return {part for date in dates for part in date if part.startswith("m")}


def names_of(text: str) -> set[str]:
    """Return the names in a text, by which lines are found that it can affect."""
    one = _parsed(text)
    named = {name for name in one.names if name not in _COMMON}
    return named | {word for word in one.designated if _is_name(word, one)}
