"""Write one answer of a conversation, by a model with memory's tools or from recall.

A claimed answer -> the conversation so far, the six layers and the list of files -> the model, which
calls tools -> text and calls are stored as they arrive, for the page -> the answer with checked
citations. Without a model, or if it fails, the answer quotes what recall finds.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.net.errors import ProviderError
from beacon_site.providers.llm.base import LlmProfile, ToolCall
from beacon_site.providers.llm.base import Message as Said
from beacon_site.providers.llm.tokens import SHARE, trimmed
from beacon_site.text import values
from beacon_site.text.cleaning import (
    as_data,
    clean,
    match_key,
    one_line,
    plain,
    shorten,
    without_citations,
)
from beacon_site.text.dates import day_of, zone_of
from beacon_site.text.markdown import FILE
from beacon_site.text.sentences import split, split_sentences
from beacon_site.text.terms import query_terms
from memory.agents.chat.conversation import check, citation_marks, records_as_named
from memory.agents.tools.loop import ANSWERED, CallRecord, LoopResult, run_loop
from memory.agents.tools.types import ToolContext
from memory.models import Message, Note, Observation, Session, Trust, Use
from memory.models.actors import Actor
from memory.services.context.layers import Context, build_context
from memory.services.llm import connections
from memory.services.llm.asking import BudgetReached, MonthMeter
from memory.services.notes.saving import lowest_trust
from memory.services.observations.consolidation import source_of
from memory.services.review import trust
from memory.services.review.proposals import SourceBlocked, check_not_blocked
from memory.services.search.bm25_sql import language_of
from memory.services.search.kinds import KINDS
from memory.services.search.query import FOR_AGENTS, Filter, Question
from memory.services.search.recall import (
    MEANING,
    MIN_MEANING,
    RecallHit,
    recall_each,
)
from memory.services.search.snippets import answering, passage

# --- answers from recall -----------------------------------------------------------------------

MAX_HITS = 6
MAX_STATEMENTS = 5
MAX_EXAMINED = 20  # hits of each search
MAX_QUERY_LENGTH = 2_000  # characters of a question that are used as the query
MAX_PASSAGE_LENGTH = 400
STATEMENTS = Filter("type", ("fact", "observation"))
# A statement that answers the question less than this, compared with the best, isn't shown.
MIN_OF_BEST = 0.55
OF_REPORT = 0.9  # a fact is preferred to a report, which stays as it was written
# Words that only ask. A record that shares only these, or a short number, isn't about the question.
ASKING = frozenset(query_terms("many much know tell remember find show say give get please"))
# A sentence of a run's summary is shown only if it answers the question this much better.
MUCH_BETTER = 1.3


@dataclass(slots=True)
class Statement:
    """A sentence or passage of a record, and how well it answers the question."""

    hit: RecallHit
    text: str
    worth: float = 0.0

    @property
    def key(self) -> tuple[str, tuple[str, ...]]:
        return values.identity(self.text)

    def repeats(self, other: Statement) -> bool:
        """Whether the other one says it too. Notes with the same words are shown together."""
        if self.text == other.text and self.hit.type in ("note", "section"):
            return False
        short, long = sorted((self.text, other.text), key=lambda text: len(match_key(text)))
        words = match_key(short)
        if words not in match_key(long):
            return False
        parts = [part for part in split(long) if words in match_key(part)] or [long]
        return not all(values.are_other_measures(short, part) for part in parts)

    @property
    def is_of_report(self) -> bool:
        """Return True if it can be outdated: a report stays as it was written."""
        return KINDS[self.hit.type].prose is not None

    @property
    def is_of_summary(self) -> bool:
        """Whether it's from the summary of a run, which also tells the question and the counts."""
        return self.hit.type == "note" and self.hit.record.source.startswith("run:")


