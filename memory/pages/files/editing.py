"""Editing memory files: the editor, its preview, merging two edits, locks, and the file's page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import Any

from django import forms
from django.http import Http404
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _

from beacon_site.text import diff as text_diff
from beacon_site.text import markdown
from beacon_site.text.cleaning import one_line, uuid_of
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import CleanTextField, DayField, RawField, SecretConfirmationMixin
from memory.models import FileDraft, FileEntry, MemoryFile, MirroredFile, Revision, User, origins
from memory.models.actors import Actor
from memory.models.errors import InvalidValue
from memory.models.file_format import (
    FACTS,
    anchor_of,
    entries_of,
    is_fact,
    month_of,
    path_of_month,
    sections_of,
)
from memory.models.remembered import Trust
from memory.pages.records.editing import merge_screen
from memory.pages.records.record import TRUST_MEANS
from memory.services.files import agent_folders, section_restore
from memory.services.files.reading import files_of, read_file
from memory.services.files.saving import MAX_NOTE, SaveResult, append_to, facts_size, lock_section
from memory.services.files.texts import (
    MAX_EPISODES,
    MAX_FACTS,
    NoSuchFile,
    OverBudget,
    cleaned,
    merge_changes,
    size_of,
)


def file_or_404(request: BeaconRequest, path: str) -> MemoryFile:
    """Return the person's file at `path`; 404 for a month without a file."""
    try:
        file = read_file(request.user, path)
    except NoSuchFile as exc:
        raise Http404(str(exc)) from exc
    file.owner = request.user
    return file


# --- editor ---

MAX_ROWS = 400  # lines of a diff on a page
MAX_OWN = 500  # agents' own files in the list


def current_or_new(owner: User, path: str) -> MemoryFile:
    """Return the file at `path`, or an unsaved one of version 0."""
    try:
        file = read_file(owner, path)
    except NoSuchFile:
        return MemoryFile(owner=owner, path=path, version=0)
    file.owner = owner
    return file


def meter_of(file: MemoryFile, text: str, refused: OverBudget | None = None) -> dict[str, Any]:
    """Return the size of `text` in `file`'s place; for a refused save, the size it would have had.

    `added` bytes come from the save itself: a summary line, or what others wrote since.
    """
    typed, others = size_of(cleaned(text)[0]), 0
    if is_fact(file.path):
        rows = MemoryFile.objects.for_user(file.owner).live().filter(path__in=FACTS)
        others = sum(rows.exclude(path=file.path).values_list("size", flat=True))
    most = MAX_FACTS if is_fact(file.path) else MAX_EPISODES
    size = typed if refused is None else refused.have - others
    return {
        "size": size,
        "added": size - typed,
        "others": others,  # in the same budget
        "stored": file.size,
        "change": size - file.size,
        "over": max(0, size + others - most),
        "budget": budget(size + others, most),
    }


def preview_of(file: MemoryFile, text: str) -> dict[str, Any]:
    """Return the text's sections as HTML, its problems, and its diff."""
    text = cleaned(text)[0]
    problems = (p for one in entries_of(text) for p in one.problems) if month_of(file.path) else ()
    rows = [] if text == file.content else text_diff.folded(text_diff.diff(file.content, text))
    return {
        "sections": [markdown.by_direction(markdown.render(one.text)) for one in sections_of(text)],
        "problems": list(problems)[:10],
        "rows": rows[:MAX_ROWS],
        "rows_left": len(rows[MAX_ROWS:]),
    }


def entry_of(file: MemoryFile, key: str) -> FileEntry | None:
    """Return the section in Trash that a URL names, if it belongs to this file."""
    pk = uuid_of(key)
    if pk is None:
        return None
    row = FileEntry.objects.for_user(file.owner).in_trash().filter(pk=pk, path=file.path).first()
    if row is not None:
        row.owner = file.owner
    return row if file.version else None


def entry_clash(entry: FileEntry, file: MemoryFile) -> tuple[str, dict[str, Any]]:
    """Return the text and merge screen of a section restored from Trash, with both texts."""
    back = section_restore.returning(entry, file)
    merge = merge_changes(back.base, back.text, str(file.content))
    both = dict.fromkeys(range(len(merge.conflicts)), "both")
    return merge.text(both), merge_screen(merge, back.text, back.seen, both)


def write_episode(owner: User, fields: Mapping[str, Any], *, by: Actor) -> SaveResult:
    """Append an entry to its month's file in seed 003's format, once if its form is sent twice.

    Raises what `append_to` raises.
    """
    day: date = fields["date"]
    lines = [f"## {one_line(fields['title'])}", f"- Summary: {one_line(fields['summary'])}"]
    lines.append(f"- Date: {day.isoformat()}")
    for name in ("task", "findings", "decision", "lesson"):
        if said := fields.get(name, ""):
            first, *more = [line.strip() for line in str(said).splitlines() if line.strip()]
            lines += [f"- {name.capitalize()}: {first}", *(f"  {line}" for line in more)]
    return append_to(owner, path_of_month(day), "\n".join(lines), by=by, once=True)


