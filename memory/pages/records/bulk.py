"""Bulk actions: one action on many records of a list, its progress, and its undo."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from celery.exceptions import SoftTimeLimitExceeded
from django.contrib import messages
from django.db import IntegrityError, InterfaceError, OperationalError, transaction
from django.db.models import QuerySet
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import ngettext

from beacon_site.db.errors import SLOW, failure_of
from beacon_site.db.leased_jobs import JobLost
from beacon_site.text.cleaning import clean, one_line, shorten, uuids_of
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import grouped
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import next_of, signed_in
from memory.models import BulkAction, Note, Observation, Revision, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, MemoryRefused
from memory.models.notes import MAX_TAG_LENGTH, MAX_TAGS
from memory.models.remembered import Lock
from memory.models.search_index import Recalled
from memory.pages.records.listing import NOTES, PAGES, ListQuery, records_wanted
from memory.pages.shared.undo import offer, undoes
from memory.services.notes.saving import PINNED, comma_problem, expiry
from memory.services.records.acts import check_may_be_paused

UNDO = "undo"


def action_labels(act: str) -> tuple[str, str]:
    """Return the reason in the history of each record, and the action in progress."""
    return {
        "pin": (_("pinned in bulk"), _("Pinning")),
        "unpin": (_("unpinned in bulk"), _("Unpinning")),
        "pause": (_("paused in bulk"), _("Pausing")),
        "resume": (_("resumed in bulk"), _("Resuming")),
        "lock": (_("locked in bulk"), _("Locking")),
        "unlock": (_("unlocked in bulk"), _("Unlocking")),
        "tag": (_("tagged in bulk"), _("Adding a tag")),
        "untag": (_("tag removed in bulk"), _("Removing a tag")),
        "trash": (_("moved to Trash in bulk"), _("Moving to Trash")),
        "restore": (_("restored from Trash in bulk"), _("Restoring from Trash")),
        "categorise": (_("category changed in bulk"), _("Changing the category")),
        UNDO: (_("a bulk change was undone"), _("Undoing")),
    }[act]


def outcome(act: Any) -> str:
    """Return the result of a finished action (a BulkAction) in a sentence or two."""
    words = _done(act.act, act.done) % {"done": grouped(act.done), "tag": act.arguments.get("tag")}
    if act.unchanged:
        words += " " + ngettext(
            "%(left)s was left unchanged.", "%(left)s were left unchanged.", act.unchanged
        ) % {"left": grouped(act.unchanged)}
    if act.is_given_up:
        words += " " + _("The worker stopped unexpectedly %(n)d times.") % {"n": act.crashes}
    if act.problem:
        words += " " + act.problem.replace("\n", "; ") + "."
    return words


def _done(act: str, done: int) -> str:
    if done == 0:
        return _("Nothing was changed.")
    sentences = {
        "pin": ngettext("Pinned %(done)s record.", "Pinned %(done)s records.", done),
        "unpin": ngettext("Unpinned %(done)s record.", "Unpinned %(done)s records.", done),
        "pause": ngettext("Paused %(done)s record.", "Paused %(done)s records.", done),
        "resume": ngettext("Resumed %(done)s record.", "Resumed %(done)s records.", done),
        "lock": ngettext("Locked %(done)s record.", "Locked %(done)s records.", done),
        "unlock": ngettext("Unlocked %(done)s record.", "Unlocked %(done)s records.", done),
        "tag": ngettext(
            "Added the tag “%(tag)s” to %(done)s record.",
            "Added the tag “%(tag)s” to %(done)s records.",
            done,
        ),
        "untag": ngettext(
            "Removed the tag “%(tag)s” from %(done)s record.",
            "Removed the tag “%(tag)s” from %(done)s records.",
            done,
        ),
        "trash": ngettext(
            "Moved %(done)s record to Trash.", "Moved %(done)s records to Trash.", done
        ),
        "restore": ngettext("Restored %(done)s record.", "Restored %(done)s records.", done),
        "categorise": ngettext(
            "Changed the category of %(done)s record.",
            "Changed the category of %(done)s records.",
            done,
        ),
        UNDO: ngettext(
            "Undid the change to %(done)s record.",
            "Undid the changes to %(done)s records.",
            done,
        ),
    }
    return sentences[act]


# --- actions ---

BATCH = 500
AT_ONCE = 1_000  # records changed in the request itself; a task changes more
MAX_TICKED = 1_000
PROGRESS = ("state", "total", "done", "unchanged", "problem", "arguments", "finished_at")
Fields = dict[str, Any]


# --- changes of one record ({} if none) ---


def _pin(record: Any, values: Mapping[str, Any]) -> Fields:
    return dict(PINNED) if isinstance(record, Note) else {"pinned": True}


def _unpin(record: Any, values: Mapping[str, Any]) -> Fields:
    if not isinstance(record, Note) or not record.pinned:
        return {"pinned": False}
    return {"pinned": False, "expires_at": expiry(record.ttl_days)}


def _pause(record: Any, values: Mapping[str, Any]) -> Fields:
    check_may_be_paused(record)
    return {"paused": True}


def _trash(record: Any, values: Mapping[str, Any]) -> Fields:
    if record.trashed_at is not None:
        return {}
    if isinstance(record, Note) and record.is_current_identity:
        raise InvalidValue(
            _(
                "the current soul, persona and profile can only be replaced (under Agents or Settings)"
            )
        )
    return {"trashed_at": timezone.now()}


def _restore(record: Any, values: Mapping[str, Any]) -> Fields:
    if (
        isinstance(record, Note)
        and record.kind in Note.IDENTITY
        and record.superseded_by_id is None
    ):
        raise InvalidValue(
            _("the soul, persona and profile can only be restored under Agents or Settings")
        )
    return {"trashed_at": None}


def _tag(record: Any, values: Mapping[str, Any]) -> Fields:
    if values["tag"] in record.tags:
        return {}
    if len(record.tags) >= MAX_TAGS:
        raise InvalidValue(_("it already has %(most)d tags") % {"most": MAX_TAGS})
    return {"tags": [*record.tags, values["tag"]]}


def _untag(record: Any, values: Mapping[str, Any]) -> Fields:
    return {"tags": [tag for tag in record.tags if tag != values["tag"]]}


@dataclass(frozen=True, slots=True)
class BulkChange:
    """An action that can be applied to many records."""

    fields: Callable[[Any, Mapping[str, Any]], Fields]
    needs: str = ""  # the argument without which there is nothing to do
    pages: tuple[str, ...] = ("notes", "observations")


BULK_ACTIONS: dict[str, BulkChange] = {
    "pin": BulkChange(_pin),
    "unpin": BulkChange(_unpin),
    "pause": BulkChange(_pause),
    "resume": BulkChange(lambda record, asked: {"paused": False}),
    "lock": BulkChange(lambda record, asked: {"lock": asked["lock"]}, "lock"),
    "unlock": BulkChange(lambda record, asked: {"lock": Lock.OPEN}),
    "tag": BulkChange(_tag, "tag"),
    "untag": BulkChange(_untag, "tag"),
    "trash": BulkChange(_trash),
    "restore": BulkChange(_restore),
    "categorise": BulkChange(
        lambda record, asked: {"category": asked["category"]}, "category", ("observations",)
    ),
}


# --- requesting an action ---


def ask(
    user: User,
    page: str,
    act: str,
    *,
    ids: Sequence[Any] = (),
    query: str | None = None,
    arguments: Mapping[str, str] | None = None,
) -> BulkAction:
    """Store an action, for the records in `ids` or all that match the list's `query`.

    Raises InvalidValue for an invalid action, argument or selection.
    """
    if page not in PAGES or act not in BULK_ACTIONS or page not in BULK_ACTIONS[act].pages:
        raise InvalidValue(_("This action isn’t available for this list."))
    if query is None and not ids:
        raise InvalidValue(_("Nothing was changed. Select at least one record."))
    if len(ids) > MAX_TICKED:
        raise InvalidValue(_("You can select at most %(most)d records.") % {"most": MAX_TICKED})
    kept: dict[str, Any] = _checked(BULK_ACTIONS[act].needs, arguments or {})
    if query is None:
        kept["ids"] = [str(key) for key in ids]
    return BulkAction.objects.create(
        owner=user, page=page, act=act, query=query or "", arguments=kept
    )


def ask_undo(act: BulkAction) -> BulkAction:
    """Store the undo of an action. Raises MemoryRefused if it's already undone or still running."""
    with transaction.atomic():
        held = BulkAction.objects.select_for_update().get(pk=act.pk)
        if held.is_unfinished:
            raise MemoryRefused(
                _("This action is still in progress. You can undo it when it’s done.")
            )
        if held.state == BulkAction.State.UNDONE or held.act == UNDO:
            raise MemoryRefused(_("There’s nothing left to undo."))
        BulkAction.objects.filter(pk=held.pk).update(state=BulkAction.State.UNDONE)
        undo: BulkAction = BulkAction.objects.create(
            owner=held.owner,
            page=held.page,
            act=UNDO,
            arguments={"of": str(held.pk), "act": held.act},
            total=held.done,
        )
    return undo


