"""Finds, resolves and reopens conflicts: contradictions and near-duplicates.

Near-duplicates are found among notes, observations and the facts of one topic. They are compared by
words, as in `memory.services.observations.saving`, so no embedder is needed. A resolved pair isn't
reported again until one of the two changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations
from typing import Any

from django.db import transaction
from django.db.models import F, Max, Q
from django.utils import timezone
from django.utils.formats import date_format

from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import ngettext
from memory.models import (
    Activity,
    Conflict,
    MemoryFile,
    Note,
    Observation,
    Revision,
    Section,
    Sensitivity,
    Topic,
    TopicFact,
    Trust,
    User,
)
from memory.models.actors import MAINTENANCE, Actor
from memory.models.conflicts import active_rows, label_of
from memory.models.errors import InvalidValue, MemoryRefused
from memory.models.file_format import MOUNTED, statements_found
from memory.services.files.saving import rows_held, save_file
from memory.services.notes import merging
from memory.services.notes import saving as notes
from memory.services.observations.saving import CANDIDATES, MAX_LENGTH, edit_observation, is_near
from memory.services.records import history as record_history
from memory.services.records.acts import BulkResult
from memory.services.review import file_lines
from memory.services.search import bm25

SECONDS = 10.0  # per search; the latest records are compared first
MAX_NOTES = 500  # the latest changed; older ones were compared when they were new
_FOUND: Any = Conflict.Kind.NEAR_DUPLICATE


def find(owner: User) -> int:
    """Store the owner's new near-duplicates; return how many there are."""
    ends = time.monotonic() + SECONDS
    before = Conflict.objects.for_user(owner).count()
    for left, right in _pairs(owner):
        if time.monotonic() > ends:
            break
        Conflict.objects.note(owner, _FOUND, left, right, reason=Conflict.Reason.SIMILAR)
    return Conflict.objects.for_user(owner).count() - before


def owners_with_news(since: Any) -> list[Any]:
    """Return the ids of the owners with a new or changed note, observation, fact or mounted file."""
    found: set[Any] = set()
    for model in (Note, Observation, TopicFact):
        rows = model.objects.filter(updated__gte=since, trashed_at=None).order_by()
        found |= set(rows.values_list("owner_id", flat=True).distinct())
    sections = Section.objects.filter(updated__gte=since, file__trashed_at=None).order_by()
    sections = sections.filter(file__path__startswith=MOUNTED)
    return sorted(found.union(sections.values_list("owner_id", flat=True).distinct()))


def _pairs(owner: User) -> Iterator[tuple[Any, Any]]:
    """Yield near-duplicates, the older record first: facts, then notes, then observations."""
    yield from _facts(owner)
    yield from _notes(owner)
    yield from _observations(owner)


def _facts(owner: User) -> Iterator[tuple[Any, Any]]:
    current = TopicFact.objects.for_user(owner).current().filter(topic__trashed_at=None)
    by_topic: dict[Any, list[TopicFact]] = {}
    for fact in current.order_by("created", "pk"):
        by_topic.setdefault(fact.topic_id, []).append(fact)
    for facts in by_topic.values():
        yield from ((a, b) for a, b in combinations(facts, 2) if is_near(a.text, b.text))


def _notes(owner: User) -> Iterator[tuple[Any, Any]]:
    """Yield similar notes of one kind, except summaries, which always resemble each other."""
    active = (
        Note.objects.for_user(owner).active().exclude(kind__in=Note.IDENTITY).filter(paused=False)
    )
    active = active.exclude(~Q(job=""), kind=Note.Kind.SUMMARY)
    for note in active.order_by("-updated")[:MAX_NOTES]:
        found = bm25.search(owner, Note.record_type(), note.content[:MAX_LENGTH], CANDIDATES + 1)
        ids = [pk for pk, _score in found if pk != note.pk]
        for other in active.filter(pk__in=ids, kind=note.kind):
            if is_near(note.content, other.content):
                yield (other, note) if other.created <= note.created else (note, other)


def _observations(owner: User) -> Iterator[tuple[Any, Any]]:
    """Yield observations that refer to an older one; repeated findings of runs only confirm it."""
    named = (
        Observation.objects.for_user(owner)
        .live()
        .filter(paused=False)
        .exclude(near_duplicate_of=None)
    )
    named = named.filter(near_duplicate_of__trashed_at=None, near_duplicate_of__paused=False)
    again = Q(source__startswith="run:", near_duplicate_of__source__startswith="run:")
    again &= Q(topic=F("near_duplicate_of__topic")) | Q(topic=None)
    known = Conflict.objects.for_user(owner).values("right_id")
    fresh = named.exclude(again, trust="external").exclude(pk__in=known)
    for one in fresh.select_related("near_duplicate_of").order_by("-created")[:MAX_NOTES]:
        yield one.near_duplicate_of, one