# --- locks ---

PAGE = 200  # sections per page
Heading = tuple[str, ...]


def sections_to_lock(file: MemoryFile, *, begin: int) -> dict[str, Any]:
    """Return a page of the file's sections with a heading, each path of headings once.

    `later` is the start of the next page, 0 if this is the last.
    """
    locked = {tuple(path) for path in file.section_locks}
    found: dict[Heading, dict[str, Any]] = {}
    for one in sections_of(file.content):
        if one.title and one.heading not in found:
            found[one.heading] = {
                "anchor": anchor_of(one.heading),
                "heading": one.heading,
                "title": one.heading[-1],
                "depth": min(len(one.heading), 4),  # sets its indent in the list
                "first_line": one.first_line,
                "until": one.until,
                "is_locked": one.heading in locked,
                "under": _above(one.heading, locked),  # the locked section that contains it
            }
    rows = list(found.values())
    begin = begin if begin < len(rows) else 0
    end = begin + PAGE
    return {
        "rows": rows[begin:end],
        "count": len(rows),
        "locked": len(locked),
        "begin": begin,
        "later": end if end < len(rows) else 0,
    }


def _above(heading: Sequence[str], locked: set[Heading]) -> str:
    paths = (tuple(heading[:depth]) for depth in range(1, len(heading)))
    return next((path[-1] for path in paths if path in locked), "")


def set_section(file: MemoryFile, anchor: str, *, by: Actor, locked: bool) -> str:
    """Lock or unlock the section at `anchor`; return its heading.

    Raises InvalidValue if the section no longer exists, and what `lock_section` raises.
    """
    known = [one.heading for one in sections_of(file.content) if one.title]
    known += [tuple(path) for path in file.section_locks]
    heading = next((path for path in known if anchor_of(path) == anchor), None)
    if heading is None:
        raise InvalidValue(
            _(
                "This section is no longer in %(path)s because the file has changed. Check the list again."
            )
            % {"path": file.path}
        )
    lock_section(file, heading, by=by, locked=locked)
    return " › ".join(heading)


# --- one file ---

MAX_KEPT_LENGTH = 4_000  # characters of a section whose HTML is cached by the process
MAX_KEPT = 2_000  # cached sections: a month's largest file has about 550


Row = dict[str, Any]


def tree_of(user: User) -> tuple[list[Row], list[Row], list[Row]]:
    """Return facts, episodes with the newest month first, and the agents' own files.

    The number of queries is fixed, however many months there are.
    """
    own = MemoryFile.objects.for_user(user).live().of_agents()
    files = [*files_of(user), *own.defer("content", "blame").order_by("path")[:MAX_OWN]]
    rows = file_rows(user, files)
    facts = [row for row in rows if is_fact(row["file"].path)]
    episodes = [row for row in reversed(rows) if month_of(row["file"].path)]
    return facts, episodes, [row for row in rows if row["file"].agent_folder]


def file_rows(user: User, files: Sequence[MemoryFile]) -> list[Row]:
    """Return the files as a list shows them. `problem` says why an edit on disk wasn't imported."""
    last = last_changes(user, files)
    paths = [file.path for file in files]
    mirrored = MirroredFile.objects.for_user(user).filter(path__in=paths).exclude(problem="")
    problems = dict(mirrored.values_list("path", "problem"))
    drafts = FileDraft.objects.for_user(user).filter(path__in=paths)
    drafted = set(drafts.values_list("path", flat=True))
    rows = []
    for file in files:
        folder, _slash, name = f"{file.mounted_folder}/{file.place_in_folder}".rpartition("/")
        rows.append(
            {
                "file": file,
                "folder": folder,
                "name": name,
                "last": last.get(file.pk),
                "problem": problems.get(file.path, ""),
                "has_draft": file.path in drafted,
            }
        )
    return rows


def last_changes(user: User, files: Sequence[MemoryFile]) -> dict[Any, dict[str, Any]]:
    """Return the newest revision of each file, who made it and through what, by the file's ID."""
    revisions = (
        Revision.objects.for_user(user)
        .filter(record_type=MemoryFile.record_type(), record_id__in=[file.pk for file in files])
        .order_by("record_id", "-id")
        .distinct("record_id")
        .defer("before", "after")
    )
    found = list(revisions)
    named = origins.of(user, {text for one in found for text in (one.actor, one.source)})
    return {
        one.record_id: {
            "who": named[one.actor].words if one.actor else "",
            "revision": one,
            "via": named.get(one.source) if one.source != one.actor else None,
        }
        for one in found
    }


