"""Finds the passage of a text that answers a query best, and marks the query's words in it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from html import escape
from itertools import islice, pairwise
from math import log
from typing import Any

from django.utils.safestring import SafeString

from beacon_site.text.cleaning import flat
from beacon_site.text.terms import (
    ENGLISH,
    FOREIGN_STOP_WORDS,
    MAX_TERM_LENGTH,
    Term,
    is_unspaced,
    query_spans,
    query_terms,
)

NEAR = 600  # characters of one passage, for `nearness`
MAX_SEARCHED_LENGTH = 200_000  # characters of a text that are searched for the passage
# The end of an emphasis that began before the passage. Only after punctuation, since A* is a word.
_CLOSES = re.compile(r"\A([^*]*[).,:;!?”])\*{1,2}(?=\s|\Z)")


def passage(text: str, query: str, length: int = 300, language: str = ENGLISH) -> str:
    """Return about `length` characters of `text` around the most distinct words of the query.

    The result is one line, cut between words, with an ellipsis where text is missing. If no word of
    the query occurs in the text, it is the beginning. Words are stemmed for `language`, as in
    recall.
    """
    text = text[:MAX_SEARCHED_LENGTH]
    hits = list(islice(_hits(text, query, language), 2_000))
    start = max(0, _best_start(hits, length) - length // 6) if len(text) > length else 0
    end = min(len(text), start + length)
    if start:
        start = max(start, text.find(" ", start, start + 30) + 1)
    if end < len(text):
        cut = text.rfind(" ", end - 30, end)
        end = cut if cut > start else end
    shown = _CLOSES.sub(r"\1", text[start:end]) if start else text[start:end]
    return f"{'…' if start else ''}{flat(shown)}{'…' if end < len(text) else ''}"


# A summary of a run or a conversation: what it is, then “**Goal:** …” and other labeled paragraphs.
_SUMMARY = re.compile(
    r"\A[^\n*]+\n\n\*\*[^\n*]+:\*\* .*?\n\n\*\*[^\n*]+:\*\* .*?\n\n\*\*[^\n*]+:\*\* ", re.S
)


def opening(text: str) -> str:
    """Return the text as a line shows it: a run's summary starting with its result."""
    return _SUMMARY.sub("", text, count=1)


def nearness(title: str, text: str, query: str, language: str = ENGLISH) -> float:
    """Return the share of the query's words that occur in the title and one passage, 0 to 1.

    A long text contains many words somewhere. If it is about them, they occur close together. The
    parts of a name with a dot (Node.js) count only if the text contains the name. A version also
    counts where the text has a more exact one (3.14, 3.14.2).
    """
    query_words = set(query_terms(query, language))
    if not query_words:
        return 1.0
    text = text[:MAX_SEARCHED_LENGTH]
    whole = f"{title}\n{text}"
    query_words = query_words - _foreign_fillers(query, language) or query_words
    counted = query_words - _absent_names(query, whole, language)
    titled = {term.text for term in _hits(title, query, language)} & counted
    titled |= {
        version
        for version in query_words
        if _VERSION.fullmatch(version) and re.search(rf"(?<![\w.]){re.escape(version)}\.\d", whole)
    }
    hits = [term for term in islice(_hits(text, query, language), 2_000) if term.text in counted]
    starts = [term.start for term in hits]
    most = len(titled)
    for first, term in enumerate(hits):
        inside = hits[first : bisect_left(starts, term.start + NEAR)]
        most = max(most, len(titled.union(one.text for one in inside)))
        if most == len(query_words):
            break
    return most / len(query_words)


_DOTTED = re.compile(r"\w+(?:\.\w+)+")
_VERSION = re.compile(r"\d+(?:\.\d+)+")


def _absent_names(query: str, text: str, language: str) -> set[str]:
    """Return the terms of the query's names with a dot that a text doesn't contain."""
    absent: set[str] = set()
    for name in _DOTTED.findall(query):
        if _VERSION.fullmatch(name):
            continue
        parts = "[. -]?".join(map(re.escape, name.split(".")))
        if not re.search(rf"(?<!\w){parts}(?!\w)", text, re.IGNORECASE):
            absent |= set(query_terms(name, language))
    return absent


