"""How text becomes search terms: the same for what is stored and for what is asked.

Postgres' own parsers do not split Chinese, Japanese or Thai, and tear `C++` and `don't` apart; so
the terms are made here and Postgres only counts them.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import Stemmer

from beacon_site.text.cleaning import normal_form

LONGEST_TERM = 64  # characters; longer runs are keys and encodings, not words
LONGEST_WORD = 32 * LONGEST_TERM  # characters that are looked at: letters and accents
MOST_TIMES = 255  # a tsvector keeps at most so many positions of one term
LAST_POSITION = 16_383  # and none beyond this one
LABEL = "@"  # no term of a text begins with it
LEVEL = "~"  # nor with this
LEVELS = (2, 3, 5, 8)  # times from which a term that stands so often in a text is found by that too
MOST_LABELS = 300  # terms of one record's labels
VECTOR_BYTES = 1_000_000  # a tsvector holds 1,048,575 bytes of terms and positions

# Scripts written without spaces between words (Han, kana, Hangul, Thai, Lao, Burmese, Khmer).
UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0eff\u1000-\u1049\u1100-\u11ff\u1780-\u17d3"
    "\u2e80-\u2fd5\u3005-\u3007\u3021-\u3029\u3041-\u3096\u309d-\u309f\u30a1-\u30fa"
    "\u30fc-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c"
    "\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003fffd"
)


def _marks() -> str:
    """Return, as a character class, the vowel signs and accents that `\\w` leaves out."""
    codes = (code for code in range(0x300, 0xFE30) if unicodedata.category(chr(code))[0] == "M")
    return "".join(re.escape(chr(code)) for code in codes)


_LETTER = rf"[^\W_{UNSPACED}]"
# One mark at a time: were each round free to take several, a pile of marks could be shared out among
# the rounds in so many ways that looking through them takes longer than the world is old.
_RUN = rf"{_LETTER}+(?:[{_marks()}]{_LETTER}*)*"
_TERM = re.compile(
    rf"(?P<unspaced>[{UNSPACED}]+)"
    r"|(?P<number>\d+(?:\.\d+)+(?!\w))"
    rf"|(?P<named>{_RUN}(?:\+\+|\#))(?!\w)"
    rf"|(?P<word>{_RUN}(?:['’]{_RUN})*)"
)
# A line of plain ASCII has but words, unless a sign joins letters or a point joins digits: a save
# of a large text looks at thousands of such.
_PLAIN = re.compile(r"[0-9A-Za-z]+")
_JOINED = re.compile(r"[0-9A-Za-z](?:\+\+|[#'])|[0-9]\.[0-9]")
_UNSPACED_CHAR = re.compile(f"[{UNSPACED}]")
_ENGLISH = re.compile(r"[a-z']+")
# Han, kana and Hangul characters that neither case folding nor a normal form changes.
_FOLDED_ALREADY = re.compile("[\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]+")

# Words that say nothing of what is sought; left out of a query that has others.
STOP_WORDS = frozenset(
    [
        "a",
        "about",
        "all",
        "also",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "because",
        "been",
        "but",
        "by",
        "can",
        "could",
        "did",
        "do",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "he",
        "her",
        "his",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "may",
        "me",
        "more",
        "my",
        "no",
        "not",
        "of",
        "on",
        "or",
        "our",
        "she",
        "so",
        "such",
        "than",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
    ]
)

ENGLISH = "en"
# Whose words are brought to their stems: language codes and Snowball's names of them.
STEMMED = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek",
    "en": "english", "es": "spanish", "et": "estonian", "eu": "basque", "fi": "finnish",
    "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian",
    "id": "indonesian", "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch",
    "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian",
    "sr": "serbian", "sv": "swedish", "ta": "tamil", "tr": "turkish",
}  # fmt: skip

_stemmers: dict[str, Any] = {}
_stemming = threading.Lock()  # a stemmer keeps the word it works on in itself


@dataclass(frozen=True, slots=True)
class Term:
    """One search term and where in the text it stands; `start` and `end` count characters."""

    text: str
    start: int
    end: int


def stemmed_as(language: str) -> str:
    """Return the code of the language as which texts of a person's language are stemmed."""
    code = language.casefold().replace("_", "-").split("-")[0]
    code = {"nb": "no", "nn": "no"}.get(code, code)
    return code if code in STEMMED else ENGLISH


