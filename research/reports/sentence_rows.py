"""Rows of two lists: the sentences of a report, and the corrections of a topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Prefetch
from django.utils.translation import gettext_lazy as _

from memory.models import Topic
from research.models import CorrectedFact, Correction, Report
from research.models.reports import Remark
from research.reporting.sentences import ReportSentence, said_of, sentences_of, sources_in_words
from research.reports.page import SourceRow, sources_of

MOST_CORRECTIONS = 200  # of a topic in one list, the newest

# Why a sentence is unsupported, by what `verify` noted.
WHY = {
    "quote": _("The quoted words do not stand in the stored page."),
    "numbers": _("A number in it does not stand in the pages that it cites."),
    "uncited": _("It cites no source."),
    "words": _("The pages that it cites do not hold its words or numbers."),
}


@dataclass(frozen=True, slots=True)
class SentenceRow:
    """One sentence with what supports it, and what a person said of it."""

    sentence: ReportSentence
    sources: list[SourceRow]
    is_unsupported: bool
    why: Any
    counted: str
    remarks: Sequence[tuple[Remark, str]] = field(default_factory=list)

    @property
    def is_checked(self) -> bool:
        """Whether a person vouches for it."""
        return any(remark.kind == "checked" for remark, _words in self.remarks)

    @property
    def is_corrected(self) -> bool:
        """Whether a person said that it is wrong."""
        return any(remark.kind == "corrected" for remark, _words in self.remarks)


def rows_of(report: Report) -> list[SentenceRow]:
    """Return the report's sentences as its list shows them: two queries."""
    said = said_of(report)
    by_number = {source.n: source for source in sources_of(report)}
    rows = []
    for sentence in sentences_of(report):
        check = said.checks.get(sentence.key, {})
        remarks = said.remarks.get(sentence.key, [])
        rows.append(
            SentenceRow(
                sentence=sentence,
                sources=[by_number[n] for n in sentence.citations if n in by_number],
                is_unsupported=bool(check) and not check.get("supported"),
                why=WHY.get(check.get("why", ""), ""),
                counted=sources_in_words(check),
                remarks=[(remark, said.words_of(remark)) for remark in remarks],
            )
        )
    return rows


def corrections_of(topic: Topic) -> list[Any]:
    """Return the topic's corrections, those that stand first, with the facts they changed."""
    facts = Prefetch("facts", CorrectedFact.objects.select_related("fact"))
    rows = Correction.objects.filter(topic=topic).readable().select_related("report__run", "lesson")
    found = list(rows.prefetch_related(facts)[:MOST_CORRECTIONS])
    return sorted(found, key=lambda one: one.taken_back_at is not None)
