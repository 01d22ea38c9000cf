"""Filter changes by a topic's intent, with the model or by keywords; try an intent, and correct it.

Data flow: intent, sentences that the owner asked for too, items of a delta -> the model's judgments
or `intent_rule` -> one `Verdict` per item. It fails open: if the judge fails, costs too much or
gives an unusable answer, nothing is filtered out, and a warning says so. The intent is the owner's
word. The items come from outside and are data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from django.db import transaction
from django.template.loader import render_to_string
from django.utils.functional import Promise
from django.utils.text import get_text_list
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from pydantic import BaseModel, Field

from beacon_site.net.errors import ProviderError
from beacon_site.providers.llm.base import Message
from beacon_site.text.cleaning import clean, for_prompt, one_line, shorten
from beacon_site.text.injection import injection_reason
from memory.models import Topic
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, LimitReached
from memory.services.llm import connections
from memory.services.llm.asking import BudgetReached, MonthMeter, ask_model
from research.claims.terms import terms
from research.models import DeltaItem, Report, Run
from research.services.runs.reporting import merged_deltas as delta_text
from research.services.runs.reporting.delta import Change
from research.services.topics.settings import editing as topic_editing

MAX_ITEMS = 60  # per model call; more calls follow one after the other
MAX_EXAMPLES = 20  # the latest examples
MAX_WHY_LENGTH = 300
TOKENS_AN_ITEM = 60


Item = Change | DeltaItem  # one changed fact to judge


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
        for start in range(0, len(items), MAX_ITEMS):
            some = items[start : start + MAX_ITEMS]
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
    parsed_intent = read(intent, about=about)
    if not parsed_intent:
        words = _(
            "No filter was applied. Without a model, the filter needs keywords such as “prices” or a company name."
        )
        return [Verdict(True)] * len(items), words, ""
    verdicts = [
        verdict(parsed_intent, f"{item.sentence}", status=item.status, examples=also, about=about)
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
    verdicts_by_id: dict[int, Verdict] = {}
    if answer is not None and isinstance(answer.parsed, Judgements):
        for one in answer.parsed.judgements:
            if one.item in shown and (one.item not in verdicts_by_id or one.tell):
                verdicts_by_id[one.item] = Verdict(one.tell, _why(one), "model")
    missing = len(shown) - len(verdicts_by_id)
    warning = ""
    if missing:
        warning = ngettext(
            "The model didn’t judge %(n)d change, so it isn’t filtered out.",
            "The model didn’t judge %(n)d changes, so they aren’t filtered out.",
            missing,
        ) % {"n": missing}
    return [verdicts_by_id.get(n, Verdict(True)) for n in range(1, len(items) + 1)], warning


def _gives_orders(item: Item) -> bool:
    return bool(injection_reason(f"{item.sentence}\n{item.previous_text}"))


def _why(one: Judgement) -> str:
    why = shorten(one_line(clean(one.why)[0]), MAX_WHY_LENGTH)
    return why or _("the model gave no reason")


def _messages(
    intent: str, also: Sequence[str], items: dict[int, Item], about: str
) -> list[Message]:
    context = {
        "topic": for_prompt(one_line(about)),
        "intent": for_prompt(intent),
        "also": [for_prompt(shorten(one_line(text), 400)) for text in also[-MAX_EXAMPLES:]],
        "items": [
            (
                number,
                item.status,
                for_prompt(one_line(item.sentence)),
                for_prompt(item.previous_text),
            )
            for number, item in items.items()
        ],
    }
    return [
        Message("system", render_to_string("prompts/judge_system.txt", context)),
        Message("user", render_to_string("prompts/judge_user.txt", context)),
    ]


# --- feedback: reporting a filtered-out change after all ---
#
# Its sentence becomes an example in the topic's `notify_examples`, which later runs use, and the report's
# section is rewritten.


MAX_ALSO = 50  # per topic; the judge sees the latest (MAX_EXAMPLES)
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
        also = topic_editing.settings_of(topic).notify_examples
        if len(also) >= MAX_ALSO:
            problem = _(
                "You’ve reached the limit of %(most)d examples. Remove some in the topic’s settings, or describe what you want under “Notify me about”."
            )
            raise LimitReached(problem % {"most": MAX_ALSO})
        sentences = list(dict.fromkeys([*also, item.sentence]))
        topic_editing.edit_topic(topic, by=by, wanted={"notify_examples": sentences})
        item.hidden_reason, item.judged_by = "", DeltaItem.Judge.PERSON
        item.save(update_fields=["hidden_reason", "judged_by"])
        _rewrite_delta_section(
            run, by, _("no longer filtered out: %(text)s") % {"text": item.sentence[:200]}
        )
    return item


def withhold_again(run: Run, item_id: int, judge: str, *, by: Actor) -> DeltaItem:
    """Undo `notify_about_similar`. `judge` had filtered the item out before. Raises InvalidValue."""
    with transaction.atomic():
        topic = Topic.objects.select_for_update().get(pk=run.topic_id)
        rows = DeltaItem.objects.filter(run=run, pk=item_id, judged_by=DeltaItem.Judge.PERSON)
        item: DeltaItem | None = rows.first()
        if item is None or judge not in _OF_INTENT:
            raise InvalidValue(
                _(
                    "You haven’t asked to be notified about similar changes, or that request was removed."
                )
            )
        also = topic_editing.settings_of(topic).notify_examples
        others = [text for text in also if text != item.sentence]
        topic_editing.edit_topic(topic, by=by, wanted={"notify_examples": others})
        item.hidden_reason, item.judged_by = item.judged or _("doesn’t match your filter"), judge
        item.save(update_fields=["hidden_reason", "judged_by"])
        _rewrite_delta_section(
            run, by, _("filtered out again: %(text)s") % {"text": item.sentence[:200]}
        )
    return item


def _rewrite_delta_section(run: Run, by: Actor, why: str) -> None:
    """Rewrite the report's section from the run's current items."""
    report: Report = run.report
    changes = [Change.of(item) for item in DeltaItem.objects.filter(run=run).order_by("position")]
    is_quiet = not any(change.is_listed for change in changes)
    quiet = delta_text.nothing_asked_for(changes)
    text = delta_text.as_markdown(changes, quiet=quiet, sources=report.sources)
    # The text comes from the report, no matter who asked to report the change.
    report.change(by=by, why=why, delta=text, trust=report.trust)
    Report.objects.filter(pk=report.pk).update(is_quiet=is_quiet)


# --- trying an intent ---

RUNS = 5
MAX = 120  # the latest changes


def tried(topic: Topic, intent: str, also: Sequence[str], *, by: Actor) -> dict[str, Any]:
    """Return how `intent` would filter the topic's last runs, in two queries.

    `opened` is the newest run with changes, which is shown expanded, and `is_empty` says that there
    is no intent, so that everything is reported.
    """
    saved = Run.objects.filter(topic=topic, is_baseline=False).exclude(number=None)
    runs: dict[int, dict[str, Any]] = {
        run.pk: {"run": run, "told": [], "filtered_out": []}
        for run in saved.order_by("-number")[:RUNS]
    }
    for one in runs.values():
        one["run"].topic = topic
    listed = DeltaItem.objects.filter(run__in=runs, status__in=DeltaItem.LISTED).supported()
    items = list(listed.order_by("-run__number", "position")[:MAX])
    verdicts, warning, judge = weigh(
        intent,
        also,
        items,
        about=topic.title,
        owner=topic.owner,
        source=str(by),
        topic=topic,
        meter=MonthMeter(topic.owner),
    )
    for item, verdict in zip(items, verdicts, strict=True):
        runs[item.run_id]["told" if verdict.tell else "filtered_out"].append((item, verdict))
    rows = list(runs.values())
    return {
        "runs": rows,
        "told": sum(len(row["told"]) for row in rows),
        "filtered_out": sum(len(row["filtered_out"]) for row in rows),
        "opened": next((row["run"].pk for row in rows if row["told"] or row["filtered_out"]), 0),
        "warning": warning,
        "by": judge,
        "is_empty": not intent.strip(),
    }


# --- the rule, without a model ---
# It uses keywords, names and kinds of news. The lists are English, with the most common words of some
# other languages. Stems are compared.


_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_MONEY = (
    r"[$€£¥₹]\s?\d|\b(?:usd|eur|gbp|chf|jpy|cny)\s?\d"
    r"|\b\d[\d.,]*\s?(?:(?:k|m|bn|thousand|million|billion|trillion)\s)?\s?"
    r"(?:dollars?|euros?|pounds?|yen|yuan|rupees?|francs?|cents?|usd|eur|gbp|chf|元|美元|欧元)\b"
)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of news: the words that ask for it, and the words and figures that report it."""

    name: str
    label: str | Promise
    triggers: frozenset[str]
    words: frozenset[str]
    figures: re.Pattern[str] | None = None
    phrases: re.Pattern[str] | None = None
    not_with: frozenset[str] = frozenset()

    def is_named_in(self, wish: str) -> bool:
        """Return True if a request asks for this kind."""
        if self.phrases is not None and self.phrases.search(wish):
            return True
        return bool(self.triggers & set(terms(wish)))

    def matches_sentence(self, sentence: str) -> bool:
        """Return True if a sentence reports this kind of news."""
        sentence_terms = set(terms(sentence))
        if self.words & sentence_terms or (
            self.phrases is not None and self.phrases.search(sentence)
        ):
            return True
        if self.figures is None or self.not_with & sentence_terms:
            return False
        return bool(self.figures.search(sentence))


