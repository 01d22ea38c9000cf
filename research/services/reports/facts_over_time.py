"""Facts over time: each row is a question, each block an answer, from one run to another.

Data flow: facts of one page of chains, with their turns (`research.services.facts.history`) -> blocks between the
topic's saved runs -> table rows, in which a run and the time after it have a column each.
"""

from __future__ import annotations

import difflib
import math
import re
import uuid
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Case, F, IntegerField, Max, Min, Value, When
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from beacon_site.text import values
from beacon_site.text.cleaning import cut, shorten
from beacon_site.text.cleaning import width as width_of
from memory.models import Topic, TopicFact
from research.services.facts.history import FactHistory, SavedRun, Turn, histories_of

PAGE = 40  # questions
MAX_NAME_LENGTH = 60
MAX_PARTS = 2  # that differ from the other answers
MIN_SHARED = 0.5  # share of an answer's words that the others must have to show only what differs
MAX_TICKS = 8
_TOKEN = re.compile(r"\w+(?:[.,:/-]\w+)*|\S")
# What a single sentence is about: what is before its verb or colon.
_SUBJECT = re.compile(
    r"(.{8,60}?)(?::\s|\s(?:is|are|was|were|will|has|have|had|can|came|comes|become|becomes|became|"
    r"reached|reaches|receives?|received|ends?|ended|costs?|cost|includes?|supports?|requires?|adds?|"
    r"added|pays?|paid|makes?|made|uses?|takes?|took|offers?|sells?|sold|needs?|grew|rose|fell|removes?|removed|repairs?|fixes|released|publish(?:es|ed)|said|says|plans?|planned|"
    r"ist|sind|wird|war|hat|kostet)\b)"
)
# Words that don't make a name, at its ends.
_SMALL = frozenset(
    (
        "a an the of in on at to for from by with and or is are was were be has have had it "
        "its that this as since until will can no not der die das ein eine und ist sind im am "
        "von zu mit"
    ).split()
)


@dataclass(slots=True)
class Block:
    """One answer: the fact, its text then, and the columns between which it was known."""

    fact: TopicFact
    text: str
    start: int
    end: int  # exclusive
    kind: str  # now, past, outranked, gone, contra or struck
    began: str
    ended: str
    label: str = ""
    is_later: bool = False

    @property
    def span(self) -> int:
        return self.end - self.start

    @property
    def name(self) -> str:
        """Return the accessible name: the text, and since and until when it was known."""
        params = {"text": self.text, "began": self.began, "ended": self.ended}
        if not self.ended:
            return _("%(text)s. Since %(began)s.") % params
        if self.kind in (TopicFact.RetiredAs.OUTRANKED, TopicFact.RetiredAs.GONE):
            params["how"] = str(TopicFact.RetiredAs(self.kind).label)
            return _("%(text)s. From %(began)s until %(ended)s, then %(how)s.") % params
        return _("%(text)s. From %(began)s until %(ended)s.") % params


Cell = tuple[int, Block | None]  # how many columns a block, or the time without one, takes


@dataclass(slots=True)
class Question:
    """One row: a chain of facts that replaced one another. Blocks that overlap need further lines."""

    chain: uuid.UUID
    newest: TopicFact
    name: str
    blocks: list[Block]
    lines: list[list[Cell]] = field(default_factory=list)
    is_named: bool = False  # by a person

    @property
    def is_later(self) -> bool:
        """Return True if nothing of it was known yet."""
        return all(block.is_later for block in self.blocks)


def day_of(at: datetime) -> str:
    return date_format(timezone.localtime(at), "j M Y")


def slot_of(runs: Sequence[SavedRun], until: datetime | None) -> int:
    """Return how many runs had been saved by then. None is the present."""
    if until is None:
        return len(runs)
    return bisect_left([run.at for run in runs], until)