def day_ago() -> Any:
    """Return the time up to which maintenance looks back; it runs every few hours."""
    return timezone.now() - timedelta(days=1)


# --- resolving ---

How = Conflict.How
MODELS: dict[str, Any] = {
    "note": Note, "observation": Observation, "topicfact": TopicFact, "memoryfile": MemoryFile,
}  # fmt: skip


class AlreadyResolved(MemoryRefused):
    """The conflict is already resolved, by a person or automatically."""


class StaleConflict(MemoryRefused):
    """A side changed after the person saw it; nothing was changed."""


def resolve(
    conflict: Conflict,
    how: str,
    *,
    by: Actor,
    seen: tuple[int, int] | None = None,
    seen_lines: str | None = None,
    text: str = "",
    dated: bool = False,
    at: datetime | None = None,
) -> Conflict:
    """Resolve it as a person chose: `left`, `right`, `both`, or `merged` into `text`.

    `seen` holds the versions of both sides that the person saw, and `seen_lines` the digest of the
    lines (`Conflict.lines_digest`).  `dated` writes its date into each
    of two records that are kept.  `at` is the time shared by conflicts resolved in one act.  If a
    side is gone, the conflict resolves itself, and the one returned says so.  Raises
    AlreadyResolved, StaleConflict, InvalidValue, and what the records' own rules raise; nothing is
    changed in these cases.
    """
    if not by.is_person:
        raise InvalidValue(_("Only a person can resolve a conflict."))
    if how not in _WAYS:
        params = {"how": how[:40], "known": ", ".join(_WAYS)}
        raise InvalidValue(
            _("“%(how)s” isn’t a way to resolve a conflict. Choose one of: %(known)s.") % params
        )
    with transaction.atomic():
        sides = held_sides(conflict)
        row = locked_conflict(conflict)
        if not row.is_open:
            params = {"how": row.get_resolution_display()}
            raise AlreadyResolved(
                _("This conflict has already been resolved (%(how)s). Nothing was changed.")
                % params
            )
        # REST lists all lines, and pages show those that are left.
        digests = [row.lines_digest]
        if sides is None or not file_lines.keep_found(row, sides):
            Conflict.resolve_automatically([row], by=by)
            row.refresh_from_db()
            return row
        digests.append(row.lines_digest)
        has_changed = seen is not None and seen != (sides[0].version, sides[1].version)
        if has_changed or (seen_lines is not None and seen_lines not in digests):
            raise StaleConflict(
                _(
                    "One side was changed after you opened this page, so nothing was resolved. Review the current versions and choose again."
                )
            )
        _perform(row, sides, how, by, text, dated, at or timezone.now())
    return row


def locked_conflict(conflict: Conflict) -> Conflict:
    """Return the current conflict, locked until the transaction ends; its sides are locked first."""
    row: Conflict = Conflict.objects.select_for_update(of=("self",)).get(pk=conflict.pk)
    row.owner = conflict.owner
    return row


def held_sides(row: Conflict) -> tuple[Any, Any] | None:
    """Return both records, locked until the transaction ends; None if one is gone.

    Locks are taken in the same order as for any change of a record, to avoid deadlocks: the topics
    of facts, the records, then the conflict.
    """
    pairs = [(row.left_type, row.left_id), (row.right_type, row.right_id)]
    facts = [key for name, key in pairs if name == "topicfact"]
    topics = TopicFact.objects.filter(owner=row.owner_id, pk__in=facts).values("topic_id")
    list(Topic.objects.filter(pk__in=topics).order_by("pk").select_for_update(of=("self",)))
    files = MemoryFile.objects.for_user(row.owner).filter(pk__in=[key for _name, key in pairs])
    for path in sorted(files.values_list("path", flat=True)):
        rows_held(row.owner, path)
    found = {}
    for name, key in sorted(pairs, key=str):
        rows = active_rows(name).filter(owner=row.owner_id, pk=key)
        record = rows.select_for_update(of=("self",)).first()
        if record is None:
            return None
        record.owner = row.owner
        found[key] = record
    return found[row.left_id], found[row.right_id]


