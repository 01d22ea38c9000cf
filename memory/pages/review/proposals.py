"""The proposals that Review shows, each with its diff, preview, writer and risks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, NamedTuple

from django.db import OperationalError, connection, transaction
from django.db.models import Max, Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from beacon_site.text import diff as text_diff
from beacon_site.text.cleaning import shorten, uuid_of
from beacon_site.text.contradictions import plain
from beacon_site.text.diff import Piece, Row
from beacon_site.text.injection import injection_reason, instruction_spans
from beacon_site.text.terms import everyday_terms, query_spans, query_terms
from beacon_site.web.http import BeaconRequest
from memory.models import (
    MemoryFile,
    Note,
    Observation,
    Proposal,
    Remembered,
    Revision,
    Section,
    Topic,
    Trust,
    User,
    origins,
)
from memory.models.actors import Actor
from memory.models.errors import MemoryRefused
from memory.models.file_format import is_fact
from memory.models.proposals import Danger
from memory.models.remembered import OWNER_SCOPE
from memory.pages.records.editing import scope_label
from memory.services.review import blocking, contradictions, trust
from memory.services.review import proposals as review_services
from memory.services.review.apply import MERGE, TRASH, MergeConflict, lines_of
from memory.services.review.outdated import Outdated, outdated, with_newer_texts
from memory.services.review.risks import contradicted_line, needs_own_decision, reasons_of, risks_of
from memory.services.search import bm25_sql

Span = tuple[int, int]
_MARK = '<mark class="offending">{}</mark>'


class MarkedPiece(Piece):
    """A piece of a line with suspicious words marked; `spans` are their positions."""

    __slots__ = ("spans",)
    spans: Sequence[Span]

    @classmethod
    def of(cls, piece: Piece, spans: Sequence[Span]) -> MarkedPiece:
        marked = cls(piece.kind, piece.text)
        object.__setattr__(marked, "spans", spans)
        return marked

    @property
    def shown(self) -> SafeString:
        """Return the text for a page, escaped, with a <mark> around each span."""
        text, at, parts = self.text.rstrip("\r\n"), 0, list[str]()
        for begin, end in self.spans:
            parts += [text[at:begin], format_html(_MARK, text[begin:end])]
            at = end
        return format_html_join("", "{}", [(part,) for part in [*parts, text[at:]]])


def marked(rows: Iterable[Row]) -> list[Row]:
    """Return the rows with the suspicious words of their new text marked.

    Prompt injection that spans several lines is marked as a whole.
    """
    rows = list(rows)
    texts = ["".join(piece.text for piece in row.after) if row.new else "" for row in rows]
    spans = [
        instruction_spans(text) if row.kind != "same" else []
        for row, text in zip(rows, texts, strict=True)
    ]
    if not any(spans):
        added = [text if row.kind != "same" else "" for row, text in zip(rows, texts, strict=True)]
        if injection_reason("".join(added)):
            spans = [[(0, len(text))] if text.strip() else [] for text in added]
    return [_row(row, found) if found else row for row, found in zip(rows, spans, strict=True)]


def _row(row: Row, spans: Sequence[Span]) -> Row:
    pieces, at = [], 0
    for piece in row.pieces:
        if piece.kind == "old":
            pieces.append(piece)
            continue
        end = at + len(piece.text)
        inside = [(max(a, at) - at, min(b, end) - at) for a, b in spans if a < end and b > at]
        pieces.append(MarkedPiece.of(piece, inside) if inside else piece)
        at = end
    return replace(row, pieces=tuple(pieces))


# --- preview ---

MAX_WAIT_MS = 300  # for a row that another transaction is writing
_TEXTS = ("content", "text", "value", "title")


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one record: `act` is create, change, replace, merge, trash, restore or vouch.

    `before` and `after` are its whole text; for a merge `before` joins the texts of all notes; to
    vouch keeps the text and makes it the person's own.  `category` is that of an observation.
    """

    record_type: str
    act: str
    label: str
    before: str
    after: str
    category: str = ""

    @property
    def shown_before(self) -> str:
        """Return the text before, as a diff shows it."""
        return self._named(self.before)

    @property
    def shown_after(self) -> str:
        """Return the text after, as a diff shows it."""
        return self._named(self.after)

    def _named(self, text: str) -> str:
        return f"{self.category}: {text}" if self.category and text else text


