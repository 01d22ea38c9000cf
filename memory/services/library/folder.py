"""The watched folder (`BEACON_LIBRARY_DIR`), whose documents are imported into the library.

A task scans it every ten minutes, and a search scans it at most once a minute. Its documents belong
to the first admin account, and everyone can read them.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISREG

import structlog
from django.conf import settings
from django.utils import timezone

from beacon_site.db.advisory_locks import LockId, advisory_lock
from beacon_site.net.errors import ProviderUnavailable
from beacon_site.text.cleaning import clean, match_key
from beacon_site.text.messages import gettext as _
from memory.models import LibraryDocument, LibraryFolder, Trust, User
from memory.models.actors import SYSTEM
from memory.services.library.reading import MAX_BYTES, DocumentText, media_type_of, read_document

logger = structlog.get_logger(__name__)

MAX_FILES = 20_000
BATCH = 50  # documents stored in one transaction
AHEAD = 25  # files read while others are being stored
LOOK_EVERY = 60.0  # seconds since the last scan after which a search scans the folder
SEARCH_SECONDS = 20.0  # seconds a search waits for a scan; the task does the rest
TASK_SECONDS = 600.0
UNWATCHED_SECONDS = 86_400.0  # a folder that wasn't scanned for a day is no longer watched
SOURCE = "import:library-folder"
# A new file is a missing one under another name if they share this much of their runs of words.
RENAMED = 0.5
RUN = 3  # words
MAX_COMPARED = 50  # missing files that a new one is compared with, besides those of the same name
MAX_COMPARED_LENGTH = 200_000  # characters
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\u3040-\u30ff\u3400-\u9fff]+")
# The results of a scan, in files. `left` are those it had no time for.
RESULTS = ("added", "changed", "unchanged", "gone", "skipped", "remaining")


def state() -> LibraryFolder | None:
    """Return the watched folder's state, or None before the first scan."""
    return LibraryFolder.objects.order_by("pk").first()


def scan_if_due(
    *, every: float = LOOK_EVERY, seconds: float = SEARCH_SECONDS
) -> LibraryFolder | None:
    """Scan the folder if the last scan is older than `every` seconds, and return its state.

    Only one of several concurrent calls scans, and the others wait. Returns None without a folder, or
    without an admin account to own its documents.
    """
    known = state()
    if not settings.BEACON_LIBRARY_DIR:
        return None
    if _is_fresh(known, every):
        return known
    with advisory_lock(LockId.LIBRARY_FOLDER, wait=seconds) as is_mine:
        known = state()
        if not is_mine or _is_fresh(known, every):
            return known
        return _scan(known, seconds)


def scan_folder(
    owner: User, folder: str | Path, *, seconds: float = TASK_SECONDS, last_remaining: int = 0
) -> Counter[str]:
    """Update the owner's documents from the files in `folder`, and count the files by result.

    A file is read again if its size or time changed, and becomes a new version only if its bytes
    did. At most 20,000 files are read. Hidden files and links out of the folder are ignored. A file
    that is too large or isn't text is kept with its `problem`. The document of a deleted file moves
    to Trash, and is restored if the file comes back. After `seconds`, the rest is left for the next
    scan.

    While new files remain, nothing moves to Trash, because they can be renamed ones. That ends if no
    fewer files remain than after the last scan (`last_remaining`): a folder can change faster than it
    can be read, and the HTML and PDF reader can fail on every scan.

    Raises NotADirectoryError if the folder doesn't exist, and then nothing moves to Trash.
    """
    root = Path(folder).resolve()
    if not root.is_dir():
        raise NotADirectoryError(str(folder))
    ends = time.monotonic() + seconds
    files, skipped, closed = _list(root)
    known = _documents_by_path(owner)
    done = Counter(skipped=skipped)
    fresh: list[LibraryDocument] = []
    missing = _Missing.of(known, files, closed)
    seem_changed = [path for path, stat in files.items() if not _is_same(known.get(path), stat)]
    seem_changed.sort(key=known.__contains__)  # new files first
    done["unchanged"] = len(files) - len(seem_changed)
    may_be_renamed = False
    for path, reading in _read_ahead(root, seem_changed, ends):
        if reading is None:
            done["remaining"] += 1
            may_be_renamed |= path not in known
            continue
        before = known.get(path) or missing.take(path, reading)
        _take_in(owner, path, files[path], reading, before, done, fresh)
        if len(fresh) >= BATCH:
            LibraryDocument.objects.add(fresh, by=SYSTEM, source=SOURCE)
            fresh = []
    LibraryDocument.objects.add(fresh, by=SYSTEM, source=SOURCE)
    is_stuck = 0 < last_remaining <= done["remaining"]
    if not may_be_renamed or is_stuck:
        done["gone"] = missing.trash()
    return done


