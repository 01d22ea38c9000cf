"""Sensitive text never leaves this machine, no matter how it came in or who asks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memory.models import User
from memory.services.content.items import store
from memory.services.files.saving import save_file
from memory.services.notes.saving import write_note
from memory.services.observations.saving import write_observation
from tests.research import outside_cast
from tests.research.outside_cast import ASKERS, Outside
from tests.research.sensitive_paths import PATHS

pytestmark = pytest.mark.slow

_numbers = count(1)


@pytest.fixture(scope="module")
def outside() -> Iterator[Outside]:
    servers = Outside()
    with servers.chat, servers.vectors, servers.search:
        yield servers


def owner_of(outside: Outside) -> User:
    outside.forget()
    name = f"owner{next(_numbers)}"
    return User.objects.create_user(name, f"{name}@example.org")


def asked(asker: str, owner: User, outside: Outside) -> None:
    outside.wanted = outside_cast.reads_of(owner)
    ASKERS[asker](owner, outside)


def told_of(word: str, outside: Outside) -> set[str]:
    """Return who got the word."""
    return {who for who, said in outside.heard().items() if word in said}


@pytest.mark.requirement("R222")
@pytest.mark.parametrize("asker", sorted(ASKERS))
@hypothesis_settings(
    max_examples=2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(paths=st.lists(st.sampled_from(sorted(PATHS)), min_size=2, max_size=6, unique=True))
def test_what_is_marked_sensitive_reaches_no_one_outside(
    db: None, outside: Outside, asker: str, paths: list[str]
):
    owner = owner_of(outside)
    with outside_cast.standing_in(outside):
        for name in paths:
            PATHS[name](owner, f"The tea fares come to zebra{len(name)}x.")
        asked(asker, owner, outside)

    assert told_of("zebra", outside) == set()


@pytest.mark.requirement("R222")
def test_no_path_at_all_leads_a_sensitive_text_to_a_model(db: None, outside: Outside):
    owner = owner_of(outside)
    with outside_cast.standing_in(outside):
        for name, write in PATHS.items():
            write(owner, f"The tea fares come to zebra{len(name)}x.")
        asked("Ask", owner, outside)

    assert len(outside.chat.asked) > 3
    assert told_of("zebra", outside) == set()


@pytest.mark.parametrize("asker", sorted(ASKERS))
def test_what_is_not_marked_does_reach_them(db: None, outside: Outside, asker: str):
    owner = owner_of(outside)
    text = "The tea fares come to giraffe."
    write_note(owner, "summary", text, by=owner.actor)
    write_observation(owner, "finding", text, by=owner.actor)
    store(owner, text * 200, by=owner.actor)
    save_file(owner, "facts/memory.md", f"# Memory\n\n- {text}\n", by=owner.actor)

    with outside_cast.standing_in(outside):
        asked(asker, owner, outside)

    listener = {"the embedder": "embedder", "REST": "programs", "MCP": "programs"}
    assert listener.get(asker, "model") in told_of("giraffe", outside)