@dataclass(frozen=True, slots=True)
class Preview:
    """What accepting would store; or the conflict, or the reason why nothing can be stored."""

    changes: tuple[Change, ...] = ()
    is_merged: bool = False
    warnings: tuple[str, ...] = ()
    conflict: MergeConflict | None = None
    problem: str = ""

    @property
    def changes_nothing(self) -> bool:
        """Return True if everything it would write is already stored."""
        return not (self.changes or self.conflict or self.problem)


def preview(proposal: Proposal, *, by: Actor) -> Preview:
    """Return what `review.accept` would do now; nothing is stored."""
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{MAX_WAIT_MS}ms"])
            last = Revision.objects.aggregate(last=Max("id"))["last"] or 0
            applied = review_services.perform(proposal, proposal.after, by, "")
            found = changes_since(last, [applied.record, *applied.others], by)
            transaction.set_rollback(True)
    except MergeConflict as exc:
        return Preview(conflict=exc)
    except MemoryRefused as exc:
        return Preview(problem=str(exc))
    except OperationalError:
        words = _(
            "Someone is changing this record right now. Reload the page to see what accepting the proposal would do."
        )
        return Preview(problem=words)
    return Preview(tuple(found), applied.merged, tuple(map(str, applied.warnings)))


def changes_since(last: int, records: Sequence[Remembered], by: Actor) -> list[Change]:
    """Return the changed records in the revisions after `last`, each once, in order."""
    if not records:
        return []
    rows = Revision.objects.filter(
        owner_id=records[0].owner_id,
        record_id__in=[record.pk for record in records],
        id__gt=last,
        actor=str(by),
    )
    by_record: dict[Any, list[Revision]] = {}
    for revision in rows.order_by("id"):
        by_record.setdefault(revision.record_id, []).append(revision)
    replaced = _replaced(by_record, records)
    gone = {older.pk for olders in replaced.values() for older in olders}
    changes = []
    for record in records:
        revisions = by_record.pop(record.pk, [])
        if revisions and record.pk not in gone:
            changes.append(_change(record, revisions, replaced.get(str(record.pk), [])))
    return changes


def _replaced(
    by_record: Mapping[Any, Sequence[Revision]], records: Sequence[Remembered]
) -> dict[str, list[Remembered]]:
    """Return which records each new one replaces, by the new one's key; a merge replaces several."""
    found: dict[str, list[Remembered]] = {}
    for record in records:
        for revision in by_record.get(record.pk, ()):
            if key := revision.after.get("superseded_by_id"):
                found.setdefault(str(key), []).append(record)
    return found


def _change(
    record: Remembered,
    revisions: Sequence[Revision],
    olders: Sequence[Remembered],
) -> Change:
    before, after = _text_of(revisions[0].before, record), _text_of(revisions[-1].after, record)
    act = "change"
    if olders:
        act = "replace" if len(olders) == 1 else "merge"
        before = "\n\n".join(_text_of({}, older) for older in olders)
    elif revisions[0].version == 1:
        act, before = "create", ""
    elif "trashed_at" in revisions[-1].after:
        act = "trash" if revisions[-1].after["trashed_at"] else "restore"
        after = "" if act == "trash" else after
    elif before == after:
        act = "vouch"
    category = record.get_category_display() if isinstance(record, Observation) else ""
    return Change(record.record_type(), act, str(record), before, after, category)


def _text_of(fields: Mapping[str, Any], record: Remembered) -> str:
    """Return the record's text among a revision's fields, else as the record has it."""
    for name in _TEXTS:
        if hasattr(record, name):
            return str(fields.get(name, getattr(record, name)))
    return ""


# --- rows ---

# Characters of diffs in a list and of one proposal, and the lines that are shown.
MAX_DIFFED, MAX_DIFFED_OF_ONE = 200_000, 1_100_000
MAX_ROWS, MAX_WHOLE = 24, 2_000
PREVIEW_SECONDS = 0.6  # for one list: each preview stores its proposal and rolls it back
STATES = {
    Proposal.State.WAITING.value: _lazy("Pending"),
    Proposal.State.ACCEPTED.value: _lazy("Accepted"),
    Proposal.State.REJECTED.value: _lazy("Rejected"),
    Proposal.State.EXPIRED.value: _lazy("Expired"),
}
TYPES = {
    "memoryfile": _lazy("Memory files"),
    "note": _lazy("Notes"),
    "observation": _lazy("Observations"),
}
_FIELDS = {
    "kind": _lazy("type"),
    "scope": _lazy("scope"),
    "confidence": _lazy("confidence"),
    "stability": _lazy("stability"),
    "ttl_days": _lazy("expires after (days)"),
    "until": _lazy("valid until"),
    "tags": _lazy("tags"),
    "sensitivity": _lazy("sensitivity"),
    "evidence": _lazy("evidence"),
}


