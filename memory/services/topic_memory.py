"""A topic's memory: its JSON (seed 000), stale facts, seen URLs, and loading and saving in a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime
from functools import partial
from typing import Any

import redis
import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Count
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from beacon_site.db.advisory_locks import LockId, lock_until_commit
from beacon_site.db.errors import LoggedFailure
from beacon_site.text import cleaning as texts
from beacon_site.text.canonical_urls import canonical_url, domain_of
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import ngettext
from beacon_site.text.values import identity
from memory.models import (
    Activity,
    PublishDue,
    Revision,
    SeenUrl,
    Sensitivity,
    Source,
    Topic,
    TopicFact,
    Trust,
    User,
    as_of,
)
from memory.models.actors import RESEARCH, SYSTEM
from memory.models.errors import InvalidValue


def agent_memory(topic: Topic) -> dict[str, Any]:
    """Return the topic's memory as seed 000's AgentMemory: six camelCase fields (R237)."""
    seen = SeenUrl.objects.filter(topic=topic).order_by("-returned_in", "place")
    facts = TopicFact.objects.filter(topic=topic).current()[: TopicFact.MAX_CURRENT]
    last = topic.last_run_at
    return {
        "topic": topic.title,
        "seenUrls": list(seen.values_list("url", flat=True)),
        "keyFacts": [fact.text for fact in facts],
        "lastRunAt": last.astimezone(UTC).isoformat() if last else None,
        "runCount": topic.run_count,
        "reportSummary": topic.summary,
    }


# --- stale facts ---

MIN_DAYS = 30
# Each gets topic IDs and returns the number of days after which unchecked facts are stale.
STALE_AFTER: list[Callable[[Iterable[Any]], dict[Any, int]]] = []


def checked_at(fact: TopicFact) -> datetime:
    """Return when the fact was last checked against a source, or written."""
    return fact.confirmed_at or fact.created


def days_since(fact: TopicFact) -> int:
    """Return the number of whole days since the fact was checked."""
    return max(0, (as_of.now() - checked_at(fact)).days)


def stale_days(facts: Sequence[TopicFact]) -> dict[Any, int]:
    """Return the days since the last check for each stale current fact, by ID.

    At most one query, and none if all were checked today.
    """
    ages = {fact.pk: days_since(fact) for fact in facts if fact.state == TopicFact.State.CURRENT}
    topics = {fact.pk: fact.topic_id for fact in facts if ages.get(fact.pk)}
    if not topics:
        return {}
    allowed: dict[Any, int] = {}
    for ask in STALE_AFTER:
        allowed |= ask(set(topics.values()))
    return {
        key: ages[key] for key, topic in topics.items() if ages[key] >= allowed.get(topic, MIN_DAYS)
    }


def age_label(days: int) -> str:
    return ngettext("last checked %(n)d day ago", "last checked %(n)d days ago", days) % {"n": days}


# --- seen URLs and sources ---


@dataclass(frozen=True, slots=True)
class ReturnedUrl:
    """A URL that the run's searches returned, and what happened to the page."""

    url: str
    link: str = ""
    title: str = ""
    published_at: date | None = None
    was_read: bool = False
    was_cited: bool = False
    by_search: bool = True  # or read again because facts depend on it


def merge_seen_urls(topic: Topic, urls: Sequence[str], *, number: int, at: datetime) -> None:
    """Add the URLs that run `number` returned, best first, and keep the 500 most recent.

    The oldest are deleted first (R16). The limit is `settings.BEACON_SEEN_URLS`.
    """
    unique = list(dict.fromkeys(canonical_url(url) for url in urls))
    SeenUrl.objects.bulk_create(
        [
            SeenUrl(topic=topic, url=url, returned_in=number, place=place, returned_at=at)
            for place, url in enumerate(unique)
        ],
        update_conflicts=True,
        unique_fields=["topic", "url"],
        update_fields=["returned_in", "place", "returned_at"],
    )
    newest = SeenUrl.objects.filter(topic=topic).order_by("-returned_in", "place")
    dropped = newest.values_list("pk", flat=True)[settings.BEACON_SEEN_URLS :]
    SeenUrl.objects.filter(pk__in=list(dropped)).delete()


