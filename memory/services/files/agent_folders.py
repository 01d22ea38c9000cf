"""Folders of agents, mounted: their files are memory files, the same here and on disk.

Data flow: the tick walks each folder of BEACON_AGENT_DIRS and compares the stamps with those of the
last check -> a file that changed on disk is saved as a memory file (merged with an edit in Beacon since
then, if there was one) -> a file that changed in Beacon is written to disk, at once after its commit.
The folder belongs to the agent: what can't be read is listed but never moved or changed, and a file that
was deleted there goes to Trash here. Where both changed the same lines, both texts stay until a person
merges them: Beacon's in the file, the folder's on disk and as a draft.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import stat
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import structlog
from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import Subquery
from django.utils import timezone

from beacon_site.db.advisory_locks import LockId, advisory_lock
from beacon_site.text.cleaning import one_line
from beacon_site.text.messages import gettext as _
from memory.models import Activity, MemoryFile, MirroredFile, MountedFolder, Trust, User
from memory.models.actors import Actor
from memory.models.errors import Locked, MemoryRefused
from memory.models.file_format import (
    DEEPEST_MOUNTED,
    MAX_PATH_LENGTH,
    MOUNTED,
    MOUNTED_SUFFIXES,
    is_mounted_name,
    mounted_of,
)
from memory.services.files.mirror import PATIENCE, Copy, file_lock, text_of
from memory.services.files.mirror_disk import ConcurrentChange, Disk, digest_of, stamp_of
from memory.services.files.saving import save_file
from memory.services.files.texts import FileConflict

logger = structlog.get_logger(__name__)

Layout, Problem, Skipped = MountedFolder.Layout, MountedFolder.Problem, MountedFolder.Skipped
MAX_FILES = 10_000  # per folder
MAX_ENTRIES = 200_000  # files and folders that one check looks at
MAX_SKIPPED = 50  # that the page lists
MIN_VANISHED = 3  # files: if a folder had so many and has none now, none is moved to Trash
SECONDS = 40.0  # for one check of all folders; the next one continues
_ROUNDS = 5  # attempts at a file that keeps changing
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Folders without memory, which can be huge.
_NEVER = frozenset(
    [
        ".git",
        ".hg",
        ".svn",
        ".obsidian",
        ".trash",
        ".venv",
        "venv",
        "node_modules",
        "__pycache__",
        ".cache",
        ".tox",
        "target",
        "dist",
        "build",
    ]
)
# Which files of each layout are memory (docs/dev/formats.md names the documents).
_PATTERNS = {
    Layout.CLAUDE: ("CLAUDE.md", "rules/*", "projects/*/memory/*"),
    Layout.CODEX: ("AGENTS.md", "AGENTS.override.md", "memories/*"),
    Layout.REPOSITORY: (
        "AGENTS.md", "*/AGENTS.md", "AGENTS.override.md", "*/AGENTS.override.md",
        "CLAUDE.md", "*/CLAUDE.md", "CLAUDE.local.md", "*/CLAUDE.local.md", "GEMINI.md",
        ".claude/rules/*", ".cursor/rules/*", "*/.cursor/rules/*",
        ".github/copilot-instructions.md", ".github/instructions/*",
    ),
    Layout.LETTA: ("*",),
    Layout.VAULT: ("*",),
}  # fmt: skip
_DEEPEST_IN_REPOSITORY = 5


def owner() -> User | None:
    """Return whose memory the folders are: the named account, or the first admin."""
    people = User.objects.filter(is_active=True)
    if settings.BEACON_AGENT_DIRS_OWNER:
        return people.filter(username=settings.BEACON_AGENT_DIRS_OWNER).first()
    return people.filter(is_staff=True).order_by("pk").first()


def actor_of(folder: MountedFolder) -> Actor:
    """Return who writes in the folder: its agent, or a person with an editor."""
    return Actor("disk", folder.name)


# --- the folder on disk ---


class Listing(NamedTuple):
    """The files of a folder with their stamps, and those that can't be shown, each with a code."""

    stamps: dict[str, str]
    skipped: list[tuple[str, str]]


def layout_of(names: set[str], name: str) -> str:
    if (
        name == ".claude"
        or {"projects", "CLAUDE.md"} <= names
        or {"projects", "settings.json"} <= names
    ):
        return Layout.CLAUDE
    if (
        name == ".codex"
        or {"config.toml", "AGENTS.md"} <= names
        or {"config.toml", "sessions"} <= names
    ):
        return Layout.CODEX
    if ".obsidian" in names:
        return Layout.VAULT
    if {"system", ".git"} <= names:
        return Layout.LETTA
    if names & {".git", "AGENTS.md", "CLAUDE.md", ".cursor", ".claude"}:
        return Layout.REPOSITORY
    return Layout.VAULT


