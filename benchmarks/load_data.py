"""The data of benchmarks/load.py: one person's years of memory, created by bulk statements."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks import files, list_page, many_topics

FILE_SIZE = 6_000
CSRF = "l" * 32
QUESTIONS = [f"w{n}" for n in (40, 90, 300, 900, 3000)] + [
    "w40 w90",
    "w300 w12 w700",
    "w2 w5 w11 w60",
]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much there is."""

    notes: int = 100_000
    topics: int = 500
    runs: int = 10_000
    files: int = 20
    revisions: int = 2_000

    @classmethod
    def quick(cls) -> Sizes:
        """Return a size that is made in seconds."""
        return cls(notes=5_000, topics=50, runs=500, files=20, revisions=50)


@dataclass
class World:
    """What was made, and where it is found."""

    owner: Any
    topics: list[Any]
    given: dict[str, Any] = field(default_factory=dict)
    place: Path = Path()

    def give(self, **more: Any) -> None:
        """Send the Locust users another message."""
        self.given |= more
        self.place.write_text(json.dumps(self.given))


def make(sizes: Sizes, folder: Path, base: str) -> World:
    """Fill the database and return what the users need to know of it."""
    from django.contrib.auth import get_user_model
    from django.db import connection

    owner = get_user_model().objects.create_user("bench", password="bench-horse-1")  # noqa: S106
    began = time.monotonic()
    topics = many_topics.grow(owner, sizes.topics, sizes.runs // sizes.topics)
    list_page.grow(owner, [topic.pk for topic in topics[:40]], 1, sizes.notes)
    paths = _files(owner, sizes)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    print(f"{sizes}\nmade in {time.monotonic() - began:.0f} s", flush=True)
    world = World(owner, topics, place=folder / "given.json")
    world.give(
        base=base,
        session=_session(owner),
        token=_token(owner),
        csrf=CSRF,
        window="6f9619ff-8b86-4d01-b42d-00cf4fc964ff",
        saved=str(folder / "saved.txt"),
        questions=QUESTIONS,
        files=[f"/files/{path}/" for path in paths],
        pages=_pages(owner, topics, paths),
    )
    return world


def _files(owner: Any, sizes: Sizes) -> list[str]:
    from memory.services.files.saving import save_file

    months = [f"{2024 + n // 12}-{n % 12 + 1:02}" for n in range(sizes.files)]
    paths = [f"episodes/{month}.md" for month in months]
    for n, (month, path) in enumerate(zip(months, paths, strict=True)):
        text = files.text_of(n, FILE_SIZE).replace("2026-02", month)
        files.give_revisions(save_file(owner, path, text, by=owner.actor).file, sizes.revisions)
    return paths


def _session(owner: Any) -> str:
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.sessions.backends.db import SessionStore

    session = SessionStore()
    session[SESSION_KEY] = str(owner.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = owner.get_session_auth_hash()
    session.create()
    return str(session.session_key)


def _token(owner: Any) -> str:
    from memory.accounts.tokens import issue

    return issue(owner, name="load", scopes=["read", "write"], by=owner.actor)[1]


def _pages(owner: Any, topics: list[Any], paths: list[str]) -> dict[str, list[str]]:
    """Return the addresses of the mix, by kind: lists, searches, and single things."""
    from memory.models import Note
    from research.models import Run

    notes = Note.objects.for_user(owner).filter(trashed_at=None)[:50].values_list("pk", flat=True)
    runs = Run.objects.filter(topic__in=topics[:50]).order_by("?")[:50].select_related("topic")
    return {
        "Home": ["/"],
        "list of notes": ["/notes/", "/notes/?sort=changed", "/notes/?q=kind:rule"],
        "list of topics": ["/topics/"],
        "list of reports": ["/reports/"],
        "activity": ["/activity/"],
        "search in notes": [f"/notes/?q={words}" for words in ("w40", "w900", "w12+w700")],
        "recall": [f"/memory/?q={words}" for words in ("w40", "w3000", "w300+w90")],
        "a note": [f"/notes/{pk}/" for pk in notes],
        "a topic": [f"/topics/{topic.slug}/" for topic in topics[:50]],
        "a report": [f"/topics/{run.topic.slug}/runs/{run.pk}/" for run in runs],
        "a file": [f"/files/{path}/" for path in paths],
    }


def watched_runs(world: World) -> list[Any]:
    """Return running runs, which no worker holds and whose lease lasts: pages to poll."""
    from django.utils import timezone

    from research.models import Run

    now = timezone.now()
    runs = Run.objects.bulk_create(
        Run(
            topic=topic,
            actor=str(world.owner.actor),
            status=Run.Status.RUNNING,
            started_at=now,
            heartbeat_at=now,
            lease_until=now + timedelta(hours=2),
        )
        for topic in world.topics[-5:]
    )
    polls = [f"/topics/{r.topic.slug}/runs/{r.pk}/progress/?seen={r.progress}" for r in runs]
    world.give(polls=polls)
    return runs


def lost_saves(world: World) -> tuple[int, int]:
    """Return how many saves were accepted, and how many of them are in no version of their file."""
    from memory.models import MemoryFile, Revision

    kept = Path(world.given["saved"])
    lines = [line.split() for line in kept.read_text().splitlines()] if kept.exists() else []
    newest: Mapping[str, str] = {
        f"/files/{file.path}/edit/": file.content
        for file in MemoryFile.objects.filter(owner=world.owner)
    }
    missing = [mark for path, mark in lines if mark not in newest.get(path, "")]
    # What a later person took out again was not lost: it is in the history.
    return len(lines), sum(
        not Revision.objects.filter(owner=world.owner, after__content__contains=mark).exists()
        for mark in missing
    )
