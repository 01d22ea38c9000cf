"""What a sentence says of what is known: confirmed, changed, contradicted, new, or no fact at all.

Every sentence has a choice: it tells nothing (`noise`), it is new, or it stands in one of three
relations to one of the facts.  Each choice gets a score, a sum of weighted figures (`pairing.py`),
and the scores are made into shares of one.  The weights were fitted on labelled sentences
(`vector_weights.py`, `word_weights.py`), with and without vectors.  In doubt a sentence is new.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING

from research.claims.terms import terms
from research.comparing.chatter import chatter
from research.comparing.pairing import Context, Scene, relate
from research.comparing.slots import Slots, slots
from research.comparing.states import FOREMOST, NOT_YET
from research.comparing.values import Features, by_numbers, by_values, tells_same
from research.comparing.vector_weights import WITH_VECTORS
from research.comparing.weights import Weights
from research.comparing.word_weights import WITHOUT_VECTORS

if TYPE_CHECKING:
    from research.comparing.vectors import Embed

# Figures of which it matters by how much a fact is ahead of the others.
LEADS = (
    "fact_in_sentence",
    "rarest_around",
    "cos",
    "cos_near_page",
    "words_held",
    "words_clear",
    "words_around",
    "words_both",
)
RELATIONS = ("confirmed", "changed", "contradicted")
# So many facts are looked at closely for each sentence: those nearest by a quick look.
CLOSEST = 6
# From these shares on a sentence speaks of a known fact, and tells no fact at all.
LINKED = 0.6
NO_FACT = 0.4
# Below this share no sentence is told as a change or a contradiction: on pages that the weights were
# not fitted to, of such verdicts one in ten was right (docs/benchmarks.md, Deltas).
OTHERWISE = 0.35
# What shares no word with a fact contradicts it, or changes it unless that is sure, only where both
# mean something alike (cosine).
FARTHEST = 0.35
# From this share on a change is so sure that the old fact gives way (docs/benchmarks.md, Deltas).
SURE = 0.85


@dataclass(frozen=True, slots=True)
class Told:
    """A sentence with the day it was told, the one before it on its page, and the page's title."""

    text: str
    on: date | None = None
    before: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`status` and, unless it is new or noise, the place of the fact among facts and found ones.

    `share` is how likely just this is, of all that the sentence could be, 0 to 1.  `near` is the
    place of the known fact that it most likely speaks of if it speaks of one, and how likely that is.
    """

    status: str
    place: int = -1
    share: float = 1.0
    near: int = -1
    near_share: float = 0.0


@dataclass(frozen=True, slots=True)
class Option:
    """A fact that a sentence may speak of, with the figures of the pair."""

    place: int
    align: Features
    relate: Features


class Comparison:
    """The sentences of one run beside the known facts; places count facts first, then sentences."""

    def __init__(
        self,
        facts: Sequence[Told],
        found: Sequence[Told],
        topic: str = "",
        embed: Embed | None = None,
    ) -> None:
        self.known = len(facts)
        self._told = [*facts, *found]
        self._slots = [_taken_apart(told.text, told.on) for told in self._told]
        words = {*terms(topic), *topic.casefold().split()}
        self._scene = Scene(self._slots[: self.known], self._slots[self.known :], words)
        self._vectors = None
        if embed:
            # Imported here: without vectors there may be no numpy.
            from research.comparing.vectors import Vectors

            self._vectors = Vectors(self._told, self.known, embed)
        self._weights = WITH_VECTORS if embed else WITHOUT_VECTORS
        self._frames: dict[str, list[int]] = {}
        for number, slots_ in enumerate(self._slots[: self.known]):
            self._frames.setdefault(_frame(slots_), []).append(number)
        self._by_frame = [self._framed(n) for n in range(self.known, len(self._slots))]
        self._replaced = {
            verdict.place: self.known + number
            for number, verdict in enumerate(self._by_frame)
            if verdict is not None and verdict.status == "changed"
        }

    def judge(self, number: int, earlier: Sequence[int] = ()) -> Verdict:
        """Return what the found sentence `number` says of the facts and of `earlier` new ones."""
        place = self.known + number
        old = [*range(self.known), *(self.known + other for other in earlier)]
        same = _same_words(self._slots[place], [self._slots[n] for n in old])
        if same >= 0:
            return Verdict("confirmed", old[same])
        framed = self._by_frame[number]
        if framed is not None:
            return framed
        options, lone = self.options(number, earlier), self.lone(number)
        verdict = chosen(self._weights, lone, options, self.known)
        is_unsure = verdict.status == "changed" and verdict.share < SURE
        if (verdict.status == "contradicted" or is_unsure) and self._is_far(place, verdict.place):
            verdict = Verdict("new")
        if verdict.status == "confirmed" and self._has_come_about(place, verdict.place):
            verdict = Verdict("changed", verdict.place, verdict.share)
        if self._vectors and verdict.status == "new":
            # What words alone take for a repetition is none the less one for having vectors.
            by_words = chosen(WITHOUT_VECTORS, lone, options, self.known)
            return by_words if by_words.place >= self.known else verdict
        return verdict

    def verdicts(self) -> list[Verdict]:
        """Judge all found sentences in their order; later ones are compared with new ones too."""
        made: list[Verdict] = []
        for number in range(len(self._told) - self.known):
            news = [n for n, verdict in enumerate(made) if verdict.status == "new"]
            made.append(self.judge(number, news))
        return made

    def told(self, place: int) -> Told:
        """Return a fact, or behind the facts a found sentence, as it was given."""
        return self._told[place]

    def tells_other_value(self, number: int, fact: int) -> bool:
        """Whether a found sentence tells an amount of the fact's kind, and not the fact's."""
        return bool(by_numbers(self._slots[self.known + number], self._slots[fact])["other_value"])

    def _framed(self, place: int) -> Verdict | None:
        """Judge by values alone what differs from a known fact in nothing but its values."""
        new, words = self._slots[place], _frame(self._slots[place])
        if not words:
            return None
        is_foremost = FOREMOST.search(words) is not None
        for number in self._frames.get(words, ()):
            old = self._slots[number]
            if new.names != old.names:
                continue
            # An older page does not tell what came after.
            is_older = bool(new.on and old.on and new.on < old.on)
            if new.designated != old.designated and (is_older or not is_foremost):
                continue
            relation = by_values(new, old)
            if relation:
                return Verdict(relation, number)
        return None

    def _is_left_to_another(self, place: int, fact: int) -> bool:
        """Whether a sentence in the fact's own words replaces it, and this one tells other values than both."""
        new, by = self._slots[place], self._replaced.get(fact, place)
        if by == place or not new.amounts:
            return False
        return not any(by_numbers(new, self._slots[n])["same_value"] for n in (by, fact))

    def _is_far(self, place: int, fact: int) -> bool:
        """Whether a sentence and a fact have neither a word nor a meaning in common."""
        if not self._vectors or self._scene.share(
            self._slots[fact].terms, self._slots[place].terms
        ):
            return False
        return self._vectors.cosine(place, fact) < FARTHEST

    def _has_come_about(self, place: int, fact: int) -> bool:
        """Whether a sentence tells that what the fact expects is done: news, and no confirmation."""
        new, old = self._slots[place], self._slots[fact]
        if fact >= self.known or not (new.names & old.names or new.designated & old.designated):
            return False
        was_to_come = old.cues["becomes"] or old.states.get("stage") == "planned"
        is_done = new.states.get("stage") == "done" and not new.cues["becomes"]
        return bool(was_to_come and is_done and not NOT_YET.search(new.folded))

    def repeats(self, number: int, other: int) -> bool:
        """Whether a found sentence that speaks of the same fact as an earlier one tells no other values."""
        new, old = self._slots[self.known + number], self._slots[self.known + other]
        return tells_same(new, old)

    def lone(self, number: int) -> tuple[Features, Features]:
        """Return the figures that speak for a new sentence, and for one that tells no fact."""
        of = self._slots[self.known + number]
        signs = chatter(of.text, of.cues) | self._related(number)
        fresh = {name: of.cues[name] for name in ("other", "never", "stays", "was")}
        fresh |= {"digits": signs["digits"], "long": signs["long"]}
        return fresh, signs

    def _related(self, number: int) -> Features:
        """Return how near the sentence is to the nearest fact: what tells nothing is near to none."""
        place = self.known + number
        ours = self._slots[place].terms
        shares = [self._scene.share(ours, old.terms) for old in self._slots[: self.known]]
        near = {"related": max(shares, default=0.0)}
        if self._vectors:
            near["related_cos"] = self._vectors.nearest(place)
            near |= self._vectors.meaning(place)
        return near

    def options(self, number: int, earlier: Sequence[int] = ()) -> list[Option]:
        """Return the facts that the sentence may speak of, with the figures of each pair."""
        place = self.known + number
        new, told = self._slots[place], self._told[place]
        before = _taken_apart(told.before, told.on) if told.before else None
        title = _taken_apart(told.title, told.on) if told.title else None
        context = Context.of(before, title)
        places = [*range(self.known), *(self.known + other for other in earlier)]
        quick = {n: self._quick(place, n) for n in places}
        closest = sorted(places, key=lambda n: (-quick[n], n))[:CLOSEST]
        pairs: list[tuple[int, Features]] = []
        meaning = self._vectors.meaning(place) if self._vectors else {}
        for n in closest:
            if self._scene.is_of_another(new, self._slots[n]) or self._is_left_to_another(place, n):
                continue
            figures = self._scene.align(new, self._slots[n], context)
            figures["found_now"] = float(n >= self.known)
            if self._vectors:
                figures |= self._vectors.figures(place, n)
            pairs.append((n, figures))
        _add_leads(pairs)
        return [
            Option(n, align, relate(new, self._slots[n], align) | meaning) for n, align in pairs
        ]

    def _quick(self, place: int, old: int) -> float:
        ours, theirs = self._slots[place], self._slots[old]
        score = self._scene.share(ours.terms, theirs.terms)
        score += 0.3 * self._scene.share(ours.grams, theirs.grams)
        values = {round(amount.value, 2) for amount in theirs.amounts}
        score += 0.3 * any(round(amount.value, 2) in values for amount in ours.amounts)
        score += 0.2 * bool(ours.names & theirs.names)
        return score + (self._vectors.cosine(place, old) if self._vectors else 0.0)


