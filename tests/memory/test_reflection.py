"""Reflection: what the reflector gets, what it can do, and what is left whatever goes wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.providers.llm.base import Answer, Message, ToolCall, Usage
from memory.models import Activity, MemoryFile, Proposal, Reflection, Revision, User
from memory.models.actors import REFLECTOR
from memory.services.context.identity import Persona, write_persona
from memory.services.files.saving import save_file
from tests.memory.reflection_cast import LESSON, Reflect, accept_all, call, learned, text_of
from tests.providers.fakes import FAKE_PROFILE, FakeLanguageModel

USER = "# User\n\n> Summary: Alice, tea\n\n- Name: Alice\n- Drinks: tea — «always» 茶\n"


def system(reflect: Any) -> str:
    return str(reflect.model.history[0].messages[0].content)


@pytest.mark.requirement("R175")
def test_the_system_prompt_begins_with_who_the_agent_is(alice: User, reflect: Reflect):
    write_persona(alice, Persona("Mira", "Precise and dry.", "Short."), by=alice.actor)

    reflect("Nothing to keep.")

    assert system(reflect).startswith(
        "You are Mira.\nRole: the personal agent of alice; you research, answer and remember for "
        "them.\nPersonality: Precise and dry.\nSpeaking style: Short.\nValues:\n"
    )


@pytest.mark.requirement("R176")
def test_all_facts_are_in_it_byte_for_byte_and_the_months_by_their_lines(
    alice: User, reflect: Reflect
):
    save_file(alice, "facts/user.md", USER, by=alice.actor)
    entry = (
        "# 2026-02 Episodes\n\n> Summary: Tokyo flights\n\n## Tokyo\n- Summary: Spring cheapest\n"
    )
    save_file(alice, "episodes/2026-02.md", entry, by=alice.actor)

    reflect("Nothing to keep.")

    prompt = system(reflect)
    for path in ("facts/user.md", "facts/memory.md"):
        assert (
            f"=== BEGIN {prompt.split('BEGIN ')[1][:8]}\n{text_of(alice, path)}\n=== END" in prompt
        )
    size = MemoryFile.objects.get(path="episodes/2026-02.md").size
    assert f"- episodes/2026-02.md ({size}B): " in prompt and "## Tokyo" not in prompt


@pytest.mark.requirement("R180")
@pytest.mark.requirement("R181")
def test_it_says_what_to_record_what_not_and_where(reflect: Reflect):
    reflect("Nothing to keep.")

    prompt = system(reflect)
    for rule in ("name, preferences", "colleagues, family", "birthdays", "lessons", "not obvious"):
        assert rule in prompt.split("Worth recording:")[1].split("Not worth")[0]
    for rule in ("searched again", "general knowledge", "routine", "trivial", "facts below"):
        assert rule in prompt.split("Not worth recording:")[1].split("There are only two")[0]
    assert "is it about the person, or about experience?" in prompt
    assert "- facts/user.md: about the person" in prompt


@pytest.mark.requirement("R182")
def test_near_the_budget_it_is_told_to_condense_first(alice: User, reflect: Reflect):
    reflect("Nothing.", source="session:1")
    assert "nearly full" not in system(reflect)
    save_file(alice, "facts/memory.md", "# M\n\n" + "- a fact\n" * 1_400, by=alice.actor)

    reflect("Nothing.", source="session:2")

    assert "nearly full: condense them before you add" in system(reflect)


def test_what_is_marked_sensitive_is_not_told_to_a_provider(alice: User, reflect: Reflect):
    save_file(alice, "facts/user.md", USER, by=alice.actor)
    MemoryFile.objects.filter(path="facts/user.md").update(sensitivity="sensitive")

    reflect("Nothing.")

    assert "Drinks" not in system(reflect)


@pytest.mark.requirement("R177")
@pytest.mark.requirement("R178")
def test_the_model_calls_the_tools_itself_and_there_is_no_list(alice: User, reflect: Reflect):
    accept_all(alice)

    done = reflect(learned(), "Kept one lesson.")

    offered = [tool.name for tool in reflect.model.history[0].tools]  # type: ignore[attr-defined]
    assert offered == ["memory_read", "memory_write", "memory_patch", "memory_append"]
    assert LESSON in text_of(alice, "facts/memory.md")
    assert reflect.model.history[0].schema is None  # type: ignore[attr-defined]
    assert (done.state, done.by, done.rounds) == ("done", "model", 2)


@pytest.mark.requirement("R178")
def test_after_five_rounds_it_ends_with_what_it_has(alice: User, reflect: Reflect):
    accept_all(alice)

    done = reflect(*[learned(f"- lesson {n}") for n in range(9)])

    assert len(reflect.model.history) == 5  # type: ignore[attr-defined]
    assert (done.state, done.rounds, len(done.calls)) == ("done", 5, 5)
    assert "5 rounds" in done.why


@pytest.mark.requirement("R179")
def test_without_a_call_it_is_just_an_assessment(alice: User, reflect: Reflect):
    before = Revision.objects.count()

    done = reflect("Routine work, nothing new.")

    assert (done.state, done.assessment) == ("done", "Routine work, nothing new.")
    assert done.calls == done.changes == [] and Revision.objects.count() == before


@pytest.mark.requirement("R183")
def test_a_long_history_is_trimmed_to_six_tenths_of_the_window(reflect: Reflect):
    small = replace(FAKE_PROFILE, context_tokens=8_192)
    history = [
        message
        for n in range(60)
        for message in (
            Message("assistant", "", (ToolCall(f"c{n}", "web_search", {"query": f"q{n}"}),)),
            Message("tool", f"answer {n} " * 60, (), f"c{n}"),
        )
    ]

    reflect("Nothing.", history=history, profile=small, result="界" * 40_000)

    system_text, user = (one.content for one in reflect.model.history[0].messages)  # type: ignore[attr-defined]
    assert "Find trains to Lyon" in user and "were left out" in user
    assert user.count("Call: ") == user.count("Result: ") > 1
    assert len(user.encode()) // 4 <= 0.6 * 8_192
    assert len((system_text + user).encode()) // 4 < 8_192 * 0.8


@pytest.mark.requirement("R184")
def test_assessment_calls_and_changes_are_kept(alice: User, reflect: Reflect):
    accept_all(alice)

    done = Reflection.objects.get(pk=reflect(learned(), "Kept one lesson.").pk)

    assert done.assessment == "Kept one lesson."
    assert [(one["round"], one["tool"], one["is_error"]) for one in done.calls] == [
        (1, "memory_append", False)
    ]
    version = MemoryFile.objects.get(path="facts/memory.md").version
    assert done.changes == [{"act": "written", "path": "facts/memory.md", "version": version}]
    assert Activity.objects.get(kind="reflected").actor == str(REFLECTOR)


@pytest.mark.requirement("R185")
def test_what_a_person_changed_in_the_meantime_is_reported_and_redone_not_lost(
    alice: User, reflect: Reflect
):
    """The person saves between what the model was shown and what it writes."""
    accept_all(alice)
    save_file(alice, "facts/user.md", USER, by=alice.actor)
    whole = call("memory_write", path="facts/user.md", content=USER.replace("tea —", "coffee —"))
    mended = call(
        "memory_patch",
        path="facts/user.md",
        patches=[{"old_text": "- Drinks: water", "new_text": "- Drinks: water and coffee"}],
    )

    class Meanwhile(FakeLanguageModel):
        def ask(self, *args: Any, **more: Any) -> Answer:
            if not self.history:
                theirs = USER.replace("- Drinks: tea — «always» 茶", "- Drinks: water")
                save_file(alice, "facts/user.md", theirs, by=alice.actor)
            return super().ask(*args, **more)

    done = reflect(whole, mended, "Redone.", kind=Meanwhile)

    assert [one["is_error"] for one in done.calls] == [True, False]
    assert "- Drinks: water" in done.calls[0]["result"]
    assert "- Drinks: water and coffee" in text_of(alice, "facts/user.md")


@pytest.mark.requirement("R185")
def test_a_change_of_other_lines_in_the_meantime_is_joined(alice: User, reflect: Reflect):
    accept_all(alice)
    save_file(alice, "facts/user.md", USER, by=alice.actor)
    mine = USER.replace("Name: Alice", "Name: Alice Ito")

    def meanwhile() -> None:
        theirs = USER + "\n\n- Walks daily\n"
        save_file(alice, "facts/user.md", theirs, by=alice.actor)

    class Meanwhile(FakeLanguageModel):
        def ask(self, *args: Any, **more: Any) -> Answer:
            if not self.history:
                meanwhile()
            return super().ask(*args, **more)

    reflect(call("memory_write", path="facts/user.md", content=mine), "Done.", kind=Meanwhile)

    text = text_of(alice, "facts/user.md")
    assert "Name: Alice Ito" in text and "- Walks daily" in text


# --- what goes wrong ------------------------------------------------------------------------------


def test_the_same_work_is_reflected_on_once(alice: User, reflect: Reflect):
    accept_all(alice)
    first = reflect(learned(), "Kept.")

    again = reflect(learned("- twice"), "Kept again.")

    assert (again.pk, again.assessment) == (first.pk, "Kept.")
    assert "- twice" not in text_of(alice, "facts/memory.md")


class Killed(BaseException):
    """The worker is gone."""


def test_a_worker_lost_behind_its_first_write_does_nothing_twice(alice: User, reflect: Reflect):
    accept_all(alice)
    with pytest.raises(Killed):
        reflect(learned(), Killed())

    done = reflect(learned(), "Kept.")

    assert text_of(alice, "facts/memory.md").count(LESSON) == 1
    assert done.state == "done" and "interrupted" in done.why
    assert [one["path"] for one in done.changes] == ["facts/memory.md"] and len(done.calls) == 1


def test_a_worker_lost_before_it_wrote_begins_again(alice: User, reflect: Reflect):
    accept_all(alice)
    with pytest.raises(Killed):
        reflect(call("memory_read", path="facts/user.md"), Killed())

    done = reflect(learned(), "Kept.")

    assert [one["tool"] for one in done.calls] == ["memory_append"] and done.state == "done"


@pytest.mark.parametrize("failure", [ProviderRejected("wrong key"), ProviderUnavailable("busy")])
def test_a_failing_model_leaves_the_reason_and_writes_nothing(
    alice: User, reflect: Reflect, failure: Exception
):
    done = reflect(failure)

    assert done.state == "failed" and str(failure) in done.why and done.changes == []
    assert not Proposal.objects.exists()
    assert Activity.objects.get(kind="reflection-failed").is_warning


def test_a_model_that_is_away_can_be_tried_again(reflect: Reflect):
    with pytest.raises(ProviderUnavailable):
        reflect(ProviderUnavailable("busy"), last_try=False)

    assert reflect("Nothing new.").state == "done"


def test_a_model_that_talks_nonsense_writes_nothing(alice: User, reflect: Reflect):
    nonsense = Answer("", Usage(), "fake", "", tool_calls=(ToolCall("", "rm", {"_unparsed": "?"}),))
    before = text_of(alice, "facts/memory.md")

    done = reflect(nonsense, call("memory_write", path="/etc/passwd", content="x"), "Well.")

    assert done.state == "done" and [one["is_error"] for one in done.calls] == [True, True]
    assert done.changes == [] and text_of(alice, "facts/memory.md") == before


def test_a_failure_behind_a_write_keeps_the_write_and_says_so(alice: User, reflect: Reflect):
    accept_all(alice)

    done = reflect(learned(), ProviderUnavailable("busy"))

    assert done.state == "done" and "busy" in done.why and len(done.changes) == 1
