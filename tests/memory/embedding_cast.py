"""Records and a scripted embedder, for the tests of vectors."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from memory.models import Note
from memory.services.llm import connections
from memory.services.search import embedding
from memory.services.search.vectors import (
    Neighbor,
    Unavailable,
    VectorQuery,
    nearest_each,
    recalled_models,
)
from tests.providers.fakes import FakeEmbedder


def use(monkeypatch: pytest.MonkeyPatch, embedder: FakeEmbedder | None) -> None:
    """Let this be the embedder."""
    monkeypatch.setattr(connections, "embedder", lambda **_more: embedder)
    monkeypatch.setattr(embedding, "_nudge", lambda: None)


def note(owner: Any, content: str, **more: Any) -> Note:
    """A note as a person writes it, without the rules of kinds."""
    made = Note.objects.create(owner=owner, content=content, **more)
    Note.follow([made])
    return made


def nearest(
    owner: Any, text: str, types: list[str], limit: int, **more: Any
) -> list[Neighbor] | Unavailable:
    """The records nearest to a text, or why there is no vector search."""
    models = recalled_models()
    allowed = {name: models[name]._default_manager.all() for name in types}
    look = VectorQuery(allowed | more.pop("allowed", {}), **more)
    try:
        return nearest_each(owner, text, [look], limit)[0]
    except Unavailable as exc:
        return exc


def near(owner: Any, text: str, **more: Any) -> list[Any]:
    """The ids of the notes nearest to a text; the retriever must be there."""
    found = nearest(owner, text, ["note"], more.pop("limit", 10), **more)
    assert not isinstance(found, Unavailable), found
    return [one.id for one in found]


def drop_vectors() -> None:
    """Leave the database as it was before it compared vectors."""
    with connection.cursor() as cursor:
        cursor.execute("DROP EXTENSION IF EXISTS vector CASCADE")
        cursor.execute("SELECT tablename FROM pg_tables WHERE tablename ~ '^embedding_[0-9]+$'")
        for (table,) in cursor.fetchall():
            cursor.execute(f'DROP TABLE "{table}"')
        cursor.execute("DROP FUNCTION IF EXISTS memory_embedding_follow CASCADE")
