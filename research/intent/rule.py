"""What a topic's intent asks for, judged without a model: a rule of words, stated in docs/reference/limits.md.

Data flow: “only tell me if prices or a new entrant” -> `Asked`: kinds of news (price, entrant …),
names and other words, and what is not wanted -> one sentence of a delta -> a `Verdict` with its
reason.  Words are compared by their stems.  What the rule cannot read asks for everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from django.utils.text import get_text_list
from django.utils.translation import gettext as _

from memory.texts.text import shorten
from research.claims.terms import terms
from research.intent.kinds import KINDS, Kind

# Words that frame a wish and name nothing.
_FRAME_WORDS = (
    "tell told inform notify alert report show send mail ping let know hear want wish like need "
    "please only just when whenever if anything something everything nothing thing things news "
    "new newly change changes changed changing update me my us about regarding concerning around "
    "related relating involve involving interested interest care matter matters important "
    "significant major big real there case kind sort such happen happens come comes came say says "
    "mention mentions name names named get gets go goes going see look topic fact facts item "
    "items story stories source sources market first information"
)
_FRAME = frozenset(terms(_FRAME_WORDS))
_CONTRADICTS = frozenset(terms("contradict contradiction contradicts disagree conflict correction"))
_NOT = re.compile(
    r"\b(?:not|no|nor|never|except(?:\s+for)?|excluding|without|ignor(?:e|ing)|skip(?:ping)?"
    r"|leave\s+out|don[’']t|doesn[’']t|isn[’']t|aren[’']t)\b",
    re.IGNORECASE,
)
# “Nothing but prices”, “not unless prices change”: words of denial that ask for what follows.
_ONLY = re.compile(
    r"\b(?:nothing|no(?:t|\s+news)?(?:\s+\w+){0,3}?)\s+(?:but|except(?:\s+for)?|unless|other\s+than)\b"
    r"|\bunless\b|\b(?:but|only)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[.;!?。；！？]+(?=\s|$)|\n+")
_PART = re.compile(r",|，|、|/|\b(?:and|or|und|oder|et|ou|y|o)\b", re.IGNORECASE)
_CAPITAL = re.compile(r"[^\W\d_][\w.'&+-]*")
_ONLY_MARK, _NOT_MARK = "\x01", "\x02"
LEAST_ALIKE = 0.5  # share of an example's words from which a sentence is such a thing


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an item is told, why, and who judged (`DeltaItem.Judge`; empty: nobody did)."""

    tell: bool
    why: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that is named: kinds of news, proper names, and other words."""

    kinds: tuple[Kind, ...] = ()
    names: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    shown: str = ""

    def __bool__(self) -> bool:
        return bool(self.kinds or self.names or self.words)


@dataclass(frozen=True, slots=True)
class Asked:
    """What an intent asks for; empty if the rule can read nothing in it."""

    wanted: list[Part] = field(default_factory=list)
    unwanted: list[Part] = field(default_factory=list)
    contradictions: bool = False

    def __bool__(self) -> bool:
        return bool(self.wanted or self.unwanted or self.contradictions)

    @property
    def in_words(self) -> str:
        """Return what is asked for as people read it: `price, new entrant or “Toyota”`."""
        named = list(dict.fromkeys(part.shown for part in self.wanted))
        if self.contradictions:
            named.append(_("contradictions"))
        return str(get_text_list(named[:8], _("or")))


def read(intent: str, *, about: str = "") -> Asked:
    """Return what `intent` asks for; words of `about`, the topic's title, tell nothing apart."""
    marked = _NOT.sub(_NOT_MARK, _ONLY.sub(_ONLY_MARK, intent))
    asked = Asked(contradictions=bool(_CONTRADICTS & set(terms(intent))))
    common = _FRAME | _CONTRADICTS | set(terms(about))
    for sentence in _SENTENCE.split(marked):
        is_wanted, begins = True, True
        for piece in re.split(f"([{_ONLY_MARK}{_NOT_MARK}])", sentence):
            if piece in (_ONLY_MARK, _NOT_MARK):
                is_wanted = piece == _ONLY_MARK
                continue
            parts = []
            for text in _PART.split(piece):
                parts.append(_part(text, common, begins=begins))
                begins = begins and not text.strip()
            (asked.wanted if is_wanted else asked.unwanted).extend(filter(None, parts))
    # Said a thousand times it is asked for once: each part is held against each sentence.
    asked.wanted[:] = dict.fromkeys(asked.wanted)
    asked.unwanted[:] = dict.fromkeys(asked.unwanted)
    return asked


