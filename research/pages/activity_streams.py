"""The streams that make up Activity, each with its filtered rows, newest first.

Each stream is read separately, and only as far as a page needs. `research.pages.activity` merges
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

from django.contrib.postgres.fields import ArrayField
from django.db.models import Func, Q, QuerySet, Subquery, TextField, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from beacon_site.db.message_fields import with_words
from beacon_site.text.cleaning import choice_param, text_param
from beacon_site.text.messages import grouped
from memory.models import Activity, Membership, ModelCall, Revision, User, origins
from memory.models.history import actor_kind
from memory.models.remembered import record_models
from memory.pages.chat import describe_call
from memory.pages.shared.filter_bar import Query, first_day, in_days
from memory.services.library.folder import SOURCE as FOLDER
from memory.services.llm.spending import dollars, format_tokens
from memory.services.records.history import field_words
from memory.services.records.kinds import count_label, kind_of
from research.models import Run

MAX_EXAMINED = 100_000  # the newest lines of a stream that are searched for words
# Kinds of actors, with the prefixes that identify them in stored rows.
ACTORS = {
    "person": (_lazy("people"), ("human",)),
    "agent": (_lazy("agents"), ("agent",)),
    "research": (_lazy("research"), ("research",)),
    "reflector": (_lazy("reflection"), ("reflector",)),
    "maintenance": (_lazy("maintenance"), ("maintenance",)),
    "system": (_lazy("system"), ("system",)),
}
# Who a model is called for, by the prefix of the call's source.
_CALLED_FOR = {
    "person": ("human", "explicit", "preview"),
    "agent": ("agent", "session"),
    "research": ("run",),
}
KINDS = {
    "changes": _lazy("record changes"),
    "runs": _lazy("runs"),
    "calls": _lazy("model calls"),
    "tools": _lazy("tool calls"),
    "sign-ins": _lazy("sign-ins and account"),
    "acts": _lazy("other actions"),
}
SIGN_INS = (
    "signed-in", "signed-out", "sign-in-failed", "sign-in-ended", "sign-ins-ended",
    "password-changed", "password-set-by-staff", "profile-changed", "limits-changed", "own-key-changed",
    "backup-plan-changed", "backup-deleted", "backup-failed",
    "account-created", "account-disabled", "account-enabled", "invited", "invitation-revoked",
    "token-created", "token-revoked", "app-allowed", "app-secret-reused",
    "sign-in-method-added", "sign-in-method-removed", "recovery-codes-created", "recovery-code-used",
    "became-admin", "no-longer-admin",
)  # fmt: skip
TOOL_CALLED = "tool-called"
# Log lines that repeat what the record's own revision says.
_TOLD = ("topic-created", "topic-trashed", "topic-restored", "memory-ended", "memory-revived")


class StreamPosition(NamedTuple):
    """A place in the merged stream: a time, then the stream's rank, then the row."""

    at: datetime
    rank: int
    key: int


class StreamRow(NamedTuple):
    """A row of a stream with its place in the merged stream."""

    place: StreamPosition
    row: Any

    @property
    def name(self) -> str:
        return _NAMES[self.place.rank]


@dataclass(frozen=True, slots=True)
class Stream:
    """One source of lines. `rows` returns those of a user, or None if no row can match.

    Words are searched in the fields `said_in`.
    """

    name: str
    rank: int
    rows: Callable[[User, Query], QuerySet[Any] | None]
    said_in: tuple[str, ...]

    def page(
        self, user: User, query: Query, zone: tzinfo, after: StreamPosition | None, most: int
    ) -> list[Any]:
        """Return at most `most` rows older than `after`, newest first."""
        rows = self._in_days(user, query, zone)
        if rows is None:
            return []
        if words := text_param(query):
            rows = with_words(_newest(rows), words, *self.said_in)
        if after is not None:
            rows = rows.filter(self._behind(after))
        return list(rows.order_by("-created", "-id")[:most])

    def is_cut(self, user: User, query: Query, zone: tzinfo) -> bool:
        """Return True if it has more rows than are searched for words."""
        rows = self._in_days(user, query, zone)
        return rows is not None and rows.order_by("-created", "-id")[MAX_EXAMINED:].exists()

    def _in_days(self, user: User, query: Query, zone: tzinfo) -> QuerySet[Any] | None:
        rows = self.rows(user, query)
        return (
            None if rows is None else in_days(rows, first_day(query), first_day(query, "to"), zone)
        )

    def _behind(self, place: StreamPosition) -> Q:
        """Rows of the same time are ordered by stream rank, and then by descending id."""
        if self.rank > place.rank:
            return Q(created__lte=place.at)
        if self.rank < place.rank:
            return Q(created__lt=place.at)
        # The first condition lets Postgres use an index on the time.
        beyond = Q(created__lt=place.at) | Q(created=place.at, id__lt=place.key)
        return Q(created__lte=place.at) & beyond


