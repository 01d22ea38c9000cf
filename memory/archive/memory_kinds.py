"""Record types of memory in an archive: how each is exported and imported, and why some are left out."""

from __future__ import annotations

from typing import Any

from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory import models as memory
from memory.archive import session_records
from memory.archive.kinds import Kind, register
from memory.archive.zips import ImportRejected
from memory.content.services import MOST_BYTES, check_no_circle, check_size
from memory.core.actors import SYSTEM
from memory.core.errors import InvalidValue, MemoryRefused
from memory.core.file_format import (
    by_rule,
    checked_path,
    is_fact,
    locked_text,
    summary_of,
    with_summary,
)
from memory.files import limits
from memory.files.blame import carried
from memory.files.reading import facts_budget
from memory.files.services import cleaned
from memory.models import ContentItem, FileEntry, MemoryFile, Remembered, Revision, Section
from memory.models.content import SNAPSHOT_FORMAT
from memory.models.notes import MOST_CONTENT

# --- content items and snapshots ---------------------------------------------------------------


def item_problem(row: Any) -> str:
    """Return why a row can't be an item of the store or of a snapshot, or ""."""
    try:
        check_size(row.content)
    except InvalidValue:
        return _("it’s larger than %(most)d bytes, the limit for one item") % {"most": MOST_BYTES}
    return ""


def measure(row: Any, _taking_in: Any) -> None:
    """Set an item's size from its content, since the archive's value may be wrong."""
    row.size = len(row.content)


def snapshot_problem(row: Any) -> str:
    """Return why this Beacon can't read a snapshot, or ""."""
    if row.format > SNAPSHOT_FORMAT:
        told = {"theirs": row.format, "ours": SNAPSHOT_FORMAT}
        return (
            _(
                "its format is %(theirs)d, but this version of Beacon supports formats up to %(ours)d"
            )
            % told
        )
    return ""


def check_relations(_taking_in: Any, items: list[ContentItem]) -> None:
    """Raises ImportRejected if the items have circular relations."""
    through = ContentItem.related_to.through.objects
    links: dict[Any, list[Any]] = {item.pk: [] for item in items}
    rows = through.filter(from_contentitem_id__in=links)
    for here, there in rows.values_list("from_contentitem_id", "to_contentitem_id"):
        links[here].append(there)
    try:
        check_no_circle(links, {item.pk: str(item) for item in items})
    except InvalidValue as exc:
        raise ImportRejected(_("%(why)s Nothing was imported.") % {"why": exc}) from exc


# --- memory files ------------------------------------------------------------------------------


def problem(file: MemoryFile) -> str:
    """Return why a row can't be one of the owner's files, or ""."""
    try:
        checked_path(file.path)
        text = _text(file)
        limits.check_lines(text)
        limits.check_size(file.path, limits.size_of(text), _others(file))
    except MemoryRefused as exc:
        return str(exc)
    if is_fact(file.path) and file.trashed_at is not None:
        return _("a fact file can’t be in Trash")
    return ""


def make_room(file: MemoryFile, taking_in: Any) -> None:
    """Recompute what derives from the text; the file replaces an unedited default file of its path."""
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
    """Update sections and mirror.  Raises ImportRejected if the fact files exceed their budget."""
    budget = facts_budget(taking_in.owner)
    if budget.used > budget.most:
        told = {"have": f"{budget.used:,}", "most": f"{budget.most:,}"}
        raise ImportRejected(
            _(
                "The import would bring the fact files to %(have)s bytes, but the limit is "
                "%(most)s. Nothing was imported."
            )
            % told
        )
    for file in files:
        Section.follow_file(file)
        file.tell()


def entry_problem(entry: FileEntry) -> str:
    """Return why a row can't be a section removed from a file, or ""."""
    try:
        checked_path(entry.path)
    except MemoryRefused as exc:
        return str(exc)
    if (size := limits.size_of(entry.content)) > limits.MOST_EPISODES:
        told = {"have": f"{size:,}", "most": f"{limits.MOST_EPISODES:,}"}
        return _("it’s %(have)s bytes, but a file can be at most %(most)s") % told
    if not isinstance(entry.heading, list) or not all(isinstance(s, str) for s in entry.heading):
        return _("its heading isn’t a list of strings")
    if cleaned(entry.content).text != entry.content:
        return _("it contains characters that can’t be stored")
    return ""


