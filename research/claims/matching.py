"""Whether a sentence repeats an earlier one, changes its value, or is new.

Both are parsed into numbers, states, names and the words around them. When in doubt, a sentence is
new, because one false "changed" costs more trust than ten misses. Measured by `python -m
benchmarks.matching`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Literal

from rapidfuzz import fuzz

from beacon_site.text import values
from beacon_site.text.cleaning import match_key, normal_form, one_line, without_citations
from beacon_site.text.sentences import language_of
from beacon_site.text.values import is_same_release
from research.claims.states import ONE_HOLDER, STATES
from research.claims.terms import is_wide_text, terms

SAME = 85  # token_set_ratio (ratio for wide characters) from which two texts are the same statement
# The share of the frame's weight that two statements about one thing have in common.
FRAME = 0.6
INNER_FRAME = 0.8
OTHER_HEAD = 0.75
SHARED = 0.2  # below this share of the shorter sentence's words, another isn't a change of it
SHARED_BY_STATES = 0.3  # the same, if only states differ
LONG_RUN = 5  # with this many characters before a number, text without spaces names one quantity


@dataclass(frozen=True, slots=True)
class Match:
    """The earlier sentence (its place in the list), and how they relate. `score` is 0 to 100."""

    index: int
    kind: Literal["confirmed", "changed"]
    score: float


def match(sentence: str, previous: Sequence[str]) -> Match | None:
    """Return the earlier statement that `sentence` confirms or changes, or None if it is new.

    "confirmed" means nearly the same words with the same numbers and state. "changed" means the
    same subject and frame with another number, date, version, negation or state. A confirmation
    takes precedence over a change, then the higher score, then the earlier sentence.
    """
    new = parsed(sentence)
    olds = [parsed(text) for text in previous]
    rarity = _rarity(new, olds)
    best: Match | None = None
    for index, old in enumerate(olds):
        found = _compare(new, old, rarity)
        if found is None:
            continue
        kind, score = found
        if best is None or (kind == "confirmed", score) > (best.kind == "confirmed", best.score):
            best = Match(index, kind, score)
    return best


@lru_cache(maxsize=4_096)
def parsed(sentence: str) -> ParsedSentence:
    return parse_statement(sentence)


def _rarity(new: ParsedSentence, olds: Sequence[ParsedSentence]) -> dict[str, float]:
    """Weigh each term by its rarity in the earlier sentences. The topic's name says little."""
    holding = Counter(term for old in olds for term in old.frame)
    total = len(olds) + 1
    known = set(holding) | set(new.frame)
    return {term: 0.3 + math.log(1 + total / (1 + holding[term])) for term in known}


def _compare(
    new: ParsedSentence, old: ParsedSentence, rarity: dict[str, float]
) -> tuple[Literal["confirmed", "changed"], float] | None:
    if new.key == old.key:
        return "confirmed", 100.0
    if not new.key or not old.key or new.is_wide != old.is_wide:
        return None
    ratio = _ratio(new, old)
    same_states = _states_agree(new, old)
    if ratio >= SAME and new.numbers == old.numbers and same_states and _same_subject(new, old):
        return "confirmed", ratio
    if _other_subject(new, old):
        return None
    alike, inner = _frames(new, old, rarity)
    if same_states and _numbers_agree(new, old) and not _other_names(new, old):
        return ("confirmed", 100 * inner) if _is_restated(new, old, alike, inner) else None
    if _is_changed(new, old, alike, inner):
        return "changed", round(100 * max(alike, 0.5), 1)
    return None


def _ratio(new: ParsedSentence, old: ParsedSentence) -> float:
    scorer = fuzz.ratio if new.is_wide else fuzz.token_set_ratio
    ratio = scorer(new.key, old.key)
    short, long = sorted((len(new.key), len(old.key)))
    # A few words of a long sentence aren't the same statement.
    return ratio if short >= 0.5 * long else min(ratio, SAME - 1)


# Without these words, a sentence says the opposite: planned or not, over or not, negated or not.
_TELLING = (("stage", "planned"), ("stage", "dropped"), ("life", "ended"), ("negation", "no"))


def _states_agree(new: ParsedSentence, old: ParsedSentence) -> bool:
    ours, theirs = dict(new.states), dict(old.states)
    if any((ours.get(name) == state) != (theirs.get(name) == state) for name, state in _TELLING):
        return False
    return all(ours[name] == theirs[name] for name in ours.keys() & theirs.keys())


def _other_names(new: ParsedSentence, old: ParsedSentence) -> bool:
    """Return True if each has a name that the other doesn't."""
    ours = {name for name in new.names if name not in old.text.casefold()}
    theirs = {name for name in old.names if name not in new.text.casefold()}
    return bool(ours and theirs)