def answer_by_recall(talk: ConversationContext, caller: ToolContext) -> tuple[str, str]:
    """Answer with the statements in memory that fit the question best, each with its citation.

    A text to remember isn't a question, so the answer only confirms that it was noted. Also
    returns a sentence about the statements, which is empty if none were found.
    """
    if talk.question.cites and "?" not in talk.question.content:
        if until := day_of(talk.question.cites[0].get("until", "")):
            kept = _("Noted. I’ll keep this until %(day)s.")
            return kept % {"day": date_format(until, "j M Y")}, ""
        return _("Noted. I’ll keep this for 30 days."), ""
    found = _statements(talk, caller)
    statements = _best(found, talk) if _has_related(found, talk) else []
    if not statements:
        nothing = _(
            "I didn’t find anything about that in memory. Try different words, or tell me what I should remember."
        )
        return nothing, ""
    _note_given([statement.hit for statement in statements], talk, caller)
    about = _("Here’s what I found in memory.")
    if not _only_asks(talk) and not any(_shares_word(statement.hit) for statement in statements):
        about = _(
            "Nothing in memory contains the words of your question. These results are only similar in meaning."
        )
    return "\n".join(
        f"- “{_bare(statement.text)}” {_mark(statement.hit)}" for statement in statements
    ), about


def _statements(talk: ConversationContext, caller: ToolContext) -> list[Statement]:
    """Return what recall finds as statements: facts and findings first, then everything else.

    A report contains all words of a question somewhere, so facts are also searched by themselves.
    """
    results: list[Statement] = []
    seen: set[Any] = set()
    for hit in _hits(talk, caller, (STATEMENTS,), (), limit=MAX_EXAMINED):
        if hit.id in seen:
            continue
        seen.add(hit.id)
        one = Statement(hit, _passage(hit, talk))
        if one.is_of_report or one.is_of_summary:
            prose = KINDS[hit.type].prose or KINDS[hit.type].content
            sentences = map(_quoted, split_sentences(prose(hit.record)))
            results += [Statement(hit, shorten(each, MAX_PASSAGE_LENGTH)) for each in sentences]
        else:
            results.append(one)
    return results


def _has_related(found: Sequence[Statement], talk: ConversationContext) -> bool:
    """Whether a hit is about the question: it shares a word that says something, or is near in meaning.

    Otherwise, the nearest of all records would be quoted, whatever they are about.
    """
    return _only_asks(talk) or any(
        _shares_word(hit)
        or (MEANING in hit.retrievers and hit.retrievers[MEANING].score >= MIN_MEANING)
        for hit in {one.hit.id: one.hit for one in found}.values()
    )


def _only_asks(talk: ConversationContext) -> bool:
    return all(map(_is_weak, query_terms(_query(talk), language_of(talk.session.owner))))


def _shares_word(hit: RecallHit) -> bool:
    """Whether it contains a word of the question that says something."""
    return not all(map(_is_weak, hit.explanation.matched_terms))


def _is_weak(stem: str) -> bool:
    return stem in ASKING or (stem.isdecimal() and len(stem) < 3)


def _best(found: list[Statement], talk: ConversationContext) -> list[Statement]:
    """Return the statements that answer the question best, without those that repeat another.

    If a later run found a change of a finding, the later one is shown in its place. Statements
    that differ only in numbers are equally good, so the newest is first.
    """
    words = _query(talk)
    points = answering([one.text for one in found], words, language_of(talk.session.owner))
    for one, worth in zip(found, points, strict=True):
        one.worth = (worth + one.hit.score / 10) * (OF_REPORT if one.is_of_report else 1)
    replaced = _replaced_in_reports(found)
    by_key: dict[Any, list[Statement]] = {}
    for one in found:
        if not one.is_of_report:
            by_key.setdefault(one.key, []).append(one)
    for one in found:
        if later := by_key.get(values.identity(one.hit.later_finding), []):
            for other in later:
                other.worth = max(other.worth, one.worth)
            one.worth = 0.0
    if not _NUMBER.search(words):
        alike: dict[str, float] = {}
        for one in found:
            alike[_shape(one)] = max(alike.get(_shape(one), 0.0), one.worth)
        for one in found:
            one.worth = one.worth and alike[_shape(one)]
    first = max((one.worth for one in found if not one.is_of_summary), default=0.0)
    best: list[Statement] = []
    for one in sorted(found, key=_rank):
        is_known = any(one.repeats(other) for other in best)
        is_old = one.is_of_report and one.key in replaced
        is_left_out = one.is_of_summary and one.worth <= MUCH_BETTER * first
        if one.worth > MIN_OF_BEST * first and not (is_known or is_old or is_left_out):
            best.append(one)
    return best[:MAX_STATEMENTS]


