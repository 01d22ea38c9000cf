"""Ratings: the control on a result or an answer, and the Inbox's list of what was rated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.db.models import Count
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.vary import vary_on_headers

from beacon_site.db.keyset import page_of
from beacon_site.db.message_fields import with_words
from beacon_site.text.cleaning import one_line, shorten, text_param
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import get_owned_or_404, next_of, redirect_back, signed_in
from memory.models import Message, Rating, User, as_of, origins
from memory.models.errors import InvalidValue, MemoryRefused
from memory.models.ratings import MAX_REASON_LENGTH, can_be_rated
from memory.pages.shared import filter_bar
from memory.pages.shared.filter_bar import Choice, Facet, FilterBar
from memory.pages.shared.undo import act, offer, undoes
from memory.services.search import ratings
from memory.services.search.kinds import KINDS
from memory.services.search.recall import RecallHit

SIZE = 30  # ratings per page
MAX_LABEL_LENGTH, MAX_SHOWN_LENGTH = (
    60,
    200,
)  # characters of what was rated: in a button, in the list
NONE = "none"  # the value that clears a rating
Value = Rating.Value


# --- the control ---


@dataclass(frozen=True, slots=True)
class RatingControl:
    """The buttons that rate a result or an answer. `anchor` is the element that they are in."""

    question: str
    type: str
    id: UUID
    anchor: str
    label: str
    position: int = 0
    value: str = ""
    reason: str = ""
    agent: str = ""
    problem: str = ""
    is_new: bool = False  # just rated: the field for the reason is open

    MAX_REASON_LENGTH = MAX_REASON_LENGTH

    @classmethod
    def of(cls, question: str, record: Any, rating: Rating | None) -> RatingControl:
        """Return the control of a record, or of an answer (a Message)."""
        name, key, position = ratings.rated_key(record)
        anchor = f"message-{record.pk}" if isinstance(record, Message) else f"memory-{record.pk}"
        text = record.content if isinstance(record, Message) else str(record)
        label = shorten(one_line(text), MAX_LABEL_LENGTH)
        made = cls(question, name, key, anchor, label, position)
        return made if rating is None else made.rated(rating)

    def rated(self, rating: Rating) -> RatingControl:
        return replace(self, value=rating.value, reason=rating.reason, agent=rating.agent)

    @property
    def key(self) -> str:
        """Return the control's ID on the page."""
        return f"rate-{self.anchor}"

    @property
    def fields(self) -> SafeString:
        """Return the fields for what is rated: thirty rows have them, some twice."""
        names = ("question", "type", "id", "position")
        pairs = ((name, getattr(self, name)) for name in names)
        return format_html_join("", '<input type="hidden" name="{}" value="{}">', pairs)

    @property
    def is_useful(self) -> bool:
        return self.value == Value.USEFUL

    @property
    def is_not_useful(self) -> bool:
        return self.value == Value.NOT_USEFUL


def control_of(question: str, mode: str, hit: RecallHit) -> RatingControl | None:
    """Return the control of a result; None if ratings don't change this search."""
    if mode == "exact" or as_of.current() is not None or not can_be_rated(question):
        return None
    applied = hit.rating
    own = None if applied is None or applied.is_answer else applied
    return RatingControl.of(question, hit.record, own)


def controls_of(answers: Sequence[Message], questions: Sequence[str]) -> list[RatingControl | None]:
    """Return the controls of a session's answers, with the text that each answers: one query."""
    rated = ratings.of_answers(answers[0].session) if answers else {}
    return [
        RatingControl.of(question, answer, rated.get(answer.position))
        if (question := ratings.question_in(text))
        else None
        for answer, text in zip(answers, questions, strict=True)
    ]