def kind_sent(query: Query) -> str:
    """Return the kind of event that the list is filtered by."""
    return choice_param(query, "kind", KINDS)


def _type_sent(query: Query) -> str:
    return choice_param(query, "type", {*record_models(), "run"})


def _by(rows: QuerySet[Any], query: Query) -> QuerySet[Any]:
    """Keep the rows of the requested actor."""
    actor = text_param(query, "actor")
    if not actor:
        return rows
    named: QuerySet[Any] = rows.annotate(by=actor_kind())
    if actor in ACTORS:
        return named.filter(by__in=ACTORS[actor][1])
    return named.filter(by=actor.partition(":")[0], actor=actor)


def _newest(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Keep the newest rows to search, because no index helps to find parts of words."""
    moments = rows.order_by("-created", "-id").values("created")
    edge = Subquery(moments[MAX_EXAMINED : MAX_EXAMINED + 1])
    return rows.filter(created__gte=Coalesce(edge, Value(datetime.min.replace(tzinfo=UTC))))


def changes(user: User, query: Query) -> QuerySet[Any] | None:
    """Return revisions with the names of their fields, but without texts, which can be long."""
    kind, of_type = kind_sent(query), _type_sent(query)
    if kind not in ("", "changes") or query.get("warnings") or of_type == "run":
        return None
    rows = _by(Revision.objects.for_user(user), query)
    if of_type:
        rows = rows.filter(record_type=of_type)
    told: QuerySet[Any] = rows.defer("before", "after").annotate(
        names=_KeysOf("after"),
        had=_KeysOf("before"),
        trashed=KeyTextTransform("trashed_at", "after"),
        superseded=KeyTextTransform("superseded_by_id", "after"),
    )
    return told


class _KeysOf(Func):
    template = "ARRAY(SELECT jsonb_object_keys(%(expressions)s))"
    output_field = ArrayField(TextField())


def log(user: User, query: Query) -> QuerySet[Any] | None:
    """Return lines of the activity log, except those that repeat a revision."""
    kind = kind_sent(query)
    if kind in ("changes", "calls"):
        return None
    rows = _by(Activity.objects.for_user(user).exclude(kind__in=_TOLD), query)
    if kind == "runs":
        rows = rows.filter(subject_type="run")
    elif kind == "sign-ins":
        rows = rows.filter(kind__in=SIGN_INS)
    elif kind == "tools":
        rows = rows.filter(kind=TOOL_CALLED)
    elif not kind:  # the proposal has its own line
        rows = rows.exclude(kind=TOOL_CALLED, detail__outcome="held")
    elif kind == "acts":
        rows = rows.exclude(subject_type="run").exclude(kind__in=(*SIGN_INS, TOOL_CALLED))
    if of_type := _type_sent(query):
        rows = rows.filter(subject_type=of_type)
    if query.get("warnings"):
        rows = rows.filter(is_warning=True)
    return rows


def runs(user: User, query: Query) -> QuerySet[Any] | None:
    """Return runs by when they were started. The log has a line about how each ended."""
    kind, of_type = kind_sent(query), _type_sent(query)
    if kind not in ("", "runs") or query.get("warnings") or of_type not in ("", "run"):
        return None
    rows = Run.objects.for_user(user).filter(topic__trashed_at=None)
    return _by(rows, query).select_related("topic").defer("manifest", "settings", "warnings")


def calls(user: User, query: Query) -> QuerySet[Any] | None:
    """Return model calls, without prompts and answers."""
    if kind_sent(query) not in ("", "calls") or _type_sent(query):
        return None
    rows: QuerySet[Any] = ModelCall.objects.for_user(user)
    if actor := text_param(query, "actor"):
        if actor not in ACTORS:
            return None
        beginnings = _CALLED_FOR.get(actor, (actor,))
        rows = rows.annotate(by=actor_kind("source"))
        rows = rows.filter(by__in=beginnings)
    if query.get("warnings"):
        rows = rows.exclude(failure="")
    return rows.defer("prompt", "answer")


STREAMS = (
    Stream("change", 0, changes, ("label", "reason", "source")),
    Stream("log", 1, log, ("label", "kind", "detail")),
    Stream("call", 2, calls, ("purpose", "model", "error", "source")),
    Stream("run", 3, runs, ("topic__title",)),
)
_NAMES = {stream.rank: stream.name for stream in STREAMS}


# --- text of a line ---


def address_of(run: Run) -> str:
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
    is_sentence: bool = False  # what it is about is said, or is its label
    sentence: tuple[str, str] | None = None  # what is said before and after what it is about
    call: ModelCall | None = None
    tool: str = ""  # the name of the tool that was called
    tone: str = ""  # "failed", "held" for what waits for a decision, or "routine"
    mark: str = "activity"  # its icon
    brief: str = ""  # shown instead of the details
    tag: tuple[str, str] | None = None  # a word about its state, and the class of its tag
    by_them: str = ""  # the query that lists everything by this actor
    is_by_same: bool = False  # the line above on the page has the same actor and day
    before: str = ""  # on the week's page, the text before the change, and after it
    after: str = ""
    joined: SafeString | None = None  # both in one sentence, if they have enough in common

    @property
    def first(self) -> Line:
        """Return the line itself, as groups return their newest line."""
        return self

    @property
    def subject(self) -> str:
        """Return the subject, unless the action already names it: “token made”."""
        return "" if self.is_sentence or self.said.startswith(self.noun) else self.noun

    @property
    def by(self) -> str:
        """Return who acted, as the beginning of a sentence. A username stays as it is."""
        return self.who if self.actor == f"human:{self.who}" else capfirst(self.who)

    @property
    def agent(self) -> str:
        """Return who acted in one word, for a list in which only agents act."""
        kind, _colon, name = self.actor.partition(":")
        if kind == "session" or self.actor == "agent:ask":
            return _("Ask")
        return name if kind == "agent" else self.by

    @cached_property
    def run_url(self) -> str:
        """Return the page of the run in which it happened, unless the line already links to it."""
        url = address_of(self.run) if self.run else ""
        return url if url != self.url else ""


# --- labels of actions ---

WORDS = {
    "channel-changed": _lazy("channel changed"),
    "channel-key-renewed": _lazy("signing key replaced"),
    "channel-created": _lazy("channel created"),
    "channel-off": _lazy("channel turned off after repeated failures"),
    "channel-put-back": _lazy("channel restored"),
    "channel-removed": _lazy("channel removed"),
    "delivered": _lazy("sent"),
    "delivery-given-up": _lazy("gave up sending"),
    "delivery-unsure": _lazy("may not have been delivered"),
    "digest-created": _lazy("digest created"),
    "digest-settings-changed": _lazy("digest settings changed"),
    "feed-ended": _lazy("feed revoked"),
    "feed-created": _lazy("feed created"),
    "notices-chosen": _lazy("notifications changed"),
    "schedule-failing": _lazy("schedule paused after failed runs"),
    "unsubscribed": _lazy("unsubscribed through a link in an email"),
}
SUBJECTS = {
    "channel": _lazy("channel"),
    "delivery": _lazy("message"),
    "digest": _lazy("digest"),
    "feed": _lazy("feed"),
}


# --- one line ---

LOG_WORDS = {
    "account-deleted": _lazy("account deleted"),
    **WORDS,
    "account-disabled": _lazy("account disabled"),
    "account-enabled": _lazy("account enabled"),
    "account-created": _lazy("account created"),
    "agent-changed": _lazy("agent settings changed"),
    "conflict-found": _lazy("contradiction found"),
    "conflict-gone": _lazy("conflict resolved because one side is no longer current"),
    "conflict-reopened": _lazy("conflict reopened"),
    "conflict-resolved": _lazy("conflict resolved"),
    "connection-changed": _lazy("connection changed"),
    "held": _lazy("held for review"),
    "export-requested": _lazy("export started"),
    "follow-up-failed": _lazy("a follow-up step failed"),
    "disk-edit-refused": _lazy("edit on disk not imported"),
    "disk-file-restored": _lazy("written to disk again"),
    "forgot-source": _lazy("deleted, along with everything from that source"),
    "url-forgotten": _lazy("forgotten, so it can appear as new again"),
    "url-remembered": _lazy("marked as seen"),
    "source-rule": _lazy("rule for all topics changed"),
    "read-next": _lazy("added to the next run’s reading list"),
    "read-next-not": _lazy("removed from the next run’s reading list"),
    "invitation-revoked": _lazy("invite link revoked"),
    "invited": _lazy("invite link created"),
    "limits-changed": _lazy("spending limits changed"),
    "own-key-changed": _lazy("personal model key changed"),
    "backup-plan-changed": _lazy("backup schedule changed"),
    "backup-deleted": _lazy("backup deleted permanently"),
    "backup-failed": _lazy("backup failed"),
    "agent-folder-failed": _lazy("folder can’t be used"),
    "agent-file-conflict": _lazy("changed in its folder and in Beacon"),
    "agent-file-locked": _lazy("locked, so the change on disk was undone"),
    "mirror-failed": _lazy("copy on disk is out of date"),
    "mirror-folder-removed": _lazy("another account’s folder renamed on disk"),
    "mirror-git-failed": _lazy("changes couldn’t be committed"),
    "mirror-renewed": _lazy("all files written to disk again"),
    "mirror-resumed": _lazy("turned on saving files to disk"),
    "mirror-stopped": _lazy("turned off saving files to disk"),
    "content-cleared": _lazy("content store cleared"),
    "content-retired": _lazy("retention period ended"),
    "content-retiring-failed": _lazy("old content couldn’t be moved to Trash"),
    "notes-maintained": _lazy("notes cleaned up"),
    "password-changed": _lazy("password changed"),
    "password-set-by-staff": _lazy("password set by an admin"),
    "plan-accepted": _lazy("plan accepted unchanged"),
    "plan-edited": _lazy("plan edited and accepted"),
    "plan-recreated": _lazy("new plan requested"),
    "plan-waits": _lazy("plan is waiting for review"),
    "plan-continued": _lazy("plan continued without a review"),
    "profile-changed": _lazy("profile changed"),
    "proposal-accepted": _lazy("accepted"),
    "proposal-reopened": _lazy("reopened"),
    "proposal-rejected": _lazy("rejected"),
    "proposals-expired": _lazy("expired without a decision"),
    "publish-failed": _lazy("published copy couldn’t be updated"),
    "purge-failed": _lazy("couldn’t be deleted permanently"),
    "purged": _lazy("deleted permanently"),
    "quarantine-released": _lazy("records released from quarantine"),
    "quarantine-trashed": _lazy("quarantined records deleted"),
    "name-separated": _lazy("merged names separated"),
    "names-merged": _lazy("names merged"),
    "names-restored": _lazy("names merged again"),
    "rated": _lazy("rated"),
    "rating-cleared": _lazy("rating cleared"),
    "reflected": _lazy("reflection done"),
    "reflection-failed": _lazy("reflection failed"),
    "review-levels-changed": _lazy("review rules changed"),
    "comment-deleted": _lazy("comment deleted"),
    "comment-edited": _lazy("comment edited"),
    "comment-restored": _lazy("comment restored"),
    "report-commented": _lazy("comment added"),
    "report-corrected": _lazy("corrected by a person"),
    "correction-undone": _lazy("correction undone"),
    "sentence-checked": _lazy("verified by a person"),
    "sentence-unchecked": _lazy("verification removed"),
    "report-shared": _lazy("shared via link"),
    "budget-near": _lazy("monthly limit nearly reached"),
    "report-unshared": _lazy("shared link revoked"),
    "topic-left": _lazy("a member left"),
    "topic-role-changed": _lazy("a member’s role changed"),
    "topic-shared": _lazy("shared with a person"),
    "topic-unshared": _lazy("a person’s access removed"),
    "run-cancel-requested": _lazy("cancellation requested"),
    "run-restored": _lazy("restored from Trash"),
    "run-trashed": _lazy("moved to Trash, along with everything that only this run found"),
    "run-cancelled": _lazy("cancelled"),
    "schedule-caught-up": _lazy("caught up on missed runs"),
    "run-failed": _lazy("failed"),
    "run-requeued": _lazy("queued again"),
    "run-retried": _lazy("retried"),
    "run-saved": _lazy("saved"),
    "schedule-skipped": _lazy("skipped"),
    "run-tried-now": _lazy("retried immediately"),
    "run-stop-requested": _lazy("early stop requested, so the report will be written"),
    "schedule-paused": _lazy("schedule paused"),
    "schedule-resumed": _lazy("schedule resumed"),
    "schedule-set": _lazy("schedule set"),
    "schedule-unreadable": _lazy("schedule can’t be read"),
    "source-allowed": _lazy("unblocked"),
    "source-refused": _lazy("blocked"),
    "sign-in-ended": _lazy("browser signed out"),
    "sign-in-failed": _lazy("sign-in failed"),
    "sign-in-method-added": _lazy("sign-in method added"),
    "sign-in-method-removed": _lazy("sign-in method removed"),
    "recovery-codes-created": _lazy("recovery codes replaced"),
    "recovery-code-used": _lazy("signed in with a recovery code"),
    "became-admin": _lazy("became an admin through a single sign-on group"),
    "no-longer-admin": _lazy("no longer an admin because their single sign-on groups changed"),
    "sign-ins-ended": _lazy("signed out everywhere else"),
    "signed-in": _lazy("signed in"),
    "signed-out": _lazy("signed out"),
    "app-allowed": _lazy("app allowed to connect"),
    "app-secret-reused": _lazy("disconnected because a code or refresh token was used twice"),
    "token-created": _lazy("token created"),
    "token-revoked": _lazy("token revoked"),
    "trash-pruned": _lazy("deleted permanently after 30 days in Trash"),
    "tool-called": _lazy("called a tool"),
    "upkeep-failed": _lazy("note maintenance failed"),
}
# Most readers only look for these if something went wrong.
ROUTINE = frozenset(
    {
        "signed-in",
        "signed-out",
        "delivered",
        "exported",
        "export-requested",
        "mirror-renewed",
        TOOL_CALLED,
    }
)
WAITING = frozenset({"held", "plan-waits", "conflict-found"})
# The icon of a line, by its kind or the first word of that.
_MARKS = {
    "account": "person", "agent": "agent", "app": "key", "backup": "download", "channel": "connections",
    "comment": "ask", "conflict": "conflict", "connection": "connections", "content": "content",
    "correction": "edit", "delivered": "link", "delivery": "link", "digest": "reports",
    "export": "download", "exported": "download", "feed": "link", "forgot": "trash", "held": "review",
    "imported": "download", "invited": "person", "limits": "settings", "names": "person",
    "notes": "notes", "notices": "settings", "password": "key", "plan": "review", "profile": "settings",  # nosec B105
    "proposal": "review", "proposals": "review", "purged": "trash", "quarantine": "warning",
    "rated": "useful", "rating": "useful", "recovery": "key", "reflected": "observations",
    "report": "reports", "review": "settings", "run": "play", "schedule": "scheduled",
    "sentence": "check", "session": "ask", "sign": "key", "signed": "key", "source": "web",
    "token": "key", "tool": "search", "topic": "topics", "trash": "trash", "url": "web",  # nosec B105
    "report-commented": "ask", "report-corrected": "edit", "report-shared": "link",
    "run-trashed": "trash", "topic-shared": "people",
}  # fmt: skip


def mark_of(kind: str) -> str:
    """Return the icon for a kind of log line."""
    return _MARKS.get(kind) or _MARKS.get(kind.partition("-")[0], "activity")


def tone_of(row: Any) -> str:
    """Tell failures and what waits for a decision from routine events."""
    outcome = row.detail.get("outcome", "") if row.kind == TOOL_CALLED else ""
    if row.is_warning or row.kind.endswith("-failed") or outcome not in ("", "held"):
        return "failed"
    if row.kind in WAITING:
        return "held"
    return "routine" if row.kind in ROUTINE else ""


def caller(call: ModelCall) -> str:
    return "research" if call.source.startswith("run:") else call.source


# What was done as a sentence: who did it is before it, `it` is its link. Other words are details.
SENTENCES = {
    "agent-changed": _lazy("changed the settings of the agent %(it)s"),
    "app-allowed": _lazy("allowed the app %(it)s to connect"),
    "channel-changed": _lazy("changed the channel %(it)s"),
    "channel-created": _lazy("created the channel %(it)s"),
    "channel-removed": _lazy("removed the channel %(it)s"),
    "comment-deleted": _lazy("deleted a comment on %(it)s"),
    "comment-edited": _lazy("edited a comment on %(it)s"),
    "comment-restored": _lazy("restored a comment on %(it)s"),
    "correction-undone": _lazy("undid a correction in %(it)s"),
    "delivered": _lazy("sent %(it)s"),
    "delivery-given-up": _lazy("gave up sending %(it)s"),
    "digest-created": _lazy("created %(it)s"),
    "export-requested": _lazy("started an export (%(it)s)"),
    "held": _lazy("proposed %(it)s"),
    "imported": _lazy("imported %(it)s"),
    "proposal-accepted": _lazy("accepted %(it)s"),
    "proposal-rejected": _lazy("rejected %(it)s"),
    "rating-cleared": _lazy("cleared the rating of %(it)s"),
    "report-commented": _lazy("commented on %(it)s"),
    "report-corrected": _lazy("corrected a sentence in %(it)s"),
    "report-shared": _lazy("shared %(it)s via a link"),
    "report-unshared": _lazy("revoked a link to %(it)s"),
    "reflected": _lazy("reviewed %(it)s"),
    "run-cancelled": _lazy("cancelled %(it)s"),
    "run-restored": _lazy("restored %(it)s from Trash"),
    "run-trashed": _lazy("moved %(it)s to Trash, along with everything that only this run found"),
    "run-retried": _lazy("retried %(it)s"),
    "run-saved": _lazy("saved the report for %(it)s"),
    "schedule-paused": _lazy("paused the schedule for %(it)s"),
    "schedule-resumed": _lazy("resumed the schedule for %(it)s"),
    "schedule-set": _lazy("set the schedule for %(it)s"),
    "sentence-checked": _lazy("verified a sentence in %(it)s"),
    "sentence-unchecked": _lazy("removed a verification in %(it)s"),
    "sign-in-failed": _lazy("failed to sign in as %(it)s"),
    "signed-in": _lazy("signed in with %(it)s"),
    "source-rule": _lazy("changed the rule for %(it)s in all topics"),
    "source-allowed": _lazy("unblocked %(it)s"),
    "source-refused": _lazy("blocked %(it)s"),
    "token-created": _lazy("created the token %(it)s"),
    "token-revoked": _lazy("revoked the token %(it)s"),
    "topic-role-changed": _lazy("changed %(member)s’s role for %(it)s to %(role)s"),
    "topic-shared": _lazy("shared %(it)s with %(member)s as %(role)s"),
    "topic-unshared": _lazy("stopped sharing %(it)s with %(member)s"),
}
_RATED = {
    "useful": _lazy("rated “%(it)s” as useful"),
    "not-useful": _lazy("rated “%(it)s” as not useful"),
}
# Names and values of details that are codes.
_DETAILS = {
    "act": _lazy("now"),
    "address": _lazy("from"),
    "before": _lazy("before"),
    "cron": _lazy("schedule"),
    "frequency": _lazy("frequency"),
}
_VALUES = {
    "block": _lazy("blocked"),
    "boost": _lazy("boosted"),
    "mute": _lazy("muted"),
    "none": _lazy("no rule"),
}
# Why a tool call failed, by the code of its result.
OUTCOMES = {
    "bad_arguments": _lazy("invalid arguments"), "conflict": _lazy("changed in the meantime"),
    "forbidden": _lazy("not allowed"), "limit": _lazy("limit reached"), "locked": _lazy("locked"),
    "not_found": _lazy("not found"), "over_budget": _lazy("too long"), "sensitive": _lazy("sensitive"),
    "stale": _lazy("changed in the meantime"), "unavailable": _lazy("not available"),
    "unknown_tool": _lazy("unknown tool"), "unreadable": _lazy("can’t be read"),
}  # fmt: skip
_IT = "\x00"  # where what a line is about is in its sentence
# Counts in a detail, by the type that they count.
_COUNTED = {"notes": "note", "observations": "observation", "documents": "librarydocument"}
# Why a conflict was resolved without a decision, by the code of its log line.
_GONE = {
    "struck": _lazy("conflict resolved because one side was marked as wrong"),
    "replaced": _lazy("conflict resolved because one side was replaced"),
    "trashed": _lazy("conflict resolved because one side was moved to Trash"),
    "deleted": _lazy("conflict resolved because one side was deleted permanently"),
    "edited": _lazy("conflict resolved because its line in the file was changed"),
}
_SUBJECTS = {
    **SUBJECTS,
    "run": _lazy("run"),
    "user": _lazy("account"),
    "signin": _lazy("sign-in"),
    "invitation": _lazy("invitation"),
    "connection": _lazy("connection"),
    "agent": _lazy("agent"),
    "apitoken": _lazy("token"),
    "proposal": _lazy("proposal"),
    "conflict": _lazy("conflict"),
    "step": _lazy("step"),
    "reflection": _lazy("reflection"),
    "checkedsentence": _lazy("report sentence"),
    "correction": _lazy("report sentence"),
}


# Fields that aren't mentioned, because they follow from another field.
QUIET = frozenset(
    {
        "digest", "edited_by_person", "key", "updated", "near_duplicate_of_id",
        "retired_run", "retired_as", "blame", "size", "summary_by",
        "content_version", "media_type", "modified_at",
    }
)  # fmt: skip
_OWN_ACTORS = {
    "session": _lazy("a conversation in Ask"),
    "import": _lazy("an import"),
    "disk": _lazy("an edit on disk"),
}
_SAYS = frozenset({"content", "text", "body", "value"})


def who(actor: str, username: str) -> str:
    """Return the actor's name as `username` sees it."""
    kind, _colon, name = actor.partition(":")
    if kind == "human":
        return _("you") if name == username else name
    return str(_OWN_ACTORS.get(kind) or origins.writer_label(kind, name) or actor)


def subject(record_type: str) -> str:
    if record_type in record_models():
        return str(kind_of(record_type).noun)
    return str(_SUBJECTS.get(record_type, record_type))


def of_change(revision: Revision) -> str:
    """Return what a revision did to its record."""
    names, had = revision.names, revision.had  # type: ignore[attr-defined]
    if not had:
        return _("created")
    if "trashed_at" in names:
        is_gone, is_of_file = revision.trashed, revision.source == FOLDER  # type: ignore[attr-defined]
        if is_gone:
            return _("removed") if is_of_file else _("moved to Trash")
        return _("added again") if is_of_file else _("restored from Trash")
    if "superseded_by_id" in names:
        is_old = revision.superseded  # type: ignore[attr-defined]
        return _("replaced") if is_old else _("current again")
    return _("changed")


def field_labels(record_type: str, names: Iterable[str]) -> list[str]:
    """Return the labels of the changed fields that matter to people.

    A record's content is its text.
    """
    field_names = sorted({name for name in names if name not in QUIET})
    model = record_models().get(record_type)
    named = field_words(model, field_names) if model else field_names
    return [
        _("text") if name in _SAYS else said for name, said in zip(field_names, named, strict=True)
    ]


def of_log(line: Activity) -> str:
    """Return the text of a log line, even for a kind without a label."""
    if line.kind == TOOL_CALLED:
        values = line.detail if isinstance(line.detail, dict) else {}
        outcome = values.get("outcome", "")
        is_error = outcome not in ("", "held")
        call = {"tool": line.label, "arguments": values, "is_error": is_error}
        return describe_call(call, held=outcome == "held")
    if line.kind == "conflict-gone" and (why := _GONE.get(line.detail.get("because", ""))):
        return str(why)
    return str(LOG_WORDS.get(line.kind, line.kind.replace("-", " ")))


def sentence_of(line: Activity) -> tuple[str, str] | None:
    """Return what a sentence says before and after what the line is about, if its kind has one."""
    values = line.detail if isinstance(line.detail, dict) else {}
    str_promise = SENTENCES.get(line.kind) or (
        _RATED.get(str(values.get("value"))) if line.kind == "rated" else None
    )
    if str_promise is None:
        return None
    words = {name: str(values.get(name, "")) for name in ("member", "role")}
    words["role"] = str(dict(Membership.Role.choices).get(words["role"], words["role"]))
    return _split_at_subject(str(str_promise) % {**words, "it": _IT})


def sentence_of_change(revision: Revision) -> tuple[str, str] | None:
    """Return what a sentence says before and after a record that moved to or from Trash."""
    if not revision.had or "trashed_at" not in revision.names:  # type: ignore[attr-defined]
        return None
    is_gone, is_of_file = revision.trashed, revision.source == FOLDER  # type: ignore[attr-defined]
    # The Trash page doesn't list the documents of files, which return with their file.
    if is_of_file:
        message = (
            _("removed the %(kind)s “%(it)s” from the library")
            if is_gone
            else _("added the %(kind)s “%(it)s” to the library again")
        )
    elif is_gone:
        message = _("moved the %(kind)s “%(it)s” to Trash")
    else:
        message = _("restored the %(kind)s “%(it)s” from Trash")
    return _split_at_subject(message % {"kind": subject(revision.record_type), "it": _IT})


def _split_at_subject(text: str) -> tuple[str, str]:
    before, _it, after = text.partition(_IT)
    return before, after


def of_call(call: ModelCall) -> list[str]:
    """Return a model call's tokens, time and cost, and why it failed."""
    tokens = call.prompt_tokens + call.completion_tokens
    texts = [format_tokens(tokens)]
    if call.milliseconds >= 100:
        texts.append(_("%(seconds).1f s") % {"seconds": call.milliseconds / 1000})
    if call.money is None:
        texts.append(_("price unknown"))
    elif call.money:
        texts.append(dollars(call.money))
    if call.failure:
        texts.append(call.get_failure_display())
    return texts


def of_calls(calls: Sequence[ModelCall]) -> list[str]:
    """Return the tokens and the cost of several calls."""
    tokens = sum(call.prompt_tokens + call.completion_tokens for call in calls)
    texts = [format_tokens(tokens)]
    if money := sum((call.money or Decimal() for call in calls), Decimal()):
        texts.append(dollars(money))
    if unknown := sum(call.money is None for call in calls):
        texts.append(
            ngettext("%(n)d price unknown", "%(n)d prices unknown", unknown) % {"n": unknown}
        )
    return texts


def of_detail(detail: Any, actor: str = "") -> list[str]:
    """Return the useful details of a log line, shortened.

    A source that is also the actor is left out, because the line already names it.
    """
    if not isinstance(detail, dict):
        return []
    texts = [str(detail["why"])] if detail.get("why") else []
    for name, value in detail.items():
        if (
            name in ("why", "because", "key", "number")
            or value in ("", None, [], {}, 0)
            or (name == "source" and value == actor)
        ):
            continue
        if name in _COUNTED and isinstance(value, int):
            texts.append(count_label(_COUNTED[name], value))
            continue
        if isinstance(value, int) and (number := _number(name, value)):
            texts.append(number)
            continue
        shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        if name == "outcome":
            texts.append(str(OUTCOMES.get(shown, shown.replace("_", " "))))
            continue
        if name in ("act", "before"):
            shown = str(_VALUES.get(shown, shown))
        texts.append(f"{_DETAILS.get(name) or name.replace('_', ' ')}: {shown[:200]}")
    return texts[:8]


def _number(name: str, n: int) -> str:
    """Return a count in words, for the details that are one."""
    words = {
        "rows": ngettext("%(n)s record", "%(n)s records", n),
        "changes": ngettext("%(n)s change", "%(n)s changes", n),
        "facts_learned": ngettext("%(n)d fact learned", "%(n)d facts learned", n),
        "facts_new": ngettext("%(n)d new fact", "%(n)d new facts", n),
        "facts_confirmed": _("%(n)d confirmed"),
        "facts_retired": _("%(n)d no longer current"),
    }.get(name, "")
    return words % {"n": n if "(n)d" in words else grouped(n)}


def of_run(run: Run) -> list[str]:
    """Return how a run was started, unless a person did it."""
    return [] if run.trigger == Run.Trigger.PERSON else [run.get_trigger_display()]
