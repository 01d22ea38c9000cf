"""The streams that make up Activity, each with its filtered rows, newest first.

Each stream is read separately, and only as far as a page needs. `research.pages.activity` merges
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db.models import Func, Q, QuerySet, Subquery, TextField, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce
from django.utils.timezone import make_aware
from django.utils.translation import gettext_lazy as _

from beacon_site.text.dates import day_of
from memory.models import Activity, ModelCall, Revision, User
from memory.models.history import actor_kind
from memory.records.kinds import models as record_models
from research.models import Run

MOST_LOOKED_AT = 100_000  # the newest lines of a stream that are searched for words
# Kinds of actors, with the prefixes that identify them in stored rows.
ACTORS = {
    "person": (_("people"), ("human",)),
    "agent": (_("agents"), ("agent",)),
    "research": (_("research"), ("research",)),
    "reflector": (_("reflection"), ("reflector",)),
    "maintenance": (_("maintenance"), ("maintenance",)),
    "system": (_("system"), ("system",)),
}
# Who a model is called for, by the prefix of the call's source.
_CALLED_FOR = {"person": ("human", "explicit"), "agent": ("agent", "session"), "research": ("run",)}
KINDS = {
    "changes": _("record changes"),
    "runs": _("runs"),
    "calls": _("model calls"),
    "tools": _("tool calls"),
    "sign-ins": _("sign-ins and account"),
    "acts": _("other actions"),
}
SIGN_INS = (
    "signed-in", "signed-out", "sign-in-failed", "sign-in-ended", "sign-ins-ended",
    "password-changed", "password-set-by-staff", "profile-changed", "limits-changed",
    "account-made", "account-disabled", "account-enabled", "invited", "invitation-revoked",
    "token-made", "token-revoked",
)  # fmt: skip
TOOL_CALLED = "tool-called"
# Log lines that repeat what the record's own revision says.
_TOLD = ("topic-made", "topic-trashed", "topic-restored", "memory-ended", "memory-revived")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The filters in the page's URL, without invalid ones."""

    words: str = ""
    actor: str = ""
    kind: str = ""
    type: str = ""
    first: date | None = None
    last: date | None = None
    warnings: bool = False

    @classmethod
    def of(cls, query: Any) -> Wanted:
        """Read it from a URL's query."""
        kind, record_type = query.get("kind", ""), query.get("type", "")
        return cls(
            words=query.get("q", "").replace("\x00", "").strip()[:200],
            actor=query.get("actor", "").replace("\x00", "").strip()[:200],
            kind=kind if kind in KINDS else "",
            type=record_type if record_type in {*record_models(), "run"} else "",
            first=day_of(query.get("from", "")),
            last=day_of(query.get("to", "")),
            warnings=bool(query.get("warnings")),
        )

    @property
    def is_narrowed(self) -> bool:
        """Whether a filter may hide some lines."""
        return self != Wanted()

    @property
    def actor_kind(self) -> str:
        """Return the kind of actor in the filter, even if the filter names a single one."""
        first = self.actor.partition(":")[0]
        return "person" if first == "human" else first


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the merged stream: a time, then the stream's rank, then the row."""

    at: datetime
    rank: int
    key: int


@dataclass(frozen=True, slots=True)
class Happened:
    """A row of a stream with its place in the merged stream."""

    place: Place
    row: Any

    @property
    def name(self) -> str:
        """Return the name of its stream."""
        return _NAMES[self.place.rank]


@dataclass(frozen=True, slots=True)
class Stream:
    """One source of lines. `rows` returns those of a user, or None if no row can match.

    Words are searched in the fields `said_in`.
    """

    name: str
    rank: int
    rows: Callable[[User, Wanted], QuerySet[Any] | None]
    said_in: tuple[str, ...]

    def page(
        self, user: User, wanted: Wanted, zone: tzinfo, after: Place | None, most: int
    ) -> list[Any]:
        """Return at most `most` rows older than `after`, newest first."""
        rows = self.rows(user, wanted)
        if rows is None:
            return []
        rows = _between(rows, wanted, zone)
        if wanted.words:
            rows = _holding(_newest(rows), wanted.words, self.said_in)
        if after is not None:
            rows = rows.filter(self._behind(after))
        return list(rows.order_by("-created", "-id")[:most])

    def _behind(self, place: Place) -> Q:
        """Rows of the same time are ordered by stream rank, and then by descending id."""
        if self.rank > place.rank:
            return Q(created__lte=place.at)
        if self.rank < place.rank:
            return Q(created__lt=place.at)
        # The first condition lets Postgres use an index on the time.
        beyond = Q(created__lt=place.at) | Q(created=place.at, id__lt=place.key)
        return Q(created__lte=place.at) & beyond