def _checked(needs: str, arguments: Mapping[str, str]) -> dict[str, Any]:
    """Return the action's argument. Raises InvalidValue with a message."""
    if not needs:
        return {}
    value = one_line(clean(arguments.get(needs, ""))[0])
    if needs == "tag":
        if not value or len(value) > MAX_TAG_LENGTH:
            raise InvalidValue(
                _("Enter a tag of 1 to %(most)d characters.") % {"most": MAX_TAG_LENGTH}
            )
        if "," in value and needs == "tag":
            raise InvalidValue(comma_problem(value))
    elif needs == "lock":
        value = value or Lock.READ_ONLY
        if value not in Lock.values:
            raise InvalidValue(_("This lock doesn’t exist."))
    elif value not in Observation.Category.values:
        raise InvalidValue(_("Select a category."))
    return {needs: value}


# --- running an action ---


def run_bulk_action(pk: uuid.UUID | str, *, seconds: float = 600.0) -> BulkAction | None:
    """Work on the action for at most `seconds`, and return it; None if it is taken or has ended.

    Safe to call twice. Another task resumes what is left.
    """
    act: BulkAction | None = BulkAction.objects.claim(pk)
    if act is None:
        return None
    until = time.monotonic() + seconds
    try:
        _batch(act)
        while act.is_unfinished and time.monotonic() < until:
            _batch(act)
    except JobLost:
        return None
    except (OperationalError, InterfaceError) as exc:
        if failure_of(exc) is SLOW:  # the next try would take as long
            act.fail(_("The database took too long to respond"))
        else:
            act.release()  # if the database still fails, the lease expires
        raise
    except SoftTimeLimitExceeded:  # the next try would take as long
        act.fail(_("The action exceeded the time limit"))
        raise
    except Exception as exc:  # whatever fails, the action must end
        act.fail(
            _("The action was stopped by an internal error (%(kind)s)")
            % {"kind": type(exc).__name__}
        )
        raise
    if act.is_unfinished:
        act.release()
    return act