def _same_subject(new: ParsedSentence, old: ParsedSentence) -> bool:
    return not _other_names(new, old) and (new.is_wide or _same_head(new, old))


def _same_head(new: ParsedSentence, old: ParsedSentence) -> bool:
    """Whether the other sentence contains the opening of this one, or both name the same version."""
    ours, theirs = _head(new), _head(old)
    if ours in old.frame and theirs in new.frame:
        return True
    return bool(new.subject & old.subject)


def _head(stated: ParsedSentence) -> str:
    return next((term for term in stated.frame if not term.startswith("§")), "")


def _other_subject(new: ParsedSentence, old: ParsedSentence) -> bool:
    """Whether they are about different things, such as version 12 and 13, or two companies."""
    if new.is_one and old.is_one:
        return _other_names(new, old) and not new.names & old.names
    if _other_names(new, old):
        return True
    if not new.subject or not old.subject:
        return False
    return not any(is_same_release(left, right) for left in new.subject for right in old.subject)


def _frames(
    new: ParsedSentence, old: ParsedSentence, rarity: dict[str, float]
) -> tuple[float, float]:
    """Return the weight that the frames share, of both (Dice) and of the smaller one, each 0 to 1."""

    def weight(terms: set[str]) -> float:
        return sum(rarity.get(term, 1.0) for term in terms)

    # A state that only one side mentions doesn't count as a missing word.
    marks = {term for term in set(new.frame) ^ set(old.frame) if term.startswith("§")}
    ours, theirs = set(new.frame) - marks, set(old.frame) - marks
    shared, left, right = weight(ours & theirs), weight(ours), weight(theirs)
    if not left or not right:
        return 0.0, 0.0
    return 2 * shared / (left + right), shared / min(left, right)


def _numbers_agree(new: ParsedSentence, old: ParsedSentence) -> bool:
    """Return True if there is no number that differs between the two."""
    if new.numbers == old.numbers:
        return True
    if new.numbers < old.numbers:
        return True
    # Another figure isn't a change if the known sentence already had one.
    return old.numbers < new.numbers and len(old.numbers - old.subject) > 0


def _is_restated(new: ParsedSentence, old: ParsedSentence, alike: float, inner: float) -> bool:
    shared = len(set(new.frame) & set(old.frame))
    if new.is_wide:
        return shared >= 4 and (alike >= OTHER_HEAD or inner >= INNER_FRAME)
    if not _same_subject(new, old):
        return False
    shared_numbers = (new.numbers - new.subject) & (old.numbers - old.subject)
    if new.subject & old.subject and len(shared_numbers) >= 2 and _same_event(new, old):
        return True
    enough = bool(shared_numbers) or alike >= INNER_FRAME
    return enough and shared >= 3 and (alike >= OTHER_HEAD or (inner >= 0.9 and alike >= FRAME))


def _same_event(new: ParsedSentence, old: ParsedSentence) -> bool:
    """Return True if both report the same stage or support status of their subject."""
    ours, theirs = dict(new.states), dict(old.states)
    return any(name in ours and ours[name] == theirs.get(name) for name in ("life", "stage"))


def _is_changed(new: ParsedSentence, old: ParsedSentence, alike: float, inner: float) -> bool:
    if new.is_wide:
        return alike >= OTHER_HEAD or _other_measure(new.text, old.text)
    if _life_changed(new, old) or _stage_changed(new, old, inner):
        return True
    words = {term for term in set(new.frame) & set(old.frame) if not term.startswith("§")}
    if len(words) < 2:
        return False
    same_head = _same_head(new, old)
    if new.is_one and old.is_one and same_head and len(words) >= 3 and alike >= 0.5:
        return True
    return alike >= (FRAME if same_head else OTHER_HEAD) or (
        same_head and inner >= INNER_FRAME and len(words) >= 4 and alike >= 0.5
    )


def _other_measure(new: str, old: str) -> bool:
    """Whether a Chinese or Japanese sentence gives another value for a quantity that both name.

    The characters before a number name the quantity, because there are no spaces between words.
    Either a long run of them is in both, or the new sentence repeats the old value next to its own
    ("from 0.2 to 1").
    """
    ours, theirs = _measures(new), _measures(old)
    for value, unit, before in theirs:
        others = [m for m in ours if m[1] == unit and m[0] != value]
        if any(_run(other[2], before) >= LONG_RUN for other in others):
            return True
        is_repeated = any(m[:2] == (value, unit) and _run(m[2], before) >= 3 for m in ours)
        if others and is_repeated:
            return True
    return False