def _shape(one: Statement) -> str:
    return _NUMBER.sub("0", match_key(one.text))


def _replaced_in_reports(found: list[Statement]) -> set[Any]:
    """Return the keys of sentences of reports that are findings of which a later run found a change."""
    overtaken = KINDS["observation"].overtaken
    quoted = [one for one in found if one.is_of_report]
    if overtaken is None or not quoted:
        return set()
    findings = Observation.objects.live().filter(
        topic__in={one.hit.record.search_marks().topic_id for one in quoted},
        content__in={one.text for one in quoted},
    )
    rows = {finding.pk: finding for finding in findings}
    return {values.identity(rows[key].content) for key in overtaken(list(rows.values()))}


_NUMBER = re.compile(r"\d+")


def _rank(one: Statement) -> tuple[int, bool, float]:
    """Return the sort key: the best answer in steps of 0.05, then facts, then the newest."""
    return -round(one.worth * 20), one.hit.type != "fact", -one.hit.created_at.timestamp()


def _quoted(sentence: str) -> str:
    """Return a sentence of a report without its citations and the note of when it was confirmed."""
    return one_line(_REMARK.sub("", without_citations(sentence)))


_REMARK = re.compile(r"\s*\*\([^()]*\)\*")


def hits_for_prompt(talk: ConversationContext, caller: ToolContext) -> str:
    """Return the hits for a model, with external text between marks."""
    hits = _hits(talk, caller, (), limit=MAX_HITS + 4)[:MAX_HITS]
    _note_given(hits, talk, caller)
    own: list[str] = []
    outside: list[str] = []
    for hit in hits:
        # What a later run found is external text, regardless of the hit's author.
        is_own = not hit.record.is_outside and not hit.later_finding
        (own if is_own else outside).append(f"- {_mark(hit)} {_passage(hit, talk)}")
    parts = ["\n".join(own)] if own else []
    if outside:
        parts.append(as_data("\n".join(outside)))
    return "\n\n".join(parts) or _("(nothing)")


def _query(talk: ConversationContext) -> str:
    return talk.question.content[:MAX_QUERY_LENGTH]


def _hits(
    talk: ConversationContext, caller: ToolContext, *each: tuple[Filter, ...], limit: int
) -> list[RecallHit]:
    """Return the hits that may be shown, without notes of this message itself.

    Each of `each` narrows one search by more filters.
    """
    words = _query(talk)
    # A message isn't a query: the -O3 in “C++ -O3” excludes nothing.
    questions = [Question(words, words, filters=(*FOR_AGENTS, *more)) for more in each]
    noted = {cite["id"] for cite in talk.question.cites}
    pages = recall_each(talk.session.owner, questions, limit=limit, now=timezone.now())
    return [
        hit
        for page in pages
        for hit in page.hits
        if caller.may_read(hit.record)
        and str(hit.record.pk) not in noted
        and getattr(hit.record, "kind", "") not in Note.IDENTITY  # they are in every prompt
    ]


