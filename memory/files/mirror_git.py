"""One git commit for each change of a mirrored memory file, if BEACON_MIRROR_GIT says so.

Data flow: versions that are on disk and in no commit yet -> their revisions, oldest first -> one
stream to `git fast-import`, which runs no hooks and touches neither index nor files.  No shell, no
configuration but the folder's own; what goes wrong is told once and holds up nothing.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import structlog
from django.conf import settings
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from memory.files.mirror_folder import DISK, disk_of
from memory.models import Activity, MemoryFile, MirroredFile, MirrorFolder, Revision
from memory.texts.text import one_line

logger = structlog.get_logger(__name__)

BRANCH = "main"  # of a repository that Beacon makes; in one that is there, whichever is checked out
SECONDS = 120.0
_LEFT_OUT = ".beacon\n*.conflict*\n.*.tmp\n"


class GitFailed(Exception):
    """Git is missing or refused; the message is its own."""


@dataclass(frozen=True, slots=True)
class _Commit:
    """One change; no content where the file went."""

    order: int
    name: str
    content: str | None
    message: str
    at: datetime


def commit_due(folder: MirrorFolder) -> int:
    """Commit what is on disk and in no commit yet; return how many commits that made."""
    if not settings.BEACON_MIRROR_GIT:
        return 0
    behind = MirroredFile.objects.exclude(committed=F("version"))
    rows = list(behind.select_related("owner"))
    commits = sorted(
        (one for row in rows for one in _commits(folder, row)), key=lambda one: one.order
    )
    try:
        if commits:
            _store(Path(settings.BEACON_MIRROR_DIR), commits)
    except (GitFailed, OSError, subprocess.SubprocessError) as exc:
        _tell(folder, str(exc))
        return 0
    for row in rows:
        MirroredFile.objects.filter(pk=row.pk).update(committed=row.version)
    if rows and folder.git_problem:
        _tell(folder, "")
    return len(commits)


def _commits(folder: MirrorFolder, row: MirroredFile) -> Iterator[_Commit]:
    """Yield a commit for each version that has none."""
    name = "/".join((*disk_of(folder, row.owner).parts, row.path))
    told = Revision.objects.of(row.owner).filter(record_type=MemoryFile.record_type())
    if not row.version:
        last = told.filter(label=row.path).order_by("-id").first()
        message = _message(name, last) if last else f"{name}: deleted"
        at = last.created if last else timezone.now()
        yield _Commit(last.pk if last else 0, name, None, message, at)
        return
    file = MemoryFile.objects.of(row.owner).live().at(row.path).first()
    if file is None:
        return
    since = row.committed if row.committed < row.version else 0
    told = told.filter(record_id=file.pk, version__gt=since, version__lte=row.version)
    for one in told.filter(after__has_key="content").order_by("id").iterator():
        content = str(one.after["content"])
        yield _Commit(one.pk, name, content, _message(name, one), one.created)


def _message(name: str, told: Revision) -> str:
    why = one_line(told.reason) or ("made" if told.version == 1 else "changed")
    return f"{name}: {why} ({told.actor}, version {told.version})"


def _store(root: Path, commits: list[_Commit]) -> None:
    """Add the commits to the branch that is checked out, then let the index follow."""
    if not (root / ".git").exists():
        _git(root, "init", "-q", "-b", BRANCH, "--template=")
        (root / ".git/info").mkdir(exist_ok=True)
        (root / ".git/info/exclude").write_text(_LEFT_OUT)
    branch = _git(root, "symbolic-ref", "HEAD").decode().strip()
    begun = bool(_git(root, "for-each-ref", branch).strip())
    stream = b"".join(_told(one, branch, begun and at == 0) for at, one in enumerate(commits))
    _git(root, "fast-import", "--quiet", stream=stream)
    _git(root, "reset", "-q", "--", *sorted({one.name for one in commits}))


def _told(one: _Commit, branch: str, begun: bool) -> bytes:
    """Return one commit as fast-import reads it; the first names what stood before it."""
    message = one.message.encode()
    head = (
        f"commit {branch}\n"
        f"committer Beacon <beacon@localhost> {int(one.at.timestamp())} +0000\n"
        f"data {len(message)}\n"
    ).encode()
    parts = [head, message, b"\n", f"from {branch}^0\n".encode() if begun else b""]
    if one.content is None:
        return b"".join([*parts, f"D {one.name}\n\n".encode()])
    content = one.content.encode()
    change = f"M 100644 inline {one.name}\ndata {len(content)}\n".encode()
    return b"".join([*parts, change, content, b"\n\n"])


def _git(root: Path, *arguments: str, stream: bytes = b"") -> bytes:
    """Run git on the folder's own repository.  Raises GitFailed with what it said, OSError."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    own |= {
        "GIT_DIR": str(root / ".git"), "GIT_WORK_TREE": str(root), "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C",
    }  # fmt: skip
    told = ["git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", *arguments]
    try:
        ended = subprocess.run(
            told, cwd=root, env=own, input=stream, capture_output=True, timeout=SECONDS, check=False
        )
    except FileNotFoundError as exc:
        raise GitFailed("git is not installed") from exc
    if ended.returncode:
        said = one_line(ended.stderr.decode(errors="replace"))
        raise GitFailed(f"git {arguments[0]}: {said[:500]}")
    return ended.stdout


def _tell(folder: MirrorFolder, said: str) -> None:
    """Note how git is; what is new and bad is told once in the activity log."""
    folder.git_problem = said
    rows = MirrorFolder.objects.filter(pk=folder.pk).exclude(git_problem=said)
    if rows.update(git_problem=said) and said:
        logger.warning("no git commit of memory files", why=said)
        why = _("Changes of memory files could not be committed: %(why)s. It is tried again.")
        Activity.log(folder.root, DISK, "mirror-git-failed", warning=True, why=why % {"why": said})