def _stems(words: str) -> frozenset[str]:
    return frozenset(term for word in words.split() for term in terms(word))


def _compiled(pattern: str) -> re.Pattern[str] | None:
    return re.compile(pattern, re.IGNORECASE) if pattern else None


def _kind(
    name: str,
    label: str | Promise,
    asks: str,
    tells: str = "",
    *,
    figures: str = "",
    phrases: str = "",
    not_with: str = "",
) -> Kind:
    triggers = _stems(asks)
    return Kind(
        name,
        label,
        triggers,
        triggers | _stems(tells),
        _compiled(figures),
        _compiled(phrases),
        _stems(not_with),
    )


_RAISED = "raise raises raised funding fund invest investment investor valuation valued ipo revenue fine fined"

KINDS: tuple[Kind, ...] = (
    _kind(
        "price",
        gettext_lazy("price"),
        "price prices pricing priced cost costs cheaper cheap expensive tariff fee fees subscription "
        "preis preise kosten prix coût precio precios costo prezzo 价格 售价",
        "discount discounts surcharge rebate",
        figures=_MONEY,
        not_with=_RAISED,
    ),
    _kind(
        "entrant",
        gettext_lazy("new entrant"),
        "entrant entrants newcomer newcomers competitor competitors rival rivals startup startups",
        "debut debuts spinoff founded",
        phrases=(
            r"\bnew\s+(?:entrants?|players?|compan(?:y|ies)|vendors?|suppliers?|providers?|makers?)\b"
            r"|\b(?:enter(?:s|ed|ing)?|join(?:s|ed|ing)?|move[sd]?\s+into)\s+(?:the\s+)?(?:\w+\s+){0,2}"
            r"(?:market|race|field|business|sector|industry)\b|\bstart-ups?\b|\bfirst\s+(?:product|cell|model)s?\b"
        ),
    ),
    _kind(
        "funding",
        gettext_lazy("funding"),
        "funding fund raise raises raised investment invest investor valuation ipo round financing "
        "finanzierung financement financiación 融资",
        "invested invests backed valued seed grant subsidy",
        phrases=r"\bseries\s+[a-h]\b",
    ),
    _kind(
        "deal",
        gettext_lazy("deal"),
        "acquisition acquisitions acquire takeover merger mergers buyout deal deals partnership "
        "partnerships contract contracts übernahme fusion",
        "acquires acquired buys bought merge merges merged partner partners stake agreement signed",
        phrases=r"\bjoint\s+venture\b",
    ),
    _kind(
        "law",
        gettext_lazy("law"),
        "law laws legal regulation regulations regulator regulatory legislation court lawsuit ruling "
        "ban bans policy rule rules patent patents sanction sanctions gesetz loi ley legge 法律 法规",
        "sue sues sued banned fine fined penalty directive statute bill parliament congress senate "
        "judge verdict settlement comply compliance antitrust ruled prohibit prohibits prohibited "
        "mandate approved approval",
    ),
    _kind(
        "people",
        gettext_lazy("people"),
        "ceo cto cfo hire hires hiring resignation appointment layoff layoffs leadership executive "
        "staff management personnel chef",
        "hired appoint appoints appointed resign resigns resigned fired successor chairman chairwoman "
        "founder cofounder",
        phrases=r"\bchief\s+\w+\s+officer\b|\bstep(?:s|ped|ping)?\s+down\b|\blaid\s+off\b",
    ),
    _kind(
        "release",
        gettext_lazy("release"),
        "release releases launch launches version versions ship ships shipping availability rollout "
        "unveil announcement product products",
        "released launched shipped unveils unveiled introduce introduces introduced announces "
        "announced available",
        figures=r"\bv?\d+\.\d+(?:\.\d+)?\b(?!\s*(?:%|percent|million|billion|euros?|dollars?))",
    ),
    _kind(
        "date",
        gettext_lazy("date"),
        "date dates deadline deadlines schedule schedules timeline delay delays postponement "
        "termin frist délai fecha plazo 日期",
        "delayed postpone postpones postponed due expire expires expiry until slip slips slipped",
        figures=(
            rf"\b\d{{1,2}}\.?\s+{_MONTH}(?:\s+\d{{4}})?\b|\b{_MONTH}\s+\d{{1,4}}\b"
            r"|\b\d{4}-\d{2}-\d{2}\b|\b(?:q[1-4]|h[12])\s+\d{4}\b|\d{4}年\d{1,2}月"
        ),
    ),
    _kind(
        "security",
        gettext_lazy("security"),
        "security vulnerability vulnerabilities exploit exploits breach breaches hack cve attack "
        "attacks leak sicherheitslücke 漏洞",
        "hacked leaked malware ransomware backdoor zero-day exploited attacker attackers",
        figures=r"\bCVE-\d{4}-\d+\b",
    ),
    _kind(
        "safety",
        gettext_lazy("safety"),
        "safety recall recalls accident accidents fire fires explosion injury death incident hazard",
        "recalled injured killed died exploded burned toxic",
    ),
    _kind(
        "results",
        gettext_lazy("results"),
        "revenue revenues profit profits earnings sales turnover loss losses margin umsatz gewinn",
        "forecast guidance quarter quarterly grew shrank sold",
    ),
    _kind(
        "share",
        gettext_lazy("percentage or rate"),
        "percentage percent rate rates proportion statistics statistic",
        figures=r"\d\s?%|\d\s(?:percent|per\s+cent|percentage\s+points?)\b",
    ),
)


