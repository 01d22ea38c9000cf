"""Pages in Chromium without Beacon's CSP, and a canary that detects active content.

The pages were made before, by Django's client; the browser gets them from memory, without their
headers, and our own scripts and styles from the disk. Nothing else answers.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from django.contrib.staticfiles import finders
from playwright.sync_api import Browser, Page, Route

from tests.attacks.payloads import markup, names_in

HERE = "http://beacon.test"
# Each payload's name is a word of the page's scripts, so that `alert(ID)` says who called it.
CANARY = """
window.__alive = [];
for (const name of %s) window[name] = name;
for (const call of ["alert", "confirm", "prompt", "MsgBox"])
  window[call] = (what) => { window.__alive.push(String(what)); return false; };
"""
TOUCH = """() => {
  for (const node of document.querySelectorAll("main *, dialog *, body > *"))
    for (const kind of ["mouseover", "pointerenter", "mouseenter", "focusin", "click"]) {
      if (kind === "click" && node.closest("a[href], button, input, summary, form, [hx-get]")) {
        if (!/zq\\d{3}q/.test(node.getAttributeNames().join() + (node.getAttribute("onclick") || "")))
          continue;
      }
      node.dispatchEvent(new MouseEvent(kind, {bubbles: false, cancelable: true}));
    }
  const bad = [...document.links].filter((a) => !/^(https?|mailto):/.test(a.protocol));
  return window.__alive.concat(bad.map((a) => "leads to " + a.href));
}"""


class Watched:
    """A window whose pages come from memory, and the active content found in it."""

    def __init__(self, browser: Browser, pages: dict[str, str]) -> None:
        self.pages = pages
        self.alive: list[str] = []
        context = browser.new_context(bypass_csp=True)
        context.add_init_script(CANARY % [one.name for one in markup()])
        self.page: Page = context.new_page()
        self.page.on("dialog", lambda dialog: (self._note("a dialog"), dialog.dismiss()))
        context.route("**/*", self._answer)

    def _note(self, what: str) -> None:
        self.alive.append(f"{self.page.url}: {what}"[:300])

    def _answer(self, route: Route) -> None:
        parts = urlsplit(route.request.url)
        if f"{parts.scheme}://{parts.netloc}" != HERE or names_in(parts.path):
            self._note(f"asked for {route.request.url}")
            route.abort()
            return
        found = finders.find(parts.path.removeprefix("/static/")) if parts.path.startswith("/static/") else None  # fmt: skip
        if found:
            route.fulfill(path=found, content_type=mimetypes.guess_type(found)[0] or "text/plain")
        elif route.request.is_navigation_request() and parts.path in self.pages:
            route.fulfill(body=self.pages[parts.path], content_type="text/html; charset=utf-8")
        else:
            route.fulfill(status=404, body="", content_type="text/html")

    def open(self, address: str) -> list[str]:
        """Open one page, touch everything on it, and return the active content."""
        self.alive = []
        self.page.goto(f"{HERE}{address}", wait_until="load")
        said = self.page.evaluate(TOUCH)
        return self.alive + [f"{address}: {what}" for what in said]


@contextmanager
def watched(browser: Browser, pages: dict[str, str]) -> Iterator[Watched]:
    """A window on these pages, closed afterwards."""
    window = Watched(browser, pages)
    yield window
    window.page.context.close()