def is_large(act: BulkAction) -> bool:
    """Whether a task has to do it, because it's for more records than a request can change."""
    if act.act == UNDO:
        return (act.total or 0) > AT_ONCE
    if "ids" in act.arguments:
        return False
    return int(_meant(act).order_by()[: AT_ONCE + 1].count()) > AT_ONCE


@transaction.atomic
def _batch(act: BulkAction) -> None:
    """Change the next BATCH records, and store the action's progress. Raises JobLost."""
    if not act.renew():  # the row is locked until the progress is stored
        raise JobLost(str(act.pk))
    if act.total is None:
        act.total = _meant(act).count()
    wanted, last = _undoings(act) if act.act == UNDO else _doings(act)
    if wanted:
        _write(act, wanted)
    if last:
        act.arguments["last"] = last
    else:
        act.state, act.finished_at = BulkAction.State.DONE, timezone.now()
    act.save(update_fields=PROGRESS)


def _meant(act: BulkAction) -> QuerySet[Any]:
    """Return the action's records, without those created after it was requested."""
    listed = PAGES[act.page]
    if "ids" in act.arguments:
        mine: QuerySet[Any] = listed.model.objects.for_user(act.owner)
        return mine.filter(pk__in=act.arguments["ids"])
    query = ListQuery.of(listed, QueryDict(act.query).dict())
    return records_wanted(act.owner, query).filter(created__lte=act.before)


def _doings(act: BulkAction) -> tuple[list[tuple[Any, Fields]], str]:
    """Return the next records with their changes, and the last key; "" at the end."""
    rest = _meant(act)
    if last := act.arguments.get("last"):
        rest = rest.filter(pk__gt=last)
    keys = list(rest.order_by("pk").values_list("pk", flat=True)[:BATCH])
    pairs = []
    for record in _locked_records(act, keys):
        try:
            fields = BULK_ACTIONS[act.act].fields(record, act.arguments)
        except MemoryRefused as exc:
            _leave(act, record, str(exc))
            continue
        changed = {name: v for name, v in fields.items() if getattr(record, name) != v}
        if changed:
            pairs.append((record, changed))
        else:
            act.unchanged += 1  # already set
    return pairs, str(keys[-1]) if len(keys) == BATCH else ""


def _undoings(act: BulkAction) -> tuple[list[tuple[Any, Fields]], str]:
    """Return the records to undo, as they were, without those that have changed since."""
    changes = Revision.objects.for_user(act.owner).filter(source=f"bulk:{act.arguments['of']}")
    changes = changes.filter(id__gt=act.arguments.get("last", 0)).order_by("id")[:BATCH]
    found = list(changes)
    held = {record.pk: record for record in _locked_records(act, [one.record_id for one in found])}
    pairs = []
    for change in found:
        record = held.get(change.record_id)
        now = record.as_json(*change.after) if record else None
        if record is None or now != change.after:
            _leave(
                act,
                record or change.label,
                _("it has changed since then, so it was skipped"),
            )
            continue
        meta = record._meta
        fields = {n: meta.get_field(n).to_python(v) for n, v in change.before.items()}
        pairs.append((record, fields))
    return pairs, str(found[-1].pk) if len(found) == BATCH else ""


