"""Step 6: write the report from new pages and known facts, and stream the draft.

Readings, numbered 1..k -> a Draft by the model or by the extractive engine, citing those numbers ->
compared with known facts -> `Written`: body, delta items and sources, renumbered in the order in
which they are cited (R48).

While a model writes, the run's page shows the draft. The call's thread passes on the text (`take`),
and the loop that waits for the call stores it in the step's output once per second (`keep`).

If the comparison is unsure, the model is asked once per run: verdicts of `research.claims.linking`
-> those with a share below `SURE`, each next to its nearest fact -> one answer -> replaced
verdicts. Without a usable answer, the comparison's verdict is kept, with a warning. The texts come
from the web, so an answer has little power: it gives no share, and a change without a share retires
no fact.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any

from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.text import capfirst
from pydantic import BaseModel, Field

from beacon_site.net.errors import ProviderError, ProviderNonsense
from beacon_site.providers.llm.base import Answer, Message
from beacon_site.providers.llm.structured import readable_text
from beacon_site.providers.search import sample
from beacon_site.text import injection
from beacon_site.text.cleaning import (
    clean,
    ended,
    for_prompt,
    match_key,
    one_line,
    shorten,
    without_citations,
)
from beacon_site.text.injection import injection_reason
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import ngettext
from beacon_site.text.sentences import split_sentences
from memory.models import Sensitivity, TopicFact
from memory.services.context import topic_block
from memory.services.llm import connections
from memory.services.llm.asking import BudgetReached
from memory.services.topic_memory import KnownFact, TopicMemory
from research.claims import selection
from research.claims.linking import SURE, Comparison, DatedSentence, Verdict
from research.claims.selection import PageText
from research.models import TopicSettings
from research.services.budgets.budget import depth_of
from research.services.runs.context import inputs
from research.services.runs.context.cited_pages import PagePreparer
from research.services.runs.context.run_context import RunContext, StepResult
from research.services.runs.reporting import composing, delta, report_text, rereading
from research.services.runs.reporting.composing import Draft
from research.services.runs.reporting.delta import (
    NO_OPINION,
    ModelVerdicts,
    SecondOpinion,
    Statement,
    Status,
)
from research.services.runs.reporting.rereading import Outcome
from research.services.runs.search import reading, searching
from research.services.runs.search.searching import EXTRACTIVE

PURPOSE = "compare"
MAX_PAIRS = 20  # per run, the least certain first
NEAR = 0.05  # below this similarity to any fact, the comparison is sure that a sentence is new
MAX_LENGTH = 600  # characters of a sentence
TOKENS_A_PAIR = 30
STATUS = {
    "same": "confirmed",
    "changed": "changed",
    "contradicts": "contradicted",
    "other": "new",
    "no fact": "noise",
}
Ask = Callable[[Sequence[Message], type[BaseModel], int], Answer | None]


class Relation(BaseModel):
    """The model's answer for one pair. Any other word counts as no answer."""

    pair: int
    relation: str = Field(json_schema_extra={"enum": list(STATUS)})


class Relations(BaseModel):
    """The model's answers for all pairs."""

    relations: list[Relation] = Field(default_factory=list)


Pair = tuple[int, int]  # a found sentence, by its number, and the place of a fact


def of_run(context: RunContext, facts: Sequence[KnownFact]) -> SecondOpinion | None:
    """Return the run's second opinion, or None if there is no model or the topic is sensitive."""
    if not facts or context.is_stopping or connections.model_for(context.topic) is None:
        return None
    ids = [fact.id for fact in facts]
    secret = TopicFact.objects.filter(pk__in=ids, sensitivity=Sensitivity.SENSITIVE)
    untold = {ids.index(str(pk)) for pk in secret.values_list("pk", flat=True)}

    def ask(messages: Sequence[Message], schema: type[BaseModel], most: int) -> Answer | None:
        return context.ask(PURPOSE, messages, schema=schema, max_tokens=most)

    return partial(
        opinions, ask=ask, warn=context.run.warn, about=context.topic.title, untold=untold
    )


