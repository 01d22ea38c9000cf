"""Everything about a name: all records that contain it, their numbers by type and month, and the
names beside it in the same records.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, NamedTuple

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models.expressions import RawSQL

from beacon_site.db.keyset import cursor_of, place_of
from beacon_site.text.names import MAYBE, NAME, Name, name_key, name_of
from memory.models import NameAlias, as_of
from memory.models.remembered import in_scopes
from memory.services.search import names
from memory.services.search.filters import SearchScope, among_of, narrowing_of, rows_of
from memory.services.search.kinds import KINDS
from memory.services.search.query import FOR_AGENTS, Question
from memory.services.search.recall import FoundRecord

PAGE, MAX = 30, 100  # records of a page, and that can be asked for
READ_FOR_MAP = 400  # the newest records whose names are compared
MAX_NEAR = 12  # names on the map
MAX_JUDGED = 80  # names beside it that can be one of those


@dataclass(slots=True)
class About:
    """Everything about a name. `names` are the main name and its aliases.

    `read` is the number of records, the newest ones, that `related_names` comes from, and `trusts` are theirs.
    `related_names` has the names in the same records, each with its key and in how many of them it is.
    """

    names: list[str]
    total: int = 0
    counts: dict[str, int] = field(default_factory=dict)  # by type
    months: list[tuple[date, int]] = field(default_factory=list)  # those with records, in order
    records: list[FoundRecord] = field(default_factory=list)
    next: str | None = None
    facts: list[FoundRecord] = field(
        default_factory=list
    )  # the newest ones, if they were asked for
    related_names: list[tuple[str, str, int]] = field(default_factory=list)
    read: int = 0
    trusts: frozenset[str] = frozenset()


class _Part(NamedTuple):
    """The entries of one type that contain the name: a condition on `e`, and its parameters."""

    type: str
    where: str
    params: tuple[Any, ...]


def about(
    owner: Any,
    name: str,
    *,
    agent_scopes: Sequence[str] | None = None,
    types: Sequence[str] = (),
    cursor: str = "",
    limit: int = PAGE,
    facts: int = 0,
) -> About:
    """Return everything about a name, its records newest first, and at most `facts` of the facts.

    The numbers are of all types, also if only some `types` are listed.  Raises InvalidValue for a
    text that isn't a name, or an unknown type.

    An agent, which `agent_scopes` is given for, gets only what is for agents and in these scopes.
    """
    found = About(names.names_of(owner, name))
    filters = () if agent_scopes is None else FOR_AGENTS
    question = Question("", "", filters=filters)
    scope = narrowing_of(owner, question, {"now": as_of.now()})
    listed = {kind.type for kind in narrowing_of(owner, question, {"types": types}).kinds}
    if agent_scopes is not None:
        found.names = _readable(found.names, names.checked(name), agent_scopes, scope)
    parts = _entries_with_name(agent_scopes, scope, names.queries_of(owner, found.names))
    if not parts:
        return found
    _count(found, parts, str(scope.zone))
    rows = [part for part in parts if part.type in listed and found.counts.get(part.type)]
    found.records, found.next = _page(rows, scope, cursor, max(1, min(limit, MAX)))
    if facts:
        known = [part for part in rows if part.type == "fact"]
        found.facts, _more = _page(known, scope, "", facts)
    if found.total:
        _look_beside(found, parts, owner, is_agent=agent_scopes is not None)
    return found


def _readable(
    all_names: list[str], name: str, agent_scopes: Sequence[str], scope: SearchScope
) -> list[str]:
    """Return the names without the aliases that occur only in records the agent can't read."""
    if len(all_names) < 2:
        return all_names
    kept = [one for one in all_names if _is_readable(one, agent_scopes, scope)]
    return kept if name_key(name) in map(name_key, kept) else [name]


def _is_readable(name: str, agent_scopes: Sequence[str], scope: SearchScope) -> bool:
    parts = _entries_with_name(agent_scopes, scope, names.queries_of(scope.owner, [name]))
    if not parts:
        return False
    sql, params = _union(parts, "1 AS one")
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT EXISTS ({sql})", params)
        return bool(cursor.fetchone()[0])


def _entries_with_name(
    agent_scopes: Sequence[str] | None, scope: SearchScope, queries: dict[str, str]
) -> list[_Part]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, record_type, language FROM memory_searchspace "
            "WHERE owner_id = %s AND record_type = ANY(%s) AND (documents > 0 OR %s) ORDER BY id",
            # An index that is empty today can have had records.
            [scope.owner.pk, [kind.type for kind in scope.kinds], as_of.current() is not None],
        )
        spaces = cursor.fetchall()
    parts = []
    for space, name, language in spaces:
        query = queries.get(language)
        if not query:  # a space in another language, until a rebuild converts it
            continue
        among = among_of(KINDS[name], scope, language)
        is_current = {None: "TRUE", True: "e.is_current", False: "NOT e.is_current"}[
            among.is_current
        ]
        scoped, params = _scoped(agent_scopes, name)
        where = " AND ".join(
            ["e.space_id = %s", "e.words @@ %s::tsquery", is_current, *among.where, *scoped]
        )
        parts.append(_Part(name, where, (space, query, *among.params, *params)))
    return parts


def _scoped(agent_scopes: Sequence[str] | None, name: str) -> tuple[list[str], list[Any]]:
    """Return the condition on records that an agent can see: of its scopes, and of no hidden topic."""
    if agent_scopes is None:
        return [], []
    model: Any = KINDS[name].model
    rows = model.objects.for_agents()
    if any(one.name == "scope" for one in model._meta.fields):
        rows = rows.filter(in_scopes(agent_scopes))
    try:
        sql, params = (
            rows.filter(pk=RawSQL("e.record_id", ()))
            .order_by()
            .values("pk")
            .query.sql_with_params()
        )
    except EmptyResultSet:
        return ["FALSE"], []
    return [f"EXISTS ({sql})"], list(params)


