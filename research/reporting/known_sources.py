"""The sources of what was known before a run, numbered behind the pages that the run read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Max
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory import origins
from memory.models import TopicFact
from memory.texts.canonical import domain_of
from memory.topics.memory import KnownFact
from research.claims.selection import Reading
from research.deltas.delta import Change, Status
from research.models import DeltaItem
from research.working.context import RunContext


@dataclass(frozen=True, slots=True)
class KnownSources:
    """Where the known facts come from: the sources that this run did not read, as `pages`.

    `numbers` are the citations of the facts and `notes` say how often each was confirmed, both by
    the fact's id.
    """

    pages: Sequence[Reading]
    numbers: Mapping[str, int]
    notes: Mapping[str, str]

    @classmethod
    def of(
        cls,
        work: RunContext,
        facts: Sequence[KnownFact],
        pages: Sequence[Reading],
        changes: list[Change],
    ) -> KnownSources:
        """Number the sources of `facts`; two or three queries if there are any facts."""
        by_url = {page.url: page.number for page in pages}
        last = max(by_url.values(), default=0)
        earlier: list[Reading] = []
        for fact in facts:
            if fact.url and fact.url not in by_url:
                last += 1
                by_url[fact.url] = last
                earlier.append(_reading(last, fact))
        numbers = {fact.id: by_url[fact.url] for fact in facts if fact.url}
        return cls(earlier, numbers, _notes(work, facts, changes) if facts else {})

    def numbers_of(self, fact_id: str) -> list[int]:
        """Return the citation of a fact; none for one without a source address."""
        return [self.numbers[fact_id]] if fact_id in self.numbers else []

    def line(self, fact: KnownFact) -> str:
        """Return a fact as a line of Markdown, with its citation and confirmations."""
        marks = "".join(f"[{n}]" for n in self.numbers_of(fact.id))
        note = self.notes.get(fact.id, "")
        return " ".join(filter(None, [fact.text, marks, f"*({note})*" if note else ""]))


def _reading(number: int, fact: KnownFact) -> Reading:
    try:
        domain = domain_of(fact.url)
    except ValueError:
        domain = ""
    title = fact.title or fact.url
    return Reading(number, fact.url, title, domain, "", published_at=fact.published_at)


def _notes(
    work: RunContext, facts: Iterable[KnownFact], changes: Iterable[Change]
) -> dict[str, str]:
    rows = TopicFact.objects.of(work.topic.owner).filter(pk__in=[fact.id for fact in facts])
    confirmed = DeltaItem.objects.filter(
        previous_fact__in=rows, status=Status.CONFIRMED, withheld="", run__topic=work.topic
    )
    counted = confirmed.order_by().values_list("previous_fact")
    before = {
        str(pk): (n, at) for pk, n, at in counted.annotate(Count("pk"), Max("run__finished_at"))
    }
    now = {change.previous_id for change in changes if change.status == Status.CONFIRMED}
    # Only of these: a run's origin has an address, for which a worker would load every URL.
    named = origins.of(work.topic.owner, {row.source for row in rows if not row.url})
    notes = {}
    for row in rows:
        count, at = before.get(str(row.pk), (0, None))
        if str(row.pk) in now:
            count, at = count + 1, timezone.now()
        who = "" if row.url else named[row.source].words
        notes[str(row.pk)] = _note(count, at, row.created, who)
    return notes


def _note(count: int, at: datetime | None, created: datetime, who: str) -> str:
    day = date_format(timezone.localtime(at or created), "j M Y")
    if count:
        words = ngettext(
            "confirmed once, on %(day)s", "confirmed %(n)d times, last on %(day)s", count
        )
        said = words % {"n": count, "day": day}
        return _("%(said)s, added by %(who)s") % {"said": said, "who": who} if who else said
    if who:
        return _("added by %(who)s on %(day)s") % {"who": who, "day": day}
    return _("found on %(day)s, not confirmed since") % {"day": day}
