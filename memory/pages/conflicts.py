"""Pages of conflicts: both sides of each pair, their differences, and the choices to resolve it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import Count
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.utils.translation import gettext_lazy as _lazy

from beacon_site.text import diff as text_diff
from beacon_site.text.cleaning import choice_param, number_of, shorten, uuid_of, uuids_of
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import (
    KEEP_SECRETS,
    get_owned_or_404,
    is_in_inbox,
    next_of,
    question_about_secrets,
    redirect_back,
    redirect_to,
    signed_in,
)
from memory.models import Conflict, MemoryFile, Topic, Use, User, origins
from memory.models.conflicts import sides_by_type
from memory.models.errors import MemoryRefused
from memory.models.file_format import statements_found
from memory.pages.review.proposals import in_inbox
from memory.pages.shared.undo import exact_moment, offer, say_undone, undoes
from memory.services.records.acts import BulkResult
from memory.services.records.kinds import kind_of
from memory.services.review import conflicts as conflict_services
from memory.services.review import contradictions, file_lines
from memory.services.review.conflicts import MODELS

MAX_LISTED = 1_000  # of one action for all
MAX_TEXT, MAX_WHOLE = 1_500, 40_000  # characters of a side in the list, and on its own page
KINDS = {
    Conflict.Kind.CONTRADICTION.value: _lazy("Contradictions"),
    Conflict.Kind.NEAR_DUPLICATE.value: _lazy("Near-duplicates"),
}


@dataclass(slots=True)
class Side:
    """One of the two records; `pieces` are its words, with the differences marked."""

    name: str
    record: Any
    text: str = ""
    noun: str = ""
    url: str = ""
    pieces: Sequence[text_diff.Piece] = ()
    is_cut: bool = False
    origin: origins.Origin | None = None
    uses: int = 0
    is_changed: bool = False
    line: int = 0

    @property
    def version(self) -> int:
        """Return the version that the person sees."""
        return int(self.record.version) if self.record is not None else 0

    @property
    def link(self) -> str:
        """Return the URL of a fact's source, if it's a web page."""
        url = str(getattr(self.record, "url", ""))
        return url if url.startswith(("https://", "http://")) else ""

    @property
    def source_title(self) -> str:
        return str(getattr(self.record, "source_title", "")) or self.link

    @property
    def quote(self) -> str:
        """Return the source's own words, if they differ from the fact's."""
        quote = str(getattr(self.record, "quote", ""))
        return quote if quote.strip() and quote.strip() != self.text.strip() else ""

    @property
    def is_file(self) -> bool:
        """Whether it's a statement of a memory file, or several that the other side repeats."""
        return isinstance(self.record, MemoryFile)

    @property
    def place(self) -> str:
        """Return the first line of a file's statements."""
        return _("%(path)s, line %(line)s") % {"path": self.record.path, "line": self.line}

    @property
    def is_fact(self) -> bool:
        """Return True if it's a topic's fact, which runs check again."""
        return hasattr(self.record, "confirmed_at")


@dataclass(slots=True)
class Row:
    """One pair. `found_in` is where it was found, such as the run whose report lists it."""

    conflict: Conflict
    left: Side
    right: Side
    topic: Any = None
    found_in: origins.Origin | None = None
    resolved_by: origins.Origin | None = None

    @property
    def sides(self) -> tuple[Side, Side]:
        """Return both sides, the older one first."""
        return self.left, self.right

    @property
    def can_be_dated(self) -> bool:
        """Return True if keeping both can add its date to either: facts already show theirs."""
        is_contradiction = self.conflict.kind == Conflict.Kind.CONTRADICTION
        return is_contradiction and not all(one.is_fact or one.is_file for one in self.sides)

    @property
    def has_file(self) -> bool:
        """Return True if a side is in a memory file, where a decision changes lines."""
        return self.left.is_file or self.right.is_file

    @property
    def can_be_merged(self) -> bool:
        """Return True if both can become one text: several lines of a file can't."""
        return len(self.conflict.lines) < 2

    @property
    def merged_text(self) -> str:
        """Return the initial text of the merge form: the longer one."""
        return max((side.text for side in self.sides), key=len)


