"""What a row of the list of topics says; fifty stand on a page, so each thing is made once.

Words are looked up once a page and addresses found once, not once a row: half of the page's time
went into that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from research.models import Run
from research.runs import presenters
from research.schedules import scheduling
from research.unread.topic_news import Told

_ADDRESSES = {
    "page": "research:topic",
    "read": "research:topic-read",
    "run": "research:topic-run",
    "settings": "research:topic-settings",
    "trash": "research:topic-trash",
}
_ANY = "-"  # stands for a topic's slug


@dataclass
class TopicRow:
    """One row: the topic with its state in a word, its last run, and what is new since read."""

    topic: Any
    seen_from: str = ""  # the person's time zone
    last_run: Run | None = None
    unfinished: Run | None = None
    new_counts: list[int] = field(default_factory=list)
    news: Told = field(default_factory=Told)
    words: RowWords | None = None  # in a list

    @cached_property
    def names(self) -> dict[str, str]:
        """Return what the row's controls are called for those who do not see it."""
        return self.words.of_title(self.topic.title) if self.words else {}

    @cached_property
    def to(self) -> dict[str, str]:
        """Return where its links and buttons lead."""
        return self.words.addresses(self.topic.slug) if self.words else {}

    @cached_property
    def state(self) -> str:
        """Return the row's state; a recurring topic without a live run is scheduled (R52)."""
        schedule = getattr(self.topic, "schedule", None)
        if self.unfinished is not None:
            return self.unfinished.status
        if self.topic.archived_at is not None:
            return "archived"
        if schedule is not None and schedule.recurs:
            return "scheduled"
        if schedule is not None and schedule.preset != schedule.Preset.NONE:
            return "paused"
        return self.last_run.status if self.last_run else "never"

    @property
    def last_failed(self) -> bool:
        """Whether the last run failed, the state does not say so, and nothing is under way."""
        if self.last_run is None or self.unfinished is not None:
            return False
        return self.last_run.status == Run.Status.FAILED != self.state

    @property
    def state_word(self) -> str:
        """Return the word for states that are none of a run's."""
        words = {"archived": _("Archived"), "never": _("Not run yet")}
        return words.get(self.state, "")

    @property
    def label(self) -> str:
        """Return the word of a run that waits for a person; empty where the state says it all."""
        return self.unfinished.waiting_label if self.unfinished is not None else ""

    @cached_property
    def summary(self) -> str:
        """Return what is known in short, without marks that lead nowhere from here."""
        return presenters.bare(self.topic.summary)

    @property
    def runs_again(self) -> bool:
        """Whether there is a next run to show."""
        return self.state not in ("archived", "paused") and self.next_run_at is not None

    @property
    def next_run_at(self) -> datetime | None:
        """Return when the topic runs next by itself."""
        schedule = getattr(self.topic, "schedule", None)
        found: datetime | None = schedule.next_run_at if schedule else None
        return found

    @property
    def schedule_words(self) -> str:
        """Return the schedule as a phrase."""
        schedule = getattr(self.topic, "schedule", None)
        return scheduling.in_words(schedule, seen_from=self.seen_from) if schedule else ""

    @property
    def last_run_url(self) -> str:
        """Return the page of the last run."""
        return reverse("research:run", args=[self.topic.slug, self.last_run.pk])  # type: ignore[union-attr]

    @property
    def unfinished_url(self) -> str:
        """Return the page of the run that is under way."""
        return reverse("research:run", args=[self.topic.slug, self.unfinished.pk])  # type: ignore[union-attr]

    @property
    def bars(self) -> SafeString:
        """Return the sparkline of new facts over the last runs, oldest first: 72 by 18."""
        most = max(self.new_counts, default=0) or 1
        heights = [max(1, round(16 * count / most)) for count in self.new_counts]
        return mark_safe(  # noqa: S308  whole numbers alone  # nosec B308 B703
            "".join(
                f'<rect class="a" x="{9 * place}" y="{18 - high}" width="6" height="{high}"/>'
                for place, high in enumerate(heights)
            )
        )

    @property
    def spark_words(self) -> str:
        """Return what the sparkline shows, for those who do not see it."""
        return _("New facts in the last runs, oldest first: %(counts)s") % {
            "counts": ", ".join(map(str, self.new_counts))
        }


class RowWords:
    """What every row says, and where its links lead: looked up once for a page of rows."""

    def __init__(self) -> None:
        self.said = {
            "state": _("State"),
            "last": _("Last run"),
            "news": _("New since read"),
            "facts": _("Facts"),
            "sources": _("Sources"),
            "next": _("Next run"),
            "private": _("private"),
            "failed": _("last run failed"),
            "never": _("never"),
            "nothing": _("nothing"),
            "paused": _("paused"),
            "mark_read": _("Mark read"),
            "run_now": _("Run now"),
        }
        self._of_a_title = {
            "select": _("Select %(title)s"),
            "mark_read": _("Mark read: %(title)s"),
            "run_now": _("Run now: %(title)s"),
            "settings": _("Settings of %(title)s"),
            "trash": _("Move %(title)s to the trash"),
        }
        self._addresses = {
            name: reverse(route, args=[_ANY]).partition(f"/{_ANY}/")
            for name, route in _ADDRESSES.items()
        }

    def of_title(self, title: str) -> dict[str, str]:
        """Return what names the topic: the buttons' words for those who do not see the row."""
        return {name: words % {"title": title} for name, words in self._of_a_title.items()}

    def addresses(self, slug: str) -> dict[str, str]:
        """Return where the topic's links and buttons lead."""
        return {
            name: f"{before}/{slug}/{behind}"
            for name, (before, _any, behind) in self._addresses.items()
        }