def date_of_slot(runs: Sequence[SavedRun], slot: int) -> str:
    """Return the date-time after this many runs, as in a URL, or "" for the present.

    A run saves its facts within a minute of its time.
    """
    if slot >= len(runs) or not runs:
        return ""
    if slot <= 0:
        at = runs[0].at - timedelta(seconds=1)
    else:
        just_before = runs[slot].at - timedelta(milliseconds=1)
        at = min(runs[slot - 1].at + timedelta(minutes=1), just_before)
    return f"{at.astimezone(timezone.get_current_timezone()):%Y-%m-%dT%H:%M:%S.%f%z}"


def over_time(
    topic: Topic, runs: Sequence[SavedRun], until: datetime | None, *, page: int
) -> dict[str, Any]:
    """Return the context of a page of questions, those with current answers first. Four queries.

    `slot` runs are before the date line. `at` is where the line is in percent, as text, because SVG
    has no decimal comma.
    """
    current = Case(When(state=TopicFact.State.CURRENT, then=Value(1)), default=Value(0))
    facts = TopicFact.objects.filter(topic=topic).live()
    # Not what ranked below ten others in the run that found it, so that it was never known.
    facts = facts.exclude(state=TopicFact.State.RETIRED, retired_run=F("first_run"))
    rows = (
        facts.order_by()
        .values("chain")
        .annotate(
            stands=Max(current, output_field=IntegerField()),
            place=Min(Case(When(state=TopicFact.State.CURRENT, then="position"))),
            last=Max("created"),
        )
        .order_by("-stands", "place", "-last", "chain")
    )
    found = [row["chain"] for row in rows]  # counting them is one more query, and no faster
    pages = max(1, math.ceil(len(found) / PAGE))
    page = min(max(1, page), pages)
    chains = found[PAGE * (page - 1) : PAGE * page]
    by_chain: dict[uuid.UUID, list[FactHistory]] = defaultdict(list)
    for life in histories_of(facts.filter(chain__in=chains).order_by("created", "pk"), runs):
        by_chain[life.fact.chain].append(life)
    slot = slot_of(runs, until)
    questions = [_question(by_chain[chain], runs, slot) for chain in chains if by_chain[chain]]
    _tell_apart(questions)
    later = facts.filter(created__gte=until).count() if until else 0
    places = _slot_headings(runs)
    return {
        "runs": runs,
        "slot": slot,
        "slots": places,
        "place": places[slot],
        "at": f"{100 * slot / max(1, len(runs)):.2f}",
        "columns": 2 * len(runs),
        "ticks": _ticks(runs),
        "questions": questions,
        "kinds": {block.kind for question in questions for block in question.blocks},
        "page": page,
        "pages": pages,
        "earlier_page": page - 1,
        "later_page": page + 1 if page < pages else 0,
        "later": later,
    }


def _slot_headings(runs: Sequence[SavedRun]) -> list[str]:
    """Return the heading at each position of the date line, the present last."""
    return [
        _("Known before Run #%(number)d") % {"number": runs[0].number},
        *(
            _("Known on %(day)s, after Run #%(number)d")
            % {"day": day_of(run.at), "number": run.number}
            for run in runs[:-1]
        ),
        _("What Beacon knows now"),
    ]


def _ticks(runs: Sequence[SavedRun]) -> list[tuple[str, SavedRun]]:
    """Return evenly chosen runs to label, with the first and the last, and where in percent."""
    count = len(runs)
    places = sorted({round(n * (count - 1) / (MAX_TICKS - 1)) for n in range(MAX_TICKS)})
    return [(f"{100 * (place + 0.5) / count:.2f}", runs[place]) for place in places]


def _tell_apart(questions: Sequence[Question]) -> None:
    """Name questions that share a name after their newest answers, unless a person named them."""
    shared = Counter(question.name.casefold() for question in questions)
    for one in questions:
        if shared[one.name.casefold()] > 1 and not one.is_named:
            one.name = _shortened_name(one.newest.text)
            for block in one.blocks:
                if block.text == one.newest.text:
                    block.label = one.name  # it isn't said again