def keep_sources(
    topic: Topic, returned: Sequence[ReturnedUrl], *, number: int, at: datetime
) -> None:
    """Store each page that was read or cited."""
    used = {canonical_url(item.url): item for item in returned if item.was_read or item.was_cited}
    known = {row.url: row for row in Source.objects.filter(topic=topic, url__in=used)}
    fresh = []
    for url, item in used.items():
        row = known.get(url) or Source(topic=topic, url=url, first_run=number, first_at=at)
        row.link, row.domain = item.link or item.url, domain_of(item.link or item.url)[:255]
        row.title = item.title[:500] or row.title
        row.published_at = item.published_at or row.published_at
        row.last_run, row.last_at = number, at
        row.times_read += item.was_read
        row.times_cited += item.was_cited
        fresh.append(row)
    Source.objects.bulk_create(
        fresh,
        update_conflicts=True,
        unique_fields=["topic", "url"],
        update_fields=[
            "link", "domain", "title", "published_at", "last_run", "last_at",
            "times_read", "times_cited",
        ],
    )  # fmt: skip


# --- loading ---

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KnownFact:
    """One current fact as a run sees it.

    `is_corrected` means that a person gave it words that its quote doesn't contain.
    """

    id: str
    text: str
    url: str = ""
    title: str = ""
    published_at: date | None = None
    is_kept: bool = False
    stale_days: int = 0  # days since the last check, if it is stale
    quote: str = ""
    is_secret: bool = False  # sensitive, so it isn't in any prompt
    is_corrected: bool = False

    @property
    def age_words(self) -> str:
        """Return how long ago it was checked, or "" if it isn't stale."""
        return age_label(self.stale_days) if self.stale_days else ""


@dataclass(frozen=True, slots=True)
class TopicMemory:
    """What is known about a topic when a run starts (seed 000's AgentMemory, and struck facts)."""

    topic: str
    facts: tuple[KnownFact, ...]
    struck: tuple[str, ...]
    summary: str
    last_run_at: datetime | None
    run_count: int
    seen_count: int
    batch: int
    secret_struck: tuple[str, ...] = ()  # sensitive facts of `struck`, which aren't in any prompt

    def as_json(self) -> dict[str, Any]:
        """Return the memory as JSON values, as stored in a run's step."""
        stored = asdict(self)
        stored["last_run_at"] = self.last_run_at.isoformat() if self.last_run_at else None
        for fact in stored["facts"]:
            fact["published_at"] = str(fact["published_at"]) if fact["published_at"] else None
        return stored

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> TopicMemory:
        facts = tuple(
            KnownFact(**(fact | {"published_at": parse_date(fact["published_at"] or "")}))
            for fact in stored["facts"]
        )
        last = parse_datetime(stored["last_run_at"] or "")
        lists = {name: tuple(stored.get(name, ())) for name in ("struck", "secret_struck")}
        return cls(**(stored | lists | {"facts": facts, "last_run_at": last}))

    def as_prompt(self) -> str:
        """Return the block for planning and writing prompts: known facts with their age, and what
        not to research again (R34).

        Facts are between marks, as data. Sensitive ones are left out, even if struck.
        """
        secret = set(map(texts.match_key, self.secret_struck))
        safe = replace(
            self,
            topic=texts.for_prompt(self.topic),
            # The last report's [n] would be mistaken for numbers of the new list.
            summary=texts.for_prompt(texts.without_citations(self.summary)),
            facts=tuple(
                replace(f, text=texts.for_prompt(f.text)) for f in self.facts if not f.is_secret
            ),
            struck=tuple(
                texts.for_prompt(t) for t in self.struck if texts.match_key(t) not in secret
            ),
        )
        return render_to_string("prompts/_topic_memory.txt", {"memory": safe}).strip()


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result of loading: memory, nothing, or the reason why it couldn't be loaded (R8)."""

    memory: TopicMemory | None = None
    problem: str = ""
    expires_at: datetime | None = None


def load(topic: Topic) -> LoadResult:
    """Load the live memory of `topic`. Never raises if the database fails (R7, R8).

    The result distinguishes no memory (a first run, or expired memory) from a failure.
    """
    with (
        LoggedFailure("topic memory not loaded", topic=topic.slug) as loading,
        transaction.atomic(),
    ):
        return _read(topic)
    # R7: loading never fails the run, which reports the problem and becomes a baseline.
    why = {"why": texts.shorten(str(loading.error), 200)}
    return LoadResult(problem=_("memory not loaded: %(why)s") % why)


