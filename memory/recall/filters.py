"""Operators as conditions on the rows of what is remembered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any, TypeVar

from django.contrib.postgres.search import SearchQueryField
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
    Value,
)
from django.db.models.expressions import RawSQL
from django.db.models.functions import Cast
from django.utils import timezone

from memory.models.base import Lock, Sensitivity
from memory.models.history import Revision, Use
from memory.models.search import SearchEntry, SearchSpace
from memory.models.topics import Topic
from memory.recall.operators import Filter, Question, moment
from memory.texts.terms import ENGLISH, phrase_query, query_terms, tsquery_of

Rows = TypeVar("Rows", bound="QuerySet[Any]")

_NONE = Q(pk__in=[])


class _Holds(Func):
    """Whether terms hold what is asked; Django's own lookup would stem what is stems already."""

    template = "(%(expressions)s)"
    arg_joiner = " @@ "
    output_field = BooleanField()


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a condition may depend on besides its values."""

    model: type[Model]
    zone: tzinfo
    now: datetime

    def has(self, name: str) -> bool:
        """Whether the rows have such a field."""
        return any(name in (one.name, one.attname) for one in self.model._meta.concrete_fields)


def narrowed(
    rows: Rows,
    asked: Question | Iterable[Filter],
    *,
    zone: tzinfo,
    now: datetime | None = None,
) -> Rows:
    """Keep the rows that all filters let through.

    A filter that the rows' type does not know matches none of it, and all of it if negated.  What
    is in the trash is for the caller to leave out: `is:trashed` only asks for it.
    """
    filters = asked.filters if isinstance(asked, Question) else tuple(asked)
    about = _Asked(rows.model, zone, now or timezone.now())
    for one in filters:
        condition = _condition(one, about)
        rows = rows.filter(~condition if one.negated else condition)
    return rows


def holding(rows: Rows, question: Question, language: str = ENGLISH, owner: Any = None) -> Rows:
    """Keep the rows that hold every word of the question, its phrases, and none it leaves out.

    The list pages ask so: there words narrow, as filters do; recall ranks by them instead.  Where
    all rows are one owner's, a frequent word is quicker to look for in that owner's space alone.
    """
    space = _space(rows.model, owner)
    words = dict.fromkeys(query_terms(question.words, language))
    wanted = [tsquery_of([term]) for term in words]
    wanted += [query for one in question.phrases if (query := phrase_query(one, language))]
    left_out = [query for one in question.without if (query := phrase_query(one, language))]
    if question.words and not wanted:
        return rows.none()  # signs alone stand in no text
    if wanted:
        rows = rows.filter(_entries(" & ".join(f"({query})" for query in wanted), space))
    if left_out:
        rows = rows.exclude(_entries(" | ".join(f"({query})" for query in left_out), space))
    return rows


def search_type_of(model: type[Model]) -> str:
    """Return the type that recall names rows of this model by."""
    named: str = getattr(model, "SEARCH_TYPE", "") or (model._meta.model_name or "")
    return named


def _space(model: type[Model], owner: Any) -> Q:
    """Return the condition on entries of the owner's space for such rows; none without an owner.

    Then an entry of a record is the only one, as Postgres sees by the index: it need not gather all
    that hold a word before it counts the first thousand.
    """
    if owner is None:
        return Q()
    spaces = SearchSpace.objects.filter(owner=owner, record_type=search_type_of(model))
    return Q(space_id=Subquery(spaces.values("pk")))


def _entries(query: str, space: Q) -> Q:
    asked = Cast(Value(query), SearchQueryField())
    holding = SearchEntry.objects.filter(_Holds(F("words"), asked), space)
    if "<->" not in query:
        return Q(pk__in=holding.values("record_id"))
    # A phrase is checked against the whole text of a record, which takes about a millisecond for a
    # long one. For records written since the last ANALYZE Postgres expects a single row and joins
    # by nested loops, so without MATERIALIZED it would check the phrase for every pair of records.
    sql, params = holding.values("record_id").query.sql_with_params()
    once = f"WITH held AS MATERIALIZED ({sql}) SELECT record_id FROM held"  # noqa: S608  a queryset's own SQL  # nosec B608
    return Q(pk__in=RawSQL(once, params))  # noqa: S611  # nosec B611


def _condition(one: Filter, about: _Asked) -> Q:
    return _CONDITIONS[one.field](one.values, about)


def _plain(field: str) -> Callable[[tuple[str, ...], _Asked], Q]:
    """Return the condition that a field has one of the values."""

    def condition(values: tuple[str, ...], about: _Asked) -> Q:
        return Q(**{f"{field}__in": values}) if about.has(field) else _NONE

    return condition


def _starting(field: str) -> Callable[[tuple[str, ...], _Asked], Q]:
    """Return the condition that a field is one of the values, or begins so where it ends in `*`."""

    def condition(values: tuple[str, ...], about: _Asked) -> Q:
        if not about.has(field):
            return _NONE
        found = _NONE
        for value in values:
            begun = value.endswith("*")
            found |= Q(**{f"{field}__startswith" if begun else field: value.removesuffix("*")})
        return found

    return condition


def _type(values: tuple[str, ...], about: _Asked) -> Q:
    return Q() if search_type_of(about.model) in values else _NONE


def _tag(values: tuple[str, ...], about: _Asked) -> Q:
    return Q(tags__overlap=list(values)) if about.has("tags") else _NONE


def _topic(values: tuple[str, ...], about: _Asked) -> Q:
    """Match by slug or title (or how it begins, `*`); `none` is what belongs to no topic."""
    path = getattr(about.model, "TOPIC_PATH", "topic" if about.has("topic") else "")
    if not path:
        return _NONE
    # Looked up by themselves, and once, so that the index of the rows' topic is used.
    named = Q(pk__in=[])
    for value in values:
        named |= named_topic(value)
    found = Q(**{f"{path}__in": Topic.objects.filter(named).values("pk")})
    if any(value.casefold() == "none" for value in values):
        found |= Q(**{path: None})
    return found


def named_topic(name: str) -> Q:
    """Return the condition on topics of this slug or title, or whose title begins so (`*`)."""
    if name.endswith("*"):
        return Q(title__istartswith=name.removesuffix("*"))
    return Q(slug=name.casefold()) | Q(title__iexact=name)


def _after(values: tuple[str, ...], about: _Asked) -> Q:
    begins = [moment(value, zone=about.zone, now=about.now) for value in values]
    return Q(created__gte=min(begins))


def _before(values: tuple[str, ...], about: _Asked) -> Q:
    ends = [moment(value, zone=about.zone, now=about.now) for value in values]
    return Q(created__lt=max(ends))


def _is(values: tuple[str, ...], about: _Asked) -> Q:
    found = _NONE
    for value in values:
        found |= _STATES[value](about)
    return found


def _expired(about: _Asked) -> Q:
    return Q(expires_at__lte=about.now) if about.has("expires_at") else _NONE


def _expiring(about: _Asked) -> Q:
    """Match what expires within seven days and has not yet."""
    if not about.has("expires_at"):
        return _NONE
    return Q(expires_at__gt=about.now, expires_at__lte=about.now + timedelta(days=7))


def _superseded(about: _Asked) -> Q:
    return ~Q(superseded_by=None) if about.has("superseded_by") else _NONE


def _edited(about: _Asked) -> Q:
    for field in ("edited_by_person", "touched_by_person"):
        if about.has(field):
            return Q(**{field: True})
    by_person = Revision.objects.filter(actor__startswith="human:", version__gt=1)
    return Q(Exists(by_person.filter(record_id=OuterRef("pk"))))


def _used(about: _Asked) -> Q:
    return Q(Exists(Use.objects.filter(record_id=OuterRef("pk"))))


def _state(value: str) -> Callable[[_Asked], Q]:
    return lambda about: Q(state=value) if about.has("state") else _NONE


_STATES: dict[str, Callable[[_Asked], Q]] = {
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
_CONDITIONS: dict[str, Callable[[tuple[str, ...], _Asked], Q]] = {
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
