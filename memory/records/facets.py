"""The chips and facets of a list: each is a link that edits the query in the address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from memory.models import Note, Observation, Topic, User
from memory.models.base import Trust
from memory.recall.query_text import toggled, values_of, with_choice
from memory.records.list_query import NOTES, ListQuery, query_of

MOST_EDITED = 1_000  # characters of a query that links edit; each of a hundred holds it whole
MOST_TOPICS = 12  # the latest ones; any other is asked for by `topic:`
EXPIRY = ("expired", "expiring", "kept")
SHOWN = ("superseded", "trashed")


@dataclass(frozen=True, slots=True)
class Option:
    """One value of a facet: the query string that asks for it, or for it no more."""

    label: str
    query: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Facet:
    """A question with its possible answers."""

    label: str
    options: Sequence[Option]

    @property
    def chosen(self) -> str:
        """Return in words what is chosen."""
        return ", ".join(option.label for option in self.options if option.is_chosen)


def chips_of(wanted: ListQuery) -> list[Option]:
    """Return the kinds (or categories) as chips, any of which may be chosen together."""
    if len(wanted.text) > MOST_EDITED:
        return []
    field = wanted.listed.facet
    labels = Note.Kind.choices if wanted.listed is NOTES else Observation.Category.choices
    none = with_choice(wanted.text, field, "", [value for value, _label in labels])
    every = Option(_("All"), query_of(none, wanted.asked_sort), not values_of(wanted.text, field))
    return [every, *_toggles(wanted, field, labels)]


def facets_of(user: User, wanted: ListQuery) -> list[Facet]:
    """Return the other facets: one query, for the topics.  A very long query has none."""
    if len(wanted.text) > MOST_EDITED:
        return []
    facets = [
        Facet(_("Trust"), _toggles(wanted, "trust", Trust.choices)),
        Facet(_("Origin"), _toggles(wanted, "source", _origins())),
        Facet(_("Topic"), _toggles(wanted, "topic", _topics(user, wanted))),
        Facet(_("Lock, pin"), _choices(wanted, [("locked", _("locked")), ("pinned", _("pinned"))])),
    ]
    if wanted.listed is not NOTES:
        alike = [("duplicate", _("near-duplicates")), ("edited", _("corrected by a person"))]
        return [
            *facets,
            Facet(_("State"), _choices(wanted, [*alike, ("trashed", _("in the trash"))])),
        ]
    expiry = [
        ("expiring", _("within seven days")),
        ("expired", _("expired")),
        ("kept", _("kept until deleted")),
    ]
    states = [
        ("edited", _("edited by a person")),
        ("superseded", _("superseded")),
        ("trashed", _("in the trash")),
    ]
    return [
        Facet(_("Stability"), _toggles(wanted, "stability", Note.Stability.choices)),
        Facet(_("Expiry"), _choices(wanted, expiry)),
        *facets,
        Facet(_("State"), _choices(wanted, states)),
    ]


def _origins() -> list[tuple[str, str]]:
    return [
        ("human:*", _("a person")),
        ("agent:*", _("an agent")),
        ("run:*", _("a run")),
        ("session:*", _("a session")),
        ("import:*", _("an import")),
    ]


def _topics(user: User, wanted: ListQuery) -> list[tuple[str, str]]:
    """Return the latest topics, and those asked for that are not among them."""
    latest = Topic.objects.of(user).live().order_by("-created")[:MOST_TOPICS]
    found: list[tuple[str, str]] = list(latest.values_list("slug", "title"))
    known = {slug for slug, _title in found}
    asked = [value for value in values_of(wanted.text, "topic") if value not in known]
    return [*found, *((value, value) for value in asked[:MOST_TOPICS])]


def _toggles(wanted: ListQuery, field: str, labels: Iterable[tuple[Any, Any]]) -> list[Option]:
    """Return values of which any may be asked for together."""
    now = values_of(wanted.text, field)
    return [
        Option(
            str(label),
            query_of(toggled(wanted.text, field, value), wanted.asked_sort),
            value in now,
        )
        for value, label in labels
    ]


def _choices(wanted: ListQuery, labels: Sequence[tuple[str, str]]) -> list[Option]:
    """Return states (`is:`) of which one may be asked for at a time."""
    now = values_of(wanted.text, "is")
    among = [value for value, _label in labels]
    found = []
    for value, label in labels:
        text = with_choice(wanted.text, "is", "" if value in now else value, among)
        found.append(Option(label, query_of(text, wanted.asked_sort), value in now))
    return found
