"""A month's episodes by day."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memory.pages.files.history import TIMELINE_ENTRIES
from memory.services.files.saving import append_to, save_file
from tests.pages.record_cast import text_of

pytestmark = pytest.mark.django_db
PATH = "episodes/2026-02.md"
TIMELINE = f"/files/{PATH}/timeline/"
TOKYO = (
    "## Tokyo flights\n- Summary: Spring cheapest\n- Date: 2026-02-26\n- Task: compare flights\n"
    "- Findings: ANA 2800\n- Lesson: prices go stale\n"
)
GIFT = "## Gift\n- Summary: a tea set\n- Date: 2026-02-27\n- Task: ideas\n- Decision: Jingdezhen\n"


@pytest.fixture
def browser(alice: Any, client_of: Callable[[Any], Client]) -> Client:
    for entry in (TOKYO, GIFT):
        append_to(alice, PATH, entry, by=alice.actor)
    return client_of(alice)


@pytest.mark.requirement("R226")
def test_entries_stand_by_day_the_newest_first_with_what_they_say(browser: Client):
    html = text_of(browser.get(TIMELINE))

    gift, tokyo = html.index("Jingdezhen"), html.index("ANA 2800")
    assert gift < tokyo and "Friday, 27 February 2026" in html and "prices go stale" in html
    assert f"/files/{PATH}/#section-tokyo-flights" in html and "/blame/?line=" in html
    assert "2 entries" in html and "in the standard format" not in html


def test_what_is_amiss_with_an_entry_is_reported(browser: Client, alice: Any):
    append_to(alice, PATH, "## Undated\n- Summary: none", by=alice.actor)

    html = text_of(browser.get(TIMELINE))

    assert "Without a date" in html and "No Date line" in html
    assert "No Task line" in html and "“Undated”" not in html  # its title is above
    assert "1 entry isn’t in the standard format" in html


def test_a_file_without_entries_says_how_one_begins(browser: Client, alice: Any):
    save_file(alice, PATH, "# 2026-02\n\nWords.\n", by=alice.actor)
    assert "No entries" in text_of(browser.get(TIMELINE))


def test_fact_files_and_months_that_there_are_not_have_no_timeline(browser: Client):
    assert browser.get("/files/facts/user.md/timeline/").status_code == 404
    assert browser.get("/files/episodes/2026-03.md/timeline/").status_code == 404


def test_a_stranger_sees_no_timeline_of_hers(browser: Client, client_of: Any, bob: Any):
    assert client_of(bob).get(TIMELINE).status_code == 404
    assert "/sign-in/" in Client().get(TIMELINE)["Location"]


def test_many_entries_come_in_pages_with_few_queries(browser: Client, alice: Any):
    text = "".join(f"## E{n}\n- Date: 2026-02-01\n\n" for n in range(TIMELINE_ENTRIES + 5))
    save_file(alice, PATH, text, by=alice.actor)

    with CaptureQueriesContext(connection) as asked:
        first = text_of(browser.get(TIMELINE))

    assert ">E54<" in first and ">E4<" not in first and len(asked) <= 12
    assert ">E4<" in text_of(browser.get(f"{TIMELINE}?from={TIMELINE_ENTRIES}"))
    assert browser.get(f"{TIMELINE}?from=99999").status_code == 200