def _between(rows: QuerySet[Any], wanted: Wanted, zone: tzinfo) -> QuerySet[Any]:
    if wanted.first:
        rows = rows.filter(created__gte=make_aware(datetime.combine(wanted.first, time()), zone))
    if wanted.last and wanted.last < date.max:
        end = datetime.combine(wanted.last + timedelta(days=1), time())
        rows = rows.filter(created__lt=make_aware(end, zone))
    return rows


def _by(rows: QuerySet[Any], wanted: Wanted) -> QuerySet[Any]:
    """Keep the rows of the requested actor."""
    if not wanted.actor:
        return rows
    named: QuerySet[Any] = rows.annotate(by=actor_kind())
    if wanted.actor in ACTORS:
        return named.filter(by__in=ACTORS[wanted.actor][1])
    return named.filter(by=wanted.actor.partition(":")[0], actor=wanted.actor)


def _newest(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Keep the newest rows to search, because no index helps to find parts of words."""
    moments = rows.order_by("-created", "-id").values("created")
    edge = Subquery(moments[MOST_LOOKED_AT : MOST_LOOKED_AT + 1])
    return rows.filter(created__gte=Coalesce(edge, Value(datetime.min.replace(tzinfo=UTC))))


def _holding(rows: QuerySet[Any], words: str, fields: Iterable[str]) -> QuerySet[Any]:
    for word in words.split():
        anywhere = Q()
        for name in fields:
            anywhere |= Q(**{f"{name}__icontains": word})
        rows = rows.filter(anywhere)
    return rows


def changes(user: User, wanted: Wanted) -> QuerySet[Any] | None:
    """Return revisions with the names of their fields, but without texts, which can be long."""
    if wanted.kind not in ("", "changes") or wanted.warnings or wanted.type == "run":
        return None
    rows = _by(Revision.objects.of(user), wanted)
    if wanted.type:
        rows = rows.filter(record_type=wanted.type)
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


def log(user: User, wanted: Wanted) -> QuerySet[Any] | None:
    """Return lines of the activity log, except those that repeat a revision."""
    if wanted.kind in ("changes", "calls"):
        return None
    rows = _by(Activity.objects.of(user).exclude(kind__in=_TOLD), wanted)
    if wanted.kind == "runs":
        rows = rows.filter(subject_type="run")
    elif wanted.kind == "sign-ins":
        rows = rows.filter(kind__in=SIGN_INS)
    elif wanted.kind == "tools":
        rows = rows.filter(kind=TOOL_CALLED)
    elif wanted.kind == "acts":
        rows = rows.exclude(subject_type="run").exclude(kind__in=(*SIGN_INS, TOOL_CALLED))
    if wanted.type:
        rows = rows.filter(subject_type=wanted.type)
    if wanted.warnings:
        rows = rows.filter(is_warning=True)
    return rows


def runs(user: User, wanted: Wanted) -> QuerySet[Any] | None:
    """Return runs by when they were started. The log has a line about how each ended."""
    if wanted.kind not in ("", "runs") or wanted.warnings or wanted.type not in ("", "run"):
        return None
    rows = Run.objects.of(user).filter(topic__trashed_at=None)
    return _by(rows, wanted).select_related("topic").defer("manifest", "settings", "warnings")


def calls(user: User, wanted: Wanted) -> QuerySet[Any] | None:
    """Return model calls, without prompts and answers."""
    if wanted.kind not in ("", "calls") or wanted.type:
        return None
    rows: QuerySet[Any] = ModelCall.objects.of(user)
    if wanted.actor:
        if wanted.actor not in ACTORS:
            return None
        beginnings = _CALLED_FOR.get(wanted.actor, (wanted.actor,))
        rows = rows.annotate(by=actor_kind("source"))
        rows = rows.filter(by__in=beginnings)
    if wanted.warnings:
        rows = rows.exclude(failure="")
    return rows.defer("prompt", "answer")


STREAMS = (
    Stream("change", 0, changes, ("label", "reason", "source")),
    Stream("log", 1, log, ("label", "kind", "detail")),
    Stream("call", 2, calls, ("purpose", "model", "error", "source")),
    Stream("run", 3, runs, ("topic__title",)),
)
_NAMES = {stream.rank: stream.name for stream in STREAMS}
