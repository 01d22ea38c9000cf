"""The terms by which sentences are compared: stems, and character pairs in text without spaces."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

import Stemmer

from beacon_site.text.cleaning import normal_form
from beacon_site.text.terms import FOREIGN_STOP_WORDS

_WORD = re.compile(r"[^\W_]+(?:[.'_\-][^\W_]+)*")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_STEMMERS = {
    "en": "english",
    "de": "german",
    "fr": "french",
    "es": "spanish",
    "it": "italian",
    "nl": "dutch",
    "da": "danish",
    "pt": "portuguese",
    "ru": "russian",
}
_ENGLISH_STOP = (
    "a an and are as at be been being but by can could did do does for from had has have he her "
    "his how i if in into is it its just may might more most must no not of on one only or other "
    "our out over own s same shall she should so some such than that the their them then there "
    "these they this those through to too under up very was we were what when where which while "
    "who whom whose why will with would you your also any both each every many much about after "
    "again all before between during further here nor off once until upon within without"
)
STOP_WORDS = frozenset(_ENGLISH_STOP.split()) | FOREIGN_STOP_WORDS
# Characters that join words in Chinese and Japanese and mean nothing by themselves.
_WIDE_STOP = frozenset("的了在是和与及或为于之而且并也都就还将已被把其这那个一")
_guard = threading.Lock()
_stemmers = {code: Stemmer.Stemmer(name) for code, name in _STEMMERS.items()}


@lru_cache(maxsize=100_000)
def stem(word: str, language: str = "en") -> str:
    """Return the stem of a lower-case word. Without rules for the language, the word itself."""
    stemmer = _stemmers.get(language)
    if stemmer is None or not word.isalpha():
        return word
    with _guard:  # a stemmer isn't thread-safe, and runs work in threads
        return str(stemmer.stemWord(word))


def terms(text: str, language: str = "en") -> list[str]:
    """Return the terms of a text in order: stems without stop words, numbers, wide pairs."""
    folded = text.casefold() if text.isascii() else normal_form(text).casefold()
    results: list[str] = []
    for word in _WORD.findall(folded):
        if word.isascii() or not _WIDE.search(word):
            if word not in STOP_WORDS:
                results.append(stem(word.removesuffix("'s"), language))
        else:
            results += _wide_terms(word)
    return results


def _wide_terms(word: str) -> Iterable[str]:
    """Return the character pairs of a run without spaces, and the text between them."""
    yield from (part for part in _WIDE.sub(" ", word).split() if part not in STOP_WORDS)
    for run in _WIDE.findall(word):
        if len(run) == 1:
            yield run
        for left, right in pairwise(run):
            if left not in _WIDE_STOP and right not in _WIDE_STOP:
                yield left + right


def is_wide_text(text: str) -> bool:
    """Return True if a text is mostly written without spaces (Chinese, Japanese, Korean)."""
    if text.isascii():
        return False
    letters = sum(char.isalpha() for char in text)
    return letters > 0 and sum(map(len, _WIDE.findall(text))) > 0.3 * letters