def search_terms(text: str, language: str = ENGLISH) -> list[str]:
    """Return what is indexed of a text, in its order and with repetitions.

    Words are stemmed as `language` does, letters lose case and accents; runs of a script without
    spaces give each character and each pair of neighbours.
    """
    return [term for _place, term in _indexed(text, language)]


def query_terms(text: str, language: str = ENGLISH) -> list[str]:
    """Return the terms to look for: of runs without spaces the pairs, of words no fillers.

    A query that holds nothing but filler words keeps them.  Any text is a query; one without a
    letter or digit has no terms.
    """
    if _is_plain(text):
        terms = [_normal(word, "word", language) for word in _PLAIN.findall(text)]
    else:
        terms = [term.text for term in query_spans(text, language)]
    if language != ENGLISH:  # what is frequent there weighs little by itself
        return terms
    return [term for term in terms if term not in _fillers()] or terms


def tsquery_of(terms: Iterable[str]) -> str:
    """Return the tsquery literal of what holds any of the terms."""
    return " | ".join(map(_quoted, terms))


def phrase_query(text: str, language: str = ENGLISH) -> str:
    """Return the tsquery literal of what holds these words side by side; "" for no words.

    Stems as everywhere: "solid cells" finds "solid cell" too.  Of scripts without spaces the
    characters follow each other.
    """
    at: dict[int, str] = {}
    for place, term in _indexed(text, language):
        at.setdefault(place, term)
    return " <-> ".join(map(_quoted, at.values()))


def query_spans(text: str, language: str = ENGLISH) -> Iterator[Term]:
    """Yield the terms of a query, or those of a text that a query could name, with their places."""
    for found in _TERM.finditer(text):
        if found.lastgroup == "unspaced":
            yield from _pairs(found)
        else:
            yield Term(_normal(found.group(), found.lastgroup, language), *found.span())


def is_unspaced(char: str) -> bool:
    """Whether the character is of a script written without spaces between words."""
    return _UNSPACED_CHAR.fullmatch(char) is not None


def vector_of(text: str, labels: str = "", language: str = ENGLISH) -> tuple[str, int]:
    """Return the text as a tsvector literal, and how many positions it holds.

    Terms of the labels (who said it, tags) stand in it after `LABEL` and without a position: a
    search can ask for them, and no figure of the text depends on them.  So do the terms that stand
    in it two, three, five times (`level_of`): where a word is frequent, the ranking asks for the
    few records that say it often instead of reading all.

    Positions are those of the words, for phrases.  What a tsvector cannot hold is bounded here:
    a term counts at most 255 times, and past a megabyte new terms are left out.  A position past
    the last possible one is stored as a free one, so that the count stays right.
    """
    places: dict[str, list[int]] = {}
    room = VECTOR_BYTES
    for place, term in _indexed(text, language):
        known = places.get(term)
        if known is None:
            room -= len(term.encode()) + 6
            if room < 0:
                break
            places[term] = [place]
        elif len(known) < MOST_TIMES:
            room -= 2 + (len(term.encode()) + 8) * (len(known) + 1 in LEVELS)
            if room < 0:  # a level is never left out: the ranking trusts that there is none
                break
            known.append(place)
    words = [
        f"{_quoted(term)}:{at[0]}"
        if len(at) == 1 and at[0] <= LAST_POSITION
        else f"{_quoted(term)}:{','.join(map(str, _held(at)))}"
        for term, at in places.items()
    ]
    words += [
        _quoted(level_of(term, times))
        for term, at in places.items()
        for times in LEVELS
        if len(at) >= times
    ]
    words += map(_quoted, label_terms(labels, language)[:MOST_LABELS])
    return " ".join(words), sum(map(len, places.values()))


def level_of(term: str, times: int) -> str:
    """Return the term by which the texts are found in which this one stands so often at least."""
    return f"{LEVEL}{times}{term}"