def _question(lives: Sequence[FactHistory], runs: Sequence[SavedRun], slot: int) -> Question:
    newest = next(
        (one.fact for one in reversed(lives) if one.fact.state == TopicFact.State.CURRENT),
        lives[-1].fact,
    )
    blocks = [block for life in lives for block in _blocks(life, runs)]
    given = next((one.fact.question for one in reversed(lives) if one.fact.question), "")
    texts = [block.text for block in reversed(blocks)] or [newest.text]
    shared = _shared(texts)
    name = _name(texts[0], shared)
    question = Question(newest.chain, newest, given or name, blocks, is_named=bool(given))
    for block in blocks:
        block.label = _label(block.text, shared, name)
        block.is_later = block.start >= 2 * slot
    question.lines = _as_lines(blocks, 2 * len(runs))
    return question


def _blocks(life: FactHistory, runs: Sequence[SavedRun]) -> list[Block]:
    """Return the times in which the fact was known or marked as wrong, each with its text."""
    numbers = [run.number for run in runs]
    blocks: list[Block] = []
    turns: list[Turn | None] = [*life.turns, None]
    begun: Turn | None = None
    for turn in turns:
        if begun is not None and (turn is None or (turn.text, _kind(turn)) != _same(begun)):
            block = _block(life.fact, begun, turn, numbers, runs)
            if block.span > 0:
                blocks.append(block)
            begun = None
        if turn is not None and begun is None and _kind(turn):
            begun = turn
    return blocks


def _same(turn: Turn) -> tuple[str, str]:
    return turn.text, _kind(turn)


def _kind(turn: Turn) -> str:
    if turn.is_known:
        return "known"
    is_struck = turn.state == TopicFact.State.STRUCK and not turn.is_trashed
    return "struck" if is_struck else ""


def _block(
    fact: TopicFact,
    begun: Turn,
    ended: Turn | None,
    numbers: Sequence[int],
    runs: Sequence[SavedRun],
) -> Block:
    start = _column(begun.place, numbers)
    end = 2 * len(runs) if ended is None else _column(ended.place, numbers)
    kind = "now" if ended is None else "past"
    if ended is not None and ended.state == TopicFact.State.RETIRED:
        kind = ended.retired_as.replace(TopicFact.RetiredAs.REPLACED, "past") or "past"
    if _kind(begun) == "struck":
        kind = "struck"
    elif ended is None and fact.is_contradicted:
        kind = "contra"
    ends = "" if ended is None else _when(ended.place, numbers, runs)
    return Block(fact, begun.text, start, end, kind, _when(begun.place, numbers, runs), ends)


def _column(place: float, numbers: Sequence[int]) -> int:
    """Return the column of a run, or of the time after it."""
    before = bisect_right(numbers, int(place))
    return max(0, 2 * before - (1 if place % 1 else 2))


def _when(place: float, numbers: Sequence[int], runs: Sequence[SavedRun]) -> str:
    before = bisect_right(numbers, int(place))
    if not before:
        return _("before the first run")
    run = runs[before - 1]
    params = {"number": run.number, "day": day_of(run.at)}
    return (_("after Run #%(number)d") if place % 1 else _("Run #%(number)d, %(day)s")) % params


def _as_lines(blocks: Sequence[Block], columns: int) -> list[list[Cell]]:
    """Return the blocks as cells, in as few lines as possible."""
    lines: list[list[Block]] = []
    for block in sorted(blocks, key=lambda one: one.start):
        line = next((one for one in lines if one[-1].end <= block.start), None)
        if line is None:
            lines.append([block])
        else:
            line.append(block)
    return [_cells(line, columns) for line in lines or [[]]]


def _cells(line: Sequence[Block], columns: int) -> list[Cell]:
    cells: list[Cell] = []
    at = 0
    for block in line:
        if block.start > at:
            cells.append((block.start - at, None))
        cells.append((block.span, block))
        at = block.end
    if at < columns:
        cells.append((columns - at, None))
    return cells


# --- names ---


