"""Forms for outside services: keys go in and never come out."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar
from urllib.parse import urlsplit

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from beacon_site.providers.serpapi import ENGINE_NAMES, ENGINES
from memory import connections
from memory.models import Connection, User

JSON_MODES = [
    ("", gettext_lazy("find out by testing")),
    ("schema", gettext_lazy("json_schema (best)")),
    ("object", gettext_lazy("json_object")),
    ("prompt", gettext_lazy("asked for in words")),
]
MODEL_KINDS = [
    ("", gettext_lazy("by the address")),
    ("openai", "OpenAI"),
    ("azure", "Azure OpenAI"),
    ("compatible", gettext_lazy("OpenAI-compatible (Ollama, llama.cpp, vLLM, a gateway …)")),
]


class BaseUrlField(forms.CharField):
    """The address that a service's requests go to; what is wrong with one is said."""

    def __init__(self, **more: Any) -> None:
        attrs = {"inputmode": "url", "autocomplete": "off", "spellcheck": "false"}
        super().__init__(
            required=False, max_length=500, widget=forms.TextInput(attrs=attrs), **more
        )

    def clean(self, value: Any) -> str:
        """Return the address without a trailing slash, or empty."""
        url = str(super().clean(value))
        if url and (problem := _problem_of(url)):
            raise ValidationError(problem)
        return url.rstrip("/")


