"""How a found sentence relates to what is known: it confirms, changes or contradicts it, or is new.

Two doors only.  A value: the same subject and frame of words with another date, version, amount,
percentage or status.  Or a model's entailment (`research.deltas.second_opinion`).  In doubt a
sentence is new: one false accusation costs more trust than ten misses.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Literal

from rapidfuzz import fuzz

from memory.texts.sentences import language_of
from memory.texts.text import match_key, without_citations
from research.claims import values
from research.claims.candidates import is_chatter
from research.claims.terms import is_wide_text, terms

__all__ = ["SURE", "Comparison", "Match", "Told", "Verdict", "match"]

SAME = (
    85  # token_set_ratio (or ratio, of text without spaces) from which two sentences say the same
)
FRAME = 78  # token_sort_ratio of two sentences without their values
NEAR = 0.35  # share of the rarer words from which a model is asked about a pair
SERIES = 95  # ratio of the frames of two sentences that tell a value at two times
SHARED = 0.2  # share of the shorter sentence's words without which another isn't a change of it
SHARED_BY_STATES = 0.3  # the same, where they differ only in what is planned, over or denied
CAME_ABOUT = 0.6  # share of the rarer words from which a sentence tells of an earlier plan
SURE = 0.85  # share from which an old fact gives way

_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’»)\]]*\s*(?:\[\d+\]\s*)*$")
_NEGATION = re.compile(
    r"\b(?:not|no longer|never|cannot|without|nicht|kein\w*|nie|pas|jamais|aucun\w*|no|nunca|ningún\w*|ingen|ikke|niet|geen)\b"
    r"|n[’']t\b|不再|没有|沒有|並未|并未|未能|取消|ない|않"
)
_PLANNED = re.compile(
    r"\b(?:will|planned|plans?|expected|scheduled|proposed|upcoming|to be (?:released|published|held)|targeted|due"
    r"|wird|werden|geplant|soll|sollen|voraussichtlich|prévue?s?|sera|seront|previst[oa]s?|será|serán)\b|将|預計|预计|计划|計劃|予定|예정"
)
_ENDED = re.compile(
    r"\b(?:ended|discontinued|withdrawn|cancell?ed|rejected|abandoned|reached its end|end of life|unsupported|beendet"
    r"|eingestellt|abgelehnt|arrêtée?s?|terminée?s?|cancelad[oa]s?)\b|终止|終止|停止|中止"
)
_CORRECTION = re.compile(
    r"\b(?:(?:was|were|is|are) (?:wrong|incorrect|mistaken|false|in error)|erroneous\w*|correct(?:s|ed|ion)|retract\w*"
    r"|falsch|irrtümlich|korrigier\w*|erron[ée]\w*|corrig\w*|incorrect[oa]s?)\b|更正|有误|錯誤|错误|訂正|정정"
)
_FROM_TO = re.compile(
    r"\bfrom\b.{1,60}\bto\b|\binstead of\b|\b(?:up|down) from\b|\bvon\b.{1,60}\bauf\b|\bstatt\b|\bpasse?(?:nt)? de\b.{1,60}\bà\b"
    r"|\bde\b.{1,60}\ba\b.{0,20}\d|[从由從].{1,30}[到至为為]|から.{1,30}(?:へ|に)|에서.{1,30}로"
)
_LATEST = re.compile(
    r"\b(?:latest|newest|current(?:ly)?|most recent|new(?:est)? (?:version|release|edition|stable|record|high|low)|announc\w+|now"
    r"|aktuell\w*|neueste\w*|dernière?s?|actuelle?(?:ment)?|últim[oa]s?|actual(?:mente)?)\b|最新|目前|当前|當前|現在"
)
_NAME = re.compile(r"\b[A-ZÄÖÜÀ-Þ][\w'’.-]*[\w]")
_ATTACHED = re.compile(
    r"(?:\b[A-ZÄÖÜ][\w+#.-]*|§§?|\b(?:version|release|article|section|chapter|no\.|nr\.|phase|part|edition|batch|stage))\s+(v?\d[\w.]*)",
)


@dataclass(frozen=True)
class Told:
    """A sentence with its date, the sentence before it on its page, and the page's title."""

    text: str
    on: date | None = None
    before: str = ""
    title: str = ""
    url: str = ""