class KeptLine(NamedTuple):
    """A line of a memory file that stays beside the proposed one, which has another value."""

    said: str
    url: str
    why: str


@dataclass(slots=True)
class ProposalRow:
    """A proposal as people read it; while pending, with the effect of accepting it now."""

    proposal: Proposal
    title: str
    act: str
    who: str
    via: origins.Origin | None = None
    rows: list[text_diff.Row] = field(default_factory=list)
    is_cut: bool = False
    details: list[tuple[str, str]] = field(default_factory=list)
    preview: Preview | None = None
    outdated: list[Outdated] = field(default_factory=list)
    contradicted: list[tuple[str, contradictions.Known | KeptLine]] = field(default_factory=list)

    @property
    def reasons(self) -> list[str]:
        """Return why it is held, most serious first."""
        return reasons_of(self.proposal)

    @property
    def is_file(self) -> bool:
        """Return True if it's for a memory file, whose path is shown in a monospaced font."""
        return self.proposal.record_type == "memoryfile"

    @property
    def is_injection(self) -> bool:
        """Return True if it's in the group that is marked as dangerous."""
        return bool(self.proposal.danger == Danger.INJECTION)

    @property
    def is_merge(self) -> bool:
        """Return True if accepting it replaces several notes with one."""
        changes = self.preview.changes if self.preview else ()
        return any(change.act == "merge" for change in changes)

    @property
    def conflict(self) -> MergeConflict | None:
        """Return the conflict that accepting it unchanged would cause."""
        return self.preview.conflict if self.preview else None

    @property
    def old_facts(self) -> list[Outdated]:
        """Return the facts it quotes that were replaced, corrected or marked as wrong."""
        return [one for one in self.outdated if not one.is_target]

    @property
    def changed_target(self) -> Outdated | None:
        """Return how its record has changed since."""
        return next((one for one in self.outdated if one.is_target), None)

    @property
    def has_newer_text(self) -> bool:
        """Return True if it can be accepted with newer facts instead of those it quotes."""
        return bool(with_newer_texts(self.proposal, self.outdated))

    @property
    def recommended(self) -> str:
        """Return the name of the button that Beacon recommends: reject, newer or accept, or ""."""
        if self.is_injection:
            return "reject"
        if self.has_newer_text:
            return "newer"
        is_unclear = self.conflict or self.contradicted or needs_own_decision(self.proposal)
        return "" if is_unclear else "accept"

    @property
    def advice(self) -> str:
        """Return the recommendation in words; empty if nothing can be accepted now."""
        found = self.preview
        if found and (found.problem or found.changes_nothing) and not self.is_injection:
            return ""
        return {
            "reject": _("Recommended: reject."),
            "newer": _("Recommended: accept the newer text."),
            "accept": _("Recommended: accept."),
        }.get(self.recommended, _("Recommended: check the text before you accept it."))


def rows_of(owner: User, state: str = Proposal.State.WAITING) -> QuerySet[Any]:
    """Return the proposals in a state, unordered. An overdue one has expired."""
    waits = Q(state=Proposal.State.WAITING)
    in_state = Q(state=state)
    if state == Proposal.State.WAITING:
        in_state = waits & Q(expires_at__gt=timezone.now())
    elif state == Proposal.State.EXPIRED:
        in_state |= waits & Q(expires_at__lte=timezone.now())
    rows: QuerySet[Any] = Proposal.objects.for_user(owner).filter(in_state)
    return rows


