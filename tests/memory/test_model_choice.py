"""Which model is asked: the topic's, that of the task, or the default; and with whose key."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from beacon_site.providers.llm.base import Message
from memory.models import Connection, ModelCall, OwnKey, Sensitivity, Topic, User
from memory.services.llm import connections
from memory.services.llm.asking import ask_model
from research.models import TopicSettings
from tests.providers.servers import ScriptedChatServer
from tests.research.factories import make_topic

pytestmark = pytest.mark.django_db
OTHERS = [
    {"model": "careful", "tasks": ["write"], "prices": {"in": "10", "out": "30"}},
    {"model": "quick", "tasks": ["plan", "read"], "prices": {"in": "0.1", "out": "0.2"}},
    {"model": "spare", "tasks": [], "prices": {}},
]


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedChatServer]:
    with ScriptedChatServer() as started:
        yield started


@pytest.fixture
def row(server: ScriptedChatServer) -> Connection:
    """An endpoint with a default model and three others."""
    server.forget()
    made = Connection(
        kind="model",
        name="model",
        base_url=server.base_url,
        model="usual",
        profile={"others": OTHERS},
        prices={"in": "1", "out": "2"},
    )
    made.set_secret("key-of-the-server")
    made.save()
    return made


@pytest.fixture
def topic(alice: User) -> Topic:
    return make_topic(alice, "Heat pumps")


def name_of(topic: Topic | None, purpose: str, **more: Any) -> str:
    model = connections.model_for(topic, purpose, **more)
    return model.profile.model if model else ""


@pytest.mark.requirement("R357")
@pytest.mark.parametrize(
    ("purpose", "name"),
    [
        ("plan", "quick"),
        ("track", "quick"),
        ("extract", "quick"),
        ("write", "careful"),
        ("reflect", "careful"),
        ("judge", "usual"),
        ("compare", "usual"),
        ("ask", "usual"),
        ("chat", "usual"),
    ],
)
def test_each_task_has_its_model(row: Connection, topic: Topic, purpose: str, name: str) -> None:
    assert name_of(topic, purpose) == name
    assert name_of(None, purpose) == name


def test_every_purpose_of_a_call_has_a_task() -> None:
    passed_on_by_name = {ModelCall.Purpose.CHAT}

    assert {*connections.TASK_OF} == {*ModelCall.Purpose} - passed_on_by_name
    assert {*connections.TASK_OF.values()} == {"plan", "read", "write", "judge", "answer"}


@pytest.mark.requirement("R358")
def test_a_topics_model_does_everything_for_it(row: Connection, topic: Topic) -> None:
    TopicSettings.objects.update_or_create(topic=topic, defaults={"model": "spare"})

    assert {name_of(topic, purpose) for purpose in ("plan", "write", "judge")} == {"spare"}
    assert name_of(None, "write") == "careful"


@pytest.mark.parametrize("wanted", ["gone", "usual"])
def test_a_model_that_is_gone_is_replaced_by_the_default(
    row: Connection, topic: Topic, wanted: str
) -> None:
    TopicSettings.objects.update_or_create(topic=topic, defaults={"model": wanted})

    assert name_of(topic, "write") == "usual"


def test_a_sensitive_topic_has_no_model(row: Connection, topic: Topic) -> None:
    topic.sensitivity = Sensitivity.SENSITIVE

    assert connections.model_for(topic, "write") is None


def test_without_a_default_model_there_are_no_others(row: Connection) -> None:
    Connection.objects.update(model="")

    assert connections.names_of_models() == []
    assert connections.model_for(None, "write") is None


def test_a_call_is_sent_to_its_model_and_counted_with_its_prices(
    row: Connection, topic: Topic, server: ScriptedChatServer
) -> None:
    ask_model("write", [Message("user", "Write.")], owner=topic.owner, source="run:1", topic=topic)

    call = ModelCall.objects.get()
    assert (server.asked[-1].body["model"], call.model) == ("careful", "careful")
    spent = Decimal(10) * call.prompt_tokens + Decimal(30) * call.completion_tokens
    assert call.money == spent / 1_000_000


def test_a_forecast_uses_the_highest_prices_of_the_models_in_use(row: Connection) -> None:
    usual, named = connections.forecast_profiles()

    assert usual is not None
    assert (usual.price_in, usual.price_out) == (Decimal(10), Decimal(30))
    assert {name: each.price_in for name, each in named.items()} == {
        "careful": Decimal(10), "quick": Decimal("0.1"), "spare": None,
    }  # fmt: skip


# --- a person's own key ---


@pytest.mark.requirement("R359")
def test_a_persons_key_is_sent_for_that_persons_calls_only(
    row: Connection, alice: User, bob: User, topic: Topic, server: ScriptedChatServer
) -> None:
    connections.save_own_key(alice, "key-of-alice")
    for owner, about in ((alice, topic), (bob, None)):
        ask_model("plan", [Message("user", "Plan.")], owner=owner, source="run:1", topic=about)

    assert [sent.headers["authorization"] for sent in server.asked[-2:]] == [
        "Bearer key-of-alice",
        "Bearer key-of-the-server",
    ]
    assert "key-of-alice" not in str(list(ModelCall.objects.values()))
    assert "key-of-alice" not in OwnKey.objects.get().secret


def test_the_key_is_not_sent_to_another_host(row: Connection, alice: User) -> None:
    connections.save_own_key(alice, "key-of-alice")
    Connection.objects.update(base_url="http://other.example/v1", secret="")

    model = connections.model_for(None, "ask", owner=alice)

    assert model is not None
    assert model.profile.api_key == ""


def test_an_empty_key_deletes_it(row: Connection, alice: User) -> None:
    connections.save_own_key(alice, "key-of-alice")
    connections.save_own_key(alice, "")

    assert not OwnKey.objects.exists()


def test_without_a_model_there_is_nothing_that_a_key_could_be_for(alice: User) -> None:
    with pytest.raises(ValueError, match="no model"):
        connections.save_own_key(alice, "key-of-alice")
