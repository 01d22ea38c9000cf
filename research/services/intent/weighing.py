"""Filter changes by a topic's intent, with the model or by keywords; try an intent, and correct it.

Data flow: intent, sentences that the owner asked for too, items of a delta -> the model's judgments
or `intent_rule` -> one `Verdict` per item. It fails open: if the judge fails, costs too much or
gives an unusable answer, nothing is filtered out, and a warning says so. The intent is the owner's
word. The items come from outside and are data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from django.db import transaction
from django.template.loader import render_to_string
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from pydantic import BaseModel, Field

from beacon_site.net.errors import ProviderError
from beacon_site.providers.llm.base import Answer, Message
from beacon_site.text.cleaning import clean, for_prompt, one_line, shorten
from beacon_site.text.injection import injection_reason
from memory.models import Topic
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, LimitReached
from memory.services.llm import connections
from memory.services.llm.asking import ask_model
from memory.services.llm.booking import BudgetReached, MonthMeter
from research.models import DeltaItem, Report, Run
from research.services.intent import rule as intent_rule
from research.services.intent.rule import Verdict
from research.services.runs.reporting import merged_deltas as delta_text
from research.services.runs.reporting.delta import Change
from research.services.topics.settings import editing as topic_editing

MOST_ITEMS = 60  # per model call; more calls follow one after the other
MOST_EXAMPLES = 20  # the latest examples
LONGEST_WHY = 300
TOKENS_AN_ITEM = 60
Ask = Callable[..., Answer | None]


@dataclass(frozen=True, slots=True)
class Item:
    """One changed fact to judge."""

    status: str
    sentence: str
    previous: str = ""


class Judgement(BaseModel):
    """The model's judgment of one item."""

    item: int
    tell: bool
    why: str = ""


class Judgements(BaseModel):
    """The model's judgments of all items."""

    judgements: list[Judgement] = Field(default_factory=list)


def weigh(
    intent: str, also: Sequence[str], items: Sequence[Item], *, about: str, **asking: Any
) -> tuple[list[Verdict], str, str]:
    """Return a verdict for each item, any warning, and the name of the judge.

    An empty intent reports everything.
    `about` is the topic's title, and `asking` are further arguments of `ask_model`.
    """
    everything = [Verdict(True)] * len(items)
    if not intent.strip() or not items:
        return everything, "", ""
    model = connections.model_for(asking.get("topic"), "judge")
    if model is None:
        return _by_rule(intent, also, items, about)
    verdicts: list[Verdict] = []
    warnings: list[str] = []
    try:
        for start in range(0, len(items), MOST_ITEMS):
            some = items[start : start + MOST_ITEMS]
            found, warning = _by_model(intent, also, some, about, asking)
            verdicts += found
            warnings += [warning] if warning else []
    except (ProviderError, BudgetReached) as exc:
        words = _("No filter was applied because the model couldn’t judge the changes. %(why)s")
        return everything, words % {"why": shorten(str(exc), 300)}, model.profile.model
    return verdicts, " ".join(dict.fromkeys(warnings)), model.profile.model


# --- without a model ---


def _by_rule(
    intent: str, also: Sequence[str], items: Sequence[Item], about: str
) -> tuple[list[Verdict], str, str]:
    asked = intent_rule.read(intent, about=about)
    if not asked:
        words = _(
            "No filter was applied. Without a model, the filter needs keywords such as “prices” or a company name."
        )
        return [Verdict(True)] * len(items), words, ""
    verdicts = [
        intent_rule.verdict(
            asked, f"{item.sentence}", status=item.status, examples=also, about=about
        )
        for item in items
    ]
    return verdicts, "", _("keywords")


# --- with a model ---


