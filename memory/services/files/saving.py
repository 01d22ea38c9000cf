"""Create, save, patch, append to and restore memory files.

Data flow of every write: an edit (replace, patch, append, restore) -> the file's rows are locked
-> the text that the file's rules would store -> for agents, the review (`memory.agents.tools.files`)
-> stored with its history. An error says why nothing was changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from beacon_site.db.advisory_locks import LockId, lock_until_commit
from beacon_site.text.cleaning import one_line, shorten
from beacon_site.text.injection import injection_reason
from beacon_site.text.messages import grouped
from memory.models import FileDraft, MemoryFile, Revision, Section, Trust, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, LimitReached, Locked, MemoryRefused
from memory.models.file_format import (
    AGENTS,
    FACTS,
    MAX_SUMMARY_LENGTH,
    NOTHING,
    agent_of,
    by_rule,
    checked_path,
    folder_of,
    is_fact,
    is_kept_exact,
    locked_text,
    month_of,
    mounted_of,
    place_of,
    readings,
    sections_of,
    summary_of,
    summary_of_exact,
    summary_span,
    with_line,
    with_summary,
)
from memory.services.files import texts
from memory.services.files.texts import (
    EarlierVersion,
    NoSuchFile,
    Pair,
    Runs,
    carried,
    check_lines,
    cleaned,
    content_at,
    joined,
    kept_at,
    new_file,
    patched,
    with_entry,
)

_PUNCTUATION = re.compile(r"[/_.+,()-]+")  # between the words of names


# --- writing rows ---

Rows = dict[str, MemoryFile]  # by path
Result = TypeVar("Result")
BEACON, PERSON, AGENT = MemoryFile.SummaryBy
MAX_WARNINGS = 10  # per save
_AGENTS = ("agent", "reflector", "research")  # their text has not been confirmed by a person
_TRUST = list(Trust.values)  # from most to least trusted


@dataclass(frozen=True, slots=True)
class SaveResult:
    """The result of a save: the stored file, and warnings for its writer."""

    file: MemoryFile
    merged: bool
    warnings: tuple[str, ...]
    is_new: bool


@dataclass(frozen=True, slots=True)
class Act:
    """Who writes, why, and how; `kept` is the older version that a restore writes.

    `trust` is that of the text's origin, if it is lower than the writer's own.  `summary` wins over
    any summary line in the text, but only a person replaces a person's line.  `summary_by` is the
    author of the line, if that is not the writer.
    """

    by: Actor
    why: str = ""
    source: str = ""
    trust: str = ""
    summary: str | None = None
    summary_by: str = ""
    is_exact: bool = False  # an older version is restored, with its summary line
    kept: EarlierVersion | None = None
    tells_trash: bool = True  # whether sections that the write removes move to Trash


def paths_of(owner: User) -> list[str]:
    """Return the shared files by path, facts first."""
    rows = MemoryFile.objects.for_user(owner).live().shared().values_list("path", flat=True)
    return sorted(rows, key=place_of)


def with_retry(write: Callable[[], Result]) -> Result:
    """Run a write in a transaction; run it again if another one created the month's file first."""
    try:
        with transaction.atomic():
            return write()
    except IntegrityError:
        with transaction.atomic():
            return write()


def rows_held(owner: User, path: str) -> Rows:
    """Lock and return the rows that a write of `path` needs, by path: for a fact file, both.

    Both fact files share one budget, so that two writers can't exceed it together.
    """
    paths = FACTS if is_fact(path) else (path,)
    rows = MemoryFile.objects.for_user(owner).live().filter(path__in=paths).order_by("path")
    return {row.path: row for row in rows.select_for_update(of=("self",), no_key=True)}


@dataclass(frozen=True, slots=True)
class NewText:
    """The text that a write would store.  It follows the file's rules, and nothing is stored yet.

    `file` is the locked row, and None for a new file.
    """

    owner: User
    path: str
    file: MemoryFile | None
    text: str
    summary_by: str
    act: Act
    section_locks: list[list[str]]
    is_merged: bool = False
    warnings: tuple[str, ...] = ()
    entry: str = ""  # of a write that only appends

    @property
    def changes_text(self) -> bool:
        return self.file is None or self.text != self.file.content


