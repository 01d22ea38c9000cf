"""What somebody new has done and can do next: a short list on Home that goes away by itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Exists, Subquery
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from beacon_site.providers import sample
from memory.models import ApiToken, Topic, User
from research.models import Run, Schedule

NEW_FOR = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class FirstStep:
    """One thing to try: what it is, where, and whether it was done."""

    label: str
    about: str
    url: str
    done: bool


def first_steps(user: User) -> list[FirstStep]:
    """Return what to try first, with what was done; nothing once all is, or after two weeks.

    One query, none for whom it is over.
    """
    if timezone.now() - user.date_joined > NEW_FOR:
        return []
    topics: Any = Topic.objects.of(user).live()
    runs: Any = Run.objects.of(user).kept().filter(topic__trashed_at=None)
    own = topics.exclude(title=sample.SAMPLE_TOPIC.title)
    again = runs.filter(number__gte=2)
    found = User.objects.filter(pk=user.pk).values_list(
        Subquery(topics.order_by("created").values("slug")[:1]),
        Exists(runs.filter(number__gte=1)),
        Exists(again),
        Exists(own),
        Exists(Schedule.objects.of(user).filter(paused=False).exclude(next_run_at=None)),
        Exists(ApiToken.objects.of(user)),
    )
    slug, *done = found.get()
    first = reverse("research:topic", args=[slug]) if slug else reverse("research:topics")
    steps = [
        FirstStep(label, about, url, is_done)
        for (label, about, url), is_done in zip(_all(first), done, strict=True)
    ]
    return [] if all(done) else steps


def _all(first: str) -> list[tuple[str, str, str]]:
    return [
        (_("Read a first report"), _("a baseline: what can be found now"), first),
        (_("Run the topic again"), _("its report begins with what changed"), first),
        (
            _("Name a topic of your own"),
            _("only the name is needed"),
            reverse("research:topic-new"),
        ),
        (
            _("Put a topic on a schedule"),
            _("set a schedule in a topic’s settings"),
            reverse("research:calendar"),
        ),
        (_("Give your agent this memory"), _("by MCP or REST"), reverse("memory:tokens")),
    ]
