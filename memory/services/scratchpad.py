"""The scratchpad: values under keys, for work in progress (seed 001).

A key is one line of at most 200 characters, including spaces and slashes. Spaces around it are
ignored. A missing key raises NoSuchKey and never returns an empty value.
"""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.db.models.functions import Collate

from beacon_site.text.cleaning import clean, is_visible
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import grouped
from memory.models import Revision, ScratchpadEntry, Trust
from memory.models.actors import Actor
from memory.models.content import MAX_KEY, MAX_VALUE, ScratchpadQuerySet
from memory.models.errors import InvalidValue, Locked, NoSuchKey
from memory.models.remembered import OWNER_SCOPE

MAX_TRIES = 5  # attempts at a key that others create and trash at the same time
_SCOPES = ("session:", "run:", "agent:")


def checked_key(key: str) -> str:
    """Return the key as stored. Raises InvalidValue with the reason."""
    key = clean(key)[0].strip()
    problem = ""
    if not is_visible(key):
        problem = _("A key needs at least one visible character.")
    elif len(key.splitlines()) > 1:
        problem = _("A key must be a single line.")
    elif len(key) > MAX_KEY:
        problem = _("A key can have at most %(most)d characters, but this one has %(have)d.") % {
            "most": MAX_KEY,
            "have": len(key),
        }
    if problem:
        raise InvalidValue(problem, errors={"key": [problem]})
    return key


def checked_prefix(prefix: str) -> str:
    """Return a prefix of keys, in the form in which keys are stored."""
    return clean(prefix)[0].lstrip()


def checked_value(value: str) -> str:
    """Return the value as stored. Raises InvalidValue if it is too large."""
    value = clean(value)[0]
    size = len(value.encode())
    if size > MAX_VALUE:
        problem = _("A value can be at most %(most)s bytes (64 KiB), but this one is %(have)s.") % {
            "most": grouped(MAX_VALUE),
            "have": grouped(size),
        }
        raise InvalidValue(problem, errors={"value": [problem]})
    return value


def checked_scope(scope: str) -> str:
    """Return the scope. Raises InvalidValue for an invalid one."""
    scope = clean(scope)[0].strip()
    named = any(scope.startswith(form) and len(scope) > len(form) for form in _SCOPES)
    if (scope != OWNER_SCOPE and not named) or len(scope) > 200:
        problem = _(
            "A scope must be “owner”, “session:<id>”, “run:<id>” or “agent:<name>”, with at most 200 characters."
        )
        raise InvalidValue(problem, errors={"scope": [problem]})
    return scope


def retention_label(scope: str) -> str:
    """Return who can use an entry of this scope and how long it is kept, as text (R103)."""
    kind, _colon, name = scope.partition(":")
    values = {
        "session": _("only for session %(name)s, kept until deleted"),
        "run": _("only for run %(name)s, kept until deleted"),
        "agent": _("only for the agent %(name)s, kept until deleted"),
    }
    return values.get(kind, _("for all your sessions and agents, kept until deleted")) % {
        "name": name
    }


def entries(owner: Any, prefix: str = "", *, scope: str | None = OWNER_SCOPE) -> ScratchpadQuerySet:
    """Return the entries whose keys start with `prefix` ("" is all), sorted by key (R101).

    With `scope` None, all scopes are included, for pages. Keys are case sensitive.
    """
    found: ScratchpadQuerySet = ScratchpadEntry.objects.for_user(owner).live()
    if scope is not None:
        found = found.in_scope(checked_scope(scope))
    return found.filter(key__startswith=checked_prefix(prefix)).order_by("key", "scope")


def search(owner: Any, text: str, *, scope: str | None = OWNER_SCOPE) -> ScratchpadQuerySet:
    """Return the entries with `text` in key or value, ignoring case, sorted by key (R102).

    `%` and `_` in the text aren't wildcards.
    """
    text = clean(text)[0]
    # Keys are sorted by code point, and that collation ignores case only in ASCII.
    found: ScratchpadQuerySet = entries(owner, scope=scope).annotate(
        any_case=Collate("key", "default")
    )
    return found.filter(Q(any_case__icontains=text) | Q(value__icontains=text))


def get_entry(
    owner: Any, key: str, *, scope: str = OWNER_SCOPE, hold: bool = False
) -> ScratchpadEntry:
    """Return the entry of `key`. Raises NoSuchKey if there is none (R100).

    `hold` locks the row until the transaction ends.
    """
    entry = _find(owner, _lookup_key(key), checked_scope(scope), hold=hold)
    if entry is None:
        raise NoSuchKey(key)
    return entry


