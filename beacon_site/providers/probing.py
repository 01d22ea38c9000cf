"""What a test button in Settings shows: the real answer or the real error, and what it cost."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from django.utils.translation import gettext as _
from pydantic import BaseModel

from beacon_site.providers.errors import ProviderError, ProviderNonsense
from beacon_site.providers.llm import JSON_MODES, LlmProfile, Message, Usage
from beacon_site.providers.openai_learning import Learned
from beacon_site.providers.openai_model import OpenAIModel

PROBE_TOKENS = 512  # a thinking model spends some hundred before its one word


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The outcome of trying a service once.  Never holds a key.

    `message` is for the person who pressed the button; `answer` what a model said; `json_mode`
    the rung of the ladder that worked ("" if none did); `count` a search's number of hits;
    `max_tokens_field` the name that the endpoint takes for the token limit.
    """

    ok: bool
    message: str
    ms: int
    usage: Usage = field(default_factory=Usage)
    answer: str = ""
    model: str = ""
    json_mode: str = ""
    max_tokens_field: str = ""
    count: int | None = None


class ProbeShape(BaseModel):
    """The smallest shape worth asking for."""

    city: str
    country: str


def probe(profile: LlmProfile) -> ProbeResult:
    """Try a chat call, then one with a schema, for the Settings page.

    It is `ok` if the model chats; `json_mode` is the rung that worked for the schema, to be kept
    in the profile, and "" if none did: Beacon then works with its fallbacks, and the message says
    so.  Nothing is raised, and no key is in the result.
    """
    began = time.monotonic()
    learned = Learned(
        JSON_MODES.index("schema"), profile.max_tokens_field or "max_tokens", certain_at=1
    )
    model = OpenAIModel(profile, learned=learned)
    try:
        said = model.ask(
            [Message("user", "Reply with the one word: ready")], max_tokens=PROBE_TOKENS
        )
    except ProviderError as exc:
        return ProbeResult(False, str(exc), _ms(began), usage=_spent(exc))
    usage, mode, note = said.usage, "", ""
    try:
        question = Message("user", "Which city is the capital of France? Give city and country.")
        shaped = model.ask([question], max_tokens=PROBE_TOKENS, schema=ProbeShape)
        usage, mode = usage + shaped.usage, JSON_MODES[learned.rung]
    except ProviderError as exc:
        usage += _spent(exc)
        note = " " + _("It cannot answer in a given shape, so fallbacks will be used: %(why)s") % {
            "why": exc
        }
    message = _("%(model)s answered “%(text)s”.") % {"model": said.model, "text": said.text[:80]}
    return ProbeResult(
        ok=True,
        message=message + note,
        ms=_ms(began),
        usage=usage,
        answer=said.text[:300],
        model=said.model,
        json_mode=mode,
        max_tokens_field=learned.limit_field,
    )


def _ms(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _spent(failure: ProviderError) -> Usage:
    if isinstance(failure, ProviderNonsense):
        return Usage(failure.prompt_tokens, failure.completion_tokens)
    return Usage()
