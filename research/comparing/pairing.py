"""How a sentence and a known fact lie beside each other, in figures between 0 and 1.

`Scene` weighs words by how few of the sentences at hand hold them, so that the topic's own name
says little.  `align` gives what tells whether both speak of the same thing, `relate` what tells how
they differ; `relating.py` weighs the figures.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz

from research.comparing.slots import Slots
from research.comparing.states import ONE_HOLDER
from research.comparing.subjects import (
    by_subject,
    codes_swapped,
    in_order,
    known_by,
    long_ago,
    only_names_differ,
    swapped,
)
from research.comparing.values import NUMBERS, TIMES, Features, by_numbers, by_time

# Hints that say something wherever they stand; the others only where the sentence is near the fact.
_FREE_CUES = frozenset({"denies", "corrects", "evidence", "never", "not_old"})

BY_MEANING = (
    "cos",
    "words_held",
    "words_lost",
    "words_rarest",
    "words_known",
    "words_strange",
    "words_strangest",
)


@dataclass(frozen=True, slots=True)
class Context:
    """What stands round a sentence: the one before it on its page, and the page's title."""

    terms: frozenset[str] = frozenset()
    folded: str = ""
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, *around: Slots | None) -> Context:
        there = [slots for slots in around if slots is not None]
        return cls(
            frozenset(term for slots in there for term in slots.terms),
            " ".join(slots.folded for slots in there),
            frozenset(name for slots in there for name in slots.names),
        )


class Scene:
    """The weights of words among the facts and sentences of one comparison."""

    def __init__(
        self, facts: Sequence[Slots], found: Sequence[Slots], topic: Collection[str]
    ) -> None:
        every = [*facts, *found]
        holding = Counter(t for one in every for t in {*one.terms, *one.names, *one.grams})
        total = len(every) + 1
        self._topic = frozenset(topic)
        self._weights = {
            term: math.log(1 + total / (1 + count)) * (0.4 if term in self._topic else 1.0)
            for term, count in holding.items()
        }
        self._lexicon = {name for slots in every for name in slots.names} | self._topic

    def weight(self, terms: Collection[str]) -> float:
        return sum(self._weights.get(term, 1.0) for term in terms)

    def share(self, part: Collection[str], whole: Collection[str]) -> float:
        """Return the weight of `whole` that `part` holds too; none if there is nothing to hold."""
        total = self.weight(whole)
        return self.weight(set(part) & set(whole)) / total if total else 0.0

    def names(self, slots: Slots) -> set[str]:
        """Return the names of a sentence; its first word is one if it is one elsewhere."""
        return {*slots.names, *(slots.openers & self._lexicon)}

    def rarest_shared(self, ours: Collection[str], theirs: Collection[str]) -> float:
        """Return how many of the three rarest of `theirs` are among `ours`."""
        weights = self._weights
        rarest = sorted(theirs, key=lambda term: (-weights.get(term, 1.0), term))[:3]
        return sum(term in ours for term in rarest) / len(rarest) if rarest else 0.0

    def is_of_another(self, new: Slots, old: Slots) -> bool:
        """Whether the two speak of two things.

        They differ in nothing but names (and values), or each tells of a version of its own: what is
        said of 13 does not change what was said of 12.
        """
        if only_names_differ(new, old, self.names(new), self.names(old)):
            return True
        of_one = ONE_HOLDER.search(new.folded) and ONE_HOLDER.search(old.folded)
        return bool(codes_swapped(new, old)) and not of_one

    def align(self, new: Slots, old: Slots, context: Context) -> Features:
        """Return what tells whether `new` speaks of what `old` says."""
        ours, theirs = set(new.terms), set(old.terms)
        around = ours | context.terms
        held = self.share(ours, theirs)
        numbers = by_numbers(new, old)
        names = self._names(new, old, context, held)
        others = new.cues["other"] * (1 - old.cues["other"])
        features = {
            "fact_in_sentence": held,
            "context_adds": self.share(around, theirs) - held,
            "rarest_shared": self.rarest_shared(ours, theirs),
            "rarest_around": self.rarest_shared(around, theirs),
            "sentence_in_fact": self.share(theirs, ours),
            "grams": self.share(new.grams, old.grams),
            "ratio": fuzz.token_set_ratio(new.folded, old.folded) / 100,
            "in_order": in_order(new, old),
            "head_in_fact": float(bool(new.terms) and new.terms[0] in theirs),
            "head_of_fact": float(bool(old.terms) and old.terms[0] in around),
            "codes_swapped": codes_swapped(new, old),
            "codes_shared": float(bool(new.designated & old.designated)),
            "long_ago": long_ago(new, old),
            "other_words": others,
            "other_tight": held * others,
            "length": min(1.0, len(new.terms) / 30),
            "value_tight": held * numbers["other_value"],
            "value_held": held * numbers["same_value"],
        }
        features |= names | numbers | by_time(new, old)
        told = ("names_swapped", "name_for_name", "subject_swapped", "codes_swapped")
        features["other_thing"] = max(*(features[name] for name in told), others)
        features["other_tight_thing"] = held * features["other_thing"]
        signs = [*(features[name] for name in told), others, features["head_alien"]]
        features["signs"] = min(1.0, sum(signs) / 3)
        return features

    def _names(self, new: Slots, old: Slots, context: Context, held: float) -> Features:
        """Compare the names, those of the topic aside but at the head of the sentence."""
        new_all, old_all = self.names(new), self.names(old)
        new_names, old_names = new_all - self._topic, old_all - self._topic
        alien = {name for name in new_names if not known_by(name, old.folded)}
        missing = {name for name in old_names if not known_by(name, new.folded)}
        lost = {name for name in missing if not known_by(name, context.folded)}
        strange = {name for name in alien if not known_by(name, context.folded)}
        start = new.folded[:60]
        gone, come = swapped(new, old)
        told = {*new_names, *context.names, *new.terms}
        return by_subject(new, old, new_all, old_all) | {
            "names_shared": self.share(told, old_names) if old_names else 0.5,
            "no_names": float(not old_names),
            "names_missing": float(bool(missing)),
            "names_lost": float(bool(lost)),
            "names_alien": min(1.0, self.weight(alien) / 8),
            "names_swapped": float(bool(alien and missing)),
            "names_strange": float(bool(strange)),
            "swap_tight": held * float(bool(strange and missing)),
            "alien_tight": held * float(bool(strange)),
            "head_alien": float(
                any(name in start for name in alien) and not any(n in start for n in old_names)
            ),
            "words_swapped": min(1.0, self.weight(gone) / 8) * float(bool(come)),
            "words_swapped_tight": held * float(bool(gone and come)),
            "name_for_name": float(bool(gone & old_all and come & new_all)),
        }


