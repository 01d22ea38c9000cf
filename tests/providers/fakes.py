"""Scripted fakes of the providers, for tests and benchmarks.

Enqueued answers are returned in order, and enqueued exceptions raised.  `history` has the calls.
All fakes are safe to use from several threads.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Generic, TypeVar

from pydantic import BaseModel

from beacon_site.net.errors import ProviderNonsense, ProviderRejected
from beacon_site.net.extract import PagePart
from beacon_site.net.fetch import WebPage
from beacon_site.providers.llm.base import Answer, LlmProfile, Message, OnText, Tool, unit_vectors
from beacon_site.providers.llm.openai_reply import estimate
from beacon_site.providers.llm.structured import SchemaMismatch, parse_answer
from beacon_site.providers.search.base import SearchHit, SearchOptions

T = TypeVar("T")

FAKE_PROFILE = LlmProfile(
    base_url="http://fake.invalid/v1", model="fake", price_in=Decimal(0), price_out=Decimal(0)
)


class NoAnswerQueued(LookupError):
    """A fake got more calls than it has answers, which is a mistake in the test."""


class _Script(Generic[T]):
    """The answers still to be given, in order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[T | BaseException] = deque()

    def add(self, items: Sequence[T | BaseException]) -> None:
        with self._lock:
            self._waiting.extend(items)

    def next(self) -> T | None:
        """Return the next item, None if there is none; raise it if it is an exception."""
        with self._lock:
            item = self._waiting.popleft() if self._waiting else None
        if isinstance(item, BaseException):
            raise item
        return item


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One question to a FakeLanguageModel."""

    messages: tuple[Message, ...]
    max_tokens: int
    schema: type[BaseModel] | None
    tools: tuple[Tool, ...] = ()

    @property
    def prompt(self) -> str:
        """Return the texts of all messages, one per line."""
        return "\n".join(message.content for message in self.messages)


Said = str | dict[str, object] | BaseModel | Answer


class FakeLanguageModel:
    """A LanguageModel with scripted answers.

    An answer is a text, a dictionary or pydantic object (sent as JSON), a whole Answer, or an
    exception.  With a schema it is validated like a real one, and ProviderNonsense is raised if it
    doesn't fit.  `default` is the answer when nothing is enqueued; without it, NoAnswerQueued is
    raised.  Usage is counted by characters.

    Listeners get the text in `pieces` steps, with `pace` seconds before each.
    """

    def __init__(
        self,
        *answers: Said | BaseException,
        profile: LlmProfile = FAKE_PROFILE,
        default: Said | None = None,
        pieces: int = 4,
        pace: float = 0.0,
    ) -> None:
        self.profile = profile
        self.pieces = pieces
        self.pace = pace
        self.history: list[RecordedCall] = []
        self._default = default
        self._script: _Script[Said] = _Script()
        self._script.add(answers)

    def enqueue(self, *answers: Said | BaseException) -> None:
        """Add answers for the next questions, in order."""
        self._script.add(answers)

    def ask(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int = 1024,
        schema: type[BaseModel] | None = None,
        on_text: OnText | None = None,
        tools: Sequence[Tool] = (),
    ) -> Answer:
        """Return the next answer; see LanguageModel.ask."""
        self.history.append(RecordedCall(tuple(messages), max_tokens, schema, tuple(tools)))
        said = self._script.next()
        said = self._default if said is None else said
        if said is None:
            raise NoAnswerQueued(f"question {len(self.history)} has no answer enqueued")
        answer = self._answer(messages, said)
        if on_text is not None:
            self._tell(answer.text, on_text)
        if schema is None or answer.parsed is not None or answer.tool_calls:
            return answer
        try:
            return replace(answer, parsed=parse_answer(answer.text, schema))
        except SchemaMismatch as exc:
            raise ProviderNonsense(
                str(exc),
                text=answer.text,
                prompt_tokens=answer.usage.prompt_tokens,
                completion_tokens=answer.usage.completion_tokens,
            ) from None

    def _tell(self, text: str, on_text: OnText) -> None:
        size = max(1, -(-len(text) // max(1, self.pieces)))
        for end in range(size, len(text) + size, size):
            time.sleep(self.pace)
            on_text(text[:end])

    def _answer(self, messages: Sequence[Message], said: Said) -> Answer:
        if isinstance(said, Answer):
            return said
        if isinstance(said, BaseModel):
            text = said.model_dump_json()
        else:
            text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
        return Answer(text, estimate(messages, text), self.profile.model, "stop")


@dataclass(frozen=True, slots=True)
class RecordedSearch:
    """One question to a FakeSearch."""

    query: str
    options: SearchOptions


class FakeSearch:
    """A SearchProvider with scripted hits.

    `hits` is a list for every query, or a dictionary from query to list.  Enqueued lists and
    exceptions come first.  Otherwise it finds nothing.  A hit can be just its URL.
    """

    def __init__(
        self,
        hits: Mapping[str, Sequence[SearchHit | str]] | Sequence[SearchHit | str] = (),
        *,
        service: str = "fake",
    ) -> None:
        self.service = service
        self.history: list[RecordedSearch] = []
        self._hits = hits
        self._script: _Script[Sequence[SearchHit | str]] = _Script()

    @property
    def asked(self) -> list[str]:
        """Return the queries, in order."""
        return [call.query for call in self.history]

    def enqueue(self, *answers: Sequence[SearchHit | str] | BaseException) -> None:
        """Add lists of hits, or exceptions, for the next queries, in order."""
        self._script.add(answers)

    def search(self, query: str, options: SearchOptions) -> list[SearchHit]:
        """Return at most `options.limit` of the hits for `query`, ranked as given."""
        self.history.append(RecordedSearch(query, options))
        found = self._script.next()
        if found is None:
            every = self._hits
            found = every.get(query, ()) if isinstance(every, Mapping) else every
        return [self._hit(hit, rank) for rank, hit in enumerate(found[: options.limit], 1)]

    def _hit(self, hit: SearchHit | str, rank: int) -> SearchHit:
        made = SearchHit(url=hit, title=hit) if isinstance(hit, str) else hit
        return replace(made, service=made.service or self.service, rank=made.rank or rank)


class FakeFetcher:
    """A PageFetcher with a dictionary from URL to text, WebPage or exception.

    Enqueued items come first.  An unknown URL raises ProviderRejected, like a 404.
    """

    def __init__(self, pages: Mapping[str, str | WebPage | BaseException] | None = None) -> None:
        self.pages = dict(pages or {})
        self.history: list[str] = []
        self._script: _Script[str | WebPage] = _Script()

    def enqueue(self, *answers: str | WebPage | BaseException) -> None:
        """Add pages, or exceptions, for the next fetches of any URL."""
        self._script.add(answers)

    def fetch(self, url: str, *, part: PagePart | None = None) -> WebPage:
        """Return the page of `url`; the first line of a text is its title.

        A part of a page has its own text, at `url | part`.
        """
        self.history.append(url)
        url = url if part is None else f"{url} | {part}"
        found = self._script.next() or self.pages.get(url)
        if isinstance(found, BaseException):
            raise found
        if found is None:
            raise ProviderRejected(f"The fake has no page {url}.")
        if isinstance(found, WebPage):
            return found
        title = found.strip().partition("\n")[0][:200]
        return WebPage(
            url=url,
            final_url=url,
            title=title,
            text=found,
            content_type="text/plain",
        )


class FakeEmbedder:
    """An Embedder whose vectors are close if texts share words.

    Each word has its own direction, derived from its hash, and a text's vector is their sum.
    `alike` names words that share a direction ({"car": "automobile"}).  Enqueued vectors and
    exceptions come first.
    """

    def __init__(
        self,
        *,
        model: str = "fake-embedder",
        dimensions: int = 16,
        is_local: bool = False,
        alike: Mapping[str, str] | None = None,
    ) -> None:
        self.model = model
        self.dimensions = dimensions
        self.is_local = is_local
        self.history: list[list[str]] = []
        self._alike = dict(alike or {})
        self._script: _Script[list[list[float]]] = _Script()

    @property
    def asked(self) -> list[str]:
        """Return all texts that were embedded, in order."""
        return [text for texts in self.history for text in texts]

    def enqueue(self, *answers: list[list[float]] | BaseException) -> None:
        """Add vectors, or exceptions, for the next calls, in order."""
        self._script.add(answers)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.history.append(list(texts))
        told = self._script.next()
        vectors: list[list[float]] = [self._vector(text) for text in texts]
        made = vectors if told is None else told
        return unit_vectors(made, count=len(texts), dimensions=self.dimensions, who=self.model)

    def _vector(self, text: str) -> list[float]:
        total = [1e-6] * self.dimensions
        for word in text.lower().split():
            seed = self._alike.get(word, word).encode()
            digest = hashlib.shake_256(seed).digest(self.dimensions)
            total = [figure + byte - 127.5 for figure, byte in zip(total, digest, strict=True)]
        return total
