"""Query operators as conditions on records and on the search index."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.search import SearchQueryField
from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import (
    BooleanField,
    Exists,
    F,
    Func,
    Model,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    UUIDField,
    Value,
)
from django.db.models.expressions import RawSQL
from django.db.models.functions import Cast, Coalesce
from django.utils import timezone
from django.utils.translation import gettext as _

from beacon_site.text.cleaning import clean
from beacon_site.text.dates import system_zone_name
from beacon_site.text.terms import phrase_query, query_terms, tsquery_of
from memory.models.errors import InvalidValue
from memory.models.history import Revision, Use
from memory.models.remembered import Lock, Sensitivity
from memory.models.search_index import SearchEntry
from memory.models.topics import Topic
from memory.services.search.bm25_sql import EntryFilter, language_of
from memory.services.search.kinds import KINDS, RecallKind
from memory.services.search.query import NOT_PAUSED, Filter, Question, moment, parse

Rows = TypeVar("Rows", bound="QuerySet[Any]")

_NONE = Q(pk__in=[])


class _Matches(Func):
    """Whether terms match a tsquery.

    Django's own lookup would stem words that are already stems.
    """

    template = "(%(expressions)s)"
    arg_joiner = " @@ "
    output_field = BooleanField()


class _IsOneOf(Func):
    """Whether a key is in an array, which is hashed. `IN` with as many parameters is slower."""

    template = "(%(expressions)s))"
    arg_joiner = " = ANY("
    output_field = BooleanField()


@dataclass(frozen=True, slots=True)
class _FilterContext:
    """Everything a condition can depend on besides its values."""

    model: type[Model]
    zone: tzinfo
    now: datetime

    def has(self, name: str) -> bool:
        return any(name in (one.name, one.attname) for one in self.model._meta.concrete_fields)


def narrowed(
    rows: Rows,
    question: Question | Iterable[Filter],
    *,
    zone: tzinfo,
    now: datetime | None = None,
) -> Rows:
    """Keep the rows that match all filters.

    A filter that doesn't apply to the rows' type matches no row, or every row if it is negated.
    Callers exclude trashed rows themselves: `is:trashed` only requests them.
    """
    filters = question.filters if isinstance(question, Question) else tuple(question)
    about = _FilterContext(rows.model, zone, now or timezone.now())
    for one in filters:
        condition = _CONDITIONS[one.field](one.values, about)
        rows = rows.filter(~condition if one.negated else condition)
    return rows


def holding(rows: Rows, question: Question, language: str, owner: Any) -> Rows:
    """Keep the owner's rows that contain all words and phrases of the question and none it excludes.

    List pages use this. There, words filter; in recall, they rank.
    """
    return rows.filter(_contents(rows.model, question, language, owner))


def _contents(model: type[Model], question: Question, language: str, owner: Any) -> Q:
    words = dict.fromkeys(query_terms(question.words, language))
    parts = [tsquery_of([term]) for term in words]
    parts += [query for one in question.phrases if (query := phrase_query(one, language))]
    left_out = [query for one in question.without if (query := phrase_query(one, language))]
    if question.words and not parts:
        return _NONE  # text without letters or digits matches nothing
    found = Q()
    if parts:
        found &= _containing(model, owner, " & ".join(f"({query})" for query in parts))
    if left_out:
        query = " | ".join(f"({query})" for query in left_out)
        found &= ~_containing(model, owner, query, is_excluded=True)
    return found


def search_type_of(model: type[Model]) -> str:
    """Return recall's name for records of this model."""
    return getattr(model, "SEARCH_TYPE", "") or (model._meta.model_name or "")


FEW_IDS = 2_000  # matches that are passed on as a list of ids
MANY_ENTRIES = 50_000  # of a space, whose statistics are never far from the truth