def _read(topic: Topic) -> LoadResult:
    fresh = Topic.objects.annotate(seen_count=Count("seen_urls")).get(pk=topic.pk)
    if not fresh.memory_is_live(as_of.now()):
        return LoadResult()
    current, struck = TopicFact.objects.filter(topic=topic).current_and_struck()
    stale = stale_days(current)
    corrected = _corrected(current)
    facts = tuple(
        KnownFact(
            id=str(fact.pk),
            text=fact.text,
            url=fact.url,
            title=fact.source_title,
            published_at=fact.published_at,
            is_kept=fact.is_kept,
            stale_days=stale.get(fact.pk, 0),
            quote=fact.quote,
            is_secret=fact.sensitivity == Sensitivity.SENSITIVE,
            is_corrected=fact.pk in corrected,
        )
        for fact in current
    )
    secret = [fact.text for fact in struck if fact.sensitivity == Sensitivity.SENSITIVE]
    memory = TopicMemory(
        topic=fresh.title,
        facts=facts,
        struck=tuple(fact.text for fact in struck),
        secret_struck=tuple(secret),
        summary=fresh.summary,
        last_run_at=fresh.last_run_at,
        run_count=fresh.run_count,
        seen_count=fresh.seen_count,
        batch=fresh.memory_runs + 1,
    )
    return LoadResult(memory=memory, expires_at=fresh.expires_at)


def _corrected(facts: Iterable[TopicFact]) -> set[Any]:
    """Return the keys of the facts whose quote doesn't support what a person made of them.

    A person who only left something out, such as a heading, changed nothing that the quote says.
    """
    edited = {fact.pk: fact for fact in facts if fact.edited_by_person and fact.quote}
    if not edited:
        return set()
    changes = Revision.objects.filter(
        record_id__in=edited, actor__startswith="human:", before__has_key="text"
    )
    quoted: dict[Any, str] = {}
    for key, before in changes.order_by("id").values_list("record_id", "before"):
        quoted.setdefault(key, before["text"])
    return {
        key
        for key, before in quoted.items()
        if not any(
            texts.match_key(edited[key].text) in texts.match_key(text)
            for text in (before, edited[key].quote)
        )
    }


# --- saving ---


@dataclass(frozen=True, slots=True)
class FoundFact:
    """A fact that a run found, and its source. `known_id` is the key of an already known fact.

    A known fact is never created again, so what a person edited, struck or deleted stays that way.
    `replaces` is the key of the fact it updates, and `answers` of one that answers the same question,
    also if both stay. `support` says where its quote was found. `now` has the words and the source
    that a known fact takes over, because its statement was edited or moved to another page.
    """

    text: str
    url: str = ""
    title: str = ""
    quote: str = ""
    published_at: date | None = None
    confirmed: bool = True
    known_id: str = ""
    replaces: str = ""
    answers: str = ""
    support: str = ""
    source_count: int = 0
    independent_count: int = 0
    now: FoundFact | None = None

    def supported(self, at: datetime) -> dict[str, Any]:
        """Return the fact's fields about its support, or none if its citations weren't checked."""
        if not self.support:
            return {}
        names = ("support", "source_count", "independent_count")
        return {name: getattr(self, name) for name in names} | {"quote_checked_at": at}


@dataclass(slots=True)
class FactChanges:
    """What saving changed in the topic's facts."""

    new: list[TopicFact] = field(default_factory=list)
    confirmed: list[TopicFact] = field(default_factory=list)
    retired: list[TopicFact] = field(default_factory=list)
    kept: list[TopicFact] = field(default_factory=list)


def save(
    topic: Topic,
    *,
    number: int,
    source: str,
    facts: Sequence[FoundFact] | None,
    summary: str,
    returned: Sequence[ReturnedUrl],
    at: datetime,
    expires_at: datetime | None,
) -> FactChanges:
    """Store what run `number` learned and renew the memory's expiry, in the caller's transaction.

    `facts` None keeps facts and summary (a run that found nothing new), and `expires_at` None keeps
    the expiry. Facts that the run found again are confirmed, and others that no person touched are
    retired. If memory had expired, the seen URLs start over with those of this run.
    """
    with transaction.atomic():
        changes = FactChanges()
        if facts is not None:
            changes = replace_facts(topic, facts, number=number, source=source, at=at)
        begins_anew = expires_at is not None and not topic.memory_is_live(at)
        if begins_anew:
            SeenUrl.objects.filter(topic=topic).delete()
        found = [item.url for item in returned if item.by_search]
        merge_seen_urls(topic, found, number=number, at=at)
        keep_sources(topic, returned, number=number, at=at)
        update: dict[str, Any] = {}
        if expires_at is not None:
            update["expires_at"] = expires_at
            update["memory_runs"] = 1 if begins_anew else topic.memory_runs + 1
        if facts is not None and summary:
            update["summary"] = summary
        if update:
            Topic.objects.filter(pk=topic.pk).update(**update)
        for name, value in update.items():
            setattr(topic, name, value)
    return changes


