"""Several recalls of the same words at once: the answers of each by itself, and fewer questions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memory.models import Note
from memory.services.search.query import Filter, Question
from memory.services.search.recall import RecallHit, recall, recall_each
from memory.tasks import embed_due
from tests.memory.embedding_cast import note

WORDS = "the car was dear"
pytestmark = pytest.mark.usefixtures("fake", "extension")


@pytest.fixture
def notes(alice: Any) -> list[Note]:
    """Notes of two kinds, found by words and by meaning; one expired, one superseded by another."""
    made = [
        note(alice, f"{words} {n}", kind=kind)
        for kind in ("rule", "summary")
        for n, words in enumerate(("car", "the automobile", "a dear car", "tea"))
    ]
    note(alice, "a car of long ago", kind="rule", expires_at=timezone.now() - timedelta(days=1))
    old = note(alice, "the old dear car", kind="summary", superseded_by=made[7])
    Note.follow([old])
    embed_due()
    return made


def _of_kind(kind: str) -> Question:
    return Question(WORDS, WORDS, filters=(Filter("kind", (kind,)),))


def _told(hits: list[RecallHit]) -> list[Any]:
    return [
        (one.id, one.score, one.retrievers, one.explanation, one.replaces, one.content)
        for one in hits
    ]


@pytest.mark.parametrize("mode", ["auto", "lexical", "exact"])
@pytest.mark.usefixtures("notes")
def test_each_has_the_answer_that_it_has_by_itself(alice: Any, mode: str) -> None:
    asked = [_of_kind("rule"), _of_kind("summary"), Question(WORDS, WORDS)]

    together = recall_each(alice, asked, mode, limit=5)

    alone = [recall(alice, one, mode, limit=5) for one in asked]
    assert [_told(page.hits) for page in together] == [_told(hits) for hits in alone]
    assert all(page.hits for page in together)


@pytest.mark.usefixtures("notes")
def test_two_ask_little_more_than_one(alice: Any) -> None:
    counts = []
    for asked in ([_of_kind("rule")], [_of_kind("rule"), _of_kind("log")]):
        recall_each(alice, asked)
        with CaptureQueriesContext(connection) as queries:
            recall_each(alice, asked)
        counts.append(len(queries))

    # Each is asked for records near in meaning: the current one, and the superseded one.
    assert counts[1] - counts[0] <= 3


def test_words_that_differ_are_refused(alice: Any) -> None:
    with pytest.raises(ValueError, match="same words"):
        recall_each(alice, ["car", "tea"])