@signed_in("POST")
def rate(request: BeaconRequest) -> HttpResponse:
    """Rate a result or an answer, or clear its rating, with an Undo in the toast.

    If that's rejected, the typed reason is shown again.
    """
    sent = request.POST
    question, value, reason = (sent.get(name, "") for name in ("question", "value", "reason"))
    record = _sent_record(request)
    control = RatingControl.of(question, record, None)
    try:
        _apply(request, question, record, value, reason)
    except MemoryRefused as exc:
        typed = replace(control, value=value, reason=reason, problem=str(exc), is_new=True)
        return _render_control(request, typed)
    if not _is_in_place(request):
        return redirect_back(request, reverse("memory:recall"))
    rating = ratings.rating_of(request.user, question, record)
    if rating is not None:
        control = replace(control.rated(rating), is_new=not reason)
    return _render_control(request, control)


def _is_in_place(request: BeaconRequest) -> bool:
    """Return True if htmx swaps the control only."""
    return bool(request.htmx) and str(request.htmx.target or "").startswith("rate-")


def _render_control(request: BeaconRequest, control: RatingControl) -> HttpResponse:
    is_in_place = _is_in_place(request)
    back = next_of(request).partition("#")[0]
    context = {"rating": control, "back": back, "is_in_place": is_in_place}
    template = "_rating" if is_in_place else "rating"
    return render(request, f"memory/{template}.html", context)


def _sent_record(request: BeaconRequest) -> Any:
    sent = request.POST
    position = sent.get("position", "")
    try:
        key = UUID(sent.get("id", ""))
        at = int(position) if position.isascii() and len(position) < 9 else 0
    except ValueError as exc:
        raise Http404 from exc
    return _record(request.user, sent.get("type", ""), key, at)


def _record(user: User, name: str, key: UUID, position: int) -> Any:
    """Return the person's record, or the answer. Raises Http404."""
    if name == ratings.ANSWER:
        record: Any = ratings.answer_of(user, key, position) if position >= 0 else None
    else:
        record = ratings.record_of(user, key, name) if name in KINDS else None
    if record is None:
        raise Http404
    return record


def _apply(
    request: BeaconRequest,
    question: str,
    record: Any,
    value: str,
    reason: str,
    *,
    undo: bool = True,
) -> None:
    """Rate or clear, and say so. Raises MemoryRefused."""
    user, by = request.user, request.actor
    with transaction.atomic():
        before = ratings.rating_of(user, question, record)
        if value != NONE:
            ratings.rate(user, question, record, value, by=by, reason=reason)
        elif before is not None:
            ratings.clear(before, by=by)
        else:
            return
        key = _offer(request, question, record, before, value) if undo else ""
    messages.success(request, _rated_message(value), extra_tags=key)


def _rated_message(value: str) -> str:
    if value == Value.USEFUL:
        return _("Rated useful. It now ranks higher for this question.")
    if value == Value.NOT_USEFUL:
        return _("Rated not useful. It now ranks lower for this question.")
    return _("Rating cleared.")


def _offer(
    request: BeaconRequest, question: str, record: Any, before: Rating | None, now: str
) -> str:
    name, key, position = ratings.rated_key(record)
    return offer(
        request,
        "rating",
        question=question,
        type=name,
        id=str(key),
        position=position,
        value=before.value if before else NONE,
        reason=before.reason if before else "",
        now=now,
    )


@undoes("rating")
def _restore_rating(
    request: BeaconRequest,
    question: str,
    type: str,
    id: str,
    position: int,
    value: str,
    reason: str,
    now: str,
) -> str:
    """Restore the rating, or that there was none."""
    record = _record(request.user, type, UUID(id), position)
    rating = ratings.rating_of(request.user, question, record)
    if (rating.value if rating else NONE) != now:
        raise InvalidValue(
            _("This rating has changed since then, so your change couldn’t be undone.")
        )
    _apply(request, question, record, value, reason, undo=False)
    return f"{reverse('memory:recall')}?{urlencode({'q': question})}"


# --- the list ---


