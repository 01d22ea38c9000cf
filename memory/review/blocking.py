"""“Block this source”: an agent whose writes are refused, a domain that no run reads.

Data flow: a proposal or a record -> `choices`, each with what it would do -> `refuse` (what waits
from there is rejected) -> every later write or page from there is turned away and counted ->
`allow`, which takes it all back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Case, Count, IntegerField, Q, When
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.text.canonical_urls import domain_of
from beacon_site.text.cleaning import clean, one_line, shorten
from memory.core.actors import Actor
from memory.core.errors import InvalidValue, LimitReached
from memory.models import (
    Activity,
    ContentItem,
    Proposal,
    RefusedSource,
    Remembered,
    Source,
    User,
    origins,
)
from memory.models.proposals import LONGEST_NAME
from memory.review import services as review_services

Kind = RefusedSource.Kind
MOST = 500  # refused sources of one person: each run, and each write of an agent, asks for them
MOST_DOMAINS = 8  # of the pages of a run, those first whose text holds the words
# Sources that are over, or a person's own: refusing them would refuse nothing, or the person.
_NEVER = ("run", "session", "human", "explicit", "research", "reflector", "maintenance", "system")
_AT_LEAST = 20  # characters of a line that is looked for in the pages
MOST_LINES, MOST_PAGES = 5, 60  # looked for, and looked at


@dataclass(frozen=True, slots=True)
class Choice:
    """What can be refused of a proposal's or record's source, and what that would do."""

    kind: str
    name: str
    waiting: int = 0
    pages: int = 0

    @property
    def value(self) -> str:
        """Return how a form names it."""
        return f"{self.kind}:{self.name}"

    @property
    def words(self) -> str:
        """Return what it is."""
        told = {"name": self.name}
        if self.kind == Kind.AGENT:
            return _("the agent “%(name)s”") % told
        if self.kind == Kind.DOMAIN:
            return _("all pages from %(name)s") % told
        return _("the source “%(name)s”") % told

    @property
    def means(self) -> str:
        """Return what refusing it does, before it is done."""
        if self.kind == Kind.DOMAIN:
            words = _("No run of your topics will read its pages.")
            have = ngettext(
                "%(n)d page that was already read is kept.",
                "%(n)d pages that were already read are kept.",
                self.pages,
            )
            return f"{words} {have % {'n': self.pages}}"
        words = _(
            "Beacon refuses its notes, rules, observations and file changes, and tells it so. What it already wrote is kept."
        )
        if not self.waiting:
            return words
        waits = ngettext(
            "%(n)d pending proposal is rejected.",
            "%(n)d pending proposals are rejected.",
            self.waiting,
        )
        return f"{words} {waits % {'n': self.waiting}}"


# --- what can be refused --------------------------------------------------------------------------


def choices_of(owner: User, about: Proposal | Remembered) -> list[Choice]:
    """Return what of the source of a proposal or a record can be refused."""
    found: list[Choice] = []
    actor = about.actor if isinstance(about, Proposal) else about.source
    kind, _colon, name = actor.partition(":")
    if kind == "agent" and name:
        found.append(Choice(Kind.AGENT, name, waiting=_waiting(owner, Kind.AGENT, name).count()))
    source = about.source.removesuffix(origins.HEURISTIC)
    if source and source.partition(":")[0] not in (*_NEVER, "agent"):
        waiting = _waiting(owner, Kind.SOURCE, source).count()
        found.append(Choice(Kind.SOURCE, source, waiting=waiting))
    domains = _domains(owner, about, source)
    found += [
        Choice(Kind.DOMAIN, one, pages=number) for one, number in _pages_of(owner, domains).items()
    ]
    return found


def _pages_of(owner: User, domains: Sequence[str]) -> dict[str, int]:
    """Return how many pages were read or cited of each domain and those below it: one query."""
    if not domains:
        return {}
    counts = {
        f"n{place}": Count(
            "url", distinct=True, filter=Q(domain=one) | Q(domain__endswith=f".{one}")
        )
        for place, one in enumerate(domains)
    }
    counted = Source.objects.of(owner).aggregate(**counts)
    return {one: counted[f"n{place}"] for place, one in enumerate(domains)}


def _domains(owner: User, about: Any, source: str) -> list[str]:
    """Return the domains it rests on: its own page's, or those of its run's pages with its words."""
    if url := str(getattr(about, "url", "")):
        return _known([url])
    if not source.startswith("run:"):
        return []
    pages = ContentItem.objects.of(owner).filter(
        scope=source, type=ContentItem.Type.WEB_CONTENT
    ).exclude(url="")  # fmt: skip
    holding = Q(pk=None)
    for line in _lines(about)[:MOST_LINES]:
        holding |= Q(content__icontains=line)
    says = Case(When(holding, then=0), default=1, output_field=IntegerField())
    return _known(pages.order_by(says, "created").values_list("url", flat=True)[:MOST_PAGES])


def _lines(about: Any) -> list[str]:
    """Return the lines that it would add, or that the record holds, as they may stand in a page."""
    if isinstance(about, Proposal):
        had = set(str(about.before.get("content", "")).splitlines())
        rows = about.after.get("lines") or [about.after]
        text = "\n".join(str(row.get("content", "")) for row in rows)
        lines = [line for line in text.splitlines() if line not in had]
    else:
        lines = str(getattr(about, "content", getattr(about, "text", ""))).splitlines()
    bare = (line.strip(" -*#>\t") for line in lines)
    return [shorten(line, 200).rstrip("…") for line in bare if len(line) >= _AT_LEAST]


def _known(urls: Iterable[str]) -> list[str]:
    found = dict.fromkeys(domain_of(url) for url in urls if url.startswith(("http:", "https:")))
    return [one for one in found if one][:MOST_DOMAINS]


def _waiting(owner: User, kind: str, name: str) -> Any:
    waiting = Proposal.objects.of(owner).waiting()
    if kind == Kind.AGENT:
        return waiting.filter(actor=f"agent:{name}")
    if kind == Kind.SOURCE:
        return waiting.filter(source__in=[name, name + origins.HEURISTIC])
    return waiting.none()


# --- a person's acts ------------------------------------------------------------------------------


def refuse(owner: User, kind: str, name: str, *, by: Actor, why: str = "") -> RefusedSource:
    """Refuse the source from now on, and reject what waits from there; the same again adds nothing.

    Raises InvalidValue for what is no source that can be refused, LimitReached beyond MOST.
    """
    name, why = clean(name)[0].strip(), one_line(clean(why)[0])
    if not by.is_person:
        raise InvalidValue(_("Only a person can block a source."))
    if kind not in Kind.values or not name or len(name) > LONGEST_NAME:
        raise InvalidValue(_("This source can’t be blocked. Choose one from the list."))
    if RefusedSource.objects.of(owner).count() >= MOST:
        problem = _("You’ve blocked %(most)d sources, which is the limit. Unblock one first.")
        raise LimitReached(problem % {"most": MOST})
    with transaction.atomic():
        try:
            with transaction.atomic():
                made = RefusedSource.objects.create(owner=owner, kind=kind, name=name, reason=why)
        except IntegrityError:
            known: RefusedSource = RefusedSource.objects.of(owner).get(kind=kind, name=name)
            return known
        for one in _waiting(owner, kind, name):
            one.owner = owner
            review_services.reject(one, by=by, why=_reason(made))
        Activity.log(owner, by, "source-refused", label=name, source=kind, why=why)
    return made


def _reason(made: RefusedSource) -> str:
    return f"refuse:{made.pk}"


def allow(refused: RefusedSource, *, by: Actor) -> int:
    """Let the source in again, and let wait again what was rejected with it; return how many."""
    owner = refused.owner
    with transaction.atomic():
        rows = Proposal.objects.of(owner).filter(
            state=Proposal.State.REJECTED, decision_reason=_reason(refused)
        )
        for one in rows:
            one.owner = owner
            review_services.put_back(one, by=by)
        number = len(rows)
        Activity.log(owner, by, "source-allowed", label=refused.name, source=refused.kind)
        refused.delete()
    return number
