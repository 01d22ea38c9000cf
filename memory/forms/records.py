"""Forms by which people write and correct notes and observations; the rules are `NoteChecks`'."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.core.validators import ProhibitNullCharactersValidator
from django.utils.translation import gettext_lazy as _

from memory.errors import InvalidValue
from memory.forms.fields import CleanTextField
from memory.models import Note, Observation, Sensitivity, Topic, User
from memory.notes.checks import TYPICAL, NoteChecks

NOTHING = _("Write what is to be remembered: there is nothing to read.")
USUAL = ""  # the stability that is usual for the kind
WRITABLE_KINDS = [Note.Kind.LOG, Note.Kind.SUMMARY, Note.Kind.RULE]


class _Typed(forms.CharField):
    """A field whose text goes to `NoteChecks` as it was typed."""

    def __init__(self, **more: Any) -> None:
        super().__init__(strip=False, **more)
        # What cannot be stored is taken out and said so, rather than refused.
        nul = ProhibitNullCharactersValidator
        self.validators = [one for one in self.validators if not isinstance(one, nul)]


class RecordForm(forms.Form):
    """What notes and observations have in common."""

    CHECKED: ClassVar[tuple[str, ...]] = ("content", "tags", "sensitivity")
    TOGETHER: ClassVar[tuple[str, ...]] = ()
    is_pinned = False

    content = _Typed(
        label=_("Text to remember"),
        error_messages={"required": NOTHING},
        widget=forms.Textarea(attrs={"rows": 8}),
        help_text=_("Markdown, at most 64 KiB. Recall finds it by these words."),
    )
    tags = _Typed(
        label=_("Tags"),
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text=_("Separate tags with commas. At most 50, of 80 characters each."),
    )
    sensitivity = forms.ChoiceField(
        label=_("Sensitivity"),
        choices=Sensitivity.choices,
        initial=Sensitivity.NORMAL,
        help_text=_("What is sensitive goes to no outside model or embedder."),
    )

    def clean(self) -> dict[str, Any]:
        """Let the one validation look at each field; `cleaned_labels` then names the cleaned ones."""
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

    def refuse(self, errors: Any) -> None:
        """Show messages beside their fields; those of a field that is not here stand above."""
        for field, told in errors.items():
            self.add_error(field if field in self.fields else None, told)

    def take(self, exc: InvalidValue) -> None:
        """Show why the record was refused."""
        self.refuse(exc.errors or {"": [str(exc)]})

    @property
    def checked(self) -> dict[str, Any]:
        """Return the fields of the record as they were checked, without disabled ones."""
        data = self.cleaned_data
        return {
            name: data[name]
            for name in self.CHECKED
            if name in data and not self.fields[name].disabled
        }


class NoteForm(RecordForm):
    """A note with all that can be said of it."""

    CHECKED = (
        "content", "kind", "stability", "ttl_days", "tags", "confidence", "sensitivity",
        "evidence", "scope",
    )  # fmt: skip
    TOGETHER = ("kind", "stability", "ttl_days", "confidence", "evidence")

    kind = forms.ChoiceField(label=_("Kind"), choices=Note.Kind.choices, initial=Note.Kind.LOG)
    stability = forms.ChoiceField(
        label=_("Stability"),
        required=False,
        choices=[(USUAL, _("Default for this kind")), *Note.Stability.choices],
        help_text=_(
            "Default: a log is volatile for 30 days, a summary for 7. A rule is stable. A permanent "
            "note never expires."
        ),
    )
    ttl_days = _Typed(
        label=_("Expires after (days)"),
        required=False,
        widget=forms.NumberInput(attrs={"min": "1", "inputmode": "numeric"}),
        help_text=_("Required for a volatile note, optional for a stable one."),
    )
    confidence = _Typed(
        label=_("Confidence"),
        required=False,
        initial="1",
        widget=forms.NumberInput(attrs={"min": "0", "max": "1", "step": "any"}),
        help_text=_("From 0 to 1. A rule needs at least 0.8."),
    )
    evidence = _Typed(
        label=_("Evidence"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=_("What it is based on, one item per line. A rule that you write needs none."),
    )
    scope = _Typed(
        label=_("Scope"),
        required=False,
        initial="owner",
        help_text=_("owner, run:<number>, session:<id> or agent:<name>."),
    )

    def clean_stability(self) -> str:
        """Return what was chosen, or what is usual for the kind."""
        chosen: str = self.cleaned_data["stability"]
        kind = self.cleaned_data.get("kind", "")
        return chosen or TYPICAL.get(kind, (Note.Stability.STABLE, None))[0]

    def clean_ttl_days(self) -> str:
        """Return the days, those usual for the kind where both were left to it."""
        days: str = self.cleaned_data["ttl_days"].strip()
        kind = self.cleaned_data.get("kind", "")
        if not days and not self.data.get("stability") and kind in TYPICAL:
            return str(TYPICAL[kind][1] or "")
        return days

    def clean_confidence(self) -> str:
        """Return the confidence; one that was not said is full."""
        return self.cleaned_data["confidence"].strip() or "1"


class NewNoteForm(NoteForm):
    """A note written by hand; the soul, agent and user notes are written under Settings."""

    topic = forms.ModelChoiceField(
        label=_("Topic"), queryset=Topic.objects.none(), required=False, empty_label=_("None")
    )

    def __init__(self, *args: Any, owner: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["kind"].choices = [(kind, kind.label) for kind in WRITABLE_KINDS]  # type: ignore[attr-defined]
        self.fields["topic"].queryset = Topic.objects.of(owner).live().order_by("title")  # type: ignore[attr-defined]


class ObservationForm(RecordForm):
    """A finding, insight or lesson."""

    CHECKED = ("content", "tags", "sensitivity")

    category = forms.ChoiceField(
        label=_("Category"),
        choices=Observation.Category.choices,
        help_text=_("A finding is a fact, an insight a conclusion, a lesson guidance for later."),
    )

    @property
    def checked(self) -> dict[str, Any]:
        """Return the fields of the record as they were checked."""
        return {**super().checked, "category": self.cleaned_data["category"]}


class NewObservationForm(ObservationForm):
    """An observation written by hand."""

    topic = forms.ModelChoiceField(
        label=_("Topic"), queryset=Topic.objects.none(), required=False, empty_label=_("None")
    )

    def __init__(self, *args: Any, owner: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["topic"].queryset = Topic.objects.of(owner).live().order_by("title")  # type: ignore[attr-defined]


class _Editing(forms.Form):
    """Which version was edited, and why."""

    why = CleanTextField(label=_("Why, for the history"), max_length=300, required=False)
    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)


class EditNoteForm(_Editing, NoteForm):
    """A note as it is to be; what the soul, agent and user notes say is changed under Settings."""

    def __init__(self, *args: Any, record: Note, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_pinned = record.pinned
        choices = [(kind, kind.label) for kind in WRITABLE_KINDS]
        if record.kind in Note.IDENTITY:
            choices = [(Note.Kind(record.kind), Note.Kind(record.kind).label)]
            self.fields["content"].disabled = True
            self.fields["content"].help_text = _("What it says is changed under Settings.")
        self.fields["kind"].choices = choices  # type: ignore[attr-defined]
        self.fields["stability"].required = True
        self.fields["stability"].choices = Note.Stability.choices  # type: ignore[attr-defined]


class EditObservationForm(_Editing, ObservationForm):
    """An observation as it is to be."""

    def __init__(self, *args: Any, record: Observation, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


class SupersedeForm(forms.Form):
    """The note that stands in for another."""

    content = _Typed(
        label=_("What holds now"),
        error_messages={"required": NOTHING},
        widget=forms.Textarea(attrs={"rows": 8}),
        help_text=_("Everything else is as in the old note, which stays readable in the chain."),
    )
    why = CleanTextField(label=_("Why, for the history"), max_length=300, required=False)
    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)


def initial_of(record: Any) -> dict[str, Any]:
    """Return a record's fields as the form shows them."""
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
