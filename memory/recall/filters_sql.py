"""What a recall is narrowed to: operators and arguments as conditions on the search index.

Those that are asked most often are columns of the index and cost no look at a record; others are
a subquery over the records.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from django.core.exceptions import EmptyResultSet
from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL
from django.utils import timezone
from django.utils.translation import gettext as _

from memory.errors import InvalidValue
from memory.models.topics import Topic
from memory.recall.bm25_sql import Among, language_of
from memory.recall.filters import holding, named_topic, narrowed
from memory.recall.kinds import KINDS, RecallKind
from memory.recall.operators import Filter, Question, moment, parse
from memory.texts.terms import ENGLISH, phrase_query
from memory.texts.time_zones import named

_NEVER = ("expired", "superseded", "trashed")  # what recall does not return, whoever asks
_MARKS = frozenset({"trust", "sensitivity"})  # columns of the index, named as the records' own
_OF_INDEX = _MARKS | {"type", "kind", "category", "topic", "after", "before"}


@dataclass(slots=True)
class Narrowing:
    """One recall's question with all that narrows it, and what is to be said of that."""

    owner: Any
    question: Question
    kinds: list[RecallKind]
    now: datetime
    zone: tzinfo
    filters: tuple[Filter, ...] = ()
    after: datetime | None = None
    before: datetime | None = None
    topic_ids: dict[Filter, list[uuid.UUID | None]] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    is_narrow: bool = False


def narrowing_of(owner: Any, query: str | Question, how: Mapping[str, Any]) -> Narrowing:
    """Return the question with its operators and the arguments put together.

    A Question is taken as it is.  Raises InvalidValue for a type that does not exist.
    """
    question = parse(query) if isinstance(query, str) else query
    filters = [*question.filters, *_filters(how)]
    asked = Narrowing(
        owner=owner,
        question=question,
        kinds=_kinds(filters, how.get("types", ())),
        now=how.get("now") or timezone.now(),
        zone=ZoneInfo(named(getattr(owner, "time_zone", "") or "") or "UTC"),
        filters=tuple(filters),
        after=how.get("after"),
        before=how.get("before"),
    )
    asked.is_narrow = bool(how.get("types")) or len(filters) > len(question.filters)
    asked.is_narrow |= bool(asked.after or asked.before)
    for one in filters:
        if one.field == "topic":
            asked.topic_ids[one] = _topics(owner, one.values)
    if any(question.asks("is", state) for state in _NEVER):
        asked.notices.append(
            _(
                "Recall never returns what has expired, was superseded or lies in the trash: the "
                "lists of notes and observations and the trash show it."
            )
        )
    return asked


def _filters(how: Mapping[str, Any]) -> list[Filter]:
    """Return the arguments that have an operator as that."""
    found = []
    for name, argument in (("category", "categories"), ("kind", "kinds")):
        if values := how.get(argument):
            found.append(Filter(name, tuple(str(value) for value in values)))
    topic = how.get("topic")
    if topic:
        found.append(Filter("topic", (getattr(topic, "slug", "") or str(topic),)))
    if scope := how.get("scope"):
        found.append(Filter("scope", (str(scope),)))
    return found


def _kinds(filters: Sequence[Filter], types: Sequence[str]) -> list[RecallKind]:
    """Return the types that may have a hit at all."""
    for name in types:
        if name not in KINDS:
            problem = _("There is no type “%(type)s” to recall; there are: %(known)s.") % {
                "type": name,
                "known": ", ".join(KINDS),
            }
            raise InvalidValue(problem, errors={"type": [problem]})
    kept = []
    for kind in KINDS.values():
        let_through = not types or kind.type in types
        for one in filters:
            if one.field == "type":
                let_through &= (kind.type in one.values) != one.negated
            elif one.field in ("kind", "category") and one.field != kind.category_field:
                let_through &= one.negated
        if let_through:
            kept.append(kind)
    return kept


def _topics(owner: Any, names: Sequence[str]) -> list[uuid.UUID | None]:
    """Return the ids of the topics of these slugs or titles; None stands for no topic."""
    wanted = Q(pk__in=[])
    for name in names:
        wanted |= named_topic(name)
    found: list[uuid.UUID | None] = list(
        Topic.objects.of(owner).live().filter(wanted).values_list("pk", flat=True)
    )
    return [*found, None] if any(name.casefold() == "none" for name in names) else found


