"""The entry that finished work leaves without a model: told by rules, nothing invented."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils import timezone

from memory.file_texts.entries import MOST_WORDS, word_count
from memory.texts.injection import smells_of_instructions
from memory.texts.sentences import sentences
from memory.texts.text import clean, cut, ended, one_line, plain, shorten, without_citations

MOST_FINDINGS = 3
LONGEST_TITLE, LONGEST_TASK, LONGEST_FINDING = 120, 300, 300


@dataclass(frozen=True, slots=True)
class Told:
    """What an entry says; `findings` are sentences, word for word."""

    title: str
    summary: str
    task: str
    findings: Sequence[str]


def findings_in(result: str) -> list[str]:
    """Return the first sentences of a result that can stand as findings."""
    said = (without_citations(plain(one.text)) for one in sentences(result))
    return [one for one in said if one][:MOST_FINDINGS]


def entry_of(told: Told) -> str:
    """Return the entry as Markdown in seed 003's form, without a lesson; empty without findings.

    What gives orders to its reader is left out: it is no finding.
    """
    found = [_line(one, LONGEST_FINDING) for one in told.findings]
    kept = [one for one in dict.fromkeys(found) if one and not smells_of_instructions(one)]
    if not kept:
        return ""
    return "\n".join(
        [
            f"## {_line(told.title, LONGEST_TITLE).lstrip('# ') or '-'}",
            f"- Summary: {in_few_words(told.summary or kept[0])}",
            f"- Date: {timezone.localdate().isoformat()}",
            f"- Task: {_line(told.task, LONGEST_TASK) or '-'}",
            f"- Findings: {' '.join(map(ended, kept[:MOST_FINDINGS]))}",
        ]
    )


def in_few_words(text: str) -> str:
    """Return the beginning of a text, under ten words (R148)."""
    text = _line(text, 120)
    if word_count(text) <= MOST_WORDS:
        return text
    words = text.split()
    while words and word_count(" ".join(words)) > MOST_WORDS:
        words.pop()
    # Writing without spaces is cut by its width: two East Asian characters count as a word.
    short = " ".join(words) or cut(text, MOST_WORDS * 4 - 4)
    return f"{short.rstrip(' ,;:.')}…"


def _line(text: str, most: int) -> str:
    return shorten(one_line(clean(text)[0]), most)
