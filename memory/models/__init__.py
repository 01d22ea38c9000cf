"""All models of memory, by noun family."""

from __future__ import annotations

from memory.models.agents import Agent, ApiToken
from memory.models.base import Lock, Remembered, Sensitivity, Trust
from memory.models.connections import Connection
from memory.models.content import ContentItem
from memory.models.history import Activity, ModelCall, Revision, Use
from memory.models.library import LibraryDocument, LibraryFolder
from memory.models.proposals import Proposal, ReviewLevel
from memory.models.publish_due import PublishDue
from memory.models.search import SearchEntry, SearchSpace, SearchTerm
from memory.models.sessions import Message, Session
from memory.models.sources import SeenUrl, Source
from memory.models.topic_facts import TopicFact
from memory.models.topics import Topic
from memory.models.users import Invitation, SignIn, User

__all__ = [
    "Activity",
    "Agent",
    "ApiToken",
    "Connection",
    "ContentItem",
    "Invitation",
    "LibraryDocument",
    "LibraryFolder",
    "Lock",
    "Message",
    "ModelCall",
    "Proposal",
    "PublishDue",
    "Remembered",
    "ReviewLevel",
    "Revision",
    "SearchEntry",
    "SearchSpace",
    "SearchTerm",
    "SeenUrl",
    "Sensitivity",
    "Session",
    "SignIn",
    "Source",
    "Topic",
    "TopicFact",
    "Trust",
    "Use",
    "User",
]
