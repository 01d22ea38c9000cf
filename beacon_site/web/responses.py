"""Responses shared by pages: redirects and 409 Conflict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from functools import wraps
from typing import Any, ClassVar, TypeVar

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.validators import ProhibitNullCharactersValidator
from django.db.models import QuerySet
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.functional import lazy
from django.utils.html import format_html
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.text import get_text_list
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRedirect

from beacon_site.text import secret_scanner
from beacon_site.text.cleaning import clean
from beacon_site.text.dates import day_typed
from beacon_site.web.http import BeaconRequest


def redirect_to(request: BeaconRequest, url: str) -> HttpResponse:
    """Redirect to `url`, over htmx by its header. The Inbox swaps the page it's sent to."""
    by_header = request.htmx and not is_in_inbox(request)
    return HttpResponseClientRedirect(url) if by_header else redirect(url)


def is_in_inbox(request: BeaconRequest) -> bool:
    """Return True if a form of the Inbox was sent over htmx."""
    return bool(request.htmx) and request.htmx.target == "inbox"


def safe_local_path(value: str, default: str) -> str:
    """Return `value` if it is the path of a page of this site, else `default`.

    An attacker can choose it.  A URL of another site isn't a path, and neither is a word, which
    Django would look up as the name of a route.
    """
    ours = value.startswith("/") and url_has_allowed_host_and_scheme(value, allowed_hosts=None)
    return value if ours else default


def next_of(request: BeaconRequest, default: str = "") -> str:
    """Return the `next` of the form or the URL if it is a page of this site, else `default`."""
    value = str(request.POST.get("next") or request.GET.get("next") or "")
    return safe_local_path(value, default)


def redirect_back(request: BeaconRequest, default: str) -> HttpResponse:
    """Redirect to `next`, else to `default`."""
    return redirect_to(request, next_of(request, default))


def moved(name: str, **fixed: str) -> Callable[..., HttpResponse]:
    """Return a view of an old address that redirects permanently to the page of this name.

    The query string is kept, with `fixed` added. A form that was open before is sent again as it is.
    """

    @login_required
    def redirected(request: BeaconRequest, **named: Any) -> HttpResponse:
        query = request.GET.copy()
        query.update(fixed)
        url = reverse(name, kwargs=named) + (f"?{query.urlencode()}" if query else "")
        keeps_method = request.method not in ("GET", "HEAD")
        return redirect(url, permanent=True, preserve_request=keeps_method)

    return redirected


def get_owned_or_404(request: BeaconRequest, rows: QuerySet[Any], pk: object) -> Any:
    """Return the row of the person's `rows` with its owner set. Raises Http404 for another's."""
    found: Any = get_object_or_404(rows, pk=pk)
    found.owner = request.user
    return found


def refused(request: BeaconRequest, why: str, *, way: str = "") -> HttpResponse:
    """Answer 409 Conflict with the reason; `way` is a link to continue."""
    return in_notice(request, render(request, "409.html", {"why": why, "way": way}, status=409))


def in_notice(request: BeaconRequest, response: HttpResponse) -> HttpResponse:
    """Show the response in the page's notice area where htmx asked for it."""
    if request.htmx:
        response["HX-Retarget"] = "#notice"
        response["HX-Reswap"] = "innerHTML"
    return response


def report_cleaned(request: BeaconRequest, labels: list[Any]) -> None:
    """Report the fields from which characters were removed that can't be stored or shown."""
    if labels:
        words = _("Characters that can’t be stored or shown were removed from: %(fields)s.")
        messages.warning(request, words % {"fields": ", ".join(map(str, labels))})


# --- Checks of typed text: days, characters that can't be stored, and keys and passwords ---


class CleanTextField(forms.CharField):
    """Text without characters that can't be stored (NUL); `cleaned_of` lists where any were removed."""

    def to_python(self, value: Any) -> Any:
        return super().to_python(clean(value)[0] if isinstance(value, str) else value)

    def widget_attrs(self, widget: forms.Widget) -> dict[str, Any]:
        """Return the attributes without those that a list can't have."""
        return {} if isinstance(widget, forms.Select) else super().widget_attrs(widget)


class RawField(forms.CharField):
    """Text exactly as typed, for a record's own rules, which also remove what can't be stored."""

    def __init__(self, **more: Any) -> None:
        super().__init__(strip=False, **more)
        nul = ProhibitNullCharactersValidator
        self.validators = [one for one in self.validators if not isinstance(one, nul)]