def _note_given(hits: Sequence[RecallHit], talk: ConversationContext, caller: ToolContext) -> None:
    """Record that the hits were used in this answer, which may then cite them."""
    records = [hit.record for hit in hits]
    Use.note(talk.session.owner, [(hit.record.record_type(), hit.id) for hit in hits], talk.source)
    caller.read(records)
    talk.given |= citation_marks(records_as_named(records))
    talk.given |= {f"{FILE}:{hit.record.file.path}" for hit in hits if hit.type == "section"}


def _mark(hit: RecallHit) -> str:
    return f"[{hit.type}:{hit.id}]"


def _passage(hit: RecallHit, talk: ConversationContext) -> str:
    return one_line(hit.dated(passage(hit.content, _query(talk), MAX_PASSAGE_LENGTH)))


def _bare(text: str) -> str:
    """Return a passage as plain text without square brackets, which mark citations."""
    return plain(text).replace("[", "(").replace("]", ")")


# --- one turn ----------------------------------------------------------------------------------

logger = structlog.get_logger(__name__)

ROUNDS = 8  # of tool calls for one answer
MAX_TOKENS = 2_048  # of one answer
SHOWN_EVERY = 0.7  # seconds between two updates of a text that is being written
MODEL, RECALL = "model", "recall"


class AnswerStopped(Exception):
    """The person stopped the answer, or another worker has it now, so nothing more is written."""


def answer(message_id: int) -> bool:
    """Write one waiting answer; False if it is claimed or done.  Safe to call twice.

    The row always ends.  An unexpected error ends it as failed and is raised again.
    """
    message = Message.objects.claim(message_id)
    if message is None:
        return False
    zone = timezone.override(zone_of(message.session.owner.time_zone))
    with zone, message.heartbeat():
        try:
            _Turn(message).perform()
        except AnswerStopped:
            logger.info("answer was stopped", message=message.pk)
        except SoftTimeLimitExceeded:
            message.end(Message.State.FAILED, notice=_("The answer took too long."))
        except Exception:  # whatever fails, the row must end; the worker logs the traceback
            text = _("Something went wrong. Try again. The worker’s log has the details.")
            message.end(Message.State.FAILED, notice=text)
            raise
    return True


