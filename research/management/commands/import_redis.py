"""`manage.py import_redis URL`: import topics from the keys `beacon:memory:*` of another Redis.

Each key has seed 000's JSON. It becomes a topic with facts, seen URLs, summary and run count, all
or nothing. An invalid key doesn't stop the others.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from urllib.parse import urlsplit

import redis
from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from beacon_site.text.cleaning import clean, one_line, plain, shorten, width
from beacon_site.text.dates import moment_of
from beacon_site.text.messages import grouped
from memory.management.base import MigratedCommand, active_account
from memory.models import Topic, TopicFact, User
from memory.models.errors import MemoryRefused
from memory.services import topic_memory
from memory.services.topic_memory import KEY, FoundFact, ReturnedUrl
from research.services.runs.execution import starting

SOURCE = "import:redis"
MAX_BYTES = 4 * 1024 * 1024  # per key
MAX_URL = 2_048  # characters
MAX_SUMMARY = 10_000  # characters
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


Outcome = tuple[str, str, str]  # the key, TAKEN, LEFT or REFUSED, and a description


class _Refused(Exception):
    """A key can't be imported. The message says why."""


def _import_keys(server: redis.Redis, owner: User, *, dry_run: bool) -> Iterator[Outcome]:
    """Import each key and yield its result. `dry_run` stores nothing.

    Raises redis.RedisError if the server fails.
    """
    for raw in sorted(set(server.scan_iter(match=KEY.format(slug="*"), count=500))):
        key = raw.decode("utf-8", "replace")
        try:
            yield _import_topic(server, raw, key, owner, dry_run=dry_run)
        except (_Refused, MemoryRefused) as exc:
            yield key, REFUSED, str(exc)


def _import_topic(
    server: redis.Redis, raw: bytes, key: str, owner: User, *, dry_run: bool
) -> Outcome:
    memory = _memory_in(server, raw)
    title = one_line(clean(memory.topic)[0])
    if Topic.objects.titled(owner, title) is not None:
        text = _("“%(topic)s” already exists, so it was left unchanged.")
        return key, LEFT, text % {"topic": shorten(title, 80)}
    last = _moment(memory.lastRunAt)
    facts, left_out = _facts(memory.keyFacts)
    urls = [url for url in memory.seenUrls if _is_address(url)]
    with transaction.atomic():
        topic = starting.create_topic(owner=owner, title=title, by=owner.actor, source=SOURCE)
        topic_memory.save(
            topic,
            number=memory.runCount,
            source=SOURCE,
            facts=facts,
            summary=shorten(clean(memory.reportSummary)[0].strip(), MAX_SUMMARY),
            returned=[ReturnedUrl(url) for url in urls],
            at=last or timezone.now(),
            expires_at=timezone.now() + _lives_for(server, raw),
        )
        Topic.objects.filter(pk=topic.pk).update(run_count=memory.runCount, last_run_at=last)
        Topic.notify_changed(owner.pk, topic.pk)
        transaction.set_rollback(dry_run)
    left_out += _left_out_urls(memory.seenUrls, urls)
    return key, TAKEN, _summary(title, memory, len(facts), len(urls), left_out)


