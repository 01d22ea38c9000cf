"""Writing memory files: the one way in for people, tools, the disk and imports.

Data flow: text -> mended -> the owner's rows held -> joined with what others wrote since ->
summary line -> locks and limits -> blame -> one `MemoryFile.change()`, which takes the sections
along and tells the mirror.  All in one transaction: what is refused leaves the file as it was.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction
from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.errors import InvalidValue
from memory.file_texts.paths import checked_path
from memory.file_texts.sections import locked_text, sections_of
from memory.files.appending import new_file, with_entry
from memory.files.cleaning import Cleaned, cleaned
from memory.files.joining import Kept, content_at, kept_at
from memory.files.limits import OverBudget, check_lines
from memory.files.patching import PatchRefused, patched
from memory.files.refusals import FileConflict, NoSuchFile
from memory.files.writing import Act, Saved, check_rough_size, held, paths_of, rows_held, save
from memory.models import MemoryFile, User

__all__ = [
    "FileConflict",
    "NoSuchFile",
    "OverBudget",
    "PatchRefused",
    "Saved",
    "append_to",
    "lock_section",
    "patch_file",
    "put_back",
    "restore_version",
    "save_file",
]


def save_file(
    owner: User,
    path: str,
    content: str,
    *,
    by: Actor,
    seen: int | None = None,
    why: str = "",
    source: str = "",
    summary: str | None = None,
    summary_by: str = "",
    join: bool = True,
    trust: str = "",
) -> Saved:
    """Replace a file's whole text; a month's file that is not there is made.

    `seen` is the version that the text is based on: None writes over what stands, 0 says that
    there must be none yet.  What others wrote since is joined where the changes lie apart (`join`).
    `summary` wins over any summary line in the text, but nobody except a person replaces a
    person's line.  `summary_by` names the author of the line if that is not `by`.  `trust` is that
    of what the text derives from, where it is less than the writer's own.

    Raises InvalidValue (path), FileConflict, Locked, OverBudget, LimitReached (a line), NoSuchFile
    (`seen` names a version of a file that is gone).  Nothing is stored in any of these cases.
    """
    path, fresh = checked_path(path), cleaned(content)
    check_rough_size(owner, path, fresh.text)
    act = Act(by, why, source, trust, summary, summary_by)
    return held(lambda: save(owner, path, fresh, act, seen=seen, join=join))


def patch_file(
    owner: User,
    path: str,
    patches: Sequence[tuple[str, str]],
    *,
    by: Actor,
    seen: int | None = None,
    why: str = "",
    source: str = "",
    trust: str = "",
) -> tuple[Saved, int]:
    """Replace stretches of a file, all or none; return what came of it and how many there were.

    Each old text must stand exactly once in the version that was seen (default: the one that
    stands).  Raises PatchRefused where one does not, NoSuchFile, and what `save_file` raises.
    """
    path = checked_path(path)
    pairs = [(cleaned(old).text, cleaned(new).text) for old, new in patches]

    def write() -> Saved:
        file = rows_held(owner, path).get(path)
        if file is None:
            raise NoSuchFile(path, paths_of(owner))
        known = content_at(file, seen) if seen else None
        text = Cleaned(patched(path, str(file.content) if known is None else known, pairs))
        based_on = file.version if known is None else seen
        return save(owner, path, text, Act(by, why, source, trust), seen=based_on, join=True)

    return held(write), len(pairs)


def append_to(
    owner: User,
    path: str,
    entry: str,
    *,
    summary: str | None = None,
    summary_by: str = "",
    by: Actor,
    why: str = "",
    source: str = "",
    trust: str = "",
    once: bool = False,
) -> Saved:
    """Add an entry at a file's end, a blank line before it; a month's file is made by its first.

    `summary` and `summary_by` are as in `save_file`.  With `once` an entry that stands at the end
    already is not added again: a form that is sent twice says it once.  Raises what `save_file`
    raises, and InvalidValue for an entry without words.
    """
    path, fresh = checked_path(path), cleaned(entry)
    if not fresh.text.strip():
        problem = _("There is nothing to append: the entry has no words.")
        raise InvalidValue(problem, errors={"entry": [problem]})
    check_rough_size(owner, path, fresh.text)
    check_lines(fresh.text)  # the entry's own: it does not know those of the file
    act = Act(by, why, source, trust, summary, summary_by, appends=True)

    def write() -> Saved:
        file = rows_held(owner, path).get(path)
        if once and file and str(file.content).rstrip().endswith(f"\n\n{fresh.text.strip()}"):
            return Saved(file, warnings=fresh.warnings)
        stands = str(file.content) if file else new_file(path)
        text = with_entry(path, stands, fresh.text, owner.time_zone)
        return save(owner, path, Cleaned(text, fresh.warnings), act, seen=None, join=True)

    return held(write)


def restore_version(
    owner: User, path: str, version: int, *, by: Actor, seen: int | None = None
) -> Saved:
    """Write a file's text as it was at `version`, letter by letter, as a new version.

    Raises InvalidValue where it never had that version, FileConflict where somebody wrote since
    `seen`, and what `save_file` raises.
    """
    path = checked_path(path)

    def write() -> Saved:
        file = rows_held(owner, path).get(path)
        if file is None:
            raise NoSuchFile(path, paths_of(owner))
        kept = kept_at(file, version)
        if kept is None:
            told = {"path": path, "version": version, "last": file.version}
            raise InvalidValue(
                _("%(path)s has no version %(version)d; the newest is %(last)d.") % told
            )
        why = _("restored version %(n)d") % {"n": version}
        summary_by = file.summary_by_at(version)
        act = Act(by, why, summary_by=summary_by, is_exact=True, kept=kept)
        return save(owner, path, Cleaned(kept.content), act, seen=seen, join=False)

    return held(write)


def put_back(file: MemoryFile, fields: dict[str, object], by: Actor, why: str) -> None:
    """Set what a revision held, by the rules of a save (`memory.records.undoing`): size and blame follow.

    Raises InvalidValue for a file in the trash: another one may stand at its path.
    """
    if file.trashed_at is not None:
        told = {"path": file.path}
        raise InvalidValue(
            _("%(path)s lies in the trash; nothing was changed. Restore it first.") % told
        )

    def write() -> Saved:
        stands = rows_held(file.owner, file.path).get(file.path, file)
        if "content" in fields:
            text, blame = str(fields["content"]), fields.get("blame")
            kept = Kept(text, blame) if isinstance(blame, list) else None
            summary_by = str(fields.get("summary_by") or stands.summary_by)
            act = Act(by, why, summary_by=summary_by, is_exact=True, kept=kept)
            stands = save(file.owner, file.path, Cleaned(text), act, seen=None, join=False).file
        locks = {name: fields[name] for name in ("lock", "section_locks") if name in fields}
        if locks:
            stands.change(by=by, why=why, **locks)
        return Saved(stands)

    held(write)
    file.refresh_from_db()


def lock_section(
    file: MemoryFile, heading: Sequence[str], *, by: Actor, locked: bool
) -> MemoryFile:
    """Lock a section for all but people, or unlock it; `heading` is its path of headings.

    Raises Locked if `by` is no person, InvalidValue where there is no such section to lock.
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
    told = {"section": " › ".join(path), "path": file.path, "there": there or "—"}
    return _("%(path)s has no section “%(section)s”. There are: %(there)s.") % told