@dataclass(frozen=True)
class Verdict:
    """`status` and the place of the fact (facts first, then found sentences), or -1.

    `share` is how sure that is, 0 to 1; `near` the fact that shares most words with a new sentence
    and `near_share` how many of them.
    """

    status: str
    place: int = -1
    share: float = 1.0
    near: int = -1
    near_share: float = 0.0


@dataclass(frozen=True)
class Match:
    """The earlier sentence (its place in the list) and how it relates; `score` is 0 to 100."""

    index: int
    kind: Literal["confirmed", "changed"]
    score: float


@dataclass(frozen=True)
class _Parsed:
    """A sentence taken apart once: words, values, and what qualifies its subject."""

    key: str
    is_wide: bool
    stems: frozenset[str]
    frame: str
    values: Counter[tuple[str, str]]
    attached: frozenset[str]
    names: frozenset[str]
    states: tuple[bool, bool, bool]
    is_latest: bool
    is_correction: bool
    is_from_to: bool


@lru_cache(maxsize=8_192)
def _parsed(text: str) -> _Parsed:
    bare = without_citations(text)
    folded = bare.casefold()
    language = language_of(bare)
    found = values.typed_values(bare)
    undated = values.without_dates(bare)
    words = {word.casefold() for word in _NAME.findall(undated[1:])}
    return _Parsed(
        key=match_key(bare),
        is_wide=is_wide_text(bare),
        stems=frozenset(t for t in terms(bare, language) if not t[:1].isdigit()),
        frame=values.frame_of(bare),
        values=found,
        attached=frozenset(number.casefold().rstrip(".") for number in _ATTACHED.findall(undated)),
        names=frozenset(word for word in words if not word[:1].isdigit()),
        states=(
            bool(_NEGATION.search(folded)), bool(_PLANNED.search(folded)), bool(_ENDED.search(folded)),
        ),
        is_latest=bool(_LATEST.search(folded)),
        is_correction=bool(_CORRECTION.search(folded)),
        is_from_to=bool(_FROM_TO.search(folded)),
    )  # fmt: skip


def match(sentence: str, previous: Sequence[str], *, same_page: bool = False) -> Match | None:
    """Return the earlier statement that `sentence` confirms or changes, or None if it is new.

    A confirmation wins over a change, then the higher score, then the earlier sentence.
    """
    best: Match | None = None
    for index, text in enumerate(previous):
        kind, score = relation(sentence, text, same_page=same_page)
        kind = "changed" if kind == "contradicted" else kind
        if kind and (
            best is None or (kind == "confirmed", score) > (best.kind == "confirmed", best.score)
        ):
            best = Match(index, kind, score)  # type: ignore[arg-type]
    return best


def relation(new_text: str, old_text: str, *, same_page: bool = False) -> tuple[str, float]:
    """Return "confirmed", "changed", "contradicted" or "" and how alike the two are, 0 to 100.

    On the same page another value replaces the old one, whatever time it names.
    """
    new, old = _parsed(new_text), _parsed(old_text)
    if not new.key or not old.key or new.is_wide != old.is_wide:
        return "", 0.0
    if new.key == old.key:
        return "confirmed", 100.0
    likeness = _likeness(new, old)
    same_states = new.states == old.states
    gone, come = old.values - new.values, new.values - old.values
    if likeness >= SAME and same_states and not (gone and come) and not _other_names(new, old):
        return "confirmed", likeness
    if same_states and new.values == old.values and _same_words(new, old):
        return "confirmed", 90.0
    alike = _frames(new, old)
    if alike < FRAME or _other_names(new, old):
        return "", likeness
    if not same_states:
        return ("changed", alike) if not _other_subject(new, old) else ("", likeness)
    found = _by_values(new, old, gone, come)
    kinds = {kind for kind, _v in gone} & {kind for kind, _v in come}
    if same_page and kinds and not _other_subject(new, old):
        found = "changed"
    return found, alike