def _containing(model: type[Model], owner: Any, query: str, *, is_excluded: bool = False) -> Q:
    """Return the condition that a record of the owner matches a tsquery.

    For an owner whose records were written since the last ANALYZE, Postgres expects a single one,
    and would join the matches by nested loops that compare every record with every match. A list of
    ids can't become such a loop, and neither can a lookup by the entry's key. Only in a large space
    the planner chooses how to join, because there a lookup for each record costs too much.
    """
    space = [owner.pk, search_type_of(model)]
    with connection.cursor() as cursor:
        # MATERIALIZED: the limit must not make Postgres read all entries in the hope of an early end.
        # `+ 0`: in a large space, the index of the space would return all its entries too.
        cursor.execute(
            "WITH space AS (SELECT id, documents FROM memory_searchspace "
            "WHERE owner_id = %s AND record_type = %s), "
            "held AS MATERIALIZED (SELECT record_id FROM memory_searchentry "
            "WHERE words @@ %s::tsquery AND space_id = (SELECT id FROM space WHERE documents <= %s) "
            "UNION ALL SELECT record_id FROM memory_searchentry "
            "WHERE words @@ %s::tsquery AND (SELECT documents > %s FROM space) "
            "AND space_id + 0 = (SELECT id FROM space)) "
            "SELECT ARRAY(SELECT record_id FROM held LIMIT %s), id, documents FROM space",
            [*space, query, MANY_ENTRIES, query, MANY_ENTRIES, FEW_IDS + 1],
        )
        ids, space_id, documents = cursor.fetchone() or ((), None, 0)
    if not ids:
        return _NONE
    if len(ids) <= FEW_IDS:
        return Q(_IsOneOf(F("pk"), Value(ids, ArrayField(UUIDField()))))
    cast = Cast(Value(query), SearchQueryField())
    entries = SearchEntry.objects.filter(space_id=space_id)
    if documents > MANY_ENTRIES and not is_excluded:
        return Q(pk__in=entries.filter(_Matches(F("words"), cast)).values("record_id"))
    of_record = entries.filter(record_id=OuterRef("pk")).values(held=_Matches(F("words"), cast))
    return Q(Coalesce(Subquery(of_record, BooleanField()), False))


def _plain(field: str) -> Callable[[tuple[str, ...], _FilterContext], Q]:
    """Return the condition that a field has one of the values."""

    def condition(values: tuple[str, ...], about: _FilterContext) -> Q:
        return Q(**{f"{field}__in": values}) if about.has(field) else _NONE

    return condition


def _starting(field: str) -> Callable[[tuple[str, ...], _FilterContext], Q]:
    """Return the condition that a field has one of the values (`abc*` is a prefix)."""

    def condition(values: tuple[str, ...], about: _FilterContext) -> Q:
        if not about.has(field):
            return _NONE
        found = _NONE
        for value in values:
            begun = value.endswith("*")
            found |= Q(**{f"{field}__startswith" if begun else field: value.removesuffix("*")})
        return found

    return condition


def _type(values: tuple[str, ...], about: _FilterContext) -> Q:
    return Q() if search_type_of(about.model) in values else _NONE


def _tag(values: tuple[str, ...], about: _FilterContext) -> Q:
    return Q(tags__overlap=list(values)) if about.has("tags") else _NONE


def _topic(values: tuple[str, ...], about: _FilterContext) -> Q:
    """Match a topic by slug or title, or by prefix (`*`); `none` means without a topic."""
    path = getattr(about.model, "TOPIC_PATH", "topic" if about.has("topic") else "")
    if not path:
        return _NONE
    # A separate subquery, so that Postgres uses the index on the rows' topic.
    named = Q(pk__in=[])
    for value in values:
        named |= named_topic(value)
    found = Q(**{f"{path}__in": Topic.objects.filter(named).values("pk")})
    if any(value.casefold() == "none" for value in values):
        found |= Q(**{path: None})
    return found


def named_topic(name: str) -> Q:
    """Return the condition on topics with this slug or title, or with this prefix (`*`)."""
    if name.endswith("*"):
        return Q(title__istartswith=name.removesuffix("*"))
    return Q(slug=name.casefold()) | Q(title__iexact=name)


def topic_named(owner: Any, rows: QuerySet[Any], name: str) -> Topic | None:
    """Return the topic in `rows` with this slug or title, or that had the slug before a rename.

    At an earlier date, it can also have the slug that it has now.
    """
    name = clean(name)[0].strip().rstrip("*")
    topic: Topic | None = rows.filter(named_topic(name)).first()
    if topic is None:
        known = Topic.objects.by_slug(owner, name.casefold())
        topic = rows.filter(pk=known.pk).first() if known is not None else None
    return topic


