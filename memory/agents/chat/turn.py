"""Write one answer of a conversation, by a model with memory's tools or from recall.

A claimed answer -> the conversation so far, the six layers and the list of files -> the model, which
calls tools -> text and calls are stored as they arrive, for the page -> the answer with checked
citations. Without a model, or if it fails, the answer quotes what recall finds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.net.errors import ProviderError
from beacon_site.providers.llm.base import LlmProfile
from beacon_site.text.cleaning import as_data, clean, one_line, plain, shorten
from beacon_site.text.markdown import FILE
from beacon_site.web.http import zone_of
from memory.agents.chat.conversation import check, citation_marks, records_as_named
from memory.agents.chat.prompt import (
    TOOLS,
    ConversationContext,
    caller_of,
    context_of,
    messages_of,
    talk_of,
)
from memory.agents.tools.loop import ANSWERED, CallRecord, LoopResult, run_loop
from memory.agents.tools.types import ToolContext
from memory.models import Message, Note, Trust
from memory.services.llm import connections
from memory.services.llm.booking import BudgetReached, MonthMeter
from memory.services.review.proposals import SourceBlocked, check_not_blocked
from memory.services.search.query import FOR_AGENTS, Question
from memory.services.search.recall import RecallHit, recall
from memory.services.search.snippets import passage

# --- answers from recall -----------------------------------------------------------------------

MOST_HITS = 6
LONGEST_WORDS = 2_000  # characters of a question that are used as the query
LONGEST_PASSAGE = 400


def answer_by_recall(talk: ConversationContext, caller: ToolContext) -> str:
    """Answer from recall: quote each hit with its citation mark.

    A text to remember isn't a question, so the answer only confirms that it was noted.
    """
    if talk.question.cites and "?" not in talk.question.content:
        return _("Noted. I’ll keep this for 30 days.")
    hits = _hits(talk, caller)
    if not hits:
        return _(
            "I didn’t find anything about that in memory. Try different words, or tell me what I should remember."
        )
    return "\n".join(f"- “{_bare(_passage(hit, talk))}” {_mark(hit)}" for hit in hits)


def hits_for_prompt(talk: ConversationContext, caller: ToolContext) -> str:
    """Return the hits for a model, with external text between marks."""
    hits = _hits(talk, caller)
    own: list[str] = []
    outside: list[str] = []
    for hit in hits:
        # What a later run found is external text, regardless of the hit's author.
        is_own = hit.record.trust in (Trust.OWNER, Trust.AGENT) and not hit.found_later
        (own if is_own else outside).append(f"- {_mark(hit)} {_passage(hit, talk)}")
    parts = ["\n".join(own)] if own else []
    if outside:
        parts.append(as_data("\n".join(outside)))
    return "\n\n".join(parts) or _("(nothing)")


def _hits(talk: ConversationContext, caller: ToolContext) -> list[RecallHit]:
    """Return the best hits that may be shown, without notes of this message itself."""
    words = talk.question.content[:LONGEST_WORDS]
    # A message isn't a query: the -O3 in “C++ -O3” excludes nothing.
    question = Question(words, words, filters=FOR_AGENTS)
    noted = {cite["id"] for cite in talk.question.cites}
    found = recall(
        talk.session.owner, question, limit=MOST_HITS + 4, place=talk.source, now=timezone.now()
    )
    hits = [
        hit
        for hit in found
        if caller.may_read(hit.record)
        and str(hit.record.pk) not in noted
        and getattr(hit.record, "kind", "") not in Note.IDENTITY  # they are in every prompt
    ][:MOST_HITS]
    records = [hit.record for hit in hits]
    caller.read(records)
    talk.given |= citation_marks(records_as_named(records))
    talk.given |= {f"{FILE}:{hit.record.file.path}" for hit in hits if hit.type == "section"}
    return hits


def _mark(hit: RecallHit) -> str:
    return f"[{hit.type}:{hit.id}]"


def _passage(hit: RecallHit, talk: ConversationContext) -> str:
    words = talk.question.content[:LONGEST_WORDS]
    return one_line(hit.dated(passage(hit.content, words, LONGEST_PASSAGE)))


def _bare(text: str) -> str:
    """Return a passage as plain text without square brackets, which mark citations."""
    return plain(text).replace("[", "(").replace("]", ")")


# --- one turn ----------------------------------------------------------------------------------

logger = structlog.get_logger(__name__)

ROUNDS = 8  # of tool calls for one answer
MOST_TOKENS = 2_048  # of one answer
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
        except Exception:
            said = _("Something went wrong. The error is in the worker’s log. Try again.")
            message.end(Message.State.FAILED, notice=said)
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
            told = {"why": shorten(str(exc), 300)}
            self._by_recall(_("The model failed: %(why)s This is what memory contains.") % told)
            return
        if looped is None:
            self._by_recall(_("No model is set up. This is what memory contains."))
        elif not looped.text.strip():
            why = looped.notice or _("The model’s answer was empty.")
            self._by_recall(_("%(why)s This is what memory contains.") % {"why": why})
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
            max_tokens=MOST_TOKENS,
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

    def _by_recall(self, notice: str) -> None:
        self._store(answer_by_recall(self._talk, self._caller), RECALL, notice)

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
    return max(profile.context_tokens - MOST_TOKENS, 1_000)
