"""The one way in for observations: what is remembered once, and what a person corrects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.errors import StaleWrite
from memory.models import Observation, Revision, Sensitivity, Topic, Trust
from memory.notes.checks import NoteChecks
from memory.observations import near
from memory.observations.lines import Line, checked, checked_source, single

# Sources that give the same again when they are worked through again: what a person threw away
# of them must not come back by that.
_REPEATED = ("run:", "session:")


@dataclass(slots=True)
class Remembered:
    """What became of a batch: one observation a line, in the lines' order, and which are new."""

    observations: list[Observation] = field(default_factory=list)
    new: list[Observation] = field(default_factory=list)


def remember_lines(
    owner: Any,
    lines: Sequence[Line],
    *,
    by: Actor,
    source: str = "",
    change_source: str = "",
    topic: Topic | None = None,
    trust: Trust | None = None,
    sensitivity: str = Sensitivity.NORMAL,
    scope: str = "owner",
) -> Remembered:
    """Store all of the lines, or none; the same words again from the same source add nothing.

    What a person has moved to the trash is not stored again by the run or session it came from:
    its line gives the observation that lies there.  `trust` is by default the owner's for what a
    person writes, an agent's else; `change_source` names the run or session that writes, where
    that is not the records' source.  Raises InvalidValue with the reason in words.
    """
    lines = checked(lines)
    source = checked_source(source or str(by))
    checks = NoteChecks()
    told = {
        "owner": owner,
        "source": source,
        "topic": topic,
        "trust": trust or (Trust.OWNER if by.is_person else Trust.AGENT),
        "sensitivity": checks.one("sensitivity", sensitivity),
        "scope": checks.scope(scope),
    }
    checks.raise_refused()
    with transaction.atomic():
        keys = [(line.category, line.digest) for line in lines]
        there = _there(owner, source, keys)
        missing: dict[tuple[str, str], Line] = {}
        for key, line in zip(keys, lines, strict=True):
            if key not in there:
                missing.setdefault(key, line)
        new = []
        if missing:
            made = _insert(missing, told)
            # Another writer may have been quicker: what is stored is looked up, not assumed.
            there |= _there(owner, source, missing)
            new = [one for one in made if there[one.category, one.digest].pk == one.pk]
            there |= {(one.category, one.digest): one for one in new}
            _name_near(owner, new)
        Observation.follow(new)
        Revision.record_first(new, by=by, source=change_source or source)
    return Remembered([there[key] for key in keys], new)


def write_observation(
    owner: Any,
    category: str,
    content: str,
    *,
    by: Actor,
    source: str = "",
    tags: Iterable[str] = (),
    sensitivity: str = Sensitivity.NORMAL,
    topic: Topic | None = None,
    step_name: str = "",
    step_type: str = "",
    scope: str = "owner",
    trust: Trust | None = None,
) -> Observation:
    """Store one observation and return it, or the one that says the same already.

    Raises InvalidValue, with messages by field for a form.
    """
    line = single(category, content, tags=tuple(tags), step_name=step_name, step_type=step_type)
    stored = remember_lines(
        owner,
        [line],
        by=by,
        source=source,
        topic=topic,
        trust=trust,
        sensitivity=sensitivity,
        scope=scope,
    )
    return stored.observations[0]


def edit_observation(
    observation: Observation,
    *,
    by: Actor,
    expected_version: int | None = None,
    why: str = "",
    **fields: Any,
) -> Observation:
    """Correct an observation: any of `content`, `category`, `tags`, `sensitivity`, `topic`.

    Only people correct (R83): an agent gets Locked.  Recall finds the new words at once.  Raises
    InvalidValue, with messages by field, or StaleWrite if somebody else wrote meanwhile; nothing
    is stored in either case.
    """
    observation.check_may_change(by)
    checks, wanted = NoteChecks(), dict(fields)
    if "content" in fields:
        wanted["content"] = checks.content(fields["content"])
    if "category" in fields:
        choices = Observation.Category.values
        wanted["category"] = checks.choice("category", fields["category"], choices)
    if "tags" in fields:
        wanted["tags"] = checks.tags(fields["tags"])
    if "sensitivity" in fields:
        wanted["sensitivity"] = checks.one("sensitivity", fields["sensitivity"])
    checks.raise_refused()
    changed = {name: value for name, value in wanted.items() if getattr(observation, name) != value}
    if not changed:
        _check_version(observation, expected_version)
        return observation
    with transaction.atomic():
        observation.change(
            by=by, expected_version=expected_version, why=why or _("corrected"), **changed
        )
        if "content" in changed:
            _find_near(observation)
    return observation


def _check_version(observation: Observation, expected: int | None) -> None:
    if expected is not None and expected != observation.version:
        raise StaleWrite(str(observation), current=observation.version)


def _find_near(observation: Observation) -> None:
    """Name anew what the observation says almost the same as; that is found out, not written."""
    [alike] = near.nearest(observation.owner, [observation.content], but=observation.pk)
    if alike is not None and alike.near_duplicate_of_id == observation.pk:
        alike = None  # two must not each name the other
    Observation.objects.filter(pk=observation.pk).update(near_duplicate_of=alike)
    observation.near_duplicate_of = alike


def _there(
    owner: Any, source: str, keys: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], Observation]:
    """Return what is stored from this source under these categories and digests."""
    found = Observation.objects.of(owner).filter(
        source=source, digest__in=[digest for _category, digest in keys]
    )
    if not source.startswith(_REPEATED):
        found = found.live()
    # Where one lies in the trash and another stands in its place, the latter is meant.
    ordered = sorted(found, key=lambda one: one.trashed_at is None)
    return {(one.category, one.digest): one for one in ordered}


def _insert(missing: Mapping[tuple[str, str], Line], told: dict[str, Any]) -> list[Observation]:
    """Insert the lines where the database allows it; of two writers it takes the first."""
    made = [
        Observation(
            **{**told, "trust": line.trust or told["trust"]},
            category=line.category,
            content=line.content,
            tags=list(line.tags),
            step_name=line.step_name,
            step_type=line.step_type,
            digest=digest,
        )
        for (_category, digest), line in missing.items()
    ]
    Observation.objects.bulk_create(made, ignore_conflicts=True)
    return made


def _name_near(owner: Any, new: Sequence[Observation]) -> None:
    """Let each new observation name an older one that says almost the same."""
    named = []
    for one, alike in zip(new, near.nearest_of_batch(owner, new), strict=True):
        if alike is not None:
            one.near_duplicate_of = alike
            named.append(one)
    Observation.objects.bulk_update(named, ["near_duplicate_of"])
