"""Compare a run's findings with known facts, and store what changed as delta items.

Rules decide, even if a model writes the prose. A model is asked only where the
rules are unsure. Data flow: findings -> `compare` with current and retired facts
(`research.claims.linking` judges each, then `writing.opinions` if used) -> delta items by status.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import structlog
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.timesince import timesince
from django.utils.translation import gettext as _

from beacon_site.net.errors import ProviderError
from beacon_site.providers.llm import adapters
from beacon_site.providers.llm.base import LOCAL, EmbedderProfile
from beacon_site.text.canonical_urls import domain_of
from beacon_site.text.cleaning import match_key, one_line, without_citations
from memory.models import Conflict, TopicFact
from memory.services.llm import connections
from memory.services.topic_memory import KnownFact
from research.claims.linking import SURE, Comparison, DatedSentence, Verdict
from research.claims.matching import match
from research.claims.selection import Embed as selection_Embed
from research.claims.selection import PageText
from research.models import DeltaItem, Run, Schedule

if TYPE_CHECKING:
    from research.claims.linking import Embed

Status = DeltaItem.Status
VERSIONS = "versions of the page"  # what compared a change between two versions of one page


# The fields that a change and its stored item have in common.
_SAME = (
    "status", "sentence", "citations", "quote", "previous_text", "previous_source", "hidden_reason",
    "judged_by", "judged", "needs_review", "compared_by",
)  # fmt: skip


@dataclass(slots=True)
class Change:
    """One delta item before it is stored. `previous_id` is the id of the fact it is compared with.

    `told` is a change and its old value in one line. In that case `sentence` is the whole record.
    `follows` means that a confirmed fact takes over these words and this source.
    """

    status: str
    sentence: str
    citations: list[int] = field(default_factory=list)
    quote: str = ""
    previous_id: str = ""
    previous_text: str = ""
    hidden_reason: str = ""
    judged_by: str = ""
    judged: str = ""
    previous_source: dict[str, Any] = field(default_factory=dict)
    needs_review: bool = False
    compared_by: str = ""
    conflict_id: str = ""
    told: str = ""
    follows: bool = False

    @classmethod
    def of(cls, item: DeltaItem) -> Change:
        """Return a stored item as it was compared, without the fact and the conflict."""
        return cls(**{name: getattr(item, name) for name in _SAME})

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def is_listed(self) -> bool:
        """Return True if the delta section lists the change (R41)."""
        return self.status in DeltaItem.LISTED and not self.hidden_reason

    @property
    def is_unsupported(self) -> bool:
        """Whether its source doesn't support it. Then it is neither reported nor remembered."""
        return bool(self.hidden_reason and not self.judged_by)

    @property
    def is_remembered(self) -> bool:
        """Whether it is saved to memory, even if the topic's intent filters it out of the report."""
        is_news = self.status in DeltaItem.LISTED and self.status != Status.GONE
        return is_news and not self.is_unsupported

    @property
    def replaces(self) -> str:
        """Return the id of the fact that it replaces, if the change is certain and remembered."""
        is_sure = self.status == Status.CHANGED and not self.needs_review and self.is_remembered
        return self.previous_id if is_sure else ""


@dataclass(frozen=True, slots=True)
class Statement:
    """A finding to compare: its sentence, citations and quote.

    `on` is the page's date, `before` the preceding sentence on it, `title` its title.
    """

    sentence: str
    citations: tuple[int, ...] = ()
    quote: str = ""
    on: date | None = None
    before: str = ""
    title: str = ""

    @property
    def bare(self) -> str:
        """Return the sentence without its citations."""
        return without_citations(self.sentence)


# The verdicts that replace the comparison's own, by finding number, and who gave them.
ModelVerdicts = tuple[Mapping[int, Verdict], str]
NO_OPINION: ModelVerdicts = ({}, "")
# Gets the comparison and its verdicts, and returns the verdicts to change.
SecondOpinion = Callable[[Comparison, Sequence[Verdict]], ModelVerdicts]


