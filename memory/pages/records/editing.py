"""Writing, editing and replacing notes and observations; `NoteChecks` has the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.vary import vary_on_headers

from beacon_site.text.cleaning import number_of
from beacon_site.text.diff import Merge, merge
from beacon_site.text.markdown import by_direction
from beacon_site.text.markdown import render as render_markdown
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import (
    CleanTextField,
    RawField,
    RefusalErrorsMixin,
    SecretConfirmationMixin,
    get_owned_or_404,
    next_of,
    redirect_to,
    report_cleaned,
    signed_in,
)
from memory.models import Agent, Note, Observation, Sensitivity, Topic, User, origins
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, MemoryRefused, StaleWrite
from memory.models.notes import MAX_CONTENT, MAX_TAG_LENGTH, MAX_TAGS
from memory.models.remembered import EXCEPT_SCOPE, OWNER_SCOPE, names_excluded
from memory.pages.shared.double_submit import idempotent_post
from memory.pages.shared.undo import offer, toast_with_undo
from memory.services.notes import saving as notes
from memory.services.notes.saving import TYPICAL, NoteChecks, edit_note
from memory.services.observations.saving import edit_observation, write_observation
from memory.services.records import history as record_history
from memory.services.review import contradictions

NOTHING = gettext_lazy("Enter some text.")
USUAL = ""  # the default stability of the kind
WRITABLE_KINDS = [Note.Kind.LOG, Note.Kind.SUMMARY, Note.Kind.RULE]


def capitalised(choices: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return the choices with capitalized labels, as other form options have."""
    return [(value, capfirst(label)) for value, label in choices]


class RecordForm(SecretConfirmationMixin, RefusalErrorsMixin):
    """The fields that notes and observations share."""

    CHECKED: ClassVar[tuple[str, ...]] = ("content", "tags", "sensitivity")
    TOGETHER: ClassVar[tuple[str, ...]] = ()
    is_pinned = False

    content = RawField(
        label=gettext_lazy("Text to remember"),
        error_messages={"required": NOTHING},
        widget=forms.Textarea(attrs={"rows": 8}),
        help_text=gettext_lazy("Markdown. This text is searchable."),
    )
    tags = RawField(
        label=gettext_lazy("Tags"),
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text=gettext_lazy("Separate tags with commas."),
    )
    sensitivity = forms.ChoiceField(
        label=gettext_lazy("Sensitivity"),
        choices=capitalised(Sensitivity.choices),
        initial=Sensitivity.NORMAL,
        help_text=gettext_lazy("Sensitive records are never sent to outside services."),
    )

    def clean(self) -> dict[str, Any]:
        """Validate all fields in one place; `cleaned_labels` then has the fields that were cleaned."""
        data = super().clean() or self.cleaned_data
        checks = NoteChecks()
        for name in self.CHECKED:
            if name in data and name in self.fields and not self.fields[name].disabled:
                data[name] = checks.one(name, data[name])
        if self.TOGETHER and all(name in data for name in self.TOGETHER):
            checks.together(data, is_pinned=self.is_pinned, by_person=True)
        self.refuse(checks.errors)
        self.cleaned_labels = [self.fields[name].label for name in checks.cleaned]
        return data

    @property
    def checked(self) -> dict[str, Any]:
        """Return the record's fields as validated, without disabled ones."""
        data = self.cleaned_data
        return {
            name: data[name]
            for name in self.CHECKED
            if name in data and not self.fields[name].disabled
        }


