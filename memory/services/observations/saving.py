"""Checking, storing and correcting observations, and finding older ones that say almost the same.

Near-duplicates are found by words, so no embedder is needed. Both are kept and marked.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _
from rapidfuzz import fuzz

from beacon_site.text import values
from beacon_site.text.cleaning import clean, is_visible, match_key, one_line, shorten
from beacon_site.text.messages import grouped
from beacon_site.text.terms import query_terms
from memory.models import Observation, Revision, Sensitivity, Topic, Trust
from memory.models.actors import MAINTENANCE, REFLECTOR, RESEARCH, SYSTEM, Actor
from memory.models.errors import InvalidValue, StaleWrite
from memory.services.notes.saving import NoteChecks
from memory.services.search import bm25
from memory.services.search.bm25_sql import language_of

NEAR = 85.0  # rapidfuzz ratio of the two texts' words, up to 100
CANDIDATES = 10  # texts that each one is compared with
TERMS = 8  # the rarest terms of a text, by which candidates are found
MAX_LENGTH = 2_000  # characters compared; texts that share this beginning count as the same
MAX_HOLDING = 100  # observations counted for one term in a batch
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class _Compared:
    """The compared parts of a text: its words in alphabetical order, and its numbers."""

    text: str
    words: str
    numbers: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> _Compared:
        words = sorted(match_key(text := text[:MAX_LENGTH]).split())
        return cls(text, " ".join(words), tuple(sorted(_NUMBER.findall(" ".join(words)))))

    def nearness(self, other: _Compared) -> float:
        """Return the similarity from 0 to 100, or 0 if it is less than NEAR."""
        if self.numbers != other.numbers:
            return 0.0
        found = fuzz.ratio(self.words, other.words, score_cutoff=NEAR)
        return 0.0 if found and values.are_other_measures(self.text, other.text) else found


def is_near(one: str, other: str) -> bool:
    """Return True if two texts say almost the same: similar words and the same numbers.

    Texts that differ only in a number (100 per minute, 200 per minute), its sign or its unit are
    two facts.
    """
    return _Compared.of(one).nearness(_Compared.of(other)) >= NEAR


def nearest(owner: Any, contents: Sequence[str], *, but: Any = None) -> list[Observation | None]:
    """Return for each text the owner's observation that says almost the same, or None.

    A few queries for all of them.
    """
    found = bm25.search_each(
        owner,
        Observation.record_type(),
        [content[:MAX_LENGTH] for content in contents],
        CANDIDATES + 1,
        most_terms=TERMS,
    )
    ids = [[pk for pk, _score in hits if pk != but][:CANDIDATES] for hits in found]
    keys = {pk for some in ids for pk in some}
    stored = Observation.objects.for_user(owner).active().in_bulk(keys)
    compared = {pk: _Compared.of(one.content) for pk, one in stored.items()}
    return [
        _best(_Compared.of(content), [stored[pk] for pk in some if pk in stored], compared)
        for content, some in zip(contents, ids, strict=True)
    ]


def nearest_of_batch(owner: Any, observations: Sequence[Observation]) -> list[Observation | None]:
    """Return for each new observation an earlier one in the batch that says almost the same.

    If there is none, one that recall already finds, or None.
    """
    found = _nearest_before(observations, language_of(owner))
    others = [place for place, alike in enumerate(found) if alike is None]
    if others:
        older = nearest(owner, [observations[place].content for place in others])
        for place, alike in zip(others, older, strict=True):
            found[place] = alike
    return found


def _nearest_before(observations: Sequence[Observation], language: str) -> list[Observation | None]:
    """Return for each observation an earlier one that says almost the same, or None.

    Each is compared only with the few that share its rarest terms, so the time doesn't grow with
    the square of their number.
    """
    terms = [
        set(query_terms(observation.content[:MAX_LENGTH], language)) for observation in observations
    ]
    compared = {observation.pk: _Compared.of(observation.content) for observation in observations}
    times = Counter(term for some in terms for term in some)
    before: dict[str, list[int]] = defaultdict(list)  # a term, and its latest positions
    results = []
    for place, (one, some) in enumerate(zip(observations, terms, strict=True)):
        shared = [term for term in some if times[term] > 1]
        rarest = sorted(shared, key=lambda term: (times[term], term))[:TERMS]
        places = Counter(other for term in rarest for other in before[term][-MAX_HOLDING:])
        candidates = [observations[other] for other, _count in places.most_common(CANDIDATES)]
        results.append(_best(compared[one.pk], candidates, compared))
        for term in shared:
            before[term].append(place)
    return results


def _best(
    comparison: _Compared, candidates: Iterable[Observation], compared: Mapping[Any, _Compared]
) -> Observation | None:
    rated = [(comparison.nearness(compared[candidate.pk]), candidate) for candidate in candidates]
    # Of equally similar ones, the oldest is kept, since it was stored first.
    rated.sort(key=lambda pair: (-pair[0], pair[1].created))
    return rated[0][1] if rated and rated[0][0] >= NEAR else None


# --- storing and correcting ---

# Sources that give the same text when they are processed again. That must not bring back
# what a person moved to Trash.
_REPEATED = ("run:", "session:")


@dataclass(slots=True)
class SavedLines:
    """The result for a batch: an observation per line, in order, and which of them are new.

    `problem` says why a session's observations couldn't be stored.
    """

    observations: list[Observation] = field(default_factory=list)
    new: list[Observation] = field(default_factory=list)
    problem: str = ""


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
) -> SavedLines:
    """Store all of the lines, or none. The same text from the same source adds nothing.

    If a person moved an observation to Trash, its run or session doesn't store it again, and its
    line returns the trashed one. `trust` is by default the owner's for a person, otherwise an
    agent's. `change_source` names the run or session that writes, if that isn't the records'
    source. Raises InvalidValue with the reason.
    """
    lines = checked(lines)
    source = checked_source(source or str(by))
    checks = NoteChecks()
    data = {
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
        there = _existing(owner, source, keys)
        missing: dict[tuple[str, str], Line] = {}
        for key, line in zip(keys, lines, strict=True):
            if key not in there:
                missing.setdefault(key, line)
        new = []
        if missing:
            observations = _insert(missing, data)
            # Another writer may have been faster, so the stored rows are looked up.
            there |= _existing(owner, source, missing)
            new = [one for one in observations if there[one.category, one.digest].pk == one.pk]
            there |= {(one.category, one.digest): one for one in new}
            _name_near(owner, new)
        Observation.follow(new)
        Revision.record_first(new, by=by, source=change_source or source)
    return SavedLines([there[key] for key in keys], new)


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
    """Store one observation and return it, or the one with the same text.

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

    Only people can correct (R83), and an agent gets Locked. Recall finds the new text immediately.
    Raises InvalidValue, with messages by field, or StaleWrite if someone else has changed it.
    Nothing is stored in either case.
    """
    observation.check_may_change(by)
    checks, data = NoteChecks(), dict(fields)
    if "content" in fields:
        data["content"] = checks.content(fields["content"])
    if "category" in fields:
        choices = Observation.Category.values
        data["category"] = checks.choice("category", fields["category"], choices)
    if "tags" in fields:
        data["tags"] = checks.tags(fields["tags"])
    if "sensitivity" in fields:
        data["sensitivity"] = checks.one("sensitivity", fields["sensitivity"])
    checks.raise_refused()
    changed = {name: value for name, value in data.items() if getattr(observation, name) != value}
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
    """Update which observation says almost the same. The result is derived, so it isn't a revision."""
    [alike] = nearest(observation.owner, [observation.content], but=observation.pk)
    if alike is not None and alike.near_duplicate_of_id == observation.pk:
        alike = None  # two must not each name the other
    Observation.objects.filter(pk=observation.pk).update(near_duplicate_of=alike)
    observation.near_duplicate_of = alike


