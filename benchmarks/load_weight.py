"""The size of each page's first view and its layout shift, measured with Chromium."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_WATCH = """
window.__shift = 0;
window.__moved = [];
new PerformanceObserver(list => {
  for (const one of list.getEntries()) if (!one.hadRecentInput) {
    window.__shift += one.value;
    for (const {node} of one.sources) if (node)
      window.__moved.push(node.nodeName + "." + (node.className || node.parentNode?.className));
  }
}).observe({type: "layout-shift", buffered: true});
"""


@dataclass(frozen=True, slots=True)
class Weight:
    """One page as a browser got it that had nothing of it."""

    name: str
    kilobytes: float  # without its fonts, which every page shares
    fonts: float
    shift: float

    @property
    def is_editor(self) -> bool:
        """Return whether it holds a text of any length, and an editor for it."""
        return self.name.endswith("/edit/")


def weigh(base: str, given: dict[str, Any]) -> list[Weight]:
    """Load one page of each kind with an empty cache; return what came over the wire."""
    from playwright.sync_api import sync_playwright

    paths = [addresses[0] for addresses in given["pages"].values()]
    paths += [given["files"][0] + "edit/", "/notes/new/", "/topics/new/", "/settings/", "/agents/"]
    paths += ["/schedule/"]
    program = os.environ.get("BEACON_TEST_CHROMIUM") or next(
        filter(None, map(shutil.which, NAMES)), None
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            return [_one(browser, base, given["session"], path) for path in dict.fromkeys(paths)]
        finally:
            browser.close()


def _one(browser: Any, base: str, session: str, path: str) -> Weight:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.add_cookies([{"name": "sessionid", "value": session, "url": base}])
    page = context.new_page()
    page.add_init_script(_WATCH)
    wire = context.new_cdp_session(page)
    wire.send("Network.enable")
    wire.send("Network.setCacheDisabled", {"cacheDisabled": True})
    fonts: set[str] = set()
    took = {True: 0.0, False: 0.0}  # kilobytes, by whether it is a font

    def asked(event: Any) -> None:
        if event["type"] == "Font":
            fonts.add(event["requestId"])

    def loaded(event: Any) -> None:
        took[event["requestId"] in fonts] += event["encodedDataLength"] / 1000

    wire.on("Network.responseReceived", asked)
    wire.on("Network.loadingFinished", loaded)
    answer = page.goto(base + path, wait_until="networkidle")
    assert answer is not None
    if answer.status != 200:
        print(f"  {path}: HTTP {answer.status}, left out", flush=True)
        weight = Weight(path, 0, 0, 0)
    else:
        weight = Weight(path, took[False], took[True], float(page.evaluate("window.__shift")))
        if weight.shift:
            moved = page.evaluate("window.__moved.slice(0, 6).join(', ')")
            print(f"  {path}: moved by {weight.shift:.4f}: {moved}", flush=True)
    context.close()
    return weight