@lru_cache(maxsize=1_000)
def label_terms(text: str, language: str = ENGLISH) -> tuple[str, ...]:
    """Return the terms by which a record's labels are found, each once; many have the same ones."""
    terms = dict.fromkeys(query_terms(text, language)) if text else {}
    return tuple(LABEL + term for term in terms)


def counts_of(text: str, language: str = ENGLISH) -> Counter[str]:
    """Return how often each term is counted in a text that fits a tsvector: what BM25 calls tf."""
    counts = Counter(search_terms(text, language))
    return Counter({term: min(times, MOST_TIMES) for term, times in counts.items()})


def _held(places: list[int]) -> list[int]:
    """Return the positions, those past the last possible one moved to free ones below it."""
    if places[-1] <= LAST_POSITION:
        return places
    held = [place for place in places if place <= LAST_POSITION]
    taken = set(held)
    free = (place for place in range(LAST_POSITION, 0, -1) if place not in taken)
    return sorted([*held, *(next(free) for _ in range(len(places) - len(held)))])


def _indexed(text: str, language: str) -> Iterator[tuple[int, str]]:
    """Yield each term that is indexed with its position, counted from 1."""
    place = 0
    for line in text.split("\n"):  # no term goes beyond its end
        if _is_plain(line):
            for place, word in enumerate(_PLAIN.findall(line), place + 1):  # noqa: B020
                yield place, _normal(word, "word", language)
            continue
        for found in _TERM.finditer(line):
            if found.lastgroup != "unspaced":
                place += 1
                yield place, _normal(found.group(), found.lastgroup, language)
                continue
            run = found.group()
            folded = _folding_of(run)
            for offset, char in enumerate(run):
                place += 1
                yield place, folded(char)
                if offset + 1 < len(run):
                    yield place, folded(run[offset : offset + 2])


def _is_plain(text: str) -> bool:
    """Whether the terms of a text are its runs of ASCII letters and digits."""
    return text.isascii() and not _JOINED.search(text)


def _pairs(found: re.Match[str]) -> Iterator[Term]:
    """Yield a run's pairs of neighbours, or its only character."""
    run, start = found.group(), found.start()
    folded = _folding_of(run)
    if len(run) == 1:
        yield Term(folded(run), start, start + 1)
    for offset in range(len(run) - 1):
        yield Term(folded(run[offset : offset + 2]), start + offset, start + offset + 2)


def _folding_of(run: str) -> Callable[[str], str]:
    """Return how the pieces of a run without spaces are folded: most are so already."""
    return str if _FOLDED_ALREADY.fullmatch(run) else _folded


@lru_cache(maxsize=100_000)
def _normal(word: str, kind: str | None, language: str) -> str:
    """Return the term of a word: without case and accents, stemmed, not too long."""
    word = word[:LONGEST_WORD]
    term = _folded(word)
    if kind == "word" and language == ENGLISH and _ENGLISH.fullmatch(term):
        term = _stem(term, language)
    elif kind == "word" and language != ENGLISH:  # accents help a stemmer to know the ending
        term = _folded(_stem(normal_form(word.casefold(), "NFC"), language))
    return term[:LONGEST_TERM]


def _folded(word: str) -> str:
    """Return a word without case; accents go where plain letters remain (`café`, not `й`)."""
    term = normal_form(word).casefold().replace("’", "'").replace("\x00", "")
    if term.isascii():
        return term
    bare = "".join(c for c in normal_form(term, "NFD") if not unicodedata.combining(c))
    return bare if bare and bare.isascii() else term


@lru_cache(maxsize=100_000)
def _stem(word: str, language: str) -> str:
    with _stemming:
        stemmer = _stemmers.get(language)
        if stemmer is None:
            stemmer = _stemmers[language] = Stemmer.Stemmer(STEMMED[language])
        return str(stemmer.stemWord(word))


@lru_cache(maxsize=1)
def _fillers() -> frozenset[str]:
    return frozenset(_stem(word, ENGLISH) for word in STOP_WORDS)


def _quoted(term: str) -> str:
    if "'" in term or "\\" in term:
        term = term.replace("\\", "\\\\").replace("'", "''")
    return f"'{term}'"
