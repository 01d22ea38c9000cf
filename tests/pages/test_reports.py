"""The list of reports over all topics."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from memory.models import User
from research.models import Report
from research.pages import report_list
from tests.research.factories import make_report, make_run, make_second_run, make_topic
from tests.undo import undone

HTMX = {"HX-Request": "true"}
URL = "/reports/"


@pytest.fixture
def browser(alice: User, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


@pytest.fixture
def three(alice: User) -> list[Report]:
    """Three reports of three topics, oldest first; the newest is read."""
    made = []
    for age, title in ((3, "Alpha"), (2, "Beta"), (1, "Gamma")):
        report = make_report(make_run(make_topic(alice, title)))
        Report.objects.filter(pk=report.pk).update(created=timezone.now() - timedelta(days=age))
        made.append(report)
    made[2].mark_read()
    return made


def page(browser: Client, query: str = "", **how: Any) -> str:
    return browser.get(URL + query, **how).content.decode()


def titles(shown: str) -> list[str]:
    body = shown[shown.index("<tbody") :]
    return sorted(("Alpha", "Beta", "Gamma"), key=lambda t: body.find(f"<bdi>{t}"))


def test_unread_reports_stand_first_then_the_newest(browser: Client, three: list[Report]):
    shown = page(browser)

    assert titles(shown) == ["Beta", "Alpha", "Gamma"]
    assert shown.count('<tr class="unread">') == 2


@pytest.mark.requirement("R41")
def test_a_row_counts_what_changed_by_kind_without_what_was_withheld(browser: Client, alice: User):
    make_second_run(make_topic(alice))

    shown = page(browser)

    assert "+ 1 new" in shown and "≠ 1 changed" in shown and "! 1 contradicted" in shown


def test_a_quiet_report_says_so(browser: Client, alice: User):
    make_report(make_run(make_topic(alice), is_baseline=False), is_quiet=True)

    assert "nothing new" in page(browser)


def test_over_htmx_it_is_the_list_alone(browser: Client, three: list[Report]):
    shown = page(browser, "?q=beta", headers=HTMX)

    assert shown.strip().startswith('<div id="reports"')
    assert "<bdi>Beta</bdi>" in shown and "<bdi>Alpha</bdi>" not in shown


def test_the_unread_alone(browser: Client, three: list[Report]):
    assert "<bdi>Gamma</bdi>" not in page(browser, "?show=unread")


def test_a_stranger_sees_none_of_them(bob: User, client_of: Any, three: list[Report]):
    shown = page(client_of(bob))

    assert "No reports yet" in shown and "Alpha" not in shown


@pytest.mark.parametrize(
    "query", ["?cursor=nonsense", "?q=%00", "?show=nothing", "?cursor=WyJ4Il0"]
)
def test_bad_input_gives_the_list(browser: Client, three: list[Report], query: str):
    assert "<bdi>Alpha</bdi>" in page(browser, query)


def test_words_that_no_report_has_lead_back_to_all(browser: Client, three: list[Report]):
    shown = page(browser, "?q=nowhere")

    assert "No matching reports" in shown and "Show all reports" in shown


def test_pages_follow_each_other_without_a_gap(
    browser: Client, three: list[Report], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(report_list, "PAGE_SIZE", 1)
    seen, cursor = [], ""
    for _page in range(3):
        answer = browser.get(URL, {"cursor": cursor} if cursor else {})
        seen += [row["report"].title for row in answer.context["rows"]]
        cursor = answer.context["next_cursor"]

    assert seen == ["Beta", "Alpha", "Gamma"] and cursor is None


def test_selected_reports_are_marked_read(browser: Client, three: list[Report]):
    browser.post(URL + "mark/", {"report": [three[0].pk, "nonsense"], "as": "read"})

    assert [r.read_at is not None for r in Report.objects.order_by("created")] == [
        True,
        False,
        True,
    ]


def test_marking_all_read_can_be_undone(browser: Client, three: list[Report]):
    answer = browser.post(URL + "mark/", {"all": "1"}, follow=True)
    assert not Report.objects.filter(read_at=None).exists()

    undone(browser, answer)

    assert Report.objects.filter(read_at=None).count() == 2


def test_marking_all_keeps_to_the_words_asked_for(browser: Client, three: list[Report]):
    browser.post(URL + "mark/", {"all": "1", "q": "alpha"})

    assert Report.objects.get(title="Beta").read_at is None
    assert Report.objects.get(title="Alpha").read_at is not None


def test_marking_comes_back_to_the_list_as_it_was(browser: Client, three: list[Report]):
    answer = browser.post(URL + "mark/", {"next": "/reports/?show=unread"})
    away = browser.post(URL + "mark/", {"next": "https://elsewhere.example/"})

    assert answer["Location"] == "/reports/?show=unread" and away["Location"] == URL


def test_a_stranger_marks_nothing(bob: User, client_of: Any, three: list[Report]):
    client_of(bob).post(URL + "mark/", {"all": "1"})

    assert Report.objects.filter(read_at=None).count() == 2


def test_looking_changes_nothing(browser: Client, three: list[Report]):
    before = list(Report.objects.order_by("pk").values())

    page(browser)

    assert list(Report.objects.order_by("pk").values()) == before


def test_its_number_of_queries_is_fixed(browser: Client, alice: User, three: list[Report]):
    with CaptureQueriesContext(connection) as few:
        page(browser)
    for n in range(10):
        make_report(make_run(make_topic(alice, f"More {n}")))
    with CaptureQueriesContext(connection) as many:
        page(browser)

    assert len(many) == len(few) <= 7


def test_its_address_has_a_name() -> None:
    assert reverse("research:reports") == URL