def words_of(conflict: Conflict, side: str, record: Any) -> str:
    """Return what a side says: the record's text or, of a file, the statements that are meant."""
    if isinstance(record, MemoryFile):
        found = statements_found(record.content, conflict.digests_of(side))
        return "\n".join(one.text for one in found)
    return str(getattr(record, "text", "") or getattr(record, "content", ""))


def _perform(
    row: Conflict,
    sides: tuple[Any, Any],
    how: str,
    by: Actor,
    text: str,
    dated: bool,
    at: datetime,
) -> None:
    last = Revision.objects.aggregate(last=Max("id"))["last"] or 0
    fields = {"state": Conflict.State.RESOLVED, "resolution": how, "resolved_by": str(by)}
    # Marked as resolved first, so that moving a record to Trash below doesn't resolve it
    # automatically.
    Conflict.objects.filter(pk=row.pk).update(resolved_at=at, **fields)
    ids = _WAYS[how](_Resolution(row, sides, by, text, dated))
    rows = Revision.objects.for_user(row.owner).filter(
        record_id__in=ids, id__gt=last, actor=str(by)
    )
    row.results = [
        [record_type, str(key), version]
        for record_type, key, version in rows.order_by("id").values_list(
            "record_type", "record_id", "version"
        )
    ]
    for name, value in {**fields, "resolved_at": at}.items():
        setattr(row, name, value)
    row.left_version, row.right_version = (_version_of(side) for side in sides)
    row.save(update_fields=["left_version", "right_version", "results"])
    Activity.log(row.owner, by, "conflict-resolved", subject=row, label=label_of(*sides), how=how)


def _version_of(side: Any) -> int:
    row: int = type(side).objects.values_list("version", flat=True).get(pk=side.pk)
    return row


# --- resolutions ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Resolution:
    """One resolution in progress."""

    row: Conflict
    sides: tuple[Any, Any]
    by: Actor
    text: str = ""
    dated: bool = False

    @property
    def told(self) -> dict[str, Any]:
        """Return the arguments that describe each change of a record."""
        return {"by": self.by, "source": f"conflict:{self.row.pk}"}

    @property
    def is_contradiction(self) -> bool:
        """Return True if the two can't both be true; otherwise they say the same."""
        return self.row.kind == Conflict.Kind.CONTRADICTION

    def edit_lines(self, file: MemoryFile, why: str, words: str = "") -> None:
        """Remove the file's statements, or write `words` in their place; this also writes to disk."""
        digests = self.row.digests_of("left" if file.pk == self.row.left_id else "right")
        text = file_lines.rewritten(file, digests, words)
        seen = file.version
        save_file(self.row.owner, file.path, text, seen=seen, join=False, why=why, **self.told)


def _keep_left(act: _Resolution) -> list[Any]:
    return _keep(act, *act.sides)


def _keep_right(act: _Resolution) -> list[Any]:
    older, newer = act.sides
    return [*_keep(act, newer, older), *_succeed(act, older, newer)]


def _keep(act: _Resolution, kept: Any, other: Any) -> list[Any]:
    """Remove the other side; after a contradiction, the kept one has the person's trust."""
    was_kept = isinstance(other, TopicFact) and other.is_kept
    _put_away(act, other, _("the other side of a conflict was kept"))
    if act.is_contradiction:
        _vouch(act, kept, is_kept=was_kept)
    return [kept.pk, other.pk]


def _succeed(act: _Resolution, older: Any, newer: Any) -> list[Any]:
    """Let the newer of two facts, and what it had replaced, answer the question of the older one."""
    facts = isinstance(older, TopicFact) and isinstance(newer, TopicFact)
    if not facts or older.topic_id != newer.topic_id or older.chain == newer.chain:
        return []
    later = TopicFact.objects.filter(topic=newer.topic_id, chain=newer.chain)
    moved = list(later.select_for_update(of=("self",)))
    why = _("the other side of a conflict was kept")
    fields = {"chain": older.chain}
    TopicFact.change_many([(one, fields) for one in moved], **act.told, why=why)
    newer.refresh_from_db(fields=["chain", "version"])
    return [one.pk for one in moved]


def _put_away(act: _Resolution, record: Any, why: str) -> None:
    """Remove a record from memory: a fact from the topic's list, others to Trash.

    If two facts contradict each other, a newer one was wrong, but an older one was true until it
    was replaced. Runs don't repeat a fact that is marked as wrong.
    """
    if isinstance(record, MemoryFile):
        act.edit_lines(record, why)
    elif not isinstance(record, TopicFact):
        record.trash(why=why, **act.told)
    elif act.is_contradiction and record is act.sides[1]:
        fields = {"state": TopicFact.State.STRUCK, "edited_by_person": True}
        record.change(why=why, **act.told, **fields)
    else:
        _retire(act, record, why)


