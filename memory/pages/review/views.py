"""Pages of Review: proposals, review rules, quarantine and blocked sources."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Count
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext
from django.views.decorators.vary import vary_on_headers

from beacon_site.db.message_fields import with_words
from beacon_site.text import messages as stored
from beacon_site.text.cleaning import choice_param, text_param, uuids_of
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
from memory.accounts.agents import agents_of
from memory.models import Agent, Proposal, RefusedSource, ReviewLevel, User, origins
from memory.models.errors import MemoryRefused
from memory.pages.review import proposals as review_page
from memory.pages.shared import filter_bar
from memory.pages.shared.filter_bar import Choice, Facet, FilterBar
from memory.pages.shared.undo import (
    act,
    exact_moment,
    offer,
    offer_settings,
    say_undone,
    settings_now,
    undoes,
)
from memory.services.records.acts import BulkResult
from memory.services.review import acts as review_acts
from memory.services.review import blocking, outdated, trust
from memory.services.review import proposals as review_services
from memory.services.review import quarantine as aside
from memory.services.review.apply import TRASH, MergeConflict
from memory.services.review.proposals import DEFAULT_LEVEL, LEVEL_NAMES, REVIEWED_KINDS
from memory.services.review.quarantine import MODELS
from memory.services.review.trust import TrackRecord, track_records

USUAL = "usual"  # a kind without its own rule uses the default
# The end of a sentence that begins with a kind of write, such as “Notes by agents …”.
LABELS = {
    "accept": _lazy("are saved immediately"),
    "hold risky": _lazy("wait for approval if they’re risky"),
    "hold all": _lazy("always wait for approval"),
}
# The same rules as choices without a sentence.
CHOICES = {
    "accept": _lazy("Save everything immediately"),
    "hold risky": _lazy("Ask before risky changes"),
    "hold all": _lazy("Ask before every change"),
}
# What a track record counts. Columns without numbers aren’t shown.
COUNTED = {
    "waiting": _lazy("Pending"),
    "accepted": _lazy("Accepted"),
    "edited": _lazy("Edited"),
    "rejected": _lazy("Rejected"),
    "wrong": _lazy("Proved wrong"),
}


class LevelsForm(forms.Form):
    """A review rule for each kind of write, or the default."""

    def __init__(self, *args: object, own: Mapping[str, str], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        levels = [(level, LABELS[level]) for level in ReviewLevel.Level.values]
        usual = own.get(DEFAULT_LEVEL, ReviewLevel.Level.HOLD_RISKY.value)
        for kind, words in REVIEWED_KINDS.items():
            self.fields[kind] = forms.ChoiceField(
                label=words,
                choices=[(USUAL, _("Default")), *levels],
                initial=own.get(kind, USUAL),
            )
        self.fields[DEFAULT_LEVEL] = forms.ChoiceField(
            label=_("Changes by agents"),
            choices=[
                (level, format_html("<b>{}</b><small>{}</small>", CHOICES[level], words))
                for level, words in review_services.LEVEL_MEANINGS.items()
            ],
            initial=usual,
            widget=forms.RadioSelect,
        )
        self.order_fields([DEFAULT_LEVEL])

    @property
    def is_by_type(self) -> bool:
        """Return whether a type has a rule of its own, or a wrong one."""
        mine = (name for name in self.fields if name != DEFAULT_LEVEL)
        return any(name in self.errors or self[name].value() != USUAL for name in mine)

    @property
    def wanted(self) -> dict[str, str]:
        """Return the selected rules by kind; "" for the default."""
        return {kind: self.cleaned_data[kind].replace(USUAL, "") for kind in self.fields}


# --- quarantine ---


@signed_in("POST")
def quarantine_act(request: BeaconRequest) -> HttpResponse:
    """Release the selected records, or all, or move them to Trash, with an Undo in the toast."""
    name = request.POST.get("act", "")
    if request.POST.get("all"):
        records = aside.everything(request.user)
    else:
        records = aside.chosen(request.user, request.POST.getlist("record"))
    if name not in aside.ACTS or not records:
        messages.warning(request, _("Select at least one record in quarantine."))
        return redirect_back(request, reverse("research:inbox") + "?show=quarantine")
    done = aside.act(request.user, records, name, by=request.actor)
    if name == "release":
        words = ngettext("%(n)d record released.", "%(n)d records released.", done.done)
    else:
        words = ngettext("%(n)d record moved to Trash.", "%(n)d records moved to Trash.", done.done)
    if done.done:
        messages.success(request, words % {"n": done.done}, extra_tags=_undo_tag(request, done))
    _say_left(request, done)
    if done.problems:
        messages.warning(request, _("Not changed: %(why)s") % {"why": done.why})
    return redirect_back(request, reverse("research:inbox") + "?show=quarantine")


def _say_left(request: BeaconRequest, done: BulkResult) -> None:
    if done.left:
        messages.warning(request, review_acts.describe_left(done))


def _undo_tag(request: BeaconRequest, done: BulkResult) -> str:
    return offer(request, "quarantine", action=done.key)


@undoes("quarantine")
def _quarantine_again(request: BeaconRequest, action: str) -> str:
    """Undo a release or a move to Trash: the records are in quarantine again."""
    done = aside.undo_change(request.user, UUID(action), by=request.actor)
    if not done.done:
        raise MemoryRefused(
            _("The records have changed since then, so your change couldn’t be undone.")
        )
    words = ngettext("Back in quarantine.", "%(n)d records are back in quarantine.", done.done)
    undo = _undo_tag(request, done) if done.left else ""
    messages.success(request, words % {"n": done.done}, extra_tags=undo)
    _say_left(request, done)
    return reverse("research:inbox") + "?show=quarantine"


# --- blocked sources ---


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request", "HX-Target")
def refused_sources(request: BeaconRequest) -> HttpResponse:
    """List the blocked sources, how often each block applied, and a way to unblock them."""
    mine = RefusedSource.objects.for_user(request.user)
    counts = dict(mine.order_by().values_list("kind").annotate(Count("pk")))
    kinds = [Choice(*one, counts.get(one[0], 0)) for one in RefusedSource.Kind.choices]
    facets = [Facet("kind", _("Type"), kinds), filter_bar.day_facet()]
    query = filter_bar.read(request.GET, facets)
    found = filter_bar.in_days(mine, filter_bar.first_day(query), filter_bar.first_day(query, "to"))
    if (kind := query.get("kind")) in RefusedSource.Kind.values:
        found = found.filter(kind=kind)
    rows = list(with_words(found, text_param(query), "name", "reason")[: blocking.MAX])
    bar = FilterBar(
        reverse("memory:refused-sources"), "blocked", query,
        label=_("Search blocked sources"), placeholder=_("Search names and reasons"), facets=facets,
        count=ngettext("%(n)d blocked source", "%(n)d blocked sources", len(rows)) % {"n": len(rows)},
    )  # fmt: skip
    is_part = request.htmx and request.htmx.target == "blocked"
    template = f"memory/{'_' if is_part else ''}refused_sources.html"
    return render(request, template, {"rows": rows, "bar": bar})


@signed_in("GET", "POST")
def source_refuse(request: BeaconRequest, kind: str, pk: UUID) -> HttpResponse:
    """Show the effect of blocking the source of a proposal or record, and block what is selected."""
    models: dict[str, Any] = {**MODELS, "proposal": Proposal}
    if kind not in models:
        raise Http404
    about = get_owned_or_404(request, models[kind].objects.for_user(request.user), pk)
    choices = blocking.choices_of(request.user, about)
    wanted = request.POST.get("choice", "")
    chosen = next((choice for choice in choices if choice.value == wanted), None)
    problem = _("Choose what to block.") if request.method == "POST" else ""
    if request.method == "POST" and chosen is not None:
        why = request.POST.get("why", "")[:300]
        try:
            made = blocking.refuse(
                request.user, chosen.kind, chosen.name, by=request.actor, why=why
            )
        except MemoryRefused as exc:
            return _show_choices(request, kind, about, choices, str(exc))
        words = _("%(what)s is blocked.") % {"what": chosen.words}
        undo = offer(request, "source-allow", pk=made.pk)
        messages.success(request, words, extra_tags=undo)
        return redirect(next_of(request, reverse("memory:refused-sources")))
    return _show_choices(request, kind, about, choices, problem)


def _show_choices(
    request: BeaconRequest, kind: str, about: Any, choices: Sequence[Any], problem: str
) -> HttpResponse:
    """Show the page, with a link back to where it was opened."""
    if kind == "proposal":
        page = reverse("memory:proposal", args=[about.pk])
    else:
        page = reverse("memory:record-open", args=[kind, about.pk])
    context = {"about": about, "choices": choices, "problem": problem}
    context["back"] = next_of(request, page)
    return render(request, "memory/source_refuse.html", context)


@act("source-allow")
def source_allow(request: BeaconRequest, pk: UUID | str) -> str:
    """Unblock a source; what was rejected with it is pending again."""
    blocked = get_owned_or_404(request, RefusedSource.objects.for_user(request.user), pk)
    name, number = blocked.name, blocking.allow(blocked, by=request.actor)
    words = _("“%(name)s” is unblocked.") % {"name": name}
    if number:
        back = ngettext(
            "1 proposal is pending again.", "%(n)d proposals are pending again.", number
        )
        words = f"{words} {back % {'n': number}}"
    messages.success(request, words)
    return reverse("memory:refused-sources")


# --- proposals and review rules ---


def _proposal(request: BeaconRequest, pk: UUID) -> Proposal:
    found: Proposal = get_owned_or_404(request, Proposal.objects.for_user(request.user), pk)
    return found


@signed_in("GET", "HEAD")
def proposal(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Show one whole proposal, with the choices for it."""
    return _page(request, _proposal(request, pk))