def page_of(user: User, file: MemoryFile) -> dict[str, Any]:
    """Return the sections of `file` in order, its budget and its notices.

    A section has its own lock (`locks_itself`), or is locked with the section that contains it.
    """
    locked = {tuple(heading) for heading in file.section_locks}
    sections = [
        {
            "anchor": anchor_of(one.heading),
            "heading": one.heading,
            "title": one.heading[-1] if one.heading else "",
            "html": _html_of(one.text),
            "is_locked": any(one.heading[: len(path)] == path for path in locked),
            "locks_itself": one.heading in locked,
        }
        for one in sections_of(file.content)
    ]
    mirrored = (
        MirroredFile.objects.for_user(user).filter(path=file.path).exclude(problem="").first()
    )
    return {
        "sections": sections,
        "last": last_changes(user, [file]).get(file.pk),
        "budget": budget_of(user, file),
        "is_fact": is_fact(file.path),
        "trust_means": TRUST_MEANS[Trust(file.trust)],
        "problem": _problem_of(file, mirrored),
        "draft": FileDraft.objects.for_user(user).filter(path=file.path).first(),
    }


def _problem_of(file: MemoryFile, mirrored: MirroredFile | None) -> str:
    if mirrored is None:
        return ""
    return (
        agent_folders.describe_problem(mirrored.problem)
        if file.mounted_folder
        else mirrored.problem
    )


def _html_of(text: str) -> SafeString:
    """Return a section's text as HTML; cached, because most sections of a large file don't change."""
    if len(text) > MAX_KEPT_LENGTH:
        return markdown.by_direction(markdown.render(text))
    return _kept_html(text, get_language())


@lru_cache(maxsize=MAX_KEPT)
def _kept_html(text: str, _language: str | None) -> SafeString:
    return markdown.by_direction(markdown.render(text))


def budget_of(user: User, file: MemoryFile) -> dict[str, int]:
    """Return the file's budget: the one that both fact files share, or its own."""
    if is_fact(file.path):
        return budget(facts_size(user), MAX_FACTS)
    return budget(file.size, MAX_EPISODES)


def budget(used: int, most: int) -> dict[str, int]:
    """Return a size, its limit, and from which size it is nearly full: 90 percent."""
    return {"used": used, "most": most, "high": most * 9 // 10}


# --- forms ---


class FileForm(SecretConfirmationMixin):
    """The whole text of a file, with the version it is based on (0: there was no file)."""

    content = RawField(
        label=gettext_lazy("Markdown"),
        required=False,
        widget=forms.Textarea(
            attrs={
                "rows": 24,
                "class": "mono file-editor",
                "data-file-text": "",
                "wrap": "soft",
                "dir": "auto",
            }
        ),
    )
    note = CleanTextField(
        label=gettext_lazy("What changed"),
        required=False,
        max_length=MAX_NOTE,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    seen = forms.IntegerField(min_value=0, max_value=2_000_000_000, widget=forms.HiddenInput)
    window = forms.UUIDField(widget=forms.HiddenInput)


class EpisodeForm(SecretConfirmationMixin):
    """An entry in a month's file, in the format that agents write (seed 003)."""

    title = CleanTextField(
        label=gettext_lazy("Title"),
        max_length=200,
        error_messages={"required": gettext_lazy("Enter a short title.")},
        help_text=gettext_lazy("Enter the subject, such as Tokyo flights."),
    )
    summary = CleanTextField(
        label=gettext_lazy("Summary"),
        max_length=300,
        error_messages={"required": gettext_lazy("Enter a one-line summary.")},
        help_text=gettext_lazy("Use fewer than 10 words. They appear in the file’s index line."),
    )
    date = DayField(
        label=gettext_lazy("Date"),
        help_text=gettext_lazy("The month determines which file the entry goes in."),
    )
    task = CleanTextField(
        label=gettext_lazy("Task"),
        widget=forms.Textarea(attrs={"rows": 2}),
        error_messages={"required": gettext_lazy("Enter the task.")},
        help_text=gettext_lazy("Describe the goal of the task."),
    )
    findings = CleanTextField(
        label=gettext_lazy("Findings"), required=False, widget=forms.Textarea(attrs={"rows": 3})
    )
    decision = CleanTextField(
        label=gettext_lazy("Decision"), required=False, widget=forms.Textarea(attrs={"rows": 2})
    )
    lesson = CleanTextField(
        label=gettext_lazy("Lesson"), required=False, widget=forms.Textarea(attrs={"rows": 2})
    )

    def clean(self) -> dict[str, Any]:
        """Require at least one result."""
        data = super().clean() or self.cleaned_data
        if not any(data.get(name) for name in ("findings", "decision", "lesson")):
            self.add_error("findings", gettext_lazy("Enter findings, a decision or a lesson."))
        return data
