"""Answers with and without chosen memories: the same message twice, with two contexts.

Nothing is stored but the two calls, which the page finds by their source. The person's monthly limit
applies to both.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.translation import gettext as _

from beacon_site.celery import send
from beacon_site.net.errors import ProviderError
from beacon_site.providers.llm.base import Message
from beacon_site.providers.llm.tokens import SHARE, trimmed
from beacon_site.text.dates import zone_of
from memory.models import ModelCall, Topic, User
from memory.models.errors import MemoryRefused
from memory.models.remembered import OWNER_SCOPE
from memory.services.context.layers import CHARACTERS, MAX_CHARACTERS, Context, build_context
from memory.services.llm import connections
from memory.services.llm.asking import BudgetReached, MonthMeter, ask_model, check_month

ASK = "ask"  # Beacon's own agent
PATIENCE = timedelta(minutes=10)  # how long the page waits for the answers
MAX_ANSWER = 1_024  # tokens of each
PURPOSE = "preview"

logger = structlog.get_logger(__name__)


class CannotAsk(MemoryRefused):
    """The model can't be asked now. The message says why."""


@dataclass(frozen=True, slots=True)
class ContextQuery:
    """Which context to build: for which agent and message, within which budget, without what."""

    agent: str = ASK
    message: str = ""
    topic: str = ""
    most: int = MAX_CHARACTERS
    unit: str = CHARACTERS
    without: tuple[str, ...] = ()

    @property
    def scopes(self) -> tuple[str, ...]:
        """Return the scopes whose records the agent can read."""
        return OWNER_SCOPE, f"agent:{self.agent}"

    def topic_of(self, owner: User) -> Topic | None:
        topics: Any = Topic.objects.for_user(owner).live()
        return topics.filter(slug=self.topic).first() if self.topic else None

    def built(self, owner: User, topic: Topic | None) -> Context:
        """Return the whole context. Nothing is recorded as used."""
        return build_context(
            owner,
            message=self.message,
            topic=topic,
            scopes=self.scopes,
            most=self.most,
            unit=self.unit,
        )


@dataclass(frozen=True, slots=True)
class AskedAnswers:
    """Two answers that were asked for, as named in the page's URL: a key and a time."""

    key: str
    at: datetime

    def __str__(self) -> str:
        return f"{self.key}.{int(self.at.timestamp())}"

    @classmethod
    def of(cls, text: str) -> AskedAnswers | None:
        """Parse it from a URL, or return None if it isn't valid."""
        key, _dot, seconds = text.partition(".")
        try:
            at = datetime.fromtimestamp(int(seconds), tz=UTC)
            return cls(uuid.UUID(key).hex, at)
        except (ValueError, OverflowError, OSError):
            return None

    @property
    def source(self) -> str:
        """Return the source of the two calls."""
        return f"preview:{self.key}"

    @property
    def is_over(self) -> bool:
        """Return True if the page no longer waits."""
        return timezone.now() - self.at > PATIENCE


def ask(owner: User, query: ContextQuery) -> AskedAnswers:
    """Have a worker ask the model twice. Raises CannotAsk if that isn't possible."""
    if not query.message:
        raise CannotAsk(_("Enter a message for the model to answer."))
    if not query.without:
        raise CannotAsk(_("Clear at least one memory’s checkbox first."))
    if connections.llm_profile() is None:
        raise CannotAsk(_("No model is set up, so there are no answers to compare."))
    try:
        check_month(owner)
    except BudgetReached as exc:
        raise CannotAsk(str(exc)) from exc
    asked = AskedAnswers(uuid.uuid4().hex, timezone.now())
    if not send("memory.tasks.answer_without", owner.pk, asked.key, asdict(query), queue="reflect"):
        raise CannotAsk(
            _(
                "The background worker can’t be reached because Redis isn’t responding. Try again in a minute."
            )
        )
    return asked


def perform(owner_id: int, key: str, query: dict[str, Any]) -> None:
    """Ask the model with and without the memories; a call that is stored isn't made again."""
    owner = User.objects.filter(pk=owner_id, is_active=True).first()
    if owner is None:
        return
    wanted = ContextQuery(**{**query, "without": tuple(query["without"])})
    asked = AskedAnswers(key, timezone.now())
    with timezone.override(zone_of(owner.time_zone)):
        whole = wanted.built(owner, wanted.topic_of(owner))
    contexts = (whole, whole.without(wanted.without))
    for context in contexts[len(answers(owner, asked)) :]:
        try:
            messages = _messages(context, wanted.message)
            ask_model(
                PURPOSE,
                messages,
                owner=owner,
                source=asked.source,
                max_tokens=MAX_ANSWER,
                meter=MonthMeter(owner),
            )
        except (ProviderError, BudgetReached) as exc:
            logger.info("no answer for the context preview", why=str(exc))
            if isinstance(exc, BudgetReached):
                return


def answers(owner: User, asked: AskedAnswers) -> list[ModelCall]:
    """Return the calls so far: first the answer with the memories, then the one without."""
    rows = ModelCall.objects.for_user(owner).filter(source=asked.source, purpose=PURPOSE)
    return list(rows.order_by("id").defer("prompt")[:2])


def _messages(context: Context, message: str) -> Sequence[Message]:
    system = render_to_string("prompts/ask_system.txt", {"context": context.system, "tools": False})
    messages = [Message("system", system.strip()), Message("user", f"{context.index}\n\n{message}")]
    profile = connections.llm_profile()
    window = profile.context_tokens if profile else 0
    return trimmed(messages, int(max(window - MAX_ANSWER, 1_000) * SHARE))