def rows_of(kind: RecallKind, asked: Narrowing) -> QuerySet[Any]:
    """Return the records of a type that the recall may return."""
    rows = narrowed(
        kind.rows(asked.owner, asked.now), asked.filters, zone=asked.zone, now=asked.now
    )
    if kind.states:
        rows = rows.filter(state__in=_states(kind, asked))
    if asked.after:
        rows = rows.filter(created__gte=asked.after)
    if asked.before:
        rows = rows.filter(created__lt=asked.before)
    if asked.question.phrases or asked.question.without:
        bare = Question("", "", asked.question.phrases, asked.question.without)
        rows = holding(rows, bare, language_of(asked.owner), asked.owner)
    return rows


def _states(kind: RecallKind, asked: Narrowing) -> tuple[str, ...]:
    """Return the states that are returned: others than usual only where `is:` names them."""
    named_ones = [
        value
        for one in asked.filters
        if one.field == "is" and not one.negated
        for value in one.values
        if value in ("struck", "retired")
    ]
    return tuple(named_ones) or kind.states


class _Conditions:
    """Collects SQL conditions on the index's entry `e`."""

    def __init__(self) -> None:
        self.where: list[str] = []
        self.params: list[Any] = []

    def add(self, sql: str, *params: Any, negated: bool = False) -> None:
        """Add one condition; a negated one lets through what has no value there."""
        self.where.append(f"({sql}) IS NOT TRUE" if negated else sql)
        self.params += params


def among_of(kind: RecallKind, asked: Narrowing, language: str = ENGLISH) -> Among:
    """Return which entries of a type's index may be hits."""
    conditions = _Conditions()
    _add_rules(kind, asked, conditions)
    for one in asked.filters:
        _add_filter(kind, asked, one, conditions)
    if asked.after:
        conditions.add("e.created >= %s", asked.after)
    if asked.before:
        conditions.add("e.created < %s", asked.before)
    rare = [one for one in asked.filters if one.field not in _OF_INDEX]
    if rare:
        # The space of the entries is the owner's own. An owner's index would be tempting: for
        # records written since the last ANALYZE it looks as quick as the key, and is read whole.
        rows = narrowed(kind.model.objects.all(), rare, zone=asked.zone, now=asked.now)
        # Asked of each entry that is looked at: among other conditions a list of all such records
        # would be made first, whatever the words find.
        its_own = rows.filter(pk=RawSQL("e.record_id", ()))
        try:
            sql, params = its_own.order_by().values("pk").query.sql_with_params()
        except EmptyResultSet:  # a filter that this type does not know
            conditions.add("FALSE")
        else:
            conditions.add(f"EXISTS ({sql})", *params)
    for text in asked.question.without:
        if query := phrase_query(text, language):
            conditions.add("NOT e.words @@ %s::tsquery", query)
    phrases = (phrase_query(text, language) for text in asked.question.phrases)
    return Among(
        where=tuple(conditions.where),
        params=tuple(conditions.params),
        required=tuple(query for query in phrases if query),
        stands=True if kind.successors is not None else None,
    )


def _add_rules(kind: RecallKind, asked: Narrowing, conditions: _Conditions) -> None:
    """Add what holds for every recall: nothing expired, nothing of a topic in the trash."""
    conditions.add("(e.until IS NULL OR e.until > %s)", asked.now)
    if kind.states:
        conditions.add("e.kind = ANY(%s)", list(_states(kind, asked)))
    if kind.of_topic:
        conditions.add(
            "(e.topic_id IS NULL OR e.topic_id NOT IN (SELECT t.id FROM memory_topic t "
            "WHERE t.owner_id = %s AND t.trashed_at IS NOT NULL))",
            asked.owner.pk,
        )


def _add_filter(kind: RecallKind, asked: Narrowing, one: Filter, conditions: _Conditions) -> None:
    """Add an operator that the index has a column for."""
    if one.field == kind.category_field:
        conditions.add("e.kind = ANY(%s)", list(one.values), negated=one.negated)
    elif one.field in _MARKS:
        conditions.add(f"e.{one.field} = ANY(%s)", list(one.values), negated=one.negated)
    elif one.field in ("after", "before"):
        moments = [moment(value, zone=asked.zone, now=asked.now) for value in one.values]
        is_after = one.field == "after"
        sign, bound = (">=", min(moments)) if is_after else ("<", max(moments))
        conditions.add(f"e.created {sign} %s", bound, negated=one.negated)
    elif one.field == "topic":
        ids = asked.topic_ids[one]
        known = [pk for pk in ids if pk is not None]
        sql = "e.topic_id = ANY(%s::uuid[])" + (" OR e.topic_id IS NULL" if None in ids else "")
        conditions.add(f"({sql})", known, negated=one.negated)