class NoteForm(RecordForm):
    CHECKED = (
        "content", "kind", "stability", "ttl_days", "tags", "confidence", "sensitivity",
        "evidence", "scope",
    )  # fmt: skip
    TOGETHER = ("kind", "stability", "ttl_days", "confidence", "evidence")

    kind = forms.ChoiceField(
        label=gettext_lazy("Type"), choices=capitalised(Note.Kind.choices), initial=Note.Kind.LOG
    )
    stability = forms.ChoiceField(
        label=gettext_lazy("Stability"),
        required=False,
        choices=[
            (USUAL, gettext_lazy("Default for this type")),
            *capitalised(Note.Stability.choices),
        ],
        help_text=gettext_lazy("Logs expire after 30 days, summaries after 7 days."),
    )
    ttl_days = RawField(
        label=gettext_lazy("Expires after (days)"),
        required=False,
        widget=forms.NumberInput(attrs={"min": "1", "inputmode": "numeric"}),
        help_text=gettext_lazy("Needed only for temporary notes."),
    )
    confidence = RawField(
        label=gettext_lazy("Confidence"),
        required=False,
        initial="1",
        widget=forms.NumberInput(attrs={"min": "0", "max": "1", "step": "any"}),
        help_text=gettext_lazy("Enter a number from 0 to 1. A rule needs at least 0.8."),
    )
    evidence = RawField(
        label=gettext_lazy("Evidence"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy(
            "Enter reasons, quotes or sources, one per line. Optional for rules you write."
        ),
    )
    scope = RawField(
        label=gettext_lazy("Scope"),
        required=False,
        initial="owner",
        widget=forms.Select,
        help_text=gettext_lazy("Choose who can use this note."),
    )

    def offer_scopes(self, owner: User) -> None:
        """Offer everyone, each agent, all agents but one, and the scope that the note has."""
        now = str(self["scope"].value() or OWNER_SCOPE)
        agents = Agent.objects.filter(owner=owner).order_by("name")
        names = list(agents.values_list("name", flat=True))
        choices = [(OWNER_SCOPE, _("You and all agents"))]
        scopes = [f"{kind}:{one}" for kind in ("agent", EXCEPT_SCOPE) for one in names]
        if now not in (OWNER_SCOPE, *scopes):
            scopes.append(now)
        choices += [(scope, scope_label(owner, scope)) for scope in scopes]
        self.fields["scope"].widget.choices = choices

    def clean_stability(self) -> str:
        """Return the selected stability, by default that of the kind."""
        chosen: str = self.cleaned_data["stability"]
        kind = self.cleaned_data.get("kind", "")
        return chosen or TYPICAL.get(kind, (Note.Stability.STABLE, None))[0]

    def clean_ttl_days(self) -> str:
        """Return the days until expiry, by default those of the kind."""
        days: str = self.cleaned_data["ttl_days"].strip()
        kind = self.cleaned_data.get("kind", "")
        if not days and not self.data.get("stability") and kind in TYPICAL:
            return str(TYPICAL[kind][1] or "")
        return days

    def clean_confidence(self) -> str:
        return self.cleaned_data["confidence"].strip() or "1"


def scope_label(owner: User, scope: str) -> str:
    kind, _colon, name = scope.partition(":")
    if kind == "agent" and name:
        return _("Only the agent “%(name)s”") % {"name": name}
    if kind == EXCEPT_SCOPE and name:
        *names, last = names_excluded(scope)
        if not names:
            return _("All agents except “%(name)s”") % {"name": last}
        quoted = [_("“%(text)s”") % {"text": one} for one in (*names, last)]
        params = {"names": ", ".join(quoted[:-1]), "last": quoted[-1]}
        return _("All agents except %(names)s and %(last)s") % params
    return origins.of(owner, [scope])[scope].words if name else scope


class NewRecordForm(RecordForm):
    """A new record, with a topic of its owner's."""

    topic = forms.ModelChoiceField(
        label=gettext_lazy("Topic"),
        queryset=Topic.objects.none(),
        required=False,
        empty_label=gettext_lazy("None"),
    )

    def __init__(self, *args: Any, owner: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["topic"].queryset = Topic.objects.for_user(owner).live().order_by("title")  # type: ignore[attr-defined]

    def write(self, owner: User, *, by: Actor) -> Note | Observation:
        """Write the record. Raises InvalidValue."""
        raise NotImplementedError


class NewNoteForm(NewRecordForm, NoteForm):
    """A new note; the soul, agent and user notes are written in Settings."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["kind"].choices = capitalised((kind, kind.label) for kind in WRITABLE_KINDS)  # type: ignore[attr-defined]
        self.offer_scopes(kwargs["owner"])

    def write(self, owner: User, *, by: Actor) -> Note:
        return notes.write_note(owner, by=by, topic=self.cleaned_data["topic"], **self.checked)


class ObservationForm(RecordForm):
    """A finding, insight or lesson."""

    CHECKED = ("content", "tags", "sensitivity")

    category = forms.ChoiceField(
        label=gettext_lazy("Category"),
        choices=capitalised(Observation.Category.choices),
        help_text=gettext_lazy(
            "A finding is a fact, an insight is a conclusion, and a lesson is guidance for later."
        ),
    )

    @property
    def checked(self) -> dict[str, Any]:
        """Return the record's fields as validated."""
        return {**super().checked, "category": self.cleaned_data["category"]}


class NewObservationForm(NewRecordForm, ObservationForm):
    def write(self, owner: User, *, by: Actor) -> Observation:
        topic = self.cleaned_data["topic"]
        return write_observation(owner, by=by, topic=topic, **self.checked)


class _Editing(RecordForm):
    """The version that was edited, and the reason."""

    why = CleanTextField(
        label=gettext_lazy("Reason"),
        max_length=300,
        required=False,
        help_text=gettext_lazy("This text is shown in the history."),
    )
    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)

    def save(self, record: Any, *, by: Actor, expected_version: int) -> None:
        """Save the fields. Raises StaleWrite and InvalidValue."""
        raise NotImplementedError


class EditNoteForm(_Editing, NoteForm):
    """A note being edited; the text of the soul, agent and user notes is edited in Settings."""

    def __init__(self, *args: Any, record: Note, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_pinned = record.pinned
        choices = capitalised((kind, kind.label) for kind in WRITABLE_KINDS)
        if record.kind in Note.IDENTITY:
            choices = [(Note.Kind(record.kind), Note.Kind(record.kind).label)]
            self.fields["content"].disabled = True
            self.fields["content"].help_text = gettext_lazy(
                "Edit this text under Agents or Settings."
            )
        self.fields["kind"].choices = choices  # type: ignore[attr-defined]
        self.fields["stability"].required = True
        self.fields["stability"].choices = Note.Stability.choices  # type: ignore[attr-defined]
        self.offer_scopes(record.owner)

    def save(self, record: Note, *, by: Actor, expected_version: int) -> None:
        why = self.cleaned_data["why"] or _("edited")
        edit_note(record, by=by, expected_version=expected_version, why=why, **self.checked)


class EditObservationForm(_Editing, ObservationForm):
    def __init__(self, *args: Any, record: Observation, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    def save(self, record: Observation, *, by: Actor, expected_version: int) -> None:
        why = self.cleaned_data["why"] or _("edited")
        edit_observation(record, by=by, expected_version=expected_version, why=why, **self.checked)


class SupersedeForm(SecretConfirmationMixin, RefusalErrorsMixin):
    """The note that replaces another."""

    content = RawField(
        label=gettext_lazy("New text"),
        error_messages={"required": NOTHING},
        widget=forms.Textarea(attrs={"rows": 8}),
        help_text=gettext_lazy("Other fields stay the same. The old note remains in the history."),
    )
    why = CleanTextField(label=gettext_lazy("Reason"), max_length=300, required=False)
    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)


def initial_of(record: Any) -> dict[str, Any]:
    """Return a record's fields for the form."""
    return as_typed(record.snapshot(*_NAMES[type(record)])) | {"version": record.version}


def as_typed(fields: dict[str, Any]) -> dict[str, Any]:
    """Return stored values as a person would have typed them."""
    typed = {name: "" if value is None else value for name, value in fields.items()}
    if "tags" in typed:
        typed["tags"] = ", ".join(typed["tags"])
    if "evidence" in typed:
        typed["evidence"] = "\n".join(typed["evidence"])
    if "confidence" in typed:
        typed["confidence"] = f"{typed['confidence']:g}"
    return typed


_NAMES: dict[type, tuple[str, ...]] = {
    Note: NoteForm.CHECKED,
    Observation: (*ObservationForm.CHECKED, "category"),
}


# --- editing in a row ---

MAX_LENGTH = 200_000  # characters that are read at all; the record's own rules report its limit


class InlineForm(SecretConfirmationMixin, RefusalErrorsMixin):
    """Text and tags of one record, checked by its own rules."""

    content = CleanTextField(
        label=gettext_lazy("Text"),
        max_length=MAX_LENGTH,
        strip=False,
        error_messages={"required": NOTHING},
        widget=forms.Textarea(attrs={"rows": 4, "dir": "auto", "data-focus": ""}),
    )
    tags = CleanTextField(
        label=gettext_lazy("Tags"),
        required=False,
        max_length=(MAX_TAG_LENGTH + 2) * MAX_TAGS * 2,
        help_text=gettext_lazy("Separated by commas."),
    )
    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)


# --- merging two edits ---


class Conflict(MemoryRefused):
    """Someone else changed the same record: `fields` has both edits merged.

    `seen` is the version that mine is based on, `merge` has the words of all three, `others`
    names the other fields that both changed, with their current values.
    """

    def __init__(
        self, record: Any, seen: int, mine: Mapping[str, Any], base: Mapping[str, Any]
    ) -> None:
        super().__init__(
            _(
                "This record changed after you opened it, so nothing has been saved yet. Your edits are below, merged with the newer version."
            )
        )
        self.theirs = record
        self.seen = seen
        now = record.as_json()
        # Where only they changed a field, theirs is taken.
        self.fields = {
            name: now.get(name) if typed == base.get(name) else typed
            for name, typed in mine.items()
        }
        self.others = [
            (
                record_history.field_words(record, [name])[0],
                record_history.readable_value(record, name, now[name]),
            )
            for name, typed in mine.items()
            if name != "content" and base.get(name) != typed != now.get(name) != base.get(name)
        ]
        text = now.get("content", "")
        self.merge = merge_stripped(base.get("content", ""), mine.get("content", text), text)
        if "content" in mine:
            self.fields["content"] = self.merge.text()
        self.writers = record_history.writers_since(record, seen)


def merge_stripped(base: str, mine: str, theirs: str) -> Merge:
    return merge(base.strip(), mine.strip(), theirs.strip())


MERGING = frozenset({"merge", "compose", "choose"})  # the buttons of the merge screen
COMPOSING = frozenset({"compose", "choose"})  # those that save nothing


def merge_screen(
    both: Merge, mine: str, seen: int, chosen: Mapping[int, str] | None = None
) -> dict[str, Any]:
    """Return the context of `_record_merge.html`; `mine` is the text based on version `seen`."""
    return {"hunks": both.hunks(chosen or {}), "mine": mine, "base_version": seen}


def merged_again(
    sent: QueryDict,
    text_at: Callable[[int], str | None],
    join: Callable[[str, str, str], Merge],
    *,
    based_on: str = "version",
) -> tuple[str, dict[str, Any]]:
    """Merge the two edits of a merge screen again, with the sides selected for each place.

    Returns the merged text, and the context of `_record_merge.html`. `text_at` returns the text of
    a version, and `based_on` is the field with the version that is merged with.
    """
    mine = sent.get("mine", "").replace("\r\n", "\n")
    seen, newest = (number_of(sent.get(name, "")) or 0 for name in ("base_version", based_on))
    both = join(text_at(seen) or "", mine, text_at(newest) or "")
    chosen = {n: sent.get(f"choice-{n}", "mine") for n in range(len(both.conflicts))}
    screen = merge_screen(both, mine, seen, chosen)
    return both.text(chosen), {**screen, "is_composed": "choose" not in sent}


def save_edit(record: Any, form: Any, *, by: Actor) -> None:
    """Save a valid form that was based on the version in its field.

    If others changed other fields (a pin, a lock), that isn't a conflict. Raises Conflict if they
    changed the same fields, InvalidValue with the reasons by field.
    """
    seen = form.cleaned_data["version"]
    try:
        form.save(record, by=by, expected_version=seen)
    except StaleWrite as exc:
        record.refresh_from_db()
        # A version that never existed means nothing was seen: the whole history counts as
        # new.
        seen = seen if seen <= record.version else 0
        base, now = record_history.fields_at(record, seen), record.as_json()
        if any(base.get(name) != now.get(name) for name in form.checked):
            raise Conflict(record, seen, form.checked, base) from exc
        form.save(record, by=by, expected_version=record.version)


# --- pages ---


@signed_in("GET", "POST")
@vary_on_headers("HX-Request")
@idempotent_post
def note_new(request: BeaconRequest) -> HttpResponse:
    """Write a note. `?kind=rule` selects the kind with its defaults, and `text` is its text."""
    kind = request.GET.get("kind", "")
    first = ({"kind": kind} if kind in TYPICAL else {}) | _begun(request)
    form = NewNoteForm(request.POST or None, owner=request.user, initial=first)
    return _new(request, form, "note", _("New note"), _("Note saved."))


@signed_in("GET", "POST")
@vary_on_headers("HX-Request")
@idempotent_post
def observation_new(request: BeaconRequest) -> HttpResponse:
    """Write an observation; `text` in the URL is its text."""
    form = NewObservationForm(request.POST or None, owner=request.user, initial=_begun(request))
    return _new(request, form, "observation", _("New observation"), _("Observation saved."))


def _begun(request: BeaconRequest) -> dict[str, str]:
    """Return the text that was begun in Remember."""
    text = request.GET.get("text", "")[:MAX_CONTENT]
    return {"content": text} if text else {}


def _new(
    request: BeaconRequest, form: NewRecordForm, type: str, heading: str, text: str
) -> HttpResponse:
    if request.method == "POST" and form.is_valid():
        try:
            made = form.write(request.user, by=request.actor)
        except InvalidValue as exc:
            form.take(exc)
        else:
            return _saved(request, made, form, text)
    context = {
        "form": form,
        "type": type,
        "heading": heading,
        "list_url": reverse(f"memory:{type}s"),
        "list_name": _("Notes") if type == "note" else _("Observations"),
    }
    template = "memory/_record_new.html" if request.htmx else "memory/record_new.html"
    return render(request, template, context)


def _record(request: BeaconRequest, model: Any, pk: UUID) -> Any:
    return get_owned_or_404(request, model.objects.for_user(request.user).live(), pk)


@signed_in("GET", "POST")
@vary_on_headers("HX-Request")
def note_edit(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Edit a note; if someone else did too, merge both edits on one page."""
    note = _record(request, Note, pk)
    form = EditNoteForm(request.POST or None, record=note, initial=initial_of(note))
    return _edit(request, note, form)


@signed_in("GET", "POST")
@vary_on_headers("HX-Request")
def observation_edit(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Edit an observation; if someone else did too, merge both edits on one page."""
    observation = _record(request, Observation, pk)
    initial = initial_of(observation)
    form = EditObservationForm(request.POST or None, record=observation, initial=initial)
    return _edit(request, observation, form)


def _edit(request: BeaconRequest, record: Any, form: Any) -> HttpResponse:
    context: dict[str, Any] = {"record": record, "type": record.record_type(), "form": form}
    sent = request.POST
    screen: dict[str, Any] = {}
    if MERGING & sent.keys():
        words_at = partial(record_history.words_at, record)
        text, screen = merged_again(sent, words_at, merge_stripped)
        form = context["form"] = type(form)({**sent.dict(), "content": text}, record=record)
    if COMPOSING & sent.keys():
        context |= {**screen, "form": type(form)(record=record, initial=form.data)}
    elif request.method == "POST" and form.is_valid():
        try:
            save_edit(record, form, by=request.actor)
        except Conflict as exc:
            context |= _merge_screen(exc, form)
        except MemoryRefused as exc:
            form.take(exc)
        else:
            message = _("Saved as version %(version)d.") % {"version": record.version}
            return _saved(request, record, form, message)
    template = "memory/_record_edit.html" if request.htmx else "memory/record_edit.html"
    return render(request, template, context)


def _saved(request: BeaconRequest, record: Any, form: RecordForm, text: str) -> HttpResponse:
    """Continue where the form says, or on the record's page if it contradicts something."""
    toast_with_undo(request, record, text, seen=form.cleaned_data.get("version"))
    report_cleaned(request, form.cleaned_labels)
    pairs = contradictions.report(record, by=request.actor)
    page = record.get_absolute_url()
    return redirect_to(
        request, page if any(one.is_open for one in pairs) else next_of(request, page)
    )


def _merge_screen(conflict: Conflict, form: Any) -> dict[str, Any]:
    """Return the merge screen: both edits merged, based on the newest version."""
    theirs, why = conflict.theirs, form.cleaned_data["why"]
    typed = as_typed(conflict.fields) | {"version": theirs.version, "why": why}
    screen = merge_screen(conflict.merge, form.cleaned_data["content"], conflict.seen)
    return {**screen, "conflict": conflict, "form": type(form)(record=theirs, initial=typed)}


@signed_in("GET", "POST")
@vary_on_headers("HX-Request")
def supersede(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Write the note that replaces this one."""
    note: Note = _record(request, Note, pk)
    if note.kind in Note.IDENTITY:
        raise Http404
    first = {"content": note.content, "version": note.version}
    form = SupersedeForm(request.POST or None, initial=first)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            made = notes.supersede(
                note,
                data["content"],
                by=request.actor,
                expected_version=data["version"],
                why=data["why"],
            )
        except StaleWrite as exc:
            note.refresh_from_db()
            form.on_newest(note, exc)
            form.take(exc)
        except MemoryRefused as exc:
            form.take(exc)
        else:
            undo = offer(request, "unmerge", key=made.pk)
            message = _("The new note replaces the old one.")
            messages.success(request, message, extra_tags=undo)
            return redirect_to(request, made.get_absolute_url())
    template = "memory/_note_supersede.html" if request.htmx else "memory/note_supersede.html"
    html = by_direction(render_markdown(note.content))
    return render(request, template, {"record": note, "form": form, "html": html})
