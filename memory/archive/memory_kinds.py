"""What of memory's models an archive holds, and what not, with the reason."""

from __future__ import annotations

from typing import Any

from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory import models as memory
from memory.actors import SYSTEM
from memory.archive import content_kinds, file_kinds, session_records
from memory.archive.kinds import Kind, register
from memory.models.notes import MOST_CONTENT


def _too_long(row: Any) -> str:
    size = len((getattr(row, "content", "") or "").encode())
    if size <= MOST_CONTENT:
        return ""
    return _("it has %(have)d bytes, and at most %(most)d are kept in one") % {
        "have": size,
        "most": MOST_CONTENT,
    }


def _make_room(note: Any, taking_in: Any) -> None:
    """Let a soul, agent or user note come in beside the one that stands.

    One that nobody has touched since the account was made gives way; before any other the one of
    the archive stands back, as superseded: what is here is never replaced by an import.
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
        gettext_lazy("scopes that agents named"),
        memory.AgentScope,
        key=("scope",),
        own_alone=True,
    ),
    Kind("review-levels", gettext_lazy("review levels"), memory.ReviewLevel, key=("kind",)),
    Kind(
        "refused-sources",
        gettext_lazy("refused sources"),
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
        gettext_lazy("places that all topics block, boost or mute"),
        memory.SourceRule,
        key=("place",),
    ),
    Kind(
        "documents",
        gettext_lazy("documents of the library"),
        memory.LibraryDocument,
        only=Q(path=""),  # the watched folder's are the folder's
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
        gettext_lazy("rows in the trash with a run"),
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
        problem=content_kinds.item_problem,
        prepare=content_kinds.measure,
        finish=content_kinds.check_relations,
    ),
    Kind(
        "snapshots",
        gettext_lazy("snapshots of the content store"),
        memory.Snapshot,
        problem=content_kinds.snapshot_problem,
    ),
    Kind(
        "snapshot-items",
        gettext_lazy("items of snapshots"),
        memory.SnapshotItem,
        owner="snapshot__owner",
        key=("snapshot_id", "item_id"),
        citing=("item_id", "related_to"),
        problem=content_kinds.item_problem,
        prepare=content_kinds.measure,
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
        problem=file_kinds.problem,
        prepare=file_kinds.make_room,
        finish=file_kinds.finish,
    ),
    Kind(
        "file-entries",
        gettext_lazy("sections in the trash"),
        memory.FileEntry,
        problem=file_kinds.entry_problem,
    ),
    Kind(
        "file-drafts",
        gettext_lazy("drafts of memory files"),
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
        own_alone=True,  # what a settling did is taken back by what the row says of it
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
        gettext_lazy("lines of the activity log"),
        memory.Activity,
        key=("created", "kind", "subject_id"),
        own_alone=True,
    ),
]

LEFT_OUT = {
    "memory.ApiToken": "a secret: only its hash is stored, and it opens this Beacon alone",
    "memory.CallReservation": "a call of a model that is under way; the call itself comes along",
    "memory.ApiAnswer": "an answer that waits a day for the same request to be sent again",
    "memory.SignIn": "the log of where a person is signed in here",
    "memory.Invitation": "a one-time link to this Beacon, which only its hash remembers",
    "memory.SearchSpace": "the search index, which is made from the records as they come in",
    "memory.SearchEntry": "the search index",
    "memory.SearchTerm": "the search index",
    "memory.Embedding": "made anew from the words by whatever embedder the other Beacon has",
    "memory.EmbeddingDue": "a record that waits for its vector here",
    "memory.BulkAct": "work in progress on this Beacon's rows",
    "memory.PublishDue": "a copy in this Beacon's Redis that is behind",
    "memory.LibraryFolder": "the state of a folder of this machine",
    "memory.Archive": "an export or import itself",
    "memory.Section": "a part of a memory file, made from its text as it comes in",
    "memory.MirroredFile": "the state of a folder of this machine",
    "memory.MirrorFolder": "the state of a folder of this machine",
}


def register_kinds() -> None:
    """Put memory's models on the list; called once the app is ready."""
    register(MEMORY_KINDS, LEFT_OUT)