def is_same_subject(new_text: str, old_text: str) -> bool:
    """Whether a sentence can be a change of another: about the same thing, and something differs.

    Two sentences of one frame differ in a value.  Others share some words, no name or number of a
    thing sets them apart, and they differ in a value of one kind, or in whether it is planned, over or
    denied.  A record such as a table row only changes by a record or sentence of its frame.
    """
    new, old = _parsed(new_text), _parsed(old_text)
    if new.is_wide != old.is_wide or _other_names(new, old):
        return False
    if relation(new_text, old_text)[0] in ("changed", "contradicted"):
        return True
    if not (_SENTENCE_END.search(new_text) and _SENTENCE_END.search(old_text)):
        return False
    shared = 1.0 if new.is_wide else _shared(new, old)
    if shared < SHARED:
        return False
    if new.is_correction:
        return True
    if new.states != old.states:
        return shared >= SHARED_BY_STATES and bool(new.attached) == bool(old.attached)
    if _other_subject(new, old) and not (new.is_latest and old.is_latest):
        return False
    gone, come = old.values - new.values, new.values - old.values
    return bool({kind for kind, _v in gone} & {kind for kind, _v in come})


def _shared(new: _Parsed, old: _Parsed) -> float:
    """Return the share of the shorter sentence's words that the other has, too."""
    return len(new.stems & old.stems) / max(1, min(len(new.stems), len(old.stems)))


def _likeness(new: _Parsed, old: _Parsed) -> float:
    scorer = fuzz.ratio if new.is_wide else fuzz.token_set_ratio
    ratio = float(scorer(new.key, old.key))
    short, long = sorted((len(new.key), len(old.key)))
    # A few words that are part of a long sentence are not what it says.
    return ratio if short >= 0.5 * long else min(ratio, SAME - 1)


def _same_words(new: _Parsed, old: _Parsed) -> bool:
    """Whether nearly all words of the shorter are in the longer, in whatever order."""
    if _other_names(new, old) or min(len(new.stems), len(old.stems)) < 4:
        return False
    shared = len(new.stems & old.stems)
    sizes = len(new.stems), len(old.stems)
    return shared >= 0.8 * min(sizes) and shared >= 0.6 * max(sizes)


def _frames(new: _Parsed, old: _Parsed) -> float:
    if new.is_wide:
        return float(fuzz.ratio(new.frame, old.frame))
    if len(new.stems) < 2 or len(old.stems) < 2:
        return 100.0 if new.frame == old.frame else 0.0
    return float(fuzz.token_sort_ratio(new.frame, old.frame))


def _other_names(new: _Parsed, old: _Parsed) -> bool:
    """Whether each speaks of a name that the other does not know."""
    ours = {name for name in new.names if name not in old.key}
    theirs = {name for name in old.names if name not in new.key}
    return bool(ours and theirs)


def _other_subject(new: _Parsed, old: _Parsed) -> bool:
    return bool(new.attached and old.attached and not new.attached & old.attached)


def _by_values(
    new: _Parsed,
    old: _Parsed,
    gone: Counter[tuple[str, str]],
    come: Counter[tuple[str, str]],
) -> str:
    kinds = {kind for kind, _v in gone} & {kind for kind, _v in come}
    if not kinds:
        return ""
    if _other_subject(new, old):
        # "Version 18 was released" says nothing of 17, but the latest version is only one.
        return "changed" if new.is_latest and old.is_latest else ""
    if kinds == {values.DATE}:
        return "changed"
    shared = {v for k, v in new.values if k == values.DATE} & {
        v for k, v in old.values if k == values.DATE
    }
    if values.DATE in kinds:
        # Another value at a later time: of a series told in the same words, or of the latest one.
        if new.is_latest and old.is_latest:
            return "changed"
        is_later = values.latest_date(new.values) > values.latest_date(old.values)
        return "changed" if is_later and fuzz.ratio(new.frame, old.frame) >= SERIES else ""
    return (
        "contradicted"
        if shared and kinds & {values.AMOUNT, values.PERCENT, values.NUMBER}
        else "changed"
    )