def new_text(
    owner: User,
    path: str,
    rows: Rows,
    text: str,
    act: Act,
    *,
    warnings: Sequence[str] = (),
    seen: int | None,
    join: bool,
) -> NewText:
    """Return what a write of a cleaned text would store.  `rows` are those of `rows_held`.

    `seen` and `join` are those of `replacing`, and so are the errors.
    """
    # Before a summary line is added, so that line numbers match the writer's.
    texts.check_lines(text)
    check_folder(path, act.by)
    file = rows.get(path)
    if file is None and seen:
        raise NoSuchFile(path, paths_of(owner))
    is_merged = False
    if file is not None:
        file.check_may_change(act.by)
        text, is_merged = joined(file, text, seen=seen, join=join)
        if text == file.content and act.summary is None:
            locks = file.section_locks
            return NewText(
                owner, path, file, text, file.summary_by, act, locks, is_merged, tuple(warnings)
            )
    offered = one_line(act.summary or "") or summary_of(text)
    text, summary_by = _summed(path, text, act, file)
    others = sum(row.size for row in rows.values() if row.path != path)
    texts.check_lines(text)
    texts.check_size(path, texts.size_of(text), others)
    if agent_of(path):
        _check_own_folder(owner, path, file, texts.size_of(text), act.by)
    warnings = (*warnings, *_new_warnings(path, text, file))
    locks = []
    if file is not None:
        is_refused = file.summary_by == PERSON and _writer(act) != PERSON
        if is_refused and offered and offered != file.summary:
            warnings = (_("A person wrote the summary line, so it was kept."), *warnings)
        locks, gone = _section_locks(file, text, act.by)
        warnings = (*gone, *warnings)
    warnings = warnings[:MAX_WARNINGS]
    return NewText(owner, path, file, text, summary_by, act, locks, is_merged, warnings)


def store(new: NewText, *, trust: str = "") -> SaveResult:
    """Store a new text in the transaction that holds its rows.

    `trust` is that of the text's origin, if the review determined it after the text was known.
    """
    act = replace(new.act, trust=trust) if trust else new.act
    file = new.file
    if file is None:
        file = _create_file(new, act)
    elif new.changes_text or new.summary_by != file.summary_by:
        _change(file, new, act)
    return SaveResult(file, new.is_merged, new.warnings, is_new=new.file is None)


# The text that a write of this owner's path would store, computed from its locked rows.
Edit = Callable[[User, str, Rows, Act], NewText]


def write(owner: User, path: str, edit: Edit, act: Act) -> SaveResult:
    """Store what an edit makes of a file.

    Raises InvalidValue for an invalid path, and what the edit raises, and then stores nothing.
    """
    path = checked_path(path)
    return with_retry(lambda: store(edit(owner, path, rows_held(owner, path), act)))


def _change(file: MemoryFile, new: NewText, act: Act) -> None:
    why = act.why
    if new.is_merged:
        why = " ".join([why, _("(merged with version %(n)d)") % {"n": file.version}]).strip()
    fields = {
        "content": new.text,
        "summary": _summary(file.path, new.text),
        "summary_by": new.summary_by,
        "size": texts.size_of(new.text),
        "blame": _blamed(file, new.text, act),
    }
    if new.section_locks != file.section_locks:
        fields["section_locks"] = new.section_locks
    trust = _trust(act, file.trust)
    if trust != file.trust and not act.by.is_person:
        fields["trust"] = trust
    before = str(file.content)
    file.change(by=act.by, why=why, source=act.source, **fields)
    file.is_appended = False
    if act.tells_trash:
        texts.follow_removed(file, before, by=act.by, why=why, source=act.source)


def _blamed(file: MemoryFile, text: str, act: Act) -> Runs:
    """Return the blame of the new text; restored lines keep their first author."""
    was = act.kept or EarlierVersion(file.content, file.blame)
    return carried(was.blame, was.content, text, file.version + 1)