def opinions(
    comparison: Comparison,
    verdicts: Sequence[Verdict],
    *,
    ask: Ask,
    warn: Callable[[str], object],
    about: str = "",
    untold: Collection[int] = (),
) -> ModelVerdicts:
    """Return the model's answers for the sentences that the comparison is unsure of.

    `untold` are the places of facts that no model can see.
    """
    pairs = dict(enumerate(doubtful(comparison, verdicts, untold), start=1))
    if not pairs:
        return NO_OPINION
    try:
        answer = ask(
            _messages(comparison, pairs, about), Relations, 200 + TOKENS_A_PAIR * len(pairs)
        )
    except (ProviderError, BudgetReached) as exc:
        warn(_failed(len(pairs), ended(capfirst(shorten(str(exc), 300)))))
        return NO_OPINION
    if answer is None or not isinstance(answer.parsed, Relations):
        return NO_OPINION
    values = _relations_by_pair(answer.parsed, pairs)
    taken = {
        number: _verdict(relation, pairs[number])
        for number, relation in values.items()
        if _may_be(relation, comparison, verdicts, pairs[number])
    }
    _warn_of_rest(len(pairs) - len(values), len(values) - len(taken), warn)
    by = f"model {shorten(one_line(clean(answer.model)[0]), 180)}"
    return {pairs[number][0]: verdict for number, verdict in taken.items()}, by


# --- questions ---


def doubtful(
    comparison: Comparison, verdicts: Sequence[Verdict], untold: Collection[int] = ()
) -> list[Pair]:
    """Return the sentences that the comparison is unsure of, each with its nearest fact.

    A sentence with instructions could affect the other answers, so it is left out.
    """
    results = []
    for number, verdict in enumerate(verdicts):
        place = verdict.place if verdict.place >= 0 else verdict.near
        if not 0 <= place < comparison.known or place in untold or not _is_doubtful(verdict):
            continue
        texts = (comparison.told(comparison.known + number).text, comparison.told(place).text)
        if not injection_reason("\n".join(texts)):
            results.append((verdict.share, (number, place)))
    results.sort(key=lambda one: one[0])
    return [pair for _share, pair in results[:MAX_PAIRS]]


def _is_doubtful(verdict: Verdict) -> bool:
    return verdict.share < SURE or (verdict.status == "new" and verdict.near_share >= NEAR)


def _messages(comparison: Comparison, pairs: Mapping[int, Pair], about: str) -> list[Message]:
    shown = []
    for question, (number, place) in pairs.items():
        fact = comparison.told(place)
        found = comparison.told(comparison.known + number)
        shown.append((question, _sentence_for_prompt(fact), _sentence_for_prompt(found)))
    context = {"topic": for_prompt(one_line(about)), "pairs": shown}
    return [
        Message("system", render_to_string("prompts/compare_system.txt", context)),
        Message("user", render_to_string("prompts/compare_user.txt", context)),
    ]


def _sentence_for_prompt(dated_sentence: DatedSentence) -> dict[str, str]:
    """Return a sentence for the prompt, with its context only if that is harmless."""
    around = {"before": dated_sentence.before, "title": dated_sentence.title}
    kept = {name: text for name, text in around.items() if not injection_reason(text)}
    texts = {"text": dated_sentence.text, **kept}
    shown = {name: for_prompt(shorten(one_line(text), MAX_LENGTH)) for name, text in texts.items()}
    return shown | {"on": dated_sentence.on.isoformat() if dated_sentence.on else ""}


# --- answers ---


def _relations_by_pair(answer: Relations, pairs: Mapping[int, Pair]) -> dict[int, str]:
    """Return one relation per answered pair. Conflicting answers for a pair are ignored."""
    groups: dict[int, set[str]] = {}
    for one in answer.relations:
        if one.pair in pairs:
            groups.setdefault(one.pair, set()).add(one.relation.strip().casefold())
    return {
        number: next(iter(words))
        for number, words in groups.items()
        if len(words) == 1 and words <= STATUS.keys()
    }


def _may_be(relation: str, comparison: Comparison, verdicts: Sequence[Verdict], pair: Pair) -> bool:
    """Return True if to accept the model's answer.

    "Same" is rejected if the amounts differ, and "no fact" if the sentence mentions a fact.
    """
    if relation == "same":
        return not comparison.tells_other_value(*pair)
    return relation != "no fact" or verdicts[pair[0]].status in ("new", "noise")


def _verdict(relation: str, pair: Pair) -> Verdict:
    status = STATUS[relation]
    # A model's answer has no share, so its change is never certain and both facts stay.
    return Verdict(status, pair[1] if status not in ("new", "noise") else -1, share=0.0)


def _failed(count: int, why: str) -> str:
    words = ngettext(
        "The model gave no answer, so %(n)d sentence was compared with known facts by wording only. %(why)s",
        "The model gave no answer, so %(n)d sentences were compared with known facts by wording only. %(why)s",
        count,
    )
    return words % {"n": count, "why": why}