def compare(
    found: Sequence[Statement],
    facts: Sequence[KnownFact],
    *,
    retired: Sequence[KnownFact] = (),
    struck: Sequence[str] = (),
    topic: str = "",
    checked: date | None = None,
    embed: Embed | None = None,
    second: SecondOpinion | None = None,
) -> tuple[list[Change], int]:
    """Return the changes, and how many findings repeat a sentence marked as wrong.

    Listed kinds come first. A finding that says the same as a current or retired fact is confirmed.
    One that gives its new value is changed, contradicted if a person wrote the old fact, and
    `needs_review` if the evidence is too weak to retire the old one. A finding that denies a fact, or
    gives another value for the same time, is contradicted, and both stay. All others are new. What
    several findings say is listed once, with all of them cited. A fact that one source confirms and
    another changes is changed. `checked` is the day on which the facts were last checked, `embed`
    returns vectors if available, and `second` is asked where the comparison is unsure.
    """
    statements, dropped = _once(found, struck)
    comparison = Comparison(
        [DatedSentence(fact.text, fact.published_at or checked) for fact in facts],
        [DatedSentence(one.bare, one.on, one.before, one.title) for one in statements],
        topic,
        embed,
    )
    by_rule = "words and vectors" if embed else "words"
    changes = _judged(statements, facts, retired, comparison, second, by_rule)
    moved = (Status.CHANGED, Status.CONTRADICTED)
    replaced = {change.previous_id for change in changes if change.status in moved}
    confirmed: set[str] = set()
    kept = []
    for change in changes:
        if change.status == Status.CONFIRMED:
            if change.previous_id in replaced | confirmed:
                continue
            confirmed.add(change.previous_id)
        kept.append(change)
    return in_order(kept), dropped


def in_order(changes: Iterable[Change]) -> list[Change]:
    """Return changes by status, the listed ones first."""
    order: dict[str, int] = {status: place for place, status in enumerate(_ORDER)}
    return sorted(changes, key=lambda change: order[change.status])


_ORDER = (
    Status.CONTRADICTED, Status.CHANGED, Status.NEW, Status.GONE, Status.CONFIRMED,
    Status.GONE_QUIET,
)  # fmt: skip


def _once(found: Sequence[Statement], struck: Sequence[str]) -> tuple[list[Statement], int]:
    """Return each finding once, without those marked as wrong, and the count of the latter."""
    statements: dict[str, Statement] = {}
    dropped = set()
    for statement in found:
        key = match_key(statement.bare)
        if key in statements or key in dropped:
            continue
        if _is_among(statement.bare, struck) is not None:
            dropped.add(key)
        else:
            statements[key] = statement
    return list(statements.values()), len(dropped)


def _is_among(sentence: str, texts: Sequence[str]) -> int | None:
    """Return the one of `texts` that says the same in nearly the same words."""
    found = match(sentence, texts)
    return found.index if found is not None and found.kind == "confirmed" else None


def _judged(
    statements: Sequence[Statement],
    facts: Sequence[KnownFact],
    retired: Sequence[KnownFact],
    comparison: Comparison,
    second: SecondOpinion | None,
    by_rule: str,
) -> list[Change]:
    verdicts = comparison.verdicts()
    opinions, by_model = second(comparison, verdicts) if second else NO_OPINION
    changes: list[Change] = []
    news: dict[int, Change] = {}
    moved: dict[int, Change] = {}
    for number, statement in enumerate(statements):
        rule = verdicts[number]
        verdict = opinions.get(number, rule)
        # A sentence that repeats an earlier one gets the same verdict.
        change = news.get(rule.place - len(facts)) or _find_same_change(
            verdict, number, moved, comparison, facts
        )
        if change is not None:
            _add_citations(change, statement)
        else:
            change = _change(statement, verdict, facts, retired)
            change.compared_by = by_model if number in opinions else by_rule
            changes.append(change)
            if change.status in (Status.CHANGED, Status.CONTRADICTED):
                moved[number] = change
        if rule.status == "new":
            news[number] = change
    _doubt_rivals(changes)
    return changes


def _change(
    statement: Statement,
    verdict: Verdict,
    facts: Sequence[KnownFact],
    retired: Sequence[KnownFact],
) -> Change:
    """Return the change that a verdict implies."""
    change = Change(Status.NEW, statement.bare, list(statement.citations), statement.quote)
    is_confirmed = verdict.status == "confirmed"
    old = None if is_confirmed else _is_among(statement.bare, [fact.text for fact in retired])
    if old is not None:
        # A fact that has been superseded isn't news when it is reported again.
        _relate(change, Status.CONFIRMED, retired[old])
    elif verdict.place >= 0:
        fact = facts[verdict.place]
        _relate(change, _status(verdict, fact), fact)
        change.needs_review = change.status == Status.CHANGED and verdict.share < SURE
    elif verdict.status == "noise":
        change.hidden_reason = _("not a fact: a question, a call to action or an opinion")
    return change


def _find_same_change(
    verdict: Verdict,
    number: int,
    moved: dict[int, Change],
    comparison: Comparison,
    facts: Sequence[KnownFact],
) -> Change | None:
    """Return the change that already says the same about the same fact, if any."""
    if verdict.status not in ("changed", "contradicted"):
        return None
    fact = facts[verdict.place]
    for other, change in moved.items():
        is_same = (change.previous_id, change.status) == (fact.id, _status(verdict, fact))
        if is_same and comparison.repeats(number, other):
            change.needs_review = change.needs_review and verdict.share < SURE
            return change
    return None