def _text(file: MemoryFile) -> str:
    text = cleaned(file.content).text
    return text if summary_of(text) else with_summary(text, by_rule(file.path, text))


def _others(file: MemoryFile) -> int:
    """Return the size of the other fact file, if it was edited."""
    rows = MemoryFile.objects.of(file.owner).live().facts().exclude(path=file.path)
    return sum(rows.filter(version__gt=1).values_list("size", flat=True))


def _fits(blame: Any, text: str) -> bool:
    """Whether it is a valid blame of this text, since someone could have edited the archive."""
    try:
        lines = sum(int(number) for number, _version in blame)
    except (TypeError, ValueError):
        return False
    return lines == sum(number for number, _version in carried([], "", text, 1))


def _locks(file: MemoryFile) -> list[list[str]]:
    given = file.section_locks if isinstance(file.section_locks, list) else []
    paths = [one for one in given if isinstance(one, list) and all(isinstance(s, str) for s in one)]
    return [path for path in paths if path and locked_text(file.content, path) is not None]


# --- all record types --------------------------------------------------------------------------


def _too_long(row: Any) -> str:
    size = len((getattr(row, "content", "") or "").encode())
    if size <= MOST_CONTENT:
        return ""
    return _("it’s %(have)d bytes, but the limit is %(most)d") % {
        "have": size,
        "most": MOST_CONTENT,
    }


def _make_room(note: Any, taking_in: Any) -> None:
    """Import a soul, agent or user note although there is a current one.

    It replaces one that was never edited. Otherwise it is imported as superseded, since an import
    never replaces what is here.
    """
    stands = note.kind in memory.Note.IDENTITY and note.superseded_by_id is None
    if not stands or note.trashed_at is not None:
        return
    here = memory.Note.objects.of(taking_in.owner).standing_identity().filter(kind=note.kind)
    standing = here.exclude(pk=note.pk).first()
    if standing is None:
        return
    made = memory.Revision.objects.filter(record_id=standing.pk, version=1, actor=str(SYSTEM))
    if standing.version == 1 and made.exists():
        standing.purge(by=taking_in.by)
    else:
        note.superseded_by_id = standing.pk


def _follow_topics(_taking_in: Any, topics: list[Any]) -> None:
    for topic in topics:
        memory.Topic.notify_changed(topic.owner_id, topic.pk)


