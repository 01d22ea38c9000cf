"""Find the known fact that a sentence is about, and whether it confirms, changes or contradicts it.

A sentence can also be new, or not news at all. Sentences in nearly the same words are judged by the
rules in `matching.py`. For other wordings, a small logistic model over readable features (shared
rare words, names, numbers, meaning) estimates how likely a sentence is about a fact. Its weights
are in `linking_weights.json`, written by `python -m benchmarks.delta_fit`. How the two relate
depends only on values and explicit words. When in doubt, a sentence is new.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import date
from difflib import SequenceMatcher
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from beacon_site.text import values
from beacon_site.text.cleaning import normal_form
from beacon_site.text.sentences import language_of
from beacon_site.text.values import Amount, amounts, is_rounded, is_same, same_kind
from research.claims.candidates import is_chatter
from research.claims.matching import ParsedSentence, is_same_subject, match, parsed
from research.claims.states import (
    ANOTHER,
    CORRECTS,
    EXPECTED,
    HINTS,
    MOVES,
    NO_NEWS,
    NOT_YET,
    RETELLS,
)
from research.claims.terms import terms

CLOSEST = 6  # facts compared with a sentence in detail
# Above this probability, a reworded sentence is about a fact, with vectors and without.
LINKED, LINKED_BY_WORDS = 0.45, 0.4
NO_NEWS_FROM = 0.6  # above this probability, a sentence is a notice, a question or an opinion
NEAR = 0.05  # above this probability, it could report that an expected event has happened
RELATED = 0.6  # above this probability, it could change or contradict the fact
SAME = 0.55  # above this probability, a sentence about a fact says the same
SURE = 0.85  # above this share, a change replaces the old fact
WEIGHTS = Path(__file__).with_name("linking_weights.json")

# A number that is part of a name: phase 2, version 8.1, Halvik 3, the 14-nanometre process.
_CODE = re.compile(
    r"\b(?:[A-Z][a-zA-Z]+|phase|version|release|article|flight|round|line|type|level|stage|chapter|model|series|part)"
    r"[ -]\d{1,3}(?:\.\d+|\.x)*\b(?!\s*(?:%|percent|million|billion|thousand|[A-Z][a-z]+ \d{4}))|\b\d+-[a-z]{4,}\b"
)

# The value before a change: "from 5 kg to 3 kg".
_FROM = re.compile(r"\b(?:from|von)\s+(\S{1,20}(?:\s\S{1,20}){0,2}?)\s+(?:to|auf)\s")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b(?![,.]\d)")

Features = dict[str, float]
Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]


@dataclass(frozen=True, slots=True)
class DatedSentence:
    """A sentence with its date, the sentence before it on its page, and the page's title."""

    text: str
    on: date | None = None
    before: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`status`, and the place of the fact (facts first, then found sentences) or -1.

    `share` is the certainty, 0 to 1. For a new sentence, `near` is the known fact that it is most
    likely about, and `near_share` is how likely that is.
    """

    status: str
    place: int = -1
    share: float = 1.0
    near: int = -1
    near_share: float = 0.0


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence with the data from which its features are computed."""

    stated: ParsedSentence
    words: frozenset[str]
    amounts: tuple[Amount, ...]
    dates: frozenset[str]
    codes: frozenset[str]
    folded: str


@lru_cache(maxsize=4_096)
def _read(text: str) -> _Sentence:
    stated = parsed(text)
    folded = normal_form(stated.text).casefold()
    undated = values.without_dates(folded)
    words = (t for t in terms(undated, language_of(text)) if not t[0].isdigit())
    dates = (value for kind, value in values.typed_values(stated.text) if kind == values.DATE)
    return _Sentence(
        stated,
        frozenset(words),
        tuple(amounts(undated)),
        frozenset(dates),
        frozenset(match.group().casefold() for match in _CODE.finditer(stated.text)),
        folded,
    )