def _locked_records(act: BulkAction, keys: Sequence[Any]) -> list[Any]:
    model: Any = PAGES[act.page].model
    records = model.objects.for_user(act.owner).filter(pk__in=keys).order_by("pk")
    return list(records.select_for_update(no_key=True))


def _write(act: BulkAction, pairs: Sequence[tuple[Any, Fields]]) -> None:
    """Change the records together; if the database rejects one, each by itself."""
    model: type[Recalled] = PAGES[act.page].model
    told: dict[str, Any] = {
        "by": Actor.person(act.owner),
        "why": action_labels(act.act)[0],
        "source": f"bulk:{act.pk}",
    }
    try:
        with transaction.atomic():
            model.change_many(pairs, **told)
    except IntegrityError:
        for record, fields in pairs:
            record.refresh_from_db()
            try:
                with transaction.atomic():
                    model.change_many([(record, fields)], **told)
            except IntegrityError:
                _leave(act, record, _("a record with the same text already exists"))
            else:
                act.done += 1
    else:
        act.done += len(pairs)


def _leave(act: BulkAction, record: Any, why: str) -> None:
    act.unchanged += 1
    if act.problem.count("\n") < 2:
        # Adding keeps the messages, so that a reader in another language can read them.
        act.problem += ("\n" if act.problem else "") + f"“{shorten(str(record), 60)}”: " + why


# --- pages ---

MIN_MERGED, MAX_MERGED = 2, 20
IN_REQUEST_SECONDS = 10.0


@signed_in("POST")
def records_bulk(request: BeaconRequest, page: str) -> HttpResponse:
    """Apply an action to the selected records, or to all that match; the list keeps its filters."""
    if page not in PAGES:
        raise Http404
    query = request.GET.urlencode()
    back = reverse(f"memory:{page}") + (f"?{query}" if query else "")
    ids = selected(request)
    act = request.POST.get("act", "")
    if act == "merge":
        return _merge(request, page, ids, back)
    try:
        asked = ask(
            request.user,
            page,
            act,
            ids=ids,
            query=query if request.POST.get("all") else None,
            arguments={name: request.POST.get(name, "") for name in ("tag", "lock", "category")},
        )
    except MemoryRefused as exc:
        messages.warning(request, str(exc))
    else:
        begin(request, asked)
    return redirect(next_of(request, back))


@undoes("bulk", key=UUID)
def _undo_bulk(request: BeaconRequest, key: UUID) -> str:
    """Undo a bulk action for the records that haven't changed since."""
    act = get_object_or_404(BulkAction.objects.for_user(request.user), pk=key)
    begin(request, ask_undo(act))
    return reverse(f"memory:{act.page}")


@signed_in("GET", "HEAD")
def bulk_progress(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Show the progress of a bulk action; the list polls every two seconds."""
    act = get_object_or_404(BulkAction.objects.for_user(request.user), pk=pk)
    if not request.htmx:
        return redirect(f"memory:{act.page}")
    context = {"act": act, "doing": action_labels(act.act)[1], "outcome": outcome(act)}
    return render(request, "memory/_bulk_act.html", context)


def selected(request: BeaconRequest) -> list[str]:
    """Return the selected keys, without invalid ones."""
    return list(map(str, uuids_of(request.POST.getlist("record"))))


def _merge(request: BeaconRequest, page: str, ids: list[str], back: str) -> HttpResponse:
    """Go to the page that merges the selected notes."""
    if page != NOTES.page or not MIN_MERGED <= len(ids) <= MAX_MERGED:
        words = _("Select %(least)d to %(most)d notes to merge (currently %(have)d).")
        numbers = {"least": MIN_MERGED, "most": MAX_MERGED, "have": len(ids)}
        messages.warning(request, words % numbers)
        return redirect(next_of(request, back))
    return redirect(f"{reverse('memory:notes-merge')}?{urlencode({'ids': ids}, doseq=True)}")


def begin(request: BeaconRequest, act: BulkAction) -> None:
    """Do a small action immediately; leave a large one to a task, which finds it by its row."""
    if is_large(act):
        act.wake_after_commit()
        messages.info(
            request,
            _("This action runs in the background. You can follow its progress on this page."),
        )
        return
    done = run_bulk_action(act.pk, seconds=IN_REQUEST_SECONDS)
    if done is None or done.is_unfinished:
        return  # it continues without the request
    may_undo = bool(done.done) and done.act != UNDO
    tags = offer(request, "bulk", key=done.pk) if may_undo else ""
    level = messages.SUCCESS if done.done else messages.WARNING
    messages.add_message(request, level, outcome(done), extra_tags=tags)