def _retire(act: _Resolution, fact: TopicFact, why: str) -> None:
    """Move a fact that another text replaces to the timeline."""
    fact.change(
        why=why,
        **act.told,
        state=TopicFact.State.RETIRED,
        retired_as=TopicFact.RetiredAs.REPLACED,
        # Set explicitly, so that the revision has the old value: a person who restores a fact keeps it.
        edited_by_person=fact.edited_by_person,
    )


def _vouch(act: _Resolution, record: Any, *, is_kept: bool) -> None:
    """Give the record the person's trust; a fact counts as checked now.

    If runs couldn't change the fact that it replaces, they can't change this one either. A file has
    its trust as a whole, so a line of it gets none.
    """
    if isinstance(record, MemoryFile):
        return
    fields: dict[str, Any] = {"trust": Trust.OWNER}
    if isinstance(record, TopicFact):
        fields["confirmed_at"] = timezone.now()
        fields["edited_by_person"] = record.edited_by_person or is_kept
    record.change(why=_("kept when a conflict was resolved"), **act.told, **fields)


def _keep_both(act: _Resolution) -> list[Any]:
    """Keep both unchanged; with `dated` each text gets its date, except facts, which have one."""
    for record in act.sides:
        if isinstance(record, TopicFact):
            if act.is_contradiction:
                record.change(
                    why=_("both sides of a conflict were kept"),
                    **act.told,
                    trust=record.trust,
                    confirmed_at=timezone.now(),
                )
        elif act.dated and not isinstance(record, MemoryFile):
            day = date_format(timezone.localtime(record.created), "j F Y")
            params = {"text": record.content.rstrip(), "day": day}
            _rewrite(act, record, _("%(text)s (as of %(day)s)") % params)
    return [record.pk for record in act.sides]


def _merge(act: _Resolution) -> list[Any]:
    """Merge both into one record with the person's text."""
    left, right = act.sides
    if len(act.row.lines) > 1:  # the text would replace each of the lines
        raise InvalidValue(
            _("You can’t merge several lines at once. Nothing was changed. Edit the file instead.")
        )
    if not act.text.strip():
        problem = _("Enter the text of the merged record.")
        raise InvalidValue(problem, errors={"text": [problem]})
    if isinstance(left, Note) and isinstance(right, Note):
        merged, _proposal = merging.merge(
            act.row.owner, [left.pk, right.pk], by=act.by, content=act.text,
            versions={side.pk: side.version for side in act.sides},
            why=_("merged to resolve a conflict"),
        )  # fmt: skip
        return [merged.pk, left.pk, right.pk]
    why = _("merged to resolve a conflict")
    if isinstance(right, TopicFact):  # not marked as wrong, since the merged text replaces it
        _retire(act, right, why)
    elif isinstance(right, MemoryFile):
        act.edit_lines(right, why)
    else:
        right.trash(why=why, **act.told)
    _rewrite(act, left, act.text, joined_with=right)
    return [left.pk, right.pk]


def _rewrite(act: _Resolution, record: Any, text: str, *, joined_with: Any = None) -> None:
    """Give the record another text, with the stricter marks of both and all tags."""
    why = _("changed to resolve a conflict")
    if isinstance(record, TopicFact):
        record.edit(text, by=act.by, expected_version=record.version)
        return
    if isinstance(record, MemoryFile):
        act.edit_lines(record, why, text)
        return
    more: dict[str, Any] = {}
    if joined_with is not None:
        sides = (record, joined_with)
        if any(side.sensitivity == Sensitivity.SENSITIVE for side in sides):
            more["sensitivity"] = Sensitivity.SENSITIVE
        tags = [tag for side in sides for tag in getattr(side, "tags", [])]
        more["tags"] = list(dict.fromkeys(tags))
    write = notes.edit_note if isinstance(record, Note) else edit_observation
    write(record, by=act.by, expected_version=record.version, why=why, content=text, **more)


_WAYS: dict[str, Callable[[_Resolution], list[Any]]] = {
    How.LEFT.value: _keep_left,
    How.RIGHT.value: _keep_right,
    How.BOTH.value: _keep_both,
    How.MERGED.value: _merge,
}


# --- many at once, and conflicts that resolve themselves ------------------------------------------


