"""An edit by sed on the mirror's copy of a memory file: the page, the next run and Ask show it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse

from beacon_site.providers.llm.base import Answer, Message, ToolCall, Usage
from memory.agents.chat import conversation
from memory.agents.chat import turn as conversation_turn
from memory.models import Topic
from memory.services.files.saving import save_file
from research.models import Run, Step
from research.services.runs.execution import pipeline
from tests.research import cast
from tests.research.conftest import Providers

pytestmark = pytest.mark.django_db(transaction=True)
USER = "facts/user.md"
TEXT = "# User\n\n- Name: Ann\n- Tea: green\n- City: Berlin\n"
READ = Answer(
    "", Usage(10, 5), "fake", "tool_calls", tool_calls=(ToolCall("c1", "memory_read", {"path": USER}),)
)  # fmt: skip


@pytest.fixture
def copy(alice: Any, settings: Any, tmp_path: Path) -> Path:
    """The copy of a fact file on disk."""
    settings.BEACON_MIRROR_DIR = str(tmp_path / "memory")
    save_file(alice, USER, TEXT, by=alice.actor)
    return tmp_path / "memory" / USER


def sed(copy: Path, old: str, new: str) -> None:
    subprocess.run(["sed", "-i", f"s/{old}/{new}/", str(copy)], check=True)


def sent(providers: Providers, call: int) -> list[Message]:
    """The messages of the model's last, or last but one, question."""
    assert providers.model is not None
    return list(providers.model.history[call].messages)


def test_an_edit_by_sed_is_on_the_page(alice: Any, copy: Path, client_of: Callable[[Any], Client]):
    sed(copy, "Berlin", "Lisbon")
    assert b"City: Lisbon" in client_of(alice).get(reverse("memory:file", args=[USER])).content


@pytest.mark.requirement("R161")
def test_an_edit_by_sed_is_in_the_prompt_with_which_the_next_run_looks_back(
    topic: Topic, copy: Path, providers: Providers, run_of: Callable[[Topic], Run]
):
    cast.set_up(providers, 1, 2)
    report = cast.report(1, 2, body="New lines [1]. " * 40)
    providers.model = cast.model(cast.PLAN, report, "Nothing to keep.")
    sed(copy, "Berlin", "Lisbon")

    step = run_of(topic).steps.get(is_follow_up=True, name="reflect")
    sed(copy, "green", "white")  # while the run is over and the look back waits
    Step.objects.filter(pk=step.pk).update(not_before=Now() - timedelta(seconds=1))
    pipeline.run_follow_up(step.pk)

    system = sent(providers, -1)[0].content
    assert "- City: Lisbon" in system and "- Tea: white" in system


@pytest.mark.requirement("R161")
def test_an_edit_by_sed_is_in_the_index_that_ask_is_given_and_in_what_it_reads(
    alice: Any, copy: Path, providers: Providers
):
    providers.model = cast.model(READ, f"You live in Lisbon [{USER}].")
    sed(copy, "Berlin", "Lisbon")

    session = conversation.start(alice, "Home")
    answer = conversation.ask(session, "Where do I live?", by=alice.actor)
    sed(copy, "green", "white")  # while the answer waits for a worker
    conversation_turn.answer(answer.pk)

    index, result = sent(providers, -2)[1].content, sent(providers, -1)[-1].content
    assert f"- {USER}" in index and "City: Lisbon" in index
    assert "- City: Lisbon" in result and "- Tea: white" in result


def test_an_edit_by_sed_is_what_ask_quotes_without_a_model(
    alice: Any, copy: Path, providers: Providers
):
    sed(copy, "Berlin", "Lisbon")

    answer = conversation.ask(conversation.start(alice), "Which city?", by=alice.actor)
    conversation_turn.answer(answer.pk)

    answer.refresh_from_db()
    assert "City: Lisbon" in answer.content and "Berlin" not in answer.content
