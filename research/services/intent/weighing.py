"""Filter changes by a topic's intent, with the model or by keywords.

Data flow: intent, sentences that the owner asked for too, items of a delta -> the model's judgments
or `intent_rule` -> one `Verdict` per item. It fails open: if the judge fails, costs too much or
gives an unusable answer, nothing is filtered out, and a warning says so. The intent is the owner's
word. The items come from outside and are data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.template.loader import render_to_string
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from pydantic import BaseModel, Field

from beacon_site.net.errors import ProviderError
from beacon_site.providers.llm.base import Answer, Message
from beacon_site.text.cleaning import clean, for_prompt, one_line, shorten
from beacon_site.text.injection import injection_reason
from memory.services.llm import connections
from memory.services.llm.asking import ask_model
from memory.services.llm.booking import BudgetReached
from research.services.intent import rule as intent_rule
from research.services.intent.rule import Verdict

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
        words = _("No filter applied because the model couldn’t judge the changes. %(why)s")
        return everything, words % {"why": shorten(str(exc), 300)}, model.profile.model
    return verdicts, " ".join(dict.fromkeys(warnings)), model.profile.model


# --- without a model ---


def _by_rule(
    intent: str, also: Sequence[str], items: Sequence[Item], about: str
) -> tuple[list[Verdict], str, str]:
    asked = intent_rule.read(intent, about=about)
    if not asked:
        words = _(
            "No filter applied. Without a model, the filter needs keywords such as “prices” or a company name."
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
