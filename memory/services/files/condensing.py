"""Condensing a memory file: by rules, which only remove repetition, or by a model, as a proposal.

Rules never change locked sections or fenced blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog
from django.db.models import QuerySet
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.celery import send
from beacon_site.net.errors import ProviderError, ProviderNonsense
from beacon_site.providers.llm.base import Answer, Message
from beacon_site.text import diff as text_diff
from beacon_site.text.cleaning import for_prompt, is_visible, shorten
from beacon_site.text.messages import grouped
from memory.models import MemoryFile, ModelCall, Sensitivity, User
from memory.models.errors import MemoryRefused
from memory.models.file_format import (
    UPDATED,
    SectionText,
    is_heading,
    lines_of,
    locked_text,
    open_lines,
    sections_of,
    summary_span,
    with_line,
)
from memory.services.files import texts
from memory.services.files.texts import cleaned
from memory.services.llm import connections
from memory.services.llm.asking import BudgetReached, MonthMeter, ask_model, check_month

_BULLETS = ("- ", "* ", "+ ")


def condensed(text: str, locked: Iterable[Sequence[str]] = ()) -> tuple[str, tuple[str, ...]]:
    """Return the text without repeated bullets, old dates, empty sections and extra space.

    Also return a description of each change.
    """
    lines, sections = lines_of(text), sections_of(text)
    held = _locked_lines(sections, [tuple(path) for path in locked])
    loose = {place for place, _line in open_lines(text)} - held
    gone: set[int] = set()
    counts = [
        (_repeated(lines, sections, loose, gone), "repeated"),
        (_older_dates(lines, loose, gone), "dates"),
        (_empty(lines, sections, held, gone), "sections"),
    ]
    kept = _tidied(lines, loose, gone)
    spaces = sum(len(lines[place]) - len(line) for place, line in kept)
    blank = len(lines) - len(gone) - len(kept)
    counts += [(spaces, "spaces"), (blank, "blank")]
    shorter = "\n".join(line for _place, line in kept)
    shorter += "\n" if shorter and text.endswith("\n") else ""
    parts = tuple(_describe_removed(name, count) for count, name in counts if count)
    return shorter if parts else text, parts


def _describe_removed(name: str, n: int) -> str:
    values = {
        "repeated": ngettext(
            "removed %(n)d repeated bullet",
            "removed %(n)d repeated bullets",
            n,
        ),
        "dates": ngettext(
            "removed %(n)d older “Updated:” line", "removed %(n)d older “Updated:” lines", n
        ),
        "sections": ngettext("removed %(n)d empty section", "removed %(n)d empty sections", n),
        "spaces": ngettext(
            "removed %(n)d trailing space",
            "removed %(n)d trailing spaces",
            n,
        ),
        "blank": ngettext("removed %(n)d extra blank line", "removed %(n)d extra blank lines", n),
    }
    return values.get(name, _("shortened")) % {"n": n}


def _locked_lines(sections: Sequence[SectionText], locked: Sequence[tuple[str, ...]]) -> set[int]:
    return {
        place
        for one in sections
        if one.heading in locked
        for place in range(one.first_line - 1, one.until)
    }


def _repeated(
    lines: Sequence[str], sections: Sequence[SectionText], loose: set[int], gone: set[int]
) -> int:
    """Remove bullets that occur earlier in their section word for word, with everything below them."""
    count = 0
    for one in sections:
        seen: set[tuple[str, ...]] = set()
        for places in _bullets(lines, range(one.first_line - 1, one.last_line), loose):
            parts = tuple(lines[place].rstrip() for place in places)
            if parts in seen:
                gone.update(places)
                count += 1
            seen.add(parts)
    return count


def _bullets(lines: Sequence[str], places: Iterable[int], loose: set[int]) -> list[list[int]]:
    """Return the lines of each top-level bullet and of everything indented below it."""
    results: list[list[int]] = []
    is_open = is_parted = False
    for place in places:
        line = lines[place]
        if place in loose and line.startswith(_BULLETS) and not set(line) <= set("-*+ "):
            results.append([place])
            is_open, is_parted = True, False
        elif not line.strip():
            is_parted = True
        elif is_open and place in loose and line[0] in " \t" and not is_parted:
            results[-1].append(place)
        elif is_open:
            # A further paragraph or a fenced block belongs to the bullet, so it is left unchanged.
            if not is_parted or line[0] in " \t":
                results.pop()
            is_open = False
    return results


def _older_dates(lines: Sequence[str], loose: set[int], gone: set[int]) -> int:
    """Remove all `Updated` lines except the one with the latest date."""
    dated = [n for n in sorted(loose - gone) if n < len(lines) and UPDATED.match(lines[n])]
    newest = max(dated, key=lambda n: (lines[n].rstrip()[-10:], n), default=-1)
    older = [n for n in dated if n != newest]
    gone.update(older)
    return len(older)


def _empty(
    lines: Sequence[str], sections: Sequence[SectionText], held: set[int], gone: set[int]
) -> int:
    """Remove empty sections, innermost first, but never the title."""
    count = 0
    for one in reversed(sections[1:]):
        places = range(one.first_line - 1, one.until)
        if not one.heading or held.intersection(places):
            continue
        if all(n in gone or not lines[n].strip() for n in places[1:]):
            gone.update(places)
            count += 1
    return count


def _tidied(lines: Sequence[str], loose: set[int], gone: set[int]) -> list[tuple[int, str]]:
    """Return the remaining lines with their numbers, without trailing spaces or repeated blank
    lines.
    """
    kept: list[tuple[int, str]] = []
    for place, line in enumerate(lines):
        if place in gone:
            continue
        tidy = _without_spaces(lines, place) if place in loose else line
        if tidy or place not in loose or (kept and kept[-1][1]):
            kept.append((place, tidy))
    while kept and not kept[-1][1] and kept[-1][0] in loose:
        kept.pop()
    return kept


def _without_spaces(lines: Sequence[str], place: int) -> str:
    """Return the line without trailing spaces, except the two that mean a line break in Markdown."""
    line, after = lines[place], lines[place + 1] if place + 1 < len(lines) else ""
    is_break = line.endswith("  ") and line.strip() and after.strip()
    if is_break and not after.startswith(_BULLETS) and not is_heading(after):
        return f"{line.rstrip()}  "
    return line.rstrip()


# --- the proposal ---

MAX_INPUT_LENGTH = (
    24_000  # characters of a file that a model is given, since its answer has to fit, too
)
MAX_ROWS = 600
MAX_ANSWER = 8_192
PATIENCE = timedelta(minutes=10)  # how long the page waits for an answer
PURPOSE = "condense"
_FENCED = re.compile(r"\A\s*```(?:markdown|md)?[ \t]*\n(.*)\n```\s*\Z", re.DOTALL)
_ASKED = re.compile(r"([0-9]{1,9})\.([0-9]{1,18})\.([0-9]{1,10})")

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CondenseProposal:
    """A shorter text for a file: what was changed, how many bytes it saves, and the diff.

    `problem` says why the model proposed nothing if it was asked. The text is then the one by
    rules.
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
        """Return the reason for the file's history."""
        return _("condensed by the model") if self.is_by_model else _("condensed without a model")


