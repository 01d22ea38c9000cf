"""Memory files on their way in from an archive: by the same limits as any save."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from memory.actors import SYSTEM
from memory.archive.zips import ImportRejected
from memory.errors import MemoryRefused
from memory.file_texts.paths import checked_path, is_fact
from memory.file_texts.sections import locked_text
from memory.file_texts.summaries import by_rule, summary_of, with_summary
from memory.files import limits
from memory.files.blame import carried
from memory.files.reading import facts_budget
from memory.files.services import cleaned
from memory.models import FileEntry, MemoryFile, Remembered, Revision, Section


def problem(file: MemoryFile) -> str:
    """Return why a row cannot be one of the owner's files; empty where it can."""
    try:
        checked_path(file.path)
        text = _text(file)
        limits.check_lines(text)
        limits.check_size(file.path, limits.size_of(text), _others(file))
    except MemoryRefused as exc:
        return str(exc)
    if is_fact(file.path) and file.trashed_at is not None:
        return _("a fact file cannot lie in the trash")
    return ""


def make_room(file: MemoryFile, taking_in: Any) -> None:
    """Work out anew what follows from the text; an untouched first file of this name gives way."""
    text = _text(file)
    if not _fits(file.blame, text):
        file.blame = carried([], "", text, file.version)
    file.content, file.summary = text, summary_of(text) or ""
    if file.summary_by not in MemoryFile.SummaryBy.values or file.summary == by_rule(
        file.path, text
    ):
        file.summary_by = MemoryFile.SummaryBy.BEACON
    file.size = limits.size_of(text)
    file.section_locks = _locks(file)
    if file.trashed_at is not None:
        return
    here = MemoryFile.objects.of(taking_in.owner).live().filter(path=file.path, version=1)
    for standing in here.exclude(pk=file.pk):
        first = Revision.objects.filter(record_id=standing.pk, version=1, actor=str(SYSTEM))
        if first.exists():
            Remembered.purge(standing, by=taking_in.by)


def finish(taking_in: Any, files: list[MemoryFile]) -> None:
    """Let sections and mirror follow what came in.  Raises NotTaken beyond the budget of facts."""
    budget = facts_budget(taking_in.owner)
    if budget.used > budget.most:
        told = {"have": f"{budget.used:,}", "most": f"{budget.most:,}"}
        raise ImportRejected(
            _(
                "With the archive's fact files there would be %(have)s bytes of facts, and there "
                "may be %(most)s. Nothing was imported."
            )
            % told
        )
    for file in files:
        Section.follow_file(file)
        file.tell()


def entry_problem(entry: FileEntry) -> str:
    """Return why a row cannot be a section that a file lost; empty where it can."""
    try:
        checked_path(entry.path)
    except MemoryRefused as exc:
        return str(exc)
    if (size := limits.size_of(entry.content)) > limits.MOST_EPISODES:
        told = {"have": f"{size:,}", "most": f"{limits.MOST_EPISODES:,}"}
        return _("it has %(have)s bytes, and at most %(most)s are kept in one file") % told
    if not isinstance(entry.heading, list) or not all(isinstance(s, str) for s in entry.heading):
        return _("its heading is no list of words")
    if cleaned(entry.content).text != entry.content:
        return _("it holds characters that cannot be stored")
    return ""


def _text(file: MemoryFile) -> str:
    text = cleaned(file.content).text
    return text if summary_of(text) else with_summary(text, by_rule(file.path, text))


def _others(file: MemoryFile) -> int:
    """Return the bytes of the other fact file, if anybody wrote into it."""
    rows = MemoryFile.objects.of(file.owner).live().facts().exclude(path=file.path)
    return sum(rows.filter(version__gt=1).values_list("size", flat=True))


def _fits(blame: Any, text: str) -> bool:
    """Whether it is a blame of this text: a line somebody wrote by hand may say anything."""
    try:
        lines = sum(int(number) for number, _version in blame)
    except (TypeError, ValueError):
        return False
    return lines == sum(number for number, _version in carried([], "", text, 1))


def _locks(file: MemoryFile) -> list[list[str]]:
    given = file.section_locks if isinstance(file.section_locks, list) else []
    paths = [one for one in given if isinstance(one, list) and all(isinstance(s, str) for s in one)]
    return [path for path in paths if path and locked_text(file.content, path) is not None]
