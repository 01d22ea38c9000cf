"""What changed: findings of a run held against the facts of the runs before.

The comparison is deterministic even where a model writes the prose (providers.md 3).  Data flow:
findings -> `compare` with current and retired facts -> delta items by status -> Markdown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from memory.text import match_key, without_citations
from memory.topic_memory import KnownFact
from research.matching import match
from research.models import DeltaItem, Schedule

Status = DeltaItem.Status


@dataclass(slots=True)
class Change:
    """One delta item before it is stored; `previous_id` is the key of the fact it is held against."""

    status: str
    sentence: str
    citations: list[int] = field(default_factory=list)
    quote: str = ""
    previous_id: str = ""
    previous_text: str = ""
    withheld: str = ""
    judged_by: str = ""
    judged: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the change as JSON values."""
        return asdict(self)

    @property
    def is_listed(self) -> bool:
        """Whether the change stands in the delta section (R41)."""
        return self.status in DeltaItem.LISTED and not self.withheld

    @property
    def is_unsupported(self) -> bool:
        """Whether its source does not say it: then it is neither told nor remembered."""
        return bool(self.withheld and not self.judged_by)

    @property
    def is_remembered(self) -> bool:
        """Whether it is news that memory takes up, told or (by the topic's intent) not."""
        return self.status in DeltaItem.LISTED and not self.is_unsupported


@dataclass(frozen=True, slots=True)
class Statement:
    """A finding as it is compared: its sentence, where it is cited, and the quote behind it."""

    sentence: str
    citations: tuple[int, ...] = ()
    quote: str = ""


def compare(
    found: Sequence[Statement],
    facts: Sequence[KnownFact],
    *,
    retired: Sequence[KnownFact] = (),
    struck: Sequence[str] = (),
) -> tuple[list[Change], int]:
    """Return what changed, listed kinds first, and how many findings repeat what was struck.

    A finding that says what a current or retired fact says is confirmed, the same with other
    numbers changed (contradicted where a person holds the old one), any other new.  A fact that one
    source confirms and another changes is changed.  Current facts that nothing spoke of have gone
    quiet.
    """
    previous = [*facts, *retired]
    texts = [fact.text for fact in previous]
    changes: list[Change] = []
    spoken_of: set[str] = set()
    said: set[str] = set()
    dropped = 0
    for statement in found:
        bare = without_citations(statement.sentence)
        key = match_key(bare)
        if key in said:
            continue
        said.add(key)
        if _repeats(bare, struck):
            dropped += 1
            continue
        change = _change(statement, bare, previous, texts, len(facts))
        if change.previous_id:
            if change.previous_id in spoken_of and change.status == Status.CONFIRMED:
                continue
            spoken_of.add(change.previous_id)
        changes.append(change)
    replaced = {c.previous_id for c in changes if c.status in (Status.CHANGED, Status.CONTRADICTED)}
    changes = [c for c in changes if c.status != Status.CONFIRMED or c.previous_id not in replaced]
    quiet = [fact for fact in facts if fact.id not in spoken_of]
    changes += [
        Change(Status.GONE_QUIET, fact.text, previous_id=fact.id, previous_text=fact.text)
        for fact in quiet
    ]
    order: dict[str, int] = {status: place for place, status in enumerate(_ORDER)}
    changes.sort(key=lambda change: order[change.status])
    return changes, dropped


_ORDER = (Status.CONTRADICTED, Status.CHANGED, Status.NEW, Status.CONFIRMED, Status.GONE_QUIET)


def _repeats(sentence: str, struck: Sequence[str]) -> bool:
    found = match(sentence, struck)
    return found is not None and found.kind == "confirmed"


def _change(
    statement: Statement,
    bare: str,
    previous: Sequence[KnownFact],
    texts: Sequence[str],
    current_count: int,
) -> Change:
    found = match(bare, texts)
    change = Change(Status.NEW, bare, list(statement.citations), statement.quote)
    if found is None:
        return change
    fact = previous[found.index]
    is_current = found.index < current_count
    if found.kind == "confirmed":
        change.status = Status.CONFIRMED
    elif is_current:
        change.status = Status.CONTRADICTED if fact.is_kept else Status.CHANGED
    else:
        return change  # it differs from something that is long superseded: simply new
    change.previous_id, change.previous_text = fact.id, fact.text
    return change


def heading(schedule: Schedule | None, previous_number: int) -> str:
    """Return the section's heading by how often the topic runs (decision 11)."""
    preset = schedule.preset if schedule is not None else Schedule.Preset.NONE
    return {
        Schedule.Preset.NONE: _("What Changed Since Last Week"),
        Schedule.Preset.WEEKLY: _("What Changed Since Last Week"),
        Schedule.Preset.DAILY: _("What Changed Since Yesterday"),
        Schedule.Preset.MONTHLY: _("What Changed Since Last Month"),
    }.get(
        Schedule.Preset(preset),
        _("What Changed Since Run #%(number)d") % {"number": previous_number},
    )


def since_line(last_run_at: datetime | None, number: int) -> str:
    """Return the line under the heading: `since <date> (Run #n-1)`."""
    when = date_format(timezone.localtime(last_run_at), "j F Y") if last_run_at else "?"
    return _("since %(date)s (Run #%(number)d)") % {"date": when, "number": number}


def as_markdown(changes: Sequence[Change], *, quiet: str) -> str:
    """Return the section: a bullet for each listed change, or the sentence `quiet`."""
    listed = [change for change in changes if change.is_listed]
    if not listed:
        return quiet
    return "\n".join(_bullet(change) for change in listed)


def _bullet(change: Change) -> str:
    marks = "".join(f"[{number}]" for number in change.citations)
    line = f"- **{Status(change.status).label}:** {change.sentence}{' ' + marks if marks else ''}"
    if change.status in (Status.CHANGED, Status.CONTRADICTED):
        line += "\n  " + _("before: %(text)s") % {"text": change.previous_text}
    return line