def chosen(
    weights: Weights,
    lone: tuple[Features, Features],
    options: Sequence[Option],
    known: int,
) -> Verdict:
    """Return the verdict: first whether a sentence speaks of something known, then how."""
    shares = choice(weights, lone, options, known)
    new, noise = shares[0], shares[1]
    linked = 1 - new - noise
    by_option = [shares[2 + 3 * n : 5 + 3 * n] for n in range(len(options))]
    if linked < LINKED:
        is_noise = noise > new and noise > NO_FACT
        near = [
            (sum(by), option.place)
            for by, option in zip(by_option, options, strict=True)
            if option.place < known
        ]
        near_share, place = max(near, default=(0.0, -1))
        return Verdict(
            "noise" if is_noise else "new",
            share=noise if is_noise else new,
            near=place,
            near_share=near_share,
        )
    best = max(range(len(options)), key=lambda n: sum(by_option[n]))
    relation = max(range(3), key=lambda n: by_option[best][n])
    share, place = by_option[best][relation], options[best].place
    if relation and share < OTHERWISE:
        speaks_of = place if place < known else -1
        return Verdict("new", share=new, near=speaks_of, near_share=sum(by_option[best]))
    return Verdict(RELATIONS[relation], place, share)


def choice(
    weights: Weights,
    lone: tuple[Features, Features],
    options: Sequence[Option],
    known: int,
) -> list[float]:
    """Return the share of each choice: new, noise, then three relations to each option.

    Of what an earlier sentence of the same run told as new, a later one can only be a repetition.
    """
    scores = [_score(weights.new, lone[0]), _score(weights.noise, lone[1])]
    for option in options:
        link = _score(weights.align, option.align)
        for number, relation in enumerate(RELATIONS):
            if number and option.place >= known:
                scores.append(-math.inf)
            else:
                scores.append(link + _score(weights.relate[relation], option.relate))
    top = max(scores)
    powers = [math.exp(score - top) for score in scores]
    return [power / sum(powers) for power in powers]


def _score(weights: dict[str, float], figures: Features) -> float:
    total = weights.get("bias", 0.0)
    for name, weight in weights.items():
        total += weight * figures.get(name, 0.0)
    return total


@lru_cache(maxsize=4_096)
def _taken_apart(text: str, on: date | None) -> Slots:
    return slots(text, on)


def _frame(of: Slots) -> str:
    """Return the words of a sentence without its values, however many a list of them has."""
    return " ".join(word for word in of.bare.split() if any(map(str.isalnum, word)))


def _same_words(new: Slots, olds: Sequence[Slots]) -> int:
    """Return which of `olds` says the very same, or -1."""
    key = new.key
    return next((n for n, old in enumerate(olds) if key and old.key == key), -1)


def _add_leads(pairs: Sequence[tuple[int, Features]]) -> None:
    """Add by how much each fact is nearer than the nearest other one."""
    for name in LEADS:
        values = [figures.get(name, 0.0) for _place, figures in pairs]
        for number, (_place, figures) in enumerate(pairs):
            if name in figures:
                others = values[:number] + values[number + 1 :]
                figures[f"lead_{name}"] = values[number] - max(others, default=values[number])
