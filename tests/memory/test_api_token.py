"""`manage.py api_token`: programs can rely on its output."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from memory.models import ApiToken, Invitation, Topic, User


def test_it_prints_the_token_alone(alice: User, capsys: Any) -> None:
    call_command("api_token", "alice", "--scopes", "read,write")

    printed = capsys.readouterr().out
    assert printed.startswith("bcn_")
    assert len(printed.split()) == 1


def test_only_its_hash_is_stored_with_its_scopes(alice: User, capsys: Any) -> None:
    call_command("api_token", "alice", "--scopes", "write,read", "--name", "claude")

    token = ApiToken.objects.get()
    assert token.hash == Invitation.hash_of(capsys.readouterr().out.strip())
    assert (token.scopes, token.agent.name) == (["read", "write"], "claude")
    assert token.agent.owner == alice


@pytest.mark.parametrize("scopes", ["root", "read,root", ""])
def test_an_unknown_scope_is_named_with_those_that_exist(alice: User, scopes: str) -> None:
    with pytest.raises(CommandError, match="read, write, admin"):
        call_command("api_token", "alice", "--scopes", scopes)


def test_an_account_that_is_not_there_is_named(db: None) -> None:
    with pytest.raises(CommandError, match="There are no accounts yet"):
        call_command("api_token", "nobody")


def test_it_can_be_limited_to_topics(alice: User, capsys: Any):
    topic = Topic.objects.create(owner=alice, title="Ferries", slug="ferries")

    call_command("api_token", "alice", "--topics", "ferries")
    with pytest.raises(CommandError, match="no topic trains"):
        call_command("api_token", "alice", "--topics", "ferries,trains")

    assert [token.topic_ids for token in ApiToken.objects.all()] == [[topic.pk]]


@pytest.mark.parametrize("topics", ["", ",", "  "])
def test_topics_without_slugs_arent_the_whole_memory(alice: User, topics: str) -> None:
    with pytest.raises(CommandError, match=r"at least one slug\. No token was created"):
        call_command("api_token", "alice", "--topics", topics)

    assert not ApiToken.objects.exists()


@pytest.mark.parametrize("command", ["api_token", "first_account_link", "research"])
def test_a_database_without_tables_is_reported_in_a_sentence(
    db: None, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(connection.introspection, "table_names", list)

    with pytest.raises(CommandError, match=r"There is no data in .* yet. Run `make up` first"):
        call_command(command, *([] if command == "first_account_link" else ["anything"]))
