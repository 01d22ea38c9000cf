"""Statements of memory files, as the sides of conflicts: which can be compared, and how a decision
changes them in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from beacon_site.text import contradictions as texts
from beacon_site.text.cleaning import match_key, shorten
from memory.models import Conflict, MemoryFile, MountedFolder, User
from memory.models.errors import InvalidValue
from memory.models.file_format import (
    Statement,
    digest_of,
    month_of,
    statements_found,
    statements_of,
)

MIN_WORDS = 3  # of a statement that can be repeated
_ITEM = re.compile(r"^(\s*)(?:[-*+•]|\d+[.)])\s+(?:\[[ xX]\]\s*)?")
_MARKS = ("*", "_", "`", "~")
_ENDS = (".", "!", "?", "。", "！", "？")
_DATED = re.compile(r"[12]\d{3}-(?:0[1-9]|1[0-2])(?!\d)")
_NAMES_NO_FOLDER = frozenset({".claude", ".cursor", ".github", "rules", "instructions"})

Scope = tuple[str, ...]


def can_be_repeated(statement: str) -> bool:
    """Return True if a statement says enough to be a duplicate of another one."""
    return len(match_key(statement).split()) >= MIN_WORDS


def keep_found(conflict: Conflict, sides: Iterable[Any]) -> bool:
    """Keep those of the conflict's `lines` that both sides still say, without saving it.

    Returns False, and keeps all, if none is left. The last copy of a repeated line stays this way.
    """
    left, right = sides
    if not any(isinstance(side, MemoryFile) for side in (left, right)):
        return True
    ours, theirs = _digests(left), _digests(right)
    found = [pair for pair in conflict.lines if pair[0] in ours and pair[1] in theirs]
    conflict.lines = found or conflict.lines
    return bool(found)


def _digests(record: Any) -> set[str]:
    if isinstance(record, MemoryFile):
        return {one.digest for one in statements_of(record.content)}
    return {digest_of(one) for one in texts.statements(record.search_text())}


def rewritten(file: MemoryFile, digests: Iterable[str], words: str = "") -> str:
    """Return the file's text without these statements, or with `words` in their place.

    Raises InvalidValue if a statement is part of a longer text, which only a person can reword.
    """
    lines = str(file.content).split("\n")
    for one in reversed(statements_found(file.content, digests)):
        now = _without(lines, one, " ".join(words.split()))
        if now is None:
            params = {"said": shorten(one.text, 80), "path": file.path, "line": one.place + 1}
            problem = _(
                "“%(said)s” is part of a longer text (%(path)s, line %(line)s), so Beacon can’t change it automatically. Nothing was changed. Edit the file instead."
            )
            raise InvalidValue(problem % params)
        lines[one.place : one.place + 1] = now
    return "\n".join(lines)


def _without(lines: list[str], one: Statement, words: str) -> list[str] | None:
    """Return what replaces the statement's line, or None if it continues on another line."""
    line = lines[one.place]
    before = lines[one.place - 1] if one.place else ""
    after = lines[one.place + 1] if one.place + 1 < len(lines) else ""
    item, text = _ITEM.match(line), texts.plain(line)
    if item is None and _goes_on(before, line) and text.startswith(one.text):
        return None
    if text == one.text:
        if _goes_on(line, after) or (item and _has_block(item, lines[one.place + 1 :])):
            return None
        return [f"{item[0] if item else ''}{words}"] if words else []
    # The line says more, also what no statement shows: too long or too short a sentence.
    if line.count(one.text) != 1 or not one.text.endswith(_ENDS):
        return None
    begin, end = line.split(one.text)
    if begin.endswith(_MARKS) or end.startswith(_MARKS):
        return None
    return [" ".join(filter(None, [begin.rstrip(), words, end.strip()]))]


def _has_block(item: re.Match[str], after: Sequence[str]) -> bool:
    """Return True if an item of a list continues in an indented block after an empty line."""
    following = next((line for line in after if line.strip()), "")
    return len(following) - len(following.lstrip()) > len(item[1])


def _goes_on(line: str, after: str) -> bool:
    """Whether the next line belongs to this one: to its sentence, or to its item of a list."""
    if not line.strip() or not after.strip() or line.startswith(("#", "---", "```", "~~~")):
        return False
    inner = _ITEM.match(after)
    if item := _ITEM.match(line):
        return len(after) - len(after.lstrip()) > len(item[1]) or not (
            inner or after.startswith("#")
        )
    return inner is None and not line.rstrip().endswith((*_ENDS, ":"))


# --- which files are about the same things ---


def scopes_of(owner: User, files: Iterable[MemoryFile]) -> dict[object, Scope]:
    """Return what each file is about: () for everything, or a project and a folder in it."""
    asked = list(files)
    names = {one.mounted_folder for one in asked if one.mounted_folder}
    folders = (
        {one.name: one for one in MountedFolder.objects.for_user(owner).filter(name__in=names)}
        if names
        else {}
    )
    return {one.pk: _scope(one, folders) for one in asked}


def _scope(file: MemoryFile, folders: Mapping[str, MountedFolder]) -> Scope:
    folder = folders.get(file.mounted_folder)
    if folder is None:
        return ()
    parts = file.place_in_folder.split("/")
    if folder.layout == MountedFolder.Layout.CLAUDE and parts[0] == "projects":
        return (parts[1],)
    if folder.layout == MountedFolder.Layout.REPOSITORY:
        # Claude Code names a project's folder after its path, so that both are one scope.
        project = re.sub(r"[^A-Za-z0-9]", "-", folder.real_path or folder.place)
        inner = [one for one in parts[:-1] if one not in _NAMES_NO_FOLDER]
        return (project, *inner)
    return ()


def can_conflict(one: MemoryFile, other: MemoryFile, scopes: Mapping[object, Scope]) -> bool:
    """Return True if two files can contradict or repeat each other.

    Files of different projects, or of sibling folders of one, are about different things.
    """
    ours, theirs = scopes[one.pk], scopes[other.pk]
    return ours[: len(theirs)] == theirs[: len(ours)]


def is_compared(file: MemoryFile) -> bool:
    """Whether a mounted file can be in conflict with this one. A month's or a day's file is a log."""
    is_log = month_of(file.path) or (file.mounted_folder and _DATED.match(file.path.split("/")[-1]))
    return file.trashed_at is None and not is_log