def _problem_of(url: str) -> str:
    """Return why `url` cannot be a service's address, or ""."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return _("This is no address: its host or port cannot be read.")
    if parts.scheme not in {"http", "https"} or "://" not in url:
        return _("An address begins with http:// or https://, such as http://127.0.0.1:11434/v1.")
    if not host or any(sign.isspace() for sign in url):
        return _("This is no address: it names no host, or has a space in it.")
    if parts.username or parts.password:
        return _("Leave name and password out of the address: the key has a field of its own.")
    if parts.query or parts.fragment:
        return _("Leave out what follows ? or #: Beacon adds what each request needs.")
    if parts.path.rstrip("/").endswith("/chat/completions"):
        return _("Leave out /chat/completions: Beacon adds it. The address usually ends in /v1.")
    return ""


class ConnectionForm(forms.Form):
    """What all connections have: an address and a key.  The environment's fields are fixed."""

    NAME: ClassVar[str]
    PLAIN: ClassVar[tuple[str, ...]] = ("base_url",)

    base_url = BaseUrlField(label=gettext_lazy("Address (base URL)"))
    secret = forms.CharField(
        label=gettext_lazy("Key"),
        required=False,
        strip=True,
        max_length=500,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    remove_secret = forms.BooleanField(label=gettext_lazy("Remove the stored key"), required=False)

    def __init__(self, data: Any = None, *, row: Connection | None = None) -> None:
        self.row = row or connections.stored(self.NAME)
        self.fixed = connections.fixed_fields(self.NAME)
        self.stored_secret = self.row.reveal_secret()
        super().__init__(data, initial=self._initial(), prefix=self.NAME)
        self._tell_about_key()
        for field, variable in self.fixed.items():
            self._fix(field, variable)
        if not self.row.secret or "secret" in self.fixed:
            del self.fields["remove_secret"]

    def _initial(self) -> dict[str, Any]:
        return {name: getattr(self.row, name) for name in self.PLAIN} | dict(self.row.profile)

    def _fix(self, field: str, variable: str) -> None:
        """Make a field read-only that the environment sets; a key's value is not shown."""
        self.fields[field].disabled = True
        self.fields[field].help_text = _(
            "Set by the environment variable %(variable)s, which wins over this page."
        ) % {"variable": variable}
        if field != "secret":
            self.initial[field] = connections.effective(self.row, field)

    def _tell_about_key(self) -> None:
        if self.row.secret_is_lost:
            told = _(
                "A key is stored, but SECRET_KEY has changed since and it cannot be read any "
                "more. Enter it again."
            )
        elif self.stored_secret:
            told = _("A key is stored (%(ending)s). Leave this empty to keep it.") % {
                "ending": self.key_ending
            }
        else:
            told = _("No key is stored. What you enter is encrypted and never shown again.")
        self.fields["secret"].help_text = told

    @property
    def key_ending(self) -> str:
        """Return the last four characters, or none of a key so short that they would tell it."""
        if len(self.stored_secret) < 12:
            return "…"
        return _("ends in …%(last)s") % {"last": self.stored_secret[-4:]}

    def clean(self) -> dict[str, Any]:
        """Keep a stored key from going to an address that it was not given for."""
        given: dict[str, Any] = super().clean() or {}
        moved = "base_url" in given and _host(given["base_url"]) != _host(self.row.base_url)
        kept = self.stored_secret and not given.get("secret") and not given.get("remove_secret")
        if moved and kept and not self.fixed.keys() & {"base_url", "secret"}:
            self.add_error(
                "secret",
                _(
                    "The stored key was given for another address. Enter the key for this one, "
                    "or tick “Remove the stored key”."
                ),
            )
        return given

    def save(self, *, by: User) -> Connection:
        """Store what the person may set; fixed fields keep what the row held."""
        for name in self.PLAIN:
            if name not in self.fixed:
                setattr(self.row, name, self.cleaned_data[name])
        self._keep_more()
        open_key = "secret" not in self.fixed
        connections.save(
            self.row,
            by=by,
            new_secret=self.cleaned_data.get("secret", "") if open_key else "",
            remove_secret=bool(self.cleaned_data.get("remove_secret")),
        )
        return self.row

    def _keep_more(self) -> None:
        """Put a service's own fields into the row."""


def _host(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


class ModelForm(ConnectionForm):
    """The language model."""

    NAME = connections.MODEL
    PLAIN = ("base_url", "model")
    field_order = ("base_url", "model", "secret", "remove_secret")

    model = forms.CharField(
        label=gettext_lazy("Model"),
        required=False,
        max_length=200,
        help_text=gettext_lazy("The name by which the server knows it. Empty: no model is used."),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    kind = forms.ChoiceField(
        label=gettext_lazy("Kind of server"), choices=MODEL_KINDS, required=False
    )
    json_mode = forms.ChoiceField(
        label=gettext_lazy("Structured answers"),
        choices=JSON_MODES,
        required=False,
        help_text=gettext_lazy(
            "How the server is asked for JSON. A test finds the best it can do."
        ),
    )
    context_tokens = forms.IntegerField(
        label=gettext_lazy("Context size, tokens"),
        required=False,
        min_value=1024,
        max_value=10_000_000,
        help_text=gettext_lazy("Empty: 32,768."),
    )
    price_in = forms.DecimalField(
        label=gettext_lazy("Price of a million tokens asked"),
        required=False,
        min_value=Decimal(0),
        max_digits=10,
        decimal_places=4,
        help_text=gettext_lazy("For the cost shown on runs. Empty: costs nothing."),
    )
    price_out = forms.DecimalField(
        label=gettext_lazy("Price of a million tokens answered"),
        required=False,
        min_value=Decimal(0),
        max_digits=10,
        decimal_places=4,
    )

    def __init__(self, data: Any = None, *, row: Connection | None = None) -> None:
        super().__init__(data, row=row)
        self.fields["base_url"].help_text = self.fields["base_url"].help_text or _(
            "Usually ends in /v1. Empty: OpenAI's own."
        )

    def _initial(self) -> dict[str, Any]:
        prices = {"price_in": self.row.prices.get("in"), "price_out": self.row.prices.get("out")}
        return super()._initial() | prices

    def clean(self) -> dict[str, Any]:
        """Ask for a model where an address or a key is given."""
        given = super().clean()
        if (given.get("base_url") or given.get("secret")) and not given.get("model"):
            self.add_error("model", _("Name the model too: the server may have several."))
        return given

    def _keep_more(self) -> None:
        given = self.cleaned_data
        for name in ("kind", "json_mode", "context_tokens"):
            self.row.profile[name] = given[name] or None
        self.row.prices = {
            side: str(given[f"price_{side}"])
            for side in ("in", "out")
            if given[f"price_{side}"] is not None
        }


class SerpApiForm(ConnectionForm):
    """SerpAPI."""

    NAME = connections.SERPAPI

    engine = forms.ChoiceField(
        label=gettext_lazy("Engine for new topics"),
        choices=ENGINE_NAMES,
        required=False,
    )

    def __init__(self, data: Any = None, *, row: Connection | None = None) -> None:
        super().__init__(data, row=row)
        self.fields["base_url"].help_text = self.fields["base_url"].help_text or _(
            "Empty: SerpAPI's own. Another one stands in for it, such as a server of yours."
        )

    def _keep_more(self) -> None:
        self.row.profile["engine"] = self.cleaned_data["engine"] or ENGINES[0]


class FeedTestForm(forms.Form):
    """A feed's address to try."""

    url = forms.CharField(
        label=gettext_lazy("Address of a feed"),
        max_length=2000,
        widget=forms.TextInput(attrs={"inputmode": "url", "placeholder": "https://…/feed.xml"}),
    )

    def clean_url(self) -> str:
        """Return the address, which must be one."""
        url = str(self.cleaned_data["url"])
        if urlsplit(url).scheme not in {"http", "https"}:
            raise ValidationError(_("A feed's address begins with http:// or https://."))
        return url
