"""One line of Activity, as the page and its files tell it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from memory.models import Activity, ModelCall, Revision
from memory.records.kinds import kind_of
from memory.records.kinds import models as record_models
from memory.records.undo import field_words
from memory.usage.spending import dollars
from research.models import Run


def address_of(run: Run) -> str:
    """Return the address of a run's page."""
    return reverse("research:run", args=[run.topic.slug, run.pk])


@dataclass
class Line:
    """One line of the page: who did what, when, to which record, and where to read on."""

    name: str
    key: int
    at: datetime
    who: str
    actor: str
    said: str
    noun: str
    label: str
    url: str = ""
    run: Run | None = None
    why: str = ""
    details: list[str] = field(default_factory=list)
    is_warning: bool = False
    change_url: str = ""
    may_undo: bool = False
    by_them: str = ""  # the query of the list of all that this actor did

    @property
    def subject(self) -> str:
        """Return what it happened to, unless what happened says that itself: “token made”."""
        return "" if self.said.startswith(self.noun) else self.noun

    @cached_property
    def run_url(self) -> str:
        """Return the page of the run in which it happened, if it is another than its own."""
        url = address_of(self.run) if self.run else ""
        return url if url != self.url else ""


# --- What Activity calls what became of channels, messages, digests and feeds ---

WORDS = {
    "channel-changed": gettext_lazy("channel changed"),
    "channel-key-renewed": gettext_lazy("signs with a new key"),
    "channel-made": gettext_lazy("channel made"),
    "channel-off": gettext_lazy("channel switched off, since it failed"),
    "channel-put-back": gettext_lazy("channel taken back"),
    "channel-removed": gettext_lazy("channel removed"),
    "delivered": gettext_lazy("sent"),
    "delivery-given-up": gettext_lazy("could not be sent, and was given up"),
    "delivery-unsure": gettext_lazy("may have arrived or not"),
    "digest-made": gettext_lazy("digest made"),
    "digest-settings-changed": gettext_lazy("settings of the digest changed"),
    "feed-ended": gettext_lazy("feed ended"),
    "feed-made": gettext_lazy("feed made"),
    "notices-chosen": gettext_lazy("notifications chosen"),
    "schedule-failing": gettext_lazy("schedule paused, since its runs failed"),
    "unsubscribed": gettext_lazy("no more mails, by the link in one"),
}
SUBJECTS = {
    "channel": gettext_lazy("channel"),
    "delivery": gettext_lazy("message"),
    "digest": gettext_lazy("digest"),
    "feed": gettext_lazy("feed"),
}


# --- What a line of Activity says: who, did what, to which record ---

_L = gettext_lazy
LOG_WORDS = {
    "account-deleted": _L("account deleted"),
    **WORDS,
    "account-disabled": _L("account disabled"),
    "account-enabled": _L("account enabled"),
    "account-made": _L("account made"),
    "agent-changed": _L("settings of an agent changed"),
    "conflict-found": _L("found not to go together"),
    "conflict-gone": _L("settled itself: one of the two is gone"),
    "conflict-reopened": _L("open again"),
    "conflict-settled": _L("settled"),
    "connection-changed": _L("connection changed"),
    "held": _L("held for a person"),
    "follow-up-failed": _L("a follow-up failed"),
    "disk-edit-refused": _L("edit on disk not taken in"),
    "disk-file-restored": _L("written to disk again"),
    "forgot-source": _L("forgotten, with all that came from there"),
    "url-forgotten": _L("forgotten, so that it may come as new again"),
    "url-remembered": _L("remembered again as seen"),
    "source-rule": _L("treated another way in all topics"),
    "read-next": _L("given to the next run to read"),
    "read-next-not": _L("taken from what the next run reads"),
    "invitation-revoked": _L("invitation taken back"),
    "invited": _L("invitation made"),
    "limits-changed": _L("spending limits changed"),
    "mirror-failed": _L("copy on disk is behind"),
    "mirror-folder-left": _L("folder of another account on disk"),
    "mirror-git-failed": _L("changes could not be committed"),
    "mirror-renewed": _L("all files written to disk again"),
    "mirror-resumed": _L("files are written to disk again"),
    "mirror-stopped": _L("files are not written to disk"),
    "content-cleared": _L("content store cleared"),
    "content-retired": _L("kept long enough"),
    "content-retiring-failed": _L("old content could not be moved to the trash"),
    "notes-maintained": _L("notes looked after"),
    "password-changed": _L("password changed"),
    "password-set-by-staff": _L("password set by staff"),
    "plan-accepted": _L("plan accepted as it was"),
    "plan-edited": _L("plan edited and accepted"),
    "plan-made-anew": _L("plan asked for anew"),
    "plan-waits": _L("plan waits to be looked at"),
    "plan-went-on": _L("plan went on without being looked at"),
    "profile-changed": _L("profile changed"),
    "proposal-accepted": _L("accepted"),
    "proposal-put-back": _L("put back among what waits"),
    "proposal-rejected": _L("rejected"),
    "proposals-expired": _L("expired undecided"),
    "publish-failed": _L("published copy could not be renewed"),
    "purge-failed": _L("could not be deleted for good"),
    "purged": _L("deleted for good"),
    "quarantine-released": _L("records released from quarantine"),
    "quarantine-trashed": _L("records thrown out of quarantine"),
    "reflected": _L("looked back on"),
    "reflection-failed": _L("could not be looked back on"),
    "review-levels-changed": _L("review levels changed"),
    "report-corrected": _L("corrected by a person"),
    "correction-taken-back": _L("correction taken back"),
    "sentence-checked": _L("checked by a person"),
    "sentence-unchecked": _L("no longer checked by a person"),
    "report-shared": _L("shared by a link"),
    "budget-near": _L("nearly used up"),
    "report-unshared": _L("no longer shared by a link"),
    "run-cancel-asked": _L("asked to be cancelled"),
    "run-restored": _L("restored from the trash"),
    "run-trashed": _L("moved to the trash, with what only it brought"),
    "run-cancelled": _L("cancelled"),
    "schedule-caught-up": _L("caught up with what was missed"),
    "run-failed": _L("failed"),
    "run-requeued": _L("queued again"),
    "run-retried": _L("tried again"),
    "run-saved": _L("saved"),
    "schedule-skipped": _L("left out"),
    "run-tried-now": _L("tried again without waiting"),
    "run-stop-asked": _L("asked to write from what is there"),
    "schedule-paused": _L("schedule paused"),
    "schedule-resumed": _L("schedule resumed"),
    "schedule-set": _L("schedule set"),
    "schedule-unreadable": _L("schedule cannot be read"),
    "source-allowed": _L("let in again"),
    "source-refused": _L("refused from now on"),
    "sign-in-ended": _L("sign-in ended"),
    "sign-in-failed": _L("sign-in failed"),
    "sign-ins-ended": _L("all other sign-ins ended"),
    "signed-in": _L("signed in"),
    "signed-out": _L("signed out"),
    "token-made": _L("token made"),
    "token-revoked": _L("token revoked"),
    "trash-pruned": _L("deleted for good what lay in the trash long enough"),
    "tool-called": _L("called a tool"),
    "upkeep-failed": _L("the upkeep of notes failed"),
}
_SUBJECTS = {
    **SUBJECTS,
    "run": _L("run"),
    "user": _L("account"),
    "signin": _L("sign-in"),
    "invitation": _L("invitation"),
    "connection": _L("connection"),
    "agent": _L("agent"),
    "apitoken": _L("token"),
    "proposal": _L("proposal"),
    "conflict": _L("conflict"),
    "step": _L("step"),
    "reflection": _L("finished work"),
    "checkedsentence": _L("sentence of a report"),
    "correction": _L("sentence of a report"),
}


