"""The browser extension saves a selection and a page, and Chromium can install Beacon as an app."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Worker, expect

from tests.browser.site import BrowserSite, browser_site
from tests.browser.visitor import PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
EXTENSION = Path(__file__).resolve().parents[2] / "clients" / "browser"
SAVE = """async (selection) => {
  const [tab] = await chrome.tabs.query({active: true, currentWindow: true});
  return self.saveTab(tab, selection);
}"""


@pytest.fixture(scope="module")
def site() -> Iterator[BrowserSite]:
    with browser_site("web") as made:
        made.manage(
            "createsuperuser", "--noinput", "--username=ada", "--email=ada@example.org",
            DJANGO_SUPERUSER_PASSWORD=PASSWORD,
        )  # fmt: skip
        yield made


@pytest.fixture(scope="module")
def token(site: BrowserSite) -> str:
    said = site.manage("api_token", "ada", "--scopes", "read,write", "--name", "browser").stdout
    return next(word for word in said.split() if word.startswith("bcn_"))


@pytest.fixture
def chrome(browser: Browser, tmp_path: Path, chromium_path: str) -> Iterator[BrowserContext]:
    """A Chromium with the extension, which may reach this machine because a test can’t click the prompt.

    It is started by the Playwright of the other tests, because a process can only have one.
    """
    folder = tmp_path / "extension"
    shutil.copytree(EXTENSION, folder)
    told = json.loads((folder / "manifest.json").read_text())
    told["host_permissions"] = ["http://127.0.0.1/*"]
    (folder / "manifest.json").write_text(json.dumps(told))
    context = browser.browser_type.launch_persistent_context(
        str(tmp_path / "profile"),
        executable_path=chromium_path,
        args=[
            "--no-sandbox", "--disable-quic", "--disable-background-networking",
            f"--disable-extensions-except={folder}", f"--load-extension={folder}",
        ],
    )  # fmt: skip
    yield context
    context.close()


def _worker(chrome: BrowserContext) -> Worker:
    return (
        chrome.service_workers[0]
        if chrome.service_workers
        else chrome.wait_for_event("serviceworker")
    )


def _options(chrome: BrowserContext, url: str, token: str) -> Page:
    page = chrome.new_page()
    page.goto(_worker(chrome).url.replace("background.js", "options.html"))
    page.get_by_label("Beacon's address").fill(url)
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Save and test").click()
    return page


def _saved(site: BrowserSite, token: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{site.base}/api/v1/library", headers={"Authorization": f"Bearer {token}"})
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


@pytest.mark.requirement("R268")
def test_a_selection_and_a_page_are_saved(
    chrome: BrowserContext, site: BrowserSite, token: str
) -> None:
    page = _options(chrome, site.base, token)
    expect(page.get_by_role("status")).to_have_text("Saved. Beacon answers.")

    page.goto(f"{site.base}/sign-in/")
    page.set_content(
        "<title>The fleet</title><main><p id=a>It sails in May.</p><p>It returns.</p></main>"
    )
    page.evaluate("getSelection().selectAllChildren(document.getElementById('a'))")
    assert _worker(chrome).evaluate(SAVE, True) == "Saved “The fleet”."
    page.evaluate("getSelection().removeAllRanges()")
    assert _worker(chrome).evaluate(SAVE, False) == "Saved “The fleet”."

    both = _saved(site, token)
    assert [one["title"] for one in both] == ["The fleet", "The fleet"]
    assert {one["url"] for one in both} == {f"{site.base}/sign-in/"}
    assert both[0]["size"] > both[1]["size"] == len("It sails in May.")


def test_what_goes_wrong_is_explained(chrome: BrowserContext, site: BrowserSite) -> None:
    page = _options(chrome, site.base, "bcn_wrong")
    expect(page.get_by_role("status")).to_contain_text("token")
    page.goto(f"{site.base}/sign-in/")
    assert "token" in _worker(chrome).evaluate(SAVE, False)
    page.goto("about:blank")
    assert "doesn't let extensions read" in _worker(chrome).evaluate(SAVE, False)


def test_chromium_can_install_beacon(
    site: BrowserSite, browser: Browser, tmp_path: Path, chromium_path: str
):
    with browser.browser_type.launch_persistent_context(
        str(tmp_path / "profile"), executable_path=chromium_path, args=["--no-sandbox"]
    ) as context:
        page = context.new_page()
        page.goto(f"{site.base}/accounts/sign-in/")
        devtools = context.new_cdp_session(page)

        found = devtools.send("Page.getAppManifest")
        assert found["errors"] == []
        assert found["manifest"]["shareTarget"]["action"] == f"{site.base}/library/add/"
        assert devtools.send("Page.getInstallabilityErrors")["installabilityErrors"] == []