def _after(values: tuple[str, ...], about: _FilterContext) -> Q:
    begins = [moment(value, zone=about.zone, now=about.now) for value in values]
    return Q(created__gte=min(begins))


def _before(values: tuple[str, ...], about: _FilterContext) -> Q:
    ends = [moment(value, zone=about.zone, now=about.now) for value in values]
    return Q(created__lt=max(ends))


def _is(values: tuple[str, ...], about: _FilterContext) -> Q:
    found = _NONE
    for value in values:
        found |= _STATES[value](about)
    return found


def _expired(about: _FilterContext) -> Q:
    return Q(expires_at__lte=about.now) if about.has("expires_at") else _NONE


def _expiring(about: _FilterContext) -> Q:
    """Match what will expire within seven days."""
    if not about.has("expires_at"):
        return _NONE
    return Q(expires_at__gt=about.now, expires_at__lte=about.now + timedelta(days=7))


def _superseded(about: _FilterContext) -> Q:
    return ~Q(superseded_by=None) if about.has("superseded_by") else _NONE


def _edited(about: _FilterContext) -> Q:
    if about.has("edited_by_person"):
        return Q(edited_by_person=True)
    by_person = Revision.objects.filter(actor__startswith="human:", version__gt=1)
    return Q(Exists(by_person.filter(record_id=OuterRef("pk"))))


def _used(about: _FilterContext) -> Q:
    return Q(Exists(Use.objects.filter(record_id=OuterRef("pk"))))


def _state(value: str) -> Callable[[_FilterContext], Q]:
    return lambda about: Q(state=value) if about.has("state") else _NONE


_STATES: dict[str, Callable[[_FilterContext], Q]] = {
    "paused": lambda about: Q(paused=True) if about.has("paused") else _NONE,
    "pinned": lambda about: Q(pinned=True),
    "locked": lambda about: ~Q(lock=Lock.OPEN),
    "expired": _expired,
    "expiring": _expiring,
    "kept": lambda about: Q(expires_at=None) if about.has("expires_at") else Q(),
    "superseded": _superseded,
    "sensitive": lambda about: Q(sensitivity=Sensitivity.SENSITIVE),
    "edited": _edited,
    "duplicate": lambda about: (
        ~Q(near_duplicate_of=None) if about.has("near_duplicate_of") else _NONE
    ),
    "trashed": lambda about: ~Q(trashed_at=None),
    "struck": _state("struck"),
    "retired": _state("retired"),
    "used": _used,
    "unused": lambda about: ~_used(about),
}
_CONDITIONS: dict[str, Callable[[tuple[str, ...], _FilterContext], Q]] = {
    "type": _type,
    "kind": _plain("kind"),
    "category": _plain("category"),
    "stability": _plain("stability"),
    "trust": _plain("trust"),
    "sensitivity": _plain("sensitivity"),
    "is": _is,
    "tag": _tag,
    "topic": _topic,
    "source": _starting("source"),
    "scope": _starting("scope"),
    "after": _after,
    "before": _before,
}


# --- operators and arguments of a recall as conditions on the search index ---

_NEVER = ("expired", "superseded", "trashed")  # never returned by recall
_MARKS = frozenset({"trust", "sensitivity"})  # index columns that are named as on the records
_OF_INDEX = _MARKS | {"type", "kind", "category", "topic", "after", "before"}


@dataclass(slots=True)
class SearchScope:
    """One recall's question with all its filters and notices."""

    owner: Any
    question: Question
    kinds: list[RecallKind]
    now: datetime
    zone: tzinfo
    filters: tuple[Filter, ...] = ()
    after: datetime | None = None
    before: datetime | None = None
    topic_ids: dict[Filter, list[uuid.UUID | None]] = field(default_factory=dict)
    contents: dict[str, Q] = field(default_factory=dict)  # by type
    notices: list[str] = field(default_factory=list)
    is_narrow: bool = False

    @property
    def hides_paused(self) -> bool:
        """Return True if paused records are left out, as they are unless a person asks for them."""
        return NOT_PAUSED in self.filters or not self.question.asks("is", "paused")


