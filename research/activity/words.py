"""The text of one line of Activity, for the page and its exports."""

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
    """Return the URL of a run's page."""
    return reverse("research:run", args=[run.topic.slug, run.pk])


@dataclass
class Line:
    """One line of the page: who did what, when, to which record, and a link."""

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
    by_them: str = ""  # the query that lists everything by this actor

    @property
    def subject(self) -> str:
        """Return the subject, unless the action already names it: “token made”."""
        return "" if self.said.startswith(self.noun) else self.noun

    @cached_property
    def run_url(self) -> str:
        """Return the page of the run in which it happened, unless the line already links to it."""
        url = address_of(self.run) if self.run else ""
        return url if url != self.url else ""


# --- labels of actions ---

WORDS = {
    "channel-changed": gettext_lazy("channel changed"),
    "channel-key-renewed": gettext_lazy("signing key replaced"),
    "channel-made": gettext_lazy("channel created"),
    "channel-off": gettext_lazy("channel turned off after failures"),
    "channel-put-back": gettext_lazy("channel restored"),
    "channel-removed": gettext_lazy("channel removed"),
    "delivered": gettext_lazy("sent"),
    "delivery-given-up": gettext_lazy("gave up sending"),
    "delivery-unsure": gettext_lazy("may or may not have arrived"),
    "digest-made": gettext_lazy("digest created"),
    "digest-settings-changed": gettext_lazy("digest settings changed"),
    "feed-ended": gettext_lazy("feed revoked"),
    "feed-made": gettext_lazy("feed created"),
    "notices-chosen": gettext_lazy("notifications changed"),
    "schedule-failing": gettext_lazy("schedule paused after failed runs"),
    "unsubscribed": gettext_lazy("unsubscribed through a link in an email"),
}
SUBJECTS = {
    "channel": gettext_lazy("channel"),
    "delivery": gettext_lazy("message"),
    "digest": gettext_lazy("digest"),
    "feed": gettext_lazy("feed"),
}


# --- one line ---