def conflict_rows(
    owner: User,
    conflicts: Iterable[Conflict],
    *,
    most: int = MAX_TEXT,
    topics: Mapping[Any, Any] | None = None,
) -> list[Row]:
    """Return the pairs as people read them: the records, their origins, and how often they were
    used.
    """
    pairs = list(conflicts)
    records = _records(owner, pairs)
    sources = [record.source for record in records.values()]
    sources += [name for one in pairs for name in (one.source, one.resolved_by)]
    named = origins.of(owner, sources)
    uses = dict(
        Use.objects.for_user(owner)
        .filter(record_id__in=list(records))
        .order_by()
        .values_list("record_id")
        .annotate(number=Count("pk"))
    ) if records else {}  # fmt: skip
    rows = []
    for one in pairs:
        one.owner = owner
        both = records.get(one.left_id), records.get(one.right_id)
        if one.is_open and None not in both:
            file_lines.keep_found(one, both)
        left, right = (_side(one, name, records, named, uses) for name in ("left", "right"))
        _mark(left, right, most)
        topic = (
            next((topics[key] for key in one.topic_ids if key in topics), None) if topics else None
        )
        rows.append(Row(one, left, right, topic, named.get(one.source), named.get(one.resolved_by)))
    return rows


def _records(owner: User, pairs: Sequence[Conflict]) -> dict[Any, Any]:
    """Return the records of both sides by ID: one query per type."""
    found: dict[Any, Any] = {}
    for name, keys in sides_by_type(pairs).items():
        model = MODELS.get(name)
        if model is not None:
            rows = model.objects.for_user(owner).filter(pk__in=keys)
            if model is not MemoryFile:
                rows = rows.select_related("topic")
            found |= {row.pk: row for row in rows}
    return found


def _side(
    conflict: Conflict,
    name: str,
    records: Mapping[Any, Any],
    named: Mapping[str, origins.Origin],
    uses: Mapping[Any, int],
) -> Side:
    record = records.get(getattr(conflict, f"{name}_id"))
    if record is None:
        return Side(name, None)
    kind = kind_of(record.record_type())
    is_file, line = isinstance(record, MemoryFile), 0
    if is_file:
        rows = statements_found(record.content, conflict.digests_of(name))
        line = rows[0].place + 1 if rows else 1
    return Side(
        name,
        record,
        text=conflict_services.words_of(conflict, name, record),
        line=line,
        noun=str(kind.noun),
        url=record.get_absolute_url(),
        origin=named.get(record.source),
        uses=uses.get(record.pk, 0),
        is_changed=conflict.is_open
        and not is_file
        and record.version > getattr(conflict, f"{name}_version"),
    )


def _mark(left: Side, right: Side, most: int) -> None:
    """Split each side into words, with those missing on the other side marked."""
    texts = [shorten(side.text, most) for side in (left, right)]
    pieces = text_diff.word_pieces(*texts)
    is_other = {piece.kind for piece in pieces} == {"old", "new"}
    for side, text, not_its in ((left, texts[0], "new"), (right, texts[1], "old")):
        side.is_cut = len(side.text) > most
        # Two texts with hardly a word in common are shown plain: otherwise every word
        # would be marked.
        whole = [text_diff.Piece("same", text)]
        side.pieces = whole if is_other else [one for one in pieces if one.kind != not_its]


def whole(owner: User, conflict: Conflict) -> Row:
    """Return one pair with as much of its texts as a page can show."""
    topics = Topic.objects.for_user(owner).filter(pk__in=conflict.topic_ids)
    found = {topic.pk: topic for topic in topics} if conflict.topic_ids else {}
    return conflict_rows(owner, [conflict], most=MAX_WHOLE, topics=found)[0]


