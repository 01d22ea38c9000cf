"""`make pictures`: follows the tutorial on a fresh Beacon, and takes docs/pictures/.

`--to FOLDER` puts them elsewhere.  A step that the tutorial names and the pages no longer have ends
the walk with an error.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests import servers
from tests.browser.file_places import write
from tests.browser.site import BrowserSite, browser_site
from tests.browser.visitor import PASSWORD, Visitor, chromium
from tests.chromium import chromium as find_chromium

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
SIZE = {"width": 1120, "height": 760}
MAX = 150_000  # bytes of one, since every clone has them all
TOPIC = "/topics/postgresql-releases/"
WAIT = 120_000  # ms for a run, on a machine that does something else, too


class Walk:
    """The tutorial, step by step."""

    def __init__(self, browser: Browser, site: BrowserSite, folder: Path) -> None:
        self.site, self.folder = site, folder
        self.visitor = Visitor(browser, site.base, viewport=SIZE)
        self.visitor.context.set_default_timeout(WAIT)
        self.page = self.visitor.page

    def take(self, name: str, *, dark: bool = False) -> None:
        """Save a screenshot; with `dark`, also in dark mode."""
        for theme in ("light", "dark") if dark else ("light",):
            self.page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            self.page.wait_for_timeout(100)  # a frame in the new colors
            path = self.folder / (f"{name}-dark.jpg" if theme == "dark" else f"{name}.jpg")
            self.page.screenshot(path=path, type="jpeg", quality=82, animations="disabled")
            assert path.stat().st_size < MAX, f"{path.name} has {path.stat().st_size:,} bytes"
        self.page.emulate_media(color_scheme="light")

    def go(self) -> None:
        """Walk it."""
        self.make_the_account()
        self.research()
        self.believe()
        self.correct()
        self.recall()
        self.tell()

    def make_the_account(self) -> None:
        """Step 1: the one-time link."""
        self.visitor.goto(self.site.first_link())
        self.page.get_by_label("Username").fill("ada")
        for field in self.page.locator("[type=password]").all():
            field.fill(PASSWORD)
        self.visitor.press("Create account")
        expect(self.page.get_by_role("button", name="Try the sample topic")).to_be_visible()
        self.take("home")

    def research(self) -> None:
        """Steps 2 and 3: a baseline, and what changed since."""
        self.visitor.press("Try the sample topic")
        self.until_saved(1)
        self.take("baseline")
        for number in (2, 3):
            self.visitor.goto(TOPIC)
            self.visitor.press("Run now")
            self.until_saved(number)
        self.visitor.goto(f"{TOPIC}?from=2&to=2")
        self.take("report", dark=True)

    def until_saved(self, number: int) -> None:
        """Wait for a run's report."""
        expect(self.page).to_have_title(re.compile(rf"Run #{number}\b"), timeout=WAIT)

    def believe(self) -> None:
        """Step 4: the evidence for a sentence."""
        self.page.locator("article sup a[href^='#source-']").first.click()
        expect(self.page.locator(".cite-card")).to_contain_text("show in page")
        self.take("citation")

    def correct(self) -> None:
        """Step 5: mark a fact as wrong."""
        self.visitor.goto(f"{TOPIC}facts/?view=list")
        self.page.locator("summary", has_text="Mark as wrong").first.click()
        self.page.get_by_label("Reason").first.fill("not what I want to know")
        self.visitor.press("Mark as wrong")
        expect(self.page.locator("#facts .struck")).to_have_count(1)
        self.take("facts")

    def recall(self) -> None:
        """Step 6: search memory."""
        by_meaning = self.page.locator(".memory-score", has_text="meaning").first
        for _ in range(30):  # the upkeep makes the vectors, in its own time
            self.visitor.goto("/memory/?q=when+does+support+end&why=1")
            if by_meaning.is_visible():
                break
            self.page.wait_for_timeout(2_000)
        expect(by_meaning).to_be_visible()
        for _ in range(4):  # the page shows its time: both processes that answer have loaded by now
            self.visitor.goto("/memory/?q=when+does+support+end")
        self.take("recall")

    def tell(self) -> None:
        """Step 7: a memory file is edited, and recall finds the line."""
        line = "- Runs PostgreSQL 14 in production"
        self.visitor.goto("/files/")
        self.page.get_by_role("link", name="facts/user.md").first.click()
        self.page.get_by_role("link", name="Edit").first.click()
        write(self.visitor, f"\n{line}", anew=False)
        self.visitor.press("Save")
        expect(self.page.locator(".file-text")).to_contain_text(line.removeprefix("- "))
        self.visitor.goto("/memory/?q=production")
        expect(self.page.locator(".memory-list")).to_contain_text(line.removeprefix("- "))


def main() -> None:
    """Follow the tutorial and save the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=FOLDER)
    folder: Path = parser.parse_args().to
    path = find_chromium()
    if not path:
        sys.exit("Beacon: no Chromium was found: apt install chromium, or set BEACON_TEST_CHROMIUM")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        processes = ("web", "worker", "upkeep", "beat")
        with (
            chromium(path) as browser,
            browser_site(*processes, BEACON_EMBEDDINGS="local") as site,
        ):
            site.manage("vectors")  # as `make up` does at its start
            walk = Walk(browser, site, folder)
            walk.go()
            assert walk.visitor.problems == [], walk.visitor.problems
    finally:
        servers.pytest_unconfigure()
    print(f"{len(list(folder.glob('*.jpg')))} pictures lie in {folder}")


if __name__ == "__main__":
    main()
