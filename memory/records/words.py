"""What the lists of notes and observations say, each in its own words."""

from __future__ import annotations

from django.utils.html import escape
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory.records.list_query import NOTES, Listed


def title_of(listed: Listed) -> str:
    """Return the list's heading."""
    return _("Notes") if listed is NOTES else _("Observations")


def words_of(listed: Listed, total: int, most: int) -> dict[str, str]:
    """Return the list's words; `total` is counted no further than one beyond `most`."""
    if listed is NOTES:
        return _counted(_of_notes(total, most), total, most)
    return _counted(_of_observations(total, most), total, most)


def _counted(words: dict[str, str], total: int, most: int) -> dict[str, str]:
    more = _("Select all matching (more than %(most)s)") % {"most": f"{most:,}"}
    exact = _("Select all %(total)s matching") % {"total": f"{total:,}"}
    return words | {"select_all": more if total > most else exact}


def _of_notes(total: int, most: int) -> dict[str, str]:
    count = ngettext("%(total)s note", "%(total)s notes", total) % {"total": f"{total:,}"}
    return {
        "one": _("Note"),
        "new": _("New note"),
        "search": _("Search notes"),
        "example": _("stale kind:rule,summary -tag:travel after:30d"),
        "count": count if total <= most else _("More than %(most)s notes") % {"most": f"{most:,}"},
        "none_found": _("No note is like that"),
        "all": _("Show all active notes"),
        "none": _("No notes yet"),
        "what": _(
            "A note is something to go by: a rule, a log line, the summary of a run. Write one "
            "by hand, or let the first run write its summary."
        ),
    }


def _of_observations(total: int, most: int) -> dict[str, str]:
    count = ngettext("%(total)s observation", "%(total)s observations", total)
    count %= {"total": f"{total:,}"}
    more = _("More than %(most)s observations") % {"most": f"{most:,}"}
    return {
        "one": _("Observation"),
        "new": _("New observation"),
        "search": _("Search observations"),
        "example": _("price category:finding source:run:* after:30d"),
        "count": count if total <= most else more,
        "none_found": _("No observation is like that"),
        "all": _("Show all observations"),
        "none": _("No observations yet"),
        "what": _(
            "An observation is a finding, an insight or a lesson that a run or a session brought. "
            "They come by themselves with the first run; you can also write one."
        ),
    }


def row_words() -> dict[str, SafeString]:
    """Return what every row says: looked up and escaped once a page, not fifty times."""
    words = {
        "select": _("Select:"),
        "edit": _("Edit"),
        "trash": _("Trash"),
        "to_trash": _("Move to the trash:"),
        "restore": _("Restore"),
        "whole": _("Whole text"),
        "rest": _("the rest on its page"),
        "pinned": _("pinned"),
        "external": _("from outside"),
        "quarantined": _("quarantined"),
        "agent": _("by an agent"),
        "sensitive": _("sensitive"),
        "superseded": _("superseded"),
        "duplicate": _("near-duplicate of an older one"),
        "kind": _("Kind"),
        "category": _("Category"),
        "expires": _("Expires"),
        "expired": _("expired"),
        "kept": _("kept"),
        "written": _("Written"),
        "purged": _("purged"),
    }
    return {name: escape(word) for name, word in words.items()}