def relate(new: Slots, old: Slots, align: Features) -> Features:
    """Return what tells how `new` stands to the fact it speaks of; `align` is of the same pair."""
    near = min(1.0, max(align["fact_in_sentence"], align["in_order"], align.get("cos_near", 0.0)))
    cues = new.cues
    against = max(cues["denies"], cues["corrects"])
    differs, more = align["other_value"], align["same_value"] * align["value_more"]
    features = {f"{name}_near": value * near for name, value in cues.items()}
    features |= {name: cues[name] for name in _FREE_CUES}
    features |= {name: align[name] for name in (*NUMBERS, *TIMES)}
    if "cos" in align:
        features |= {name: align[name] for name in BY_MEANING}
    return features | {
        "covered": align["fact_in_sentence"],
        "in_order": align["in_order"],
        "both_values": more,
        "both_was": more * cues["was"],
        "both_not": more * cues["not_old"],
        "whole": align["in_order"] * float(align["same_value"] == 1 or not old.amounts),
        "differs_moves": differs * cues["moves"] * (1 - against),
        "differs_later": differs * align["later"],
        "differs_evidence": differs * cues["evidence"],
        "differs_same_time": differs * align["same_time"],
        "against": against,
        "never_now": cues["never"] * (1 - old.cues["never"]),
        "never_then": old.cues["never"] * (1 - cues["never"]),
        "came_about": old.cues["becomes"] * cues["done"],
        "same_quiet": align["same_value"] * (1 - align["value_more"]),
        "planned": old.cues["becomes"],
        "values_none": float(not old.amounts),
        "other_state": float(any(old.states.get(k, v) != v for k, v in new.states.items())),
        "same_state": float(any(old.states.get(k) == v for k, v in new.states.items())),
    }
