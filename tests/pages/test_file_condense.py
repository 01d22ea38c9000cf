"""A shorter text for a memory file: proposed as a diff, saved only when a person accepts it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from beacon_site.net.errors import ProviderUnavailable
from beacon_site.providers.llm.base import Answer, Usage
from memory import tasks
from memory.models import MemoryFile, ModelCall
from memory.models.actors import REFLECTOR
from memory.services.files import condensing as file_condensing
from memory.services.files.reading import read_file
from memory.services.files.saving import append_to, lock_section, save_file
from memory.services.llm import connections
from tests.pages.record_cast import HTMX, text_of
from tests.providers.fakes import FAKE_PROFILE, FakeLanguageModel

pytestmark = pytest.mark.django_db
USER = "facts/user.md"
PAGE = f"/files/{USER}/condense/"
TEXT = "# User\n\n> Summary: me\n\n- Name: 建军\n- Name: 建军\n\n## Work\n\n- Stand-up: Tue 10:00\n"
SHORT = "# User\n\n> Summary: me\n\n- 建军\n\n## Work\n\n- Stand-up: Tue 10:00\n"
WINDOW = "00000000-0000-4000-8000-000000000001"


@pytest.fixture
def browser(alice: Any, client_of: Callable[[Any], Client]) -> Client:
    save_file(alice, USER, TEXT, by=alice.actor)
    return client_of(alice)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> FakeLanguageModel:
    """A model that answers what is enqueued."""
    fake = FakeLanguageModel()
    monkeypatch.setattr(connections, "language_model", lambda: fake)
    monkeypatch.setattr(connections, "llm_profile", lambda: FAKE_PROFILE)
    return fake


def now(owner: Any) -> MemoryFile:
    return read_file(owner, USER)


def asked(browser: Client, owner: Any) -> str:
    """Press the button, let a worker ask the model, and return the page that waited."""
    waits = browser.post(PAGE)["Location"]
    assert "asking the model" in text_of(browser.get(waits))
    tasks.condense_file(str(now(owner).pk), now(owner).version)
    return text_of(browser.get(waits))


def proposed(html: str) -> str:
    """The text that accepting would save."""
    return html.partition('<textarea name="content"')[2].partition(">")[2].partition("<")[0]


@pytest.mark.requirement("R226")
def test_by_rule_a_diff_is_proposed_and_saved_only_once_accepted(browser: Client, alice: Any):
    html = browser.get(PAGE).content.decode()
    assert "removed 1 repeated bullet" in html and now(alice).version == 2

    asked = {"content": proposed(html).lstrip(), "seen": 2, "window": WINDOW, "note": "condensed"}
    browser.post(f"/files/{USER}/edit/", asked)

    assert now(alice).version == 3 and now(alice).content.count("建军") < TEXT.count("建军") + 1
    assert now(alice).content.count("- Name") == 1


def test_one_that_is_stale_leads_to_the_merge_screen(browser: Client, alice: Any):
    text = proposed(browser.get(PAGE).content.decode()).lstrip()
    save_file(alice, USER, TEXT.replace("- Name: 建军\n- Name: 建军", "- Nobody"), by=REFLECTOR)

    answer = browser.post(f"/files/{USER}/edit/", {"content": text, "seen": 2, "window": WINDOW})

    assert "merge-hunk" in text_of(answer) and now(alice).version == 3


def test_the_model_proposes_a_shorter_text(browser: Client, alice: Any, model: Any):
    model.enqueue(f"```markdown\n{SHORT}```")

    html = asked(browser, alice)

    assert "Model proposal" in html and "- 建军" in proposed(html)
    assert now(alice).version == 2
    assert ModelCall.objects.for_user(alice).get().purpose == "condense"


def test_over_htmx_the_page_waits_by_polls_and_then_shows_the_text(
    browser: Client, alice: Any, model: Any
):
    model.enqueue(SHORT)
    headers = HTMX | {"HX-Target": "file-condense"}

    answer = browser.post(PAGE, headers=headers)
    waits = answer["HX-Push-Url"]

    html = text_of(answer)
    assert html.startswith('<div id="file-condense"') and f'hx-get="{waits}"' in html
    assert browser.get(waits, headers=headers).status_code == 204
    tasks.condense_file(str(now(alice).pk), 2)
    assert "Model proposal" in text_of(browser.get(waits, headers=headers))


def test_no_one_waits_for_a_model_within_a_request(browser: Client, model: Any):
    model.enqueue(SHORT)
    browser.post(PAGE)
    assert not model.history


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (TEXT + "- And more\n", "it isn’t shorter"),
        ("", "empty or was cut off"),
        (Answer(SHORT, Usage(10, 5), "fake", "length"), "cut off"),
        ("# User\n\n## Work\n\n- Wed\n", "changed the locked section"),
        (ProviderUnavailable("It is down."), "It is down."),
    ],
)
def test_what_cannot_be_proposed_is_reported_and_rules_are_in(
    browser: Client, alice: Any, model: Any, answer: Any, why: str
):
    lock_section(now(alice), ["User", "Work"], by=alice.actor, locked=True)
    model.enqueue(answer)

    html = asked(browser, alice)

    assert why in html and "removed 1 repeated bullet" in html and now(alice).content == TEXT


def test_a_proposal_for_a_text_that_was_changed_since_is_none(
    browser: Client, alice: Any, model: Any
):
    model.enqueue(SHORT)
    waits = browser.post(PAGE)["Location"]
    save_file(alice, USER, f"{TEXT}- Cat: Mao\n", by=REFLECTOR)

    tasks.condense_file(str(now(alice).pk), 2)

    assert "has changed since you asked the model" in text_of(browser.get(waits))
    assert not model.history


@pytest.mark.parametrize("address", ["x", "2.0", "2.0.0", "-1.0.0", "9" * 40, "2.0.9999999999.1"])
def test_an_address_that_no_one_asked_from_shows_what_rules_can_do(browser: Client, address: str):
    assert "removed 1 repeated bullet" in text_of(browser.get(f"{PAGE}?asked={address}"))


def test_an_answer_that_never_comes_is_given_up(browser: Client, alice: Any, model: Any):
    waits = browser.post(PAGE)["Location"]
    with time_machine.travel(timezone.now() + file_condensing.PATIENCE):
        assert "didn’t respond within 10 minutes" in text_of(browser.get(waits))


def test_without_a_broker_it_is_reported_and_nothing_waits(
    browser: Client, model: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(file_condensing, "send", lambda *_args, **_more: False)
    html = text_of(browser.post(PAGE))
    assert "The background worker can’t be reached" in html and "removed 1 repeated bullet" in html


def test_a_sensitive_file_is_shown_to_no_model(browser: Client, alice: Any, model: Any):
    now(alice).change(by=alice.actor, sensitivity="sensitive")
    assert "marked sensitive" in text_of(browser.post(PAGE))
    tasks.condense_file(str(now(alice).pk), now(alice).version)
    assert not model.history


def test_where_there_is_nothing_to_take_out_it_says_so(browser: Client, alice: Any):
    save_file(alice, USER, SHORT, by=alice.actor)
    html = text_of(browser.get(PAGE))
    assert "nothing to shorten automatically" in html and "Accept and save" not in html


def test_a_stranger_condenses_nothing_of_hers(
    browser: Client, client_of: Any, bob: Any, alice: Any
):
    path = append_to(alice, "episodes/2026-02.md", "## Tokyo", by=alice.actor).file.path
    theirs = client_of(bob)
    assert theirs.get(f"/files/{path}/condense/").status_code == 404
    assert "建军" not in text_of(theirs.get(PAGE))
    assert "/sign-in/" in Client().get(PAGE)["Location"]


def test_the_page_takes_few_queries(browser: Client):
    with CaptureQueriesContext(connection) as asked:
        browser.get(PAGE)
    assert len(asked) <= 12


def test_how_full_the_facts_are_is_explained_in_bytes_without_a_pointer(
    browser: Client, alice: Any
):
    html = text_of(browser.get(PAGE))

    assert re.search(r'<span class="sr-only">[\d,]+ of [\d,]+ bytes</span>', html)