def listed(root: Path, layout: str) -> Listing:
    """Return the memory files below a folder.  No link is followed, and nothing is opened but folders.

    Raises OSError if the folder itself can't be read.
    """
    found = Listing({}, [])
    seen = 0
    handle = os.open(root, _FOLDER)
    open_folders = [(handle, "", 0)]
    try:
        while open_folders:
            at, place, depth = open_folders.pop()
            try:
                with os.scandir(at) as entries:
                    for entry in sorted(entries, key=lambda one: one.name):
                        seen += 1
                        if seen > MAX_ENTRIES or len(found.stamps) >= MAX_FILES:
                            found.skipped.append((place or "…", Skipped.MANY))
                            return found
                        path = f"{place}{entry.name}"
                        if entry.is_dir(follow_symlinks=False):
                            if not _is_wanted_folder(layout, path, depth):
                                continue
                            with suppress(OSError):
                                inner = os.open(entry.name, _FOLDER, dir_fd=at)
                                open_folders.append((inner, f"{path}/", depth + 1))
                        elif _is_memory(layout, path):
                            _add(found, entry, path)
            except OSError as exc:
                if not place:
                    raise
                logger.info("folder of an agent not read", folder=place, why=exc.strerror)
            finally:
                os.close(at)
    finally:
        for left, _place, _depth in open_folders:
            os.close(left)
    return found


def _is_wanted_folder(layout: str, path: str, depth: int) -> bool:
    deepest = _DEEPEST_IN_REPOSITORY if layout == Layout.REPOSITORY else DEEPEST_MOUNTED
    name = path.rpartition("/")[2]
    if name in _NEVER or depth + 1 >= deepest:
        return False
    if layout == Layout.CLAUDE:  # projects/ also has the transcripts of all sessions
        parts = path.split("/")
        return parts[0] == "rules" or (
            parts[0] == "projects" and (len(parts) < 3 or parts[2] == "memory")
        )
    if layout == Layout.CODEX:
        return path.split("/")[0] == "memories"
    hidden = {".claude", ".cursor", ".github"} if layout == Layout.REPOSITORY else set()
    return not name.startswith(".") or name in hidden


def _is_memory(layout: str, path: str) -> bool:
    if not path.lower().endswith(MOUNTED_SUFFIXES):
        return False
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in _PATTERNS[Layout(layout)])


def _add(found: Listing, entry: os.DirEntry[str], path: str) -> None:
    if not all(map(is_mounted_name, path.split("/"))) or len(path) > MAX_PATH_LENGTH - 60:
        shown = path.encode(errors="replace").decode().encode("unicode_escape").decode("ascii")
        found.skipped.append((shown[:200], Skipped.NAME))
    elif entry.is_symlink():
        found.skipped.append((path, Skipped.LINK))
    else:
        with suppress(OSError):
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                found.stamps[path] = stamp_of(status)


def disk_of(folder: MountedFolder) -> Disk:
    return Disk(Path(folder.real_path), prefix=f"{MOUNTED}{folder.name}/")


# --- what people see ---


def describe_problem(problem: str) -> str:
    """Return what a problem of a mounted file means, and what to do about it."""
    return {
        "": "",
        "conflict": _(
            "The same lines were also changed in the file on disk. Both versions were kept, and the one on disk is now your draft. Resume the draft to merge them."
        ),
        "locked": _(
            "The file was changed in its folder, but it’s locked. Beacon restored the locked text and kept the other version as your draft."
        ),
    }.get(problem) or _("The file in the folder wasn’t imported: %(why)s.") % {
        "why": dict(Skipped.choices).get(problem, problem)
    }


class Commit(NamedTuple):
    """A commit in the folder's repository."""

    author: str
    at: datetime
    subject: str


