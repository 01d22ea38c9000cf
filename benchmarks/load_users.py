"""The users of benchmarks/load.py, for locust, which runs this file in an environment of its own.

What they need is in the file that LOAD_GIVEN names: the session's cookie, a token, addresses.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from html import unescape
from pathlib import Path
from typing import Any

from locust import FastHttpUser, task

GIVEN: dict[str, Any] = json.loads(Path(os.environ["LOAD_GIVEN"]).read_text())
SHARE = float(os.environ.get("LOAD_EACH", "1"))  # tasks a second of each user
SEEN = re.compile(r'name="seen" value="(\d+)"')
CLASH = 'name="base_version"'
TEXT = re.compile(r"<textarea[^>]*name=\"content\"[^>]*>(.*?)</textarea>", re.DOTALL)
_NOTE = {"n": 0}


class _Steady(FastHttpUser):
    """Sends at its rate, at random moments.

    With `constant_throughput` all users sent in the same moment, again and again: 40 people who
    press together every two seconds, not 20 requests per second.
    """

    abstract = True

    def on_start(self) -> None:
        self._next = time.monotonic() + random.uniform(0, 1 / SHARE)
        time.sleep(self.wait_time())  # gevent's: the others continue

    def wait_time(self) -> float:
        """Return the seconds until it is due again; late after a slow answer, it does not wait."""
        self._next += 1 / SHARE
        return max(0.0, self._next - time.monotonic())


class _Person(_Steady):
    abstract = True

    def on_start(self) -> None:
        super().on_start()
        self.client.cookiejar.clear()
        self.headers = {"Cookie": f"sessionid={GIVEN['session']}", "Accept-Encoding": "gzip"}

    def see(self, path: str, name: str, expected: int = 200, **more: Any) -> Any:
        """Ask for a page; what is not answered as expected is a failure."""
        headers = self.headers | more.pop("headers", {})
        with self.client.get(
            path, name=name, headers=headers, catch_response=True, allow_redirects=False, **more
        ) as answer:
            if answer.status_code != expected:
                answer.failure(f"{path}: HTTP {answer.status_code}")
            else:
                answer.success()
            return answer


class Reader(_Person):
    """Lists, searches and looks at single things."""

    @task
    def look(self) -> None:
        name = random.choice(list(GIVEN["pages"]))
        self.see(random.choice(GIVEN["pages"][name]), name)


class Watcher(_Person):
    """Keeps the page of a run open, which asks every two seconds whether anything moved."""

    def on_start(self) -> None:
        super().on_start()
        self.poll = random.choice(GIVEN["polls"])

    @task
    def ask(self) -> None:
        self.see(self.poll, "idle poll", expected=204, headers={"HX-Request": "true"})


class Writer(_Person):
    """Opens a file's editor, puts a line behind the others, and saves."""

    @task
    def save(self) -> None:
        self.save_to(random.choice(GIVEN["files"]) + "edit/", again=True)

    def save_to(self, path: str, *, again: bool) -> None:
        """Save once; where both edits touch, take the saved text and save again, as a person would."""
        page = self.see(path, "the editor")
        html = page.text or ""
        seen, text = SEEN.search(html), TEXT.search(html)
        if not (seen and text):
            return
        _NOTE["n"] += 1
        line = f"saved-{os.getpid()}-{_NOTE['n']}-{time.time_ns()}"
        cookies = f"{self.headers['Cookie']}; csrftoken={GIVEN['csrf']}"
        content = unescape(text[1]).lstrip("\n").rstrip() + f"\n\n## {line}\n- Summary: {line}\n"
        with self.client.post(
            path,
            data={
                "csrfmiddlewaretoken": GIVEN["csrf"],
                "content": content,
                "seen": seen[1],
                "window": GIVEN["window"],
                "note": "",
            },
            headers={"Cookie": cookies, "Referer": GIVEN["base"] + path},
            name="save",
            catch_response=True,
            allow_redirects=False,
        ) as answer:
            if answer.status_code == 302:
                answer.success()
                with Path(GIVEN["saved"]).open("a") as kept:
                    kept.write(f"{path} {line}\n")
                return
            if not (answer.status_code == 200 and CLASH in (answer.text or "")):
                answer.failure(f"HTTP {answer.status_code}")
                return
            answer.success()
        if again:
            self.save_to(path, again=False)


class Asker(_Steady):
    """A client that sends recall requests."""

    @task
    def recall(self) -> None:
        given = {"q": random.choice(GIVEN["questions"]), "mode": "lexical", "limit": "10"}
        headers = {"Authorization": f"Bearer {GIVEN['token']}"}
        self.client.get("/api/v1/recall", params=given, headers=headers, name="recall")


class Rememberer(_Steady):
    """A program that remembers."""

    @task
    def remember(self) -> None:
        words = f"Remembered under load by {os.getpid()} at {time.time_ns()}."
        headers = {"Authorization": f"Bearer {GIVEN['token']}"}
        given = {"kind": "log", "content": words}
        self.client.post("/api/v1/notes", json=given, headers=headers, name="remember")
