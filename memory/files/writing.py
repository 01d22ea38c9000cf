"""One write of a memory file, in a transaction that holds its rows (see `memory.files.saving`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.errors import Locked
from memory.file_texts.entries import readings
from memory.file_texts.paths import FACTS, is_fact, place_of
from memory.file_texts.sections import locked_text
from memory.file_texts.summaries import (
    LONGEST_SUMMARY,
    NOTHING,
    by_rule,
    summary_of,
    summary_span,
    with_line,
    with_summary,
)
from memory.files import limits, removing
from memory.files.blame import Runs, carried
from memory.files.cleaning import Cleaned, cleaned
from memory.files.joining import Kept, joined
from memory.files.refusals import NoSuchFile
from memory.models import MemoryFile, Revision, Section, Trust, User
from memory.texts.text import one_line

BEACON, PERSON, AGENT = MemoryFile.SummaryBy
MOST_WARNINGS = 10  # told of one save
_AGENTS = ("agent", "reflector", "research")  # whose words nobody has vouched for yet
_TRUST = list(Trust.values)  # from the most to the least


@dataclass(frozen=True, slots=True)
class Saved:
    """What came of a save: the file as it is stored, and what its writer should know."""

    file: MemoryFile
    merged: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Act:
    """Who writes, why, and in which way; `kept` is the older version that a restore puts back.

    `summary_by` is the author of the summary line, if that is not the writer.
    """

    by: Actor
    why: str = ""
    source: str = ""
    trust: str = ""
    summary: str | None = None
    summary_by: str = ""
    is_exact: bool = False  # an older version put back, with its summary line
    appends: bool = False
    kept: Kept | None = None
    tells_trash: bool = True  # whether sections that go with the write are told to the trash


def paths_of(owner: User) -> list[str]:
    """Return the owner's files by path, facts first."""
    found = MemoryFile.objects.of(owner).live().values_list("path", flat=True)
    return sorted(found, key=place_of)


def held(write: Callable[[], Saved]) -> Saved:
    """Carry a write out in a transaction; once more where another one made the month's file first."""
    try:
        with transaction.atomic():
            return write()
    except IntegrityError:
        with transaction.atomic():
            return write()


def rows_held(owner: User, path: str) -> dict[str, MemoryFile]:
    """Return the rows that a write of `path` must hold, by path: of a fact file both.

    Two writers must not pass the budget together, so whoever writes one holds the other, too.
    """
    paths = FACTS if is_fact(path) else (path,)
    rows = MemoryFile.objects.of(owner).live().filter(path__in=paths).order_by("path")
    return {row.path: row for row in rows.select_for_update(of=("self",), no_key=True)}


def save(
    owner: User, path: str, fresh: Cleaned, act: Act, *, seen: int | None, join: bool
) -> Saved:
    """Store a text that is mended, in a transaction that goes on to hold the rows.

    `seen` and `join` are as `save_file` has them.  Raises what that raises.
    """
    limits.check_lines(fresh.text)  # before a summary line is put in: as the writer counts them
    rows = rows_held(owner, path)
    file = rows.get(path)
    if file is None and seen:
        raise NoSuchFile(path, paths_of(owner))
    text, is_merged = fresh.text, False
    if file is not None:
        file.is_appended = act.appends
        file.check_may_change(act.by)
        text, is_merged = joined(file, text, seen=seen, join=join)
        if text == file.content and act.summary is None:
            return Saved(file, is_merged, fresh.warnings)
    offered = one_line(act.summary or "") or summary_of(text)
    text, summary_by = _summed(path, text, act, file)
    others = sum(row.size for row in rows.values() if row.path != path)
    limits.check_lines(text)
    limits.check_size(path, limits.size_of(text), others)
    warnings = (*fresh.warnings, *_told(path, text, file))
    if file is None:
        file = _made(owner, path, text, act, summary_by)
        return Saved(file, is_merged, warnings[:MOST_WARNINGS])
    is_refused = file.summary_by == PERSON and _writer(act) != PERSON
    if is_refused and offered and offered != file.summary:
        warnings = (_("A person wrote the summary line, so it was kept."), *warnings)
    locks, gone = _section_locks(file, text, act.by)
    if text != file.content or summary_by != file.summary_by:
        _change(file, text, act, locks, summary_by, is_merged=is_merged)
    return Saved(file, is_merged, (*gone, *warnings)[:MOST_WARNINGS])


def _change(
    file: MemoryFile,
    text: str,
    act: Act,
    locks: list[list[str]],
    summary_by: str,
    *,
    is_merged: bool,
) -> None:
    why = act.why
    if is_merged:
        why = " ".join([why, _("(joined with version %(n)d)") % {"n": file.version}]).strip()
    fields = {
        "content": text,
        "summary": summary_of(text) or "",
        "summary_by": summary_by,
        "size": limits.size_of(text),
        "blame": _blamed(file, text, act),
    }
    if locks != file.section_locks:
        fields["section_locks"] = locks
    trust = _trust(act, file.trust)
    if trust != file.trust and not act.by.is_person:
        fields["trust"] = trust
    before = str(file.content)
    file.change(by=act.by, why=why, source=act.source, **fields)
    file.is_appended = False
    if act.tells_trash:
        removing.follow(file, before, by=act.by, why=why, source=act.source)