def _union(parts: Iterable[_Part], columns: str) -> tuple[str, list[Any]]:
    """Return the SELECT of these columns of all entries, and its parameters."""
    some = list(parts)
    sql = " UNION ALL ".join(
        f"SELECT %s::text AS type, {columns} FROM memory_searchentry e WHERE {part.where}"  # noqa: S608  our own names  # nosec B608
        for part in some
    )
    return sql, [value for part in some for value in (part.type, *part.params)]


def _count(found: About, parts: Sequence[_Part], zone: str) -> None:
    """Count the records by type and month, in the owner's time zone."""
    sql, params = _union(parts, "e.created")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT type, date_trunc('month', created AT TIME ZONE %s)::date, count(*) "  # noqa: S608  our own names  # nosec B608
            f"FROM ({sql}) named GROUP BY 1, 2",
            [zone, *params],
        )
        rows = cursor.fetchall()
    months: Counter[date] = Counter()
    counts: Counter[str] = Counter()
    for name, month, number in rows:
        counts[name] += number
        months[month] += number
    found.counts = {name: counts[name] for name in KINDS if counts[name]}
    found.total = sum(counts.values())
    found.months = sorted(months.items())


def _page(
    parts: Sequence[_Part], scope: SearchScope, cursor: str, limit: int
) -> tuple[list[FoundRecord], str | None]:
    """Return one page of the records, the newest first, and the cursor of the next one."""
    if not parts:
        return [], None
    place = place_of(cursor)
    after = "(created, record_id) < (%s, %s)" if place else "TRUE"
    sql, values = _union(parts, "e.record_id, e.created")
    with connection.cursor() as sent:
        sent.execute(
            f"SELECT type, record_id, created FROM ({sql}) named WHERE {after} "  # noqa: S608  our own names  # nosec B608
            "ORDER BY created DESC, record_id DESC LIMIT %s",
            [*values, *(place or ()), limit + 1],
        )
        rows = sent.fetchall()
    ids: dict[str, list[uuid.UUID]] = defaultdict(list)
    for name, key, _created in rows[:limit]:
        ids[name].append(key)
    records = {
        record.pk: record
        for name, some in ids.items()
        for record in rows_of(KINDS[name], scope).filter(pk__in=some).order_by()
    }
    found = [FoundRecord(name, records[key]) for name, key, _at in rows[:limit] if key in records]
    if len(rows) <= limit:
        return found, None
    _name, key, created = rows[limit - 1]
    return found, cursor_of(created, key)


# --- the names beside it --------------------------------------------------------------------------


def _look_beside(found: About, parts: Sequence[_Part], owner: Any, *, is_agent: bool) -> None:
    """Find the names in the newest records, and which of them are in the same ones."""
    newest = _names_of_newest(parts)
    together = [some for _trust, some in newest]
    found.trusts = frozenset(trust for trust, some in newest if some)
    found.read = len(together)
    own = set(map(name_key, found.names))
    counts: Counter[str] = Counter()
    forms: dict[str, Name] = {}
    for some in together:
        for name in some:
            key = name.key
            if key not in own:
                counts[key] += 1
                if name.is_sure or key not in forms:
                    forms[key] = name
    likely = [forms[key] for key, _number in counts.most_common(MAX_JUDGED)]
    # An agent learns no name that only other records contain.
    seen = {*counts, *own} if is_agent else None
    known = _judged(owner, likely, seen)
    near: Counter[str] = Counter()
    labels: dict[str, str] = {}
    for some in together:
        here = {known[name.key][0] for name in some if name.key in known} - own
        near.update(here)
    for target, label in known.values():
        labels.setdefault(target, label)
    best = sorted(near, key=lambda key: (-near[key], key))[:MAX_NEAR]
    found.related_names = [(labels[key], key, near[key]) for key in best]


def _judged(
    owner: Any, likely: Sequence[Name], targets: set[str] | None
) -> dict[str, tuple[str, str]]:
    """Return for each real name the key and the label of what it is an alias of, or its own.

    Without `targets` (keys) any alias counts, otherwise those of the targets.
    """
    figures = names.judged(owner, likely)
    rows = NameAlias.objects.for_user(owner).filter(key__in=list(figures))
    if targets is not None:
        rows = rows.filter(target_key__in=targets)
    aliases = {row.key: row for row in rows}
    kept = names.without_parts(
        [one for one in figures.values() if one.is_name], kept=aliases.keys()
    )
    return {
        one.key: (aliases[one.key].target_key, aliases[one.key].target)
        if one.key in aliases
        else (one.key, one.form)
        for one in kept
    }


def _names_of_newest(parts: Sequence[_Part]) -> list[tuple[str, list[Name]]]:
    """Return the trust and the names of each of the newest records."""
    sql, params = _union(parts, "e.record_id, e.created, e.words, e.trust")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT trust, ARRAY(SELECT word.lexeme FROM unnest(newest.words) word "  # noqa: S608  our own names  # nosec B608
            'WHERE word.lexeme COLLATE "C" >= %s AND word.lexeme COLLATE "C" < %s) '
            f"FROM (SELECT words, trust FROM ({sql}) named ORDER BY created DESC, record_id DESC LIMIT %s) "
            "newest",
            [NAME, chr(ord(MAYBE) + 1), *params, READ_FOR_MAP],
        )
        return [(trust, [name_of(term) for term in terms]) for trust, terms in cursor.fetchall()]