def narrowing_of(owner: Any, query: str | Question, how: Mapping[str, Any]) -> SearchScope:
    """Combine a text's operators and the arguments of a recall.

    A Question is used unchanged. Raises InvalidValue for an unknown type.
    """
    question = parse(query) if isinstance(query, str) else query
    filters, topic_ids = list[Filter](), dict[Filter, list[uuid.UUID | None]]()
    for one in (*question.filters, *_filters(how)):
        if one.field == "topic":
            one, ids = _topic_filter(owner, one)
            topic_ids[one] = ids
        filters.append(one)
    scope = SearchScope(
        owner=owner,
        question=question,
        kinds=_kinds(filters, how.get("types", ())),
        now=how.get("now") or timezone.now(),
        zone=ZoneInfo(system_zone_name(getattr(owner, "time_zone", "") or "") or "UTC"),
        filters=tuple(filters),
        after=how.get("after"),
        before=how.get("before"),
        topic_ids=topic_ids,
    )
    scope.is_narrow = bool(how.get("types")) or len(filters) > len(question.filters)
    scope.is_narrow |= bool(scope.after or scope.before)
    if any(question.asks("is", state) for state in _NEVER):
        scope.notices.append(
            _(
                "This search excludes expired and replaced records and items in Trash. To see them, open Notes, Observations or Trash."
            )
        )
    return scope


def _topic_filter(owner: Any, one: Filter) -> tuple[Filter, list[uuid.UUID | None]]:
    """Return the filter with the current slugs of renamed topics, and the ids of its topics."""
    found = _topics(owner, one.values)
    if len(found) < len(one.values):
        values = tuple(_newest_slug(owner, value) for value in one.values)
        if values != one.values:
            return replace(one, values=values), _topics(owner, values)
    return one, found


def _newest_slug(owner: Any, slug: str) -> str:
    if slug.casefold() == "none":  # without a topic
        return slug
    renamed = Topic.objects.renamed_from(owner, slug.casefold())
    return slug if renamed is None else renamed.slug


def _filters(how: Mapping[str, Any]) -> list[Filter]:
    """Return the arguments that have an equivalent operator, as filters."""
    results = []
    for name, argument in (("category", "categories"), ("kind", "kinds")):
        if values := how.get(argument):
            results.append(Filter(name, tuple(str(value) for value in values)))
    topic = how.get("topic")
    if topic:
        results.append(Filter("topic", (getattr(topic, "slug", "") or str(topic),)))
    if scope := how.get("scope"):
        results.append(Filter("scope", (str(scope),)))
    return results


