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
        return (
            _("%(read)d pages were read, but none of them says anything clear about “%(topic)s”.")
            % values
        )
    if unread and work.is_stopping:
        return (
            _("The run ended before a page was read: %(unread)d sources wait for the next run.")
            % values
        )
    if unread:
        return (
            _("%(unread)d sources came up, but none of them could be read: see the reason at each.")
            % values
        )
    if counts["blocked"]:
        return _(
            "%(blocked)d sources came up, but none that may be read: see the reason at each."
        ) % {"blocked": counts["blocked"]}
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
        return _("Nothing new was read %(since)s; %(known)d known sources came up.") % values
    if values["known"]:
        return _("Nothing new %(since)s: %(known)d sources came up, all of them known.") % values
    return _("Nothing new %(since)s: the searches found no source.") % values


def _rest(values: dict[str, int | str], work: Work) -> str:
    """Say what became of the new sources that were not read."""
    if not values["unread"]:
        return ""
    if work.is_stopping:
        return _("%(unread)d new sources were not read and wait for the next run.") % values
    return _("%(unread)d new sources could not be read: see the reason at each.") % values