def last_commit(file: MemoryFile) -> Commit | None:
    """Return the last commit of a mounted file, or None if its folder isn't in a Git repository.

    The repository belongs to an agent, so nothing that its configuration names is run.
    """
    folder = MountedFolder.objects.filter(name=file.mounted_folder, owner=file.owner_id).first()
    if folder is None or folder.problem or not folder.real_path:
        return None
    keep = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    options = ["core.fsmonitor=false", "core.hooksPath=/dev/null", "log.showSignature=false"]
    command = ["git", *(word for one in options for word in ("-c", one)), "log", "-1"]
    command += ["--no-show-signature", "--no-ext-diff", "--no-textconv", "--no-mailmap"]
    command += ["--format=%an%x00%ct%x00%s", "--", f"./{file.place_in_folder}"]
    try:
        ended = subprocess.run(
            command, cwd=folder.real_path, capture_output=True, timeout=5, check=True,
            env={**keep, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull,
                 "GIT_OPTIONAL_LOCKS": "0", "GIT_LITERAL_PATHSPECS": "1"},
        )  # fmt: skip
        author, at, subject = ended.stdout.decode(errors="replace").strip().split("\0", 2)
        return Commit(
            one_line(author)[:100], datetime.fromtimestamp(int(at), UTC), one_line(subject)[:200]
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


# --- folders ---


def folders() -> list[MountedFolder]:
    """Return the rows of the folders in the setting, made if they are new, each with its problem.

    A folder that was removed from the setting keeps its row and its files.
    """
    whose = owner()
    if whose is None:
        return []
    named = settings.BEACON_AGENT_DIRS
    known = {row.name: row for row in MountedFolder.objects.select_related("owner")}
    for row in known.values():
        if row.name not in named and row.problem != Problem.UNMOUNTED:
            _store_problem(row, Problem.UNMOUNTED)
    results = []
    for name, place in named.items():
        row = known.get(name)
        if row is None:
            row, _made = MountedFolder.objects.get_or_create(
                name=name, defaults={"owner": whose, "place": place}
            )
        if row.place != place:  # the admin chose another folder for this name
            row.place, row.real_path, row.layout = place, "", ""
            row.save(update_fields=["place", "real_path", "layout"])
            MirroredFile.objects.of_folder(name).update(digest="", stamp="", version=0)
        results.append(row)
    return results


def _listing_of(folder: MountedFolder) -> Listing | None:
    """Return the folder's files, or None with its problem stored."""
    real = os.path.realpath(folder.place)
    if not os.path.isdir(real):  # noqa: PTH112 - a string, as in the setting
        _store_problem(folder, Problem.MISSING)
        return None
    if not folder.real_path:
        names = set(os.listdir(real)) if os.access(real, os.R_OK) else set()  # noqa: PTH208
        folder.real_path, folder.layout = real, layout_of(names, Path(folder.place).name)
        MountedFolder.objects.filter(pk=folder.pk).update(real_path=real, layout=folder.layout)
    if folder.real_path != real:
        _store_problem(folder, Problem.MOVED, detail=real)
        return None
    try:
        found = listed(Path(real), folder.layout)
    except OSError as exc:
        _store_problem(folder, Problem.UNREADABLE, detail=exc.strerror or "")
        return None
    if folder.problem and folder.problem != Problem.READ_ONLY:
        _store_problem(folder, "")
    return found


def _store_problem(folder: MountedFolder, problem: str, *, detail: str = "") -> None:
    """Store the folder's problem, or "" for none. Activity logs when one begins."""
    if (folder.problem, folder.detail) == (problem, detail[:300]):
        return
    folder.problem, folder.detail = problem, detail[:300]
    MountedFolder.objects.filter(pk=folder.pk).update(problem=problem, detail=folder.detail)
    if problem and problem != Problem.UNMOUNTED:
        Activity.log(
            folder.owner, actor_of(folder), "agent-folder-failed", label=folder.name, warning=True,
            why=problem,
        )  # fmt: skip


# --- both directions ---


def catch_up() -> int:
    """Compare all folders with Beacon, in both directions. Return the number of files that differed."""
    if not settings.BEACON_AGENT_DIRS and not MountedFolder.objects.exists():
        return 0
    done, ends = 0, time.monotonic() + SECONDS
    with advisory_lock(LockId.AGENT_FOLDERS) as is_mine:
        for folder in folders() if is_mine else ():
            done += _check(folder, ends)
    return done


def _check(folder: MountedFolder, ends: float) -> int:
    found = _listing_of(folder)
    if found is None:
        return 0
    prefix = f"{MOUNTED}{folder.name}/"
    now = {prefix + path: stamp for path, stamp in found.stamps.items()}
    rows = MirroredFile.objects.for_user(folder.owner).of_folder(folder.name)
    written = list(rows.values_list("path", "stamp", "version", "digest"))
    known = {path: stamp for path, stamp, _version, _digest in written}
    if not now and len(known) >= MIN_VANISHED:  # such as a disk that isn't mounted
        _store_problem(folder, Problem.MISSING)
        return 0
    due = [path for path in sorted({*known, *now}) if known.get(path, "") != now.get(path, "")]
    # A check that was cut short lists fewer files than there are: none of them was deleted.
    if any(code == Skipped.MANY for _path, code in found.skipped):
        due = [path for path in due if path in now]
    due = list(dict.fromkeys([*due, *_changed_here(folder, written)]))
    done, skipped = 0, list(found.skipped)
    for path in due:
        if time.monotonic() > ends:
            break
        code = _settle(folder, path)
        done += 1
        if code:
            skipped.append((path.removeprefix(prefix), code))
    refused = rows.exclude(refused="").filter(problem__in=Skipped.values)
    left_out = dict(refused.values_list("path", "problem"))
    skipped += [(path.removeprefix(prefix), why) for path, why in left_out.items()]
    MountedFolder.objects.filter(pk=folder.pk).update(
        files=len(now.keys() - left_out.keys()),
        skipped=[list(one) for one in dict.fromkeys(skipped)][:MAX_SKIPPED],
        checked_at=timezone.now(),
    )
    return done


def _changed_here(folder: MountedFolder, written: Sequence[tuple[str, str, int, str]]) -> list[str]:
    """Return the paths whose file in Beacon isn't the version that was written to disk.

    Both lists are compared here: as an anti-join, it would be the slowest query of a check.
    """
    mine = MemoryFile.objects.for_user(folder.owner).live().mounted(folder.name)
    live = dict(mine.values_list("path", "version"))
    on_disk = {path: version for path, _stamp, version, _digest in written}
    behind = [path for path, version in live.items() if on_disk.get(path) != version]
    removed = [
        path for path, _stamp, version, digest in written if digest and version and path not in live
    ]
    return sorted(behind) + removed


def write_out(owner_id: int, path: str) -> None:
    """Write a file that changed in Beacon to its folder. Called after the commit of the change."""
    name = mounted_of(path)
    if not name or name not in settings.BEACON_AGENT_DIRS:
        return
    try:
        folder = (
            MountedFolder.objects.select_related("owner").filter(name=name, owner=owner_id).first()
        )
        if folder is None or folder.real_path != os.path.realpath(folder.place):
            return
        version = MirroredFile.objects.for_user(folder.owner).filter(path=path).values("version")
        file = MemoryFile.objects.for_user(folder.owner).live().filter(path=path)
        if not file.filter(version=Subquery(version)).exists():  # else it came from the folder
            _settle(folder, path)
    except (DatabaseError, OSError) as exc:
        logger.warning("file not written to an agent’s folder", path=path, why=str(exc))


def _settle(folder: MountedFolder, path: str) -> str:
    """Import what is new on disk, then write what is new in Beacon. Return why it isn't shown, or ""."""
    copy = Copy(folder.owner, path, disk_of(folder))
    with file_lock(copy, wait=PATIENCE) as is_mine:
        for _round in range(_ROUNDS if is_mine else 0):
            try:
                with transaction.atomic():
                    is_due, code = _import_edit(folder, copy)
                if is_due:
                    _write(folder, copy)
                return code
            except ConcurrentChange:
                continue
            except OSError as exc:
                return _failed(folder, copy, exc)
    return ""


def _failed(folder: MountedFolder, copy: Copy, exc: OSError) -> str:
    if exc.errno in {errno.EACCES, errno.EROFS, errno.EPERM}:
        _store_problem(folder, Problem.READ_ONLY, detail=exc.strerror or "")
        return ""
    if exc.errno == errno.ELOOP or exc.errno == errno.ENOTDIR:
        return Skipped.LINK
    logger.warning("file of an agent’s folder not compared", path=copy.path, why=str(exc))
    return ""


def _import_edit(folder: MountedFolder, copy: Copy) -> tuple[bool, str]:
    """Import an edit on disk. Return whether the file must be written, and why it can't be shown."""
    copy.read()
    row, file, found = copy.row, copy.file, copy.found
    if not found.stamp:
        if file is None:
            if row.pk:
                MirroredFile.objects.filter(pk=row.pk).delete()
            return False, ""
        if not row.digest or row.version != file.version:  # new here, or edited since it was there
            return True, ""
        return _deleted_there(folder, copy, file), ""
    if found.digest == row.digest:
        if row.stamp != found.stamp:
            copy.mark(stamp=found.stamp, problem=row.problem)
        # Not the same text: Beacon cleans what it can't store, and a conflict waits for a person.
        return (file.version if file else 0) != row.version, ""
    if file is not None and found.content == copy.stored:
        copy.mark_found(file.version)
        return False, ""
    return _import(folder, copy)


def _deleted_there(folder: MountedFolder, copy: Copy, file: MemoryFile) -> bool:
    """Move a file to Trash that was deleted on disk. A locked one is written again."""
    try:
        file.trash(by=actor_of(folder), why=_("file deleted from its folder"))
    except Locked:
        copy.mark(digest="", stamp="")
        return True
    copy.mark(version=0, digest="", stamp="")
    return False


def _import(folder: MountedFolder, copy: Copy) -> tuple[bool, str]:
    found, row = copy.found, copy.row
    code = ""
    if found.is_large:
        code = Skipped.LARGE
    elif found.content is None:
        code = Skipped.LINK
    elif b"\0" in found.content:
        code = Skipped.BINARY
    else:
        with suppress(UnicodeDecodeError):
            found.content.decode()
            return _saved(folder, copy), ""
        code = Skipped.BINARY
    # It stays as it is, and isn't looked at again before it changes.
    copy.mark(stamp=found.stamp, refused=found.digest, problem=code)
    row.problem = code
    return False, code


def _saved(folder: MountedFolder, copy: Copy) -> bool:
    """Save the text on disk. Return whether the file must be written, because it was merged."""
    found, row = copy.found, copy.row
    text = text_of(found)
    seen = row.version if copy.file is not None else 0
    if copy.file is not None and not row.digest:  # it was mounted before: the folder decides
        seen = copy.file.version
    try:
        saved = save_file(
            copy.owner, copy.path, text, by=actor_of(folder), seen=seen, trust=Trust.AGENT
        )
    except FileConflict:
        copy.keep_as_draft(text, _("file edited in its folder"))
        _refused(folder, copy, "conflict")
        return False
    except Locked:  # what a person locked here is written back
        copy.keep_as_draft(text, _("file edited in its folder"))
        _refused(folder, copy, "locked")
        copy.mark(version=0, problem="locked")
        return True
    except MemoryRefused as exc:
        logger.info("file of an agent’s folder not stored", path=copy.path, why=str(exc))
        copy.mark(
            stamp=found.stamp, digest=found.digest, refused=found.digest, problem=Skipped.REFUSED
        )
        return False
    copy.file = saved.file
    copy.mark_found(0 if saved.merged else saved.file.version, refused="", problem="")
    return saved.merged


def _refused(folder: MountedFolder, copy: Copy, why: str) -> None:
    """Leave both texts unchanged until one of them changes again, and report it once."""
    found, file = copy.found, copy.file
    if copy.row.refused != found.digest:
        Activity.log(
            copy.owner, actor_of(folder), "agent-file-" + why, subject=file, label=copy.path,
            warning=True,
        )  # fmt: skip
    copy.mark_found(file.version if file else 0, refused=found.digest, problem=why)


def _write(folder: MountedFolder, copy: Copy) -> None:
    """Write the stored text to disk, with the line ends that the file has there.

    Raises ConcurrentChange, OSError.
    """
    copy.read()
    found, file = copy.found, copy.file
    if found.stamp and found.digest != copy.row.digest and found.content != copy.stored:
        raise ConcurrentChange(copy.path)
    if file is None:
        if found.stamp:
            copy.disk.remove(copy.path, found.stamp)
        MirroredFile.objects.filter(pk=copy.row.pk).delete()
        return
    content = file.content.encode()
    if found.content and b"\r\n" in found.content:
        content = content.replace(b"\n", b"\r\n")
    if found.content == content:
        copy.mark_found(file.version, problem="", refused="")
        return
    stamp, late = copy.disk.write(copy.path, content, found.stamp)
    copy.mark(version=file.version, digest=digest_of(content), stamp=stamp, problem="", refused="")
    if late is not None:  # written there between our last look and now
        with suppress(UnicodeDecodeError, MemoryRefused), transaction.atomic():
            save_file(
                copy.owner, copy.path, late.decode(), by=actor_of(folder), seen=copy.row.version,
                trust=Trust.AGENT,
            )  # fmt: skip
    if folder.problem == Problem.READ_ONLY:
        _store_problem(folder, "")