def _kinds(filters: Sequence[Filter], types: Sequence[str]) -> list[RecallKind]:
    for name in types:
        if name not in KINDS:
            problem = _("“%(type)s” isn’t a searchable type. Choose one of: %(known)s.") % {
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
    """Return the ids of the topics with these slugs or titles; None means no topic."""
    condition = Q(pk__in=[])
    for name in names:
        condition |= named_topic(name)
    found: list[uuid.UUID | None] = list(
        Topic.objects.for_user(owner).live().filter(condition).values_list("pk", flat=True)
    )
    return [*found, None] if any(name.casefold() == "none" for name in names) else found


def rows_of(kind: RecallKind, scope: SearchScope) -> QuerySet[Any]:
    """Return the records of a type that the recall can return."""
    rows = narrowed(
        kind.rows(scope.owner, scope.now), scope.filters, zone=scope.zone, now=scope.now
    )
    if scope.hides_paused and hasattr(kind.model, "paused"):
        rows = rows.filter(paused=False)
    if kind.states:
        rows = rows.filter(state__in=_states(kind, scope))
    if scope.after:
        rows = rows.filter(created__gte=scope.after)
    if scope.before:
        rows = rows.filter(created__lt=scope.before)
    if scope.question.phrases or scope.question.without:
        if kind.type not in scope.contents:  # looked up once for all rows of a recall
            bare = Question("", "", scope.question.phrases, scope.question.without)
            language = language_of(scope.owner)
            scope.contents[kind.type] = _contents(kind.model, bare, language, scope.owner)
        rows = rows.filter(scope.contents[kind.type])
    return rows


def _states(kind: RecallKind, scope: SearchScope) -> tuple[str, ...]:
    """Return the states to include: the type's usual ones, unless `is:` names others."""
    named_ones = [
        value
        for one in scope.filters
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
        """Add one condition; a negated one also matches entries without a value."""
        self.where.append(f"({sql}) IS NOT TRUE" if negated else sql)
        self.params += params


def among_of(kind: RecallKind, scope: SearchScope, language: str) -> EntryFilter:
    """Return which entries of a type's index can be hits."""
    conditions = _Conditions()
    _add_rules(kind, scope, conditions)
    for one in scope.filters:
        _add_filter(kind, scope, one, conditions)
    if scope.after:
        conditions.add("e.created >= %s", scope.after)
    if scope.before:
        conditions.add("e.created < %s", scope.before)
    rare = [one for one in scope.filters if one.field not in _OF_INDEX and one != NOT_PAUSED]
    if rare:
        # The entries' space already belongs to the owner, so there is no condition on the owner. For
        # records written since the last ANALYZE, the planner considers an index by owner as fast as
        # the key, and then reads all of it.
        rows = narrowed(kind.model.objects.all(), rare, zone=scope.zone, now=scope.now)
        # Evaluated per entry. As an ordinary condition, Postgres would first build a list of all
        # such records, whatever the words match.
        its_own = rows.filter(pk=RawSQL("e.record_id", ()))
        try:
            sql, params = its_own.order_by().values("pk").query.sql_with_params()
        except EmptyResultSet:  # a filter that doesn't apply to this type
            conditions.add("FALSE")
        else:
            conditions.add(f"EXISTS ({sql})", *params)
    for text in scope.question.without:
        if query := phrase_query(text, language):
            conditions.add("NOT e.words @@ %s::tsquery", query)
    phrases = (phrase_query(text, language) for text in scope.question.phrases)
    return EntryFilter(
        where=tuple(conditions.where),
        params=tuple(conditions.params),
        required=tuple(query for query in phrases if query),
        is_current=True if kind.successors is not None else None,
        is_narrow=_is_narrow(scope),
    )


def _is_narrow(scope: SearchScope) -> bool:
    """Whether the filters exclude many records. A negated filter usually excludes only a few."""
    has_filter = any(not one.negated and one.field != "type" for one in scope.filters)
    return has_filter or bool(scope.after or scope.before or scope.question.phrases)


def _add_rules(kind: RecallKind, scope: SearchScope, conditions: _Conditions) -> None:
    """Add the rules of every recall: nothing expired or paused, nor from a topic in Trash."""
    conditions.add("(e.until IS NULL OR e.until > %s)", scope.now)
    if scope.hides_paused and hasattr(kind.model, "paused"):
        conditions.add("NOT e.paused")
    if kind.states:
        conditions.add("e.kind = ANY(%s)", list(_states(kind, scope)))
    if kind.of_topic:
        conditions.add(
            "(e.topic_id IS NULL OR e.topic_id NOT IN (SELECT t.id FROM memory_topic t "
            "WHERE t.owner_id = %s AND t.trashed_at IS NOT NULL))",
            scope.owner.pk,
        )


def _add_filter(kind: RecallKind, scope: SearchScope, one: Filter, conditions: _Conditions) -> None:
    """Add an operator that has a column in the index."""
    if one.field == kind.category_field:
        conditions.add("e.kind = ANY(%s)", list(one.values), negated=one.negated)
    elif one.field in _MARKS:
        conditions.add(f"e.{one.field} = ANY(%s)", list(one.values), negated=one.negated)
    elif one.field in ("after", "before"):
        moments = [moment(value, zone=scope.zone, now=scope.now) for value in one.values]
        is_after = one.field == "after"
        sign, bound = (">=", min(moments)) if is_after else ("<", max(moments))
        conditions.add(f"e.created {sign} %s", bound, negated=one.negated)
    elif one.field == "topic":
        ids = scope.topic_ids[one]
        known = [pk for pk in ids if pk is not None]
        sql = "e.topic_id = ANY(%s::uuid[])" + (" OR e.topic_id IS NULL" if None in ids else "")
        conditions.add(f"({sql})", known, negated=one.negated)
