"""How much of a topic a sentence speaks of, with its title, its paragraph and its page.

A long manual holds every word somewhere, so a word shared with the topic says little: what counts
is how near to the sentence the topic's other words stand.  Figures were set by reading the reports
on the documentation of installed packages (`docs/examples/`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from research.comparing.terms import is_wide_text, terms

# What one term of the topic is worth by where it stands.
IN_SENTENCE = 1.0
IN_TITLE = 0.8
IN_PARAGRAPH = 0.6
ON_SHORT_PAGE = 0.4
ON_LONG_PAGE = 0.1
NOWHERE = 0.05
NAME_NOWHERE = 0.01
# A page no longer than this (characters) is about one thing.
SHORT_PAGE = 8_000
# From here on a sentence is on the topic.
ENOUGH = 0.35
# Of a topic of several words this share, but no more than two, stand near the sentence.
NEAR = 0.5
# Of a long topic the names count, and so many terms in all.
MOST_TERMS = 3
MOST_NEAR = 2
_NAMED = re.compile(r"\w[A-Z\d]|^[A-Z]")
_SPACED = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The terms of a topic in the stems of one language; `names` are those that are names."""

    terms: tuple[str, ...]
    names: frozenset[str] = frozenset()
    is_wide: bool = False
    pattern: re.Pattern[str] = field(default=re.compile("(?!)"))

    def is_named_in(self, text: str) -> bool:
        """Whether a text holds a word that may be one of the terms; cheap, and never too strict."""
        return self.pattern.search(text) is not None


def wanted(topic: str, language: str) -> Wanted:
    """Take a topic apart as a page of `language` would write it."""
    found = tuple(dict.fromkeys(terms(topic, language)))
    begun = "|".join(sorted((re.escape(term[:-1] or term) for term in found), key=len))
    return Wanted(
        terms=found,
        names=frozenset(_names(topic, language)),
        is_wide=is_wide_text(topic),
        pattern=re.compile(begun or "(?!)", re.IGNORECASE),
    )


def _names(topic: str, language: str) -> Iterable[str]:
    """Yield the terms of words written as names are; where all words are, none stands out."""
    words = [word for word in _SPACED.findall(topic) if terms(word, language)]
    named = [word for word in words if _NAMED.search(word)]
    if len(named) == len(words) > 1:
        named = [word for word in words if re.search(r"\w[A-Z\d]", word)]
    for word in named:
        yield from terms(word, language)


@dataclass(frozen=True, slots=True)
class Page:
    """What stands round the sentences of one page: terms of its title, and what it names at all."""

    title: frozenset[str]
    on_page: frozenset[str]
    is_short: bool


def page(topic: Wanted, title: str, text: str, language: str) -> Page:
    """Look a page over for the topic's terms."""
    folded = text.casefold()
    return Page(
        title=frozenset(topic.terms).intersection(terms(title, language)),
        on_page=frozenset(term for term in topic.terms if (term[:-1] or term) in folded),
        is_short=len(text) <= SHORT_PAGE,
    )


def covered(
    topic: Wanted, around: Page, sentence: Collection[str], paragraph: Collection[str]
) -> float:
    """Return how much of the topic a sentence (its terms) covers where it stands, 0 to 1.

    Each term counts by the nearest place that holds it; the geometric mean makes one that is
    missing altogether felt.  Between wide characters terms are pairs across words, of which some
    never occur: there it is the arithmetic mean.
    """
    if not topic.terms:
        return 1.0
    worth = _of_most(topic, around, sentence, paragraph)
    near = sum(value >= IN_PARAGRAPH for value in worth)
    if len(worth) > 1 and near < min(MOST_NEAR, NEAR * len(worth)):
        return 0.0
    return _mean(worth, is_wide=topic.is_wide)


def _of_most(
    topic: Wanted, around: Page, sentence: Collection[str], paragraph: Collection[str]
) -> list[float]:
    """Return what the topic's names and its best other terms are worth: no sentence tells it all."""
    worth = {t: _worth(topic, around, t, sentence, paragraph) for t in topic.terms}
    if topic.is_wide or len(worth) <= MOST_TERMS:
        return list(worth.values())
    names = [value for term, value in worth.items() if term in topic.names]
    others = sorted((v for t, v in worth.items() if t not in topic.names), reverse=True)
    return [*names, *others[: max(1, MOST_TERMS - len(names))]]


def _mean(worth: Sequence[float], *, is_wide: bool) -> float:
    if is_wide:
        return sum(worth) / len(worth)
    return math.exp(sum(map(math.log, worth)) / len(worth))


def _worth(
    topic: Wanted, around: Page, term: str, sentence: Collection[str], paragraph: Collection[str]
) -> float:
    if term in sentence:
        return IN_SENTENCE
    if term in around.title:
        return IN_TITLE
    if term in paragraph:
        return IN_PARAGRAPH
    if term in around.on_page:
        return ON_SHORT_PAGE if around.is_short else ON_LONG_PAGE
    return NAME_NOWHERE if term in topic.names else NOWHERE