def proposal_rows(
    owner: User,
    proposals: Sequence[Proposal],
    *,
    most: int = MAX_ROWS,
    most_diffed: int = MAX_DIFFED,
) -> list[ProposalRow]:
    """Return the proposals as people read them.

    Pending ones are previewed, for PREVIEW_SECONDS at most: a row without a preview says so.
    """
    named = origins.of(owner, [text for one in proposals for text in (one.source, one.actor)])
    waiting = [proposal for proposal in proposals if proposal.is_waiting]
    behind = outdated(owner, waiting) if waiting else {}
    rows: list[ProposalRow] = []
    left, ends = most_diffed, time.monotonic() + PREVIEW_SECONDS
    for one in proposals:
        one.owner = owner
        row = ProposalRow(
            one,
            review_services.title_of(one),
            act_of(one),
            named[one.actor].words,
            named.get(one.source),
        )
        if row.via is not None and row.via.text == one.actor:
            row.via = None
        if one.is_waiting and (not rows or time.monotonic() < ends):
            row.preview = preview(one, by=Actor.person(owner))
            row.act = act_now(row.preview) or row.act
        row.outdated = behind.get(one.pk, [])
        texts = _shown_texts(row)
        hidden, old, new = ([], *texts) if row.is_merge else from_first_difference(*texts)
        left -= len(old) + len(new)
        diff = _diff(row, old, new) if left >= 0 else []
        row.rows, row.is_cut = [*hidden, *diff[:most]], left < 0 or len(diff) > most
        row.rows = marked(row.rows) if row.is_injection else row.rows
        row.details = _details(one)
        rows.append(row)
    return rows


def _diff(row: ProposalRow, old: str, new: str) -> list[text_diff.Row]:
    """Return the differences.

    A merge shows all its notes, then the new one: pairing lines of several notes with lines of
    one would suggest that a note became a sentence of another.
    """
    if row.is_merge:
        return [*text_diff.diff(old, ""), *text_diff.diff("", new)]
    return text_diff.folded(text_diff.diff(old, new))


def _shown_texts(row: ProposalRow) -> tuple[str, str]:
    """Return the text before and after accepting; for a conflict, the proposed text."""
    found = row.preview
    if found is None or found.problem or found.conflict or found.changes_nothing:
        return texts_of(row.proposal)
    old = "".join(_ended(change.shown_before) for change in found.changes)
    new = "".join(_ended(change.shown_after) for change in found.changes)
    return old, new


def act_now(found: Preview) -> str:
    """Return the effect of accepting now in words; empty if it can't be accepted unchanged."""
    if found.conflict or found.problem:
        return ""
    if found.changes_nothing:
        return _("is already stored")
    acts = {change.act for change in found.changes}
    if len(acts) > 1:
        return _("will be changed")
    (act,) = acts
    if act in ("change", "replace") and all(one.before == one.after for one in found.changes):
        return _("keeps the text but changes the fields")
    if act == "create" and found.changes[0].record_type == "memoryfile":
        return _("creates a new file")
    return {
        "create": _("will be created"),
        "change": _("will be changed"),
        "replace": _("replaces the current one"),
        "merge": _("replaces the notes it merges"),
        "trash": _("will be moved to Trash"),
        "restore": _("will be restored from Trash"),
        "vouch": _("is already stored and will be treated as your own"),
    }[act]


def from_first_difference(old: str, new: str) -> tuple[list[text_diff.Row], str, str]:
    """Return the texts from just before their first difference, and a row for what is hidden.

    So a line added to a large file is shown without the text before it.
    """
    before, after = text_diff.lines_of(old), text_diff.lines_of(new)
    pairs = zip(before, after, strict=False)
    alike = sum(1 for _pair in takewhile(lambda pair: pair[0] == pair[1], pairs))
    first = max(0, alike - text_diff.CONTEXT)
    hidden = [text_diff.Row("gap", hidden=first)] if first else []
    return hidden, "".join(before[first:]), "".join(after[first:])


def whole(owner: User, proposal: Proposal) -> ProposalRow:
    """Return one proposal with as much of its diff as a page can show, and what it contradicts."""
    row = proposal_rows(owner, [proposal], most=MAX_WHOLE, most_diffed=MAX_DIFFED_OF_ONE)[0]
    if proposal.is_waiting:
        row.contradicted = [*_kept_lines(row.preview), *contradicted(owner, proposal)]
    return row


