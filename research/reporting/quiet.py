"""The plain sentences of a report that has nothing to report: what came up, and why not more.

Nothing is claimed that was not looked at (R42): hits that were not read are not called known.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory.topics.memory import KnownFact, TopicMemory
from research.claims.selection import Reading
from research.deltas import delta
from research.deltas.delta import Status
from research.deltas.rereading import Outcome
from research.models import Hit
from research.working.context import RunContext


def _unread(work: RunContext) -> int:
    """Count the new and returning hits of which nothing reached the writer.

    Where the run is stopping, those that the next run reads.
    """
    hits = work.run.hits.filter(state__in=[Hit.State.NEW, Hit.State.RETURNING])
    if work.is_stopping:
        return hits.filter(reading=Hit.Reading.NOT_READ).count()
    left = hits.exclude(reading__in=[Hit.Reading.READ, Hit.Reading.NEAR_DUPLICATE])
    return left.filter(Q(snippet="") | Q(reading=Hit.Reading.QUARANTINED)).count()


def nothing_found(work: RunContext, read: int) -> str:
    """Return the summary of a baseline without a finding; `read` sources reached the writer."""
    counts, unread = work.output("filter_seen"), _unread(work)
    values = {"topic": work.topic.title, "read": read, "unread": unread}
    if read:
        said = ngettext(
            "%(read)d page was read, but it says nothing clear about “%(topic)s”.",
            "%(read)d pages were read, but none of them says anything clear about “%(topic)s”.",
            read,
        )
        return said % values
    if unread and work.is_stopping:
        said = ngettext(
            "The run ended before a page was read: %(unread)d source waits for the next run.",
            "The run ended before a page was read: %(unread)d sources wait for the next run.",
            unread,
        )
        return said % values
    if unread:
        said = ngettext(
            "%(unread)d source came up, but it could not be read: see the reason at it.",
            "%(unread)d sources came up, but none of them could be read: see the reason at each.",
            unread,
        )
        return said % values
    if blocked := counts["blocked"]:
        said = ngettext(
            "%(blocked)d source came up, but it may not be read: see the reason at it.",
            "%(blocked)d sources came up, but none that may be read: see the reason at each.",
            blocked,
        )
        return said % {"blocked": blocked}
    return _("The searches found nothing about “%(topic)s”.") % values


def what_was_checked(again: Outcome, standing: Sequence[KnownFact]) -> str:
    """Say which known pages were read again, and for how many facts that is still true.

    A fact is called still true only if its page was read in this run and still holds its quote.
    """
    said = []
    if read := again.unchanged + again.changed:
        said.append(_pages_read(again, read))
    if confirmed := sum(change.status == Status.CONFIRMED for change in again.changes):
        said.append(
            ngettext("%(n)d fact is still true.", "%(n)d facts are still true.", confirmed)
            % {"n": confirmed}
        )
    looked_at = {c.previous_id for c in again.changes if c.status != Status.GONE_QUIET}
    if unchecked := sum(bool(fact.url) and fact.id not in looked_at for fact in standing):
        said.append(
            ngettext(
                "%(n)d fact wasn’t checked, because its page wasn’t read or compared.",
                "%(n)d facts weren’t checked, because their pages weren’t read or compared.",
                unchecked,
            )
            % {"n": unchecked}
        )
    return " ".join(said) or _("No known page was read again.")


def _pages_read(again: Outcome, read: int) -> str:
    values = {"read": read, "changed": again.changed}
    if not again.changed:
        words = ngettext(
            "%(read)d known page was read again. It hasn’t changed.",
            "%(read)d known pages were read again. None has changed.",
            read,
        )
        return words % values
    words = ngettext(
        "%(read)d known page was read again, and %(changed)d has changed.",
        "%(read)d known pages were read again, and %(changed)d changed.",
        read,
    )
    return words % values


def not_told(again: Outcome) -> list[str]:
    """Say what came of known pages that no item tells: pages that were replaced, columns, what was too much."""
    said = []
    if again.replaced:
        domains = ", ".join(sorted({page.domain for page in again.replaced})[:5])
        said.append(
            ngettext(
                "%(n)d known page now shows something else, so it was not compared and its facts were not checked (%(domains)s)",
                "%(n)d known pages now show something else, so they were not compared and their facts were not checked (%(domains)s)",
                len(again.replaced),
            )
            % {"n": len(again.replaced), "domains": domains}
        )
    if again.columns:
        said.append(
            _("Columns of a table changed (%(pages)s)") % {"pages": "; ".join(again.columns[:5])}
        )
    if again.left_out:
        said.append(
            ngettext(
                "%(n)d smaller change of known pages is not listed",
                "%(n)d smaller changes of known pages are not listed",
                again.left_out,
            )
            % {"n": again.left_out}
        )
    return said


def nothing_new(
    work: RunContext, memory: TopicMemory | None, pages: Sequence[Reading], again: Outcome
) -> str:
    """Return the sentence of a run that found nothing new in the `pages` that reached the writer."""
    values = {
        "since": delta.since_line(memory.last_run_at, memory.run_count) if memory else "",
        "known": work.output("filter_seen")["known"],
        "read": sum(not page.previous for page in pages),
        "again": again.unchanged + again.changed,
        "unread": _unread(work),
    }
    return " ".join(filter(None, [_outcome(values), _again(values), _rest(values, work)]))


def _again(values: dict[str, int | str]) -> str:
    """Say how many known pages were read again without news."""
    if not values["again"]:
        return ""
    said = ngettext(
        "%(again)d known page was read again and has nothing new.",
        "%(again)d known pages were read again and have nothing new.",
        int(values["again"]),
    )
    return said % values


def _outcome(values: dict[str, int | str]) -> str:
    if values["read"]:
        said = ngettext(
            "Nothing new %(since)s. %(read)d new page was read, but it adds nothing.",
            "Nothing new %(since)s. %(read)d new pages were read, but they add nothing.",
            int(values["read"]),
        )
        return said % values
    if values["unread"]:
        return _("No new page was read %(since)s.") % values
    if values["known"]:
        said = ngettext(
            "Nothing new %(since)s. The searches found %(known)d page, which was known.",
            "Nothing new %(since)s. The searches found %(known)d pages, all of them known.",
            int(values["known"]),
        )
        return said % values
    return _("Nothing new %(since)s. The searches found no pages.") % values


def _rest(values: dict[str, int | str], work: RunContext) -> str:
    """Say what became of the new sources that were not read."""
    if not values["unread"]:
        return ""
    unread = int(values["unread"])
    if work.is_stopping:
        said = ngettext(
            "%(unread)d new source was not read and waits for the next run.",
            "%(unread)d new sources were not read and wait for the next run.",
            unread,
        )
        return said % values
    said = ngettext(
        "%(unread)d new source could not be read: see the reason at it.",
        "%(unread)d new sources could not be read: see the reason at each.",
        unread,
    )
    return said % values