def _part(text: str, common: Iterable[str], *, begins: bool) -> Part:
    kinds = tuple(kind for kind in KINDS if kind.is_named_in(text))
    of_kinds = {term for kind in kinds for term in kind.triggers}
    left = [term for term in terms(text) if term not in common and term not in of_kinds]
    named_in = _names_in(text, begins=begins)
    names = frozenset(term for term in left if term in named_in)
    words = frozenset(left) - names
    # Beside a kind, only a name narrows it: “prices of Toyota”, but “a price that drops”.
    words = frozenset() if kinds else words
    named = [*(str(kind.label) for kind in kinds)]
    if names or words:
        named.append(f"“{shorten(text.strip(), 60)}”")
    return Part(kinds, names, words, ": ".join(named))


def _names_in(text: str, *, begins: bool) -> set[str]:
    """Return the terms of names: words with a capital, but the first of a sentence (`begins`).

    Written like CATL or iPhone even that one is a name.
    """
    found = _CAPITAL.findall(text)
    by_chance = begins and bool(found) and found[0].istitle()
    named = [word for word in found[by_chance:] if word != word.lower()]
    return {term for word in named for term in terms(word)}


def verdict(
    asked: Asked, sentence: str, *, status: str = "", examples: Sequence[str] = (), about: str = ""
) -> Verdict:
    """Return whether a sentence is told; `examples` are such that were asked for too."""
    said = _said(sentence)
    for example in examples:
        if _is_such(said, sentence, example, about):
            words = _("like what you asked to be told: “%(text)s”")
            return Verdict(True, words % {"text": shorten(example, 120)}, "rule")
    for part in asked.unwanted:
        if _meets(part, said, sentence):
            return Verdict(False, _("you did not ask for %(what)s") % {"what": part.shown}, "rule")
    if asked.contradictions and status == "contradicted":
        return Verdict(True, _("it contradicts what was known"), "rule")
    for part in asked.wanted:
        if _meets(part, said, sentence):
            return Verdict(True, _("it speaks of %(what)s") % {"what": part.shown}, "rule")
    if asked.wanted or asked.contradictions:
        why = _("it speaks of nothing that you asked for: %(what)s") % {"what": asked.in_words}
        return Verdict(False, why, "rule")
    return Verdict(True, _("it is none of what you did not want"), "rule")


@lru_cache(maxsize=512)
def _said(sentence: str) -> frozenset[str]:
    return frozenset(terms(sentence))


def _meets(part: Part, said: frozenset[str], sentence: str) -> bool:
    if part.names and not part.names & said:
        return False
    if part.kinds:
        return any(kind.is_told_in(sentence) for kind in part.kinds)
    if part.names:
        return True
    # Of several words together (“cycle life of cells”) half are enough: sentences vary.
    return len(part.words & said) * 2 >= len(part.words)


def _is_such(said: frozenset[str], sentence: str, example: str, about: str) -> bool:
    """Whether a sentence is such a thing as the example: of one kind with it, or in its words."""
    common = set(terms(about))
    theirs = _said(example) - common
    if theirs and len(theirs & said) >= LEAST_ALIKE * len(theirs):
        return True
    kinds = [kind for kind in KINDS if kind.is_told_in(example)]
    shared = [kind for kind in kinds if kind.is_told_in(sentence)]
    return bool(kinds) and len(shared) == len(kinds)