def texts_of(proposal: Proposal) -> tuple[str, str]:
    """Return its text before and after, each with a final line break."""
    wanted = proposal.edited or proposal.after
    old, new = str(proposal.before.get("content", "")), str(wanted.get("content", ""))
    if wanted.get("act") == TRASH:
        new = ""
    if proposal.record_type == "observation":
        lines = lines_of(wanted)
        categories = dict(Observation.Category.choices)
        said = (f"{categories.get(line.category, line.category)}: {line.content}" for line in lines)
        old, new = "", "\n".join(said)
    return _ended(old), _ended(new)


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def new_lines(proposal: Proposal) -> list[str]:
    values = {**proposal.after, **proposal.edited}
    known = set(str(proposal.before.get("content", "")).splitlines())
    lines = values.get("lines") or [values]
    texts = [line for one in lines for line in str(one.get("content", "")).splitlines()]
    return [line for line in texts if line not in known and line.strip(" #>*-")]


def headline(proposal: Proposal) -> str:
    """Return the first line of text that is new in the proposal, without its Markdown marks."""
    new = new_lines(proposal)
    # A file's headings and its summary line say less than its first new line.
    new.sort(key=lambda line: line.startswith(("#", ">")))
    return new[0].strip(" #>*-") if new else proposal.label


def act_of(proposal: Proposal) -> str:
    """Return the proposed act: create, change or replace something."""
    if proposal.record_type == "memoryfile":
        return _("change") if proposal.version_seen else _("new file")
    if proposal.after.get("act") == MERGE:
        return _("merge")
    if proposal.after.get("act") == TRASH:
        return _("move to Trash")
    return _("replacement") if proposal.target_id is not None else _("new")


def _details(proposal: Proposal) -> list[tuple[str, str]]:
    """Return the note's fields besides its text, if the writer set them."""
    if proposal.record_type != "note":
        return []
    pairs = []
    for name, words in _FIELDS.items():
        if name == "ttl_days" and proposal.after.get("until"):
            continue  # counted from the day on which it was proposed
        value, before = proposal.after.get(name), proposal.before.get(name)
        joint = ", " if name == "tags" else "; "
        if name in proposal.before and before != value:
            arrow = f"{_value_label(before, joint)} → {_value_label(value, joint)}"
            pairs.append((str(words), shorten(arrow, 300)))
        elif value not in (None, "", []) and name not in ("kind", "scope"):
            pairs.append((str(words), shorten(_value_label(value, joint), 300)))
    return pairs


def _value_label(value: Any, joint: str = "; ") -> str:
    if value in (None, "", []):
        return _("none")
    return joint.join(map(str, value)) if isinstance(value, list) else str(value)


# --- what it contradicts ---

MAX_CONTRADICTED = 5  # memories that are named


def contradicted(owner: User, proposal: Proposal) -> list[tuple[str, contradictions.Known]]:
    """Return the memories that would still be there and contradict it, each with its kind in words."""
    after = proposal.after
    if after.get("act") == TRASH:
        return []
    found = contradictions.also_known(owner, _useful_text(proposal))
    versions = after.get("versions")
    replaced = {str(proposal.target_id), *(versions if isinstance(versions, dict) else ())}
    lines = [plain(line) for line in str(after.get("content", "")).splitlines()]

    def is_kept(one: contradictions.Known) -> bool:
        if isinstance(one.record, Section) and one.record.file_id == proposal.target_id:
            return any(one.said in line for line in lines)
        return str(one.record.pk) not in replaced

    kept = [one for one in found if is_kept(one)]
    return [(_contradicts(one), one) for one in kept[:MAX_CONTRADICTED]]


def _kept_lines(found: Preview | None) -> Iterator[tuple[str, KeptLine]]:
    """Yield the line of a fact file that would be kept beside another value, since the file may
    have changed after the proposal.
    """
    for change in found.changes if found else ():
        line = contradicted_line(change.before, change.after)
        if line and change.record_type == "memoryfile" and is_fact(change.label):
            lines = [one.rstrip() for one in text_diff.lines_of(change.before)]
            at = {"path": change.label, "line": lines.index(line) + 1}
            url = reverse("memory:file", args=[change.label])
            words = _("Contradicts %(place)s:") % {"place": _("%(path)s, line %(line)s") % at}
            yield words, KeptLine(plain(line), url, _("different value"))


def _contradicts(known: contradictions.Known) -> str:
    if known.place:  # a line of a file, or a fact of a topic
        return _("Contradicts %(place)s:") % {"place": known.place}
    is_own = known.record.trust == Trust.OWNER
    if known.type == "observation":
        return _("Contradicts your observation:") if is_own else _("Contradicts an observation:")
    if known.record.kind == Note.Kind.RULE:
        return _("Contradicts your rule:") if is_own else _("Contradicts a rule:")
    return _("Contradicts your note:") if is_own else _("Contradicts a note:")