# --- the rule ---

# Words that frame a request and name nothing.
_FRAME_WORDS = (
    "tell told inform notify alert report show send mail ping let know hear want wish like need "
    "please only just when whenever if anything something everything nothing thing things news "
    "new newly change changes changed changing update me my us about regarding concerning around "
    "related relating involve involving interested interest care matter matters important "
    "significant major big real there case kind sort such happen happens come comes came say says "
    "mention mentions name names named get gets go goes going see look topic fact facts item "
    "items story stories source sources market first information"
)
_FRAME = frozenset(terms(_FRAME_WORDS))
_CONTRADICTS = frozenset(terms("contradict contradiction contradicts disagree conflict correction"))
_NOT = re.compile(
    r"\b(?:not|no|nor|never|except(?:\s+for)?|excluding|without|ignor(?:e|ing)|skip(?:ping)?"
    r"|leave\s+out|don[’']t|doesn[’']t|isn[’']t|aren[’']t)\b",
    re.IGNORECASE,
)
# “Nothing but prices”, “not unless prices change”: negations that ask for what follows.
_ONLY = re.compile(
    r"\b(?:nothing|no(?:t|\s+news)?(?:\s+\w+){0,3}?)\s+(?:but|except(?:\s+for)?|unless|other\s+than)\b"
    r"|\bunless\b|\b(?:but|only)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[.;!?。；！？]+(?=\s|$)|\n+")