def _foreign_fillers(query: str, language: str) -> set[str]:
    """Return the terms of the query's stop words. A word in capitals can be a name (MIT, OS)."""
    found = [word for word in query.split() if word in FOREIGN_STOP_WORDS]
    return set(query_terms(" ".join(found), language))


def answering(texts: Sequence[str], query: str, language: str = ENGLISH) -> list[float]:
    """Return how well each text answers the query, from 0 to 1.

    A word counts more the fewer of the texts have it, so a word of a topic's title counts little.
    Two neighboring words of the query count again where they are neighbors too, and three times as
    much if one is a number: a text with “14 November”, or about PostgreSQL 13, is hardly about
    “PostgreSQL 14”. Words that no text has don't count.
    """
    terms = query_terms(query, language)
    in_texts = [query_terms(text[:MAX_SEARCHED_LENGTH], language) for text in texts]
    in_pairs = {pair for some in in_texts for pair in pairwise(some)}
    found_in = Counter(term for some in in_texts for term in set(some))
    weights = {
        term: (log((len(texts) + 1) / (found_in[term] + 0.5)) + 0.1)
        * (3 if _has_digit(term) else 1)
        for term in terms
        if found_in[term]
    }
    pairs = {
        pair: max(weights[pair[0]], weights[pair[1]]) * (3 if any(map(_has_digit, pair)) else 1)
        for pair in pairwise(terms)
        if pair[0] != pair[1] and pair in in_pairs
    }
    most = sum(weights.values()) + sum(pairs.values())
    if not most:
        return [0.0] * len(texts)
    return [
        (_sum_of(weights, set(some)) + _sum_of(pairs, set(pairwise(some)))) / most
        for some in in_texts
    ]


def _sum_of(weights: Mapping[Any, float], found: set[Any]) -> float:
    return sum(weight for key, weight in weights.items() if key in found)


def _has_digit(term: str) -> bool:
    return any(character.isdigit() for character in term)


def marked(text: str, query: str, language: str = ENGLISH) -> SafeString:
    pieces: list[str] = []
    at = 0
    for term in _hits(text, query, language):
        if term.end <= at:
            continue
        start = max(at, term.start)
        pieces.append(f"{escape(text[at:start])}<mark>{escape(text[start : term.end])}</mark>")
        at = term.end
    # All of it is escaped above; Django's own helpers would scan each piece five times.
    return SafeString("".join(pieces) + escape(text[at:]))  # nosec B703


def _hits(text: str, query: str, language: str = ENGLISH) -> Iterator[Term]:
    """Yield the query's words in the order in which they occur in the text.

    A simple pattern finds the possible places first. Stemming every word of a long text would take
    most of a search's time.
    """
    names, begun = _query_terms(query, language)
    if not names:
        return
    at = 0
    for place in begun.finditer(text):
        start = place.start()
        if start < at:
            continue
        term = next(query_spans(text[start : start + 2 * MAX_TERM_LENGTH], language), None)
        if term is not None and term.start == 0 and term.text in names:
            yield Term(term.text, start, start + term.end)
            # Pairs of characters (scripts without spaces) can overlap; words can't.
            at = start + 1 if is_unspaced(text[start]) else start + term.end


@lru_cache(maxsize=100)  # a list looks for the same words in each row
def _query_terms(query: str, language: str) -> tuple[frozenset[str], re.Pattern[str]]:
    """Return a query's terms, and a pattern for the places where one of them may begin."""
    wanted = frozenset(query_terms(query, language))
    begun = "|".join(sorted(map(_beginning, wanted), key=len, reverse=True))
    return wanted, re.compile(f"(?={begun})", re.IGNORECASE)  # pairs overlap


def _beginning(term: str) -> str:
    """Return a pattern for the beginning of words with this stem.

    Stemming can change the last letter.
    """
    if is_unspaced(term[0]):
        return re.escape(term)
    return rf"(?<![^\W_]){re.escape(term[:-1] or term)}"


def _best_start(hits: list[Term], length: int) -> int:
    """Return the start of the window of `length` with the most distinct words, then most words."""
    best, best_start = (0, 0), 0
    starts = [term.start for term in hits]
    for first, term in enumerate(hits):
        inside = hits[first : bisect_left(starts, term.start + length)]
        worth = (len({one.text for one in inside}), len(inside))
        if worth > best:
            best, best_start = worth, term.start
    return best_start
