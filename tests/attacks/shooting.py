"""Sends requests one after another to unchanged data, and records their results."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.test import Client

from tests.attacks.form_shots import Shot

MAX_SECONDS = 10.0  # seconds of this process's own work, for one answer
_TAGS = re.compile(rb"(?s)<(script|style|nav|header|footer)\b.*?</\1>|<[^>]*>")


class Range:
    """A signed-in browser whose requests have no lasting effect, not even signing out."""

    def __init__(self, client: Client) -> None:
        client.raise_request_exception = False
        self._client, self._cookies = client, client.cookies.copy()
        self.codes: Counter[int] = Counter()
        self.broken: list[str] = []

    def fire(self, shots: Iterable[Shot]) -> None:
        """Send them all; record crashes, unexplained rejections, and endless responses."""
        for shot in shots:
            self._client.cookies = self._cookies.copy()
            began = time.process_time()
            with transaction.atomic():
                answer = shot.send(self._client)
                body = answer.getvalue()
                transaction.set_rollback(True)
            took = time.process_time() - began
            self.codes[answer.status_code] += 1
            if wrong := self._wrong_with(shot, answer, body, took):
                self.broken.append(f"{shot.method} {shot.path[:150]} ({shot.what}): {wrong}")

    @staticmethod
    def _wrong_with(shot: Shot, answer: Any, body: bytes, took: float) -> str:
        code = answer.status_code
        if code >= 500:
            crash = getattr(answer, "exc_info", None)
            return f"{code} {crash[1]!r}"[:300] if crash else str(code)
        if took > MAX_SECONDS:
            return f"{took:.1f} s of work"
        is_silent = shot.method in ("HEAD", "OPTIONS", "TRACE")
        if code >= 400 and not is_silent and len(_TAGS.sub(b"", body).strip()) < 20:
            return f"{code} without a word: {body[:200]!r}"
        return ""

    @property
    def tried(self) -> int:
        """How many were sent."""
        return sum(self.codes.values())

    @property
    def refused(self) -> int:
        """How many were rejected."""
        return sum(n for code, n in self.codes.items() if 400 <= code < 500)

    @property
    def crashed(self) -> int:
        """How many crashed."""
        return sum(n for code, n in self.codes.items() if code >= 500)