def _rows(user: User, rated: Sequence[Rating]) -> list[dict[str, Any]]:
    """Return the ratings as the list shows them.

    `url` is empty if what was rated can no longer be found.
    """
    records = ratings.records_of(user, rated)
    places = origins.of(user, {one.actor for one in rated})
    kinds = _kinds()
    rows = []
    for one in rated:
        record = records.get(one.pk)
        text = record.content if isinstance(record, Message) else str(record or "")
        who = places.get(one.actor)
        rows.append(
            {
                "rating": one,
                "ask_url": f"{reverse('memory:recall')}?{urlencode({'q': one.question})}",
                "said": shorten(one_line(text), MAX_SHOWN_LENGTH),
                "kind": kinds.get(one.record_type, one.record_type),
                "url": _url(one, record),
                "who": who.words if who else "",
            }
        )
    return rows


def _kinds() -> dict[str, str]:
    return {
        "note": _("note"), "observation": _("observation"), "fact": _("fact"),
        "report": _("report"), "section": _("section of a memory file"),
        ratings.ANSWER: _("answer"),
    }  # fmt: skip


def _url(rating: Rating, record: Any) -> str:
    if record is None:
        return ""
    if isinstance(record, Message):
        return f"{record.session.get_absolute_url()}#message-{record.pk}"
    return KINDS[rating.record_type].url(record)


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request", "HX-Target")
def rated_list(request: BeaconRequest) -> HttpResponse:
    """List what was rated not useful, or with `?show=useful` what was rated useful, newest first."""
    rated = Rating.objects.for_user(request.user)
    facets = _facets(rated)
    query = filter_bar.read(request.GET, facets)
    show = Value.USEFUL if query.get("show") == Value.USEFUL else Value.NOT_USEFUL
    found = filter_bar.in_days(
        rated.filter(value=show), filter_bar.first_day(query), filter_bar.first_day(query, "to")
    )
    if (kind := query.get("type")) in _kinds():
        found = found.filter(record_type=kind)
    found = with_words(found, text_param(query), "question", "reason")
    cursor = request.GET.get("cursor", "")
    page = page_of(found, by="created", falling=True, cursor=cursor, size=SIZE)
    total = found.count()
    context = {
        "rows": _rows(request.user, page.rows),
        "next_cursor": page.next_cursor,
        "show": show,
        "bar": FilterBar(
            reverse("memory:ratings"), "ratings", query,
            label=_("Search ratings"), placeholder=_("Search questions and reasons"), facets=facets,
            count=ngettext("%(n)d rating", "%(n)d ratings", total) % {"n": total},
        ),
        "here": request.get_full_path(),
    }  # fmt: skip
    is_part = request.htmx and request.htmx.target == "ratings"
    return render(request, f"memory/{'_' if is_part else ''}ratings.html", context)


def _facets(rated: Any) -> list[Facet]:
    """Return what the list can be filtered by, with counts: one query."""
    by_value: Counter[str] = Counter()
    by_kind: Counter[str] = Counter()
    rows = rated.order_by().values_list("value", "record_type").annotate(Count("pk"))
    for value, kind, number in rows:
        by_value[value] += number
        by_kind[kind] += number
    useful = Choice(Value.USEFUL, _("Useful"), by_value[Value.USEFUL])
    return [
        Facet(
            "show", _("Rating"), [useful], any_label=_("Not useful"),
            any_count=by_value[Value.NOT_USEFUL],
        ),
        Facet(
            "type", _("Type"),
            [Choice(name, words, by_kind[name]) for name, words in _kinds().items()],
        ),
        filter_bar.day_facet(),
    ]  # fmt: skip


@act("rating-clear")
def rating_clear(request: BeaconRequest, pk: UUID) -> str:
    rating = get_owned_or_404(request, Rating.objects.for_user(request.user), pk)
    record = ratings.rated_record(rating)
    with transaction.atomic():
        ratings.clear(rating, by=request.actor)
        undo = _offer(request, rating.question, record, rating, NONE) if record else ""
    messages.success(request, _rated_message(NONE), extra_tags=undo)
    return reverse("memory:ratings")
