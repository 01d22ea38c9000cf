"""The names in an owner's records: which words are names, how often they occur, and merged names.

The search index contains the names of each record as terms (beacon_site.text.names), so their numbers
of records are those of other terms. A word is a name if it occurs with a capital letter within a
sentence, and mostly with one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from django.db import connection, transaction
from django.utils.translation import gettext as _

from beacon_site.text.cleaning import clean, is_visible, one_line
from beacon_site.text.names import (
    MAX_NAME_LENGTH,
    MAYBE,
    NAME,
    Name,
    name_key,
    name_of,
    name_query,
    term_of,
)
from beacon_site.text.terms import phrase_query, search_terms
from memory.models import Activity, NameAlias, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, LimitReached
from memory.services.search.bm25_sql import language_of
from memory.services.search.kinds import KINDS

MAX_LISTED = 500  # names of a list
CANDIDATES = 1_500  # the most frequent possible names, which are judged
LARGE = 20_000  # records; with more, names that occur only once in a type are left out early
FEWEST = 2  # records with a name in the list
UNSURE = 3  # the same if the name only begins sentences
MOSTLY = 0.5  # the share of a word's records in which it has a capital letter
# The share of a name's records in which its place marks it as a name. In documents of 14 public
# repositories, 73 single words were below it, and about 8 of them were names.
SURELY = 1 / 3
PART = 1.5  # a part of a longer name is left out if it isn't this many times as frequent


@dataclass(slots=True)
class Figures:
    """In how many records a name occurs: surely, and at all; and its words, in any spelling."""

    key: str
    sure: int = 0
    total: int = 0
    form: str = ""
    words: list[int] = field(default_factory=list)  # of each term of the name, the first one first

    @property
    def is_single(self) -> bool:
        return len(self.words) < 2

    @property
    def is_mostly_capital(self) -> bool:
        """Return True if the first word is seldom used in another way."""
        return not self.words or self.total >= MOSTLY * self.words[0]

    @property
    def is_name(self) -> bool:
        """Return True if it is a name, as far as one can tell from capital letters."""
        if self.is_single:
            return self.sure > 0 and self.sure >= SURELY * self.total and self.is_mostly_capital
        return self.sure > 0 or (self.total >= UNSURE and self.is_mostly_capital)

    @property
    def records(self) -> int:
        """Return in about how many records it is named."""
        if self.is_single and self.is_mostly_capital:
            return max(self.total, *self.words, 0)
        return self.total


@dataclass(slots=True)
class Known:
    """A name in the list, with the names that were merged into it."""

    key: str
    name: str
    records: int
    aliases: list[str] = field(default_factory=list)


def frequent(owner: Any, *, text: str = "", limit: int = MAX_LISTED) -> list[Known]:
    """Return the most frequent names of the owner's records, merged ones as one.

    With `text`, only names that contain it. Four queries, whatever there is.
    """
    spaces = _spaces(owner)
    found = _figures(spaces, _MAX_FREQUENT, _most_frequent(spaces))
    _count_words(spaces, found.values(), language_of(owner))
    names = [one for one in found.values() if one.is_name and one.records >= FEWEST]
    aliases = {row.key: row for row in NameAlias.objects.for_user(owner)}
    listed: dict[str, Known] = {}
    for one in without_parts(names, kept=aliases.keys()):
        alias = aliases.get(one.key)
        key, name = (alias.target_key, alias.target) if alias else (one.key, one.form)
        known = listed.setdefault(key, Known(key, name, 0))
        known.records += one.records
    for alias in aliases.values():
        if alias.target_key in listed:
            listed[alias.target_key].aliases.append(alias.name)
    value = name_key(text)
    kept = [
        one
        for one in listed.values()
        if value in one.key or any(value in name_key(alias) for alias in one.aliases)
    ]
    return sorted(kept, key=lambda one: (-one.records, one.key))[:limit]


def known_in(owner: Any, names: Sequence[Name]) -> list[Known]:
    """Return those of a record's names that are names, each once, in their order.

    Names that only this record has are included if they are sure.
    """
    found = judged(owner, names)
    aliases = {row.key: row for row in NameAlias.objects.for_user(owner).filter(key__in=[*found])}
    listed: dict[str, Known] = {}
    for name in names:
        one = found.get(name.key)
        if one is None or not one.is_name:
            continue
        alias = aliases.get(one.key)
        key, form = (alias.target_key, alias.target) if alias else (one.key, name.form)
        listed.setdefault(key, Known(key, form, one.records))
    return list(listed.values())


def judged(owner: Any, names: Iterable[Name]) -> dict[str, Figures]:
    """Return the figures of names in these forms, by key: three queries."""
    spaces = _spaces(owner)
    terms = {term_of(Name(name.form, sure)) for name in names for sure in (True, False)}
    if not terms or not spaces:
        return {}
    found = _figures(spaces, "lexeme = ANY(%s)", [list(terms)], least=1)
    _count_words(spaces, found.values(), language_of(owner))
    return found


def _spaces(owner: Any) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM memory_searchspace WHERE owner_id = %s AND record_type = ANY(%s)",
            [owner.pk, list(KINDS)],
        )
        return [pk for (pk,) in cursor.fetchall()]


# The terms of the names that can be among the most frequent, sure and unsure ones. In a large memory,
# most names are in one record only. They are left out before anything else, so a name that is in two
# records of different types, or in different forms, can be missing.
_MAX_FREQUENT = """lexeme = ANY(ARRAY(
    SELECT sign || form
      FROM (SELECT DISTINCT substr(lexeme, 2) AS form
              FROM (SELECT lexeme FROM memory_searchterm
                     WHERE space_id = ANY(%s) AND lexeme >= %s AND lexeme < %s AND documents >=
                           CASE WHEN (SELECT sum(documents) FROM memory_searchspace
                                       WHERE id = ANY(%s)) > %s THEN 2 ELSE 1 END
                     ORDER BY documents DESC, lexeme LIMIT %s) best) forms
     CROSS JOIN unnest(%s::text[]) sign))"""


def _most_frequent(spaces: list[int]) -> list[Any]:
    return [spaces, NAME, chr(ord(MAYBE) + 1), spaces, LARGE, 2 * CANDIDATES, [NAME, MAYBE]]


def _figures(
    spaces: Sequence[int], where: str, params: list[Any], least: int = FEWEST
) -> dict[str, Figures]:
    """Return the figures of the most frequent names for which the condition is true."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT split_part(substr(lexeme, 2), '|', 1) AS key, "  # noqa: S608  our own names  # nosec B608
            "coalesce(sum(documents) FILTER (WHERE lexeme < %s), 0), sum(documents) AS total, "
            "(array_agg(lexeme ORDER BY lexeme < %s DESC, documents DESC))[1] "
            f"FROM memory_searchterm WHERE space_id = ANY(%s) AND {where} AND documents > 0 "
            "GROUP BY 1 HAVING sum(documents) >= %s ORDER BY total DESC, key LIMIT %s",
            [MAYBE, MAYBE, list(spaces), *params, least, CANDIDATES],
        )
        return {
            key: Figures(key, int(sure), int(total), name_of(term).form)
            for key, sure, total, term in cursor.fetchall()
        }


