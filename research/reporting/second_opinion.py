"""Ask the model for a second opinion where the comparison is unsure, once per run.

Data flow: verdicts of `research.claims.linking` -> those with a share below `SURE`, each next to
its nearest fact, as numbered pairs between marks -> one answer -> replaced verdicts. If the model
gives no usable answer, the comparison's verdict is kept, with a warning. The texts come from the
web, so an answer has little power: it gives no share, and a change without a share retires no fact.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from django.template.loader import render_to_string
from django.utils.translation import ngettext
from pydantic import BaseModel, Field

from beacon_site.llm.base import Answer, Message
from beacon_site.net.errors import ProviderError
from beacon_site.text.cleaning import clean, for_prompt, one_line, shorten
from beacon_site.text.injection import smells_of_instructions
from memory.llm import connections
from memory.llm.asking import ask_model
from memory.models import Sensitivity, TopicFact
from memory.topics.memory import KnownFact
from memory.usage.booking import BudgetReached
from research.claims.linking import SURE, Comparison, Told, Verdict
from research.reporting.delta import Opinions, SecondOpinion
from research.run_context.context import RunContext

PURPOSE = "compare"
MOST_PAIRS = 20  # per run, the least certain first
NEAR = 0.05  # below this similarity to any fact, the comparison is sure that a sentence is new
LONGEST = 600  # characters of a sentence
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


@dataclass(frozen=True, slots=True)
class Pair:
    """A found sentence, by its number, and the fact at `place`."""

    number: int
    place: int


def of_run(work: RunContext, facts: Sequence[KnownFact]) -> SecondOpinion | None:
    """Return the run's second opinion, or None if there is no model or the topic is sensitive."""
    if not facts or work.is_stopping or connections.model_for(work.topic) is None:
        return None
    ids = [fact.id for fact in facts]
    secret = TopicFact.objects.filter(pk__in=ids, sensitivity=Sensitivity.SENSITIVE)
    untold = {ids.index(str(pk)) for pk in secret.values_list("pk", flat=True)}

    def ask(messages: Sequence[Message], schema: type[BaseModel], most: int) -> Answer | None:
        return ask_model(
            PURPOSE,
            messages,
            owner=work.topic.owner,
            source=work.run.source,
            topic=work.topic,
            schema=schema,
            max_tokens=most,
            meter=work.meter,
            wait_for=work.wait_for,
        )

    return partial(opinions, ask=ask, warn=work.run.warn, about=work.topic.title, untold=untold)


def opinions(
    comparison: Comparison,
    verdicts: Sequence[Verdict],
    *,
    ask: Ask,
    warn: Callable[[str], object],
    about: str = "",
    untold: Collection[int] = (),
) -> Opinions:
    """Return the model's answers for the sentences that the comparison is unsure of.

    `untold` are the places of facts that no model can see.
    """
    pairs = dict(enumerate(doubtful(comparison, verdicts, untold), start=1))
    if not pairs:
        return Opinions()
    try:
        answer = ask(
            _messages(comparison, pairs, about), Relations, 200 + TOKENS_A_PAIR * len(pairs)
        )
    except (ProviderError, BudgetReached) as exc:
        warn(_failed(len(pairs), shorten(str(exc), 300)))
        return Opinions()
    if answer is None or not isinstance(answer.parsed, Relations):
        return Opinions()
    said = _said(answer.parsed, pairs)
    taken = {
        number: _verdict(relation, pairs[number])
        for number, relation in said.items()
        if _may_be(relation, comparison, verdicts, pairs[number])
    }
    _warn_of_rest(len(pairs) - len(said), len(said) - len(taken), warn)
    by = f"model {shorten(one_line(clean(answer.model)[0]), 180)}"
    return Opinions({pairs[number].number: verdict for number, verdict in taken.items()}, by)


# --- questions ---


def doubtful(
    comparison: Comparison, verdicts: Sequence[Verdict], untold: Collection[int] = ()
) -> list[Pair]:
    """Return the sentences that the comparison is unsure of, each with its nearest fact.

    A sentence with instructions could affect the other answers, so it is left out.
    """
    found = []
    for number, verdict in enumerate(verdicts):
        place = verdict.place if verdict.place >= 0 else verdict.near
        if not 0 <= place < comparison.known or place in untold or not _is_doubtful(verdict):
            continue
        texts = (comparison.told(comparison.known + number).text, comparison.told(place).text)
        if not smells_of_instructions("\n".join(texts)):
            found.append((verdict.share, Pair(number, place)))
    found.sort(key=lambda one: one[0])
    return [pair for _share, pair in found[:MOST_PAIRS]]


def _is_doubtful(verdict: Verdict) -> bool:
    return verdict.share < SURE or (verdict.status == "new" and verdict.near_share >= NEAR)


def _messages(comparison: Comparison, pairs: Mapping[int, Pair], about: str) -> list[Message]:
    shown = []
    for number, pair in pairs.items():
        fact = comparison.told(pair.place)
        found = comparison.told(comparison.known + pair.number)
        shown.append((number, _shown(fact), _shown(found)))
    context = {"topic": for_prompt(one_line(about)), "pairs": shown}
    return [
        Message("system", render_to_string("prompts/compare_system.txt", context)),
        Message("user", render_to_string("prompts/compare_user.txt", context)),
    ]


def _shown(told: Told) -> dict[str, str]:
    """Return a sentence for the prompt, with its context only if that is harmless."""
    around = {"before": told.before, "title": told.title}
    kept = {name: text for name, text in around.items() if not smells_of_instructions(text)}
    texts = {"text": told.text, **kept}
    shown = {name: for_prompt(shorten(one_line(text), LONGEST)) for name, text in texts.items()}
    return shown | {"on": told.on.isoformat() if told.on else ""}


# --- answers ---


def _said(answer: Relations, pairs: Mapping[int, Pair]) -> dict[int, str]:
    """Return one relation per answered pair. Conflicting answers for a pair are ignored."""
    said: dict[int, set[str]] = {}
    for one in answer.relations:
        if one.pair in pairs:
            said.setdefault(one.pair, set()).add(one.relation.strip().casefold())
    return {
        number: next(iter(words))
        for number, words in said.items()
        if len(words) == 1 and words <= STATUS.keys()
    }


def _may_be(relation: str, comparison: Comparison, verdicts: Sequence[Verdict], pair: Pair) -> bool:
    """Whether to accept the model's answer.

    "Same" is rejected if the amounts differ, and "no fact" if the sentence mentions a fact.
    """
    if relation == "same":
        return not comparison.tells_other_value(pair.number, pair.place)
    return relation != "no fact" or verdicts[pair.number].status in ("new", "noise")


def _verdict(relation: str, pair: Pair) -> Verdict:
    status = STATUS[relation]
    # A model's answer has no share, so its change is never certain and both facts stay.
    return Verdict(status, pair.place if status not in ("new", "noise") else -1, share=0.0)


def _failed(count: int, why: str) -> str:
    words = ngettext(
        "The model gave no answer, so %(n)d sentence was compared with known facts by wording only: %(why)s",
        "The model gave no answer, so %(n)d sentences were compared with known facts by wording only: %(why)s",
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