@cache
def weights(*, with_vectors: bool) -> dict[str, Features]:
    """Return the fitted weights: `link` for a sentence and a fact, and `noise` for a sentence."""
    stored = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    found: dict[str, Features] = stored["with vectors" if with_vectors else "without vectors"]
    return found


def probability(fitted: Features, features: Features) -> float:
    """Return the logistic of the weighted features."""
    total = sum(weight * features.get(name, 0.0) for name, weight in fitted.items())
    return 1 / (1 + math.exp(-(total + fitted["bias"])))


class Comparison:
    """The sentences of one run and the known facts. Places count facts first, then sentences."""

    def __init__(
        self,
        facts: Sequence[DatedSentence],
        found: Sequence[DatedSentence],
        topic: str = "",
        embed: Embed | None = None,
    ) -> None:
        self.known = len(facts)
        self._told = [*facts, *found]
        self._read = [_read(told.text) for told in self._told]
        self._holding: defaultdict[str, set[int]] = defaultdict(set)
        for place, sentence in enumerate(self._read):
            for word in sentence.words:
                self._holding[word].add(place)
        self._topic = frozenset(terms(topic))
        self._vectors = _Vectors(self._told, self.known, embed) if embed and self._told else None

    def told(self, place: int) -> DatedSentence:
        """Return the fact, or the found sentence, at a place."""
        return self._told[place]

    def verdicts(self) -> list[Verdict]:
        """Judge all found sentences in order. Later ones are also compared with earlier new ones."""
        made: list[Verdict] = []
        for number in range(len(self._told) - self.known):
            news = [n for n, verdict in enumerate(made) if verdict.status == "new"]
            made.append(self.judge(number, news))
        return made

    def judge(self, number: int, earlier: Sequence[int] = ()) -> Verdict:
        """Return the verdict on found sentence `number`, given facts and `earlier` new sentences."""
        place = self.known + number
        text = self._told[place].text
        others = [*range(self.known), *(self.known + other for other in earlier)]
        same = match(text, [self._told[other].text for other in others])
        if same is not None and same.kind == "confirmed":
            return Verdict("confirmed", others[same.index], max(same.score / 100, SURE))
        fitted = weights(with_vectors=self._vectors is not None)
        if probability(fitted["noise"], self.signs(number)) >= NO_NEWS_FROM:
            return Verdict("noise")
        if same is not None and others[same.index] < self.known:
            fact = others[same.index]
            status = _by_frame(self._read[place], self._read[fact])
            status = "changed" if self._has_happened(place, fact) else status
            if status and not self._is_older(place, fact):
                return Verdict(status, fact, same.score / 100)
        pairs = self.pairs(number, earlier)
        linked = [(probability(fitted["link"], f), other) for other, f in pairs]
        share, other = max(linked, default=(0.0, -1), key=lambda one: (one[0], -one[1]))
        if share < (LINKED if self._vectors else LINKED_BY_WORDS):
            near = max((one for one in linked if one[1] < self.known), default=(0.0, -1))
            for likely, fact in sorted(linked, reverse=True):
                if likely >= NEAR and self._has_happened(place, fact):
                    return Verdict("changed", fact, likely)
            return Verdict("new", share=1 - near[0], near=near[1], near_share=near[0])
        if other >= self.known:
            return Verdict("confirmed", other, share)
        features = next(found for at, found in pairs if at == other)
        says_same = probability(fitted["same"], self.relation_features(place, other, features))
        if says_same >= SAME:
            return Verdict("confirmed", other, share * says_same)
        is_related = share >= RELATED and (same is None or others[same.index] != other)
        status = self._relation(place, other) if is_related else "new"
        if status == "new":
            return Verdict("new", share=1 - share, near=other, near_share=share)
        return Verdict(status, other, share)

    def repeats(self, number: int, other: int) -> bool:
        """Whether a found sentence about the same fact as another has no different values."""
        new, old = self._read[self.known + number], self._read[self.known + other]
        pairs = [(a, b) for a in new.amounts for b in old.amounts if same_kind(a, b)]
        return not pairs or any(is_same(a, b) or is_rounded(a, b) for a, b in pairs)

    def tells_other_value(self, number: int, fact: int) -> bool:
        """Whether a found sentence has another value for an amount of the same kind as the fact's."""
        return bool(_by_amounts(self._read[self.known + number], self._read[fact])["other_value"])

    def relation_features(self, place: int, fact: int, features: Features) -> Features:
        """Return the features that show whether a sentence about a fact says the same."""
        new, old = self._read[place], self._read[fact]
        denied = ("negation" in dict(one.stated.states) for one in (new, old))
        found = {
            name: float(bool(cue.search(new.folded) and not cue.search(old.folded)))
            for name, cue in (("corrects", CORRECTS), ("moves", MOVES), ("retells", RETELLS))
        }
        found |= {name: float(hint.search(new.folded) is not None) for name, hint in HINTS.items()}
        found |= {
            "one_denies": float(len(set(denied)) > 1),
            "same_date": float(bool(new.dates & old.dates)),
            "other_date": float(bool(new.dates and old.dates and not new.dates & old.dates)),
            "more_values": min(1.0, max(0, len(new.amounts) - len(old.amounts)) / 2),
        }
        shared = ("held", "back", "alien", "same_value", "rounded", "other_value")
        return found | {name: features[name] for name in shared}

    def _relation(self, place: int, fact: int) -> str:
        """Return how a sentence about a fact that doesn't repeat it relates to it."""
        new, old = self._read[place], self._read[fact]
        if CORRECTS.search(new.folded) and not CORRECTS.search(old.folded):
            return "contradicted"
        if self._is_older(place, fact):
            return "new"
        if self._has_happened(place, fact):
            return "changed"
        if not MOVES.search(new.folded):
            return "new"
        if _moves_from_another(new, old):
            return "new"
        is_other = _by_amounts(new, old)["other_value"]
        is_one = is_other or is_same_subject(new.stated.text, old.stated.text)
        return "changed" if is_one else "new"

    def _has_happened(self, place: int, fact: int) -> bool:
        """Return True if a sentence says that something the fact expects has happened."""
        new, old = self._read[place], self._read[fact]
        is_one = new.codes & old.codes or (
            new.stated.names & old.stated.names and not (new.codes and old.codes)
        )
        if fact >= self.known or not is_one or self._is_older(place, fact):
            return False
        ours, theirs = dict(new.stated.states), dict(old.stated.states)
        is_done = ours.get("stage") == "done" or ours.get("life") == "ended"
        is_expected = theirs.get("stage") == "planned" or EXPECTED.search(old.folded) is not None
        is_done = is_done and "planned" not in ours.values() and not EXPECTED.search(new.folded)
        return is_expected and is_done and not NOT_YET.search(new.folded)

    def _is_older(self, place: int, fact: int) -> bool:
        """Whether a sentence's page is older than the fact, so it can't report later events."""
        told, known = self._told[place].on, self._told[fact].on
        return bool(told and known and told < known)

    # --- features ---

    def pairs(self, number: int, earlier: Sequence[int] = ()) -> list[tuple[int, Features]]:
        """Return the closest facts and earlier new sentences, each with the features of the pair."""
        place = self.known + number
        places = [*range(self.known), *(self.known + other for other in earlier)]
        quick = {other: self._quick(place, other) for other in places}
        closest = sorted(places, key=lambda other: (-quick[other], other))[:CLOSEST]
        found = [(other, self._features(place, other)) for other in closest]
        for name in ("held", "same_value", "cos"):
            if found and name in found[0][1]:
                _add_lead(name, [features for _other, features in found])
        for _other, features in found:
            features.pop("cos", None)
        return found

    def _quick(self, place: int, other: int) -> float:
        ours, theirs = self._read[place], self._read[other]
        score = self._share(ours.words, theirs.words)
        score += 0.3 * any(is_same(a, b) for a in ours.amounts for b in theirs.amounts)
        score += 0.2 * bool(ours.stated.names & theirs.stated.names)
        return score + (self._vectors.cosine(place, other) if self._vectors else 0.0)

    def _features(self, place: int, other: int) -> Features:
        new, old = self._read[place], self._read[other]
        dated_sentence = self._told[place]
        around = (
            new.words
            | frozenset(terms(dated_sentence.before))
            | frozenset(terms(dated_sentence.title))
        )
        held = self._share(new.words, old.words)
        rarest = sorted(old.words, key=lambda word: (-self._weight(word), word))[:3]
        alien = {name for name in new.stated.names if name[:5] not in old.folded}
        missing = {name for name in old.stated.names if name[:5] not in new.folded}
        found = _by_amounts(new, old)
        features = {
            "held": held,
            "context": self._share(around, old.words) - held,
            "back": self._share(old.words, new.words),
            "rarest": sum(word in new.words for word in rarest) / max(1, len(rarest)),
            "other_year": float(_other_year(new, old)),
            "alien": min(1.0, len(alien) / 3),
            "other_name": held * float(bool(alien and missing)),
            "other_value_held": held * found["other_value"],
            "found_now": float(other >= self.known),
        } | found
        return features | (self._vectors.features(place, other) if self._vectors else {})

    def _weight(self, word: str) -> float:
        """Return the weight of a word, lower if many sentences or the topic's title contain it."""
        rarity = math.log(1 + (len(self._told) + 1) / (1 + len(self._holding[word])))
        return rarity * (0.4 if word in self._topic else 1.0)

    def _share(self, part: Collection[str], whole: Collection[str]) -> float:
        total = sum(map(self._weight, whole))
        return sum(self._weight(word) for word in whole if word in part) / total if total else 0.0

    def signs(self, number: int) -> Features:
        """Return the features that distinguish a notice, a question or an opinion from a statement."""
        place = self.known + number
        sentence = self._read[place]
        text, folded = sentence.stated.text, sentence.folded
        words = text.split()
        found = {
            name: float(pattern.search(folded) is not None) for name, pattern in NO_NEWS.items()
        }
        related = (self._share(self._read[f].words, sentence.words) for f in range(self.known))
        found |= {
            "chatter": float(is_chatter(text)),
            "moves": float(MOVES.search(folded) is not None),
            "words": min(1.5, len(words) / 20),
            "commas": min(1.0, text.count(",") / 2),
            "digits": float(any(map(str.isdigit, text))),
            "values": min(1.0, len(sentence.amounts) / 2),
            "names": min(1.0, sum(word[:1].isupper() for word in words[1:]) / 3),
            "long": min(1.0, len(text) / 200),
            "related": max(related, default=0.0),
        }
        if self._vectors:
            found["related_cos"] = self._vectors.nearest(place)
        return found


