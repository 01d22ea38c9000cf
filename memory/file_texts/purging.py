"""What is left of an older text of a file when a section that it lost is deleted for good.

Lines are emptied and never taken out, so that blame and every later line stay where they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from memory.file_texts.outline import is_heading
from memory.file_texts.sections import SectionText, sections_of
from memory.file_texts.summaries import line_of, summary_of, summary_span
from memory.texts.text import plain

LEAST_LINE = (
    12  # characters of a line that is taken out wherever it stood; a shorter one says little
)
LEAST_PART = 4  # characters of a part of a summary line


@dataclass(frozen=True, slots=True)
class Purged:
    """A section deleted for good: its path of headings, its words, and the text that stands now."""

    heading: tuple[str, ...]
    words: str
    stands: str

    def taken_from(self, text: str) -> str:
        """Return an older text without the section, however it was worded then, as long as it was.

        A line of it that was moved, or stood under another heading, goes too.  What stands now,
        or stood beside it, stays.
        """
        lines = text.split("\n")
        gone = sorted({*self._by_heading(text), *self._by_words(lines)})
        taken = [lines[place] for place in gone]
        for place in gone:
            follows = place - 1 in gone and not is_heading(lines[place])
            lines[place] = "" if follows else _marked(lines[place])
        return self._without_summary("\n".join(lines), taken)

    def summary_without(self, summary: str, taken: Iterable[str] = ()) -> str:
        """Return a summary, or only that it was purged where a part of it says what is gone."""
        said = _said([*self.words.split("\n"), *taken])
        stands = _said(self.stands.split("\n"))
        parts = [one.strip() for one in summary.rstrip("…").split(", ")]
        told = (one for one in parts if len(one) >= LEAST_PART)
        return _word() if any(one in said and one not in stands for one in told) else summary

    def _by_heading(self, text: str) -> Iterable[int]:
        if not self.heading or any(one.heading == self.heading for one in sections_of(self.stands)):
            return
        known = {one.heading for one in sections_of(self.words)}
        for one in sections_of(text):
            if one.heading == self.heading or self._is_inside(one, known):
                yield from range(one.first_line - 1, one.last_line)

    def _is_inside(self, one: SectionText, known: set[tuple[str, ...]]) -> bool:
        """Whether a section stood in this one, and went along with it."""
        behind = one.heading[len(self.heading) - 1 :]
        return one.heading[: len(self.heading)] == self.heading and behind in known

    def _by_words(self, lines: Sequence[str]) -> Iterable[int]:
        words = {line.strip() for line in self.words.split("\n")}
        words -= {line.strip() for line in self.stands.split("\n")}
        for place, line in enumerate(lines):
            if len(line.strip()) >= LEAST_LINE and line.strip() in words:
                yield place

    def _without_summary(self, text: str, taken: Iterable[str]) -> str:
        begin, end = summary_span(text)
        summary = summary_of(text) or ""
        if end < 0 or self.summary_without(summary, taken) == summary:
            return text
        return f"{text[:begin]}{line_of(_word())}{text[end:]}"


def _word() -> str:
    return f"[{_('purged')}]"


def _marked(line: str) -> str:
    signs = line[: len(line) - len(line.lstrip(" #"))] if is_heading(line) else ""
    return f"{signs}{_word()}"


def _said(lines: Iterable[str]) -> str:
    return "\n".join(plain(line) for line in lines)
