"""The interfaces of language models and embedders, and their data.

Embedders turn texts into vectors that are close if the meanings are. All vectors have length 1, so
that distances mean the same for every model: 0 is the same, 2 the opposite (L2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

from pydantic import BaseModel

from beacon_site.net.errors import ProviderNonsense
from beacon_site.text.messages import gettext as _

JSON_MODES = ("schema", "object", "prompt")
"""The modes of structured output, best first: json_schema, json_object, words in the prompt."""


OnText = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model can call; `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool by the model.

    Arguments that aren't one JSON object are stored as text under the single key `_unparsed`, so
    that the caller can return an error to the model.
    """

    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation; `role` is system, user, assistant or tool."""

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens spent.  `estimated` means that the server reported none, so it is characters / 4."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.estimated or other.estimated,
        )

    @property
    def total(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer.  `usage` is the sum of all calls, including the repair round.

    `finish_reason` is the server's own word; "length" means that the text was cut.  `warning` tells
    people about a problem despite the answer, such as a truncated question.
    """

    text: str
    usage: Usage
    model: str
    finish_reason: str
    parsed: BaseModel | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    warning: str = ""


@dataclass(frozen=True, slots=True)
class LlmProfile:
    """One endpoint and its known properties.

    Prices are per million tokens, None if unknown; `timeout` is in seconds for one call;
    `context_tokens` is the size of the model's window.  `tools` and `streams` are None until a
    probe has tested them.  The key is never part of the repr.
    """

    base_url: str
    model: str
    api_key: str = field(default="", repr=False)
    kind: str = "compatible"  # one of endpoints.KINDS
    json_mode: str = "schema"  # one of JSON_MODES, the first to try
    max_tokens_field: str = ""  # max_tokens or max_completion_tokens; "": the kind's default
    context_tokens: int = 32768
    price_in: Decimal | None = None
    price_out: Decimal | None = None
    timeout: float = 90
    tools: bool | None = None
    streams: bool | None = None
    embedding_model: str = ""


class LanguageModel(Protocol):
    """A model that can be asked."""

    profile: LlmProfile

    def ask(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int = 1024,
        schema: type[BaseModel] | None = None,
        on_text: OnText | None = None,
        tools: Sequence[Tool] = (),
    ) -> Answer:
        """Return the model's answer of at most `max_tokens` tokens.

        With `schema`, `Answer.parsed` is an instance of it, or ProviderNonsense is raised.  If the
        model calls one of `tools` instead of answering, `parsed` is None.

        `on_text` is called with all text so far, from the calling thread and at most five times per
        second.  After a retry or a repair, the text starts over.  An exception in `on_text` stops
        the reading and is raised here.

        Raises ProviderUnavailable if a later retry can help, ProviderRejected if not.
        """
        ...


# --- embeddings ---

DEFAULT_EMBEDDING_MODEL = "text-embedding-3-small"
KNOWN_DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
MAX_DIMENSIONS = 16_000  # the limit of pgvector
LOCAL = "local"
ENDPOINT = "endpoint"


@dataclass(frozen=True, slots=True)
class EmbedderProfile:
    """One embedder: LOCAL, or an ENDPOINT with its URL.

    `dimensions` is None if unknown before the first answer.  `timeout` is in seconds for one call,
    which is tried at most `tries` times.  The key is never part of the repr.
    """

    where: str
    model: str = DEFAULT_EMBEDDING_MODEL
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    kind: str = "compatible"  # one of endpoints.KINDS
    dimensions: int | None = None
    timeout: float = 30
    tries: int = 2

    def as_endpoint(self) -> LlmProfile:
        """Return the endpoint as an LlmProfile, which the modules about endpoints use."""
        return LlmProfile(
            base_url=self.base_url,
            model=self.model,
            api_key=self.api_key,
            kind=self.kind,
            timeout=self.timeout,
        )


class Embedder(Protocol):
    """Anything that turns texts into vectors.

    Only vectors with the same `model` name are compared.  `dimensions` is None until it is known.
    `is_local` means that no text leaves this process.
    """

    @property
    def model(self) -> str:
        """Return the name stored with each vector."""
        ...

    @property
    def dimensions(self) -> int | None:
        """Return the length of a vector, or None if it isn't known yet."""
        ...

    @property
    def is_local(self) -> bool:
        """Return True if sensitive texts can be embedded with it."""
        ...

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector of length 1 for each text, in order.

        A text that is too long for the model is cut.  Raises ProviderUnavailable if a later retry
        can help, and ProviderRejected if not.  It never returns only some of the vectors.
        """
        ...


def unit_vectors(
    vectors: Sequence[object], *, count: int, dimensions: int | None, who: str
) -> list[list[float]]:
    """Return vectors from an endpoint, scaled to length 1.

    Raises ProviderNonsense unless there are `count` vectors of `dimensions` finite numbers (None:
    as many as the first has), and each has a number other than 0.
    """
    if len(vectors) != count:
        text = _("%(who)s returned the wrong number of vectors (%(got)d instead of %(count)d).")
        raise ProviderNonsense(text % {"who": who, "got": len(vectors), "count": count})
    made: list[list[float]] = []
    for vector in vectors:
        if not isinstance(vector, list) or not vector or not all(map(_is_figure, vector)):
            text = _("%(who)s returned a vector that isn’t a list of numbers.")
            raise ProviderNonsense(text % {"who": who})
        wanted = dimensions or min(len(vectors[0]), MAX_DIMENSIONS)  # type: ignore[arg-type]
        if len(vector) != wanted:
            text = _("%(who)s returned a vector with %(got)d dimensions instead of %(wanted)d.")
            params = {"who": who, "got": len(vector), "wanted": wanted}
            raise ProviderNonsense(text % params)
        size = math.hypot(*vector)
        if not size or not math.isfinite(size):
            raise ProviderNonsense(_("%(who)s returned an empty vector.") % {"who": who})
        made.append([figure / size for figure in vector])
    return made


def _is_figure(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value)  # type: ignore[arg-type]
