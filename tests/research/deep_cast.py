"""A model on a scripted endpoint for the tracks of a deep run, and the requests it got."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from django.db import connection
from werkzeug import Request, Response

from beacon_site.providers.llm.base import LlmProfile
from beacon_site.providers.llm.openai_model import OpenAIModel, learned_about
from memory.models import Topic
from research.models import Run
from tests.providers.servers import Scene, ScriptedChatServer, says
from tests.research import cast
from tests.research.conftest import Providers

Turn = Sequence[tuple[str, dict[str, Any]]] | str | Scene
DONE = "- Nothing was found."
_TRACK = re.compile(r"Your track: (\w+)\.")


def search(query: str) -> tuple[str, dict[str, Any]]:
    return "web_search", {"query": query}


def opens(number: int) -> tuple[str, dict[str, Any]]:
    return "open_page", {"page": f"p{number}"}


def calls(*wanted: tuple[str, dict[str, Any]], tokens: int = 0) -> Scene:
    """An answer that wants these tools called at once; `tokens` is what the endpoint says it cost."""
    return says(
        None,
        finish_reason="tool_calls",
        usage={"prompt_tokens": tokens, "completion_tokens": 1} if tokens else None,
        tool_calls=[
            {
                "id": f"c{place}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for place, (name, arguments) in enumerate(wanted)
        ],
    )


class Agent:
    """What the endpoint says: a turn for each question of a track, else the notes DONE.

    `report` is what the writer answers; `sent` holds the messages of each question of a track.
    """

    def __init__(self, report: dict[str, Any], **tracks: Sequence[Turn]) -> None:
        self.report = report
        self.tracks = tracks
        self.sent: dict[str, list[list[dict[str, Any]]]] = {}
        self.prompts: dict[str, str] = {}

    def __call__(self, body: dict[str, Any]) -> Any:
        system = str(body["messages"][0]["content"])
        track = _TRACK.search(system)
        if track is not None:
            return self._turn(track[1], body)
        kind = "plan" if system.startswith("You plan") else "write"
        self.prompts[kind] = "\n".join(str(one["content"]) for one in body["messages"])
        return cast.PLAN if kind == "plan" else self.report

    def _turn(self, track: str, body: dict[str, Any]) -> Any:
        sent = self.sent.setdefault(track, [])
        sent.append(body["messages"])
        turns = self.tracks.get(track, ())
        turn = turns[len(sent) - 1] if len(sent) <= len(turns) else DONE
        return turn if callable(turn) or isinstance(turn, str) else calls(*turn)


def at(chat: ScriptedChatServer, providers: Providers, agent: Agent, **profile: Any) -> Agent:
    """Let the site's model be this agent on the scripted endpoint."""
    learned_about.cache_clear()
    chat.forget()
    chat.standing = agent
    given = {"timeout": 5.0, "context_tokens": 32_768, **profile}
    providers.model = OpenAIModel(LlmProfile(chat.base_url, "tiny", **given))  # type: ignore[assignment]
    return agent


def deep(topic: Topic) -> Run:
    """Return a queued deep run of the topic."""
    by = topic.owner.actor
    return Run.objects.start(topic, trigger="person", by=by, depth="deep")


def results(messages: Sequence[dict[str, Any]]) -> list[str]:
    """Return the tools' answers as they were sent."""
    return [str(one["content"]) for one in messages if one["role"] == "tool"]


def meanwhile(act: Callable[[], object], then: Scene, seconds: float = 20.0) -> Scene:
    """A model that thinks for long, while someone does something."""

    def scene(request: Request) -> Response:
        act()
        connection.close()
        time.sleep(seconds)
        return then(request)

    return scene
