"""All models of memory, by noun family."""

from __future__ import annotations

from memory.models.agents import Agent, AgentScope, ApiToken
from memory.models.api import ApiAnswer
from memory.models.archives import Archive
from memory.models.base import Lock, Remembered, Sensitivity, Trust
from memory.models.bulk_acts import BulkAct
from memory.models.conflicts import Conflict
from memory.models.connections import Connection
from memory.models.content import ContentItem, Snapshot, SnapshotItem
from memory.models.embeddings import Embedding, EmbeddingDue
from memory.models.file_entries import FileEntry
from memory.models.files import FileDraft, MemoryFile, MirroredFile, Section
from memory.models.history import Activity, ModelCall, Revision, Use
from memory.models.library import LibraryDocument, LibraryFolder
from memory.models.mirror_folder import MirrorFolder
from memory.models.notes import Note
from memory.models.observations import Observation
from memory.models.proposals import Proposal, ReviewLevel
from memory.models.publish_due import PublishDue
from memory.models.reflections import Reflection
from memory.models.refused_sources import RefusedSource
from memory.models.reservations import CallReservation
from memory.models.saved_views import SavedView
from memory.models.scratchpad import ScratchpadEntry
from memory.models.search import SearchEntry, SearchSpace, SearchTerm
from memory.models.searchable import Recalled
from memory.models.sessions import Message, Session
from memory.models.source_rules import SourceRule
from memory.models.sources import SeenUrl, Source
from memory.models.topic_facts import TopicFact
from memory.models.topics import Topic
from memory.models.trash import PutAway
from memory.models.users import Invitation, SignIn, User

__all__ = [
    "Activity",
    "Agent",
    "AgentScope",
    "ApiAnswer",
    "ApiToken",
    "Archive",
    "BulkAct",
    "CallReservation",
    "Conflict",
    "Connection",
    "ContentItem",
    "Embedding",
    "EmbeddingDue",
    "FileDraft",
    "FileEntry",
    "Invitation",
    "LibraryDocument",
    "LibraryFolder",
    "Lock",
    "MemoryFile",
    "Message",
    "MirrorFolder",
    "MirroredFile",
    "ModelCall",
    "Note",
    "Observation",
    "Proposal",
    "PublishDue",
    "PutAway",
    "Recalled",
    "Reflection",
    "RefusedSource",
    "Remembered",
    "ReviewLevel",
    "Revision",
    "SavedView",
    "ScratchpadEntry",
    "SearchEntry",
    "SearchSpace",
    "SearchTerm",
    "Section",
    "SeenUrl",
    "Sensitivity",
    "Session",
    "SignIn",
    "Snapshot",
    "SnapshotItem",
    "Source",
    "SourceRule",
    "Topic",
    "TopicFact",
    "Trust",
    "Use",
    "User",
]
