"""Splitting text into search terms, in the same way for stored texts and queries.

Postgres's own parsers don't split Chinese, Japanese or Thai, and break up `C++` and `don't`.  So
the terms are created here, and Postgres only counts them.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import Stemmer

from beacon_site.text.cleaning import normal_form

MAX_TERM_LENGTH = 64  # characters; longer runs are keys and encodings, not words
MAX_WORD_LENGTH = 32 * MAX_TERM_LENGTH  # characters that are read: letters and accents
MAX_TIMES = 255  # the most positions of one term in a tsvector
LAST_POSITION = 16_383  # the highest position in a tsvector
LABEL = "@"  # no term of a text begins with it
LEVEL = "~"  # nor with this
LEVELS = (2, 3, 5, 8)  # the numbers of occurrences for which texts get a level term (`level_of`)
MAX_LABELS = 300  # terms of one record's labels
VECTOR_BYTES = 1_000_000  # a tsvector can have 1,048,575 bytes of terms and positions

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
# One mark per iteration.  If an iteration could match several, a pile of marks would cause
# exponential backtracking.
_RUN = rf"{_LETTER}+(?:[{_marks()}]{_LETTER}*)*"
_TERM = re.compile(
    rf"(?P<unspaced>[{UNSPACED}]+)"
    r"|(?P<number>\d+(?:\.\d+)+(?!\w))"
    rf"|(?P<named>{_RUN}(?:\+\+|\#))(?!\w)"
    rf"|(?P<word>{_RUN}(?:['’]{_RUN})*)"
)
# A line of plain ASCII has only words, unless a character joins letters or a point joins digits.
# A shortcut, since saving a large text reads thousands of such lines.
_PLAIN = re.compile(r"[0-9A-Za-z]+")
_JOINED = re.compile(r"[0-9A-Za-z](?:\+\+|[#'])|[0-9]\.[0-9]")
_UNSPACED_CHAR = re.compile(f"[{UNSPACED}]")
_ENGLISH = re.compile(r"[a-z']+")
# Han, kana and Hangul characters that neither case folding nor a normal form changes.
_FOLDED_ALREADY = re.compile("[\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]+")

# Filler words, which are left out of a query that has others.
STOP_WORDS = frozenset(
    (
        "a about all also an and any are as at be because been but by can could did do does "
        "for from had has have he her his how i if in into is it its may me more my no not of "
        "on or our she so such than that the their them then there these they this to was we "
        "were what when where which who why will with would you your"
    ).split()
)

# Words that many texts share by chance. They can be searched for, but don't relate two texts.
EVERYDAY_WORDS = frozenset(
    (
        "able add after again ago always another ask available back before begin best better between "
        "big both bring build call case change check choose close come common compare complete contain "
        "correct create current day different done down each early easy either end enough even ever "
        "every example expect far few find first follow found full further general get give go good "
        "great group half happen hard help here high hold hour however important include increase "
        "instead item keep kind know lack large last late later lead learn least leave left less let "
        "level like likely line list little live long look low main make many matter mean meet mention "
        "might minute month most move much must name near need never new next none note nothing now "
        "number often old once one only open order other out over own page part past people per place "
        "point possible provide put question quite rather read ready real reason receive recent remain "
        "require result return right run same save say second see seem send set several short show side "
        "simple since single small some someone something soon start state step still stop sure take "
        "tell term text thing think third three time today together top toward try turn two type under "
        "until up update upon use useful usual value various very view wait want way week well whether "
        "while whole within without word work world year yes yet"
    ).split()
)

# The most common words of other languages, which say nothing about a topic.
FOREIGN_STOP_WORDS = frozenset(
    (
        "der die das und ist ein eine einer eines den dem des im zu von mit auf für wird werden sich "
        "le la les un une des du de et est dans pour qui sur que au aux par avec "
        "el los las en del al y por con para se como il di che è gli della sono nel "
        "o os as uma não em do da и в на не с по что к из для как от это"
    ).split()
)

ENGLISH = "en"
# The languages with a stemmer: their codes and Snowball's names.
STEMMED = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek",
    "en": "english", "es": "spanish", "et": "estonian", "eu": "basque", "fi": "finnish",
    "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian",
    "id": "indonesian", "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch",
    "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian",
    "sr": "serbian", "sv": "swedish", "ta": "tamil", "tr": "turkish",
}  # fmt: skip

_stemmers: dict[str, Any] = {}
_stemming = threading.Lock()  # a stemmer stores the word it works on


@dataclass(frozen=True, slots=True)
class Term:
    """One search term and its place in the text; `start` and `end` count characters."""

    text: str
    start: int
    end: int


def stemmed_as(language: str) -> str:
    """Return the language whose stemmer is used for a person's language."""
    code = language.casefold().replace("_", "-").split("-")[0]
    code = {"nb": "no", "nn": "no"}.get(code, code)
    return code if code in STEMMED else ENGLISH


