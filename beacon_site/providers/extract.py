"""Text of pages and entries of feeds, read in a child process that is killed at its limits."""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any

from django.utils.translation import gettext as _

from beacon_site.providers.child_process import MIB, ChildFailed, ChildProcess
from beacon_site.providers.errors import ProviderRejected

COMMAND = (sys.executable, "-m", "beacon_site.providers.extract_child")
SECONDS_PER_DOCUMENT = 10.0
MEMORY_LIMIT = 512 * MIB


@dataclass(frozen=True, slots=True)
class Extracted:
    """What a page says: text with a blank line between paragraphs, and what is known of it."""

    text: str
    title: str = ""
    published_at: date | None = None
    language: str = ""


class Extractor(ChildProcess):
    """Reads pages and feeds in one child process."""

    def __init__(
        self,
        *,
        seconds: float = SECONDS_PER_DOCUMENT,
        memory_limit: int = MEMORY_LIMIT,
        command: Sequence[str] = COMMAND,
    ) -> None:
        super().__init__(command, seconds=seconds, memory_limit=memory_limit)

    def extract(self, content: bytes, *, content_type: str = "", url: str = "") -> Extracted:
        """Read one document: HTML, PDF, Markdown or plain text, in any charset.

        Raises ProviderRejected if there is nothing in it to read or it cannot be read within
        the limits, and ProviderUnavailable if the reader is too busy or cannot be started.
        """
        page = {"content": _encoded(content), "content_type": content_type, "url": url}
        try:
            answer = self.ask(page)
        except ChildFailed as exc:
            raise ProviderRejected(explain(exc.reason)) from exc
        trouble = str(answer.get("trouble", ""))
        if trouble:
            raise ProviderRejected(explain(trouble))
        return Extracted(
            text=valid_text(str(answer.get("text", ""))),
            title=valid_text(str(answer.get("title", ""))),
            published_at=_date(answer.get("date")),
            language=valid_text(str(answer.get("language", ""))),
        )

    def read_feed(self, content: bytes, url: str) -> dict[str, Any] | None:
        """Return the feed as `extract_feed.read_feed` does; None if it exceeds the limits.

        Raises ProviderUnavailable if the reader is too busy or cannot be started.
        """
        try:
            return self.ask({"feed": _encoded(content), "url": url})
        except ChildFailed:
            return None


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


@cache
def get_extractor() -> Extractor:
    """Return the extractor of this process; its child starts with the first document."""
    return Extractor()


def _date(value: object) -> date | None:
    try:
        return date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def valid_text(text: str) -> str:
    """Return the text without NUL, lone surrogates and other characters that are none.

    Line feeds and tabs stay.  What this returns can be encoded as UTF-8 and stored.
    """
    return _SURROGATES.sub("\ufffd", text.translate(_NOT_TEXT))


_SURROGATES = re.compile("[\ud800-\udfff]")
_NOT_TEXT = dict.fromkeys((*range(9), 0x0B, 0x0C, *range(0x0D, 0x20), *range(0x7F, 0xA0)))


def explain(trouble: str) -> str:
    """Say in a sentence why a page wasn't read; `trouble` is a reason of the child or ChildFailed."""
    reasons = {
        "empty": _("There is no text on the page; it may be drawn by a program in the browser."),
        "scanned": _("The PDF holds pictures of pages and no text."),
        "encrypted": _("The PDF is locked by a password."),
        "damaged": _("The document is damaged and cannot be read."),
        "binary": _("What the server sent is not text."),
        "attributes": _("The page is built to stall its reader: a tag with too many attributes."),
        "levels": _("The page is built to stall its reader: tags nested too deep."),
        "slow": _("Reading the page took too long, so it was stopped."),
        "memory": _("Reading the page took too much memory, so it was stopped."),
    }
    return reasons.get(trouble) or _("The page made its reader crash, so it was left out.")