def _existing(
    owner: Any, source: str, keys: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], Observation]:
    """Return what is stored from this source with these categories and digests."""
    found = Observation.objects.for_user(owner).filter(
        source=source, digest__in=[digest for _category, digest in keys]
    )
    if not source.startswith(_REPEATED):
        found = found.live()
    # If one is in Trash and another is active, return the active one.
    ordered = sorted(found, key=lambda one: one.trashed_at is None)
    return {(one.category, one.digest): one for one in ordered}


def _insert(missing: Mapping[tuple[str, str], Line], fields: dict[str, Any]) -> list[Observation]:
    """Insert the lines that don't exist yet. The first of two writers wins."""
    observations = [
        Observation(
            **{**fields, "trust": line.trust or fields["trust"]},
            category=line.category,
            content=line.content,
            tags=list(line.tags),
            step_name=line.step_name,
            step_type=line.step_type,
            digest=digest,
        )
        for (_category, digest), line in missing.items()
    ]
    Observation.objects.bulk_create(observations, ignore_conflicts=True)
    return observations


def _name_near(owner: Any, new: Sequence[Observation]) -> None:
    """Set the older observation that says almost the same on each new one."""
    named = []
    for one, alike in zip(new, nearest_of_batch(owner, new), strict=True):
        if alike is not None:
            one.near_duplicate_of = alike
            named.append(one)
    Observation.objects.bulk_update(named, ["near_duplicate_of"])


# --- checks before anything is stored ---


MAX_SOURCE_LENGTH = 200  # characters
MAX_LINES = 100  # texts stored by one request
MAX_CHARACTERS = 200_000  # characters of these texts in total: about a second of work
EXPLICIT = "explicit"