def _doubt_rivals(changes: Sequence[Change]) -> None:
    """Keep a fact if the sources of one run disagree about what replaces it."""
    counts = Counter(change.previous_id for change in changes if change.status == Status.CHANGED)
    for change in changes:
        if change.status == Status.CHANGED and counts[change.previous_id] > 1:
            change.needs_review = True


def _status(verdict: Verdict, fact: KnownFact) -> Status:
    """Return the status. A person's fact isn't replaced, so a change contradicts it."""
    if verdict.status == "changed" and fact.is_kept:
        return Status.CONTRADICTED
    return Status(verdict.status)


def _relate(change: Change, status: Status, fact: KnownFact) -> None:
    change.status, change.previous_id, change.previous_text = status, fact.id, fact.text
    change.previous_source = source_of(fact)


def source_of(fact: KnownFact) -> dict[str, Any]:
    """Return a fact's source as a delta item stores it, empty for a fact without a URL."""
    if not fact.url:
        return {}
    return {
        "link": fact.url,
        "title": fact.title,
        "domain": domain_of(fact.url),
        "published_at": fact.published_at.isoformat() if fact.published_at else None,
        "quote": fact.quote,
    }


def _add_citations(change: Change, again: Statement) -> None:
    change.citations += [n for n in again.citations if n not in change.citations]


def heading(schedule: Schedule | None, previous_number: int) -> str:
    """Return the section's heading by how often the topic runs."""
    preset = schedule.preset if schedule is not None else Schedule.Preset.NONE
    return {
        Schedule.Preset.NONE: _("What Changed Since Last Week"),
        Schedule.Preset.WEEKLY: _("What Changed Since Last Week"),
        Schedule.Preset.DAILY: _("What Changed Since Yesterday"),
        Schedule.Preset.MONTHLY: _("What Changed Since Last Month"),
    }.get(
        Schedule.Preset(preset),
        _("What Changed Since Run #%(number)d") % {"number": previous_number},
    )


def since_line(last_run_at: datetime | None, number: int) -> str:
    """Return the line under the heading, which says how long ago the last run really was."""
    if last_run_at is None:
        return _("since Run #%(number)d") % {"number": number}
    ago = timesince(last_run_at, depth=1).replace("\xa0", " ")
    if timezone.now() - last_run_at < timedelta(minutes=1):
        ago = _("less than a minute")
    when = date_format(timezone.localtime(last_run_at), "j F Y")
    words = _("since Run #%(number)d, %(ago)s earlier (%(date)s)")
    return words % {"number": number, "ago": ago, "date": when}


# --- storing ---


def store(run: Run, changes: Sequence[Change]) -> None:
    """Store the changes in order. If a fact was deleted in the meantime, only its text is kept."""
    known = {
        str(pk)
        for pk in TopicFact.objects.filter(
            pk__in=[change.previous_id for change in changes if change.previous_id]
        ).values_list("pk", flat=True)
    }
    # If the memory couldn't be saved, neither were its facts.
    keys = [change.conflict_id for change in changes if change.conflict_id]
    noted = set(map(str, Conflict.objects.filter(pk__in=keys).values_list("pk", flat=True)))
    DeltaItem.objects.bulk_create(
        DeltaItem(
            run=run,
            position=position,
            previous_fact_id=change.previous_id if change.previous_id in known else None,
            conflict_id=change.conflict_id if change.conflict_id in noted else None,
            **{name: getattr(change, name) for name in _SAME},
        )
        for position, change in enumerate(changes, start=1)
    )


# --- context ---

logger = structlog.get_logger(__name__)

_BEFORE = 400  # characters searched for the preceding sentence
_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")


def with_pages(found: Sequence[Statement], pages: Sequence[PageText]) -> list[Statement]:
    """Return the findings with context from the first page they cite."""
    by_number = {page.number: page for page in pages}
    texts: dict[int, str] = {}
    statements = []
    for statement in found:
        page = next((by_number[n] for n in statement.citations if n in by_number), None)
        if page is None:
            statements.append(statement)
            continue
        text = texts.setdefault(page.number, one_line(page.text))
        before = _sentence_before(text, one_line(statement.quote))
        statements.append(replace(statement, on=page.published_at, before=before, title=page.title))
    return statements


def _sentence_before(text: str, quote: str) -> str:
    at = text.find(quote) if quote else -1
    if at <= 0:
        return ""
    return _END.split(text[max(0, at - _BEFORE) : at].strip())[-1]


def local_vectors() -> selection_Embed | None:
    """Return the local embedder for ranking and comparing.

    Returns None if it isn't installed or vectors are turned off. Then both use only words.
    """
    if connections.has_no_embeddings() or not adapters.local_is_installed():
        return None
    embedder = adapters.get_embedder(EmbedderProfile(LOCAL))
    if embedder is None:
        return None
    try:
        embedder.embed(["a first sentence, so that what is broken shows now"])
    except ProviderError as exc:
        logger.warning("local vectors unavailable", why=str(exc))
        return None
    return embedder.embed