def _memory_in(server: redis.Redis, raw: bytes) -> AgentMemory:
    """Return the content of a key. Raises _Refused."""
    kind = server.type(raw).decode()  # type: ignore[union-attr]
    if kind != "string":
        raise _Refused(_("The value is a %(kind)s, not a string.") % {"kind": kind})
    size = int(server.strlen(raw))
    if size > MAX_BYTES:
        params = {"have": grouped(size), "most": grouped(MAX_BYTES)}
        raise _Refused(_("The value is %(have)s bytes, but the limit is %(most)s.") % params)
    held: Any = server.get(raw)
    if held is None:
        raise _Refused(_("The key no longer exists, so it couldn’t be read."))
    try:
        value = json.loads(held)
    except (ValueError, RecursionError) as exc:
        raise _Refused(
            _("The value isn’t valid JSON: %(why)s.") % {"why": shorten(str(exc), 120)}
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
        params = {"text": shorten(clean(text)[0], 60)}
        raise _Refused(_("lastRunAt: “%(text)s” isn’t a valid time.") % params)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return min(moment, timezone.now())


def _facts(texts: list[str]) -> tuple[list[FoundFact], list[str]]:
    """Return the imported facts, and descriptions of what was left out."""
    lines = [plain(clean(text)[0]) for text in texts]
    fit = [text for text in lines if len(text) <= TopicFact.MAX_LENGTH]
    long = len(lines) - len(fit)
    fit = [text for text in fit if width(text) >= TopicFact.MIN_WIDTH]
    short = len(lines) - long - len(fit)
    more = max(0, len(fit) - TopicFact.MAX_CURRENT)
    words = [
        (
            long,
            ngettext(
                "%(n)d fact is longer than %(most)d characters",
                "%(n)d facts are longer than %(most)d characters",
                long,
            ),
        ),
        (
            short,
            ngettext(
                "%(n)d fact is shorter than %(least)d characters",
                "%(n)d facts are shorter than %(least)d characters",
                short,
            ),
        ),
        (
            more,
            ngettext(
                "%(n)d fact too many for the limit of %(limit)d",
                "%(n)d facts too many for the limit of %(limit)d",
                more,
            ),
        ),
    ]
    limits = {
        "most": TopicFact.MAX_LENGTH,
        "least": TopicFact.MIN_WIDTH,
        "limit": TopicFact.MAX_CURRENT,
    }
    left_out = [text % {"n": n, **limits} for n, text in words if n]
    return [FoundFact(text) for text in fit[: TopicFact.MAX_CURRENT]], left_out


def _is_address(url: str) -> bool:
    is_web = url.startswith(("http://", "https://")) and len(url) <= MAX_URL
    return is_web and clean(url)[0] == url and not any(char.isspace() for char in url)


def _left_out_urls(given: list[str], taken: list[str]) -> list[str]:
    left_out = []
    if wrong := len(given) - len(taken):
        text = ngettext("%(n)d URL isn’t valid", "%(n)d URLs aren’t valid", wrong)
        left_out.append(text % {"n": wrong})
    more = len(set(taken)) - settings.BEACON_SEEN_URLS
    if more > 0:
        text = ngettext(
            "%(n)d URL too many for the limit (BEACON_SEEN_URLS)",
            "%(n)d URLs too many for the limit (BEACON_SEEN_URLS)",
            more,
        )
        left_out.append(text % {"n": more})
    return left_out


def _lives_for(server: redis.Redis, raw: bytes) -> timedelta:
    """Return how long the memory is kept: as long as the key would have been."""
    left = int(server.ttl(raw))
    return timedelta(seconds=left if left > 0 else settings.BEACON_TOPIC_TTL_SECONDS)


def _summary(title: str, memory: AgentMemory, facts: int, urls: int, left_out: list[str]) -> str:
    params = {
        "topic": shorten(title, 80),
        "facts": facts,
        "urls": min(urls, settings.BEACON_SEEN_URLS),
        "runs": memory.runCount,
    }
    words = _("“%(topic)s” (facts: %(facts)d, seen URLs: %(urls)d, runs: %(runs)d)") % params
    if left_out:
        words += "; " + _("skipped: %(what)s") % {"what": ", ".join(left_out)}
    return words


SECONDS = 10.0  # timeout of a response


class Command(MigratedCommand):
    """Import topics. Existing ones aren't changed, so it can be run again."""

    help = "Import topics from the beacon:memory:* keys of another Redis server, in JSON."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("url", help="such as redis://:password@host:6379/0")
        parser.add_argument(
            "--user", help="owner of the topics (optional if there’s only one account)"
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="only show what would be imported"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Import all keys and report each one. Fail at the end if any was rejected."""
        owner = active_account(options["user"])
        counts: Counter[str] = Counter()
        words = {TAKEN: _("imported"), LEFT: _("skipped"), REFUSED: _("rejected")}
        # A URL can contain a password, so only its host and port are ever shown.
        parts = urlsplit(options["url"])
        try:
            with redis.Redis.from_url(
                options["url"], socket_connect_timeout=SECONDS, socket_timeout=SECONDS
            ) as server:
                for key, state, what in _import_keys(server, owner, dry_run=options["dry_run"]):
                    counts[state] += 1
                    stream = self.stderr if state == REFUSED else self.stdout
                    stream.write(f"{words[state]} {key}: {what}")
        except (redis.RedisError, ValueError) as exc:
            params = {"host": parts.hostname or "?", "why": type(exc).__name__}
            text = _(
                "The Redis server at %(host)s isn’t responding (%(why)s). Check the URL, such as redis://:password@host:6379/0."
            )
            text %= params
            done = _("Imported before the failure: %(n)d.") % {"n": counts[TAKEN]}
            raise CommandError(f"{text} {done}") from exc
        params = {name: counts[name] for name in (TAKEN, LEFT, REFUSED)}
        text = _("%(taken)d imported, %(left)d skipped, %(refused)d rejected.") % params
        if options["dry_run"]:
            text += " " + _("This was a dry run. Nothing was saved.")
        if counts[REFUSED]:
            raise CommandError(text)
        self.stdout.write(text)