def _add_lead(name: str, every: Sequence[Features]) -> None:
    """Add the lead of each over the best other one."""
    found = [features[name] for features in every]
    for place, features in enumerate(every):
        others = found[:place] + found[place + 1 :]
        features[f"lead_{name}"] = found[place] - max(others, default=found[place])


def _by_amounts(new: _Sentence, old: _Sentence) -> Features:
    ours, theirs = new.amounts, old.amounts
    held = [a for a in theirs if any(is_same(a, b) for b in ours)]
    near = [a for a in theirs if any(is_same(a, b) or is_rounded(a, b) for b in ours)]
    more = [b for b in ours if not any(is_same(a, b) or is_rounded(a, b) for a in theirs)]
    other = [a for a in theirs if a not in near and any(same_kind(a, b) for b in more)]
    return {
        "same_value": len(held) / len(theirs) if theirs else 0.0,
        "rounded": float(bool(near and not held)),
        "other_value": float(bool(other)),
        "no_value": float(not theirs),
    }


def _moves_from_another(new: _Sentence, old: _Sentence) -> bool:
    """Whether a sentence says from which value something moves, and a fact has another such value."""
    before = [amount for move in _FROM.findall(new.folded) for amount in amounts(move)]
    pairs = [(a, b) for a in before for b in old.amounts if same_kind(a, b)]
    return bool(pairs) and not any(is_same(a, b) or is_rounded(a, b) for a, b in pairs)


