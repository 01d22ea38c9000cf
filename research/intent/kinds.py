"""The kinds of news that the rule of an intent knows: by which words a person asks for one, and by
which words and figures a sentence tells of one.

The lists are of English words, with the commonest of some other languages; stems are compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from research.claims.terms import terms

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_MONEY = (
    r"[$€£¥₹]\s?\d|\b(?:usd|eur|gbp|chf|jpy|cny)\s?\d"
    r"|\b\d[\d.,]*\s?(?:(?:k|m|bn|thousand|million|billion|trillion)\s)?\s?"
    r"(?:dollars?|euros?|pounds?|yen|yuan|rupees?|francs?|cents?|usd|eur|gbp|chf|元|美元|欧元)\b"
)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of news: what asks for it, and what tells of it (words by their stems, figures)."""

    name: str
    label: str | Promise
    triggers: frozenset[str]
    words: frozenset[str]
    figures: re.Pattern[str] | None = None
    phrases: re.Pattern[str] | None = None
    not_with: frozenset[str] = frozenset()

    def is_named_in(self, wish: str) -> bool:
        """Whether a wish asks for this kind."""
        if self.phrases is not None and self.phrases.search(wish):
            return True
        return bool(self.triggers & set(terms(wish)))

    def is_told_in(self, sentence: str) -> bool:
        """Whether a sentence tells of this kind."""
        said = set(terms(sentence))
        if self.words & said or (self.phrases is not None and self.phrases.search(sentence)):
            return True
        if self.figures is None or self.not_with & said:
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
        _("price"),
        "price prices pricing priced cost costs cheaper cheap expensive tariff fee fees subscription "
        "preis preise kosten prix coût precio precios costo prezzo 价格 售价",
        "discount discounts surcharge rebate",
        figures=_MONEY,
        not_with=_RAISED,
    ),
    _kind(
        "entrant",
        _("new entrant"),
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
        _("funding"),
        "funding fund raise raises raised investment invest investor valuation ipo round financing "
        "finanzierung financement financiación 融资",
        "invested invests backed valued seed grant subsidy",
        phrases=r"\bseries\s+[a-h]\b",
    ),
    _kind(
        "deal",
        _("deal"),
        "acquisition acquisitions acquire takeover merger mergers buyout deal deals partnership "
        "partnerships contract contracts übernahme fusion",
        "acquires acquired buys bought merge merges merged partner partners stake agreement signed",
        phrases=r"\bjoint\s+venture\b",
    ),
    _kind(
        "law",
        _("law"),
        "law laws legal regulation regulations regulator regulatory legislation court lawsuit ruling "
        "ban bans policy rule rules patent patents sanction sanctions gesetz loi ley legge 法律 法规",
        "sue sues sued banned fine fined penalty directive statute bill parliament congress senate "
        "judge verdict settlement comply compliance antitrust ruled prohibit prohibits prohibited "
        "mandate approved approval",
    ),
    _kind(
        "people",
        _("people"),
        "ceo cto cfo hire hires hiring resignation appointment layoff layoffs leadership executive "
        "staff management personnel chef",
        "hired appoint appoints appointed resign resigns resigned fired successor chairman chairwoman "
        "founder cofounder",
        phrases=r"\bchief\s+\w+\s+officer\b|\bstep(?:s|ped|ping)?\s+down\b|\blaid\s+off\b",
    ),
    _kind(
        "release",
        _("release"),
        "release releases launch launches version versions ship ships shipping availability rollout "
        "unveil announcement product products",
        "released launched shipped unveils unveiled introduce introduces introduced announces "
        "announced available",
        figures=r"\bv?\d+\.\d+(?:\.\d+)?\b(?!\s*(?:%|percent|million|billion|euros?|dollars?))",
    ),
    _kind(
        "date",
        _("date"),
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
        _("security"),
        "security vulnerability vulnerabilities exploit exploits breach breaches hack cve attack "
        "attacks leak sicherheitslücke 漏洞",
        "hacked leaked malware ransomware backdoor zero-day exploited attacker attackers",
        figures=r"\bCVE-\d{4}-\d+\b",
    ),
    _kind(
        "safety",
        _("safety"),
        "safety recall recalls accident accidents fire fires explosion injury death incident hazard",
        "recalled injured killed died exploded burned toxic",
    ),
    _kind(
        "results",
        _("results"),
        "revenue revenues profit profits earnings sales turnover loss losses margin umsatz gewinn",
        "forecast guidance quarter quarterly grew shrank sold",
    ),
    _kind(
        "share",
        _("share or rate"),
        "percentage percent rate rates proportion statistics statistic",
        figures=r"\d\s?%|\d\s(?:percent|per\s+cent|percentage\s+points?)\b",
    ),
)