def _useful_text(proposal: Proposal) -> str:
    """Return the new text without headings and summary lines, if there is other text."""
    lines = new_lines(proposal)
    useful = [line for line in lines if not line.startswith(("#", ">"))]
    return "\n".join(useful or lines)[:MAX_READ]


# --- what accepting means, and how it got here ---

MAX_SITES = 3  # domains of pages that are named
MAX_SEARCHED = 4  # words for which search finds a text
MAX_READ = 4_000  # characters of a text whose words and statements are looked up


def effects(owner: User, row: ProposalRow) -> dict[str, Any]:
    """Return what accepting means, the writer's record and how the proposal got here: few queries."""
    proposal = row.proposal
    is_trashed = proposal.after.get("act") == TRASH
    return {
        "effects": _uses(owner, proposal),
        "searched": [] if is_trashed else _rare_words(owner, _useful_text(proposal)),
        "track": _track(owner, row),
        "steps": _steps(owner, row),
    }


def _uses(owner: User, proposal: Proposal) -> list[str]:
    """Return which prompts and searches would include it, by its kind, scope and topic."""
    after = {**proposal.before, **proposal.after, **proposal.edited}
    kind, path = after.get("kind", Note.Kind.LOG), after.get("path", "")
    if after.get("act") == TRASH:
        return [_("Search and prompts no longer include it.")]
    if proposal.record_type == "memoryfile":
        return [_("Agents that read %(path)s get this text.") % {"path": path}]
    if after.get("sensitivity") == "sensitive":
        texts = [_("It’s sensitive, so only search finds it. No prompt includes it.")]
    elif proposal.record_type == "observation":
        texts = [_("Runs and answers about the same subject include it.")]
    elif kind in Note.IDENTITY:
        texts = [_("Every prompt includes it.")]
    elif kind == Note.Kind.RULE:
        texts = [_("Every answer and run follows it.")]
    else:
        texts = [_("Answers to similar questions include it.")]
    key = uuid_of(after.get("topic_id")) if proposal.record_type == "note" else None
    if topic := Topic.objects.for_user(owner).filter(pk=key).first() if key else None:
        words = _("It’s about “%(topic)s”, so prompts about other topics leave it out.")
        texts.append(words % {"topic": topic.title})
    if (scope := str(after.get("scope") or OWNER_SCOPE)) != OWNER_SCOPE:
        texts.append(_("Who can read it: %(who)s.") % {"who": scope_label(owner, scope)})
    return texts


def _rare_words(owner: User, text: str) -> list[str]:
    """Return the words of a text that occur in the fewest memories, in the order of the text."""
    language = bm25_sql.language_of(owner)
    useful = set(query_terms(text, language)) - everyday_terms()
    shown: dict[str, str] = {}
    for term in query_spans(text, language):
        if term.text in useful and len(term.text) > 1:
            shown.setdefault(term.text, text[term.start : term.end])
    spaces = bm25_sql.spaces_of(owner, contradictions.TYPES, shown, with_levels=False)
    number = {
        term: sum(one.terms[term].documents for one in spaces if term in one.terms)
        for term in shown
    }
    rarest = sorted(shown, key=lambda term: (number[term], -len(shown[term])))[:MAX_SEARCHED]
    return [word for term, word in shown.items() if term in rarest]


def _track(owner: User, row: ProposalRow) -> str:
    """Return how the writer's earlier proposals were decided, as a sentence."""
    usual = {review_services.DEFAULT_LEVEL: ""}  # the rules, which aren't shown here
    records = trust.track_records(owner, usual, (), writer=row.proposal.actor)
    counts = {
        name: sum(getattr(record, name) for record in records)
        for name in ("accepted", "edited", "rejected", "wrong")
    }
    name = records[0].name if records else row.who
    parts = [_counted(what, n) for what, n in counts.items() if n]
    if not parts:
        return _("You haven’t decided on any proposal from %(name)s yet.") % {"name": name}
    return _("%(name)s so far: %(counts)s.") % {"name": name, "counts": ", ".join(parts)}


def _counted(what: str, n: int) -> str:
    words = {
        "accepted": ngettext("%(n)d accepted", "%(n)d accepted", n),
        "edited": ngettext("%(n)d accepted after edits", "%(n)d accepted after edits", n),
        "rejected": ngettext("%(n)d rejected", "%(n)d rejected", n),
        "wrong": ngettext("%(n)d proved wrong", "%(n)d proved wrong", n),
    }
    return words[what] % {"n": n}


