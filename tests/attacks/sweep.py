"""Opens URLs and checks the responses: harmful content, and the payloads they show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from django.http.response import HttpResponseBase
from django.test import Client

from tests.attacks.cast import Place
from tests.attacks.looking import harm
from tests.attacks.payloads import names_in
from tests.attacks.sinks import sink_of

HTMX = {"HX-Request": "true"}


@dataclass(slots=True)
class Seen:
    """Results: payloads by sink, and all violations."""

    shown: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    harmful: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    broken: list[str] = field(default_factory=list)
    homeless: set[str] = field(default_factory=set)
    pages: dict[str, str] = field(default_factory=dict)

    def look(self, sink: str, address: str, answer: HttpResponseBase | Any) -> None:
        """Check one response."""
        body = answer.getvalue().decode("utf-8", "replace")
        kind = str(answer.headers.get("Content-Type", ""))
        headers = "".join(f"{name}: {value}" for name, value in answer.headers.items())
        if answer.status_code >= 500:
            self.broken.append(f"{address}: {answer.status_code} {getattr(answer, 'exc_info', '')}")
            return
        found = [] if kind == "application/zip" else harm(body, kind)
        if answer.headers.get("X-Content-Type-Options") != "nosniff":
            found.append("its type may be guessed")
        if "\r" in headers or "\n" in headers:
            found.append("a header of two lines")
        self.shown[sink] |= names_in(body)
        self.harmful[sink] += [f"{address}: {what}" for what in found]
        if kind.startswith("text/html") and answer.status_code == 200:
            self.pages[address] = body

    def count(self, note: Callable[..., None]) -> None:
        """Record each sink's figures: each shown payload counts as an attempt."""
        for sink, names in self.shown.items():
            run = min(len(names), len(self.harmful[sink]))
            note(sink, len(names), run=run)

    def problems(self) -> dict[str, Any]:
        """Return all violations, or nothing if there are none."""
        found = {sink: list(what)[:9] for sink, what in self.harmful.items() if what}
        if self.broken:
            found["5xx"] = self.broken[:9]
        if self.homeless:
            found["in no sink"] = sorted(self.homeless)
        return found


def sweep(browser: Client, places: Iterable[Place], *, htmx: bool = False) -> Seen:
    """Open the URLs that accept GET, as pages and (`htmx`) as fragments."""
    browser.raise_request_exception = False
    seen = Seen()
    for place in places:
        answer = browser.get(place.path)
        if answer.status_code == 405:
            continue
        sink = sink_of(place.name)
        if not sink:  # what only leads on shows nothing
            seen.homeless |= {place.name} if answer.status_code == 200 else set()
            continue
        seen.look(sink, place.path, answer)
        if htmx and answer.status_code == 200 and place.name != "admin":
            seen.look(sink, f"{place.path} (htmx)", browser.get(place.path, headers=HTMX))
    return seen