@dataclass(frozen=True, slots=True)
class Line:
    """An observation to store: its text, its category, and where it came from."""

    category: str
    content: str
    tags: tuple[str, ...] = ()
    step_name: str = ""
    step_type: str = ""
    trust: str = ""  # the batch's, if empty

    @property
    def digest(self) -> str:
        """Return the digest by which equal texts match."""
        return Observation.digest_of(self.content)


def batch(
    findings: Iterable[str] = (), insights: Iterable[str] = (), lessons: Iterable[str] = ()
) -> list[Line]:
    """Return the lines of a batch in order: findings, insights, lessons (R67)."""
    groups = (("finding", findings), ("insight", insights), ("lesson", lessons))
    return [Line(category, content) for category, contents in groups for content in contents]


def single(category: str, content: str, **more: Any) -> Line:
    """Return one line. Raises InvalidValue if it is empty, while a batch leaves empty lines out."""
    checks = NoteChecks()
    checks.content(content)
    checks.raise_refused()
    return Line(category, content, **more)


def checked(lines: Sequence[Line]) -> list[Line]:
    """Return the lines as stored, without empty ones (R69).

    Raises InvalidValue if a line can't be stored, naming the line, or if none remains. A batch is
    stored completely or not at all (R68).
    """
    kept: list[Line] = []
    for place, line in enumerate(lines, start=1):
        one = _checked(line, place if len(lines) > 1 else 0)
        if one.content:
            kept.append(one)
    if not kept:
        problem = _("There is nothing to remember because every text is empty.")
        raise InvalidValue(problem, errors={"content": [problem]})
    return kept


def checked_size(lines: Sequence[Line]) -> None:
    """Raise InvalidValue if one request has too many lines or too much text."""
    characters = sum(len(line.content) for line in lines)
    if len(lines) <= MAX_LINES and characters <= MAX_CHARACTERS:
        return
    problem = _(
        "One request can store at most %(lines)d texts (currently %(have_lines)s) and %(most)s characters in total (currently %(have)s). Nothing was stored. Send the texts in parts."
    ) % {
        "lines": MAX_LINES,
        "most": grouped(MAX_CHARACTERS),
        "have_lines": grouped(len(lines)),
        "have": grouped(characters),
    }
    raise InvalidValue(problem, errors={"content": [problem]})


def _checked(line: Line, place: int) -> Line:
    checks = NoteChecks()
    category = checks.choice("category", line.category, Observation.Category.values)
    step_type = line.step_type and checks.choice(
        "step_type", line.step_type, Observation.StepType.values
    )
    content = clean(line.content)[0].strip()
    content = checks.content(content) if is_visible(content) else ""
    tags = tuple(checks.tags(line.tags))
    if place:
        which = _("Text %(place)d in the batch:") % {"place": place}
        checks.errors = {
            field: [f"{which} {message}" for message in messages]
            for field, messages in checks.errors.items()
        }
    checks.raise_refused()
    step_name = one_line(clean(line.step_name)[0])[:200]
    return replace(
        line,
        category=category,
        content=content,
        tags=tags,
        step_name=step_name,
        step_type=step_type,
    )


def checked_source(source: str) -> str:
    """Return the source as stored, `explicit` by default. Raises InvalidValue."""
    source = one_line(clean(source)[0]) or EXPLICIT
    if len(source) > MAX_SOURCE_LENGTH:
        problem = _("A source can have at most %(most)d characters, but this one has %(have)d.") % {
            "most": MAX_SOURCE_LENGTH,
            "have": len(source),
        }
        raise InvalidValue(problem, errors={"source": [problem]})
    return source


# Callers can name an origin, but can't claim to be a run, a session or someone else.
_NOT_TO_BE_NAMED = frozenset({"human", "run", "session", "agent", "import"})
_BEACONS_OWN = frozenset({"disk", *map(str, (RESEARCH, REFLECTOR, MAINTENANCE, SYSTEM))})


def callers_source(source: str) -> str:
    """Return the source that an agent gave. Raises InvalidValue for a reserved one."""
    source = checked_source(source)
    # Compared in any case and letter width, as a person would read it. AGENT:, GOAL: and RUN: are steps.
    kind, colon, _name = unicodedata.normalize("NFKC", source).partition(":")
    is_step = bool(colon) and source.startswith(("AGENT:", "GOAL:", "RUN:"))
    if not is_step and kind.strip().casefold() in (_NOT_TO_BE_NAMED if colon else _BEACONS_OWN):
        problem = _(
            "“%(source)s” is reserved for Beacon, so you can’t use it as a source. Use the name of the task instead, such as GOAL:check-database, or omit the source."
        ) % {"source": shorten(source, 60)}
        raise InvalidValue(problem, errors={"source": [problem]})
    return source