def _by_model(
    intent: str,
    also: Sequence[str],
    items: Sequence[Item],
    about: str,
    asking: dict[str, Any],
) -> tuple[list[Verdict], str]:
    """Return the model's verdicts. Raises ProviderError and BudgetReached."""
    # A sentence with prompt injection could get others filtered out. The model doesn't see it, and
    # it is reported.
    shown = {n: item for n, item in enumerate(items, start=1) if not _gives_orders(item)}
    if not shown:
        return [Verdict(True)] * len(items), ""
    answer = ask_model(
        "judge",
        _messages(intent, also, shown, about),
        schema=Judgements,
        max_tokens=200 + TOKENS_AN_ITEM * len(shown),
        **asking,
    )
    said: dict[int, Verdict] = {}
    if answer is not None and isinstance(answer.parsed, Judgements):
        for one in answer.parsed.judgements:
            if one.item in shown and (one.item not in said or one.tell):
                said[one.item] = Verdict(one.tell, _why(one), "model")
    missing = len(shown) - len(said)
    warning = ""
    if missing:
        warning = ngettext(
            "The model didn’t judge %(n)d change, so it isn’t filtered out.",
            "The model didn’t judge %(n)d changes, so they aren’t filtered out.",
            missing,
        ) % {"n": missing}
    return [said.get(n, Verdict(True)) for n in range(1, len(items) + 1)], warning


def _gives_orders(item: Item) -> bool:
    return bool(injection_reason(f"{item.sentence}\n{item.previous}"))


def _why(one: Judgement) -> str:
    why = shorten(one_line(clean(one.why)[0]), LONGEST_WHY)
    return why or _("the model gave no reason")


def _messages(
    intent: str, also: Sequence[str], items: dict[int, Item], about: str
) -> list[Message]:
    context = {
        "topic": for_prompt(one_line(about)),
        "intent": for_prompt(intent),
        "also": [for_prompt(shorten(one_line(text), 400)) for text in also[-MOST_EXAMPLES:]],
        "items": [
            (number, item.status, for_prompt(one_line(item.sentence)), for_prompt(item.previous))
            for number, item in items.items()
        ],
    }
    return [
        Message("system", render_to_string("prompts/judge_system.txt", context)),
        Message("user", render_to_string("prompts/judge_user.txt", context)),
    ]


# --- feedback: reporting a filtered-out change after all ---
#
# Its sentence becomes an example in the topic's `tell_also`, which later runs use, and the report's
# section is rewritten.


MOST_ALSO = 50  # per topic; the judge sees the latest (MOST_EXAMPLES)
_OF_INTENT = (DeltaItem.Judge.MODEL, DeltaItem.Judge.RULE)


def notify_about_similar(run: Run, item_id: int, *, by: Actor) -> DeltaItem:
    """Report the item, and similar ones starting with the next run.

    Raises LimitReached, and InvalidValue if the intent doesn't filter the item out, or no longer does.
    """
    with transaction.atomic():
        topic = Topic.objects.select_for_update().get(pk=run.topic_id)
        item: DeltaItem | None = DeltaItem.objects.filter(run=run, pk=item_id).first()
        if item is None or not item.is_unasked or item.judged_by not in _OF_INTENT:
            raise InvalidValue(_("This change isn’t currently filtered out."))
        also = topic_editing.settings_of(topic).tell_also
        if len(also) >= MOST_ALSO:
            problem = _(
                "You’ve reached the limit of %(most)d examples. Remove some in the topic’s settings, or describe what you want under “Notify me about”."
            )
            raise LimitReached(problem % {"most": MOST_ALSO})
        wanted = list(dict.fromkeys([*also, item.sentence]))
        topic_editing.edit_topic(topic, by=by, wanted={"tell_also": wanted})
        item.withheld, item.judged_by = "", DeltaItem.Judge.PERSON
        item.save(update_fields=["withheld", "judged_by"])
        _rewrite_delta_section(
            run, by, _("no longer filtered out: %(text)s") % {"text": item.sentence[:200]}
        )
    return item


