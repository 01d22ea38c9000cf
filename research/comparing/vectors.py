"""How near the sentences of one comparison are in meaning: as wholes, and word by word.

The local model gives each word of a sentence a vector that depends on the words round it.  A fact
that is told in other words finds for each of its words a near one in the sentence; one that only
sounds alike leaves some without.  Needs numpy, which comes with the model, so this module is
imported only where there are vectors.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from research.claims.terms import STOP_WORDS
from research.comparing.values import Features

# Between the first two cosines a word counts as found in part; below the third it is not there.
FAINT, CLEAR, STRANGE = 0.4, 0.8, 0.45
RAREST = 4  # so many of the words that say most are looked at by themselves
LITTLE = 0.05  # what a word weighs that says nothing by itself
MEANING = 3.0  # by how much the vector of a sentence is stretched, to be a figure like the others


class TextVectors(Protocol):
    """A text as a model read it (`beacon_site.providers.minilm_embedder`)."""

    @property
    def whole(self) -> Sequence[float]:
        """Return the vector of the text, of length 1."""
        ...

    @property
    def words(self) -> Sequence[str]:
        """Return the words that were read, in lower case."""
        ...

    @property
    def each(self) -> Any:
        """Return an array with a row for each word."""
        ...


class Around(Protocol):
    """A sentence with what stands round it (`relating.Told`)."""

    @property
    def text(self) -> str: ...

    @property
    def before(self) -> str: ...

    @property
    def title(self) -> str: ...


Embed = Callable[[Sequence[str]], Sequence[TextVectors]]


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of a text: a vector of length 1 for each, and how much each says."""

    vectors: Any
    weights: Any

    def rarest(self, found: Any) -> float:
        """Return how near the worst found of the words lies that say most."""
        top = np.argsort(-self.weights, kind="stable")[:RAREST]
        return float(found[top].min())

    def mean(self, found: Any) -> float:
        return float((self.weights * found).sum() / self.weights.sum())


class Vectors:
    """The vectors of one comparison; places count the known facts first, then the sentences."""

    def __init__(self, told: Sequence[Around], known: int, embed: Embed) -> None:
        rows = [
            (
                one.text,
                f"{one.before} {one.text}" if one.before else one.text,
                f"{one.title}. {one.text}" if one.title else one.text,
            )
            for one in told
        ]
        texts = list(dict.fromkeys(text for row in rows for text in row))
        self._read = dict(zip(texts, embed(texts), strict=True))
        self._rows, self._known = rows, known
        whole, paged, titled = (
            np.array([self._read[row[n]].whole for row in rows], dtype=np.float32) for n in range(3)
        )
        self._whole = whole
        self._cosines = whole[known:] @ whole.T
        pages = [one.title or f"{place}" for place, one in enumerate(told[known:])]
        self._beside = [
            np.array([n for n, page in enumerate(pages) if page == own and n != place], dtype=int)
            for place, own in enumerate(pages)
        ]
        self._by_page = np.maximum(paged[known:] @ whole.T, titled[known:] @ whole.T)
        own = [self._read[text] for text in dict.fromkeys(row[0] for row in rows)]
        holding = Counter(word for one in own for word in set(one.words))
        self._says = {
            word: math.log(1 + (len(own) + 1) / (1 + count)) if _says(word) else LITTLE
            for word, count in holding.items()
        }
        count = sum(len(one.words) for one in own)
        # What all words here have in common tells none from the others.
        self._middle = sum(one.each.astype(np.float32).sum(0) for one in own) / max(count, 1)
        self._taken: dict[str, _Words] = {}

    def cosine(self, found: int, other: int) -> float:
        """Return how near the sentence at `found` is to what stands at `other`."""
        return float(self._cosines[found - self._known, other])

    def nearest(self, found: int) -> float:
        """Return how near the nearest known fact is to the sentence at `found`."""
        return float(self._cosines[found - self._known, : self._known].max(initial=0.0))

    def meaning(self, found: int) -> Features:
        """Return the vector of a sentence as figures."""
        return {f"m{n}": MEANING * float(v) for n, v in enumerate(self._whole[found])}

    def figures(self, found: int, other: int) -> Features:
        """Return how near a sentence and what may be the same lie, as wholes and by their words."""
        plain = self.cosine(found, other)
        page = float(self._by_page[found - self._known, other])
        features = {
            "cos": plain,
            "cos_page": page,
            "cos_near_page": max(plain, page),
            "cos_near": (plain - 0.2) / 0.6,
            "centred": plain - self._usual(found, other),
            "ahead_on_page": plain - self._rival(found, other),
        }
        return features | self._by_words(self._rows[found], self._rows[other][0])

    def _usual(self, found: int, other: int) -> float:
        """Return how near the other sentences of the run are: some facts are near to everything."""
        column = self._cosines[:, other]
        own = [n - self._known for n in (found, other) if n >= self._known]
        rest = len(column) - len(own)
        return float(column.sum() - column[own].sum()) / rest if rest else 0.0

    def _rival(self, found: int, other: int) -> float:
        """Return how near the nearest other sentence of the page is; the sentence's own if there is none."""
        beside = self._beside[found - self._known]
        beside = beside[beside != other - self._known]
        column = self._cosines[:, other]
        return float(column[beside].max() if len(beside) else column[found - self._known])

    def _by_words(self, found: tuple[str, str, str], other: str) -> Features:
        new, around, old = self._words(found[0]), self._words(found[1]), self._words(other)
        cosines = old.vectors @ new.vectors.T
        held, known = cosines.max(1), cosines.max(0)
        beside = (old.vectors @ around.vectors.T).max(1)
        clear, known_clear = old.mean(_clear(held)), new.mean(_clear(known))
        return {
            "words_held": old.mean(held),
            "words_clear": clear,
            "words_lost": old.mean(held < STRANGE),
            "words_rarest": old.rarest(held),
            "words_known": new.mean(known),
            "words_known_clear": known_clear,
            "words_strange": new.mean(known < STRANGE),
            "words_strangest": new.rarest(known),
            "words_around": old.mean(beside),
            "words_around_rarest": old.rarest(beside),
            "words_both": 2 * clear * known_clear / (clear + known_clear + 1e-6),
        }

    def _words(self, text: str) -> _Words:
        taken = self._taken.get(text)
        if taken is None:
            read = self._read[text]
            vectors = read.each.astype(np.float32) - self._middle
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            says = [self._says.get(word, LITTLE) for word in read.words]
            taken = _Words(vectors / (lengths + 1e-6), np.array(says, dtype=np.float32))
            self._taken[text] = taken
        return taken


def _says(word: str) -> bool:
    return word not in STOP_WORDS and any(char.isalnum() for char in word)


def _clear(found: Any) -> Any:
    return np.clip((found - FAINT) / (CLEAR - FAINT), 0, 1)
