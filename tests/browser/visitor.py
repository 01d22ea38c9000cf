"""A person at a browser, and the problems of every page they open."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, sync_playwright

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage",
]  # fmt: skip
PASSWORD = "correct-horse-battery"
AXE = Path(__file__).parent.parent / "vendor" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
CHECK = """async ([tags, only]) => {
  const rules = only.length ? {type: "rule", values: only} : {type: "tag", values: tags};
  const found = await axe.run(document, {runOnly: rules, resultTypes: ["violations"]});
  return found.violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.target.join(" ")} (${n.any.concat(n.all, n.none).map((c) => c.message).join("; ")})`));
}"""


@contextlib.contextmanager
def chromium(path: str) -> Iterator[Browser]:
    """One headless Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


class Visitor:
    """A browser of one person with its one page; `problems` holds what no page may do."""

    def __init__(self, browser: Browser, base: str, **options: Any) -> None:
        options = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"} | options
        self.base = base
        self.problems: list[str] = []
        self.scripts: bool = options.get("java_script_enabled", True)
        self.context = browser.new_context(base_url=base, **options)
        self.context.set_default_timeout(20_000)
        self.page: Page = self.context.new_page()
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.problems.append(f"script: {error}"))
        self.page.on("request", self._asked)

    def _said(self, message: ConsoleMessage) -> None:
        # What the server refused is Chromium's own remark, and the page itself is checked for it.
        # htmx logs a request that a newer one replaced (hx-sync) as two errors: nothing is wrong.
        # A request that failed has a third line, "htmx:sendError".
        known = ("Failed to load resource", "htmx:sendAbort", "htmx:afterRequest")
        if message.type == "error" and not any(text in message.text for text in known):
            self.problems.append(f"console: {message.text} at {self.page.url}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.base, "data:", "blob:")):
            self.problems.append(f"another origin: {request.url}")

    def goto(self, path: str) -> None:
        """Open a page of the site (or a whole address)."""
        self.page.goto(path)

    def slow_down(self, milliseconds: int) -> None:
        """Let every answer of the site take this long from now on."""
        session = self.context.new_cdp_session(self.page)
        session.send("Network.enable")
        session.send(
            "Network.emulateNetworkConditions",
            {
                "offline": False,
                "latency": milliseconds,
                "downloadThroughput": -1,
                "uploadThroughput": -1,
            },
        )

    def sign_in(self, name: str, password: str = PASSWORD, *, then: str = "/") -> None:
        """Sign in with two requests, without loading pages for it, and open a page."""
        ask = self.context.request
        ask.get("/sign-in/")
        token = next(one["value"] for one in self.context.cookies() if one["name"] == "csrftoken")
        fields = {"username": name, "password": password, "csrfmiddlewaretoken": token}
        headers = {"Referer": f"{self.base}/sign-in/"}
        answer = ask.post("/sign-in/", form=fields, headers=headers, max_redirects=0)
        assert answer.status == 302, answer.text()
        self.goto(then)

    def sign_in_by_form(self, name: str, password: str = PASSWORD) -> None:
        """Sign in as a person does."""
        self.goto("/sign-in/")
        self.page.get_by_label("Username").fill(name)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Sign in", exact=True).click()
        self.page.wait_for_url(lambda url: "/sign-in/" not in url, timeout=60_000)

    def press(self, name: str) -> None:
        """Press the first button of this name that is shown."""
        self.click(self.page.get_by_role("button", name=name).filter(visible=True).first)

    def unfold(self, name: str) -> None:
        """Open the first menu of this name that is shown."""
        self.page.locator("main summary", has_text=name).filter(visible=True).first.click()

    def follow(self, name: str) -> None:
        """Follow the first link of this name that is shown, and wait for its page."""
        link = self.page.get_by_role("link", name=name).filter(visible=True).first
        if link.get_attribute("hx-get") is not None:
            self.click(link)
            return
        with self.page.expect_navigation():
            link.click()

    def click(self, what: Locator) -> None:
        """Click a link or a button; without scripts it loads a page, and this waits for it.

        Playwright returns from a click before the answer is there, so what is read at once
        afterwards might be read of the page that is being left.
        """
        if self.scripts:
            what.click()
            return
        with self.page.expect_navigation():
            what.click()

    def heading(self) -> str:
        """Return the text of the page's one h1."""
        return " ".join(self.page.locator("h1").inner_text().split())

    def words(self, selector: str = "main") -> str:
        """Return the text of a part of the page, as they are shown."""
        return " ".join(self.page.locator(selector).first.inner_text().split())

    def violations(self, *rules: str) -> list[str]:
        """Return what axe-core finds against WCAG 2.2 AA, or only against the named rules.

        What is partly under a toast, a bar or the head is scrolled clear and measured there, and an
        open menu is closed: an obstacle is what cannot be.
        """
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text() + ";0")
        found = list(self.page.evaluate(CHECK, [TAGS, rules]))
        return [problem for problem in found if not self._comes_clear(problem)]

    def _comes_clear(self, problem: str) -> bool:
        """Return whether axe still reports a covered control after it's scrolled to the middle."""
        rule, _colon, rest = problem.partition(": ")
        target, _bracket, why = rest.partition(" (")
        if rule != "target-size" or "obscured" not in why:
            return False
        self.page.evaluate(
            """(what) => {
              for (const menu of document.querySelectorAll("details.dropdown[open]")) {
                menu.open = false;
                menu.dataset.wasOpen = "";
              }
              document.querySelector(what).scrollIntoView({ block: "center", inline: "center" });
            }""",
            target,
        )
        again = self.page.evaluate(CHECK, [TAGS, ["target-size"]])
        self.page.evaluate(
            """() => document.querySelectorAll("[data-was-open]").forEach((menu) => {
              menu.open = true;
              delete menu.dataset.wasOpen;
            })"""
        )
        return not any(other.startswith(f"{rule}: {target} (") for other in again)

    def scrolls_sideways(self) -> bool:
        """Return whether the page is wider than the window."""
        return bool(
            self.page.evaluate(
                "document.documentElement.scrollWidth > document.documentElement.clientWidth"
            )
        )

    def too_wide(self) -> list[str]:
        """Return the innermost elements that reach beyond the window."""
        found: list[str] = self.page.evaluate(
            """() => {
              const edge = document.documentElement.clientWidth + 1;
              const wide = [...document.querySelectorAll("body *")].filter(
                (one) => one.getBoundingClientRect().right > edge && one.checkVisibility());
              return wide.filter((one) => !wide.some((other) => one !== other && one.contains(other)))
                .slice(0, 5).map((one) => `${one.tagName.toLowerCase()}.${one.className}`
                  + ` ${Math.round(one.getBoundingClientRect().right)} px`
                  + ` “${one.textContent.trim().slice(0, 40)}”`);
            }"""
        )
        return found

    def close(self) -> None:
        """Close the browser's window."""
        self.context.close()


def unfold(visitor: Visitor) -> None:
    """Open everything that is folded on the page."""
    visitor.page.evaluate(
        "document.querySelectorAll('main details:not(.dropdown)').forEach((d) => { d.open = true })"
    )


def signed_in(visit: Callable[..., Visitor], name: str, **options: object) -> Visitor:
    """Open a window in which this person is signed in."""
    made = visit(**options)
    made.sign_in(name)
    return made
