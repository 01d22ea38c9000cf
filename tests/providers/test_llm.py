"""The model adapter against a real loopback endpoint: what it sends, and how it bears answers."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import pytest
from pydantic import BaseModel, Field
from werkzeug import Response

from beacon_site.net.errors import ProviderNonsense, ProviderRejected, ProviderUnavailable
from beacon_site.providers.llm.adapters import get_llm
from beacon_site.providers.llm.base import LlmProfile, Message, Usage
from beacon_site.providers.llm.openai_model import OpenAIModel
from beacon_site.providers.llm.structured import (
    SchemaMismatch,
    is_strict,
    parse_answer,
    strict_schema,
)
from tests.providers import servers
from tests.providers.servers import ScriptedChatServer, says, status

KEY = "sk-loopback-0123456789"
HELLO = [Message("system", "You are brief."), Message("user", "Hello?")]
DATA = {"queries": ["one", "two"]}


class Plan(BaseModel):
    queries: list[str]


@pytest.fixture
def model(chat: ScriptedChatServer) -> OpenAIModel:
    return OpenAIModel(LlmProfile(chat.base_url, "tiny", api_key=KEY, timeout=2))


def test_without_a_profile_there_is_no_model():
    assert get_llm(None) is None
    assert get_llm(LlmProfile("http://127.0.0.1:9/v1", model="")) is None


def test_the_client_is_not_loaded_before_a_model_is_asked():
    told = "import sys, beacon_site.providers.llm.openai_model as m; print('openai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def test_it_sends_model_messages_limit_and_key(model, chat):
    answer = model.ask(HELLO, max_tokens=77)

    asked = chat.asked[0]
    assert answer.text == "hello"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.headers["user-agent"].startswith("Beacon/")
    assert asked.body == {
        "model": "tiny",
        "messages": [
            {"role": "system", "content": "You are brief."},
            {"role": "user", "content": "Hello?"},
        ],
        "max_tokens": 77,
    }


def test_a_server_without_a_key_is_given_the_word_local(chat, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-shell")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-the-shell")
    OpenAIModel(LlmProfile(chat.base_url, "tiny")).ask(HELLO)

    assert chat.asked[0].headers["authorization"] == "Bearer local"
    assert "openai-organization" not in chat.asked[0].headers


def test_azure_is_given_its_own_header(chat):
    OpenAIModel(LlmProfile(chat.base_url, "tiny", api_key=KEY, kind="azure")).ask(HELLO)

    assert chat.asked[0].headers["api-key"] == KEY
    assert "authorization" not in chat.asked[0].headers


def test_an_endpoint_that_wants_another_token_limit_gets_it_from_then_on(model, chat):
    told = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    chat.enqueue(status(400, {"message": told}))
    model.ask(HELLO)
    model.ask(HELLO)

    limits = [set(asked.body) & {"max_tokens", "max_completion_tokens"} for asked in chat.asked]
    assert limits == [{"max_tokens"}, {"max_completion_tokens"}, {"max_completion_tokens"}]


@pytest.mark.parametrize("kind", ["openai", "azure"])
def test_a_kind_that_has_renamed_the_limit_is_asked_by_its_new_name_first(chat, kind):
    told = "Unrecognized request argument supplied: max_completion_tokens"
    chat.enqueue(says("new"), status(400, {"message": told}))
    model = OpenAIModel(LlmProfile(chat.base_url, "tiny", api_key=KEY, kind=kind))
    for _time in range(2):
        model.ask(HELLO)

    limits = [set(asked.body) & {"max_tokens", "max_completion_tokens"} for asked in chat.asked]
    assert limits == [{"max_completion_tokens"}, {"max_completion_tokens"}, {"max_tokens"}]


def test_lone_surrogates_neither_stop_a_question_nor_come_back(model, chat):
    chat.enqueue(says("a\ud800b\x00c"))

    assert model.ask([Message("user", "x\ud800")]).text == "a?bc"
    assert chat.asked[0].prompt == "x?"


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scenes", "kind", "words"),
    [
        ([status(401, {"message": f"Incorrect API key: {KEY}"})], ProviderRejected, "key"),
        ([status(404, "no such model")], ProviderRejected, "no model “tiny”"),
        ([status(400, "as plain text")], ProviderRejected, "as plain text"),
        ([servers.quota()], ProviderRejected, "no credit"),
        ([servers.rate("7")], ProviderUnavailable, "Rate limit"),
        ([status(500)] * 2, ProviderUnavailable, "HTTP 500"),
        ([servers.cut()] * 2, ProviderUnavailable, "was lost"),
        ([servers.slow(3)], ProviderUnavailable, "within 2 seconds"),
        ([servers.trickle(3)], ProviderUnavailable, "within 2 seconds"),
        ([servers.html()], ProviderRejected, "Check the base URL"),
        ([servers.huge()], ProviderNonsense, "larger than 2 MiB"),
        ([servers.refuses()], ProviderNonsense, "cannot help with that"),
        ([says("")], ProviderNonsense, "empty"),
        ([says("", finish_reason="length")], ProviderNonsense, "used all 1024 tokens"),
    ],
)
def test_each_failure_has_its_kind_and_a_readable_cause(model, chat, scenes, kind, words):
    chat.enqueue(*scenes)

    with pytest.raises(kind, match=words) as failure:
        model.ask(HELLO)

    assert type(failure.value) is kind
    assert len(chat.asked) == len(scenes)


def test_a_server_that_fails_once_is_asked_again(model, chat):
    chat.enqueue(status(500))

    assert model.ask(HELLO).text == "hello"


def test_a_long_retry_after_is_left_to_the_caller(model, chat):
    chat.enqueue(servers.rate("60"))

    with pytest.raises(ProviderUnavailable) as failure:
        model.ask(HELLO)

    assert failure.value.retry_after == 60


def test_a_body_that_isnt_a_completion_is_refused_without_a_crash(model, chat):
    for text in ("[]", "null", "[" * 200_000, '{"choices": "x"}', '{"choices": [{"message": 1}]}'):
        chat.enqueue(lambda _request, text=text: Response(text, mimetype="text/json"))
        with pytest.raises(ProviderRejected):
            model.ask(HELLO)


@pytest.mark.requirement("R236")
def test_the_key_is_in_no_message_log_or_repr(model, chat, caplog):
    caplog.set_level(logging.DEBUG)
    chat.enqueue(status(401, {"message": f"Incorrect API key provided: {KEY}"}))

    with pytest.raises(ProviderRejected) as failure:
        model.ask(HELLO)

    assert KEY not in f"{failure.value!r} {failure.value.__context__!r} {model.profile!r}"
    assert KEY not in caplog.text


# --- usage ----------------------------------------------------------------------------------------


def test_usage_that_a_server_does_not_count_is_estimated_and_says_so(model, chat):
    chat.enqueue(says("12345678", usage={}))

    assert model.ask([Message("user", "1234")]).usage == Usage(1, 2, estimated=True)


@pytest.mark.parametrize("absurd", [-5, 10**12, "7", 1.5, True, [1]])
def test_an_absurd_count_of_tokens_is_not_believed_but_estimated(model, chat, absurd):
    chat.enqueue(says("12345678", usage={"prompt_tokens": absurd, "completion_tokens": 3}))

    assert model.ask([Message("user", "1234")]).usage == Usage(1, 2, estimated=True)


def test_usage_sums_the_repair_round(model, chat):
    chat.enqueue(servers.bare({"queries": 5}), servers.bare(DATA))

    assert model.ask(HELLO, schema=Plan).usage == Usage(20, 10)


def test_nonsense_says_what_it_cost(model, chat):
    chat.enqueue(servers.another_language(), servers.another_language())

    with pytest.raises(ProviderNonsense) as failure:
        model.ask(HELLO, schema=Plan)

    assert (failure.value.prompt_tokens, failure.value.completion_tokens) == (20, 10)
    assert "Entschuldigung" in failure.value.text


def test_arguments_of_a_tool_that_are_no_json_are_kept_as_text(model, chat):
    call = {"id": "1", "type": "function", "function": {"name": "open", "arguments": "{bad"}}
    chat.enqueue(says(None, tool_calls=[call]))

    assert model.ask(HELLO).tool_calls[0].arguments == {"_unparsed": "{bad"}


# --- structured output ----------------------------------------------------------------------------


@pytest.mark.parametrize("scene", [servers.bare, servers.fenced, servers.in_prose])
def test_json_is_found_bare_fenced_and_amid_prose(model, chat, scene):
    chat.enqueue(scene(DATA))

    assert model.ask(HELLO, schema=Plan).parsed == Plan(**DATA)
    assert len(chat.asked) == 1


@pytest.mark.parametrize("first", [servers.half(DATA), servers.another_language(), says("")])
def test_an_answer_that_does_not_fit_is_repaired_once(model, chat, first):
    chat.enqueue(first, servers.bare(DATA))

    assert model.ask(HELLO, schema=Plan).parsed == Plan(**DATA)
    assert "JSON Schema" in chat.asked[1].prompt


def test_after_two_answers_that_do_not_fit_it_is_nonsense(model, chat):
    chat.enqueue(servers.half(DATA), servers.half(DATA))

    with pytest.raises(ProviderNonsense, match="incomplete"):
        model.ask(HELLO, schema=Plan)
    assert len(chat.asked) == 2


def test_a_refused_format_steps_down_at_once_and_is_remembered(chat):
    profile = LlmProfile(chat.base_url, "tiny")
    for _time in range(2):
        chat.enqueue(*[servers.only_without("json_schema", 400, servers.bare(DATA))] * 2)
        OpenAIModel(profile).ask(HELLO, schema=Plan)

    assert [asked.mode for asked in chat.asked] == ["json_schema", "json_object", "json_object"]


def test_a_500_steps_down_too_but_is_believed_only_the_second_time(model, chat):
    for _time in range(3):
        chat.enqueue(*[servers.only_without("json_schema", 500, servers.bare(DATA))] * 2)
        assert model.ask(HELLO, schema=Plan).parsed == Plan(**DATA)

    modes = [asked.mode for asked in chat.asked]
    assert modes == ["json_schema", "json_object"] * 2 + ["json_object"]


def test_the_lowest_rung_asks_in_words_in_the_users_message(chat):
    chat.enqueue(servers.bare(DATA))
    OpenAIModel(LlmProfile(chat.base_url, "tiny", json_mode="prompt")).ask(HELLO, schema=Plan)

    assert "response_format" not in chat.asked[0].body
    assert "JSON Schema" in chat.asked[0].body["messages"][-1]["content"]


def test_a_server_that_is_down_is_asked_three_times_at_most(model, chat):
    chat.enqueue(*[status(500)] * 9)

    with pytest.raises(ProviderUnavailable):
        model.ask(HELLO, schema=Plan)
    assert len(chat.asked) == 3


def test_a_prompt_that_is_too_long_does_not_step_down(model, chat):
    told = {"message": "maximum context length is 8192", "code": "context_length_exceeded"}
    chat.enqueue(status(400, told))

    with pytest.raises(ProviderRejected, match="maximum context length"):
        model.ask(HELLO, schema=Plan)
    assert len(chat.asked) == 1


def test_a_failed_repair_still_says_what_was_spent(model, chat):
    chat.enqueue(servers.bare({"x": 1}), status(503), status(503))

    with pytest.raises(ProviderNonsense, match="HTTP 503") as failure:
        model.ask(HELLO, schema=Plan)
    assert failure.value.prompt_tokens == 10


class Loose(BaseModel):
    """Every field has a default: any object would do."""

    queries: list[str] = Field(default_factory=list, max_length=5)
    note: str = Field("", max_length=9)


class Free(BaseModel):
    words: dict[str, int]


@pytest.mark.parametrize(
    "text", ['{"queries": ["a", {"x": 1}', 'So {"x": 1} it is', '{"a": {"note": "b"} {"note": "c"']
)
def test_no_part_of_broken_json_is_taken_for_the_answer(text):
    with pytest.raises(SchemaMismatch):
        parse_answer(text, Loose)


def test_thousands_of_brackets_or_digits_are_given_up_quickly():
    digits = f'{{"queries": [{"9" * 6000}]}}'
    for text in ("[" * 500_000, "{" * 500_000, '{"a":' * 100_000, digits):
        with pytest.raises(SchemaMismatch):
            parse_answer(text, Loose)


def test_the_strict_schema_requires_all_and_drops_what_strict_mode_refuses():
    made: dict[str, Any] = strict_schema(Loose)

    assert made["required"] == ["queries", "note"]
    assert made["additionalProperties"] is False
    assert "maxLength" not in made["properties"]["note"]
    assert is_strict(made)
    assert not is_strict(strict_schema(Free))