def _warn_of_rest(missing: int, refused: int, warn: Callable[[str], object]) -> None:
    """Warn about pairs that the model skipped or whose answer was ignored."""
    if missing:
        words = ngettext(
            "The model skipped %(n)d sentence, so it was compared with known facts by wording only.",
            "The model skipped %(n)d sentences, so they were compared with known facts by wording only.",
            missing,
        )
        warn(words % {"n": missing})
    if refused:
        words = ngettext(
            "The model’s answer about %(n)d sentence was ignored because the sentence’s own words or numbers contradict it.",
            "The model’s answers about %(n)d sentences were ignored because the sentences’ own words or numbers contradict them.",
            refused,
        )
        warn(words % {"n": refused})


# --- the live draft ---

KEPT_EVERY = 1.0
MAX_DRAFT = 30_000  # of a draft, in characters


class RunAbandoned(Exception):
    """Ends a model call that the run has abandoned, so no more text is written and paid for."""


class LiveDraft:
    """What a model has written so far, while the run waits for it.

    As a context manager, it removes a rejected draft at once. The caller reports the reason. An
    abandoned call ends at its next piece of text.
    """

    def __init__(self, work: RunContext) -> None:
        self._work = work
        self._raw = ""
        self._seen = ""
        self._shown = ""
        self._kept_at = float("-inf")
        self._is_over = False

    def take(self, raw: str) -> None:
        """Store the text so far. Runs in the call's own thread, so it can't use the database."""
        if self._is_over:
            raise RunAbandoned
        self._raw = raw

    def keep(self) -> None:
        """Save the readable part, at most once per second. Raises JobLost."""
        raw, now = self._raw, time.monotonic()
        if raw is self._seen or now - self._kept_at < KEPT_EVERY:
            return
        self._seen, self._kept_at = raw, now
        text = clean(readable_text(raw[: MAX_DRAFT * 2]))[0][:MAX_DRAFT]
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


# --- writing ---

MAX_FINDINGS = 10
MORE_FINDINGS = 6
# A later run quotes more. In a first report, more statements are off the topic.
MORE_LATER = 14
# From new pages beside known ones. With these, the practice topics of `benchmarks.real` that had new
# pages went from 73 % to 84 % of what new pages say (30 November 2026).
MORE_NEWS = 24
ANSWER_TOKENS = 4000
MAX_BODY = 60_000  # characters; more than ANSWER_TOKENS allow
MIN_PROSE = 120  # characters of plain text from a model that count as a report


class WrittenFinding(BaseModel):
    """One finding as the model gives it."""

    sentence: str
    citations: list[int] = Field(default_factory=list)
    quote: str = ""


class WrittenReport(BaseModel):
    """The model's report."""

    summary: str = ""
    body: str = Field(min_length=1)
    findings: list[WrittenFinding] = Field(default_factory=list)


def write(context: RunContext) -> StepResult:
    """Write the report and its delta items from what was read (R38 to R42)."""
    memory = inputs.loaded_memory(context)
    # The list is numbered 1..k here, once, for prompt, draft and citations. New pages come first. A
    # model gets only these, and only the changes of known pages.
    found = sorted(reading.readings(context), key=lambda page: bool(page.previous))
    pages = [replace(page, number=n) for n, page in enumerate(found, start=1)]
    known, struck = (list(memory.facts), list(memory.struck)) if memory else ([], [])
    again = rereading.outcome(pages, known, struck, composing.outranked(context) if memory else [])
    warning = ""
    draft = None
    context.ahead = PagePreparer(context.run)
    try:
        if any(not page.previous for page in pages):
            _say_who_writes(context)
            with LiveDraft(context) as live:
                draft = _by_model(context, memory, pages, again, live)
    except BudgetReached as exc:
        # No more model calls. The report is extractive and says so.
        warning = _("Written without the model: %(why)s") % {"why": exc}
        context.run.warn(warning)
    except ProviderError as exc:
        warning = _("The model failed, so the report was written without it. %(why)s") % {
            "why": exc
        }
        context.run.warn(warning)
    draft = draft or _extractive(context, memory, pages)
    # A model that failed isn't asked again in the same run.
    second = of_run(context, memory.facts) if memory and not warning else None
    output = composing.compose(context, memory, pages, draft, second, again)
    output["fell_back"] = bool(warning)
    stated = len(draft.findings)
    listed = sum(1 for c in output["changes"] if c["status"] in _LISTED)
    return StepResult(
        output,
        detail=_("%(findings)s, %(changes)s (%(by)s)")
        % {
            "findings": ngettext("%(n)d finding", "%(n)d findings", stated) % {"n": stated},
            "changes": ngettext("%(n)d change", "%(n)d changes", listed) % {"n": listed},
            "by": draft.written_by,
        },
        counts={"findings": stated, "sources": len(output["sources"])},
        warning=warning,
    )


