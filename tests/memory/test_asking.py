"""All model calls: redacted, counted, recorded, and within the budget."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from beacon_site.net.errors import (
    ProviderError,
    ProviderNonsense,
    ProviderRejected,
    ProviderUnavailable,
)
from beacon_site.providers.llm.base import Answer, LlmProfile, Message, Tool, ToolCall, Usage
from beacon_site.text.redaction import redact
from memory.models import ModelCall
from memory.services.llm import connections
from memory.services.llm.asking import BudgetReached, ask_model, price
from tests.providers.fakes import FakeLanguageModel

PROFILE = LlmProfile(
    base_url="http://x.invalid",
    model="dear",
    api_key="key-of-the-model",
    price_in=Decimal(2),
    price_out=Decimal(8),
)
Ask = Callable[..., Answer | None]


class Word(BaseModel):
    word: str


class Meter:
    """A budget that is full or not, and the calls that it got."""

    def __init__(self, *, is_full: bool = False) -> None:
        self.is_full, self.counted = is_full, []  # type: ignore[var-annotated]

    def check(self) -> None:
        if self.is_full:
            raise BudgetReached("nothing left")

    def count(self, usage: Usage, money: Decimal | None) -> None:
        self.counted.append((usage.total, money))


@pytest.fixture
def ask(alice: Any, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Ask a model that gives `answer`, as a run does."""

    def asked(answer: Any, text: str = "What is new?", **more: Any) -> Answer | None:
        model = None if answer is None else FakeLanguageModel(answer, profile=PROFILE)
        monkeypatch.setattr(connections, "language_model", lambda: model)
        more.setdefault("owner", alice)
        return ask_model("plan", [Message("user", text)], source="run:1", **more)

    return asked


def test_without_a_model_there_is_no_answer_and_nothing_is_recorded(ask: Ask):
    assert ask(None, meter=Meter(is_full=True)) is None
    assert not ModelCall.objects.exists()


def test_a_call_is_recorded_with_what_was_reported_and_what_it_cost(ask: Ask):
    meter = Meter()

    answer = ask(Answer("Much.", Usage(1000, 500), "dear", "stop"), meter=meter)

    call = ModelCall.objects.get()
    assert answer is not None and answer.text == call.answer == "Much."
    assert call.prompt == [{"role": "user", "content": "What is new?"}]
    assert (call.purpose, call.source, call.model, call.error) == ("plan", "run:1", "dear", "")
    assert (call.prompt_tokens, call.completion_tokens) == (1000, 500)
    assert call.money == Decimal("0.006")
    assert meter.counted == [(1500, Decimal("0.006"))]


def test_nothing_is_asked_once_the_budget_is_reached(ask: Ask):
    with pytest.raises(BudgetReached):
        ask("Much.", meter=Meter(is_full=True))

    assert not ModelCall.objects.exists()


@pytest.mark.parametrize(
    ("failure", "kind"),
    [(ProviderUnavailable("busy"), "unavailable"), (ProviderRejected("bad key"), "rejected")],
)
def test_a_call_that_failed_is_recorded_with_its_reason(
    ask: Ask, failure: ProviderError, kind: str
):
    with pytest.raises(type(failure)):
        ask(failure)

    call = ModelCall.objects.get()
    assert (call.error, call.failure) == (str(failure), kind)


def test_an_answer_that_is_not_what_was_asked_is_recorded_and_paid_for(ask: Ask):
    meter = Meter()

    with pytest.raises(ProviderNonsense):
        ask("Just prose.", schema=Word, meter=meter)

    call = ModelCall.objects.get()
    assert call.answer == "Just prose."
    assert (bool(call.error), call.failure) == (True, "nonsense")
    assert meter.counted[0][0] == call.prompt_tokens + call.completion_tokens > 0


def test_a_tool_call_that_no_one_offered_isnt_an_answer_and_is_paid_for(ask: Ask):
    wants = Answer("", Usage(7, 3), "dear", "tool_calls", tool_calls=(ToolCall("1", "browse", {}),))

    with pytest.raises(ProviderNonsense, match="called the tool “browse”"):
        ask(wants, schema=Word)

    call = ModelCall.objects.get()
    assert (call.failure, call.prompt_tokens, call.completion_tokens) == ("nonsense", 7, 3)


def test_tools_are_offered_and_what_was_called_is_recorded(ask: Ask):
    called = ToolCall("1", "memory_read", {"path": "facts/user.md"})
    said = Answer("Let me see.", Usage(7, 3), "dear", "tool_calls", tool_calls=(called,))

    answer = ask(said, tools=(Tool("memory_read", "Reads.", {"type": "object"}),))

    assert answer is not None and answer.tool_calls == (called,)
    stored = ModelCall.objects.get().answer
    assert stored == 'Let me see.\n→ memory_read {"path": "facts/user.md"}'


