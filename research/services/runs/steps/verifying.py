"""Step 7: check that each quote is in the stored text of its source.

Data flow: findings and changes of `write` -> each quote looked up in the stored page and its
position stored -> found quotes appear on citation cards, and missing ones mark their sentence as
unsupported and keep it out of the delta -> the number of independent sources for each cited
sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from django.utils import timezone

from beacon_site.text.cleaning import match_key, plain, without_citations
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import ngettext
from beacon_site.text.sentences import split_sentences
from beacon_site.text.values import numbers
from research.services.runs.context import cited_pages
from research.services.runs.context.cited_pages import CitedPage, Pages
from research.services.runs.context.outputs import (
    CitedSource,
    Finding,
    SentenceCheck,
    VerifiedFinding,
    VerifyOutput,
    WriteOutput,
)
from research.services.runs.context.run_context import RunContext, StepResult
from research.services.runs.reporting import report_text
from research.services.runs.reporting.composing import EXTRACTIVE, EXTRACTIVE_MARKED
from research.services.runs.reporting.delta import VERSIONS, Status

# What can occur before a sentence, between two of its words, and after it, in the body.
_BEFORE = r"(?<![^\W_])"
_BETWEEN = r"(?:\s|[*_]|\[\d{1,3}\])+"
# Its end: the words can also begin another sentence, or a number.
_AFTER = r"(?=[*_]*(?:\s*\[\d|[.。!?](?!\d)|\s*$))(?:[*_.。!?]|\s*\[\d{1,3}\])*"


def verify(context: RunContext) -> StepResult:
    """Check every citation. Unsupported sentences are marked, and become neither facts nor delta items."""
    written = context.output("write")
    pages = cited_pages.load(context.run, written["sources"], context.ahead)
    checks = _Checks(pages)
    checked = [_checked(finding, checks, written["sources"]) for finding in written["findings"]]
    _quote_changed_pages(written, checks.pages)
    if not written["is_extractive"]:
        _look_at_body(written, checks)
    unsupported = [check["sentence"] for check in checks.made if not check["supported"]]
    bad = {match_key(sentence) for sentence in unsupported}
    reason = _("unsupported: the quote isn’t in the source")
    changes = [
        {**change, "hidden_reason": reason}
        if match_key(change["sentence"]) in bad
        and change["status"] not in (Status.GONE, Status.GONE_QUIET)
        else change
        for change in written["changes"]
    ]
    body = written["body"]
    if unsupported:
        body = body.replace(str(EXTRACTIVE), str(EXTRACTIVE_MARKED))
    warning = _warning(len(unsupported))
    if warning:
        context.run.warn(warning)
    output: VerifyOutput = {
        "findings": checked,
        "changes": changes,
        "body": _marked(body, unsupported),
        "sources": [pages.trust_summary(source) for source in written["sources"]],
        "checks": checks.made,
    }
    return StepResult(
        output,
        detail=_("%(good)d of %(all)d quotes found in their sources")
        % {"good": sum(finding["supported"] for finding in checked), "all": len(checked)},
        counts={"checked": len(checked), "unsupported": len(unsupported)},
        warning=warning,
        of_run={"unsupported_count": len(unsupported)},
    )


def _quote_changed_pages(written: WriteOutput, pages: Pages) -> None:
    """Add quotes for changes between page versions, which have no finding."""
    by_number = {source["n"]: source for source in written["sources"]}
    at = timezone.now().isoformat()
    for change in written["changes"]:
        if change["compared_by"] != VERSIONS or not change["quote"]:
            continue
        for number in change["citations"]:
            page = pages.cited.get(number)
            found = page.look_up(change["quote"]) if page else None
            if found is not None:
                quote = {"sentence": change["sentence"], **found.as_json(), "checked_at": at}
                by_number[number]["quotes"].append({"in_snippet": False, **quote})


def _warning(count: int) -> str:
    if not count:
        return ""
    return ngettext(
        "%(count)d sentence is marked because its source doesn’t support it",
        "%(count)d sentences are marked because their sources don’t support them",
        count,
    ) % {"count": count}


class _Checks:
    """The check results by cited sentence."""

    def __init__(self, pages: Pages) -> None:
        self.pages = pages
        self.made: list[SentenceCheck] = []
        self._keys: set[str] = set()

    def knows(self, sentence: str) -> bool:
        return report_text.sentence_key(sentence) in self._keys

    def add(self, sentence: str, why: str, numbers: Iterable[int] = (), quote: str = "") -> None:
        """Add a sentence.

        `why` is the reason it is unsupported, or "" if the sources `numbers` support it.
        """
        key = report_text.sentence_key(sentence)
        if key in self._keys:
            return
        self._keys.add(key)
        sources, independent = self.pages.counted(numbers, quote) if not why else (0, 0)
        self.made.append(
            {
                "sentence": sentence,
                "key": key,
                "supported": not why,
                "why": why,
                "sources": sources,
                "independent": independent,
            }
        )


def _checked(finding: Finding, checks: _Checks, sources: list[CitedSource]) -> VerifiedFinding:
    by_number = {source["n"]: source for source in sources}
    at = timezone.now().isoformat()
    quoted, bearing = "", []
    support = ""
    for number in finding["citations"]:
        page = checks.pages.cited.get(number)
        if page is None:
            continue
        found = page.look_up(finding["quote"] or finding["sentence"])
        fields = found.as_json() if found else {"quote": finding["quote"], "found": False}
        by_number[number]["quotes"].append(
            {"sentence": finding["sentence"], "in_snippet": False, **fields, "checked_at": at}
        )
        if found:
            bearing.append(number)
            quoted = quoted or found.quote
            support = "page" if not found.in_snippet else support or "snippet"
    why = ""
    if not bearing:
        why = "quote" if finding["citations"] else "uncited"
    elif not _numbers_on_page(finding, checks.pages):
        why = "numbers"
    others = [n for n in finding["citations"] if n not in bearing]
    bearing += [n for n in others if _bears(checks.pages.cited.get(n), finding["sentence"])]
    checks.add(finding["sentence"], why, bearing, quoted)
    return {
        "sentence": finding["sentence"],
        "citations": finding["citations"],
        "quote": quoted or finding["quote"],
        "supported": not why,
        "support": "" if why else support,
    }


def _numbers_on_page(finding: Finding, pages: Pages) -> bool:
    """Return True if each number of a finding is on one of the pages it cites.

    A correct quote doesn't prove a different figure in the sentence.
    """
    sentence_numbers = numbers(finding["sentence"])
    there = [pages.cited[n].numbers for n in finding["citations"] if n in pages.cited]
    return sentence_numbers <= frozenset().union(*there)


def _bears(page: CitedPage | None, sentence: str) -> bool:
    return page is not None and page.could_support(sentence)


def _look_at_body(written: WriteOutput, checks: _Checks) -> None:
    """Check the cited sentences of a model's body that aren't findings.

    A sentence in the model's own words has no quote, but a page it cites must contain its numbers
    and half of its terms.
    """
    for sentence in split_sentences(written["body"]):
        cited = [n for n in report_text.cited([sentence]) if n in checks.pages.cited]
        bare = without_citations(report_text.spread_citations(plain(sentence)))
        if not cited or checks.knows(bare):
            continue
        bearing = [n for n in cited if checks.pages.cited[n].could_support(bare)]
        checks.add(bare, "" if bearing else "words", bearing)


def unsupported_mark() -> str:
    """Return the mark after an unsupported sentence of the report."""
    return " *" + _("(unsupported)") + "*"


def _marked(body: str, unsupported: list[str]) -> str:
    """Return the body with a mark after each unsupported sentence, wherever its citations are."""
    mark = unsupported_mark()
    for sentence in unsupported:
        words = [re.escape(word) for word in sentence.rstrip(".。!?").split()]
        if words:
            pattern = _BEFORE + _BETWEEN.join(words) + _AFTER
            body = re.sub(pattern, lambda found: found[0] + mark, body, flags=re.MULTILINE)
    return body