def _take_in(
    owner: User,
    path: str,
    stat: os.stat_result,
    reading: DocumentText,
    before: LibraryDocument | None,
    done: Counter[str],
    fresh: list[LibraryDocument],
) -> None:
    """Store a file that is new or has changed. New documents are added to `fresh`."""
    fields = {
        "title": reading.title,
        "text": reading.text,
        "media_type": reading.media_type,
        "digest": reading.digest,
        "size": stat.st_size,
        "modified_at": _modified(stat),
        "problem": reading.problem,
    }
    if before is None:
        done["added"] += 1
        fresh.append(
            LibraryDocument(owner=owner, path=path, source=SOURCE, trust=Trust.EXTERNAL, **fields)
        )
        return
    document = LibraryDocument.objects.get(pk=before.pk)
    is_renamed = document.path != path
    if document.trashed_at is None and document.digest == reading.digest and not is_renamed:
        # Only its time changed, so there is no new version that topics would read again.
        LibraryDocument.objects.filter(pk=document.pk).update(
            size=stat.st_size, modified_at=_modified(stat)
        )
        done["unchanged"] += 1
        return
    if document.trashed_at is not None:
        fields["trashed_at"] = None
    fields["path"] = path
    changed = {name: value for name, value in fields.items() if value != getattr(document, name)}
    why = _("the file was renamed") if is_renamed else _("the file changed")
    document.change(by=SYSTEM, why=why, source=SOURCE, **changed)
    done["changed"] += 1


class _Missing:
    """The documents whose files no longer exist, except those in unreadable folders.

    A new file can be one of them under another name.
    """

    def __init__(self, documents: dict[str, LibraryDocument]) -> None:
        self._documents = documents  # by path
        self._runs: dict[str, set[tuple[str, ...]]] = {}

    @classmethod
    def of(
        cls, known: dict[str, LibraryDocument], files: Collection[str], closed: Iterable[str]
    ) -> _Missing:
        return cls(
            {
                path: one
                for path, one in known.items()
                if one.trashed_at is None
                and path not in files
                and not path.startswith(tuple(closed))
            }
        )

    def take(self, path: str, reading: DocumentText) -> LibraryDocument | None:
        """Return the document that a new file was before it was renamed, if there is one."""
        if not self._documents or reading.problem:
            return None
        path = self._same(reading) or self._most_alike(path, reading)
        return self._documents.pop(path, None)

    def _same(self, reading: DocumentText) -> str:
        same = (path for path, one in self._documents.items() if one.digest == reading.digest)
        return next(same, "")

    def _most_alike(self, path: str, reading: DocumentText) -> str:
        name, ours = path.rpartition("/")[2], _runs(reading.text)
        is_few = len(self._documents) <= MAX_COMPARED
        alike = [
            (2 * len(ours & theirs) / (len(ours) + len(theirs)), other)
            for other, document in self._documents.items()
            if document.media_type == reading.media_type
            and (is_few or other.rpartition("/")[2] == name)
            and (theirs := self._runs_of(other))
            and ours
        ]
        share, best = max(alike, default=(0.0, ""))
        return best if share >= RENAMED else ""

    def _runs_of(self, path: str) -> set[tuple[str, ...]]:
        if path not in self._runs:
            document = LibraryDocument.objects.get(pk=self._documents[path].pk)
            self._runs[path] = set() if document.problem else _runs(document.text)
        return self._runs[path]

    def trash(self) -> int:
        """Move the documents to Trash, and return how many."""
        for one in self._documents.values():
            document = LibraryDocument.objects.get(pk=one.pk)
            document.trash(by=SYSTEM, why=_("its file no longer exists"), source=SOURCE)
        return len(self._documents)


def _runs(text: str) -> set[tuple[str, ...]]:
    """Return the runs of words of a text, or of characters if it has no spaces between words."""
    words = match_key(text[:MAX_COMPARED_LENGTH]).split()
    parts = [part for word in words for part in (_WIDE.findall(word) or [word])]
    return set(zip(*(parts[n:] for n in range(RUN)), strict=False))


def _list(root: Path) -> tuple[dict[str, os.stat_result], int, list[str]]:
    """Return the readable files below `root` by path, sorted by name.

    Also return the number of unsupported files, and how the paths begin that couldn't be read: "" is
    the beginning of all of them.
    """
    files: dict[str, os.stat_result] = {}
    closed: list[str] = []
    skipped, folders = 0, [root]
    while folders and len(files) < MAX_FILES:
        folder = folders.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as exc:
            logger.warning("library folder can't be read", folder=str(folder), why=exc.strerror)
            closed.append("" if folder == root else f"{folder.relative_to(root).as_posix()}/")
            continue
        inner: list[Path] = []
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                inner.append(Path(entry.path))
            elif len(files) < MAX_FILES:
                path = Path(entry.path).relative_to(root).as_posix()
                try:
                    stat = _stat_of(root, entry, path)
                except OSError as exc:
                    logger.warning("library file can't be read", file=path, why=exc.strerror)
                    closed.append(path)
                    continue
                if stat:
                    files[path] = stat
                else:
                    skipped += 1
        folders.extend(reversed(inner))
    if len(files) >= MAX_FILES:
        closed.append("")  # the other files weren't looked for
    return files, skipped, closed