def test_the_calls_and_results_of_a_conversation_are_recorded_without_keys(
    alice: Any, monkeypatch: pytest.MonkeyPatch
):
    model = FakeLanguageModel("Noted.", profile=PROFILE)
    monkeypatch.setattr(connections, "language_model", lambda: model)
    key = "sk-" + "a1" * 12
    wrote = ToolCall("1", "memory_patch", {"patches": [{"new_text": f"key {key}"}]})
    talk = [Message("assistant", "", (wrote,)), Message("tool", f"wrote {key}", (), "1")]

    ask_model("reflect", talk, owner=alice, source="run:1")

    prompt = ModelCall.objects.get().prompt
    patched = {
        "id": "1",
        "name": "memory_patch",
        "arguments": {"patches": [{"new_text": "key [secret]"}]},
    }
    assert prompt[0] == {"role": "assistant", "content": "", "tool_calls": [patched]}
    assert prompt[1] == {"role": "tool", "content": "wrote [secret]", "tool_call_id": "1"}
    assert key not in str(model.history[0].messages)


def test_a_call_that_no_one_waits_for_says_so(ask: Ask):
    def given_up(_call: Any) -> Answer:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask("Much.", wait_for=given_up)

    call = ModelCall.objects.get()
    assert (call.error[:14], call.failure) == ("cancelled beca", "left")


def test_the_caller_can_carry_the_call_out_in_its_own_way(ask: Ask):
    waited: list[Answer] = []

    ask("Much.", wait_for=lambda call: waited.append(call()) or waited[0])

    assert waited[0].text == "Much."


def test_the_text_is_reported_as_it_comes_without_keys(ask: Ask):
    heard: list[str] = []

    ask(f"It is {PROFILE.api_key}, they say.", on_text=heard.append)

    assert heard[-1] == "It is [secret], they say."


def test_what_a_listener_raises_ends_the_call_which_may_have_cost_all_it_may(ask: Ask):
    def stop(_text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask("Much.", on_text=stop, max_tokens=99)

    call = ModelCall.objects.get()
    assert (call.completion_tokens, call.error[:14]) == (99, "cancelled beca")


def test_what_a_broken_stream_had_said_is_paid_for(ask: Ask):
    broken = ProviderUnavailable("broke off")
    broken.prompt_tokens, broken.completion_tokens = 1000, 500

    with pytest.raises(ProviderUnavailable):
        ask(broken)

    assert ModelCall.objects.get().money == Decimal("0.006")


@pytest.mark.requirement("R236")
def test_no_key_reaches_a_prompt_or_its_record(ask: Ask, settings: Any):
    settings.SEARCH_KEYS = settings.SEARCH_KEYS | {"serpapi": "serp-key-123456"}
    secrets = [settings.SECRET_KEY, "serp-key-123456", PROFILE.api_key, "sk-" + "a" * 20]

    ask(f"They are {' and '.join(secrets)}.", f"Keys: {', '.join(secrets)}")

    call = ModelCall.objects.get()
    for secret in secrets:
        assert secret not in str(call.prompt) + call.answer
    assert call.answer.count("[secret]") == 4


@pytest.mark.requirement("R236")
@pytest.mark.parametrize("key", ["bcn_" + "a" * 30, "tvly-" + "b" * 20, "sk-proj-" + "c" * 30])
def test_what_looks_like_a_key_is_redacted(key: str):
    assert redact(f"take {key}, please") == "take [secret], please"


def test_short_words_are_not_taken_for_keys(settings: Any):
    settings.OPENAI_API_KEY = "key"

    assert redact("a key in a task-force", "force") == "a key in a task-force"


def test_an_answer_with_nul_and_half_characters_is_stored_without_them(ask: Ask):
    ask("a\x00b\ud800c" + "d" * 300_000)

    stored = ModelCall.objects.get().answer
    assert stored.startswith("abcd")
    assert len(stored) <= 200_000


def test_a_price_is_per_million_tokens():
    assert price(Usage(1_000_000, 0), PROFILE) == Decimal(2)
    assert price(Usage(0, 500_000), PROFILE) == Decimal(4)
    assert price(Usage(), PROFILE) == Decimal(0)


@pytest.mark.parametrize(
    ("price_in", "price_out"), [(None, None), (None, Decimal(1)), (Decimal(-1), Decimal(1))]
)
def test_a_price_that_is_not_known_isnt_a_price_and_not_nothing(price_in: Any, price_out: Any):
    profile = LlmProfile("http://x.invalid", "m", price_in=price_in, price_out=price_out)

    assert price(Usage(10, 10), profile) is None
    assert price(Usage(), profile) == Decimal(0)