def withhold_again(run: Run, item_id: int, judge: str, *, by: Actor) -> DeltaItem:
    """Undo `notify_about_similar`. `judge` had filtered the item out before. Raises InvalidValue."""
    with transaction.atomic():
        topic = Topic.objects.select_for_update().get(pk=run.topic_id)
        told = DeltaItem.objects.filter(run=run, pk=item_id, judged_by=DeltaItem.Judge.PERSON)
        item: DeltaItem | None = told.first()
        if item is None or judge not in _OF_INTENT:
            raise InvalidValue(
                _("You haven’t asked for changes like this, or your request was removed.")
            )
        also = topic_editing.settings_of(topic).tell_also
        wanted = [text for text in also if text != item.sentence]
        topic_editing.edit_topic(topic, by=by, wanted={"tell_also": wanted})
        item.withheld, item.judged_by = item.judged or _("doesn’t match your filter"), judge
        item.save(update_fields=["withheld", "judged_by"])
        _rewrite_delta_section(
            run, by, _("filtered out again: %(text)s") % {"text": item.sentence[:200]}
        )
    return item


def _rewrite_delta_section(run: Run, by: Actor, why: str) -> None:
    """Rewrite the report's section from the run's current items."""
    report: Report = run.report
    changes = [_change(item) for item in DeltaItem.objects.filter(run=run).order_by("position")]
    is_quiet = not any(change.is_listed for change in changes)
    quiet = delta_text.nothing_asked_for(changes)
    text = delta_text.as_markdown(changes, quiet=quiet, sources=report.sources)
    # The text comes from the report, no matter who asked to report the change.
    report.change(by=by, why=why, delta=text, trust=report.trust)
    Report.objects.filter(pk=report.pk).update(is_quiet=is_quiet)


def _change(item: DeltaItem) -> Change:
    names = {field.name for field in fields(Change)} - {"previous_id", "told"}
    return Change(**{name: getattr(item, name) for name in names})


# --- trying an intent ---

RUNS = 5
MOST = 120  # the latest changes


@dataclass(slots=True)
class TriedRun:
    """One run's changes as the intent would filter them."""

    run: Run
    told: list[tuple[DeltaItem, Verdict]] = field(default_factory=list)
    withheld: list[tuple[DeltaItem, Verdict]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Trial:
    """The effect of an intent on the last runs."""

    runs: Sequence[TriedRun]
    warning: str
    by: str
    is_empty: bool  # the intent is empty, so everything is reported

    @property
    def opened(self) -> int:
        """Return the newest run with changes, which is shown expanded, or 0."""
        return next((one.run.pk for one in self.runs if one.told or one.withheld), 0)

    @property
    def told(self) -> int:
        """Return how many changes would be reported."""
        return sum(len(run.told) for run in self.runs)

    @property
    def withheld(self) -> int:
        """Return how many would be filtered out."""
        return sum(len(run.withheld) for run in self.runs)


def tried(topic: Topic, intent: str, also: Sequence[str], *, by: Actor) -> Trial:
    """Return how `intent` would filter the topic's last runs, in two queries."""
    saved = Run.objects.filter(topic=topic, is_baseline=False).exclude(number=None)
    runs = {run.pk: TriedRun(run) for run in saved.order_by("-number")[:RUNS]}
    for one in runs.values():
        one.run.topic = topic
    listed = DeltaItem.objects.filter(run__in=runs, status__in=DeltaItem.LISTED).supported()
    items = list(listed.order_by("-run__number", "position")[:MOST])
    verdicts, warning, judge = weigh(
        intent,
        also,
        [Item(item.status, item.sentence, item.previous_text) for item in items],
        about=topic.title,
        owner=topic.owner,
        source=str(by),
        topic=topic,
        meter=MonthMeter(topic.owner),
    )
    for item, verdict in zip(items, verdicts, strict=True):
        row = runs[item.run_id]
        (row.told if verdict.tell else row.withheld).append((item, verdict))
    return Trial(list(runs.values()), warning, judge, not intent.strip())
