"""Other search engines with a common interface, for the benchmark of recall's speed."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol


class Engine(Protocol):
    """What the benchmark asks of an engine."""

    def index(self, texts: list[str]) -> None:
        """Take in the texts, numbered in their order."""

    def search(self, question: str) -> list[int]:
        """Return the numbers of the ten best."""

    # Takes in some more and commits them; None for one that must be rebuilt.
    add: Callable[[Sequence[str]], None] | None

    def megabytes(self) -> float:
        """Return how large the index is on disk; 0 for one in memory."""

    def close(self) -> None:
        """Let go of it."""


class _OnDisk:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="beacon-bench-"))

    def megabytes(self) -> float:
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file()) / 1e6

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class Bm25s:
    """bm25s: numpy matrices in memory, built once and for all; English stems."""

    def __init__(self) -> None:
        import bm25s
        import Stemmer

        self.library = bm25s
        self.stemmer = Stemmer.Stemmer("english")
        self.found: Any = None
        self.add = None

    def _tokens(self, texts: list[str]) -> Any:
        return self.library.tokenize(
            texts, stopwords="en", stemmer=self.stemmer, show_progress=False
        )

    def index(self, texts: list[str]) -> None:
        """Build the matrices."""
        self.found = self.library.BM25(method="lucene", k1=1.2, b=0.75)
        self.found.index(self._tokens(texts), show_progress=False)

    def search(self, question: str) -> list[int]:
        """Return the ten best."""
        ids, _scores = self.found.retrieve(self._tokens([question]), k=10, show_progress=False)
        return [int(number) for number in ids[0]]

    def megabytes(self) -> float:
        """Return 0: it is in memory."""
        return 0.0

    def close(self) -> None:
        """Let go of the matrices."""
        self.found = None


class Tantivy(_OnDisk):
    """tantivy on disk, English stems, words joined by OR."""

    def __init__(self) -> None:
        import tantivy

        super().__init__()
        self.library = tantivy
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("text", stored=False, tokenizer_name="en_stem")
        builder.add_unsigned_field("number", stored=True)
        self.found = tantivy.Index(builder.build(), path=str(self.folder))

    def index(self, texts: list[str]) -> None:
        """Write and commit all."""
        writer = self.found.writer()
        for number, text in enumerate(texts):
            writer.add_document(self.library.Document(text=text, number=number))
        writer.commit()
        writer.wait_merging_threads()
        self.found.reload()
        self.writer: Any = None

    def add(self, texts: Sequence[str]) -> None:
        """Write and commit some more, with one writer kept open."""
        self.writer = self.writer or self.found.writer()
        for text in texts:
            self.writer.add_document(self.library.Document(text=text, number=0))
        self.writer.commit()

    def search(self, question: str) -> list[int]:
        """Return the ten best."""
        searcher = self.found.searcher()
        asked, _problems = self.found.parse_query_lenient(question, ["text"])
        hits = searcher.search(asked, 10).hits
        return [searcher.doc(address)["number"][0] for _score, address in hits]


class Fts5(_OnDisk):
    """SQLite's FTS5 on disk with the porter stemmer, words joined by OR."""

    def __init__(self) -> None:
        super().__init__()
        self.found = sqlite3.connect(self.folder / "fts.db")
        self.found.execute("CREATE VIRTUAL TABLE t USING fts5(text, tokenize='porter')")

    def index(self, texts: list[str]) -> None:
        """Write and commit all."""
        self.add(texts)

    def add(self, texts: Sequence[str]) -> None:
        """Write and commit some more."""
        with self.found:
            self.found.executemany("INSERT INTO t (text) VALUES (?)", ((text,) for text in texts))

    def search(self, question: str) -> list[int]:
        """Return the ten best."""
        words = ["".join(c for c in word if c.isalnum()) for word in question.split()]
        asked = " OR ".join(f'"{word}"' for word in words if word)
        rows = self.found.execute(
            "SELECT rowid FROM t WHERE t MATCH ? ORDER BY bm25(t) LIMIT 10", [asked]
        )
        return [row[0] for row in rows]

    def close(self) -> None:
        """Close the file, and remove it."""
        self.found.close()
        super().close()


ENGINES: dict[str, Callable[[], Engine]] = {
    "bm25s": Bm25s,
    "tantivy": Tantivy,
    "SQLite FTS5": Fts5,
}