def _say_who_writes(context: RunContext) -> None:
    other = searching.model_gone(context.run.rerun_of) if context.run.rerun_of else ""
    if other:
        context.run.warn(other)


_STYLE_PROMPTS: dict[str, str] = {
    TopicSettings.Style.EXECUTIVE: "prompts/_style_executive.txt",
    TopicSettings.Style.BULLETS: "prompts/_style_bullets.txt",
    TopicSettings.Style.MEMO: "prompts/_style_memo.txt",
}
_LISTED = {Status.NEW.value, Status.CHANGED.value, Status.CONTRADICTED.value}


# --- with a model ---


def _by_model(
    context: RunContext,
    memory: TopicMemory | None,
    pages: list[PageText],
    again: Outcome,
    live: LiveDraft,
) -> Draft | None:
    """Let the model write, or return None if there is none. Plain prose is accepted as a report."""

    def meanwhile() -> None:
        live.keep()
        if context.ahead is not None:
            context.ahead.go_on()

    try:
        answer = context.ask(
            "write",
            _writing_messages(context, memory, pages, again),
            schema=WrittenReport,
            max_tokens=ANSWER_TOKENS,
            meanwhile=meanwhile,
            on_text=live.take,
        )
    except ProviderNonsense as exc:
        if not _is_prose(exc.text):
            raise
        name = connections.model_for(context.topic, "write")
        return _drafted(
            context,
            WrittenReport(body=exc.text[:MAX_BODY]),
            name.profile.model if name else "",
            pages,
        )
    if answer is None or not isinstance(answer.parsed, WrittenReport):
        return None
    if answer.warning:
        context.run.warn(answer.warning)
    if len(answer.parsed.body) > MAX_BODY:
        raise ProviderNonsense(_("the report exceeds the maximum length"))
    return _drafted(context, answer.parsed, answer.model, pages)


def _is_prose(text: str) -> bool:
    bare = text.strip()
    return len(bare) >= MIN_PROSE and bare[0] not in "{[<`" and "[1]" in bare