def _page(request: BeaconRequest, found: Proposal, **more: Any) -> HttpResponse:
    row = review_page.whole(request.user, found)
    if row.conflict and "conflict" not in more and "problem" not in more:
        mine = {"content": row.conflict.merge.text()}
        fields = review_page.edit_fields(found, mine)
        more = {"conflict": row.conflict, "fields": fields, "is_open": True, **more}
    context = {
        "proposal": found,
        "row": row,
        "fields": review_page.edit_fields(found),
        "target_url": review_page.target_url(found),
        "next": next_of(request),
        **review_page.effects(request.user, row),
        **more,
    }
    if is_in_inbox(request):
        return review_page.in_inbox(request, "memory/_proposal.html", context, key=found.pk)
    return render(request, f"memory/{'_proposal' if request.htmx else 'proposal'}.html", context)


@signed_in("POST")
def proposal_accept(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Accept a proposal, unchanged or as edited; if its record has changed, merge both."""
    found = _proposal(request, pk)
    names = [name for name, *_rest in review_page.edit_fields(found)]
    typed = review_page.typed_of(request.POST, names)
    after = review_page.edited(found, typed) if "edit" in request.POST else {}
    if "newer" in request.POST:
        behind = outdated.outdated(request.user, [found]).get(found.pk, [])
        after = outdated.with_newer_texts(found, behind)
    token = request.POST.get("seen", "")
    if "edit" in request.POST and not request.POST.get(KEEP_SECRETS):
        held = " ".join(text for _name, _label, text, _height in review_page.edit_fields(found))
        if question := question_about_secrets(" ".join(typed.values()), held):
            fields = review_page.edit_fields(found, typed)
            return _page(request, found, question=question, fields=fields, is_open=True, seen=token)
    try:
        applied = review_services.accept(found, by=request.actor, after=after or None, seen=token)
    except MergeConflict as exc:
        mine = {"content": exc.merge.text()}
        fields = review_page.edit_fields(found, mine)
        return _page(request, found, conflict=exc, fields=fields, is_open=True)
    except review_services.AlreadyDecided as exc:
        if after:  # keep what was typed visible
            found = _proposal(request, pk)
            fields = review_page.edit_fields(found, typed)
            return _page(request, found, problem=str(exc), fields=fields, is_late=True)
        messages.info(request, str(exc))
        return redirect_to(request, next_of(request, found.get_absolute_url()))
    except MemoryRefused as exc:
        fields = review_page.edit_fields(found, typed)
        is_open = "edit" in request.POST
        return _page(request, found, problem=str(exc), fields=fields, is_open=is_open, seen=token)
    params = {"what": review_services.title_of(found)}
    is_trashed = found.after.get("act") == TRASH
    message = (_("Moved to Trash: %(what)s.") if is_trashed else _("Saved: %(what)s.")) % params
    if applied.merged:
        message = _("Merged with the current version and saved: %(what)s.") % params
    words = " ".join([message, *map(str, applied.warnings)])
    messages.success(request, words, extra_tags=_reopen(request, found.decided_at))
    return redirect_to(request, _on(request))


@signed_in("POST")
def proposal_reject(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Reject a proposal, with an optional reason and an Undo."""
    found = _proposal(request, pk)
    try:
        review_services.reject(found, by=request.actor, why=request.POST.get("why", ""))
    except MemoryRefused as exc:
        messages.info(request, str(exc))
        return redirect_to(request, next_of(request, found.get_absolute_url()))
    undo = _reopen(request, found.decided_at)
    messages.success(request, _("Rejected. Nothing was stored."), extra_tags=undo)
    return redirect_to(request, _on(request))


def _reopen(request: BeaconRequest, at: datetime | None) -> str:
    """Offer to undo what was decided at this time."""
    return offer(request, "proposals-decided", key=at.isoformat()) if at is not None else ""


def _on(request: BeaconRequest) -> str:
    """Return the next page: where the form says, else the next pending proposal, else the list."""
    if value := next_of(request):
        return value
    following = review_services.waiting(request.user).first()
    return following.get_absolute_url() if following else reverse("research:inbox")


@undoes("proposals-decided", key=exact_moment)
def _undo_decision(request: BeaconRequest, key: datetime) -> str:
    """Reopen what one action decided, and undo what accepting wrote."""
    done = review_acts.restore_state(request.user, key, by=request.actor)
    words = ngettext("Proposal reopened.", "%(n)d proposals reopened.", done.done)
    nothing = _("These proposals have changed since then, so your change couldn’t be undone.")
    say_undone(request, done, words, nothing)
    return reverse("research:inbox")


@signed_in("POST")
def review_bulk(request: BeaconRequest) -> HttpResponse:
    """Accept or reject the selected proposals, or all pending ones; the list keeps its filters.

    Each row sends its proposals, then a semicolon and those that repeat its text, if it has some.
    """
    act = request.POST.get("act", "")
    rows = review_page.rows_of(request.user).order_by("created", "pk")
    if writer := text_param(request.GET, "by"):
        rows = rows.filter(actor=writer)
    if record_type := choice_param(request.GET, "type", review_page.TYPES):
        rows = rows.filter(record_type=record_type)
    parts = [value.partition(";") for value in request.POST.getlist("proposal")]
    repeated = uuids_of(key for part in parts for key in part[2].split(","))
    ticked = uuids_of(key for part in parts for key in part[0].split(","))
    if act == "reject":
        ticked, repeated = [*ticked, *repeated], []
    again = [] if request.POST.get("all") else list(rows.filter(pk__in=repeated))
    if not request.POST.get("all"):
        rows = rows.filter(pk__in=ticked)
    chosen = list(rows) if act in review_acts.ACTS else []
    if not chosen:
        is_late = act in review_acts.ACTS and bool(ticked)
        why = _("Select at least one proposal, or “all pending”.")
        if is_late:
            why = _("Nothing changed. The selected proposals have already been decided.")
        messages.warning(request, why)
        return redirect_back(request, reverse("research:inbox"))
    why = request.POST.get("why", "")
    done = review_acts.decide(request.user, chosen, act, by=request.actor, why=why)
    level = messages.SUCCESS if done.done and not done.problems else messages.WARNING
    undo = _reopen(request, done.key if done.done else None)
    words = review_acts.describe(act, done)
    if again and done.done == len(chosen):  # what they repeat was accepted
        same = {
            "by": request.actor,
            "why": stored.gettext("Repeats an accepted proposal."),
            "at": done.key,
        }
        rejected = review_acts.decide(request.user, again, "reject", **same)
        words = f"{words} {review_acts.describe('reject', rejected)}"
    messages.add_message(request, level, words, extra_tags=undo)
    return redirect_back(request, reverse("research:inbox"))


@signed_in("GET", "POST")
def permissions(request: BeaconRequest) -> HttpResponse:
    """Show each writer's record, and show and set the review rules."""
    form = LevelsForm(request.POST or None, own=review_services.own_levels(request.user))
    if request.method == "POST" and form.is_valid():
        before = settings_now(request.user, "levels")
        if review_services.set_levels(request.user, form.wanted, by=request.actor):
            words = _("Review rules saved.")
            undo = offer_settings(request, "levels", before)
            messages.success(request, words, extra_tags=undo)
        else:
            messages.info(request, _("Nothing changed."))
        if not request.htmx:
            return redirect("memory:review-levels")
        form = LevelsForm(own=review_services.own_levels(request.user))
    return _permissions_page(request, form)


def _writers(
    user: User, records: Sequence[TrackRecord], own: Sequence[ReviewLevel]
) -> list[dict[str, Any]]:
    """Return a row for each agent by name, and below them for each other writer.

    A row has the writer's exceptions from the general rules, and its records of all types added up.
    """
    rows: dict[str, dict[str, Any]] = {
        str(agent.writer): {
            "name": agent.name, "agent": agent, "held_until": trust.held_until(agent),
            "used_at": getattr(agent, "used_at", None),  # when a token was last used
        }
        for agent in agents_of(user)
    }  # fmt: skip
    exceptions: dict[str, list[dict[str, Any]]] = defaultdict(list)
    named = origins.of(user, {one.writer for one in own})
    for one in own:
        rows.setdefault(
            one.writer, {"name": one.writer.partition(":")[2] or named[one.writer].words}
        )
        exceptions[one.writer].append(
            {
                "writer": one.writer,
                "kind": one.kind,
                "kind_words": LEVEL_NAMES[one.kind],
                "level": LABELS[one.level],
            }
        )
    records_of: dict[str, list[TrackRecord]] = defaultdict(list)
    for record in records:
        rows.setdefault(record.writer, {"name": record.name})
        records_of[record.writer].append(record)
    inbox = reverse("research:inbox")
    for writer, row in rows.items():
        mine = records_of[writer]
        row["own"] = exceptions[writer]
        row["kinds"] = [record.kind_words for record in mine]
        for name in ("waiting", "accepted", "edited", "rejected"):
            row[name] = sum(getattr(record, name) for record in mine)
        row["wrong"] = sum(record.wrong for record in mine if record.kind != "file")
        row["inbox_url"] = f"{inbox}?{urlencode({'show': 'proposal', 'by': writer})}"
    return list(rows.values())


def _permissions_page(request: BeaconRequest, form: LevelsForm) -> HttpResponse:
    levels = review_services.levels_of(request.user)
    own = review_services.levels_of_writers(request.user)
    records = track_records(request.user, levels, own)
    writers = _writers(request.user, records, own)
    context = {
        "form": form,
        "records": records,
        "suggested": [record for record in records if record.is_suggested],
        "writers": writers,
        "counted": {
            name: words for name, words in COUNTED.items() if any(one[name] for one in writers)
        },
    }
    template = "_permissions" if request.htmx else "permissions"
    return render(request, f"memory/{template}.html", context)


@signed_in("POST")
def writer_level(request: BeaconRequest) -> HttpResponse:
    """Set one writer's review rules for kinds of writes; an empty level removes a rule."""
    writer = request.POST.get("writer", "")[:200]
    kinds = request.POST.getlist("kind") or [""]
    levels = request.POST.getlist("level") or [""]
    wanted = {kind[:200]: level[:200] for kind, level in zip(kinds, levels, strict=False)}
    mine = Agent.objects.filter(owner=request.user)
    is_agent = any(str(one.writer) == writer for one in mine)
    known = is_agent or Proposal.objects.for_user(request.user).filter(actor=writer).exists()
    if writer.startswith("human") or not (
        known or review_services.own_levels(request.user, writer)
    ):
        raise Http404
    before = settings_now(request.user, "levels", writer)
    changed = review_services.set_levels(request.user, wanted, by=request.actor, writer=writer)
    if changed:
        undo = offer_settings(request, "levels", before, writer)
        messages.success(request, _rules_saved(writer, wanted), extra_tags=undo)
    elif len(wanted) > 1:
        messages.info(request, _("Nothing changed."))
    if not request.htmx:
        return redirect(next_of(request, reverse("memory:review-levels")))
    return _permissions_page(request, LevelsForm(own=review_services.own_levels(request.user)))


def _rules_saved(writer: str, values: Mapping[str, str]) -> str:
    """Return what to say about changed rules of a writer."""
    name = writer.partition(":")[2] or writer
    if len(values) > 1:
        return _("Review rules for %(name)s saved.") % {"name": name}
    [(kind, level)] = values.items()
    params = {"name": name, "kind": LEVEL_NAMES[kind], "level": LABELS.get(level, "")}
    if level:
        return _("%(kind)s by %(name)s now %(level)s.") % params
    return _("%(kind)s by %(name)s follow the general rules again.") % params