def _shared(texts: Sequence[str]) -> list[str]:
    """Return the words that all answers share, in order; none for a single answer."""
    distinct = list(dict.fromkeys(texts))
    if len(distinct) < 2:
        return []
    shared = _TOKEN.findall(distinct[0])
    for text in distinct[1:]:
        other = [word.casefold() for word in _TOKEN.findall(text)]
        matcher = difflib.SequenceMatcher(
            None, [word.casefold() for word in shared], other, autojunk=False
        )
        shared = [
            word
            for match in matcher.get_matching_blocks()
            for word in shared[match.a : match.a + match.size]
        ]
    return shared


def _name(text: str, shared: Sequence[str]) -> str:
    """Return the first words in a row that the sentences share, else what this one is about.

    The row of a table is named by all that is before its fields.
    """
    row, colon, _fields = text.partition(": ")
    words_of_row = [word for word in _TOKEN.findall(row) if re.match(r"\w", word)]
    words_shared = [word for word in shared if re.match(r"\w", word)]
    if colon and len(words_of_row) > 1 and words_shared[: len(words_of_row)] == words_of_row:
        return _shortened_name(row)
    for words in _runs(text, shared):
        while words and words[0].casefold() in _SMALL:
            words = words[1:]
        while words and words[-1].casefold() in _SMALL:
            words = words[:-1]
        if sum(word.casefold() not in _SMALL for word in words) > 1:
            name = " ".join(words)
            return _shortened_name(name[0].upper() + name[1:])
    subject = _SUBJECT.match(text)
    return _shortened_name(subject[1] if subject else text)


def _runs(text: str, shared: Sequence[str]) -> list[list[str]]:
    """Return the words of `text` that are in `shared`, in order, as runs without a gap."""
    left = [word for word in shared if re.match(r"\w", word)]
    runs: list[list[str]] = [[]]
    for word in _TOKEN.findall(text):
        if left and word == left[0]:
            runs[-1].append(left.pop(0))
        elif runs[-1]:
            runs.append([])
    return runs


def _shortened_name(text: str) -> str:
    if width_of(text) <= MAX_NAME_LENGTH:
        return text
    if width_of(text) == len(text):
        return shorten(text, MAX_NAME_LENGTH)
    return f"{cut(text, MAX_NAME_LENGTH - 1)}…"


def _label(text: str, shared: Sequence[str], name: str) -> str:
    """Return the value of an answer: what the others don't share, or what follows the name.

    If several parts differ, only one with a number, date or version is a value. If several have one,
    all that follows the name is. An answer that shares
    little with the others is returned whole, because a part of it would mean nothing.
    """
    rest = text.removeprefix(name).strip(" :.") if text.startswith(name) else ""
    if not shared:
        return rest or text
    found = list(_TOKEN.finditer(text))
    words = [one[0].casefold() for one in found]
    if len(shared) < MIN_SHARED * len(words):
        return rest or text
    matcher = difflib.SequenceMatcher(None, [w.casefold() for w in shared], words, autojunk=False)
    parts: list[tuple[int, int]] = []
    at = 0
    for match in matcher.get_matching_blocks():
        if match.b > at:
            # Commas and small words between two parts don't separate them.
            before = parts[-1][1] if parts else 0
            if parts and all(w in _SMALL or not w[0].isalnum() for w in words[before:at]):
                parts[-1] = parts[-1][0], match.b
            else:
                parts.append((at, match.b))
        at = match.b + match.size
    texts = [text[found[first].start() : found[last - 1].end()] for first, last in parts]
    if len(texts) > MAX_PARTS:
        return rest or text
    with_value = [part for part in texts if values.typed_values(part)]
    if len(with_value) > 1 and rest:
        return rest  # one of several values would be the answer to half of the question
    best = max(with_value or (texts if len(texts) == 1 else [text]), key=len).strip(" ,;.:")
    return best if len(best) > 1 or best.isdigit() else text


def known_at(topic: Any) -> int:
    """Return the number of known facts, as of the date that is being read."""
    return TopicFact.objects.filter(topic=topic).current().count()
