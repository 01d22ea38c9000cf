"""Choosing among models: in Settings by admins, for a topic by its owner, and a key of one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memory.models import Connection, OwnKey, User
from memory.services.llm import connections
from research.models import TopicSettings
from tests.research.factories import make_topic

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
KEY = "sk-own-key-of-alice-4321"
ONE = {"other0_model": "careful", "other0_tasks": ["write"], "other0_in": "1", "other0_out": "2"}


@pytest.fixture
def row() -> Connection:
    return Connection.objects.create(
        kind="model",
        name="model",
        base_url="http://model.example/v1",
        model="usual",
        profile={"others": [{"model": "careful", "tasks": [], "prices": {}}]},
    )


def save(admin: Client, **fields: Any) -> str:
    data = {"base_url": "http://model.example/v1", "model": "usual"} | fields
    sent = {f"model-{name}": value for name, value in data.items()}
    page = admin.post("/settings/connections/model/", sent, follow=True)
    return str(page.content.decode())


@pytest.fixture
def staff(admin: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(admin)


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


@pytest.mark.requirement("R357")
def test_an_admin_adds_a_model_for_some_tasks(staff: Client) -> None:
    assert "Saved" in save(staff, **ONE)

    assert connections.other_models(connections.stored(connections.MODEL)) == [
        {"model": "careful", "tasks": ["write"], "prices": {"in": "1", "out": "2"}}
    ]
    page = staff.get("/settings/connections/").content.decode()
    assert 'value="careful"' in page
    assert 'name="model-other1_model"' in page  # a row for one more
    assert 'name="model-other2_model"' not in page


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"other0_tasks": ["write"]}, "Enter the model’s name, or clear its row."),
        ({"other0_model": "usual"}, "This model is already listed above."),
        (
            {**ONE, "other1_model": "x", "other1_tasks": ["write"]},
            "is already selected for another",
        ),
        ({"other0_model": "careful", "other0_in": "1"}, "Enter both prices or neither."),
        ({"other0_model": "careful", "other0_tasks": ["fly"]}, "Select a valid choice"),
        ({"other0_model": "c" * 201}, "at most 200 characters"),
    ],
)
def test_a_wrong_row_is_explained_and_kept(staff: Client, fields: Any, told: str) -> None:
    page = save(staff, **fields)

    assert told in page
    assert not Connection.objects.exists()
    for value in fields.values():
        assert isinstance(value, list) or f'value="{value}"' in page


@pytest.mark.requirement("R358")
def test_a_topic_can_use_another_model(browser: Client, alice: User, row: Connection) -> None:
    topic = make_topic(alice, "Heat pumps")
    page = f"/topics/{topic.slug}/settings/"
    assert '<option value="careful">' in browser.get(page).content.decode()

    TopicSettings.objects.update_or_create(topic=topic, defaults={"model": "gone"})
    shown = browser.get(page).content.decode()

    assert "gone (no longer set up, so the default is used)" in shown


def test_with_one_model_there_is_nothing_to_choose(
    browser: Client, alice: User, row: Connection
) -> None:
    Connection.objects.update(profile={})
    topic = make_topic(alice, "Heat pumps")

    assert 'name="model"' not in browser.get(f"/topics/{topic.slug}/settings/").content.decode()


# --- a key of one's own ---


@pytest.mark.requirement("R359")
@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_key_is_saved_shown_to_be_in_use_and_removed(
    browser: Client, row: Connection, headers: dict[str, str]
) -> None:
    answer = browser.post("/settings/spending/key/", {"secret": KEY}, headers=headers, follow=True)

    page = answer.content.decode()
    assert "Key saved." in page
    assert "use your key at http://model.example" in page
    assert KEY not in page
    assert OwnKey.objects.get().reveal_secret() == KEY

    page = browser.post(
        "/settings/spending/key/", {"remove": "1"}, headers=headers, follow=True
    ).content.decode()
    assert "Key removed." in page
    assert not OwnKey.objects.exists()


@pytest.mark.parametrize(
    ("secret", "told"),
    [("", "Enter the key."), ("a\nb", "invalid characters"), ("ключ", "invalid")],
)
def test_a_key_that_cannot_be_sent_is_explained(
    browser: Client, row: Connection, secret: str, told: str
) -> None:
    page = browser.post("/settings/spending/key/", {"secret": secret}).content.decode()

    assert told in page
    assert not OwnKey.objects.exists()


def test_a_moved_model_leaves_the_key_unused_and_says_so(browser: Client, row: Connection) -> None:
    browser.post("/settings/spending/key/", {"secret": KEY})
    Connection.objects.update(base_url="http://other.example/v1")

    page = browser.get("/settings/spending/").content.decode()

    assert "Your key is for http://model.example, but the model has a different URL now" in page


def test_a_key_that_was_entered_for_a_model_that_is_gone_can_be_removed(
    browser: Client, row: Connection
) -> None:
    browser.post("/settings/spending/key/", {"secret": KEY})
    Connection.objects.update(model="")

    page = browser.get("/settings/spending/").content.decode()

    assert "No model is currently set up, so your key isn’t used." in page
    assert "Remove key" in page
    assert "Save key" not in page


def test_without_a_model_no_key_is_requested(browser: Client) -> None:
    assert "Your own key" not in browser.get("/settings/spending/").content.decode()
    browser.post("/settings/spending/key/", {"secret": KEY})
    assert not OwnKey.objects.exists()
