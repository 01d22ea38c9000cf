"""What every form says of what was typed: in Beacon's words, where Django has bare ones.

A form takes `Form`, or `OwnWords` before one of Django's own.  A field's own `error_messages` win:
they are for what its label does not make plain.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory.forms.fields import TOO_LONG

_NOT_OFFERED = gettext_lazy("“%(value)s” is not among the choices. Choose one that is offered.")
_GONE = gettext_lazy("“%(value)s” is not there any more, or not yours. Choose one that is offered.")
_TICK = gettext_lazy("Tick what is shown here.")
_NO_FILE = gettext_lazy("No file came along. Choose it once more, and send it again.")

# By kind of field, the first that fits: what to do where it is empty, and what is wrong else.
_WORDS: tuple[tuple[type[forms.Field], Any, dict[str, Any]], ...] = (
    (
        forms.FileField,
        gettext_lazy("Choose a file first."),
        {
            "invalid": _NO_FILE,
            "missing": _NO_FILE,
            "empty": gettext_lazy("This file is empty."),
            "contradiction": gettext_lazy("Choose a file or tick the box, not both."),
            "max_length": gettext_lazy(
                "Its name has %(length)d characters, and at most %(max)d fit. Call it something shorter."
            ),
        },
    ),
    (
        forms.ModelMultipleChoiceField,
        gettext_lazy("“%(label)s” is missing: tick at least one."),
        {"invalid_choice": _GONE, "invalid_pk_value": _TICK, "invalid_list": _TICK},
    ),
    (
        forms.MultipleChoiceField,
        gettext_lazy("“%(label)s” is missing: tick at least one."),
        {"invalid_choice": _NOT_OFFERED, "invalid_list": _TICK},
    ),
    (
        forms.ModelChoiceField,
        gettext_lazy("“%(label)s” is missing: choose one."),
        {"invalid_choice": _GONE},
    ),
    (
        forms.ChoiceField,
        gettext_lazy("“%(label)s” is missing: choose one."),
        {"invalid_choice": _NOT_OFFERED},
    ),
    (forms.BooleanField, gettext_lazy("Tick “%(label)s” first."), {}),
    (
        forms.DecimalField,
        gettext_lazy("“%(label)s” is missing: type a number."),
        {"invalid": gettext_lazy("This is no number. Type one such as 12.50.")},
    ),
    (
        forms.IntegerField,
        gettext_lazy("“%(label)s” is missing: type a whole number."),
        {"invalid": gettext_lazy("This is no whole number. Type digits alone.")},
    ),
    (
        forms.DateField,
        gettext_lazy("“%(label)s” is missing: give a day, such as 2026-03-31."),
        {"invalid": gettext_lazy("There is no such day. Give year-month-day, as in 2026-03-31.")},
    ),
    (
        forms.EmailField,
        gettext_lazy("“%(label)s” is missing: type an e-mail address."),
        {"invalid": gettext_lazy("This is no e-mail address. Type one such as ada@example.org.")},
    ),
    (forms.Field, gettext_lazy("“%(label)s” is missing: type it in."), {}),
)
_OF_ANY: dict[str, Any] = {
    "max_length": TOO_LONG,
    "min_value": gettext_lazy("This is too small: the least is %(limit_value)s."),
    "max_value": gettext_lazy("This is too large: the most is %(limit_value)s."),
    "max_digits": gettext_lazy("It has too many digits: at most %(max)d fit."),
    "max_decimal_places": gettext_lazy("At most %(max)d digits may follow the point."),
    "max_whole_digits": gettext_lazy("At most %(max)d digits may stand before the point."),
    "null_characters_not_allowed": gettext_lazy(
        "It holds a character that cannot be stored (NUL). Type it once more, or paste it elsewhere "
        "first."
    ),
}


class OwnWords(forms.BaseForm):
    """A form whose fields say in Beacon's words what is wrong, and what would be right."""

    def full_clean(self) -> None:
        """Give each field its words before it is looked at: a form may add fields until then."""
        for name, field in self.fields.items():
            label = field.label or name.replace("_", " ")
            if field.widget.is_hidden:
                told = _("The form came without “%(label)s”: open the page anew and try again.")
                field.error_messages |= _missing(field, told, label)
            else:
                _give_words(field, label)
        super().full_clean()


class Form(OwnWords, forms.Form):
    """What Beacon's forms are made of."""


def _give_words(field: forms.Field, label: Any) -> None:
    needed, words = next(one[1:] for one in _WORDS if isinstance(field, one[0]))
    usual = _djangos(field)
    for code, told in (_OF_ANY | words).items():
        if field.error_messages.get(code) is usual.get(code):
            field.error_messages[code] = told
    field.error_messages |= _missing(field, needed, label)


def _missing(field: forms.Field, told: Any, label: Any) -> dict[str, Any]:
    """Return the words for an empty field, unless it has its own."""
    if field.error_messages.get("required") is not _djangos(field).get("required"):
        return {}
    return {"required": str(told) % {"label": label}}


def _djangos(field: forms.Field) -> dict[str, Any]:
    """Return what Django says of such a field by itself."""
    said: dict[str, Any] = {}
    for kind in reversed(type(field).__mro__):
        said |= getattr(kind, "default_error_messages", {})
    return said