def _by_frame(new: _Sentence, old: _Sentence) -> str:
    """Return how a sentence that differs from a fact only in a value relates to the fact.

    Another noun in the same place ("the nickel", "the cobalt"), another year, or a word such as
    "rival" means something else, unless only one thing can have that role ("the latest release").
    """
    if CORRECTS.search(new.folded) and not CORRECTS.search(old.folded):
        return "contradicted"
    if ANOTHER.search(new.folded) and not ANOTHER.search(old.folded):
        return ""
    is_one = new.stated.is_one and old.stated.is_one
    ours, theirs = (set(_YEAR.findall(one.folded)) for one in (new, old))
    is_other_year = _other_year(new, old) or bool(ours and theirs and not ours & theirs)
    if not is_one and (is_other_year or _swapped(new, old)):
        return ""
    other_value = _by_amounts(new, old)["other_value"]
    if new.dates & old.dates and other_value and not MOVES.search(new.folded):
        return "contradicted"
    return "changed"


def _other_year(new: _Sentence, old: _Sentence) -> bool:
    ours, theirs = ({d[:4] for d in one.dates if d[:4].isdigit()} for one in (new, old))
    return bool(ours and not ours & theirs and (theirs or new.amounts))


def _swapped(new: _Sentence, old: _Sentence) -> bool:
    """Return True if one has another word in the same place, or names one more thing."""
    if new.stated.is_wide:
        return False
    codes = new.codes, old.codes
    if codes[0] and codes[1] and not codes[0] & codes[1]:
        return True
    ours, theirs = ([w for w in one.stated.frame if not w.startswith("§")] for one in (new, old))
    if ours and theirs and ours[0] not in theirs and not MOVES.fullmatch(ours[0]):
        return True
    blocks = SequenceMatcher(None, theirs, ours, autojunk=False).get_opcodes()
    if any(kind == "replace" and j2 - j1 <= 3 for kind, _i1, _i2, j1, j2 in blocks):
        return True
    return any(name not in old.folded for name in new.stated.names)