def _steps(owner: User, row: ProposalRow) -> list[dict[str, Any]]:
    """Return how it got here: the pages, the run or conversation, the writer, and its state."""
    proposal, steps = row.proposal, list[dict[str, Any]]()
    if sites := blocking.domains_of(owner, proposal):
        more = len(sites) - MAX_SITES
        words = _("Pages from %(sites)s") % {"sites": ", ".join(sites[:MAX_SITES])}
        if more > 0:
            also = ngettext("and %(n)d more", "and %(n)d more", more) % {"n": more}
            words = f"{words} {also}"
        steps.append({"words": words})
    elif any(risk.code == "external" for risk in risks_of(proposal)):
        steps.append({"words": _("Web pages or documents that the agent read")})
    if row.via is not None:
        steps.append({"words": capfirst(row.via.words), "url": row.via.url})
    steps.append({"words": capfirst(row.who), "by": proposal.actor, "at": proposal.created})
    if proposal.is_waiting:
        steps.append({"words": _("Held until you decide"), "until": proposal.expires_at})
    else:
        at = proposal.decided_at or proposal.expires_at
        steps.append({"words": capfirst(proposal.get_state_display()), "at": at})
    return steps


# --- edits ---


def target_url(proposal: Proposal) -> str:
    """Return the page of its record, or of the resulting one; empty if there is none."""
    key = proposal.result_id or proposal.target_id
    models: Mapping[str, Any] = {"memoryfile": MemoryFile, "note": Note, "observation": Observation}
    kind = models.get(proposal.record_type)
    record = kind and kind.objects.for_user(proposal.owner).filter(pk=key).first()
    if record is None or record.trashed_at is not None:
        return ""
    return str(record.get_absolute_url())


def edit_fields(proposal: Proposal, typed: Mapping[str, str] | None = None) -> list[Any]:
    """Return what a person can edit before accepting: name, label, text, and the number of lines."""
    if proposal.after.get("act") == TRASH:
        return []
    if proposal.record_type != "observation":
        label = _("Whole file") if proposal.record_type == "memoryfile" else _("Text")
        fields = [("content", label, str(proposal.after.get("content", "")))]
    else:
        fields = [
            (f"line-{n}", _("Observation %(n)d") % {"n": n + 1}, line.content)
            for n, line in enumerate(lines_of(proposal.after))
        ]
    shown = [(name, label, (typed or {}).get(name, text)) for name, label, text in fields]
    return [(name, label, text, _height(text)) for name, label, text in shown]


def _height(text: str) -> int:
    return min(28, max(4, text.count("\n") + len(text) // 90 + 2))


def edited(proposal: Proposal, typed: Mapping[str, str]) -> dict[str, Any]:
    """Return `after` with the form's texts; an observation left empty is removed."""
    if proposal.record_type != "observation":
        text = typed.get("content")
        if text is None:  # a form without the field keeps the text
            return {}
        same = _as_sent(str(proposal.after.get("content", "")))
        return {} if text == same else {"content": text}
    rows: list[dict[str, Any]] = proposal.after.get("lines") or [proposal.after]
    kept = []
    for n, row in enumerate(rows):
        text = typed.get(f"line-{n}", "")
        if text.strip():
            fields = {name: value for name, value in row.items() if name != "lines"}
            kept.append({**fields, "content": text})
    same_words = [row["content"] for row in kept] == [_as_sent(str(row["content"])) for row in rows]
    return {} if same_words else {"lines": kept}


def _as_sent(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def typed_of(data: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """Return what a browser sent for the fields, with line breaks as they are stored."""
    return {name: _as_sent(str(data.get(name, ""))) for name in names if name in data}


def in_inbox(
    request: BeaconRequest, template: str, context: dict[str, Any], *, key: object
) -> HttpResponse:
    """Show an item where the Inbox shows the selected one, and keep its list.

    On a narrow screen the item has the page for itself, like one that was opened.
    """
    shown = context | {"is_in_inbox": True, "template": template, "key": key}
    response = render(request, "memory/_in_inbox.html", shown)
    response["HX-Retarget"] = "#inbox-detail"
    response["HX-Reswap"] = "innerHTML"
    return response