def _writing_messages(
    work: RunContext, memory: TopicMemory | None, pages: list[PageText], again: Outcome
) -> list[Message]:
    settings = work.settings
    changes = [(c.citations[0], for_prompt(c.sentence)) for c in again.changes if c.is_listed]
    pages = [page for page in pages if not page.previous]
    model = connections.model_for(work.topic, "write")
    room = (model.profile.context_tokens if model else 32_768) * 2
    notes = inputs.notes(work, pages, room // 4)
    room -= sum(len(text) for _track, text in notes)
    share = min(depth_of(settings).prompt, _share([len(page.text) for page in pages], room))
    context: dict[str, Any] = {
        "most": MAX_FINDINGS,
        "languages": ", ".join(settings.languages),
        "memory": memory.as_prompt() if memory else "",
        "since": f"{memory.last_run_at:%Y-%m-%d}" if memory and memory.last_run_at else "",
        "heading": composing.heading(work, memory),
        "observations": inputs.enter(work, inputs.chosen(work)),
        "taught": inputs.teach(work, topic_block.of_topic(work.topic)),
        "topic": work.topic.title,
        "objective": settings.objective,
        "focus": settings.focus,
        "time_frame": settings.get_time_frame_display() if inputs.since(settings) else "",
        "tone": for_prompt(one_line(settings.report_tone)),
        "style": _STYLE_PROMPTS.get(settings.report_style, ""),
        "today": timezone.localdate().isoformat(),
        "notes": notes,
        "changes": changes,
        "pages": [
            replace(
                page,
                title=_harmless(one_line(page.title), 300),
                text=_harmless(page.text, share, is_judged=page.is_judged),
            )
            for page in pages
        ],
    }
    return [
        Message("system", render_to_string("prompts/write_system.txt", context)),
        Message("user", render_to_string("prompts/write_user.txt", context)),
    ]


def _share(lengths: list[int], room: int) -> int:
    """Return how many characters of each page fit in the prompt if all share `room`.

    Long pages get what short pages and snippets leave.
    """
    for place, length in enumerate(sorted(lengths)):
        share = room // (len(lengths) - place)
        if length >= share:
            return share
        room -= length
    return max(lengths, default=0)


def _harmless(text: str, most: int, *, is_judged: bool = False) -> str:
    """Return the beginning of a page, without prompt injection and without marks.

    An `is_judged` text was found to be clean as a whole. Checking again takes milliseconds per
    page.
    """
    whole, text = text, for_prompt(text)
    is_as_judged = is_judged and text == whole
    text = text[: most * 2]
    if not is_as_judged and injection.injection_reason(text):
        kept = [s for s in split_sentences(text) if not injection.injection_reason(s)]
        text = " ".join(kept)
    return text[:most]


def _drafted(
    context: RunContext, report: WrittenReport, model: str, pages: list[PageText]
) -> Draft:
    summary, body = _summary_and_body(context, report)
    findings = [
        Statement(report_text.as_sentence(f.sentence), tuple(f.citations), clean(f.quote)[0])
        for f in report.findings
        if not report_text.is_source_line(f.sentence)
    ]
    findings = [finding for finding in findings if finding.sentence]
    if not findings:
        findings = [
            Statement(text, tuple(report_text.cited([text])), "")
            for text in report_text.bullets(body) or _cited_sentences(body)
        ]
    numbers = {page.number for page in pages}
    kept = [
        Statement(
            without_citations(report_text.spread_citations(s.sentence)),
            tuple(n for n in s.citations if n in numbers),
            s.quote,
        )
        for s in findings[:MAX_FINDINGS]
    ]
    return Draft(summary, body, kept, written_by=one_line(clean(model)[0])[:200])


def _summary_and_body(context: RunContext, report: WrittenReport) -> tuple[str, str]:
    """Return the model's summary and body, tidied. The body begins with the summary.

    A report with only bullets has no summary paragraph, and an executive one has its own.
    """
    style = TopicSettings.Style(context.settings.report_style)
    text, lead = clean(report.body)[0], clean(report.summary)[0]
    if style == TopicSettings.Style.MEMO:
        text, lead = report_text.without_memo_head(text), report_text.without_memo_head(lead)
    heading = composing.heading(context, inputs.loaded_memory(context))
    body = report_text.tidy_body(text, delta_heading=heading)
    body = report_text.spread_citations(body)
    summary = report_text.spread_citations(report_text.first_paragraph(lead))
    summary = summary or report_text.first_paragraph(body)
    begins_with_it = style in (TopicSettings.Style.STANDARD, TopicSettings.Style.MEMO)
    if begins_with_it and match_key(summary)[:80] not in match_key(body):
        body = f"{summary}\n\n{body}"
    return summary, body


def _cited_sentences(body: str) -> list[str]:
    """Return the sentences with citations. They are the findings of a report without bullets."""
    return [s for s in split_sentences(body) if report_text.cited([s])]


# --- without a model ---


def _subject(context: RunContext) -> str:
    """Return the subject of the pages. The sample's subject doesn't depend on its topic's title."""
    is_sample = context.settings.services == [sample.SERVICE]
    return sample.SAMPLE_TITLE if is_sample else context.topic.title


def _extractive(context: RunContext, memory: TopicMemory | None, pages: list[PageText]) -> Draft:
    """Write a report from sentences quoted word for word from the pages."""
    find = partial(
        selection.find,
        [page for page in pages if not page.previous],
        topic=_subject(context),
        narrowed=context.settings.focus,
        focus=context.settings.objective,
        struck=list(memory.struck) if memory else [],
        known_pages=[page for page in pages if page.previous],
        limit=MAX_FINDINGS + (MORE_LATER if memory else MORE_FINDINGS),
        more_news=MORE_NEWS if memory else 0,
        embed=delta.local_vectors(),
    )
    # A thorough reading takes up to a minute, and the run can be cancelled during that time.
    sentences = context.wait_for(find)
    statements = [Statement(f.sentence, (f.reading,), f.quote) for f in sentences]
    return Draft(
        summary="",
        body="",
        findings=statements[:MAX_FINDINGS],
        more=statements[MAX_FINDINGS:],
        written_by=EXTRACTIVE,
        is_extractive=True,
        is_in_passing=bool(sentences) and all(sentence.is_passing for sentence in sentences),
    )