MEMORY_KINDS = [
    Kind(
        "agents",
        gettext_lazy("agents"),
        memory.Agent,
        key=("name",),
        without=("created", "read_trust", "read_at"),
    ),
    Kind(
        "agent-scopes",
        gettext_lazy("scopes used by agents"),
        memory.AgentScope,
        key=("scope",),
        own_alone=True,
    ),
    Kind("review-levels", gettext_lazy("review rules"), memory.ReviewLevel, key=("kind",)),
    Kind(
        "refused-sources",
        gettext_lazy("blocked sources"),
        memory.RefusedSource,
        key=("kind", "name"),
        own_alone=True,
    ),
    Kind(
        "saved-views",
        gettext_lazy("saved views"),
        memory.SavedView,
        key=("page", "name"),
    ),
    Kind(
        "source-rules",
        gettext_lazy("source rules for all topics"),
        memory.SourceRule,
        key=("place",),
    ),
    Kind(
        "documents",
        gettext_lazy("library documents"),
        memory.LibraryDocument,
        only=Q(path=""),  # the watched folder's documents stay with the folder
    ),
    Kind("topics", gettext_lazy("topics"), memory.Topic, finish=_follow_topics),
    Kind("facts", gettext_lazy("topic facts"), memory.TopicFact),
    Kind(
        "seen-urls",
        gettext_lazy("seen URLs"),
        memory.SeenUrl,
        owner="topic__owner",
        key=("topic_id", "url"),
    ),
    Kind(
        "sources",
        gettext_lazy("sources"),
        memory.Source,
        owner="topic__owner",
        key=("topic_id", "url"),
    ),
    Kind(
        "put-away",
        gettext_lazy("parts of runs in Trash"),
        memory.PutAway,
        key=("record_id",),
    ),
    Kind(
        "sessions",
        gettext_lazy("sessions"),
        memory.Session,
        named={"agent_id": "name"},
        prepare=session_records.end_strangers,
    ),
    Kind(
        "messages",
        gettext_lazy("messages"),
        memory.Message,
        owner="session__owner",
        key=("session_id", "position"),
        citing=("content",),
        problem=session_records.message_problem,
        prepare=session_records.lay_down,
        finish=session_records.lead_home,
    ),
    Kind(
        "content",
        gettext_lazy("content items"),
        memory.ContentItem,
        many=("related_to",),
        problem=item_problem,
        prepare=measure,
        finish=check_relations,
    ),
    Kind(
        "snapshots",
        gettext_lazy("content store snapshots"),
        memory.Snapshot,
        problem=snapshot_problem,
    ),
    Kind(
        "snapshot-items",
        gettext_lazy("snapshot items"),
        memory.SnapshotItem,
        owner="snapshot__owner",
        key=("snapshot_id", "item_id"),
        citing=("item_id", "related_to"),
        problem=item_problem,
        prepare=measure,
    ),
    Kind(
        "notes",
        gettext_lazy("notes"),
        memory.Note,
        problem=_too_long,
        prepare=_make_room,
    ),
    Kind("observations", gettext_lazy("observations"), memory.Observation, problem=_too_long),
    Kind("scratchpad", gettext_lazy("scratchpad entries"), memory.ScratchpadEntry),
    Kind(
        "files",
        gettext_lazy("memory files"),
        memory.MemoryFile,
        problem=problem,
        prepare=make_room,
        finish=finish,
    ),
    Kind(
        "file-entries",
        gettext_lazy("sections in Trash"),
        memory.FileEntry,
        problem=entry_problem,
    ),
    Kind(
        "file-drafts",
        gettext_lazy("memory file drafts"),
        memory.FileDraft,
        problem=session_records.draft_problem,
    ),
    Kind(
        "reflections",
        gettext_lazy("reflections"),
        memory.Reflection,
        key=("source",),
        problem=session_records.reflection_problem,
        prepare=session_records.look_back_no_more,
    ),
    Kind(
        "proposals",
        gettext_lazy("proposals"),
        memory.Proposal,
        problem=session_records.proposal_problem,
        prepare=session_records.say_whose,
    ),
    Kind(
        "conflicts",
        gettext_lazy("conflicts"),
        memory.Conflict,
        citing=("topic_ids",),
        own_alone=True,  # undoing a resolution uses the row's record of its changes
        problem=session_records.conflict_problem,
        prepare=session_records.stand_back,
    ),
    Kind(
        "revisions",
        gettext_lazy("revisions"),
        memory.Revision,
        key=("record_id", "version", "created"),
        problem=session_records.revision_problem,
    ),
    Kind("uses", gettext_lazy("uses in prompts"), memory.Use, key=("record_id", "place")),
    Kind(
        "model-calls",
        gettext_lazy("model calls"),
        memory.ModelCall,
        key=("source", "created", "purpose"),
        own_alone=True,
    ),
    Kind(
        "activity",
        gettext_lazy("activity log entries"),
        memory.Activity,
        key=("created", "kind", "subject_id"),
        own_alone=True,
    ),
]

LEFT_OUT = {
    "memory.ApiToken": "a secret: only its hash is stored, and it only works on this instance",
    "memory.CallReservation": "a reservation for a model call in progress; the call itself is exported",
    "memory.ApiAnswer": "a response kept for a day in case the same request is sent again",
    "memory.SignIn": "the log of a person’s sign-ins to this instance",
    "memory.Invitation": "a one-time link to this instance: only its hash is stored",
    "memory.SearchSpace": "the search index, which is rebuilt from the imported records",
    "memory.SearchEntry": "the search index",
    "memory.SearchTerm": "the search index",
    "memory.Embedding": "recomputed from the text by the importing instance’s embedder",
    "memory.EmbeddingDue": "a record queued for embedding on this instance",
    "memory.BulkAct": "work in progress on this instance’s rows",
    "memory.PublishDue": "an outdated copy in this instance’s Redis",
    "memory.LibraryFolder": "the state of a folder on this machine",
    "memory.Archive": "an export or import itself",
    "memory.Section": "a part of a memory file, recreated from its text on import",
    "memory.MirroredFile": "the state of a folder on this machine",
    "memory.MirrorFolder": "the state of a folder on this machine",
}


def register_kinds() -> None:
    """Register memory's models; called when the app is ready."""
    register(MEMORY_KINDS, LEFT_OUT)