def _stat_of(root: Path, entry: os.DirEntry[str], path: str) -> os.stat_result | None:
    """Return the status of a file that can be read as a document, else None. Raises OSError."""
    try:
        inside = not entry.is_symlink() or Path(entry.path).resolve().is_relative_to(root)
        stat = entry.stat() if inside else None
    except (FileNotFoundError, RuntimeError):  # deleted in the meantime, or a circular link
        stat = None
    storable = clean(path)[0] == path  # a name that isn't UTF-8 can't be stored
    is_readable = stat and S_ISREG(stat.st_mode) and storable and media_type_of(path)
    return stat if is_readable else None


def _read_ahead(
    root: Path, paths: Sequence[str], ends: float
) -> Iterator[tuple[str, DocumentText | None]]:
    """Yield each file with its content, or None if there was no time to read it (`ends`).

    HTML and PDF are read in a separate process while earlier files are stored.
    """
    waiting: deque[tuple[str, Future[DocumentText | None]]] = deque()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="library") as pool:
        for path in paths:
            waiting.append((path, pool.submit(_read_in_time, root, path, ends)))
            if len(waiting) >= AHEAD:
                path, first = waiting.popleft()
                yield path, first.result()
        for path, reading in waiting:
            yield path, reading.result()


def _read_in_time(root: Path, path: str, ends: float) -> DocumentText | None:
    if time.monotonic() > ends:
        return None
    try:
        return _read(root, path)
    except ProviderUnavailable:
        return None


def _read(root: Path, path: str) -> DocumentText:
    """Read one file, up to the size limit. A system error becomes its problem."""
    try:
        with (root / path).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as exc:
        reading = read_document(path, b"")
        why = _("The file couldn’t be read: %(why)s.") % {"why": exc.strerror}
        return DocumentText(reading.title, "", reading.media_type, "", 0, why)
    return read_document(path, content)


def _documents_by_path(owner: User) -> dict[str, LibraryDocument]:
    """Return the folder's files by path without their text, active rows before trashed ones."""
    rows = LibraryDocument.objects.for_user(owner).from_folder().order_by("created")
    known: dict[str, LibraryDocument] = {}
    for row in rows.only("path", "size", "modified_at", "trashed_at", "digest", "media_type"):
        if row.path not in known or known[row.path].trashed_at is not None:
            known[row.path] = row
    return known


def _is_same(before: LibraryDocument | None, stat: os.stat_result) -> bool:
    if before is None or before.trashed_at is not None:
        return False
    return before.size == stat.st_size and before.modified_at == _modified(stat)


def _modified(stat: os.stat_result) -> datetime:
    """Return the file's time. An invalid one counts as the oldest."""
    try:
        return datetime.fromtimestamp(stat.st_mtime_ns // 1000 / 1_000_000, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return datetime(1970, 1, 1, tzinfo=UTC)


def _scan(known: LibraryFolder | None, seconds: float) -> LibraryFolder | None:
    """Scan the folder and store the result."""
    owner = known.owner if known else _librarian()
    if owner is None:
        return None
    folder = str(settings.BEACON_LIBRARY_DIR)
    problem, started = "", time.monotonic()
    done: Counter[str] = Counter()
    try:
        last_remaining = known.remaining if known else 0
        done = scan_folder(owner, folder, seconds=seconds, last_remaining=last_remaining)
    except OSError as exc:
        problem = _("The folder couldn’t be read: %(why)s.") % {"why": exc.strerror or folder}
    documents = LibraryDocument.objects.for_user(owner).from_folder().live()
    unreadable = documents.exclude(problem="").count()
    now = known or LibraryFolder(owner=owner)
    now.folder, now.problem, now.remaining = folder, problem, done["remaining"]
    now.files, now.unreadable = documents.count() - unreadable, unreadable
    now.checked_at = timezone.now()
    now.save()
    ms = round((time.monotonic() - started) * 1000)
    counts = {name: done[name] for name in RESULTS}
    logger.info("library folder imported", problem=problem, ms=ms, **counts)
    return now


def forget_unwatched() -> int:
    """Move the documents of a folder that is no longer watched to Trash, and return how many.

    Only after a day without a scan, so that a command started without BEACON_LIBRARY_DIR doesn't
    remove everyone's library. They are restored with the folder.
    """
    known = state()
    if settings.BEACON_LIBRARY_DIR or known is None or known.age < UNWATCHED_SECONDS:
        return 0
    ends, gone = time.monotonic() + TASK_SECONDS, 0
    with advisory_lock(LockId.LIBRARY_FOLDER, wait=TASK_SECONDS) as is_mine:
        for document in LibraryDocument.objects.from_folder().live() if is_mine else ():
            if time.monotonic() > ends:
                return gone  # the next task continues
            document.trash(by=SYSTEM, why=_("the folder is no longer watched"), source=SOURCE)
            gone += 1
        if is_mine:
            known.delete()
    return gone


def _librarian() -> User | None:
    """Return the account that owns the folder's documents: the first admin account."""
    return User.objects.filter(is_staff=True, is_active=True).order_by("pk").first()


def _is_fresh(known: LibraryFolder | None, every: float) -> bool:
    return known is not None and known.folder == settings.BEACON_LIBRARY_DIR and known.age < every
