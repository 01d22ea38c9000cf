"""What is wrong with a field, in plain words. Pydantic's own messages are technical."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

_TEXT, _WHOLE, _NUMBER, _YES_NO = (
    _lazy("must be text"), _lazy("must be a whole number"), _lazy("must be a number"),
    _lazy("must be true or false"),
)  # fmt: skip
_ONE_OF, _OBJECT = _lazy("must be %(expected)s"), _lazy("must be an object")
_TYPES: dict[str, Any] = {
    "extra_forbidden": _lazy("isn’t a known field"), "missing": _lazy("is required"),
    "string_type": _TEXT, "list_type": _lazy("must be a list"),
    "dict_type": _OBJECT, "model_type": _OBJECT, "model_attributes_type": _OBJECT,
    "int_type": _WHOLE, "int_parsing": _WHOLE, "int_from_float": _WHOLE,
    "float_type": _NUMBER, "float_parsing": _NUMBER,
    "bool_type": _YES_NO, "bool_parsing": _YES_NO, "literal_error": _ONE_OF, "enum": _ONE_OF,
    "greater_than_equal": _lazy("must be at least %(ge)s"),
    "less_than_equal": _lazy("must be at most %(le)s"),
    "string_too_long": _lazy("must be at most %(max_length)s characters long"),
    "too_long": _lazy("must have at most %(max_length)s entries"),
}  # fmt: skip


def why_invalid(error: Mapping[str, Any]) -> str:
    """Return what is wrong with a field, from one of Pydantic's errors."""
    context: dict[str, Any] = error.get("ctx", {})
    if error["type"] in ("string_too_short", "too_short") and context["min_length"] == 1:
        return _("can’t be empty")
    if error["type"] in _TYPES:
        return str(_TYPES[error["type"]]) % context
    return str(error["msg"]).removeprefix("Value error, ")