class DayField(forms.DateField):
    """A day, written as pages show it: `23 Nov 2026`. What `day_typed()` reads is accepted."""

    widget = forms.TextInput

    def prepare_value(self, value: Any) -> Any:
        return date_format(value, "j M Y") if isinstance(value, date) else value

    def to_python(self, value: Any) -> date | None:
        if isinstance(value, str) and (day := day_typed(value, timezone.localdate())):
            return day
        return super().to_python(value)

    def widget_attrs(self, widget: forms.Widget) -> dict[str, Any]:
        # Lazy, because a form's fields are created once, when Beacon starts.
        today = lazy(
            lambda: _("Example: %(day)s") % {"day": date_format(timezone.localdate(), "j M Y")}, str
        )
        return super().widget_attrs(widget) | {"placeholder": today(), "autocomplete": "off"}  # type: ignore[no-untyped-call]


def cleaned_of(form: forms.BaseForm) -> list[str]:
    """Return the labels of the fields from which characters were removed."""
    return [
        str(field.label)
        for name, field in form.fields.items()
        if isinstance(field, CleanTextField) and clean(str(form.data.get(name, "")))[1]
    ]


KEEP_SECRETS = "keep_secrets"


def question_about_secrets(text: str, known: str = "", *, name: str = KEEP_SECRETS) -> str:
    """Return the question before a text with secrets is saved, or "" if it has none but those in `known`."""
    found = secret_scanner.find(text)
    kinds = list(dict.fromkeys(one.kind for one in found if text[one.start : one.end] not in known))
    if not kinds:
        return ""
    message = _(
        "This text seems to contain a secret: %(kinds)s. Agents can read what you save, and it can be sent to models. Remove the secret, or select:"
    ) % {"kinds": get_text_list(kinds, _("and"))}
    return format_html(
        '{} <label class="keep-secrets"><input type="checkbox" name="{}" value="1"> {}</label>',
        message,
        name,
        _("Save anyway"),
    )


class RefusalErrorsMixin(forms.BaseForm):
    # Fields with another name in errors than in the form.
    RENAMED: ClassVar[dict[str, str]] = {}
    # The field that names the version that was edited, and the record's attribute that it has.
    SEEN: ClassVar[tuple[str, str]] = "version", "version"

    def take(self, exc: Exception) -> None:
        """Show why nothing was stored, at the fields that the error names."""
        self.refuse(getattr(exc, "errors", None) or {"": [str(exc)]})

    def on_newest(self, newest: Any, exc: Exception) -> dict[str, Any]:
        """Keep what was typed, and base the next save on the newest version.

        Returns the context for a page that shows that version beside the form.
        """
        if newest is None:  # deleted permanently in the meantime
            self.take(exc)
            return {}
        field, attribute = self.SEEN
        self.data = {**dict(self.data.items()), field: getattr(newest, attribute)}
        return {"theirs": newest, "why_refused": str(exc)}

    def refuse(self, errors: Mapping[str, Any]) -> None:
        """Show messages beside their fields; those of fields not in the form go above."""
        for field, problems in errors.items():
            name = self.RENAMED.get(field, field)
            self.add_error(name if name in self.fields else None, problems)


class SecretConfirmationMixin(forms.Form):
    """A form that asks before it saves a key or a password.

    The error has a checkbox to save the text anyway. A secret that the stored text already has
    isn't asked about again; that text is the field's initial value, or comes from `stored_text`.
    """

    def stored_text(self) -> str:
        return " ".join(str(value) for value in self.initial.values())

    def full_clean(self) -> None:
        super().full_clean()
        if self.is_bound and not self.data.get(self.add_prefix(KEEP_SECRETS)):
            self._ask_about_secrets()

    def _ask_about_secrets(self) -> None:
        known, box = self.stored_text(), self.add_prefix(KEEP_SECRETS)
        for name, value in list(self.cleaned_data.items()):
            field = self.fields.get(name)
            if field is None or field.widget.is_hidden or not isinstance(value, str):
                continue
            if question := question_about_secrets(value, known, name=box):
                self.add_error(name, question)


# --- Permissions of pages ---


View = Callable[..., HttpResponse]
Page = TypeVar("Page", bound=Callable[..., HttpResponseBase])


def signed_in(*methods: str) -> Callable[[Page], Page]:
    """Allow these methods, and only people who are signed in."""
    return lambda view: require_http_methods(list(methods))(login_required(view))


def staff_only(*methods: str) -> Callable[[View], View]:
    """Allow these methods, and only staff. Anyone else who is signed in gets a 404."""

    def register(view: View) -> View:
        @signed_in(*methods)
        @wraps(view)
        def guarded(request: BeaconRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not request.user.is_staff:
                raise Http404
            return view(request, *args, **kwargs)

        return guarded

    return register
