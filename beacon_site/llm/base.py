"""What Beacon asks of a language model, and the plain data that goes in and comes out.

No adapter is imported before one is needed: the `openai` package costs half a second and 50 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

from pydantic import BaseModel

JSON_MODES = ("schema", "object", "prompt")
"""The ladder of structured output, best first: json_schema, json_object, words in the prompt."""


OnText = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may ask for; `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model wants called.

    Arguments that were not one JSON object stand under the single key `_unparsed`, as text, so
    that whoever runs the tool can answer the model with the error.
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
    """Tokens spent.  `estimated` says that a server named none and characters / 4 were taken."""

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
        """Return prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said.  `usage` sums every call that it took, the repair round included.

    `finish_reason` is the server's own word: "length" means that the text was cut.  `warning` is
    what a person should know of an answer that came all the same, such as a question cut short.
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
    """One endpoint and what is known of it.

    Prices are money per million tokens, None where they are not known; `timeout` is seconds for
    one call; `context_tokens` is the size of the model's window.  `tools` and `streams` are None
    until a probe has found out.  The key is never part of the repr.
    """

    base_url: str
    model: str
    api_key: str = field(default="", repr=False)
    kind: str = "compatible"  # one of endpoint_kinds.KINDS
    json_mode: str = "schema"  # one of JSON_MODES: where the ladder begins
    max_tokens_field: str = ""  # max_tokens or max_completion_tokens; "": as the kind begins
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

        With `schema`, `Answer.parsed` is an instance of it, or ProviderNonsense is raised; where
        the model calls one of `tools` instead of answering, `parsed` stays None.

        `on_text` is given the whole text so far, as the model wrote it, from the thread that asks
        and at most five times a second; after a second try, or when an answer is repaired, it
        begins anew.  What it raises ends the reading and is raised here.

        Raises ProviderUnavailable if asking again later may help, ProviderRejected if not.
        """
        ...


def get_llm(profile: LlmProfile | None) -> LanguageModel | None:
    """Return the model behind `profile`, or None where none is configured (which is a mode)."""
    if profile is None or not profile.model:
        return None
    from beacon_site.llm.openai_model import OpenAIModel

    return OpenAIModel(profile)
