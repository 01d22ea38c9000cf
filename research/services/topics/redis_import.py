"""Imports topics from another Redis: keys `beacon:memory:<slug>` with seed 000's JSON.

Data flow: each key -> validated -> a topic with facts, seen URLs, summary and run count, all or
nothing -> a described outcome. An invalid key doesn't stop the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import redis
from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from beacon_site.text.cleaning import clean, one_line, plain, shorten, width
from beacon_site.text.dates import moment_of
from beacon_site.text.numbers import grouped
from memory.models import Topic, TopicFact, User
from memory.models.actors import Actor
from memory.models.errors import MemoryRefused
from memory.services import topic_memory
from memory.services.topic_memory import KEY, FoundFact, ReturnedUrl
from research.services.runs.execution import starting

SOURCE = "import:redis"
MOST_BYTES = 4 * 1024 * 1024  # per key
MOST_URL = 2_048  # characters
MOST_SUMMARY = 10_000  # characters
TAKEN, LEFT, REFUSED = "taken", "left", "refused"


class AgentMemory(BaseModel):
    """Seed 000's JSON with its types. Unknown fields are ignored."""

    model_config: ClassVar[ConfigDict] = ConfigDict(strict=True)

    topic: str = Field(min_length=1)
    seenUrls: list[str] = []
    keyFacts: list[str] = []
    lastRunAt: str | None = None
    runCount: int = Field(0, ge=0, le=1_000_000)
    reportSummary: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one key: imported, left alone or refused, with a description."""

    key: str
    state: str
    words: str


class _Refused(Exception):
    """A key can't be imported. The message says why."""


def import_keys(
    server: redis.Redis, owner: User, *, by: Actor, dry_run: bool = False
) -> Iterator[Outcome]:
    """Import each key and yield its result. `dry_run` stores nothing.

    Raises redis.RedisError if the server fails.
    """
    for raw in sorted(set(server.scan_iter(match=KEY.format(slug="*"), count=500))):
        key = raw.decode("utf-8", "replace")
        try:
            yield _taken(server, raw, key, owner, by=by, dry_run=dry_run)
        except (_Refused, MemoryRefused) as exc:
            yield Outcome(key, REFUSED, str(exc))


def _taken(
    server: redis.Redis, raw: bytes, key: str, owner: User, *, by: Actor, dry_run: bool
) -> Outcome:
    memory = _memory_in(server, raw)
    title = one_line(clean(memory.topic)[0])
    if Topic.objects.titled(owner, title) is not None:
        text = _("“%(topic)s” already exists, so it was left unchanged.")
        return Outcome(key, LEFT, text % {"topic": shorten(title, 80)})
    last = _moment(memory.lastRunAt)
    facts, left_out = _facts(memory.keyFacts)
    urls = [url for url in memory.seenUrls if _is_address(url)]
    with transaction.atomic():
        topic = starting.create_topic(owner=owner, title=title, by=by, source=SOURCE)
        topic_memory.save(
            topic,
            number=memory.runCount,
            source=SOURCE,
            facts=facts,
            summary=shorten(clean(memory.reportSummary)[0].strip(), MOST_SUMMARY),
            returned=[ReturnedUrl(url) for url in urls],
            at=last or timezone.now(),
            expires_at=timezone.now() + _lives_for(server, raw),
        )
        Topic.objects.filter(pk=topic.pk).update(run_count=memory.runCount, last_run_at=last)
        Topic.notify_changed(owner.pk, topic.pk)
        transaction.set_rollback(dry_run)
    left_out += _left_out_urls(memory.seenUrls, urls)
    return Outcome(key, TAKEN, _in_words(title, memory, len(facts), len(urls), left_out))


def _memory_in(server: redis.Redis, raw: bytes) -> AgentMemory:
    """Return the content of a key. Raises _Refused."""
    kind = server.type(raw).decode()  # type: ignore[union-attr]
    if kind != "string":
        raise _Refused(_("Its value is a %(kind)s, not a string.") % {"kind": kind})
    size = int(server.strlen(raw))
    if size > MOST_BYTES:
        told = {"have": grouped(size), "most": grouped(MOST_BYTES)}
        raise _Refused(_("It has %(have)s bytes, but the limit is %(most)s.") % told)
    held: Any = server.get(raw)
    if held is None:
        raise _Refused(_("It disappeared before it could be read."))
    try:
        value = json.loads(held)
    except (ValueError, RecursionError) as exc:
        raise _Refused(
            _("It isn’t valid JSON: %(why)s.") % {"why": shorten(str(exc), 120)}
        ) from exc
    try:
        return AgentMemory.model_validate(value)
    except ValidationError as exc:
        problems = [
            f"{'.'.join(map(str, one['loc'])) or 'JSON'}: {one['msg']}"
            for one in exc.errors(include_input=False, include_url=False, include_context=False)
        ]
        raise _Refused(shorten(clean("; ".join(problems))[0], 400)) from exc


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    moment = moment_of(text)
    if moment is None:
        told = {"text": shorten(clean(text)[0], 60)}
        raise _Refused(_("lastRunAt: “%(text)s” isn’t a valid time.") % told)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return min(moment, timezone.now())


def _facts(texts: list[str]) -> tuple[list[FoundFact], list[str]]:
    """Return the imported facts, and descriptions of what was left out."""
    said = [plain(clean(text)[0]) for text in texts]
    fit = [text for text in said if len(text) <= TopicFact.MOST_LENGTH]
    long = len(said) - len(fit)
    fit = [text for text in fit if width(text) >= TopicFact.LEAST_WIDTH]
    short = len(said) - long - len(fit)
    more = max(0, len(fit) - TopicFact.MOST_CURRENT)
    words = [
        (long, _("%(n)d facts longer than %(most)d characters")),
        (short, _("%(n)d facts shorter than %(least)d characters")),
        (more, _("%(n)d facts beyond the first 10")),
    ]
    limits = {"most": TopicFact.MOST_LENGTH, "least": TopicFact.LEAST_WIDTH}
    left_out = [text % {"n": n, **limits} for n, text in words if n]
    return [FoundFact(text) for text in fit[: TopicFact.MOST_CURRENT]], left_out


def _is_address(url: str) -> bool:
    is_web = url.startswith(("http://", "https://")) and len(url) <= MOST_URL
    return is_web and clean(url)[0] == url and not any(char.isspace() for char in url)


def _left_out_urls(given: list[str], taken: list[str]) -> list[str]:
    left_out = []
    if wrong := len(given) - len(taken):
        left_out.append(_("%(n)d invalid URLs") % {"n": wrong})
    more = len(set(taken)) - settings.BEACON_SEEN_URLS
    if more > 0:
        left_out.append(_("%(n)d URLs beyond BEACON_SEEN_URLS") % {"n": more})
    return left_out


def _lives_for(server: redis.Redis, raw: bytes) -> timedelta:
    """Return how long the memory is kept: as long as the key would have been."""
    left = int(server.ttl(raw))
    return timedelta(seconds=left if left > 0 else settings.BEACON_TOPIC_TTL_SECONDS)


def _in_words(title: str, memory: AgentMemory, facts: int, urls: int, left_out: list[str]) -> str:
    told = {
        "topic": shorten(title, 80),
        "facts": facts,
        "urls": min(urls, settings.BEACON_SEEN_URLS),
        "runs": memory.runCount,
    }
    words = _("“%(topic)s”: %(facts)d facts, %(urls)d seen URLs, %(runs)d runs") % told
    if left_out:
        words += "; " + _("skipped: %(what)s") % {"what": ", ".join(left_out)}
    return words
