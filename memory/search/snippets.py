"""The passage of a text that answers a query best, and the words in it that do."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from html import escape
from itertools import islice

from django.utils.safestring import SafeString

from beacon_site.text.cleaning import flat
from beacon_site.text.terms import (
    ENGLISH,
    LONGEST_TERM,
    Term,
    is_unspaced,
    query_spans,
    query_terms,
)

LONGEST_LOOKED_AT = 200_000  # characters of a text in which the passage is sought
# The end of an emphasis that began before the passage.  Only behind punctuation: A* is a word.
_CLOSES = re.compile(r"\A([^*]*[).,:;!?”])\*{1,2}(?=\s|\Z)")


def passage(text: str, query: str, length: int = 300, language: str = ENGLISH) -> str:
    """Return about `length` characters of `text` round the most different words of the query.

    One line, cut at words, with an ellipsis where something was cut; the beginning if no word
    of the query stands in the text.  Words are stemmed as `language` does, as recall ranks them.
    """
    text = text[:LONGEST_LOOKED_AT]
    hits = list(islice(_hits(text, query, language), 2_000))
    start = max(0, _best_start(hits, length) - length // 6)
    end = min(len(text), start + length)
    if start:
        start = max(start, text.find(" ", start, start + 30) + 1)
    if end < len(text):
        cut = text.rfind(" ", end - 30, end)
        end = cut if cut > start else end
    shown = _CLOSES.sub(r"\1", text[start:end]) if start else text[start:end]
    return f"{'…' if start else ''}{flat(shown)}{'…' if end < len(text) else ''}"


def nearness(title: str, text: str, query: str, length: int = 600) -> float:
    """Return the share of the query's different words that the title and one passage hold, 0 to 1.

    A long text holds many words somewhere; one that is about them holds them together.
    """
    wanted = set(query_terms(query))
    if not wanted:
        return 1.0
    titled = {term.text for term in _hits(title, query)}
    hits = list(islice(_hits(text[:LONGEST_LOOKED_AT], query), 2_000))
    starts = [term.start for term in hits]
    most = len(titled)
    for first, term in enumerate(hits):
        inside = hits[first : bisect_left(starts, term.start + length)]
        most = max(most, len(titled.union(one.text for one in inside)))
        if most == len(wanted):
            break
    return most / len(wanted)


def marked(text: str, query: str, language: str = ENGLISH) -> SafeString:
    """Return `text` escaped, with each word of the query in a `<mark>`."""
    pieces: list[str] = []
    at = 0
    for term in _hits(text, query, language):
        if term.end <= at:
            continue
        start = max(at, term.start)
        pieces.append(f"{escape(text[at:start])}<mark>{escape(text[start : term.end])}</mark>")
        at = term.end
    # All of it is escaped above; Django's own ways look at each piece five times.
    return SafeString("".join(pieces) + escape(text[at:]))  # nosec B703


def _hits(text: str, query: str, language: str = ENGLISH) -> Iterator[Term]:
    """Yield the words of the text that the query names, in their order.

    Places where one could begin are found by a plain pattern first; making every word of a long
    text into a term would take most of a search's time.
    """
    wanted, begun = _wanted(query, language)
    if not wanted:
        return
    at = 0
    for place in begun.finditer(text):
        start = place.start()
        if start < at:
            continue
        term = next(query_spans(text[start : start + 2 * LONGEST_TERM], language), None)
        if term is not None and term.start == 0 and term.text in wanted:
            yield Term(term.text, start, start + term.end)
            # Pairs of a script without spaces overlap, words do not.
            at = start + 1 if is_unspaced(text[start]) else start + term.end


@lru_cache(maxsize=100)  # a list asks for the same words in each row
def _wanted(query: str, language: str) -> tuple[frozenset[str], re.Pattern[str]]:
    """Return the terms of a query, and the pattern of where one of them may begin."""
    wanted = frozenset(query_terms(query, language))
    begun = "|".join(sorted(map(_beginning, wanted), key=len, reverse=True))
    return wanted, re.compile(f"(?={begun})", re.IGNORECASE)  # pairs overlap


def _beginning(term: str) -> str:
    """Return the pattern of how a word with this term begins: stems change the last letter."""
    if is_unspaced(term[0]):
        return re.escape(term)
    return rf"(?<![^\W_]){re.escape(term[:-1] or term)}"


def _best_start(hits: list[Term], length: int) -> int:
    """Return where to begin so that most different words, then most words, fall within `length`."""
    best, best_start = (0, 0), 0
    starts = [term.start for term in hits]
    for first, term in enumerate(hits):
        inside = hits[first : bisect_left(starts, term.start + length)]
        worth = (len({one.text for one in inside}), len(inside))
        if worth > best:
            best, best_start = worth, term.start
    return best_start