_PART = re.compile(r",|，|、|/|\b(?:and|or|und|oder|et|ou|y|o)\b", re.IGNORECASE)
_CAPITAL = re.compile(r"[^\W\d_][\w.'&+-]*")
_ONLY_MARK, _NOT_MARK = "\x01", "\x02"
MIN_ALIKE = 0.5  # with this share of an example's words, a sentence is similar to it


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an item is reported, why, and who judged (`DeltaItem.Judge`, or empty)."""

    tell: bool
    why: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One requested thing: kinds of news, proper names, and other words."""

    kinds: tuple[Kind, ...] = ()
    names: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    shown: str = ""

    def __bool__(self) -> bool:
        return bool(self.kinds or self.names or self.words)


@dataclass(frozen=True, slots=True)
class ParsedIntent:
    """What an intent asks for. Empty if the rule recognizes nothing in it."""

    wanted: list[Part] = field(default_factory=list)
    unwanted: list[Part] = field(default_factory=list)
    contradictions: bool = False

    def __bool__(self) -> bool:
        return bool(self.wanted or self.unwanted or self.contradictions)

    @property
    def description(self) -> str:
        """Return what is requested as text: `price, new entrant or “Toyota”`."""
        named = list(dict.fromkeys(part.shown for part in self.wanted))
        if self.contradictions:
            named.append(_("contradictions"))
        return str(get_text_list(named[:8], _("or")))