def replace_facts(
    topic: Topic, found: Sequence[FoundFact], *, number: int, source: str, at: datetime
) -> FactChanges:
    """Replace the topic's current facts with those of a run, and keep those that people touched.

    There are at most 10 (R18). Struck facts are dropped. Facts that a person touched
    stay unchanged and are at most confirmed.
    """
    changes = FactChanges()
    current = list(TopicFact.objects.filter(topic=topic).current().select_for_update())
    texts_struck = TopicFact.objects.filter(topic=topic).struck().values_list("text", flat=True)
    struck = set(map(identity, texts_struck))
    by_key = {identity(fact.text): fact for fact in current}
    changes.kept = [fact for fact in current if fact.is_kept]
    room = TopicFact.MAX_CURRENT - len(changes.kept)
    place = max((fact.position for fact in changes.kept), default=0)
    staying: set[Any] = {fact.pk for fact in changes.kept}
    made: set[Any] = set()
    outranked = list(_outranked(topic, found))
    beyond: list[FoundFact] = []
    for item in found:
        key = identity(item.text)
        known = by_key.get(key)
        if item.known_id and (known is None or str(known.pk) != item.known_id):
            continue
        if key in struck or key in made or texts.width(item.text) < TopicFact.MIN_WIDTH:
            continue
        made.add(key)
        if known is not None and known.is_kept:
            _confirm(known, item, number=number, at=at, position=known.position)
            changes.confirmed.append(known)
            continue
        if room <= 0:
            beyond += [item] if known is None else []
            continue
        room -= 1
        place += 1
        if known is not None:
            staying.add(known.pk)
            if item.confirmed:
                _confirm(known, item, number=number, at=at, position=place)
                if item.now is not None and identity(item.now.text) not in struck | made - {key}:
                    _follow_source(known, item.now, source)
                changes.confirmed.append(known)
            else:
                TopicFact.objects.filter(pk=known.pk).update(position=place)
        else:
            changes.new.append(_fact(topic, item, place, number=number, source=source, at=at))
            _continue_chain(changes.new[-1], item, [*current, *outranked])
    _store(changes.new, source)
    changes.retired = [fact for fact in current if fact.pk not in staying]
    _retire([*changes.retired, *outranked], found, number=number, source=source)
    before = [*current, *outranked]
    _store_retired(topic, beyond, before, number=number, source=source, at=at)
    return changes


def _outranked(topic: Topic, found: Sequence[FoundFact]) -> Iterable[TopicFact]:
    """Return the facts outside the top 10 that the found ones replace."""
    replaced = [item.replaces for item in found if item.replaces]
    facts = TopicFact.objects.filter(topic=topic, pk__in=replaced).retired()
    return facts.filter(retired_as=TopicFact.RetiredAs.OUTRANKED).select_for_update()


def _continue_chain(fact: TopicFact, item: FoundFact, current: Sequence[TopicFact]) -> None:
    """Let a new fact answer the question of the one that it replaces or disputes."""
    for old in current:
        if str(old.pk) == (item.replaces or item.answers):
            fact.chain, fact.question = old.chain, old.question


def _store_retired(
    topic: Topic,
    found: Sequence[FoundFact],
    current: Sequence[TopicFact],
    *,
    number: int,
    source: str,
    at: datetime,
) -> None:
    """Store facts beyond the limit as retired, so that they are known and never reported as new."""
    why = _("found by Run #%(number)d, but 10 other facts ranked higher") % {"number": number}
    facts = [_fact(topic, item, 0, number=number, source=source, at=at) for item in found]
    for fact, item in zip(facts, found, strict=True):
        _continue_chain(fact, item, current)
    _store(facts, source)
    for fact in facts:
        fact.retire(
            by=RESEARCH, why=why, run=number, source=source, how=TopicFact.RetiredAs.OUTRANKED
        )


def _store(facts: Sequence[TopicFact], source: str) -> None:
    TopicFact.objects.bulk_create(facts)
    Revision.record_first(facts, by=RESEARCH, source=source)
    TopicFact.follow(facts)