def describe(result: BulkResult) -> str:
    """Return what was done with many conflicts, for a toast."""
    words = ngettext("Both sides kept.", "Both sides of %(n)d conflicts kept.", result.done)
    parts = [words % {"n": result.done}] if result.done else []
    if result.problems:
        left = ngettext(
            "%(n)d conflict is still open: %(why)s",
            "%(n)d conflicts are still open: %(why)s",
            len(result.problems),
        )
        parts.append(left % {"n": len(result.problems), "why": result.why})
    if result.left:
        rest = ngettext(
            "%(n)d left. Select the same conflicts again to continue.",
            "%(n)d left. Select the same conflicts again to continue.",
            result.left,
        )
        parts.append(rest % {"n": result.left})
    return " ".join(parts)


def keep_both_of(rows: Sequence[Conflict], *, by: Actor) -> BulkResult:
    """Keep both sides of each unchanged, within the time limit of a request."""
    at = timezone.now()
    return BulkResult(at).perform(rows, lambda row: resolve(row, How.BOTH, by=by, at=at), SECONDS)


def resolve_missing_sides(owner: User | None = None) -> int:
    """Resolve all conflicts with a side that is gone: it expired, or its topic was deleted."""
    rows = Conflict.objects.open()
    if owner is not None:
        rows = rows.for_user(owner)
    gone = rows.exclude(pk__in=Conflict.objects.standing().values("pk")).select_related("owner")
    return Conflict.resolve_automatically(gone[:1_000], by=MAINTENANCE)


# --- undo ---


def take_back_of(owner: User, at: datetime, *, by: Actor) -> BulkResult:
    """Reopen the conflicts that the person resolved together at that time; undo the changes."""
    rows = Conflict.objects.for_user(owner).filter(resolved_at=at, resolved_by=str(by))
    rows = rows.exclude(resolution=Conflict.How.GONE).order_by("-created", "-pk")

    def reopen(row: Conflict) -> None:
        row.owner = owner
        undo_change(row, by=by)

    return BulkResult(at).perform(rows, reopen, skipped=AlreadyResolved)


def undo_change(conflict: Conflict, *, by: Actor) -> None:
    """Restore both sides and reopen the conflict.

    Raises AlreadyResolved if the conflict is already open or resolved itself, and whatever undo
    raises if a side has changed since. Nothing is changed in these cases.
    """
    with transaction.atomic():
        held_sides(conflict)
        row = locked_conflict(conflict)
        if row.same_pairs().open().exists() or row.resolution == Conflict.How.GONE:
            # This conflict or a later one of the same pair is already open.
            raise AlreadyResolved(_("This conflict is already open. Nothing was changed."))
        _undo_all(row, by)
        for side in ("left", "right"):
            model = MODELS[getattr(row, f"{side}_type")]
            rows = model.objects.for_user(row.owner).filter(pk=getattr(row, f"{side}_id"))
            version = rows.values_list("version", flat=True).first()
            setattr(row, f"{side}_version", version or getattr(row, f"{side}_version"))
        row.open_again()
        row.save(update_fields=["left_version", "right_version"])
        Activity.log(row.owner, by, "conflict-reopened", subject=row, label=row.log_label())
    conflict.refresh_from_db()


def _undo_all(row: Conflict, by: Actor) -> None:
    """Undo each change that the resolution made, last first."""
    changes = Revision.named(row.owner, row.results)
    revision = next((one for one in changes if not one.before), None)
    if revision is not None:
        merged = record_history.record_of(revision, for_update=True)
        if isinstance(merged, Note):
            merging.unmerge(merged, by=by)
            return
    for change in reversed(changes):
        if change.record_type == TopicFact.record_type():
            _undo_fact(change, by)
        else:
            record_history.undo(change, by=by)


def _undo_fact(change: Revision, by: Actor) -> None:
    """Restore a fact with its trust and author, and put it back on its topic's list."""
    fact = record_history.record_of(change, for_update=True)
    if not isinstance(fact, TopicFact) or fact.as_json(*change.after) != change.after:
        params = {"label": change.label}
        raise record_history.ChangedSince(
            _(
                "“%(label)s” has changed since then, so this can’t be undone. Restore the version you want from its history."
            )
            % params
        )
    columns = {column.name: column for column in fact._meta.concrete_fields}
    fields = {name: columns[name].to_python(value) for name, value in change.before.items()}
    if fields.get("state") == TopicFact.State.CURRENT:
        fact.unstrike(by=by)
    fields.setdefault("trust", fact.trust)
    fact.change(by=by, why=_("a conflict resolution was undone"), **fields)