class _Turn:
    """One answer in progress."""

    def __init__(self, message: Message) -> None:
        self._message = message
        # The calls of a lost worker are kept; this one continues after them.
        self._calls: list[dict[str, Any]] = list(message.tool_calls)
        self._shown_at = 0.0
        self._talk: ConversationContext = talk_of(message)
        self._caller: ToolContext = caller_of(self._talk)

    def perform(self) -> None:
        """Answer with the model, or from recall without one or if it fails."""
        agent = self._message.session.agent
        try:
            if agent is not None:
                check_not_blocked(self._message.session.owner, agent.actor)
        except SourceBlocked as exc:
            self._message.end(Message.State.FAILED, notice=str(exc))
            return
        try:
            looped = self._by_model()
        except (ProviderError, BudgetReached) as exc:
            params = {"why": shorten(str(exc), 300)}
            self._by_recall(_("The model failed: %(why)s") % params)
            return
        if looped is None:
            self._by_recall(_("No model is set up."))
        elif not looped.text.strip():
            self._by_recall(looped.notice or _("The model’s answer was empty."))
        else:
            self._store(looped.text, MODEL, looped.notice if looped.why_ended != ANSWERED else "")

    # --- by a model -------------------------------------------------------------------------------

    def _by_model(self) -> LoopResult | None:
        model = connections.model_for(None, "ask")
        if model is None:
            return None
        context = context_of(self._talk, self._caller)
        if model.profile.tools is not False:
            messages = messages_of(self._talk, context, window=_window(model.profile))
            looped = self._loop(messages, TOOLS)
            if looped is None or not looped.without_tools:
                return looped
        # It can't search by itself, so it gets what recall finds.
        hits = hits_for_prompt(self._talk, self._caller)
        messages = messages_of(self._talk, context, window=_window(model.profile), hits=hits)
        return self._loop(messages, ())

    def _loop(self, messages: Sequence[Any], tools: Sequence[str]) -> LoopResult | None:
        return run_loop(
            "ask",
            messages,
            context=self._caller,
            tools=tools,
            rounds=ROUNDS,
            source=self._talk.source,
            meter=MonthMeter(self._talk.session.owner),
            max_tokens=MAX_TOKENS,
            on_text=self._show,
            on_call=self._keep_call,
            must_answer=True,
        )

    def _show(self, text: str) -> None:
        """Store the text so far for the page that polls; stop if the person did."""
        now = time.monotonic()
        if now - self._shown_at >= SHOWN_EVERY:
            self._shown_at = now
            self._progress(content=clean(text)[0])

    def _keep_call(self, call: CallRecord) -> None:
        """Store a finished call, with what it read and the answer's trust after it."""
        records = call.data.get("records", [])
        kept = {
            **call.as_json(),
            "records": records,
            "trust": str(self._caller.trust),
            "seen": dict(self._caller.seen),
        }
        if proposal := call.data.get("proposal"):
            kept["proposal"] = str(proposal)
        self._calls.append(kept)
        if not call.is_error:
            self._talk.given |= citation_marks(records)
        self._progress(tool_calls=self._calls, content="")

    def _progress(self, **fields: Any) -> None:
        if not self._message.renew(**fields):
            raise AnswerStopped

    # --- by recall --------------------------------------------------------------------------------

    def _by_recall(self, why: str) -> None:
        text, about = answer_by_recall(self._talk, self._caller)
        self._store(text, RECALL, " ".join(filter(None, [why, about])))

    def _store(self, text: str, by: str, notice: str = "") -> None:
        """End the answer with its citations checked; wrong ones are removed, with a notice."""
        text, cites, false = check(
            self._talk.session.owner, clean(text)[0].strip(), self._talk.given
        )
        if false:
            words = ngettext(
                "%(n)d citation didn’t match any source in this conversation and was removed.",
                "%(n)d citations didn’t match any source in this conversation and were removed.",
                false,
            )
            notice = " ".join(filter(None, [notice, words % {"n": false}]))
        self._message.end(
            Message.State.DONE,
            content=text,
            cites=cites,
            tool_calls=self._calls,
            by=by,
            notice=notice,
        )


def _window(profile: LlmProfile) -> int:
    return max(profile.context_tokens - MAX_TOKENS, 1_000)


# --- the messages for the model ---
# The system prompt is rebuilt for each answer, so an edit takes effect immediately. The list of files
# is the one from the session's start (R159).


ASK = Actor("agent", "ask")
TOOLS = (
    "memory_list", "memory_read", "memory_write", "memory_patch", "memory_append", "recall",
    "retrieve", "list_memory", "remember", "remember_fil", "update_memory", "update_soul",
    "scratchpad_get", "scratchpad_set", "scratchpad_list", "scratchpad_search",
)  # fmt: skip
MAX_QUESTION_LENGTH = 2_000  # characters of a message that are used to choose rules and summaries


@dataclass(slots=True)
class ConversationContext:
    """A session as one answer sees it: earlier messages, the question, and what was read."""

    session: Session
    answer: Message
    question: Message
    before: list[Message]
    given: set[str] = field(default_factory=set)  # marks that can be cited

    @property
    def source(self) -> str:
        return source_of(self.session.pk)

    @property
    def owner_messages(self) -> list[str]:
        """Return the person's own words, including the question; nothing in an agent's session."""
        if self.session.agent_id is not None:
            return []
        said = [one for one in self.before if one.role == "user" and not one.is_index]
        return [one.content for one in [*said, self.question]]


