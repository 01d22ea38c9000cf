"""Step 7: does each quoted span stand in the stored text of the source that it is cited from?

Data flow: findings and changes of `write` -> each quote looked up in the stored page -> found ones
become the quotes of citation cards, the others mark their sentence as unsupported and withhold it.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from rapidfuzz import fuzz, process

from memory.sentences import split_sentences
from memory.text import match_key, one_line, plain, without_citations
from research import report_text
from research.matching import match, numbers
from research.models import Hit
from research.stepping import StepResult, Work
from research.terms import terms

_ONE_KIND = str.maketrans("“”’‘–—", "\"\"''--")
CLOSE = 88.0  # rapidfuzz ratio from which a source's sentence counts as the quoted one
# What may stand between two words of a sentence, and behind it, in the body.
_BETWEEN = r"(?:\s|[*_]|\[\d{1,3}\])+"
_AFTER = r"(?:[*_.。!?]|\s*\[\d{1,3}\])*"
LEAST_QUOTE = 12  # characters below which a quote proves nothing


@dataclass(frozen=True, slots=True)
class Page:
    """The stored text of one cited source, as quotes are looked up in it."""

    folded: str
    text: str
    read: str = ""


def verify(work: Work) -> StepResult:
    """Check every citation; what is not supported is marked, and neither fact nor delta item."""
    written = work.output("write")
    pages = _pages(work, written["sources"])
    unsupported: list[str] = []
    checked = [
        _checked(finding, pages, written["sources"], unsupported) for finding in written["findings"]
    ]
    if not written["is_extractive"]:
        unsupported += _weak_sentences(written, pages)
    bad = {match_key(sentence) for sentence in unsupported}
    reason = _("unsupported: the quoted words do not stand in the source")
    changes = [
        {**change, "withheld": reason}
        if match_key(change["sentence"]) in bad and change["status"] != "gone quiet"
        else change
        for change in written["changes"]
    ]
    body = _marked(written["body"], unsupported)
    warning = ""
    if unsupported:
        warning = ngettext(
            "%(count)d sentence is marked unsupported: its source does not say it",
            "%(count)d sentences are marked unsupported: their sources do not say them",
            len(unsupported),
        ) % {"count": len(unsupported)}
        work.run.warn(warning)
    return StepResult(
        {"findings": checked, "changes": changes, "body": body, "sources": written["sources"]},
        detail=_("%(good)d of %(all)d quotes found in their sources")
        % {"good": sum(finding["supported"] for finding in checked), "all": len(checked)},
        counts={"checked": len(checked), "unsupported": len(unsupported)},
        warning=warning,
    )


def _pages(work: Work, sources: list[dict[str, Any]]) -> dict[int, Page]:
    links = {source["link"]: source["n"] for source in sources}
    hits = Hit.objects.filter(run=work.run, link__in=links).select_related("content_item")
    pages = {}
    for hit in hits:
        read = hit.content_item.content if hit.content_item else ""
        text = "\n".join([read, hit.snippet, hit.title])
        pages[links[hit.link]] = Page(fold(text), text, fold(read))
    return pages


def fold(text: str) -> str:
    """Return text as quotes are compared: one line, one kind of quote mark and dash, case folded."""
    text = unicodedata.normalize("NFKC", one_line(text)).casefold()
    return text.translate(_ONE_KIND)


def stands_in(quote: str, page: Page) -> str:
    """Return the words of the page that `quote` quotes, or an empty string.

    A quote that is not there word for word may be a sentence of the page told slightly
    differently: one counts from a similarity of 88 of 100, if it says the same with the same
    numbers, names and negations.
    """
    if len(one_line(quote)) >= LEAST_QUOTE and fold(quote) in page.folded:
        return one_line(quote)
    sentences = split_sentences(page.text)
    close = process.extract(
        fold(quote), [fold(s) for s in sentences], scorer=fuzz.ratio, score_cutoff=CLOSE
    )
    for _folded, _score, place in close:
        found = match(quote, [sentences[place]])
        if found is not None and found.kind == "confirmed":
            return one_line(sentences[place])
    return ""


def _checked(
    finding: dict[str, Any],
    pages: dict[int, Page],
    sources: list[dict[str, Any]],
    unsupported: list[str],
) -> dict[str, Any]:
    by_number = {source["n"]: source for source in sources}
    supported = False
    for number in finding["citations"]:
        page = pages.get(number)
        if page is None:
            continue
        quote = stands_in(finding["quote"] or finding["sentence"], page)
        by_number[number]["quotes"].append(
            {
                "sentence": finding["sentence"],
                "quote": quote or finding["quote"],
                "found": bool(quote),
                # A page that could not be read is quoted from the search result alone.
                "in_snippet": bool(quote) and fold(quote) not in page.read,
            }
        )
        if quote and not supported:
            supported, finding = True, {**finding, "quote": quote}
    if not supported:
        unsupported.append(finding["sentence"])
    return {**finding, "supported": supported}


def _weak_sentences(written: dict[str, Any], pages: dict[int, Page]) -> list[str]:
    """Return the cited sentences of a model's body that no source of theirs can have said.

    A sentence in a model's own words has no quote to look up; but its numbers must stand in a
    page that it cites, and so must half of its terms.
    """
    told = {match_key(finding["sentence"]) for finding in written["findings"]}
    weak = []
    for sentence in split_sentences(written["body"]):
        cited = [pages[n] for n in report_text.cited([sentence]) if n in pages]
        bare = without_citations(report_text.spread_citations(plain(sentence)))
        if (
            cited
            and match_key(bare) not in told
            and not any(_may_say(page, bare) for page in cited)
        ):
            weak.append(bare)
    return weak


def _may_say(page: Page, sentence: str) -> bool:
    wanted = set(terms(sentence))
    if not wanted:
        return True
    there = wanted & set(terms(page.text))
    return numbers(sentence) <= numbers(page.text) and len(there) * 2 >= len(wanted)


def unsupported_mark() -> str:
    """Return what stands behind a sentence of the report that no source supports."""
    return " *" + _("(unsupported)") + "*"


def _marked(body: str, unsupported: list[str]) -> str:
    """Return the body with a mark behind each unsupported sentence, wherever its citations stand."""
    mark = unsupported_mark()
    for sentence in unsupported:
        words = [re.escape(word) for word in sentence.rstrip(".。!?").split()]
        found = re.search(_BETWEEN.join(words) + _AFTER, body) if words else None
        if found:
            body = body[: found.end()] + mark + body[found.end() :]
    return body
