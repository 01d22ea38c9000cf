"""`make screenshots`: takes every page in its states, light and dark, wide and narrow.

`python -m tests.browser.screenshots [WORD …]` takes only the pages whose name contains a word.
"""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import Browser

from tests import servers
from tests.browser.places import STRANGER, chosen, places
from tests.browser.site import BrowserSite, browser_site
from tests.browser.visitor import PASSWORD, Visitor, chromium
from tests.chromium import chromium as find_chromium

FOLDER = Path(__file__).resolve().parent.parent.parent / "screenshots"
# In a picture of the whole page, buttons that stay in sight would cover a field, and an editor that was
# never in sight has the line numbers of the width before.
UNSTUCK = """() => {
  for (const one of document.querySelectorAll(".in-sight")) one.style.position = "static";
  for (const one of document.querySelectorAll(".ask-form")) Object.assign(one.style, { position: "relative", bottom: "auto", overflow: "clip" });
  scrollTo(0, 0); // what sticks to the top isn't in the middle of the picture
  document.querySelector(".cm-editor")?.scrollIntoView();
}"""
WIDTHS = {1280: 860, 390: 844}


def shoot(visitor: Visitor, name: str) -> None:
    """Save the open page at both widths, light and dark."""
    for width, height in WIDTHS.items():
        visitor.page.set_viewport_size({"width": width, "height": height})
        for theme in ("light", "dark"):
            visitor.page.emulate_media(color_scheme=theme)
            path = FOLDER / f"{name.replace(' ', '-')}.{width}.{theme}.png"
            visitor.page.evaluate(UNSTUCK)
            visitor.page.wait_for_timeout(80)  # a frame in the new colors
            visitor.page.evaluate("document.querySelector('.cm-editor') && scrollTo(0, 0)")
            visitor.page.screenshot(path=path, full_page=True, animations="disabled")
    visitor.page.set_viewport_size({"width": 1280, "height": 860})
    visitor.page.emulate_media(color_scheme="light")


def shoot_fresh(browser: Browser) -> None:
    """The pages of an unused Beacon: first visit, first account, no worker."""
    with browser_site("web") as site:
        visitor = Visitor(browser, site.base)
        visitor.goto("/")
        shoot(visitor, "first-visit")
        visitor.goto(site.first_link())
        shoot(visitor, "first-account")
        visitor.page.locator("[name=username]").fill("ada")
        for field in visitor.page.locator("[type=password]").all():
            field.fill(PASSWORD)
        visitor.page.locator("main button[type=submit]").click()
        visitor.page.wait_for_load_state()
        shoot(visitor, "home-without-worker")
        visitor.close()


def shoot_all(browser: Browser, site: BrowserSite, wanted: list[str]) -> None:
    """The pages of a Beacon in use."""
    visitors: dict[str, Visitor] = {}
    for place in chosen(places(site.play("tests.browser.cast")), wanted):
        if place.who not in visitors:
            visitors[place.who] = Visitor(browser, site.base)
            if place.who != STRANGER:
                visitors[place.who].sign_in(place.who)
        visitor = visitors[place.who]
        place.enter(visitor)
        shoot(visitor, place.name)
        for problem in visitor.problems:
            print(f"{place.name}: {problem}")
        visitor.problems.clear()


def main() -> None:
    """Take all screenshots, or the requested ones."""
    path = find_chromium()
    if not path:
        sys.exit("Beacon: no Chromium was found: apt install chromium, or set BEACON_TEST_CHROMIUM")
    FOLDER.mkdir(exist_ok=True)
    try:
        with chromium(path) as browser:
            if len(sys.argv) == 1:
                shoot_fresh(browser)
            with browser_site("web", "worker", "upkeep", "beat") as site:
                shoot_all(browser, site, sys.argv[1:])
    finally:
        servers.pytest_unconfigure()
    print(f"{len(list(FOLDER.glob('*.png')))} screenshots lie in {FOLDER.name}/")


if __name__ == "__main__":
    main()