def _measures(text: str) -> list[tuple[str, str, str]]:
    undated = values.without_dates(normal_form(text))
    return [
        (match[1], match[2], re.split(r"[\W\d]+", undated[: match.start()].rstrip())[-1])
        for match in _MEASURE.finditer(undated)
    ]


def _run(left: str, right: str) -> int:
    return SequenceMatcher(None, left, right, autojunk=False).find_longest_match().size


def _life_changed(new: ParsedSentence, old: ParsedSentence) -> bool:
    """Return True if they give different support states or dates for one version."""
    if not new.subject & old.subject:
        return False
    return "life" in dict(new.states) and "life" in dict(old.states)


def _stage_changed(new: ParsedSentence, old: ParsedSentence, inner: float) -> bool:
    """Return True if something planned for one version has happened, or vice versa."""
    ours, theirs = dict(new.states).get("stage"), dict(old.states).get("stage")
    if not ours or not theirs or ours == theirs or not new.subject & old.subject:
        return False
    dates = (new.numbers - new.subject) & (old.numbers - old.subject)
    return inner >= FRAME or (inner >= 0.4 and len(dates) >= 2)


_SPELLED_OUT = "two three four five six seven eight nine ten eleven twelve"
_SPELLED = {word: str(number) for number, word in enumerate(_SPELLED_OUT.split(), start=2)}
_SPELLED_WORD = re.compile(rf"\b(?:{'|'.join(_SPELLED)})\b")

_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’»)\]]*\s*(?:\[\d+\]\s*)*$")
_MEASURE = re.compile(r"(\d+(?:[.,]\d+)*)\s*(%|[\u3040-\u30ff\u4e00-\u9fff]{1,2})")

