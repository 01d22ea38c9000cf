"""The plain sentences of a report that has nothing to report: what came up, and why not more.

Nothing is claimed that was not looked at (R42): hits that were not read are not called known.
"""

from __future__ import annotations

from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory.topics.memory import TopicMemory
from research.deltas import delta
from research.models import Hit
from research.working.stepping import Work


def _unread(work: Work) -> int:
    """Count the new and returning hits of which nothing reached the writer.

    Where the run is stopping, those that the next run reads.
    """
    hits = work.run.hits.filter(state__in=[Hit.State.NEW, Hit.State.RETURNING])
    if work.is_stopping:
        return hits.filter(reading=Hit.Reading.NOT_READ).count()
    left = hits.exclude(reading__in=[Hit.Reading.READ, Hit.Reading.NEAR_DUPLICATE])
    return left.filter(Q(snippet="") | Q(reading=Hit.Reading.QUARANTINED)).count()


def nothing_found(work: Work, read: int) -> str:
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


def nothing_new(work: Work, memory: TopicMemory | None, read: int) -> str:
    """Return the sentence of a run that found nothing new; `read` sources reached the writer."""
    values = {
        "since": delta.since_line(memory.last_run_at, memory.run_count) if memory else "",
        "known": work.output("filter_seen")["known"],
        "read": read,
        "unread": _unread(work),
    }
    return " ".join(filter(None, [_outcome(values), _rest(values, work)]))


def _outcome(values: dict[str, int | str]) -> str:
    if values["read"]:
        return (
            ngettext(
                "Nothing new %(since)s: %(read)d new source was read and says nothing of the topic "
                "that was not known; %(known)d more came up that were known.",
                "Nothing new %(since)s: %(read)d new sources were read and say nothing of the topic "
                "that was not known; %(known)d more came up that were known.",
                int(values["read"]),
            )
            % values
        )
    if values["unread"]:
        said = ngettext(
            "Nothing new was read %(since)s; %(known)d known source came up.",
            "Nothing new was read %(since)s; %(known)d known sources came up.",
            int(values["known"]),
        )
        return said % values
    if values["known"]:
        said = ngettext(
            "Nothing new %(since)s: %(known)d source came up, which was known.",
            "Nothing new %(since)s: %(known)d sources came up, all of them known.",
            int(values["known"]),
        )
        return said % values
    return _("Nothing new %(since)s: the searches found no source.") % values


def _rest(values: dict[str, int | str], work: Work) -> str:
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