def _blamed(file: MemoryFile, text: str, act: Act) -> Runs:
    """Return the blame of the new text: what is put back is from whoever wrote it first."""
    was = act.kept or Kept(file.content, file.blame)
    return carried(was.blame, was.content, text, file.version + 1)


def _made(owner: User, path: str, text: str, act: Act, summary_by: str) -> MemoryFile:
    """Make a file that was not there, with its first revision."""
    now = timezone.now()
    file = MemoryFile(
        owner=owner,
        path=path,
        content=text,
        summary=summary_of(text) or "",
        summary_by=summary_by,
        size=limits.size_of(text),
        blame=carried([], "", text, 1),
        source=act.source or str(act.by),
        trust=_trust(act, Trust.OWNER),
        created=now,
        updated=now,
    )
    file.save(force_insert=True)
    Revision.record(
        file, before={}, after=file.snapshot(), by=act.by, version=1, why=act.why, source=act.source
    )
    Section.follow_file(file)
    file.tell()
    return file


def _trust(act: Act, stands: str) -> str:
    """Return how far the file is to be believed: as the least of what it holds."""
    given = act.trust or (Trust.AGENT if act.by.kind in _AGENTS else Trust.OWNER)
    return max(stands, given, key=_TRUST.index)


def _summed(path: str, text: str, act: Act, file: MemoryFile | None) -> tuple[str, str]:
    """Return the text with its summary line, and who wrote the line.

    A person's line is kept until a person writes another or empties it.  Any other is generated
    with each save, unless the writer brings a new one.
    """
    stored, author = (file.summary, file.summary_by) if file else (None, BEACON)
    written, writer = summary_of(text), _writer(act)
    if act.is_exact and written:
        return text, act.summary_by or author
    given = None if act.summary is None else cleaned(one_line(act.summary)).text
    if file and author == PERSON:
        if writer != PERSON:
            return (text if written == stored else with_line(text, _line_in(file.content))), author
        if given is None and written == stored:
            return text, author
    if given:
        return with_summary(text, given), writer
    generated = by_rule(path, text)
    is_emptied = given is not None and writer == PERSON
    if is_emptied or not written or written in (stored, NOTHING):
        return with_summary(text, generated), BEACON
    return text, BEACON if written == generated else writer


def _writer(act: Act) -> str:
    """Return whose a summary line is that comes with the write; an edit on disk is a person's."""
    if act.summary_by:
        return act.summary_by
    return PERSON if act.by.is_person or act.by.kind == "disk" else AGENT


def _line_in(text: str) -> str:
    begin, end = summary_span(text)
    return text[begin:end]


def _section_locks(
    file: MemoryFile, text: str, by: Actor
) -> tuple[list[list[str]], tuple[str, ...]]:
    """Return the section locks that stand on, and what is said of those that do not.

    Raises Locked if anybody but a person changes or drops the text of a locked section.
    """
    kept, gone = [], []
    for path in file.section_locks:
        told = {"section": " › ".join(path), "path": file.path}
        now = locked_text(text, path)
        if not by.is_person and now != locked_text(file.content, path):
            raise Locked(
                _(
                    "The section “%(section)s” of %(path)s is locked: only a person may change it. "
                    "Nothing was saved; leave its lines as they are."
                )
                % told
            )
        if now is None:
            gone.append(_("The lock of “%(section)s” went with the section.") % told)
        else:
            kept.append(path)
    return kept, tuple(gone)


def _told(path: str, text: str, file: MemoryFile | None) -> list[str]:
    """Return what the writer should know of the new text and could not know of the old one."""
    told = []
    if len(line := summary_of(text) or "") >= LONGEST_SUMMARY and line.endswith("…"):
        most = {"most": LONGEST_SUMMARY}
        told.append(_("The index shows the first %(most)d characters of the summary line.") % most)
    if not is_fact(path):
        known = {p for one in readings(file.content if file else "") for p in one.problems}
        found = [problem for one in readings(text) for problem in one.problems]
        told += [problem for problem in dict.fromkeys(found) if problem not in known]
    return told


def check_rough_size(owner: User, path: str, text: str) -> None:
    """Refuse what is too large for any file before anything is worked out over it."""
    if (size := limits.size_of(text)) > limits.MOST_EPISODES:
        facts = MemoryFile.objects.of(owner).live().filter(path__in=FACTS).exclude(path=path)
        limits.check_size(path, size, sum(facts.values_list("size", flat=True)))
