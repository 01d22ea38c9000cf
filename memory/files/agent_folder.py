"""An agent's own folder of memory files, as the `memory` tool sees it (docs/dev/formats.md).

The agent's path `/memories/notes.md` is the memory file `agents/<folder>/notes.md`, so limits,
history, locks, review and Trash are those of every memory file. Folders exist only as part of paths.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction
from django.utils.translation import gettext as _

from beacon_site.text.cleaning import clean, shorten
from memory.core.actors import Actor
from memory.core.errors import Locked, MemoryRefused
from memory.core.file_format import AGENTS, DEEPEST, LONGEST_PATH, agent_of, is_name
from memory.files.services import check_folder, check_names, hold_folder
from memory.models import FileDraft, MemoryFile, User

ROOT = "/memories"
DEPTH = 2  # levels in a listing


class CommandRefused(MemoryRefused):
    """A command can't be carried out, in the words that models expect; `code` is for programs."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Place:
    """A path as the agent wrote it, and the stored path; `names` is empty for the folder itself."""

    shown: str
    stored: str
    names: tuple[str, ...]


def place_at(folder: str, path: str) -> Place:
    """Return the place of a path below /memories.

    Nothing is decoded or resolved, so no other spelling leads elsewhere. Raises CommandRefused.
    """
    shown = path.removesuffix("/")
    root, *names = shown.split("/")[1:] if shown.startswith("/") else ["", ""]
    stored = "/".join((AGENTS + folder, *names))
    is_valid = f"/{root}" == ROOT and len(names) <= DEEPEST and all(map(is_name, names))
    if not is_valid or len(stored) > LONGEST_PATH:
        told = shorten(clean(path[:400])[0], 80)
        words = f"Error: Invalid path {told}. A path starts with {ROOT}. Names are made of letters, digits, spaces and _ . - + , ( ), and begin with a letter or a digit."
        raise CommandRefused("invalid", words)
    return Place(shown, stored, tuple(names))


def check_file_name(place: Place) -> None:
    """Raise CommandRefused if a file can't have this path: files need an extension."""
    if not agent_of(place.stored):
        words = f"Error: Invalid path {place.shown}. A file needs a name with an extension, such as {ROOT}/notes.md."
        raise CommandRefused("invalid", words)


class Folder:
    """One agent's folder. Changes hold it until the transaction ends."""

    def __init__(self, owner: User, name: str) -> None:
        self.owner, self.name = owner, name

    def rows(self) -> list[MemoryFile]:
        """Return all files without their text."""
        rows = MemoryFile.objects.of(self.owner).live().own(self.name)
        return list(rows.defer("content", "blame").order_by("path"))

    def hold(self) -> None:
        """Keep others from creating, renaming or deleting files here until the transaction ends."""
        hold_folder(self.owner, self.name)

    def file_at(self, place: Place) -> MemoryFile | None:
        """Return the file at a place, locked; None if there is none or it's a folder."""
        rows = MemoryFile.objects.of(self.owner).live().at(place.stored)
        found: MemoryFile | None = rows.select_for_update(of=("self",), no_key=True).first()
        return found

    def below(self, place: Place) -> list[MemoryFile]:
        """Return the file at a place or, for a folder, all files in it, locked."""
        rows = MemoryFile.objects.of(self.owner).live().own(self.name).order_by("path")
        held = list(rows.select_for_update(of=("self",), no_key=True))
        inside = f"{place.stored}/"
        return [one for one in held if one.path == place.stored or one.path.startswith(inside)]

    def check_free(self, place: Place) -> None:
        """Raise CommandRefused if a file's path goes through another file."""
        above = [
            "/".join((AGENTS + self.name, *place.names[:n])) for n in range(1, len(place.names))
        ]
        rows = MemoryFile.objects.of(self.owner).live().filter(path__in=above)
        if through := rows.values_list("path", flat=True).first():
            words = f"Error: {ROOT}{through.removeprefix(AGENTS + self.name)} is a file, so it can't contain {place.shown}"
            raise CommandRefused("exists", words)

    def delete(self, files: list[MemoryFile], *, by: Actor, source: str) -> None:
        """Move files to Trash, all or none. Raises Locked."""
        for file in files:
            _check_unlocked(file, by)
            file.trash(by=by, source=source)

    def rename(
        self, files: list[MemoryFile], old: Place, new: Place, *, by: Actor, source: str
    ) -> None:
        """Rename a file, or a folder with all files in it. The history stays with each file.

        Raises CommandRefused for a path that is too long or deep, InvalidValue and Locked.
        """
        with transaction.atomic():
            for file in files:
                path = new.stored + file.path.removeprefix(old.stored)
                if not agent_of(path):
                    check_file_name(Place(new.shown, path, ()))
                check_names(path, by)
                _check_unlocked(file, by)
                was = file.path
                why = _("renamed from %(path)s") % {"path": was}
                drafts = FileDraft.objects.of(self.owner)
                if drafts.filter(path=was).exists():
                    drafts.filter(path=path).delete()  # of a file that no longer exists
                    drafts.filter(path=was).update(path=path)
                file.change(by=by, why=why, source=source, path=path)


def _check_unlocked(file: MemoryFile, by: Actor) -> None:
    """Raise Locked if `by` can't delete or rename the file because of its folder or its sections."""
    check_folder(file.path, by)
    if file.section_locks and not by.is_person:
        told = {"section": " › ".join(file.section_locks[0]), "path": file.path}
        words = _(
            "The section “%(section)s” of %(path)s is locked, so only a person can delete or rename the file. Nothing was changed."
        )
        raise Locked(words % told)


def listing(place: Place, files: list[MemoryFile]) -> str:
    """Return the folders and files up to two levels below a place, with their sizes."""
    sizes: dict[str, int] = {}
    total = 0
    for file in files:
        names = file.path.removeprefix(f"{place.stored}/").split("/")
        if "node_modules" in names:
            continue
        total += file.size
        for depth in range(1, min(DEPTH, len(names)) + 1):
            name = "/".join(names[:depth]) + ("/" if depth < len(names) else "")
            sizes[name] = sizes.get(name, 0) + file.size
    head = f"Here're the files and directories up to 2 levels deep in {place.shown}, excluding hidden items and node_modules:"
    lines = [f"{short_size(size)}\t{place.shown}/{name}" for name, size in sorted(sizes.items())]
    return "\n".join([head, f"{short_size(total)}\t{place.shown}", *lines])


def short_size(size: int) -> str:
    """Return a size as in a listing: 12B, 5.5K, 1.2M."""
    for unit, step in (("M", 1_048_576), ("K", 1024)):
        if size >= step:
            return f"{size / step:.1f}".removesuffix(".0") + unit
    return f"{size}B"


def numbered(lines: list[str], first: int) -> str:
    """Return lines with their numbers, six characters wide, and a tab."""
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, start=first))
