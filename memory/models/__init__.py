"""All models of the memory app."""

from __future__ import annotations

from memory.models.accounts import (
    Agent,
    AgentScope,
    ApiAnswer,
    ApiToken,
    Invitation,
    OAuthClient,
    OAuthGrant,
    SignIn,
    User,
)
from memory.models.archive import Archive, BackupFile, BackupPlan
from memory.models.chat import Message, Reflection, Session
from memory.models.conflicts import Conflict
from memory.models.content import ContentItem, ScratchpadEntry, Snapshot, SnapshotItem
from memory.models.files import (
    FileDraft,
    FileEntry,
    MemoryFile,
    MirroredFile,
    MirrorFolder,
    MountedFolder,
    Section,
)
from memory.models.history import Activity, CallReservation, ModelCall, Revision, Undo, Use
from memory.models.library import LibraryDocument, LibraryFolder
from memory.models.llm import Connection, OwnKey
from memory.models.notes import Note
from memory.models.observations import Observation
from memory.models.proposals import Proposal, RefusedSource, ReviewLevel
from memory.models.ratings import Rating
from memory.models.records import BulkAction, NameAlias, SavedView
from memory.models.remembered import Lock, Remembered, Sensitivity, TrashedRows, Trust
from memory.models.search_index import (
    Embedding,
    EmbeddingDue,
    Recalled,
    SearchEntry,
    SearchSpace,
    SearchTerm,
)
from memory.models.topic_facts import TopicFact
from memory.models.topics import Membership, PublishDue, SeenUrl, Source, SourceRule, Topic
