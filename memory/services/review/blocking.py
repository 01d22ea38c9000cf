"""“Block this source”: refuse an agent's writes, or never read a domain.

`choices_of` lists what can be blocked for a proposal or record, with the consequences.  `refuse` blocks a
source and rejects its pending proposals; later writes and pages are skipped and counted.  `allow` undoes
all of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Case, Count, IntegerField, Q, When

from beacon_site.text.canonical_urls import domain_of
from beacon_site.text.cleaning import clean, one_line, shorten
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import ngettext
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
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, LimitReached
from memory.models.proposals import MAX_NAME_LENGTH
from memory.services.review import proposals as review_services

Kind = RefusedSource.Kind
MAX = 500  # blocked sources per person, since each run and each agent's write loads them
MAX_DOMAINS = 8  # of a run's pages, first those that contain the words
# Sources that have ended, or are a person's own: blocking them would block nothing, or the person.
_NEVER = ("run", "session", "human", "explicit", "research", "reflector", "maintenance", "system")
_AT_LEAST = 20  # minimum characters of a line to search for in pages
MAX_LINES, MAX_PAGES = 5, 60  # lines to search for, and pages to search


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing that can be blocked for a proposal or record, and the consequences."""

    kind: str
    name: str
    waiting: int = 0
    pages: int = 0

    @property
    def value(self) -> str:
        return f"{self.kind}:{self.name}"

    @property
    def words(self) -> str:
        params = {"name": self.name}
        if self.kind == Kind.AGENT:
            return _("the agent “%(name)s”") % params
        if self.kind == Kind.DOMAIN:
            return _("all pages from %(name)s") % params
        return _("the source “%(name)s”") % params

    @property
    def means(self) -> str:
        """Return what blocking it will do."""
        if self.kind == Kind.DOMAIN:
            words = _("Runs won’t read pages from this domain in any of your topics.")
            have = ngettext(
                "%(n)d page that was already read is kept.",
                "%(n)d pages that were already read are kept.",
                self.pages,
            )
            return f"{words} {have % {'n': self.pages}}"
        words = _(
            "Beacon rejects new notes, rules, observations and file changes from this writer, and gives the reason. Anything already saved is kept."
        )
        if not self.waiting:
            return words
        waits = ngettext(
            "%(n)d pending proposal will be rejected.",
            "%(n)d pending proposals will be rejected.",
            self.waiting,
        )
        return f"{words} {waits % {'n': self.waiting}}"


# --- choices --------------------------------------------------------------------------------------


def choices_of(owner: User, about: Proposal | Remembered) -> list[Choice]:
    """Return what can be blocked for a proposal or record."""
    results: list[Choice] = []
    actor = about.actor if isinstance(about, Proposal) else about.source
    kind, _colon, name = actor.partition(":")
    if kind == "agent" and name:
        results.append(Choice(Kind.AGENT, name, waiting=_waiting(owner, Kind.AGENT, name).count()))
    source = about.source.removesuffix(origins.HEURISTIC)
    if source and source.partition(":")[0] not in (*_NEVER, "agent"):
        waiting = _waiting(owner, Kind.SOURCE, source).count()
        results.append(Choice(Kind.SOURCE, source, waiting=waiting))
    domains = domains_of(owner, about)
    results += [
        Choice(Kind.DOMAIN, one, pages=number) for one, number in _pages_of(owner, domains).items()
    ]
    return results


def _pages_of(owner: User, domains: Sequence[str]) -> dict[str, int]:
    """Return how many pages of each domain and its subdomains were read or cited; one query."""
    if not domains:
        return {}
    counts = {
        f"n{place}": Count(
            "url", distinct=True, filter=Q(domain=one) | Q(domain__endswith=f".{one}")
        )
        for place, one in enumerate(domains)
    }
    counted = Source.objects.for_user(owner).aggregate(**counts)
    return {one: counted[f"n{place}"] for place, one in enumerate(domains)}


def domains_of(owner: User, about: Any) -> list[str]:
    """Return the domains that it is based on: its own page's, or those of its run's pages with its words."""
    source = about.source.removesuffix(origins.HEURISTIC)
    if url := str(getattr(about, "url", "")):
        return _known([url])
    if not source.startswith("run:"):
        return []
    pages = ContentItem.objects.for_user(owner).filter(
        scope=source, type=ContentItem.Type.WEB_CONTENT
    ).exclude(url="")  # fmt: skip
    holding = Q(pk=None)
    for line in _searchable_lines(about)[:MAX_LINES]:
        holding |= Q(content__icontains=line)
    says = Case(When(holding, then=0), default=1, output_field=IntegerField())
    return _known(pages.order_by(says, "created").values_list("url", flat=True)[:MAX_PAGES])


def _searchable_lines(about: Any) -> list[str]:
    """Return the lines that it adds, or that the record contains, as a page could contain them."""
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
    return [one for one in found if one][:MAX_DOMAINS]


def _waiting(owner: User, kind: str, name: str) -> Any:
    waiting = Proposal.objects.for_user(owner).waiting()
    if kind == Kind.AGENT:
        return waiting.filter(actor=f"agent:{name}")
    if kind == Kind.SOURCE:
        return waiting.filter(source__in=[name, name + origins.HEURISTIC])
    return waiting.none()


# --- actions --------------------------------------------------------------------------------------


def refuse(owner: User, kind: str, name: str, *, by: Actor, why: str = "") -> RefusedSource:
    """Block the source and reject its pending proposals; blocking it twice adds nothing.

    Raises InvalidValue if it can't be blocked, LimitReached beyond MAX.
    """
    name, why = clean(name)[0].strip(), one_line(clean(why)[0])
    if not by.is_person:
        raise InvalidValue(_("Only a person can block a source."))
    if kind not in Kind.values or not name or len(name) > MAX_NAME_LENGTH:
        raise InvalidValue(_("This source can’t be blocked. Choose one from the list."))
    if RefusedSource.objects.for_user(owner).count() >= MAX:
        problem = _("You’ve reached the limit of %(most)d blocked sources. Unblock one first.")
        raise LimitReached(problem % {"most": MAX})
    with transaction.atomic():
        try:
            with transaction.atomic():
                refused_source = RefusedSource.objects.create(
                    owner=owner, kind=kind, name=name, reason=why
                )
        except IntegrityError:
            known: RefusedSource = RefusedSource.objects.for_user(owner).get(kind=kind, name=name)
            return known
        for one in _waiting(owner, kind, name):
            one.owner = owner
            review_services.reject(one, by=by, why=_reason(refused_source))
        Activity.log(owner, by, "source-refused", label=name, source=kind, why=why)
    return refused_source


def _reason(refused_source: RefusedSource) -> str:
    return f"refuse:{refused_source.pk}"


def allow(refused: RefusedSource, *, by: Actor) -> int:
    """Unblock the source and reopen the proposals rejected with it; return how many."""
    owner = refused.owner
    with transaction.atomic():
        rows = Proposal.objects.for_user(owner).filter(
            state=Proposal.State.REJECTED, decision_reason=_reason(refused)
        )
        for one in rows:
            one.owner = owner
            review_services.restore_state(one, by=by)
        number = len(rows)
        Activity.log(owner, by, "source-allowed", label=refused.name, source=refused.kind)
        refused.delete()
    return number
