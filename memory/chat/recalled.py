"""An answer without a model: what recall finds, quoted; and the same for a model without tools."""

from __future__ import annotations

from django.utils import timezone
from django.utils.translation import gettext as _

from memory.chat.cites import given_of, records_as_named
from memory.chat.prompt import Talk
from memory.models import Note, Trust
from memory.recall.operators import Filter, Question
from memory.recall.recalling import RecallHit, recall
from memory.recall.snippets import passage
from memory.texts.cite_marks import FILE
from memory.texts.text import as_data, one_line, plain
from memory.toolkit.types import ToolContext

MOST_HITS = 6
LONGEST_WORDS = 2_000  # characters of a question that are looked for
LONGEST_PASSAGE = 400
_NEVER = (
    Filter("sensitivity", ("sensitive",), negated=True),
    Filter("trust", (Trust.QUARANTINED.value,), negated=True),
)


def answer_by_recall(talk: Talk, caller: ToolContext) -> str:
    """Return what memory holds on the question, each quoted with its mark.

    Words to be remembered ask nothing: that they are noted is the answer.
    """
    if talk.question.cites and "?" not in talk.question.content:
        return _("Noted: I keep your words for 30 days.")
    hits = _hits(talk, caller)
    if not hits:
        return _(
            "Nothing that is remembered answers that. Try other words, or tell me what I should "
            "remember."
        )
    return "\n".join(f"- “{_bare(_passage(hit, talk))}” {_mark(hit)}" for hit in hits)


def hits_for_prompt(talk: Talk, caller: ToolContext) -> str:
    """Return the same as a model is given it: what came from outside stands between marks."""
    hits = _hits(talk, caller)
    own: list[str] = []
    outside: list[str] = []
    for hit in hits:
        # What a later run found came from outside, whoever wrote the hit.
        is_own = hit.record.trust in (Trust.OWNER, Trust.AGENT) and not hit.found_later
        (own if is_own else outside).append(f"- {_mark(hit)} {_passage(hit, talk)}")
    parts = ["\n".join(own)] if own else []
    if outside:
        parts.append(as_data("\n".join(outside)))
    return "\n\n".join(parts) or _("(nothing)")


def _hits(talk: Talk, caller: ToolContext) -> list[RecallHit]:
    """Return the best hits that may be given; what this very message had noted is none."""
    words = talk.question.content[:LONGEST_WORDS]
    # A message is words, not a query: “C++ -O3” leaves nothing out.
    question = Question(words, words, filters=_NEVER)
    noted = {cite["id"] for cite in talk.question.cites}
    found = recall(
        talk.session.owner, question, limit=MOST_HITS + 4, place=talk.source, now=timezone.now()
    )
    hits = [
        hit
        for hit in found
        if caller.may_read(hit.record)
        and str(hit.record.pk) not in noted
        and getattr(hit.record, "kind", "") not in Note.IDENTITY  # they stand in each prompt
    ][:MOST_HITS]
    records = [hit.record for hit in hits]
    caller.read(records)
    talk.given |= given_of(records_as_named(records))
    talk.given |= {f"{FILE}:{hit.record.file.path}" for hit in hits if hit.type == "section"}
    return hits


def _mark(hit: RecallHit) -> str:
    return f"[{hit.type}:{hit.id}]"


def _passage(hit: RecallHit, talk: Talk) -> str:
    words = talk.question.content[:LONGEST_WORDS]
    return one_line(hit.dated(passage(hit.content, words, LONGEST_PASSAGE)))


def _bare(text: str) -> str:
    """Return a passage that bears no marks of its own, so that it stays one line of a list."""
    return plain(text).replace("[", "(").replace("]", ")")
