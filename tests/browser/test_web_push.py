"""A browser shows what Beacon pushes, and says why if it can't subscribe."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.visitor import Visitor

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
NEW = "/settings/channels/new/browser/"
SHOWN = """async (worker) => {
  const registration = await navigator.serviceWorker.getRegistration(worker);
  const shown = await registration.getNotifications();
  return shown.map(({ title, body, tag, data }) => ({ title, body, tag, url: data.url }));
}"""


@pytest.fixture
def visitor(visit: Callable[..., Visitor], newcomer: str) -> Visitor:
    made = visit()
    made.sign_in(newcomer, then=NEW)
    return made


def test_a_browser_that_cannot_subscribe_says_why_and_saves_nothing(visitor: Visitor) -> None:
    visitor.page.get_by_label("Name").fill("My laptop")
    visitor.press("Add channel")
    expect(visitor.page.get_by_text("Notifications are blocked for this site")).to_be_visible()

    # Chromium has no push service here, so with the permission it can't subscribe either.
    visitor.context.grant_permissions(["notifications"])
    visitor.goto(NEW)
    visitor.page.get_by_label("Name").fill("My laptop")
    visitor.press("Add channel")
    expect(visitor.page.get_by_text("The browser couldn’t subscribe")).to_be_visible()
    expect(visitor.page.get_by_label("Name")).to_have_value("My laptop")
    visitor.goto("/settings/channels/")
    expect(visitor.page.get_by_text("No notification channels yet")).to_be_visible()
    # Chromium remarks on its console that windows without a profile can't subscribe.
    visitor.problems[:] = [one for one in visitor.problems if "Push API" not in one]


def test_a_pushed_message_is_shown_with_its_page(visitor: Visitor) -> None:
    visitor.context.grant_permissions(["notifications"])
    worker = visitor.page.locator("form[data-push-worker]").get_attribute("data-push-worker") or ""
    push = _pusher(visitor.page, visitor.base, worker)

    told = {"title": "Batteries", "body": "2 changes", "url": visitor.base + "/topics/", "tag": "1"}
    push(json.dumps(told))
    push(json.dumps({**told, "body": "2 changes."}))  # sent again after a lost answer
    push("not ours")

    shown = sorted(visitor.page.evaluate(SHOWN, worker), key=lambda one: str(one["title"]))
    assert shown == [
        {**told, "body": "2 changes."},
        {"title": "Beacon", "body": "", "tag": "", "url": "/"},
    ]


def _pusher(page: Page, base: str, worker: str) -> Callable[[str], None]:
    """Register the worker, and return a function that hands it a message as a push service does."""
    devtools = page.context.new_cdp_session(page)
    found: list[str] = []
    devtools.on(
        "ServiceWorker.workerRegistrationUpdated",
        lambda event: found.extend(one["registrationId"] for one in event["registrations"]),
    )
    devtools.send("ServiceWorker.enable")
    page.evaluate("worker => navigator.serviceWorker.register(worker)", worker)
    page.wait_for_function(
        "async worker => (await navigator.serviceWorker.getRegistration(worker))?.active?.state === 'activated'",
        arg=worker,
    )

    def push(data: str) -> None:
        devtools.send(
            "ServiceWorker.deliverPushMessage",
            {"origin": base, "registrationId": found[-1], "data": data},
        )
        page.wait_for_timeout(500)

    return push