def _create_file(new: NewText, act: Act) -> MemoryFile:
    """Create a file and its first revision."""
    now = timezone.now()
    file = MemoryFile(
        owner=new.owner,
        path=new.path,
        content=new.text,
        summary=_summary(new.path, new.text),
        summary_by=new.summary_by,
        size=texts.size_of(new.text),
        blame=carried([], "", new.text, 1),
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
    """Return the trust of the file: the lowest of what it contains."""
    given = act.trust or (Trust.AGENT if act.by.kind in _AGENTS else Trust.OWNER)
    return max(stands, given, key=_TRUST.index)


def _summed(path: str, text: str, act: Act, file: MemoryFile | None) -> tuple[str, str]:
    """Return the text with its summary line, and who wrote the line.

    A person's line is kept until a person writes another or empties it.  Any other is generated
    on each save, unless the writer provides a new one.
    """
    if is_kept_exact(path):
        return text, BEACON
    stored, author = (file.summary, file.summary_by) if file else (None, BEACON)
    written, writer = summary_of(text), _writer(act)
    if act.is_exact and written:
        return text, act.summary_by or author
    given = None if act.summary is None else cleaned(one_line(act.summary))[0]
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


def _summary(path: str, text: str) -> str:
    """Return the summary for the index. A text that is stored exactly has no summary line."""
    return summary_of_exact(path, text) if is_kept_exact(path) else summary_of(text) or ""


def check_folder(path: str, by: Actor) -> None:
    """Raise Locked if the file is in the folder of another agent, or in a mounted one.

    What is in a mounted folder instructs an agent outside Beacon, so no agent writes there from here.
    """
    if mounted_of(path) and not by.is_person and by.kind != "disk":
        words = _("%(path)s is in a mounted folder. Only people can change it in Beacon.")
        raise Locked(words % {"path": path})
    folder = agent_of(path)
    if folder and not by.is_person and folder != folder_of(by.name or by.kind):
        params = {"path": path}
        words = _("%(path)s belongs to another agent. Only that agent and people can change it.")
        raise Locked(words % params)


def check_names(path: str, by: Actor) -> None:
    """Raise InvalidValue if an agent names its file like an instruction: lists show names as they are."""
    names = path.split("/", 2)[-1]
    if by.kind in _AGENTS and injection_reason(_PUNCTUATION.sub(" ", names)):
        words = _(
            "A file’s name can’t contain instructions. Choose a name that describes the file."
        )
        raise InvalidValue(words, errors={"path": [words]})


def hold_folder(owner: User, folder: str) -> None:
    """Keep others from creating files in an agent's folder until the transaction ends."""
    lock_until_commit(LockId.FILE_CREATION, f"{owner.pk}:{AGENTS}{folder}")


def _check_own_folder(
    owner: User, path: str, file: MemoryFile | None, size: int, by: Actor
) -> None:
    """Raise LimitReached or InvalidValue if an agent's folder has no room or no place for a file."""
    folder = agent_of(path)
    if file is None:
        check_names(path, by)
        hold_folder(owner, folder)
    sizes = dict(MemoryFile.objects.for_user(owner).live().own(folder).values_list("path", "size"))
    fields: dict[str, Any] = {"path": path, "folder": f"{AGENTS}{folder}"}
    if file is None:
        through = next((one for one in sizes if path.startswith(f"{one}/")), "")
        if through or any(one.startswith(f"{path}/") for one in sizes):
            words = _("%(path)s can’t be created because %(other)s is a file, not a folder.")
            if not through:
                words = _("%(path)s can’t be created because it’s a folder.")
            words = words % {**fields, "other": through}
            raise InvalidValue(words, errors={"path": [words]})
        if len(sizes) >= texts.MAX_FILES:
            words = _(
                "The folder %(folder)s has reached the limit of %(most)s files. Nothing was saved. Delete files that are no longer needed, or add to an existing one."
            )
            raise LimitReached(words % {**fields, "most": grouped(texts.MAX_FILES)})
    before = sizes.pop(path, 0)
    have = sum(sizes.values()) + size
    if have > texts.MAX_BYTES and size > before:
        words = _(
            "The folder %(folder)s would be %(have)s bytes, but the limit is %(most)s. Nothing was saved. Shorten some files, or delete those that are no longer needed."
        )
        raise LimitReached(
            words % {**fields, "have": grouped(have), "most": grouped(texts.MAX_BYTES)}
        )


def _writer(act: Act) -> str:
    """Return the author of a summary line in the write. An edit on disk counts as a person's."""
    if act.summary_by:
        return act.summary_by
    return PERSON if act.by.is_person or act.by.kind == "disk" else AGENT


def _line_in(text: str) -> str:
    begin, end = summary_span(text)
    return text[begin:end]


def _section_locks(
    file: MemoryFile, text: str, by: Actor
) -> tuple[list[list[str]], tuple[str, ...]]:
    """Return the section locks that remain, and a warning for each that doesn't.

    Raises Locked if anyone except a person changes or removes the text of a locked section.
    """
    kept, gone = [], []
    for path in file.section_locks:
        params = {"section": " › ".join(path), "path": file.path}
        now = locked_text(text, path)
        if not by.is_person and now != locked_text(file.content, path):
            raise Locked(
                _(
                    "The section “%(section)s” of %(path)s is locked, so only a person can change it. Nothing was saved. Leave its lines unchanged."
                )
                % params
            )
        if now is None:
            gone.append(_("The section “%(section)s” was removed together with its lock.") % params)
        else:
            kept.append(path)
    return kept, tuple(gone)


def _new_warnings(path: str, text: str, file: MemoryFile | None) -> list[str]:
    """Return warnings about the new text that didn't apply to the old one."""
    lines = []
    if len(line := summary_of(text) or "") >= MAX_SUMMARY_LENGTH and line.endswith("…"):
        most = {"most": MAX_SUMMARY_LENGTH}
        lines.append(_("The index shows the first %(most)d characters of the summary line.") % most)
    if month_of(path):
        known = {p for one in readings(file.content if file else "") for p in one.problems}
        found = [problem for one in readings(text) for problem in one.problems]
        lines += [problem for problem in dict.fromkeys(found) if problem not in known]
    return lines


def check_rough_size(owner: User, path: str, text: str) -> None:
    """Raise OverBudget for a text that is too large for any file, before it is parsed."""
    if (size := texts.size_of(text)) > texts.MAX_EPISODES:
        facts = MemoryFile.objects.for_user(owner).live().filter(path__in=FACTS).exclude(path=path)
        texts.check_size(path, size, sum(facts.values_list("size", flat=True)))


# --- edits ---


def replacing(content: str, *, seen: int | None = None, join: bool = True) -> Edit:
    """Return the edit that replaces the whole text; a month's file is created if it is missing.

    `seen` is the version that the text is based on: None overwrites the current one, 0 requires
    that there is none yet.  With `join`, changes by others since then are merged if they don't
    overlap.

    The edit raises FileConflict, Locked, OverBudget, LimitReached (a line), NoSuchFile (`seen` is a
    version of a file that no longer exists).
    """

    def edit(owner: User, path: str, rows: Rows, act: Act) -> NewText:
        text, warnings = cleaned(content)
        check_rough_size(owner, path, text)
        return new_text(owner, path, rows, text, act, warnings=warnings, seen=seen, join=join)

    return edit


def patching(patches: Sequence[Pair], *, seen: int | None = None) -> Edit:
    """Return the edit that replaces parts of a file, all or none.

    Each old text must occur exactly once in the version `seen` (default: the current one), else the
    edit raises PatchRefused. It raises NoSuchFile for a missing file.
    """

    def edit(owner: User, path: str, rows: Rows, act: Act) -> NewText:
        pairs = [(cleaned(old)[0], cleaned(new)[0]) for old, new in patches]
        file = rows.get(path)
        if file is None:
            raise NoSuchFile(path, paths_of(owner))
        known = content_at(file, seen) if seen else None
        text = patched(path, str(file.content) if known is None else known, pairs)
        based_on = file.version if known is None else seen
        return new_text(owner, path, rows, text, act, seen=based_on, join=True)

    return edit


def appending(entry: str, *, once: bool = False) -> Edit:
    """Return the edit that adds an entry at the end, after a blank line.

    A month's first entry creates its file. With `once` an entry that is already at the end isn't
    added again, as when a form is sent twice. The edit raises InvalidValue for an empty entry.
    """

    def edit(owner: User, path: str, rows: Rows, act: Act) -> NewText:
        fresh, warnings = cleaned(entry)
        if not fresh.strip():
            problem = _("There is nothing to append because the entry is empty.")
            raise InvalidValue(problem, errors={"entry": [problem]})
        check_rough_size(owner, path, fresh)
        check_lines(fresh)  # only the entry, so that line numbers match it
        text = new_file(path)
        if file := rows.get(path):
            text, file.is_appended = str(file.content), True
        if not (once and file and text.rstrip().endswith(f"\n\n{fresh.strip()}")):
            text = with_entry(path, text, fresh, owner.time_zone)
        new = new_text(owner, path, rows, text, act, warnings=warnings, seen=None, join=True)
        return replace(new, entry=entry)

    return edit


def save_file(
    owner: User,
    path: str,
    content: str,
    *,
    by: Actor,
    seen: int | None = None,
    why: str = "",
    source: str = "",
    join: bool = True,
    trust: str = "",
) -> SaveResult:
    """Replace a file's whole text; arguments and errors as in `replacing` and `Act`."""
    act = Act(by, why, source, trust)
    return write(owner, path, replacing(content, seen=seen, join=join), act)


def append_to(
    owner: User,
    path: str,
    entry: str,
    *,
    by: Actor,
    why: str = "",
    source: str = "",
    summary: str | None = None,
    once: bool = False,
) -> SaveResult:
    """Add an entry to a file's end; arguments and errors as in `appending` and `Act`."""
    act = Act(by, why, source, summary=summary)
    return write(owner, path, appending(entry, once=once), act)


def restore_version(
    owner: User, path: str, version: int, *, by: Actor, seen: int | None = None
) -> SaveResult:
    """Write a file's exact text of `version` as a new version.

    Raises InvalidValue if there was no such version, FileConflict if the file changed since `seen`,
    and what `replacing` raises.
    """

    def edit(owner: User, path: str, rows: Rows, act: Act) -> NewText:
        file = rows.get(path)
        if file is None:
            raise NoSuchFile(path, paths_of(owner))
        kept = kept_at(file, version)
        if kept is None:
            params = {"path": path, "version": version, "last": file.version}
            raise InvalidValue(
                _("%(path)s has no version %(version)d. The newest is %(last)d.") % params
            )
        act = replace(act, summary_by=file.summary_by_at(version), kept=kept)
        return replacing(kept.content, seen=seen, join=False)(owner, path, rows, act)

    why = _("restored version %(n)d") % {"n": version}
    return write(owner, path, edit, Act(by, why, is_exact=True))


def restore_state(file: MemoryFile, fields: dict[str, object], by: Actor, why: str) -> None:
    """Restore the fields of a revision, for `memory.services.records.history`; size and blame follow as in a save.

    Raises InvalidValue for a file in Trash, since another file may have its path.
    """
    if file.trashed_at is not None:
        params = {"path": file.path}
        raise InvalidValue(
            _("%(path)s is in Trash. Nothing was changed. Restore it first.") % params
        )

    with transaction.atomic():
        stands = rows_held(file.owner, file.path).get(file.path, file)
        if "content" in fields:
            text, blame = str(fields["content"]), fields.get("blame")
            kept = EarlierVersion(text, blame) if isinstance(blame, list) else None
            summary_by = str(fields.get("summary_by") or stands.summary_by)
            act = Act(by, why, summary_by=summary_by, is_exact=True, kept=kept)
            stands = write(file.owner, file.path, replacing(text), act).file
        locks = {name: fields[name] for name in ("path", "lock", "section_locks") if name in fields}
        if locks:
            stands.change(by=by, why=why, **locks)
    file.refresh_from_db()


def lock_section(
    file: MemoryFile, heading: Sequence[str], *, by: Actor, locked: bool
) -> MemoryFile:
    """Lock a section against everyone except people, or unlock it; `heading` is its heading path.

    Raises Locked if `by` isn't a person, InvalidValue if there is no such section.
    """
    path = list(heading)
    with transaction.atomic():
        stands = rows_held(file.owner, file.path).get(file.path)
        if stands is None:
            raise NoSuchFile(file.path, paths_of(file.owner))
        if locked and (not path or locked_text(stands.content, path) is None):
            raise InvalidValue(_no_section(stands, path))
        locks = [one for one in stands.section_locks if one != path] + [path] * locked
        label = {"section": " › ".join(path)}
        why = _("locked the section “%(section)s”") if locked else _("unlocked “%(section)s”")
        return stands.change(by=by, why=why % label, section_locks=locks)


def _no_section(file: MemoryFile, path: Sequence[str]) -> str:
    there = " · ".join(" › ".join(one.heading) for one in sections_of(file.content) if one.heading)
    params = {"section": " › ".join(path), "path": file.path, "there": there or "—"}
    return _("%(path)s has no section “%(section)s”. Its sections: %(there)s.") % params


def facts_size(owner: User) -> int:
    """Return the size of both fact files together, of which there may be MAX_FACTS."""
    rows = MemoryFile.objects.for_user(owner).live().filter(path__in=FACTS)
    return sum(rows.values_list("size", flat=True))


# --- Drafts ---
#
# Drafts of memory files: unsaved text is kept on the server until it is saved or discarded.
#
# Each editor window has an ID, which is also its draft's ID. There is one draft per file. A second
# window doesn't overwrite it but gets an error. A window that opens the draft continues with its ID.


MAX_NOTE = 300  # characters, as the history's reason


class DraftConflictError(MemoryRefused):
    """Another window has a draft of this file, so this window's text is only in its form."""

    def __init__(self) -> None:
        super().__init__(
            _(
                "Another window already has a draft of this file, so your text is kept only in this window. Open that draft, discard it, or save now."
            )
        )


def draft_of(owner: User, path: str) -> FileDraft | None:
    return FileDraft.objects.for_user(owner).filter(path=path).first()


def keep_draft(
    owner: User, path: str, content: str, *, note: str, seen: int, window: UUID
) -> FileDraft | None:
    """Keep unsaved text. Return None if it equals the stored text.

    Raises DraftConflictError if another window has a draft with other text.
    """
    path, text = checked_path(path), cleaned(content)[0]
    with transaction.atomic():
        rows = FileDraft.objects.for_user(owner).select_for_update()
        kept: FileDraft | None = rows.filter(path=path).first()
        if kept is not None and kept.pk != window:
            if kept.content == text:
                return kept
            raise DraftConflictError
        file = MemoryFile.objects.for_user(owner).live().filter(path=path).first()
        if file is not None and _is_stored(file, text, seen):
            drop_draft(owner, path, window)
            return None
        draft = kept or FileDraft(pk=window, owner=owner, path=path)
        draft.content, draft.seen, draft.updated = text, seen, timezone.now()
        draft.note = shorten(cleaned(note)[0], MAX_NOTE)
        return _stored(draft, is_new=kept is None)


def _is_stored(file: MemoryFile, text: str, seen: int) -> bool:
    """Return True if the text equals the stored file.

    A draft can arrive after the save from the same window. It was based on an older version, and
    the save has updated the summary line and ended the last line.
    """
    if file.content == text:
        return True
    return seen < file.version and _unsummed(file.content) == _unsummed(text)


def _unsummed(text: str) -> str:
    return with_summary(text, NOTHING).rstrip("\n")


def _stored(draft: FileDraft, *, is_new: bool) -> FileDraft:
    try:
        with transaction.atomic():
            draft.save(force_insert=is_new)
    except IntegrityError as exc:  # another window saved one at the same moment
        raise DraftConflictError from exc
    return draft


def drop_draft(owner: User, path: str, window: UUID) -> None:
    """Discard this window's draft, but not another one's."""
    FileDraft.objects.for_user(owner).filter(path=path, pk=window).delete()


def drop_saved_draft(owner: User, path: str, window: UUID, content: str) -> None:
    """Discard drafts that a save made unnecessary: this window's, and another's with the same text."""
    is_saved = Q(pk=window) | Q(content=cleaned(content)[0])
    FileDraft.objects.for_user(owner).filter(is_saved, path=path).delete()