def _retire(
    facts: Sequence[TopicFact], found: Sequence[FoundFact], *, number: int, source: str
) -> None:
    successors = {item.replaces: item.text for item in found if item.replaces}
    confirmed = {item.known_id for item in found if item.known_id and item.confirmed}
    known = {item.known_id for item in found}
    for fact in facts:
        key = str(fact.pk)
        how = TopicFact.RetiredAs.GONE
        if key in successors:
            how = TopicFact.RetiredAs.REPLACED
        elif key in known:
            how = TopicFact.RetiredAs.OUTRANKED
        why = _why_retired(how, number, successors.get(key, ""), was_confirmed=key in confirmed)
        fact.retire(by=RESEARCH, why=why, run=number, source=source, how=how)


def _fact(
    topic: Topic, item: FoundFact, place: int, *, number: int, source: str, at: datetime
) -> TopicFact:
    return TopicFact(
        owner_id=topic.owner_id,
        topic=topic,
        text=item.text,
        url=item.url,
        source_title=item.title[:500],
        quote=item.quote,
        published_at=item.published_at,
        key=texts.match_key(item.text),
        position=place,
        first_run=number,
        confirmed_run=number,
        confirmed_at=at,
        source=source,
        trust=Trust.EXTERNAL,
        **item.supported(at),
    )


def _confirm(fact: TopicFact, item: FoundFact, *, number: int, at: datetime, position: int) -> None:
    TopicFact.objects.filter(pk=fact.pk).update(
        confirmed_at=at, confirmed_run=number, position=position, **item.supported(at)
    )


def _follow_source(fact: TopicFact, now: FoundFact, source: str) -> None:
    """Give a fact the words and the source of its statement, which was edited or moved."""
    fields = {
        "text": now.text,
        "key": texts.match_key(now.text),
        "url": now.url,
        "source_title": now.title[:500],
        "quote": now.quote,
        "published_at": now.published_at,
    }
    fact.change(by=RESEARCH, source=source, why=_("its source was edited or moved"), **fields)


def _why_retired(how: str, number: int, successor: str, *, was_confirmed: bool) -> str:
    """Return why a fact was retired, for its history and the timeline."""
    values = {"number": number, "text": texts.shorten(successor, 300)}
    if how == TopicFact.RetiredAs.REPLACED:
        return _("replaced in Run #%(number)d by “%(text)s”") % values
    if was_confirmed:
        return _("confirmed by Run #%(number)d, but 10 newer facts ranked higher") % values
    if how == TopicFact.RetiredAs.OUTRANKED:
        return _("10 other facts ranked higher in Run #%(number)d") % values
    return _("not among the facts in Run #%(number)d") % values


# --- Publishing ---
#
# The published copy of one owner's topics in Redis, in seed 000's format (R237).
#
# Data flow: a change of a topic or its facts calls `follow` -> a PublishDue row in the same
# transaction -> after the commit, `process_due` writes or deletes the key and deletes the row -> every
# minute, a scheduled task retries what failed or was interrupted.


KEY = "beacon:memory:{slug}"


def follow(owner_id: Any, topic_id: Any, slug: str = "") -> None:
    """Mark the copy under `slug` (empty: the topic's own) as outdated, and update it after the
    commit.

    Call it in the transaction of a change. Does nothing unless BEACON_PUBLISH_OWNER names the
    owner.
    """
    if not _is_published(owner_id):
        return
    if not slug:
        slug = Topic.objects.values_list("slug", flat=True).get(pk=topic_id)
    PublishDue.objects.create(owner_id=owner_id, slug=slug)
    transaction.on_commit(partial(process_due, owner_id, slug))


def publish(topic_id: Any) -> bool:
    """Write the topic's JSON to Redis, or delete it if the topic must not be published.

    Does nothing unless BEACON_PUBLISH_OWNER names the topic's owner. The key expires after
    2,592,000 s (BEACON_TOPIC_TTL_SECONDS), or with the topic if that is later. If Redis is down,
    that is logged in Activity and `process_all_due` retries. Returns whether it was written.
    """
    if not settings.BEACON_PUBLISH_OWNER:
        return False
    topic = Topic.objects.filter(pk=topic_id).first()
    if topic is None or not _is_published(topic.owner_id):
        return False
    PublishDue.objects.create(owner_id=topic.owner_id, slug=topic.slug)
    return process_due(topic.owner_id, topic.slug)