@lru_cache(maxsize=10_000)
def _words_of(form: str, language: str) -> tuple[str, ...]:
    return tuple(search_terms(form, language))


def _count_words(spaces: Sequence[int], names: Iterable[Figures], language: str) -> None:
    """Add the numbers of records with the names' words in any spelling."""
    terms = {name.key: _words_of(name.form, language) for name in names}
    values = {term for some in terms.values() for term in some}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT lexeme, sum(documents) FROM memory_searchterm "
            "WHERE space_id = ANY(%s) AND lexeme = ANY(%s) AND documents > 0 GROUP BY lexeme",
            [list(spaces), list(values)],
        )
        counts = {lexeme: int(documents) for lexeme, documents in cursor.fetchall()}
    for one in names:
        one.words = [counts.get(term, 0) for term in terms[one.key]]


def without_parts(names: Sequence[Figures], kept: Collection[str]) -> list[Figures]:
    """Return the names without parts of longer names that occur hardly anywhere else, such as last names."""
    longer: dict[str, int] = defaultdict(int)
    for one in names:
        words = one.key.split()
        for start in range(len(words)):
            for end in range(start + 1, len(words) + 1):
                if end - start < len(words):
                    part = " ".join(words[start:end])
                    longer[part] = max(longer[part], one.total)
    return [
        name for name in names if name.key in kept or name.records > PART * longer.get(name.key, 0)
    ]


# --- matching -------------------------------------------------------------------------------------


def names_of(owner: Any, name: str) -> list[str]:
    """Return all names of whatever `name` refers to, its main name first.

    Raises InvalidValue if it isn't a name.
    """
    name = checked(name)
    key = name_key(name)
    rows = list(NameAlias.objects.for_user(owner))
    own = next((row for row in rows if row.key == key), None)
    target_key, target = (own.target_key, own.target) if own else (key, name)
    others = [row for row in rows if row.target_key == target_key]
    if own is None and others:
        target = others[0].target
    return [target, *(row.name for row in others)]


