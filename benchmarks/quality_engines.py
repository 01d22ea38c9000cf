"""The engines that recall_quality.py compares: Beacon's own recall, and what people use today.

An engine has `index(docs)` and `search(question, k) -> ids`, best first.  Those of others need
their packages; `available()` leaves out what is not installed.
"""

from __future__ import annotations

import re
import sqlite3
import uuid
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

Doc = dict[str, Any]
_WORD = re.compile(r"[a-z0-9]+")


class Engine(Protocol):
    """Whatever can be asked."""

    def index(self, docs: list[Doc]) -> None:
        """Take the documents in."""
        ...

    def search(self, question: str, k: int) -> list[str]:
        """Return at most k ids, best first."""
        ...


# --- Beacon ---------------------------------------------------------------------------------------


class Space:
    """One collection as the notes of one owner, with their vectors where they are wanted."""

    def __init__(self, docs: list[Doc], *, with_vectors: bool) -> None:
        from django.contrib.auth import get_user_model

        from memory.models import Embedding, Note, accounts
        from memory.services.search import embedding

        accounts.ON_ACCOUNT_CREATE[
            :
        ] = []  # the notes of this owner are only those of the collection
        self.owner = get_user_model().objects.create_user(uuid.uuid4().hex)
        self.ids = {doc["id"]: uuid.uuid4() for doc in docs}
        self.names = {pk: name for name, pk in self.ids.items()}
        notes = [
            Note(
                pk=self.ids[doc["id"]],
                owner=self.owner,
                content=doc["text"].replace("\x00", ""),
                source=doc.get("who", "explicit"),
            )
            for doc in docs
        ]
        Note.objects.bulk_create(notes, batch_size=1000)
        for start in range(0, len(notes), 500):
            Note.follow(notes[start : start + 500])
        for doc in docs:
            if heir := doc.get("superseded_by"):
                Note.objects.filter(pk=self.ids[doc["id"]]).update(superseded_by=self.ids[heir])
        Note.follow(Note.objects.for_user(self.owner).exclude(superseded_by=None))
        if with_vectors:
            embedding.process_due(seconds=24 * 3600)
        self.vectors = {
            self.names[pk]: values
            for pk, values in Embedding.objects.for_user(self.owner).values_list(
                "object_id", "values"
            )
        }


class Beacon:
    """recall() itself, in one of its modes."""

    def __init__(self, mode: str, space: Space) -> None:
        self.mode, self.space = mode, space

    def index(self, docs: list[Doc]) -> None:
        """The space holds them."""

    def search(self, question: str, k: int) -> list[str]:
        """Return what recall finds."""
        from memory.services.search.recall import recall

        hits = recall(self.space.owner, question, self.mode, types=("note",), limit=k)
        return [self.space.names[hit.id] for hit in hits]


# --- others ---------------------------------------------------------------------------------------


class Bm25s:
    """bm25s: BM25 as Lucene has it, English stems and stop words, its own constants."""

    def index(self, docs: list[Doc]) -> None:
        """Build its matrix."""
        import bm25s

        self.ids = [doc["id"] for doc in docs]
        self.model = bm25s.BM25(method="lucene")
        self.model.index(self._tokens([doc["text"] for doc in docs]), show_progress=False)

    def search(self, question: str, k: int) -> list[str]:
        """Return what scores above 0."""
        tokens = self._tokens([question])
        if not tokens.vocab:
            return []
        most = min(k, len(self.ids))
        found, scores = self.model.retrieve(tokens, k=most, show_progress=False)
        return [self.ids[n] for n, score in zip(found[0], scores[0], strict=True) if score > 0]

    def _tokens(self, texts: list[str]) -> Any:
        import bm25s
        import Stemmer

        stemmer = Stemmer.Stemmer("english")
        return bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)


class Tantivy:
    """tantivy with English stems."""

    def index(self, docs: list[Doc]) -> None:
        """Write its index in memory."""
        import tantivy

        schema = tantivy.SchemaBuilder()
        schema.add_text_field("body", stored=False, tokenizer_name="en_stem")
        schema.add_text_field("ident", stored=True, tokenizer_name="raw")
        self.store = tantivy.Index(schema.build())
        writer = self.store.writer(heap_size=64_000_000, num_threads=1)
        for doc in docs:
            writer.add_document(tantivy.Document(body=doc["text"], ident=doc["id"]))
        writer.commit()
        writer.wait_merging_threads()
        self.store.reload()
        self.searcher = self.store.searcher()

    def search(self, question: str, k: int) -> list[str]:
        """Ask for any of the words."""
        words = " ".join(_WORD.findall(question.lower()))
        if not words:
            return []
        hits = self.searcher.search(self.store.parse_query(words, ["body"]), k).hits
        return [self.searcher.doc(address)["ident"][0] for _score, address in hits]