# The value that a sentence says is no longer so: the 5 of "falls from 5 kg to 3 kg". A range, such as
# "open from 9 to 17", has no verb of change. Whole forms are listed, because their stems also begin
# words such as "goods" and "movies", and forms that are mostly nouns are left out ("montant").
_VALUE = r"(?:[€$£¥]\s?)?\d[\d.,:]*(?:\s?[^\W\d]{1,12}|\s?[%€$£¥°]){0,2}?"
_CHANGES = (
    r"adjusts?|change[sd]?|climb(?:s|ed)?|cuts?|decrease[sd]?|decline[sd]?|drop(?:s|ped)?|expands?"
    r"|extends?|(?<!in )(?<!in the )fall|falls|fallen|fell|grew|grows?|grown|halve[sd]?|increase[sd]?"
    r"|jump(?:s|ed)?|lower(?:s|ed)|raise[sd]?|reduce[sd]?|rises?|risen|rose|shift(?:s|ed)?|shortens?"
    r"|shr[aiu]nk|shrinks|shrunken"
)
# These are also used as adjectives ("double rooms", "extended menu"), or without any change ("goes to
# the station"), so an object needs an article or the like.
_MOVES = (
    r"go|goes|going|gone|went|move[sd]?|moving|double[sd]?|doubling|adjust(?:ed|ing)|changing|climbing"
    r"|cutting|decreasing|declining|dropping|expand(?:ed|ing)|extend(?:ed|ing)|falling|growing|halving"
    r"|increasing|jumping|lower(?:ing)?|raising|reducing|rising|shifting|shorten(?:ed|ing)|shrinking"
)
_EN_OBJECT = r"the|an?|its|their|our|his|her|this|that|these|those|all|up|down|back|again|[a-z]+ly"
_FR_CHANGES = (
    r"pass(?:e|ent|er|era|eront|é|ée|és|ées|ait|aient|ant)|(?<!une )(?<!la )(?<!en )baisse"
    r"|baiss(?:ent|er|era|eront|é|ée|és|ées|ait|aient)|augment(?:e|ent|er|era|eront|é|ée|és|ées|ait|aient)"
    r"|diminu(?:e|ent|er|era|eront|é|ée|és|ées|ait|aient)"
    r"|rédui(?:t|te|ts|tes|re|ra|ront|sent|sait|saient)|rel(?:ève|èvent|èvera|èveront)"
    r"|relev(?:er|é|ée|és|ées|ait|aient)|port(?:er|era|eront|é|ée|és|ées|ait|aient|ant)"
    r"|porte(?=\s(?:l[ea]s?|l[’']|son|sa|ses|leurs?)\b)|monte|mont(?:ent|er|era|eront|é|ait|aient)"
)
_ES_CHANGES = (
    r"pas(?:a|an|ar|ará|arán|ó|aron|aba|aban|ando)|h[ae]n?\spasado"
    r"|(?<!planta )(?<!temporada )baja|baj(?:an|ar|ará|arán|ó|aron|aba|aban|ando|ado)"
    r"|sub(?:e|en|ir|irá|irán|ió|ieron|ía|ían|iendo|ido)"
    r"|aument(?:a|an|ar|ará|arán|ó|aron|aba|aban|ando|ado)"
    r"|disminu(?:ye|yen|ir|irá|irán|yó|yeron|ía|ían|yendo|ido)"
    r"|reduc(?:e|en|ir|irá|irán|ía|ían|iendo)|reduj(?:o|eron)|h[ae]n?\sreducido"
    r"|cambi(?:a|an|ar|ará|arán|ó|aron|aba|aban|ando|ado)"
    r"|ampl(?:ía|ían|iar|iará|iarán|ió|iaron|iaba|iaban|iando)|h[ae]n?\sampliado"
)
_ZH_CHANGES = (
    r"上[升涨调浮]|下[降调跌滑]|提[高升前]|提[到至]|调[整高低]|改[为成]|增[加长]|减[少小]|升高|降低|扩大|延[长后迟]|缩[短小减]"
    r"|[升降增减涨缩调改][到至为]"
)
# Between the verb and the value, these make it a range of times: "extended opening hours from 9 to 17".
_HOURS = (
    r"hours|open(?:s|ed|ing)?|heures|horaires?|ouverte?s?|ouverture|ouvre(?:nt)?|horas|horarios?"
    r"|abiert[ao]s?|abren?|apertura"
)
_GAP = rf"(?:(?!\b(?:{_HOURS})\b)[^.;:]){{0,80}}?"
_FORMER = re.compile(
    rf"\b(?:(?:{_CHANGES})(?:\s{_GAP})?|(?:{_MOVES})(?:\s(?:{_EN_OBJECT})\b{_GAP})?)"
    rf"\sfrom\s(?P<en>{_VALUE})\s(?:(?:up|down)\s)?to\b"
    rf"|\bvon\s(?P<de>{_VALUE})\sauf\b"
    rf"|\b(?:{_FR_CHANGES})(?:\s{_GAP})?\sde\s(?P<fr>{_VALUE})\sà\b"
    rf"|\b(?:{_ES_CHANGES})(?:\s{_GAP})?\sde\s(?P<es>{_VALUE})\sa\b"
    r"|\b(?:previously|formerly|instead of|rather than|(?:up|down) from|zuvor|vorher|bisher|statt|anstatt"
    rf"|au lieu de|auparavant|en lugar de|en vez de|antes)\s(?P<before>{_VALUE})(?!\w)"
    rf"|[从由](?P<zh>\d[\d.,]*\s?[^\W\d]{{0,4}}?%?)(?={_ZH_CHANGES})"
    r"|(?P<ja>\d[\d.,]*\s?[^\W\d]{0,4}?%?)から(?=\s?\d[\d.,]*\s?[^\W\d]{0,4}?%?(?:に|へ)(?:変|引|値|減|増|上|下|短|延|拡|縮))"
)

# Words that become a name with the number after them: "version 13", "line 7".
_NUMBERED = (
    "version|release|model|phase|stage|level|chapter|article|batch|line|route|flight|part|unit|type"
    "|series|class|round|section|volume|issue|season|episode|beta|candidate|number|no\\."
)
_DESIGNATED = re.compile(
    rf"\b(?:[A-Z][\w.+#&-]*|(?:(?i:{_NUMBERED}))s?)"
    r"\s+v?(\d+(?:\.\d+)*)\b(?!\s*(?:%|percent|per cent|million|billion|thousand))"
)
_NAME = re.compile(r"(?<![.!?:]\s)(?<!^)\b[A-Z][\w&+#-]*")
# "2025年，…" at the start of a clause says which year a figure is from.
_SPOKEN_OF_YEAR = re.compile(r"(?:^|[，,：:])(\d{4})年(?!\d)")
# The first word is a name if it is written like one, or is before a number or another name.
_FIRST_NAME = re.compile(r"(?:[A-Z]\w*[A-Z_]\w*|[A-Z]\w+(?=\s+(?:[A-Z]|v?\d)))")
_NOT_NAMES = frozenset(
    (
        "release candidate beta alpha version final the a in on at of for since after before and by"
    ).split()
)
# Words that can come before the subject's name: "The final release of PostgreSQL 17 …".
_BEFORE_NAMES = (
    "the a an of for in with final first second third major minor new version release beta "
    "candidate support database project latest current newest stable and users operators "
    "published released announced tram bus train"
)
_SMALL = frozenset(_BEFORE_NAMES.split())