def check_may_write(entry: ScratchpadEntry, by: Actor) -> None:
    """Raise Locked if an agent would change or trash what a person wrote or locked."""
    entry.check_may_change(by)
    if not by.is_person and (entry.trust == Trust.OWNER or entry.pinned):
        words = _(
            "A person wrote or pinned the value of “%(key)s”, so only a person can change it. Use another key."
        )
        raise Locked(words % {"key": entry.key})


def set_value(
    owner: Any,
    key: str,
    value: str,
    *,
    by: Actor,
    scope: str = OWNER_SCOPE,
    source: str = "",
    expected_version: int | None = None,
    trust: Trust | None = None,
) -> ScratchpadEntry:
    """Set the value of `key`. A previous value is kept as a revision.

    `is_new` says whether this call created the entry. Two concurrent values are both stored, one
    after the other. `trust` says how far to trust the value (default: the owner's own for a person,
    otherwise the agent's). Raises InvalidValue, Locked, or StaleWrite if the version isn't
    `expected_version`.
    """
    trust = trust or (Trust.OWNER if by.is_person else Trust.AGENT)
    key, value, scope = checked_key(key), checked_value(value), checked_scope(scope)
    with transaction.atomic():
        entry = _find(owner, key, scope, hold=True)
        if entry is None:
            entry, created = _insert(
                owner, key, value, scope=scope, by=by, source=source, trust=trust
            )
            if created:
                entry.is_new = True
                return entry
        check_may_write(entry, by)
        fields = {"value": value} if entry.trust == trust else {"value": value, "trust": trust}
        return entry.change(
            by=by, expected_version=expected_version, why=_("set"), source=source, **fields
        )


def rename(
    entry: ScratchpadEntry, key: str, *, by: Actor, expected_version: int | None = None
) -> ScratchpadEntry:
    """Rename the key. Raises InvalidValue if the new one already exists."""
    key = checked_key(key)
    try:
        with transaction.atomic():
            return entry.change(by=by, key=key, expected_version=expected_version, why=_("renamed"))
    except IntegrityError as exc:
        problem = _("The key “%(key)s” already has a value.") % {"key": key}
        raise InvalidValue(problem, errors={"key": [problem]}) from exc


def edit_entry(
    entry: ScratchpadEntry, *, key: str, value: str, by: Actor, expected_version: int
) -> ScratchpadEntry:
    """Store a person's changes to key and value if it is unchanged since `expected_version`.

    Raises InvalidValue, Locked or StaleWrite. Nothing is stored in any of these cases.
    """
    value = checked_value(value)
    if checked_key(key) == entry.key and value == entry.value:
        return entry.change(by=by, expected_version=expected_version)
    with transaction.atomic():
        if checked_key(key) != entry.key:
            entry = rename(entry, key, by=by, expected_version=expected_version)
            expected_version = entry.version
        return entry.change(
            by=by, value=value, expected_version=expected_version, why=_("edited by a person")
        )


def _lookup_key(key: str) -> str:
    """Return a key to look up. A key that can't be stored simply doesn't exist."""
    try:
        return checked_key(key)
    except InvalidValue as exc:
        raise NoSuchKey(key) from exc


def _find(owner: Any, key: str, scope: str, *, hold: bool = False) -> ScratchpadEntry | None:
    found = ScratchpadEntry.objects.for_user(owner).live().in_scope(scope).filter(key=key)
    if hold:
        found = found.select_for_update()
    return found.first()


def _insert(
    owner: Any, key: str, value: str, *, scope: str, by: Actor, source: str, trust: Trust
) -> tuple[ScratchpadEntry, bool]:
    """Return the new entry, or one that another writer created first, locked, and whether it is
    new.
    """
    for left in reversed(range(MAX_TRIES)):
        entry = ScratchpadEntry(
            owner=owner,
            key=key,
            value=value,
            scope=scope,
            source=source or str(by),
            trust=trust,
        )
        try:
            with transaction.atomic():
                entry.save(force_insert=True)
                Revision.record_first([entry], by=by, source=source)
                return entry, True
        except IntegrityError:
            there = _find(owner, key, scope, hold=True)
            if there is not None:
                return there, False
            if not left:
                raise
    raise AssertionError("unreachable")
