"""A shorter text for a memory file, proposed and never stored here: by rule, or by the model.

Data flow: the file that stands -> a shorter text, with what was done to it -> the rows of a diff.
A person accepts it by saving it on the version that it was made from (`memory.file_editing`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.template.loader import render_to_string
from django.utils.translation import gettext as _

from beacon_site.providers.errors import ProviderError
from beacon_site.providers.llm import Answer, Message
from memory import text_diff
from memory.asking import BudgetReached, ask_model
from memory.errors import MemoryRefused
from memory.files import limits
from memory.files.cleaning import cleaned
from memory.files.condensing import condensed
from memory.files.sections import locked_text
from memory.models import MemoryFile, Sensitivity, User
from memory.month_budget import MonthMeter
from memory.text import for_prompt, is_visible, shorten

MOST_ASKED = 24_000  # characters of a file that a model is given: its answer has to fit, too
MOST_ROWS = 600
MOST_ANSWER = 8_192
_FENCED = re.compile(r"\A\s*```(?:markdown|md)?[ \t]*\n(.*)\n```\s*\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Shorter:
    """A shorter text for a file: what was done, how many bytes it saves, and the diff.

    `problem` says why the model proposed none, where it was asked; the text is then that by rule.
    """

    text: str
    said: tuple[str, ...]
    saved: int
    rows: list[text_diff.Row]
    rows_left: int
    is_by_model: bool = False
    problem: str = ""

    @property
    def note(self) -> str:
        """Return what the history says of it."""
        return _("condensed by the model") if self.is_by_model else _("condensed by rule")


class NoShorter(MemoryRefused):
    """The model's text is nothing to propose; the message says what is wrong with it."""


def by_rule(file: MemoryFile, *, problem: str = "") -> Shorter:
    """Return the text without what says nothing new."""
    shorter = condensed(file.content, file.section_locks)
    return _shown(file, shorter.text, shorter.said, problem=problem)


def why_no_model(file: MemoryFile) -> str:
    """Return why the model is not asked about this file; empty where it may be."""
    if file.sensitivity == Sensitivity.SENSITIVE:
        return _("The file is marked sensitive, so no model is shown it.")
    if len(file.content) > MOST_ASKED:
        told = {"most": f"{MOST_ASKED:,}", "have": f"{len(file.content):,}"}
        return _(
            "The file has %(have)s characters; a model is given at most %(most)s to condense."
        ) % (told)
    return ""


def by_model(owner: User, file: MemoryFile) -> Shorter:
    """Return the model's shorter text; without a fit one that by rule, and why."""
    if problem := why_no_model(file):
        return by_rule(file, problem=problem)
    try:
        answer = ask_model(
            "condense",
            _messages(file),
            owner=owner,
            source=f"memoryfile:{file.pk}",
            max_tokens=MOST_ANSWER,
            meter=MonthMeter(owner),
        )
        if answer is None:
            return by_rule(file, problem=_("No model is set up; this is what rules can do."))
        text = _fit(file, answer)
    except (ProviderError, BudgetReached, MemoryRefused) as exc:
        told = {"why": shorten(str(exc), 300)}
        why = _("The model proposed nothing that could be stored: %(why)s This is by rule.")
        return by_rule(file, problem=why % told)
    said = (_("the model wrote it: read it before you accept it"),)
    return _shown(file, text, said, is_by_model=True)


def _messages(file: MemoryFile) -> list[Message]:
    most = max(1, limits.size_of(file.content) * 7 // 10)
    locked = [" › ".join(path) for path in file.section_locks]
    told = {"most": f"{most:,}", "locked": locked, "is_fact": file.is_fact}
    shown = {"path": file.path, "text": for_prompt(file.content)}
    return [
        Message("system", render_to_string("prompts/condense_system.txt", told)),
        Message("user", render_to_string("prompts/condense_user.txt", shown)),
    ]


def _fit(file: MemoryFile, answer: Answer) -> str:
    """Return the text in a model's answer.  Raises NoShorter, or what the limits raise."""
    found = _FENCED.match(answer.text)
    text = cleaned((found[1] if found else answer.text).strip() + "\n").text
    if answer.finish_reason == "length" or not is_visible(text):
        raise NoShorter(_("its answer is empty or was cut off."))
    size = limits.size_of(text)
    if size >= file.size:
        told = {"have": f"{size:,}", "now": f"{file.size:,}"}
        raise NoShorter(_("its text has %(have)s bytes, and the file %(now)s.") % told)
    limits.check_lines(text)
    for path in file.section_locks:
        if locked_text(text, path) != locked_text(file.content, path):
            label = " › ".join(path)
            raise NoShorter(_("it changed the locked section “%(label)s”.") % {"label": label})
    return text


def _shown(
    file: MemoryFile,
    text: str,
    said: tuple[str, ...],
    *,
    is_by_model: bool = False,
    problem: str = "",
) -> Shorter:
    rows = [] if text == file.content else text_diff.folded(text_diff.diff(file.content, text))
    saved = limits.size_of(file.content) - limits.size_of(text)
    left = max(0, len(rows) - MOST_ROWS)
    return Shorter(text, said, saved, rows[:MOST_ROWS], left, is_by_model, problem)