class InvalidCondensedText(MemoryRefused):
    """The model's text can't be used. The message says why."""


class CannotAskModel(MemoryRefused):
    """The model can't be asked now. The message says why."""


@dataclass(frozen=True, slots=True)
class CondenseRequest:
    """A question to the model, as stored in the page's URL: the file's version, and the last
    earlier call.
    """

    version: int
    after: int
    at: datetime

    def __str__(self) -> str:
        return f"{self.version}.{self.after}.{int(self.at.timestamp())}"

    @classmethod
    def of(cls, text: str) -> CondenseRequest | None:
        """Parse it from a URL, or return None if it isn't valid."""
        match = _ASKED.fullmatch(text)
        if match is None:
            return None
        version, after, at = map(int, match.groups())
        return cls(version, after, datetime.fromtimestamp(at, tz=UTC))


def by_rule(file: MemoryFile, *, problem: str = "") -> CondenseProposal:
    shorter, lines = condensed(file.content, file.section_locks)
    return _proposal_of(file, shorter, lines, problem=problem)


def why_no_model(file: MemoryFile) -> str:
    """Return why the model isn't asked about this file, or "" if it can be."""
    if file.sensitivity == Sensitivity.SENSITIVE:
        return _("The file is marked sensitive, so it isn’t sent to a model.")
    if len(file.content) > MAX_INPUT_LENGTH:
        params = {"most": grouped(MAX_INPUT_LENGTH), "have": grouped(len(file.content))}
        return _("The file has %(have)s characters, but a model can condense at most %(most)s.") % (
            params
        )
    return ""


# --- by a model ---


def ask(owner: User, file: MemoryFile) -> CondenseRequest:
    """Have a worker ask the model for a shorter text. Raises CannotAskModel if that isn't possible."""
    if problem := why_no_model(file):
        raise CannotAskModel(problem)
    if connections.llm_profile() is None:
        raise CannotAskModel(_("No model is set up. This version was condensed without one."))
    try:
        check_month(owner)
    except BudgetReached as exc:
        raise CannotAskModel(_unusable(str(exc))) from exc
    last = _calls(file).order_by("-id").values_list("id", flat=True).first()
    condensing = CondenseRequest(file.version, last or 0, timezone.now())
    if not send("memory.tasks.condense_file", str(file.pk), file.version, queue="reflect"):
        raise CannotAskModel(
            _(
                "The background worker can’t be reached because Redis isn’t responding. Try again in a minute."
            )
        )
    return condensing