class Comparison:
    """The sentences of one run beside the known facts; places count facts first, then sentences."""

    def __init__(self, facts: Sequence[Told], found: Sequence[Told]) -> None:
        self.known = len(facts)
        self._told = [*facts, *found]
        self._holding: defaultdict[str, set[int]] = defaultdict(set)
        for place, told in enumerate(self._told):
            for stem in _parsed(told.text).stems:
                self._holding[stem].add(place)

    def told(self, place: int) -> Told:
        """Return the sentence at a place."""
        return self._told[place]

    def verdicts(self) -> list[Verdict]:
        """Return how each found sentence relates to the facts and to those found before it."""
        return [self._verdict(place) for place in range(self.known, len(self._told))]

    def _verdict(self, place: int) -> Verdict:
        text = self._told[place].text
        if text.endswith(("?", "？")) or is_chatter(text):
            return Verdict("noise")
        best = Verdict("new")
        for other in range(place):
            url = self._told[place].url
            is_page = bool(url) and url == self._told[other].url
            kind, score = relation(text, self._told[other].text, same_page=is_page)
            if not kind or (other >= self.known and kind != "confirmed"):
                continue
            if kind == "contradicted" and self._is_later(place, other):
                kind = "changed"
            found = Verdict(kind, other, 1.0 if kind == "confirmed" else min(1.0, score / 100))
            is_better = (found.status == "confirmed", found.share) > (
                best.status == "confirmed",
                best.share,
            )
            if best.status == "new" or is_better:
                best = found
        if best.status != "new":
            return Verdict("new", best.place, best.share) if best.place >= self.known else best
        if (stated := self._stated_change(place)) >= 0:
            return Verdict("changed", stated, 0.9)
        near, share = self._nearest(place)
        if near >= 0 and (status := self._by_statement(place, near, share)):
            return Verdict(status, near, share if status == "changed" else 0.5)
        return Verdict("new", near=near, near_share=share)

    def _stated_change(self, place: int) -> int:
        """Return the fact whose value a sentence says has become another ("from 13 to 11"), or -1."""
        new = _parsed(self._told[place].text)
        if not new.is_from_to:
            return -1
        best, most = -1, 1
        for other in range(self.known):
            old = _parsed(self._told[other].text)
            held = {k for k, v in old.values if k != values.DATE and (k, v) in new.values}
            come = {k for k, v in new.values if (k, v) not in old.values}
            shared = len(new.stems & old.stems)
            if held & come and shared > most and not _other_names(new, old):
                best, most = other, shared
        return best

    def _by_statement(self, place: int, near: int, share: float) -> str:
        """Return the relation that a sentence states itself: a plan came about, a value was wrong."""
        new, old = _parsed(self._told[place].text), _parsed(self._told[near].text)
        if _other_names(new, old) or (old.attached and not new.attached & old.attached):
            return ""
        was_planned = old.states[1] and not new.states[1] and not new.states[0]
        if share >= CAME_ABOUT and was_planned:
            return "changed"
        said = {(k, v) for k, v in old.values if k not in (values.DATE, values.VERSION)}
        is_denied = (
            new.is_correction and not old.is_correction and any(v in new.values for v in said)
        )
        return "contradicted" if is_denied and share >= 0.3 else ""

    def _is_later(self, place: int, other: int) -> bool:
        """Whether a sentence is of a page more than a week younger: then it corrects the other."""
        new, old = self._told[place], self._told[other]
        return bool(new.on and old.on and (new.on - old.on).days > 7)

    def _nearest(self, place: int) -> tuple[int, float]:
        """Return the fact that shares most of a sentence's rarer words and names, and how many."""
        new = _parsed(self._told[place].text)
        stems = new.stems
        weight = {stem: 1 / len(self._holding[stem]) for stem in stems}
        whole = sum(weight.values()) or 1.0
        best, most = -1, 0.0
        for other in range(self.known):
            old = _parsed(self._told[other].text)
            if _other_names(new, old):
                continue
            shared = stems & old.stems
            # A name that both speak of says more than any other word.
            share = sum(weight[stem] for stem in shared) / whole + 0.15 * len(new.names & old.names)
            if share > most:
                best, most = other, share
        return best, most

    def repeats(self, number: int, other: int) -> bool:
        """Whether two found sentences say the same."""
        texts = (self._told[self.known + n].text for n in (number, other))
        return relation(*texts)[0] == "confirmed"

    def tells_other_value(self, number: int, place: int) -> bool:
        """Whether a found sentence and a fact hold different values of one kind."""
        return bool(
            values.changed_kinds(self._told[place].text, self._told[self.known + number].text)
        )