@dataclass(frozen=True, slots=True)
class ParsedSentence:
    """A parsed sentence.

    `numbers` contain dates as year, `m<month>` and `day<day>`, and shares as `31%`, without those that
    the sentence says are no longer so. `subject` are
    the numbers that name the subject (the 13 of "Version 13 …"). `states` maps dimensions to states
    (life: ended). `frame` are the remaining terms, each once, with a mark for every dimension.
    `names` are the proper names. `is_one` means that only one thing can have its role ("the current
    release").
    """

    text: str
    key: str
    numbers: frozenset[str]
    subject: frozenset[str]
    states: tuple[tuple[str, str], ...]
    frame: tuple[str, ...]
    names: frozenset[str]
    is_one: bool
    is_wide: bool


def parse_statement(sentence: str) -> ParsedSentence:
    """Parse a sentence, ignoring citations and markup."""
    text = one_line(without_citations(sentence))
    folded = normal_form(text).casefold()
    folded = _SPELLED_WORD.sub(lambda match: _SPELLED[match.group()], folded)
    rest = values.without_values(folded)
    states = states_of(rest)
    marks = [f"§{dimension}" for dimension in states]
    for _dimension, _state, pattern in STATES:
        rest = pattern.sub(" ", rest)
    frame = [term for term in terms(rest, language_of(text)) if not term[0].isdigit()]
    return ParsedSentence(
        text=text,
        key=match_key(text),
        numbers=values.numbers(_without_former(folded)),
        subject=_subject(text),
        states=tuple(sorted(states.items())),
        frame=tuple(dict.fromkeys([*marks, *frame])),
        names=_names(text),
        is_one=ONE_HOLDER.search(folded) is not None,
        is_wide=is_wide_text(text),
    )


def _without_former(text: str) -> str:
    """Return a text without the values that it says are no longer so."""
    for match in reversed(list(_FORMER.finditer(text))):
        start, end = next(match.span(name) for name, value in match.groupdict().items() if value)
        text = f"{text[:start]} {text[end:]}"
    return text


def states_of(text: str) -> dict[str, str]:
    """Return the state in each dimension. The first one in the text counts."""
    first: dict[str, tuple[int, str]] = {}
    for dimension, state, pattern in STATES:
        found = pattern.search(text)
        if found and (dimension not in first or found.start() < first[dimension][0]):
            first[dimension] = (found.start(), state)
    return {dimension: state for dimension, (_place, state) in first.items()}


def _subject(text: str) -> frozenset[str]:
    """Return the numbers that name the subject: those next to a name, probably before the verb."""
    head = " ".join(text.split()[:12])
    found = _SPOKEN_OF_YEAR.findall(text)
    for match in _DESIGNATED.finditer(head):
        if match.group().split()[0].casefold().rstrip(".") in values.MONTHS:
            continue
        if any(word.islower() and word not in _SMALL for word in head[: match.start()].split()[1:]):
            break
        found.append(match[1])
    return frozenset(found)


def _names(text: str) -> frozenset[str]:
    found = {match.group().casefold() for match in _NAME.finditer(text)}
    first = _FIRST_NAME.match(text)
    if first is not None:
        found.add(first.group().casefold())
    return frozenset(name for name in found - _NOT_NAMES if name not in values.MONTHS)


def is_same_subject(new_text: str, old_text: str) -> bool:
    """Whether a sentence can be a change of another: the same subject, with something different.

    They share some words, no name or number of a thing distinguishes them, and they differ in a
    value of one kind or in a state such as planned, over or denied. A record such as a table row
    can only be changed by a record or sentence with the same frame.
    """
    new, old = parsed(new_text), parsed(old_text)
    if new.is_wide != old.is_wide or _other_names(new, old):
        return False
    found = match(new_text, [old_text])
    if found is not None:
        return found.kind == "changed"
    if not (_SENTENCE_END.search(new_text) and _SENTENCE_END.search(old_text)):
        return False
    shared = 1.0 if new.is_wide else _shared(new, old)
    if shared < SHARED:
        return False
    if not _states_agree(new, old):
        return shared >= SHARED_BY_STATES and bool(new.subject) == bool(old.subject)
    if _other_subject(new, old) and not (new.is_one and old.is_one):
        return False
    return bool(values.changed_kinds(old.text, new.text))


def _shared(new: ParsedSentence, old: ParsedSentence) -> float:
    """Return the share of the shorter sentence's words that the other also has."""
    ours, theirs = ({t for t in one.frame if not t.startswith("§")} for one in (new, old))
    return len(ours & theirs) / max(1, min(len(ours), len(theirs)))