# --- pages ---

SAID = {
    "left": gettext_lazy("Kept the older text. The newer text moved to Trash."),
    "right": gettext_lazy("Kept the newer text. The older text moved to Trash."),
    "left-fact": gettext_lazy("Kept the older text. The newer fact is no longer current."),
    "right-fact": gettext_lazy("Kept the newer text. The older fact is no longer current."),
    "both": gettext_lazy("Kept both."),
    "merged": gettext_lazy("Merged into one."),
    "left-line": gettext_lazy("Kept the older text. The newer line was removed from its file."),
    "right-line": gettext_lazy("Kept the newer text. The older line was removed from its file."),
}


def _conflict(request: BeaconRequest, pk: UUID) -> Conflict:
    found: Conflict = get_owned_or_404(request, Conflict.objects.for_user(request.user), pk)
    return found


@signed_in("GET", "HEAD")
def conflict(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Show one whole pair, with the choices to resolve it."""
    return _page(request, _conflict(request, pk), is_open="merge" in request.GET)


def _page(request: BeaconRequest, found: Conflict, **more: Any) -> HttpResponse:
    row = whole(request.user, found)
    standing = Conflict.objects.for_user(request.user).standing().filter(pk=found.pk)
    context = {
        "row": row,
        "conflict": found,
        "is_standing": found.is_open and standing.exists(),
        "text": row.merged_text,
        "others": others_of(request.user, found) if found.is_open else [],
        "next": next_of(request),
        **more,
    }
    if is_in_inbox(request):
        return in_inbox(request, "memory/_conflict.html", context, key=found.pk)
    return render(request, "memory/conflict.html", context)


def others_of(user: User, found: Conflict) -> list[Row]:
    """Return the other open contradictions of the newer record, as rows."""
    others = contradictions.others_of(found)
    return conflict_rows(user, others) if others else []


@signed_in("POST")
def conflict_resolve(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Resolve a pair as the person saw it; one that has changed is shown again, with what they
    typed.
    """
    found = _conflict(request, pk)
    how = request.POST.get("how", "")
    # Those of the same record that can be resolved in the same way, read before this one is.
    others = contradictions.others_of(found) if request.POST.get("all") else []
    text = request.POST.get("text", "").replace("\r\n", "\n")
    typed: dict[str, Any] = {}
    if how == "merged":
        row = whole(request.user, found)
        typed = {"text": text, "is_open": True} if row.can_be_merged else {"typed": text}
        if row.can_be_merged and not request.POST.get(KEEP_SECRETS):
            both = " ".join(side.text for side in row.sides)
            if question := question_about_secrets(text, both):
                return _page(request, found, question=question, **typed)
    try:
        done = conflict_services.resolve(
            found, how, by=request.actor, seen=_seen(request), text=text,
            seen_lines=request.POST.get("lines", ""),
            dated=bool(request.POST.get("dated")),
        )  # fmt: skip
    except conflict_services.AlreadyResolved as exc:
        if text.strip():  # keep what was typed visible
            return _page(request, _conflict(request, pk), problem=str(exc), typed=text)
        messages.info(request, str(exc))
        return redirect_to(request, _next_address(request))
    except MemoryRefused as exc:
        return _page(request, _conflict(request, pk), problem=str(exc), **typed)
    if done.resolution == Conflict.How.GONE and text.strip():
        problem = _("Already resolved: one of the two texts no longer exists.")
        return _page(request, _conflict(request, pk), problem=problem, typed=text)
    if others and done.resolved_at is not None and how in ("right", "both"):
        for problem in _resolve_others(request, others, how, done.resolved_at):
            messages.warning(request, problem)
    if done.resolution == Conflict.How.GONE:
        messages.info(request, _("Already resolved: one of the two texts no longer exists."))
    else:
        other = {"left": found.right_type, "right": found.left_type}.get(how, "")
        kind = {"memoryfile": "-line", "topicfact": "-fact"}.get(other, "")
        said = SAID[how + kind]
        messages.success(request, str(said), extra_tags=_undo_tag(request, done.resolved_at))
    return redirect_to(request, _next_address(request))


def _resolve_others(
    request: BeaconRequest, others: Sequence[Conflict], how: str, at: datetime
) -> list[str]:
    """Resolve these in the same way, as one act; return why some stay open."""

    def resolve(one: Conflict) -> None:
        one.owner = request.user
        conflict_services.resolve(one, how, by=request.actor, at=at)

    return BulkResult(at).perform(others, resolve).reasons


def _seen(request: BeaconRequest) -> tuple[int, int] | None:
    """Return the versions the form was created for; none if it doesn't name them."""
    left, right = (number_of(request.POST.get(f"{side}_version", "")) for side in ("left", "right"))
    return (0, 0) if left is None or right is None else (left, right)


def _undo_tag(request: BeaconRequest, at: datetime | None) -> str:
    return offer(request, "conflicts-resolved", key=at.isoformat()) if at is not None else ""


def _next_address(request: BeaconRequest) -> str:
    """Return where to continue: where the form says, else to the next pair, else to the list."""
    if value := next_of(request):
        return value
    rest = (
        Conflict.objects.for_user(request.user).standing().order_by("kind", "created", "pk").first()
    )
    return f"{rest.get_absolute_url()}?on=1" if rest else reverse("research:inbox")


@undoes("conflicts-resolved", key=exact_moment)
def _reopen(request: BeaconRequest, key: datetime) -> str:
    """Undo conflicts that were resolved together: restore both sides and reopen each conflict."""
    done = conflict_services.take_back_of(request.user, key, by=request.actor)
    words = ngettext("Conflict reopened.", "%(n)d conflicts reopened.", done.done)
    say_undone(request, done, words, _("This conflict is already open. Nothing was changed."))
    return reverse("research:inbox") + "?show=conflict"


@signed_in("POST")
def conflicts_bulk(request: BeaconRequest) -> HttpResponse:
    """Keep both sides of the selected pairs, or of all near-duplicates that match the filters."""
    rows = Conflict.objects.for_user(request.user).standing()
    if request.POST.get("all"):
        if kind := choice_param(request.GET, "kind", KINDS):
            rows = rows.filter(kind=kind)
        if topic := uuid_of(request.GET.get("topic", "")):
            rows = rows.filter(topic_ids__contains=[str(topic)])
    else:
        rows = rows.filter(pk__in=uuids_of(request.POST.getlist("conflict")))
    chosen = list(rows.select_related("owner")[:MAX_LISTED])
    if not chosen:
        messages.warning(request, _("Select at least one open pair."))
        return redirect_back(request, reverse("research:inbox") + "?show=conflict")
    done = conflict_services.keep_both_of(chosen, by=request.actor)
    level = messages.WARNING if done.problems else messages.SUCCESS
    undo = _undo_tag(request, done.key if done.done else None)
    said = conflict_services.describe(done)
    messages.add_message(request, level, said, extra_tags=undo)
    return redirect_back(request, reverse("research:inbox") + "?show=conflict")


@signed_in("POST")
def conflicts_scan(request: BeaconRequest) -> HttpResponse:
    """Search for near-duplicates now, and close conflicts that have lost a side."""
    conflict_services.resolve_missing_sides(request.user)
    before = Conflict.objects.for_user(request.user).count()
    contradictions.report_since(request.user, conflict_services.day_ago())
    conflict_services.find(request.user)
    number = Conflict.objects.for_user(request.user).count() - before
    if number:
        words = ngettext("1 pair found.", "%(n)d pairs found.", number)
        messages.success(request, words % {"n": number})
    else:
        messages.info(request, _("No new contradictions or near-duplicates found."))
    return redirect_back(request, reverse("research:inbox") + "?show=conflict")