def process_all_due() -> None:
    """Retry outdated copies. Stops at the first failure, which means that Redis is down."""
    for owner_id, slug in PublishDue.objects.order_by().values_list("owner_id", "slug").distinct():
        if not process_due(owner_id, slug, again=True):
            return


def renew_all() -> None:
    """Mark every copy as outdated, including those of deleted topics, after a restore."""
    owner = User.objects.filter(username=settings.BEACON_PUBLISH_OWNER).first()
    if owner is None:
        return
    slugs = set(Topic.objects.for_user(owner).live().values_list("slug", flat=True))
    try:
        with _server() as server:
            slugs |= {key.decode().removeprefix(KEY.format(slug="")) for key in _copies(server)}
    except redis.RedisError as exc:
        logger.warning("copies in Redis not checked", error=type(exc).__name__)
    PublishDue.objects.bulk_create(PublishDue(owner=owner, slug=slug[:80]) for slug in slugs)


def _copies(server: redis.Redis) -> Iterator[bytes]:
    yield from server.scan_iter(match=KEY.format(slug="*"), count=1000)


def process_due(owner_id: Any, slug: str, *, again: bool = False) -> bool:
    """Update the copy under `slug` if it is outdated. Return whether it is current.

    Without `again`, a mark that was already tried is skipped. Ten changed facts leave ten marks,
    but Redis is asked only once while it is down.
    """
    with transaction.atomic():
        # Two concurrent updates could leave the older state in Redis, so there is one at a time per slug.
        lock_until_commit(LockId.PUBLISHED_SLUG, slug)
        marks = PublishDue.objects.filter(owner_id=owner_id, slug=slug)
        untried = marks.filter(tried_at=None)
        if not (marks if again else untried).exists():
            return not marks.exists()
        is_news = untried.exists()
        # Changes committed from here on have their own mark.
        seen = list(marks.values_list("pk", flat=True))
        topic = Topic.objects.live().filter(owner=owner_id, slug=slug).first()
        problem = _write(slug, topic) if _is_published(owner_id) else ""
        if not problem:
            marks.filter(pk__in=seen).delete()
            return True
        marks.filter(pk__in=seen).update(tried_at=timezone.now())
    logger.warning("topic not published", topic=slug, error=problem)
    if is_news:
        Activity.log(
            User.objects.get(pk=owner_id), SYSTEM, "publish-failed", subject=topic, warning=True,
            why=_("Redis isn’t responding. The copy in Redis will be updated as soon as it responds."),
        )  # fmt: skip
    return False


def delete_copies(owner: User) -> None:
    """Delete all copies of an account that is being deleted.

    Raises InvalidValue if Redis isn't responding, because a retry isn't possible without the
    account.
    """
    if not _is_published(owner.pk):
        return
    slugs = set(Topic.objects.for_user(owner).values_list("slug", flat=True))
    slugs |= set(PublishDue.objects.filter(owner=owner).values_list("slug", flat=True))
    try:
        with _server() as server:
            server.delete(*[KEY.format(slug=slug) for slug in slugs or {""}])
    except redis.RedisError as exc:
        raise InvalidValue(
            _(
                "Nothing was deleted. This account’s topics are published to Redis, which isn’t responding, so they can’t be removed from it. Try again once Redis is running."
            )
        ) from exc


def _server() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=0.5, socket_timeout=0.5)


def _is_published(owner_id: Any) -> bool:
    """Return True if BEACON_PUBLISH_OWNER names this owner."""
    name = settings.BEACON_PUBLISH_OWNER
    return bool(name) and User.objects.filter(pk=owner_id, username=name).exists()


def _write(slug: str, topic: Topic | None) -> str:
    """Store or delete the key. Return the type of error, or "" on success."""
    may_stand = topic is not None and not topic.private and topic.memory_is_live()
    key = KEY.format(slug=slug)
    try:
        with _server() as server:
            if topic is not None and may_stand:
                server.set(key, json.dumps(agent_memory(topic)), ex=_seconds(topic))
            else:
                server.delete(key)
    except redis.RedisError as exc:
        return type(exc).__name__
    return ""


def _seconds(topic: Topic) -> int:
    left = (topic.expires_at - timezone.now()).total_seconds() if topic.expires_at else 0
    # Exactly the seed's value, unless the topic lives longer (a rarely scheduled one).
    longer = left > settings.BEACON_TOPIC_TTL_SECONDS + 60
    return round(left) if longer else settings.BEACON_TOPIC_TTL_SECONDS