class _Vectors:
    """The vectors of one comparison's sentences."""

    def __init__(self, told: Sequence[DatedSentence], known: int, embed: Embed) -> None:
        import numpy as np  # installed with the local model

        texts = [one.text for one in told]
        unique = list(dict.fromkeys(texts))
        by_text = dict(zip(unique, embed(unique), strict=True))
        whole = np.array([by_text[text] for text in texts], dtype=np.float32)
        self._known = known
        self._cosines: Any = whole[known:] @ whole.T
        pages: defaultdict[str, list[int]] = defaultdict(list)
        for place, one in enumerate(told[known:]):
            pages[one.title or f"{place}"].append(place)
        self._beside = [
            [n for n in pages[one.title or f"{place}"] if n != place]
            for place, one in enumerate(told[known:])
        ]

    def cosine(self, found: int, other: int) -> float:
        return float(self._cosines[found - self._known, other])

    def nearest(self, found: int) -> float:
        return float(self._cosines[found - self._known, : self._known].max(initial=0.0))

    def features(self, found: int, other: int) -> Features:
        """Return how close two sentences are in meaning, and how close others are to the second."""
        cosine = self.cosine(found, other)
        column = self._cosines[:, other]
        beside = [n for n in self._beside[found - self._known] if n != other - self._known]
        own = [n - self._known for n in (found, other) if n >= self._known]
        rest = len(column) - len(own)
        usual = float(column.sum() - column[own].sum()) / rest if rest else 0.0
        return {
            "cos": cosine,
            "cos_ahead": cosine - float(column[beside].max()) if beside else 0.0,
            "cos_centred": cosine - usual,
        }