def read(intent: str, *, about: str = "") -> ParsedIntent:
    """Parse `intent`. Words of `about`, the topic's title, don't distinguish anything."""
    marked = _NOT.sub(_NOT_MARK, _ONLY.sub(_ONLY_MARK, intent))
    parsed_intent = ParsedIntent(contradictions=bool(_CONTRADICTS & set(terms(intent))))
    common = _FRAME | _CONTRADICTS | set(terms(about))
    for sentence in _SENTENCE.split(marked):
        is_wanted, begins = True, True
        for piece in re.split(f"([{_ONLY_MARK}{_NOT_MARK}])", sentence):
            if piece in (_ONLY_MARK, _NOT_MARK):
                is_wanted = piece == _ONLY_MARK
                continue
            parts = []
            for text in _PART.split(piece):
                parts.append(_part(text, common, begins=begins))
                begins = begins and not text.strip()
            (parsed_intent.wanted if is_wanted else parsed_intent.unwanted).extend(
                filter(None, parts)
            )
    # Repeated parts count once, because each part is compared with each sentence.
    parsed_intent.wanted[:] = dict.fromkeys(parsed_intent.wanted)
    parsed_intent.unwanted[:] = dict.fromkeys(parsed_intent.unwanted)
    return parsed_intent


def _part(text: str, common: Iterable[str], *, begins: bool) -> Part:
    kinds = tuple(kind for kind in KINDS if kind.is_named_in(text))
    of_kinds = {term for kind in kinds for term in kind.triggers}
    left = [term for term in terms(text) if term not in common and term not in of_kinds]
    named_in = _names_in(text, begins=begins)
    names = frozenset(term for term in left if term in named_in)
    words = frozenset(left) - names
    # If a kind is named, only a name narrows it: “prices of Toyota”, but “a price that drops”.
    words = frozenset() if kinds else words
    named = [*(str(kind.label) for kind in kinds)]
    if names or words:
        named.append(f"“{shorten(text.strip(), 60)}”")
    return Part(kinds, names, words, ": ".join(named))


def _names_in(text: str, *, begins: bool) -> set[str]:
    """Return the terms of names: capitalized words, except the first of a sentence (`begins`).

    Even the first word is a name if it is written like CATL or iPhone.
    """
    found = _CAPITAL.findall(text)
    by_chance = begins and bool(found) and found[0].istitle()
    named = [word for word in found[by_chance:] if word != word.lower()]
    return {term for word in named for term in terms(word)}


def verdict(
    parsed_intent: ParsedIntent,
    sentence: str,
    *,
    status: str = "",
    examples: Sequence[str] = (),
    about: str = "",
) -> Verdict:
    """Return whether a sentence is reported. `examples` are sentences that the owner asked for too."""
    texts = _terms_of(sentence)
    for example in examples:
        if _is_similar_news(texts, sentence, example, about):
            words = _("similar to what you asked for: “%(text)s”")
            return Verdict(True, words % {"text": shorten(example, 120)}, "rule")
    for part in parsed_intent.unwanted:
        if _meets(part, texts, sentence):
            return Verdict(False, _("you excluded %(what)s") % {"what": part.shown}, "rule")
    if parsed_intent.contradictions and status == "contradicted":
        return Verdict(True, _("contradicts a known fact"), "rule")
    for part in parsed_intent.wanted:
        if _meets(part, texts, sentence):
            return Verdict(True, _("mentions %(what)s") % {"what": part.shown}, "rule")
    if parsed_intent.wanted or parsed_intent.contradictions:
        why = _("doesn’t mention %(what)s") % {"what": parsed_intent.description}
        return Verdict(False, why, "rule")
    return Verdict(True, _("doesn’t mention anything you excluded"), "rule")


@lru_cache(maxsize=512)
def _terms_of(sentence: str) -> frozenset[str]:
    return frozenset(terms(sentence))


def _meets(part: Part, texts: frozenset[str], sentence: str) -> bool:
    if part.names and not part.names & texts:
        return False
    if part.kinds:
        return any(kind.matches_sentence(sentence) for kind in part.kinds)
    if part.names:
        return True
    # If a part has several words (“cycle life of cells”), half are enough, because wording varies.
    return len(part.words & texts) * 2 >= len(part.words)


def _is_similar_news(texts: frozenset[str], sentence: str, example: str, about: str) -> bool:
    """Return True if a sentence is similar to the example, by its kind of news or its words."""
    common = set(terms(about))
    theirs = _terms_of(example) - common
    if theirs and len(theirs & texts) >= MIN_ALIKE * len(theirs):
        return True
    kinds = [kind for kind in KINDS if kind.matches_sentence(example)]
    shared = [kind for kind in kinds if kind.matches_sentence(sentence)]
    return bool(kinds) and len(shared) == len(kinds)