def perform(file_id: str, version: int) -> None:
    """Ask the model about this version of a file. The stored call has its answer or error."""
    rows = MemoryFile.objects.live().select_related("owner")
    file = rows.filter(pk=file_id, version=version).first()
    if file is None or why_no_model(file):
        return
    try:
        ask_model(
            PURPOSE,
            _messages(file),
            owner=file.owner,
            source=_source(file),
            max_tokens=MAX_ANSWER,
            meter=MonthMeter(file.owner),
            wait_for=_whole,
        )
    except (ProviderError, BudgetReached) as exc:
        logger.info("not condensed", file=file_id, why=str(exc))


def _whole(ask: Callable[[], Answer]) -> Answer:
    """Make the call. Raises ProviderNonsense if the answer is cut off."""
    answer = ask()
    if answer.finish_reason == "length":
        raise ProviderNonsense(
            _("its answer is empty or was cut off."),
            text=answer.text,
            prompt_tokens=answer.usage.prompt_tokens,
            completion_tokens=answer.usage.completion_tokens,
        )
    return answer


def proposed(file: MemoryFile, condensing: CondenseRequest) -> CondenseProposal | None:
    """Return the model's proposal, or the one by rules if it can't be used. None while waiting."""
    if file.version != condensing.version:
        why = _(
            "The file has changed since you asked the model, so this version was condensed without the model. Ask it again."
        )
        return by_rule(file, problem=why)
    call = _calls(file).filter(pk__gt=condensing.after).order_by("id").first()
    if call is None:
        if timezone.now() - condensing.at < PATIENCE:
            return None
        minutes = {"n": PATIENCE // timedelta(minutes=1)}
        why = _(
            "The model didn’t respond within %(n)d minutes, so this version was condensed without it. Try again."
        )
        return by_rule(file, problem=why % minutes)
    try:
        if call.error:
            raise InvalidCondensedText(call.error)
        text = _fit(file, call.answer)
    except MemoryRefused as exc:
        return by_rule(file, problem=_unusable(str(exc)))
    said = (_("written by a model, so check it before you accept it"),)
    return _proposal_of(file, text, said, is_by_model=True)


def _calls(file: MemoryFile) -> QuerySet[ModelCall]:
    return ModelCall.objects.filter(owner=file.owner_id, purpose=PURPOSE, source=_source(file))


def _source(file: MemoryFile) -> str:
    return f"memoryfile:{file.pk}"


def _unusable(why: str) -> str:
    params = {"why": shorten(why, 300)}
    return (
        _(
            "This version was condensed without a model because the model’s version couldn’t be used: %(why)s"
        )
        % params
    )


def _messages(file: MemoryFile) -> list[Message]:
    most = max(1, texts.size_of(file.content) * 7 // 10)
    locked = [" › ".join(path) for path in file.section_locks]
    values = {"most": grouped(most), "locked": locked, "is_fact": file.is_fact}
    shown = {"path": file.path, "text": for_prompt(file.content)}
    return [
        Message("system", render_to_string("prompts/condense_system.txt", values)),
        Message("user", render_to_string("prompts/condense_user.txt", shown)),
    ]


def _fit(file: MemoryFile, answer: str) -> str:
    """Return the text of a model's answer. Raises InvalidCondensedText, or what the limits raise."""
    match = _FENCED.match(answer)
    text = cleaned((match[1] if match else answer).strip() + "\n")[0]
    if not is_visible(text):
        raise InvalidCondensedText(_("its answer is empty or was cut off."))
    if file.summary_by == MemoryFile.SummaryBy.PERSON:
        begin, end = summary_span(file.content)
        text = with_line(text, file.content[begin:end])
    size = texts.size_of(text)
    if size >= file.size:
        params = {"have": grouped(size), "now": grouped(file.size)}
        raise InvalidCondensedText(
            _("it isn’t shorter (%(have)s bytes, compared with %(now)s in the file).") % params
        )
    texts.check_lines(text)
    for path in file.section_locks:
        if locked_text(text, path) != locked_text(file.content, path):
            label = " › ".join(path)
            raise InvalidCondensedText(
                _("it changed the locked section “%(label)s”.") % {"label": label}
            )
    return text


def _proposal_of(
    file: MemoryFile,
    text: str,
    lines: tuple[str, ...],
    *,
    is_by_model: bool = False,
    problem: str = "",
) -> CondenseProposal:
    rows = [] if text == file.content else text_diff.folded(text_diff.diff(file.content, text))
    saved = texts.size_of(file.content) - texts.size_of(text)
    left = max(0, len(rows) - MAX_ROWS)
    return CondenseProposal(text, lines, saved, rows[:MAX_ROWS], left, is_by_model, problem)
