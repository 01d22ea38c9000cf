"""The scratchpad: values under keys, for work in progress (seed 001).

Keys are any one line of at most 200 characters, spaces and slashes included; space round them does
not count.  A key that is not there is `NoSuchKey`, never an empty value.
"""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.db.models.functions import Collate
from django.utils.translation import gettext as _

from beacon_site.text.cleaning import clean, is_visible
from memory.core.actors import Actor
from memory.core.errors import InvalidValue, Locked, NoSuchKey
from memory.models import Revision, ScratchpadEntry, Trust
from memory.models.remembered import OWNER_SCOPE
from memory.models.scratchpad import MOST_KEY, MOST_VALUE, ScratchpadQuerySet

MOST_TRIES = 5  # of a key that others create and trash at the same moment
_SCOPES = ("session:", "run:", "agent:")


def checked_key(key: str) -> str:
    """Return the key as it is stored.  Raises InvalidValue, with the reason in words."""
    key = clean(key)[0].strip()
    problem = ""
    if not is_visible(key):
        problem = _("A key needs at least one visible character.")
    elif len(key.splitlines()) > 1:
        problem = _("A key must be a single line.")
    elif len(key) > MOST_KEY:
        problem = _("A key can have at most %(most)d characters, but this one has %(have)d.") % {
            "most": MOST_KEY,
            "have": len(key),
        }
    if problem:
        raise InvalidValue(problem, errors={"key": [problem]})
    return key


def checked_prefix(prefix: str) -> str:
    """Return the beginning of keys to look for, as keys are stored."""
    return clean(prefix)[0].lstrip()


def checked_value(value: str) -> str:
    """Return the value as it is stored.  Raises InvalidValue if it is too large."""
    value = clean(value)[0]
    size = len(value.encode())
    if size > MOST_VALUE:
        problem = _(
            "A value can have at most %(most)s bytes (64 KiB), but this one has %(have)s."
        ) % {
            "most": f"{MOST_VALUE:,}",
            "have": f"{size:,}",
        }
        raise InvalidValue(problem, errors={"value": [problem]})
    return value


def checked_scope(scope: str) -> str:
    """Return the scope.  Raises InvalidValue for one that is not of the known forms."""
    scope = clean(scope)[0].strip()
    named = any(scope.startswith(form) and len(scope) > len(form) for form in _SCOPES)
    if (scope != OWNER_SCOPE and not named) or len(scope) > 200:
        problem = _(
            "A scope must be “owner”, “session:<id>”, “run:<id>” or “agent:<name>”, with at most 200 characters."
        )
        raise InvalidValue(problem, errors={"scope": [problem]})
    return scope


def kept_in_words(scope: str) -> str:
    """Return who may use an entry of this scope and how long it is kept, for people (R103)."""
    kind, _colon, name = scope.partition(":")
    told = {
        "session": _("only for session %(name)s, kept until deleted"),
        "run": _("only for run %(name)s, kept until deleted"),
        "agent": _("only for the agent %(name)s, kept until deleted"),
    }
    return told.get(kind, _("for all your sessions and agents, kept until deleted")) % {
        "name": name
    }


def entries(owner: Any, prefix: str = "", *, scope: str | None = OWNER_SCOPE) -> ScratchpadQuerySet:
    """Return the entries whose keys begin with `prefix` ("" is all), sorted by key (R101).

    `scope` None takes all scopes, for pages.  Keys are compared as they are, case included.
    """
    found: ScratchpadQuerySet = ScratchpadEntry.objects.of(owner).live()
    if scope is not None:
        found = found.in_scope(checked_scope(scope))
    return found.filter(key__startswith=checked_prefix(prefix)).order_by("key", "scope")


def search(owner: Any, text: str, *, scope: str | None = OWNER_SCOPE) -> ScratchpadQuerySet:
    """Return the entries with `text` in key or value, in any case, sorted by key (R102).

    The text is taken as it is: `%` and `_` are no wildcards.
    """
    text = clean(text)[0]
    # Keys are sorted by code point, and that collation knows the case of ASCII alone.
    found: ScratchpadQuerySet = entries(owner, scope=scope).annotate(
        any_case=Collate("key", "default")
    )
    return found.filter(Q(any_case__icontains=text) | Q(value__icontains=text))


def get_entry(
    owner: Any, key: str, *, scope: str = OWNER_SCOPE, hold: bool = False
) -> ScratchpadEntry:
    """Return the entry under `key`.  Raises NoSuchKey if there is none (R100).

    `hold` keeps others from changing it until the transaction ends.
    """
    entry = _find(owner, _sought(key), checked_scope(scope), hold=hold)
    if entry is None:
        raise NoSuchKey(key)
    return entry


def check_may_write(entry: ScratchpadEntry, by: Actor) -> None:
    """Raise Locked where an agent would write over, or trash, what a person put there or locked."""
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
    """Put `value` under `key`, whatever was there before; that stays as a revision.

    `is_new` of the entry says whether this call created it.  Of two writers at once both are stored, one after the other.  `trust` says how far to believe
    the value (default: the owner's own for a person, else the agent's).  Raises InvalidValue,
    Locked, or, where `expected_version` is given, StaleWrite if another version is there.
    """
    trust = trust or (Trust.OWNER if by.is_person else Trust.AGENT)
    key, value, scope = checked_key(key), checked_value(value), checked_scope(scope)
    with transaction.atomic():
        entry = _find(owner, key, scope, hold=True)
        if entry is None:
            entry, made = _insert(owner, key, value, scope=scope, by=by, source=source, trust=trust)
            if made:
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
    """Give the entry another key.  Raises InvalidValue if that one is taken."""
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
    """Store what somebody made of key and value, if nobody wrote since `expected_version`.

    Raises InvalidValue, Locked or StaleWrite; nothing is stored in any of these cases.
    """
    value = checked_value(value)
    if checked_key(key) == entry.key and value == entry.value:
        return entry.change(by=by, expected_version=expected_version)
    with transaction.atomic():
        if checked_key(key) != entry.key:
            entry = rename(entry, key, by=by, expected_version=expected_version)
            expected_version = entry.version
        return entry.change(
            by=by, value=value, expected_version=expected_version, why=_("edited by hand")
        )


def delete(owner: Any, key: str, *, by: Actor, scope: str = OWNER_SCOPE) -> ScratchpadEntry:
    """Move the entry under `key` to the trash.  Raises NoSuchKey, or Locked."""
    entry = get_entry(owner, key, scope=scope)
    check_may_write(entry, by)
    entry.trash(by=by)
    return entry


def _sought(key: str) -> str:
    """Return a key to look for: one that cannot be stored is simply not there."""
    try:
        return checked_key(key)
    except InvalidValue as exc:
        raise NoSuchKey(key) from exc


def _find(owner: Any, key: str, scope: str, *, hold: bool = False) -> ScratchpadEntry | None:
    found = ScratchpadEntry.objects.of(owner).live().in_scope(scope).filter(key=key)
    if hold:
        found = found.select_for_update()
    entry: ScratchpadEntry | None = found.first()
    return entry


def _insert(
    owner: Any, key: str, value: str, *, scope: str, by: Actor, source: str, trust: Trust
) -> tuple[ScratchpadEntry, bool]:
    """Return the new entry, or the one another writer put there first, held; and if it is new."""
    for left in reversed(range(MOST_TRIES)):
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
