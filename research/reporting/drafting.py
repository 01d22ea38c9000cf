"""The report while it is being written: what the model has said so far, for the run's page.

Data flow: the thread of the call hands the text over (`take`) -> the loop that waits for the call
keeps what can be read of it in the step's output, once a second (`keep`) -> the page's poll.
"""

from __future__ import annotations

import time
from types import TracebackType

from django.utils.translation import ngettext

from beacon_site.providers.errors import ProviderError
from beacon_site.providers.partial_json import readable_text
from memory.texts.text import clean
from memory.usage.meter import BudgetReached
from research.working.context import RunContext

KEPT_EVERY = 1.0  # seconds
MOST_DRAFT = 30_000  # characters that are kept of a draft


class NobodyWaits(Exception):
    """The run has let go of the call: ends it, so that no more is written and paid for."""


class LiveDraft:
    """What a model writes, for as long as the run waits for it.

    As a context: a draft that was refused is taken away at once, and its reason told by whoever
    catches the failure; a call that is abandoned ends at its next piece of text.
    """

    def __init__(self, work: RunContext) -> None:
        self._work = work
        self._raw = ""
        self._seen = ""
        self._shown = ""
        self._kept_at = float("-inf")
        self._is_over = False

    def take(self, raw: str) -> None:
        """Take over all that was said so far.  Called by the call's own thread: no database."""
        if self._is_over:
            raise NobodyWaits
        self._raw = raw

    def keep(self) -> None:
        """Keep what can be read of it, at most once a second.  Raises RunLost."""
        raw, now = self._raw, time.monotonic()
        if raw is self._seen or now - self._kept_at < KEPT_EVERY:
            return
        self._seen, self._kept_at = raw, now
        text = clean(readable_text(raw[: MOST_DRAFT * 2]))[0][:MOST_DRAFT]
        if text != self._shown:
            self._put(text)

    def _put(self, text: str) -> None:
        self._shown = text
        count = len(text.split())
        words = ngettext("%(n)d word so far", "%(n)d words so far", count) % {"n": count}
        kept = {name: value for name, value in self._work.step.output.items() if name != "draft"}
        self._work.progress(words if text else "", output=kept | ({"draft": text} if text else {}))

    def __enter__(self) -> LiveDraft:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over = True
        if self._shown and isinstance(exc, ProviderError | BudgetReached):
            self._put("")