_L = gettext_lazy
LOG_WORDS = {
    "account-deleted": _L("account deleted"),
    **WORDS,
    "account-disabled": _L("account disabled"),
    "account-enabled": _L("account enabled"),
    "account-made": _L("account created"),
    "agent-changed": _L("agent settings changed"),
    "conflict-found": _L("found to conflict"),
    "conflict-gone": _L("resolved automatically because one of the two no longer exists"),
    "conflict-reopened": _L("reopened"),
    "conflict-settled": _L("resolved"),
    "connection-changed": _L("connection changed"),
    "held": _L("held for review"),
    "follow-up-failed": _L("a follow-up step failed"),
    "disk-edit-refused": _L("edit on disk not imported"),
    "disk-file-restored": _L("rewritten to disk"),
    "forgot-source": _L("deleted, along with everything from that source"),
    "url-forgotten": _L("forgotten, so it can appear as new again"),
    "url-remembered": _L("marked as seen again"),
    "source-rule": _L("rule for all topics changed"),
    "read-next": _L("added to the next run’s reading list"),
    "read-next-not": _L("removed from the next run’s reading list"),
    "invitation-revoked": _L("invite link revoked"),
    "invited": _L("invite link created"),
    "limits-changed": _L("spending limits changed"),
    "mirror-failed": _L("copy on disk is out of date"),
    "mirror-folder-left": _L("another account’s folder renamed on disk"),
    "mirror-git-failed": _L("changes couldn’t be committed"),
    "mirror-renewed": _L("all files rewritten to disk"),
    "mirror-resumed": _L("saving files to disk turned on"),
    "mirror-stopped": _L("saving files to disk turned off"),
    "content-cleared": _L("content store cleared"),
    "content-retired": _L("retention period ended"),
    "content-retiring-failed": _L("old content couldn’t be moved to Trash"),
    "notes-maintained": _L("notes cleaned up"),
    "password-changed": _L("password changed"),
    "password-set-by-staff": _L("password set by an admin"),
    "plan-accepted": _L("plan accepted unchanged"),
    "plan-edited": _L("plan edited and accepted"),
    "plan-made-anew": _L("new plan requested"),
    "plan-waits": _L("plan is waiting for review"),
    "plan-went-on": _L("plan continued without a review"),
    "profile-changed": _L("profile changed"),
    "proposal-accepted": _L("accepted"),
    "proposal-put-back": _L("reopened"),
    "proposal-rejected": _L("rejected"),
    "proposals-expired": _L("expired without a decision"),
    "publish-failed": _L("published copy couldn’t be updated"),
    "purge-failed": _L("couldn’t be deleted permanently"),
    "purged": _L("deleted permanently"),
    "quarantine-released": _L("records released from quarantine"),
    "quarantine-trashed": _L("quarantined records deleted"),
    "reflected": _L("reflection done"),
    "reflection-failed": _L("reflection failed"),
    "review-levels-changed": _L("review rules changed"),
    "report-corrected": _L("corrected by a person"),
    "correction-taken-back": _L("correction undone"),
    "sentence-checked": _L("verified by a person"),
    "sentence-unchecked": _L("verification removed"),
    "report-shared": _L("shared via link"),
    "budget-near": _L("monthly limit nearly reached"),
    "report-unshared": _L("shared link revoked"),
    "run-cancel-asked": _L("cancellation requested"),
    "run-restored": _L("restored from Trash"),
    "run-trashed": _L("moved to Trash, along with everything only it found"),
    "run-cancelled": _L("cancelled"),
    "schedule-caught-up": _L("caught up on missed runs"),
    "run-failed": _L("failed"),
    "run-requeued": _L("queued again"),
    "run-retried": _L("retried"),
    "run-saved": _L("saved"),
    "schedule-skipped": _L("skipped"),
    "run-tried-now": _L("retried immediately"),
    "run-stop-asked": _L("asked to stop and write its report"),
    "schedule-paused": _L("schedule paused"),
    "schedule-resumed": _L("schedule resumed"),
    "schedule-set": _L("schedule set"),
    "schedule-unreadable": _L("schedule can’t be read"),
    "source-allowed": _L("unblocked"),
    "source-refused": _L("blocked"),
    "sign-in-ended": _L("sign-in ended"),
    "sign-in-failed": _L("sign-in failed"),
    "sign-ins-ended": _L("all other sign-ins ended"),
    "signed-in": _L("signed in"),
    "signed-out": _L("signed out"),
    "token-made": _L("token created"),
    "token-revoked": _L("token revoked"),
    "trash-pruned": _L("deleted permanently after its time in Trash"),
    "tool-called": _L("called a tool"),
    "upkeep-failed": _L("note maintenance failed"),
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


# Fields that aren't mentioned, because they follow from another field.
QUIET = frozenset(
    {
        "digest", "edited_by_person", "touched_by_person", "key", "updated", "near_duplicate_of_id",
        "retired_run", "blame", "size",
    }
)  # fmt: skip
_OWN_ACTORS = {
    "research": _L("research"),
    "session": _L("a conversation in Ask"),
    "reflector": _L("reflection"),
    "maintenance": _L("maintenance"),
    "system": _L("Beacon"),
    "disk": _L("an edit on disk"),
}
_SAYS = frozenset({"content", "text", "body", "value"})


def who(actor: str, username: str) -> str:
    """Return the actor's name as `username` sees it."""
    kind, _colon, name = actor.partition(":")
    if kind == "human":
        return _("you") if name == username else name
    if kind == "agent":
        return _("agent %(name)s") % {"name": name}
    return str(_OWN_ACTORS.get(kind, actor))


def subject(record_type: str) -> str:
    """Return the label of a subject's type."""
    if record_type in record_models():
        return str(kind_of(record_type).noun)
    return str(_SUBJECTS.get(record_type, record_type))


def of_change(revision: Revision) -> str:
    """Return what a revision did to its record."""
    names, had = revision.names, revision.had  # type: ignore[attr-defined]
    if not had:
        return _("created")
    if "trashed_at" in names:
        if revision.trashed:  # type: ignore[attr-defined]
            return _("moved to Trash")
        return _("restored from Trash")
    if "superseded_by_id" in names:
        is_old = revision.superseded  # type: ignore[attr-defined]
        return _("replaced") if is_old else _("current again")
    return _("changed")


def fields_in_words(record_type: str, names: Iterable[str]) -> list[str]:
    """Return the labels of the changed fields that matter to people.

    A record's content is its text.
    """
    told = sorted({name for name in names if name not in QUIET})
    model = record_models().get(record_type)
    named = field_words(model, told) if model else told
    return [_("text") if name in _SAYS else said for name, said in zip(told, named, strict=True)]


def of_log(line: Activity) -> str:
    """Return the text of a log line, even for a kind without a label."""
    return str(LOG_WORDS.get(line.kind, line.kind.replace("-", " ")))


def of_call(call: ModelCall) -> list[str]:
    """Return a model call's tokens, time and cost, and why it failed."""
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
    """Return the useful details of a log line, shortened.

    A source that is also the actor is left out, because the line already names it.
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