# What no line tells of: it follows from another field.
QUIET = frozenset(
    {
        "digest", "edited_by_person", "touched_by_person", "key", "updated", "near_duplicate_of_id",
        "retired_run", "blame", "size",
    }
)  # fmt: skip
_OWN_ACTORS = {
    "research": _L("research"),
    "session": _L("a session of Ask"),
    "reflector": _L("the reflector"),
    "maintenance": _L("the upkeep"),
    "system": _L("Beacon"),
    "disk": _L("an edit on disk"),
}
_SAYS = frozenset({"content", "text", "body", "value"})


def who(actor: str, username: str) -> str:
    """Return who acts as the person `username` reads it."""
    kind, _colon, name = actor.partition(":")
    if kind == "human":
        return _("you") if name == username else name
    if kind == "agent":
        return _("agent %(name)s") % {"name": name}
    return str(_OWN_ACTORS.get(kind, actor))


def subject(record_type: str) -> str:
    """Return what a subject's type is called."""
    if record_type in record_models():
        return str(kind_of(record_type).noun)
    return str(_SUBJECTS.get(record_type, record_type))


def of_change(revision: Revision) -> str:
    """Return what a revision did: made, moved, superseded or changed."""
    names, had = revision.names, revision.had  # type: ignore[attr-defined]
    if not had:
        return _("made")
    if "trashed_at" in names:
        if revision.trashed:  # type: ignore[attr-defined]
            return _("moved to the trash")
        return _("restored from the trash")
    if "superseded_by_id" in names:
        is_old = revision.superseded  # type: ignore[attr-defined]
        return _("superseded") if is_old else _("made to stand again")
    return _("changed")


def fields_in_words(record_type: str, names: Iterable[str]) -> list[str]:
    """Return the fields that a person cares for, as they name them; what a record says is words."""
    told = sorted({name for name in names if name not in QUIET})
    model = record_models().get(record_type)
    named = field_words(model, told) if model else told
    return [_("words") if name in _SAYS else said for name, said in zip(told, named, strict=True)]


def of_log(line: Activity) -> str:
    """Return what a line of the log says, in words also for a kind that has none here."""
    return str(LOG_WORDS.get(line.kind, line.kind.replace("-", " ")))


def of_call(call: ModelCall) -> list[str]:
    """Return a model call's figures: tokens, time, money; and why it failed."""
    tokens = call.prompt_tokens + call.completion_tokens
    said = [
        ngettext("%(n)s token", "%(n)s tokens", tokens) % {"n": f"{tokens:,}"},
        _("%(seconds).1f s") % {"seconds": call.milliseconds / 1000},
    ]
    if call.money is None:
        said.append(_("price unknown"))
    elif call.money:
        said.append(dollars(call.money))
    if call.failure:
        said.append(call.get_failure_display())
    return said


def of_detail(detail: Any, actor: str = "") -> list[str]:
    """Return the details of a line of the log that a person can use, short.

    A source that is the actor, whom the line names already, is left out.
    """
    if not isinstance(detail, dict):
        return []
    said = [str(detail["why"])] if detail.get("why") else []
    for name, value in detail.items():
        if name == "why" or value in ("", None, [], {}) or (name == "source" and value == actor):
            continue
        shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        said.append(f"{name.replace('_', ' ')}: {shown[:200]}")
    return said[:8]


def of_run(run: Run) -> str:
    """Return how a run was started."""
    return _("started %(how)s") % {"how": run.get_trigger_display()}
