"""The loopback model, SerpAPI and website for runs, with calls counted by topic."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from types import TracebackType
from typing import Any

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tests.providers.servers import (
    NOTHING_FOUND,
    Scene,
    ScriptedChatServer,
    SerpApiServer,
    calls_tool,
)

KEY = "serp-secret-key-98765"
MODEL_KEY = "sk-model-secret-key-4321"
PLAN_MARK = '{"queries"'
EXTRACT_MARK = '"insights"'
_TRACK = re.compile(r"Your track: (\w+)\.")


class Outside:
    """What the outside answers.

    A topic's model calls and searches are answered by the scene under `scenes[title, kind]` (kind
    is "plan", "write" or "search"), else as a good service would.  `spoiled[title]` makes the scene
    out of what a good model would have said.
    """

    def __init__(self) -> None:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self.chat, self.serp = ScriptedChatServer(), CountingSerp(KEY, self._search_scene)
        self.web = HTTPServer(host="127.0.0.1", port=0, threaded=True)
        self.scenes: dict[tuple[str, str], Scene] = {}
        self.spoiled: dict[str, Callable[[dict[str, Any]], Scene]] = {}
        self.track_calls: list[tuple[str, str]] = []  # title and track of each, in order
        self.chat.standing = self._answer

    def __enter__(self) -> Outside:
        self.web.start()
        self.chat.__enter__()
        self.serp.__enter__()
        self.publish(
            1, "The harbour at Varna ordered 14 electric cranes for 31 million euros in May."
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.serp.__exit__()
        self.chat.__exit__()
        self.web.stop()

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment that connects a site to these."""
        return {
            "BEACON_LLM_BASE_URL": self.chat.base_url,
            "BEACON_LLM_MODEL": "loopback-model",
            "OPENAI_API_KEY": MODEL_KEY,
            "SERPAPI_BASE_URL": self.serp.base_url,
            "SERPAPI_API_KEY": KEY,
            "BEACON_SEARCH": "serpapi",
            "BEACON_FETCH_ALLOW_HOSTS": f"127.0.0.1:{self.web.port}",
            "BEACON_RUNS_PER_HOUR": "1000",
        }

    def publish(self, number: int, sentence: str) -> None:
        """Add a page to the website and to the search results."""
        page = f"<html><title>Page {number}</title><body><article><h1>Page {number}</h1><p>{sentence}</p></article></body></html>"
        self.web.expect_request(f"/page/{number}").respond_with_data(page, content_type="text/html")
        link = self.web.url_for(f"/page/{number}")
        self.serp.results = [
            *self.serp.results,
            {"position": number, "title": f"Page {number}", "link": link, "snippet": sentence},
        ]

    # --- what was asked ---------------------------------------------------------------------------

    def calls(self, title: str, kind: str) -> int:
        """Return how often the topic asked the model to plan or write, or how often it searched."""
        if kind == "search":
            return len(self.queries(title))
        asked = [a for a in self.chat.asked if f"Topic: {title}\n" in a.prompt]
        return sum((PLAN_MARK in a.prompt) == (kind == "plan") for a in asked)

    def queries(self, title: str) -> list[str]:
        """Return the queries that the topic has asked, in order."""
        return [asked["q"] for asked in list(self.serp.asked) if asked["q"].startswith(f"{title} ")]

    def prompts(self, mark: str) -> list[str]:
        """Return the prompts that hold `mark`, in order."""
        return [asked.prompt for asked in self.chat.asked if mark in asked.prompt]

    # --- answers ------------------------------------------------------------------------------------

    def _search_scene(self, query: str) -> Scene | None:
        title = query.rpartition(" ")[0]
        return self.scenes.get((title, "search"))

    def _answer(self, body: dict[str, Any]) -> Scene | dict[str, Any] | str:
        prompt = "\n".join(str(m["content"]) for m in body["messages"])
        title = title_of(prompt)
        if track := _TRACK.search(prompt):
            return self._track(title, track[1], body["messages"])
        kind = "plan" if PLAN_MARK in prompt else "extract" if EXTRACT_MARK in prompt else "write"
        good = self.good(title, kind, prompt)
        if title in self.spoiled:
            return self.spoiled[title](good)
        return self.scenes.get((title, kind)) or good

    def _track(self, title: str, track: str, messages: list[dict[str, Any]]) -> Scene | str:
        """Return what a good model does on a track of a deep run: it opens a page and tells of it."""
        has_read = messages[-1]["role"] == "tool"
        self.track_calls.append((title, track))
        if scene := self.scenes.get((title, f"{track} {'told' if has_read else 'asked'}")):
            return scene
        if has_read:
            return "- The harbour at Varna ordered 14 electric cranes [p1]"
        return calls_tool("open_page", {"page": "p1"})

    def good(self, title: str, kind: str, prompt: str = "") -> dict[str, Any]:
        """Return what a good model says when it plans, writes, or extracts observations."""
        if kind == "extract":
            return {"findings": [], "insights": [], "lessons": []}
        if kind == "plan":
            return {"queries": [f"{title} news", f"{title} orders"]}
        page = prompt.rsplit("<<<", 1)[-1].split(">>>", 1)[0]
        lines = [line for line in page.splitlines() if "harbour" in line.lower()]
        sentence = lines[0].strip() if lines else "The harbour said nothing."
        return {
            "summary": f"{sentence} [1]",
            "body": f"{sentence} [1]",
            "findings": [{"sentence": sentence, "citations": [1], "quote": sentence}],
        }


def title_of(prompt: str) -> str:
    """Return the topic that a prompt is about."""
    _before, mark, after = prompt.rpartition("\nTopic: ")
    return after.splitlines()[0].strip() if mark else ""


class CountingSerp(SerpApiServer):
    """SerpAPI that plays a scene for the queries that have one."""

    def __init__(self, key: str, scene_of: Callable[[str], Scene | None]) -> None:
        super().__init__(key=key)
        self._scene_of = scene_of

    def stand(self, request: Request) -> Response:
        """Return the scene's answer, or a normal SerpAPI answer."""
        scene = self._scene_of(request.args.get("q", ""))
        return scene(request) if scene else self.stand_well(request)

    def stand_well(self, request: Request) -> Response:
        """Return what a good SerpAPI says."""
        return super().stand(request)

    def nothing(self, request: Request) -> Response:
        """Return what a good SerpAPI says that has found nothing."""
        body = {"search_metadata": {"status": "Success"}, "error": NOTHING_FOUND}
        return Response(json.dumps(body), content_type="application/json")