def search_terms(text: str, language: str = ENGLISH) -> list[str]:
    """Return the terms to index for a text, in its order and with repetitions.

    Words are stemmed for `language`, and letters lose case and accents.  Runs of a script without
    spaces give each character and each pair of neighbors.
    """
    return [term for _place, term in _indexed(text, language)]


def query_terms(text: str, language: str = ENGLISH) -> list[str]:
    """Return the terms to search for: words without fillers, and pairs in scripts without spaces.

    A query of only filler words keeps them.  Any text is a query; one without a letter or digit has
    no terms.
    """
    if _is_plain(text):
        terms = [_normal(word, "word", language) for word in _PLAIN.findall(text)]
    else:
        terms = [term.text for term in query_spans(text, language)]
    if language != ENGLISH:  # frequent words of other languages have little weight anyway
        return terms
    return [term for term in terms if term not in _fillers()] or terms


def tsquery_of(terms: Iterable[str]) -> str:
    """Return the tsquery literal that matches any of the terms."""
    return " | ".join(map(quoted, terms))


def phrase_query(text: str, language: str) -> str:
    """Return the tsquery literal that matches these words as a phrase; "" for no words.

    Words are stemmed, so "solid cells" finds "solid cell" too.  In scripts without spaces, the
    characters must follow each other.
    """
    at: dict[int, str] = {}
    for place, term in _indexed(text, language):
        at.setdefault(place, term)
    return " <-> ".join(map(quoted, at.values()))


def query_spans(text: str, language: str) -> Iterator[Term]:
    """Yield the terms of a query, or the terms of a text that a query can find, with their places."""
    for match in _TERM.finditer(text):
        if match.lastgroup == "unspaced":
            yield from _pairs(match)
        else:
            yield Term(_normal(match.group(), match.lastgroup, language), *match.span())


def is_unspaced(char: str) -> bool:
    """Return True if the character belongs to a script without spaces between words."""
    return _UNSPACED_CHAR.fullmatch(char) is not None


