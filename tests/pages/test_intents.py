"""What a topic's intent withholds: folded in the report, told after all by one press, tried first."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memory.models import Topic
from research.models import DeltaItem, Report, Run, TopicSettings
from research.pages import shares
from research.services.runs import trash as run_trash
from tests.pages.test_topic_settings import opened
from tests.pages.topic_cast import text_of
from tests.research.factories import make_item, make_report, make_run, make_second_run, make_topic
from tests.undo import undone

ClientOf = Callable[[Any], Client]
HTMX = {"HX-Request": "true"}
WHY = "doesn’t mention price"
CEO = "The chief executive officer resigned."


@pytest.fixture
def browser(client_of: ClientOf, alice: Any) -> Client:
    return client_of(alice)


@pytest.fixture
def run(alice: Any) -> Run:
    run = make_second_run(make_topic(alice))
    make_item(run, "new", CEO, hidden_reason=WHY, judged=WHY, judged_by="rule", citations=[1])
    return run


@pytest.fixture
def item(run: Run) -> DeltaItem:
    return DeltaItem.objects.get(run=run, sentence=CEO)


def page_of(run: Run) -> str:
    return f"/topics/{run.topic.slug}/runs/{run.pk}/"


def tell(item: DeltaItem) -> str:
    return f"{page_of(item.run)}told/{item.pk}/"


def settings_of(run: Run) -> TopicSettings:
    return TopicSettings.objects.get(topic=run.topic)


def test_the_report_folds_what_was_withheld_with_its_reason(browser: Client, run: Run):
    page = text_of(browser.get(page_of(run)))

    assert "1 filtered out" in page
    assert WHY in page and "(keywords)" in page
    listed = re.search(r'<ul class="delta">.*?</ul>', page, re.S)
    assert listed and CEO not in listed[0]


def test_tell_me_such_things_shows_this_one_and_widens_the_intent(
    browser: Client, run: Run, item: DeltaItem
):
    page = text_of(browser.post(tell(item), follow=True))

    assert "You’ll now be notified about changes like this." in page
    assert "1 filtered out" not in page
    run.report.refresh_from_db()
    assert CEO in run.report.delta
    assert settings_of(run).notify_examples == [CEO]


def test_it_can_be_undone(browser: Client, run: Run, item: DeltaItem):
    undone(browser, browser.post(tell(item), follow=True))

    item.refresh_from_db()
    run.report.refresh_from_db()
    assert (item.hidden_reason, item.judged_by) == (WHY, "rule")
    assert CEO not in run.report.delta
    assert settings_of(run).notify_examples == []


def test_pressed_twice_the_second_press_is_explained(browser: Client, item: DeltaItem):
    browser.post(tell(item))
    response = browser.post(tell(item))

    assert response.status_code == 409
    assert "isn’t currently filtered out" in text_of(response)


def test_of_a_report_in_the_trash_nothing_is_reported(browser: Client, alice: Any, item: DeltaItem):
    item.run.report.trash(by=alice.actor)
    assert browser.post(tell(item)).status_code == 404


def test_a_stranger_reports_nothing(client_of: ClientOf, bob: Any, item: DeltaItem):
    assert client_of(bob).post(tell(item)).status_code == 404
    item.refresh_from_db()
    assert item.hidden_reason == WHY


def test_of_a_run_in_the_trash_nothing_is_reported(browser: Client, run: Run, item: DeltaItem):
    run_trash.trash_run(run.report, by=run.topic.owner.actor)

    assert browser.post(tell(item)).status_code == 404
    assert settings_of(run).notify_examples == []


def test_what_no_source_supports_cannot_be_told(browser: Client, run: Run):
    unsupported = DeltaItem.objects.get(run=run, sentence="It is the fastest.")

    assert browser.post(tell(unsupported)).status_code == 409


def test_two_buttons_of_the_settings_at_once_try_nothing(browser: Client, run: Run):
    sent = opened(run.topic, intent="price", try_intent="1", up="nothing")

    assert browser.post(f"/topics/{run.topic.slug}/settings/", sent).status_code == 200


def tried(browser: Client, topic: Topic, intent: str, **more: Any) -> Any:
    url = f"/topics/{topic.slug}/settings/"
    return browser.post(url, opened(topic, intent=intent, try_intent="1"), **more)


def test_an_intent_is_tried_on_the_last_runs_before_it_is_saved(browser: Client, run: Run):
    page = text_of(tried(browser, run.topic, "Only what the CEO does"))

    assert "1 in notifications, 3 filtered out" in page
    assert "Judged by keywords." in page
    assert "Only what the CEO does" in page  # still in the field
    assert settings_of(run).intent == ""


def test_of_the_trial_the_newest_run_that_changed_something_is_open(browser: Client, run: Run):
    make_report(make_run(run.topic))  # nothing new in it

    trial = tried(browser, run.topic, "prices").context["trial"]

    assert [one["run"].number for one in trial["runs"]] == [3, 2]
    assert trial["opened"] == run.pk


def test_the_trial_over_htmx_gives_the_form_alone(browser: Client, run: Run):
    page = text_of(tried(browser, run.topic, "prices", headers=HTMX))

    assert page.startswith('<form id="topic-form"') or '<form id="topic-form"' in page[:200]
    assert "<html" not in page


def test_a_trial_of_an_intent_that_the_rule_cannot_read_says_so(browser: Client, run: Run):
    assert "the filter needs keywords" in text_of(tried(browser, run.topic, "important things"))


def test_too_long_an_intent_is_explained_and_kept(browser: Client, run: Run):
    intent = "prices " * 1500
    url = f"/topics/{run.topic.slug}/settings/"
    page = text_of(browser.post(url, opened(run.topic, intent=intent)))

    assert "A filter can have at most 10,000 characters, but this one has 10,499." in page
    assert intent.strip() in page
    assert "maxlength" not in re.search(r'<textarea name="intent"[^>]*>', page)[0]  # type: ignore[index]


def test_an_intent_is_saved_with_the_topic(browser: Client, run: Run):
    url = f"/topics/{run.topic.slug}/settings/"
    browser.post(url, opened(run.topic, intent="prices\r\nor laws", notify_examples=CEO))

    assert settings_of(run).intent == "prices\nor laws"
    assert settings_of(run).notify_examples == [CEO]


def test_a_shared_report_reveals_nothing_of_what_was_withheld(alice: Any, run: Run):
    listed = run.delta_items.filter(status__in=DeltaItem.LISTED, hidden_reason="")
    listed.update(hidden_reason=WHY, judged=WHY, judged_by="rule")
    Report.objects.filter(run=run).update(
        delta="Nothing matches your filter. 4 other changes were saved to memory."
    )
    link = shares.make_link(run.report, days=7, note="", by=alice.actor)
    page = text_of(Client().get(f"/shared/{link.token}/"))

    assert "withheld" not in page
    assert "Nothing new to report." in page