class Fts5:
    """SQLite's own full-text search, Porter stems, any of the words."""

    def index(self, docs: list[Doc]) -> None:
        """Fill a table in memory."""
        self.db = sqlite3.connect(":memory:")
        self.db.execute(
            "create virtual table m using fts5(ident unindexed, body, tokenize='porter unicode61')"
        )
        self.db.executemany("insert into m values (?, ?)", [(d["id"], d["text"]) for d in docs])

    def search(self, question: str, k: int) -> list[str]:
        """Ask by bm25()."""
        words = dict.fromkeys(_WORD.findall(question.lower()))
        match = " OR ".join(f'"{word}"' for word in words)
        asked = "select ident from m where m match ? order by bm25(m), rowid limit ?"
        return [row[0] for row in self.db.execute(asked, (match, k))] if words else []


class TsRank:
    """Postgres' own ts_rank, any of the words; `norm` 1 divides by the length's logarithm."""

    def __init__(self, norm: int = 0) -> None:
        self.norm = norm

    def index(self, docs: list[Doc]) -> None:
        """Fill a table of this session."""
        from django.db import connection

        self.cursor = connection.cursor()
        self.cursor.execute("DROP TABLE IF EXISTS rival")
        self.cursor.execute("CREATE TEMP TABLE rival (n int, ident text, v tsvector)")
        for n, doc in enumerate(docs):
            self.cursor.execute(
                "INSERT INTO rival VALUES (%s, %s, to_tsvector('english', %s))",
                [n, doc["id"], doc["text"].replace("\x00", "")],
            )
        self.cursor.execute("CREATE INDEX ON rival USING gin (v)")
        self.cursor.execute("ANALYZE rival")

    def search(self, question: str, k: int) -> list[str]:
        """Ask for any of the words."""
        self.cursor.execute(
            "WITH q AS MATERIALIZED (SELECT replace(plainto_tsquery('english', %s)::text, "
            "'&', '|')::tsquery AS t) SELECT ident FROM rival, q WHERE v @@ q.t "
            "ORDER BY ts_rank(v, q.t, %s) DESC, n LIMIT %s",
            [question, self.norm, k],
        )
        return [row[0] for row in self.cursor.fetchall()]


class MiniLm:
    """The local embedder's vectors without words, compared with each one."""

    def __init__(self, space: Space) -> None:
        self.space = space

    def index(self, docs: list[Doc]) -> None:
        """Stack the vectors that the space has."""
        import numpy as np

        from memory.services.llm import connections

        self.embedder = connections.embedder()
        self.ids = [doc["id"] for doc in docs if doc["id"] in self.space.vectors]
        self.matrix = np.array([self.space.vectors[name] for name in self.ids], dtype=np.float32)

    def search(self, question: str, k: int) -> list[str]:
        """Return the nearest."""
        import numpy as np

        assert self.embedder is not None
        scores = self.matrix @ np.array(self.embedder.embed([question])[0], dtype=np.float32)
        return [self.ids[n] for n in np.argsort(-scores, kind="stable")[:k]]


class RankFusion:
    """Reciprocal rank fusion of two engines: the sum of 1 / (60 + rank)."""

    def __init__(self, *engines: Engine) -> None:
        self.engines = engines

    def index(self, docs: list[Doc]) -> None:
        """Let each take the documents in."""
        for engine in self.engines:
            engine.index(docs)

    def search(self, question: str, k: int) -> list[str]:
        """Fuse the best hundred of each."""
        total: dict[str, float] = {}
        for engine in self.engines:
            for rank, name in enumerate(engine.search(question, 100), 1):
                total[name] = total.get(name, 0.0) + 1 / (60 + rank)
        return sorted(total, key=lambda name: -total[name])[:k]


LEXICAL_RIVALS: dict[str, tuple[Callable[[], Engine], Sequence[str]]] = {
    "bm25s": (Bm25s, ("bm25s", "Stemmer")),
    "tantivy": (Tantivy, ("tantivy",)),
    "SQLite FTS5": (Fts5, ()),
    "Postgres ts_rank, OR": (TsRank, ()),
    "Postgres ts_rank, OR, by length": (lambda: TsRank(1), ()),
}


def missing() -> list[str]:
    """Return the rivals whose packages are not installed."""
    return [
        name
        for name, (_make, needs) in LEXICAL_RIVALS.items()
        if not all(find_spec(package) for package in needs)
    ]