def vector_of(text: str, labels: str, language: str) -> tuple[str, int]:
    """Return the text as a tsvector literal, and its number of positions.

    Terms of the labels (who said it, tags) begin with `LABEL` and have no position, so a search can
    use them without affecting the text's counts.  Level terms (`level_of`) are added for terms that
    occur two, three, five or eight times.  For a frequent word, the ranking then reads only the few
    records that contain it often.

    Positions are those of the words, for phrases.  The limits of a tsvector apply: a term counts at
    most 255 times, and past a megabyte new terms are left out.  A position past the last possible
    one is stored as a free one, so that the count stays right.
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
        elif len(known) < MAX_TIMES:
            room -= 2 + (len(term.encode()) + 8) * (len(known) + 1 in LEVELS)
            if room < 0:  # a level must not be left out, because the ranking relies on them
                break
            known.append(place)
    words = [
        f"{quoted(term)}:{at[0]}"
        if len(at) == 1 and at[0] <= LAST_POSITION
        else f"{quoted(term)}:{','.join(map(str, _limited_positions(at)))}"
        for term, at in places.items()
    ]
    words += [
        quoted(level_of(term, times))
        for term, at in places.items()
        for times in LEVELS
        if len(at) >= times
    ]
    words += map(quoted, label_terms(labels, language)[:MAX_LABELS])
    return " ".join(words), sum(map(len, places.values()))


def level_of(term: str, times: int) -> str:
    """Return the level term of texts that contain `term` at least so many times."""
    return f"{LEVEL}{times}{term}"


@lru_cache(maxsize=1_000)
def label_terms(text: str, language: str) -> tuple[str, ...]:
    """Return the label terms of a record, without duplicates.  Cached, since many have the same."""
    terms = dict.fromkeys(query_terms(text, language)) if text else {}
    return tuple(LABEL + term for term in terms)


def _limited_positions(places: list[int]) -> list[int]:
    """Return the positions, with those past the last possible one moved to free ones below it."""
    if places[-1] <= LAST_POSITION:
        return places
    held = [place for place in places if place <= LAST_POSITION]
    taken = set(held)
    free = (place for place in range(LAST_POSITION, 0, -1) if place not in taken)
    return sorted([*held, *(next(free) for _ in range(len(places) - len(held)))])


def _indexed(text: str, language: str) -> Iterator[tuple[int, str]]:
    """Yield each indexed term with its position, counted from 1."""
    place = 0
    for line in text.split("\n"):  # no term crosses a line's end
        if _is_plain(line):
            for place, word in enumerate(_PLAIN.findall(line), place + 1):  # noqa: B020
                yield place, _normal(word, "word", language)
            continue
        for match in _TERM.finditer(line):
            if match.lastgroup != "unspaced":
                place += 1
                yield place, _normal(match.group(), match.lastgroup, language)
                continue
            run = match.group()
            folded = _folding_of(run)
            for offset, char in enumerate(run):
                place += 1
                yield place, folded(char)
                if offset + 1 < len(run):
                    yield place, folded(run[offset : offset + 2])


def _is_plain(text: str) -> bool:
    """Return True if the text's terms are just its runs of ASCII letters and digits."""
    return text.isascii() and not _JOINED.search(text)


def _pairs(match: re.Match[str]) -> Iterator[Term]:
    """Yield a run's pairs of neighbors, or its only character."""
    run, start = match.group(), match.start()
    folded = _folding_of(run)
    if len(run) == 1:
        yield Term(folded(run), start, start + 1)
    for offset in range(len(run) - 1):
        yield Term(folded(run[offset : offset + 2]), start + offset, start + offset + 2)


def _folding_of(run: str) -> Callable[[str], str]:
    """Return the function that folds the pieces of a run without spaces; most need no folding."""
    return str if _FOLDED_ALREADY.fullmatch(run) else folded


@lru_cache(maxsize=100_000)
def _normal(word: str, kind: str | None, language: str) -> str:
    """Return the term of a word: without case and accents, stemmed, not too long."""
    word = word[:MAX_WORD_LENGTH]
    term = folded(word)
    if kind == "word" and language == ENGLISH and _ENGLISH.fullmatch(term):
        term = _stem(term, language)
    elif kind == "word" and language != ENGLISH:  # accents help a stemmer to recognize endings
        term = folded(_stem(normal_form(word.casefold(), "NFC"), language))
    return term[:MAX_TERM_LENGTH]


def folded(word: str) -> str:
    """Return a word without case, and without accents if plain letters remain (`café`, not `й`)."""
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
def everyday_terms() -> frozenset[str]:
    """Return the terms of words that many English texts share by chance."""
    return frozenset(_stem(word, ENGLISH) for word in EVERYDAY_WORDS)


@lru_cache(maxsize=1)
def _fillers() -> frozenset[str]:
    return frozenset(_stem(word, ENGLISH) for word in STOP_WORDS)


def quoted(term: str) -> str:
    """Return the literal of a term in a tsvector or tsquery."""
    if "'" in term or "\\" in term:
        term = term.replace("\\", "\\\\").replace("'", "''")
    return f"'{term}'"