def queries_of(owner: Any, group: Iterable[str]) -> dict[str, str]:
    """Return the tsquery for records that contain one of these names, by language; two queries.

    A word that is mostly written in small letters counts only with a capital one, as “Apple”.
    """
    language = language_of(owner)
    forms = [Name(name, True) for name in group]
    figures = judged(owner, forms)
    parts = []
    for name in forms:
        one = figures.get(name.key)
        if one is not None and one.is_single and one.sure and not one.is_mostly_capital:
            parts.append(f"({name_query(name.key)})")
        elif phrase := phrase_query(name.form, language):
            parts.append(f"({phrase})")
    return {language: " | ".join(parts)}


# --- merging and splitting ------------------------------------------------------------------------

State = Mapping[str, Sequence[str] | None]  # by key: name and target; None without an alias


def checked(name: str) -> str:
    """Return a name that a person typed, in one line.  Raises InvalidValue."""
    name = one_line(clean(name)[0])
    if not is_visible(name) or not any(char.isalnum() for char in name_key(name)):
        raise InvalidValue(_("Enter a name."))
    if len(name) > MAX_NAME_LENGTH or len(name_key(name)) > MAX_NAME_LENGTH:
        params = {"have": len(name), "most": MAX_NAME_LENGTH}
        raise InvalidValue(
            _("The name has %(have)d characters, but the limit is %(most)d.") % params
        )
    return name


def merge(owner: Any, name: str, into: str, *, by: Actor) -> tuple[str, State, State]:
    """Let records that name `name` count as records about `into`, with its own aliases.

    Returns the name that stays, and the aliases before and after.  Raises InvalidValue, LimitReached.
    """
    name, into = checked(name), checked(into)
    with transaction.atomic():
        _lock(owner)
        rows = {row.key: row for row in NameAlias.objects.for_user(owner)}
        target = rows.get(name_key(into))
        target_key, form = (target.target_key, target.target) if target else (name_key(into), into)
        source = rows.get(name_key(name))
        source_key, source_form = (
            (source.target_key, source.target) if source else (name_key(name), name)
        )
        if source_key == target_key:
            raise InvalidValue(_("These names are already merged."))
        moved = [row for row in rows.values() if row.target_key == source_key]
        if len(rows) + 1 > NameAlias.MAX:
            raise LimitReached(
                _("You’ve reached the limit of %(most)d merged names. Separate one first.")
                % {"most": NameAlias.MAX}
            )
        was = {row.key: [row.name, row.target] for row in moved} | {source_key: None}
        now = {row.key: [row.name, form] for row in moved} | {source_key: [source_form, form]}
        _set_aliases(owner, now)
        Activity.log(owner, by, "names-merged", label=source_form, into=form)
    return form, was, now


def split(owner: Any, name: str, *, by: Actor) -> tuple[State, State]:
    """Let an alias be a name of its own again; return the aliases before and after."""
    key = name_key(name)
    with transaction.atomic():
        _lock(owner)
        row = NameAlias.objects.for_user(owner).filter(key=key).first()
        if row is None:
            raise InvalidValue(_("This name isn’t merged with another one."))
        was = {key: [row.name, row.target]}
        _set_aliases(owner, {key: None})
        Activity.log(owner, by, "name-separated", label=row.name, of=row.target)
    return was, {key: None}


def undo_change(owner: Any, was: State, now: State, *, by: Actor) -> None:
    """Undo a merge or a split.  Raises InvalidValue if the names have changed since."""
    with transaction.atomic():
        _lock(owner)
        rows = {row.key: [row.name, row.target] for row in NameAlias.objects.for_user(owner)}
        if any(rows.get(key) != (list(one) if one else None) for key, one in now.items()):
            raise InvalidValue(
                _("These names have changed since then, so your change couldn’t be undone.")
            )
        _set_aliases(owner, was)
        label = ", ".join(one[0] for one in {**now, **was}.values() if one)
        Activity.log(owner, by, "names-restored", label=label)


def _lock(owner: Any) -> None:
    """Make one owner's merges wait for each other, so that no target becomes an alias."""
    User.objects.select_for_update(no_key=True).get(pk=owner.pk)


def _set_aliases(owner: Any, state: State) -> None:
    gone = [key for key, one in state.items() if one is None]
    NameAlias.objects.for_user(owner).filter(key__in=gone).delete()
    for key, one in state.items():
        if one is not None:
            name, target = one
            values = {"name": name, "target": target, "target_key": name_key(target)}
            NameAlias.objects.update_or_create(owner=owner, key=key, defaults=values)
