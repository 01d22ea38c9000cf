"""Extracting observations from a step's output: findings, insights and lessons (seed 001).

Data flow: a step's output -> the model, or heuristics if none is set up -> checked lines -> the
caller stores or shows them. Nothing here fails the step. If the model fails or its answer can't be
used, there are no lines but a warning (R89, R93).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.template.loader import render_to_string
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from pydantic import BaseModel, Field, field_validator

from beacon_site.net.errors import ProviderError
from beacon_site.providers.llm.base import Message
from beacon_site.text.cleaning import (
    clean,
    cut,
    for_prompt,
    is_visible,
    one_line,
    width,
    without_citations,
)
from beacon_site.text.injection import injection_reason
from beacon_site.text.sentences import sentences
from memory.models import Topic
from memory.services.llm.asking import BudgetReached, Meter, ask_model
from memory.services.observations.saving import Line, is_near

MIN, MAX = (
    50,
    4_000,
)  # characters of an output: shorter ones are skipped (R87), longer ones truncated (R88)
MAX_LINES = 10  # per category
MAX_LINE_LENGTH = 1_000
HEURISTIC = ":heuristic"  # suffix of the source of lines that weren't written by a model
MODEL, RULES, NOBODY = "model", "heuristic", ""


class ExtractedObservations(BaseModel):
    """The model's answer: three lists of sentences (R91). Missing lists are empty."""

    findings: list[str] = Field(default_factory=list)
    insights: list[str] = Field(default_factory=list)
    lessons: list[str] = Field(default_factory=list)

    @field_validator("*", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        """Accept null as an empty list and a sentence as a list of one, as small models answer."""
        if value is None:
            return []
        return [value] if isinstance(value, str) else value


@dataclass(slots=True)
class Extracted:
    """The lines from one output, and how they were found.

    `by` is `model`, `heuristic`, or "" if nothing was searched. `failure` is the model's error, for
    a caller that can retry. `warning` is for people. `left_out` counts lines with suspected prompt
    injection.
    """

    lines: list[Line] = field(default_factory=list)
    by: str = NOBODY
    warning: str = ""
    failure: ProviderError | None = None
    left_out: int = 0

    def source(self, source: str) -> str:
        """Return the source to store the lines with, given the source of the output."""
        return f"{source}{HEURISTIC}" if self.by == RULES else source


def extract(
    owner: Any,
    output: str,
    *,
    source: str,
    step_name: str = "",
    step_type: str = "",
    topic: Topic | None = None,
    meter: Meter | None = None,
) -> Extracted:
    """Return the observations in a step's output. Stores nothing, and never raises if the model
    fails.

    Without a model, or a budget for it, heuristics are used. If the model fails, nothing is
    returned.
    """
    text = clean(output)[0].strip()
    if width(text) < MIN:
        return Extracted()
    text = cut(text, MAX)
    values = {"step_name": step_name, "step_type": step_type}
    try:
        observed = _by_model(owner, text, values, source=source, topic=topic, meter=meter)
    except BudgetReached as exc:
        found = _checked(_by_heuristics(text), values, RULES)
        found.warning = _(
            "the model failed, so observations were extracted without it: %(why)s"
        ) % {"why": exc}
        return found
    except ProviderError as exc:
        warning = _("the model failed, so no observations were extracted: %(why)s") % {"why": exc}
        return Extracted(by=MODEL, warning=warning, failure=exc)
    if observed is None:
        return _checked(_by_heuristics(text), values, RULES)
    return _checked(_lines_of(observed), values, MODEL)


def _by_model(
    owner: Any,
    text: str,
    values: dict[str, str],
    *,
    source: str,
    topic: Topic | None,
    meter: Meter | None,
) -> ExtractedObservations | None:
    """Return the model's answer, or None if no model is set up."""
    context = {
        "most": MAX_LINES,
        "step_name": for_prompt(one_line(values["step_name"])) or "-",
        "step_type": for_prompt(one_line(values["step_type"])),
        "text": for_prompt(text),
    }
    answer = ask_model(
        "extract",
        [
            Message("system", render_to_string("prompts/extract_system.txt", context)),
            Message("user", render_to_string("prompts/extract_user.txt", context)),
        ],
        owner=owner,
        source=source,
        topic=topic,
        schema=ExtractedObservations,
        max_tokens=1_200,
        meter=meter,
    )
    if answer is None:
        return None
    return (
        answer.parsed
        if isinstance(answer.parsed, ExtractedObservations)
        else ExtractedObservations()
    )


def _lines_of(observed: ExtractedObservations) -> list[tuple[str, str]]:
    groups = (
        ("finding", observed.findings),
        ("insight", observed.insights),
        ("lesson", observed.lessons),
    )
    return [(category, text) for category, texts in groups for text in texts]


def _checked(found: Sequence[tuple[str, str]], values: dict[str, str], by: str) -> Extracted:
    """Return the lines that can be stored: few, short, unique and without prompt injection."""
    extracted = Extracted(by=by)
    counts: dict[str, int] = {}
    seen: set[str] = set()
    for category, message in found:
        text = one_line(without_citations(clean(message)[0]))
        line = Line(
            category,
            cut(text, MAX_LINE_LENGTH),
            step_name=values["step_name"],
            step_type=values["step_type"],
        )
        if not is_visible(text) or line.digest in seen or counts.get(category, 0) >= MAX_LINES:
            continue
        if injection_reason(text):
            extracted.left_out += 1
            continue
        seen.add(line.digest)
        counts[category] = counts.get(category, 0) + 1
        extracted.lines.append(line)
    if extracted.left_out:
        extracted.warning = ngettext(
            "%(count)d sentence was left out because it contains prompt injection",
            "%(count)d sentences were left out because they contain prompt injection",
            extracted.left_out,
        ) % {"count": extracted.left_out}
    return extracted


def without_known(lines: Iterable[Line], known: Sequence[str]) -> list[Line]:
    """Return the lines that don't repeat known sentences."""
    return [line for line in lines if not any(is_near(line.content, one) for one in known)]


# --- without a model: sentences with cue words ---

_LESSON = re.compile(
    r"\b(?:learned that|lessons?(?: learned)?\b|next time|in (?:the )?future,|from now on|avoid"
    r"|beware|make sure|be sure to|be careful|remember to|do not forget"
    r"|(?:should|must|ought to) (?:always|never|not|first|be checked)|always (?:check|use|test|verify)"
    r"|never (?:use|rely|trust)|recommend(?:s|ed)?|best practice|it is (?:better|safer|best) to)\b",
    re.IGNORECASE,
)
_INSIGHT = re.compile(
    r"\b(?:decided|conclu(?:de[sd]?|sion)|therefore|thus|hence|consequently|as a result|overall"
    r"|suggest(?:s|ed)? that|indicat(?:es?|ed) that|impl(?:y|ies|ied) that|shows? that|means that"
    r"|key insight|agreed|chose|will use|should use|preferable|better than|worse than|outperforms?"
    r"|because|trend|likely)\b",
    re.IGNORECASE,
)
_FINDING = re.compile(
    r"\d|\b(?:found that|according to|reported|announced|measured|confirmed|discovered|launched"
    r"|released|founded|costs?|contains?|consists? of|requires?|supports?|uses|is (?:a|an|the)|was"
    r"|are (?:a|the)|were|has|have)\b",
    re.IGNORECASE,
)
_CUES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("lesson", _LESSON),
    ("insight", _INSIGHT),
    ("finding", _FINDING),
)
_MIN_SENTENCE, _MAX_SENTENCE = 30, 400
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def _by_heuristics(text: str) -> list[tuple[str, str]]:
    """Return unchanged sentences that state a fact, decision or lesson.

    Lessons are checked first, because most are also worded as facts. Questions and sentences that
    depend on the previous one are left out.
    """
    results = []
    for sentence in sentences(text):
        message = one_line(sentence.text)
        if not _MIN_SENTENCE <= width(message) <= _MAX_SENTENCE or not _is_self_contained(message):
            continue
        category = _category(message)
        if category:
            results.append((category, message))
    return results


def _category(text: str) -> str:
    # The cue words are English. Chinese, Japanese and Korean text is treated as fact.
    for category, cue in _CUES:
        if cue.search(text):
            return category
    return "finding" if _WIDE.search(text) else ""


_LEANS = re.compile(
    r"^(?:it|this|that|these|those|they|he|she|but|and|so|such|also|then|however|there)\b",
    re.IGNORECASE,
)


def _is_self_contained(text: str) -> bool:
    return not text.rstrip("\"'”’)").endswith(("?", "？")) and not _LEANS.match(text)