def talk_of(answer: Message) -> ConversationContext:
    earlier = list(
        Message.objects.filter(session=answer.session, position__lt=answer.position).order_by(
            "position"
        )
    )
    talk = ConversationContext(answer.session, answer, earlier[-1], earlier[:-1])
    for message in [*earlier, answer]:
        talk.given |= citation_marks(message.cites)
        for call in message.tool_calls:
            talk.given |= citation_marks(call.get("records", []))
    return talk


def caller_of(talk: ConversationContext) -> ToolContext:
    """Return the caller of tools, with what earlier answers read and the resulting trust."""
    messages = [*talk.before, talk.answer]  # an answer that continues already has calls
    calls = [call for message in messages for call in message.tool_calls]
    trusts = [str(call["trust"]) for call in calls if call.get("trust")]
    caller = ToolContext(
        talk.session.owner,
        ASK,
        talk.source,
        scope=talk.source,
        trust=lowest_trust([words_trust(talk.session), *trusts]),
        messages=talk.owner_messages,
        requested_by=talk.session.agent.name if talk.session.agent else "",
    )
    for call in calls:
        caller.seen.update(call.get("seen") or {})
    return caller


def words_trust(session: Session) -> Trust:
    """Return the trust of the question: the person's own words, or an agent's.

    An agent's words are trusted no more than what it read before.
    """
    if session.agent is None:
        return Trust(session.trust)
    return Trust(trust.before(session.agent, lowest_trust([Trust.AGENT, session.trust])))


def context_of(talk: ConversationContext, caller: ToolContext) -> Context:
    """Return the six layers for the question; their records can be cited and are stored as used."""
    message = talk.question.content[:MAX_QUESTION_LENGTH]
    context = build_context(
        talk.session.owner, message=message, place=talk.source, scopes=caller.scopes
    )
    caller.trust = lowest_trust([caller.trust, *(record.trust for record in context.records)])
    talk.given |= citation_marks(records_as_named(context.records))
    return context


def messages_of(
    talk: ConversationContext, context: Context, *, window: int, hits: str = ""
) -> list[Said]:
    """Return the messages for the model, cut to its window but always with file list and question.

    `hits` are recall's results, for a model that can't call tools.
    """
    system = render_to_string(
        "prompts/ask_system.txt", {"context": context.system, "tools": not hits}
    )
    question = talk.question.content
    if hits:
        data = {"question": question, "hits": hits}
        question = render_to_string("prompts/_ask_recalled.txt", data)
    messages = [Said("system", system.strip())]
    for message in talk.before:
        messages += _as_said(message)
    messages += [Said("user", question), *_called(talk.answer)]
    return trimmed(messages, int(window * SHARE))


def _as_said(message: Message) -> list[Said]:
    if message.role == "user":
        return [Said("user", message.content)]
    messages = _called(message)
    answered = message.state == Message.State.DONE and message.content
    return [*messages, Said("assistant", message.content if answered else _("(no answer)"))]


def _called(message: Message) -> list[Said]:
    """Return an answer's tool calls with their results, round by round."""
    messages: list[Said] = []
    rounds = groupby(message.tool_calls, key=lambda call: call.get("round", 1))
    for place, (_number, calls) in enumerate(rounds):
        messages += _round(f"m{message.pk}r{place}", list(calls))
    return messages


def _round(key: str, calls: Sequence[dict[str, Any]]) -> list[Said]:
    """Return one round of calls and results, in the form that the model produced and received."""
    wanted = tuple(
        ToolCall(f"{key}c{place}", call["tool"], dict(call["arguments"]))
        for place, call in enumerate(calls)
    )
    results = [
        Said("tool", call["result"], (), one.id) for one, call in zip(wanted, calls, strict=True)
    ]
    return [Said("assistant", "", wanted), *results]


def transcript_of(session: Session) -> list[Said]:
    """Return the whole session for reflection, without the list of files."""
    rows = session.messages.filter(is_index=False).order_by("position")
    return [said for message in rows for said in _as_said(message)]
