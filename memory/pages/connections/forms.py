"""Forms for models and other outside services. Stored keys are never shown."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from django import forms
from django.core.exceptions import ValidationError
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from beacon_site.net.address_guard import problem_of, surplus_in
from beacon_site.net.errors import ProviderRejected
from beacon_site.providers.llm.base import DEFAULT_EMBEDDING_MODEL, LlmProfile
from beacon_site.providers.llm.endpoints import (
    KINDS,
    Kind,
    address_of,
    complaint_about,
    kind_by_address,
)
from beacon_site.providers.search.base import ADDRESS, KEY, SearchService
from beacon_site.providers.search.serpapi import ENGINE_NAMES, ENGINES
from memory.models import Connection, User
from memory.services.llm import connections

MAX_URL_LENGTH = 500


class BaseUrlField(forms.CharField):
    """The URL that a service's requests go to."""

    def __init__(self, **more: Any) -> None:
        attrs = {"inputmode": "url", "autocomplete": "off", "spellcheck": "false"}
        super().__init__(
            required=False, max_length=MAX_URL_LENGTH, widget=forms.TextInput(attrs=attrs), **more
        )

    def clean(self, value: Any) -> str:
        """Return the URL without a trailing slash, or empty."""
        url = str(super().clean(value))
        if url and (problem := problem_of(url)):
            raise ValidationError(problem)
        return url.rstrip("/")


class ConnectionForm(forms.Form):
    """The fields of all connections: a URL and a key.

    Those set by the environment are read-only.
    """

    PLAIN: tuple[str, ...] = ("base_url",)

    base_url = BaseUrlField(label=gettext_lazy("Base URL"))
    secret = forms.CharField(
        label=gettext_lazy("Key"),
        required=False,
        strip=True,
        max_length=500,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    remove_secret = forms.BooleanField(label=gettext_lazy("Remove the stored key"), required=False)
    version = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, name: str, data: Any = None, *, row: Connection | None = None) -> None:
        self.name = name
        self.row = row or connections.stored(name)
        self.fixed = connections.fixed_fields(name)
        self.stored_secret = self.row.reveal_secret()
        super().__init__(data, initial=self._initial(), prefix=name)
        self._explain_key()
        for field, variable in self.fixed.items():
            self._fix(field, variable)
        if not self.row.secret or "secret" in self.fixed:
            del self.fields["remove_secret"]

    def _initial(self) -> dict[str, Any]:
        version = {"version": connections.version_of(self.row)}
        plain = {name: getattr(self.row, name) for name in self.PLAIN}
        return plain | dict(self.row.profile) | version

    def _fix(self, field: str, variable: str) -> None:
        """Make a field read-only that the environment sets; a key's value isn't shown."""
        self.fields[field].disabled = True
        self.fields[field].help_text = _(
            "Set by the environment variable %(variable)s, which overrides this page."
        ) % {"variable": variable}
        if field != "secret":
            self.initial[field] = connections.effective(self.row, field)

    def _explain_key(self) -> None:
        if self.row.secret_is_lost:
            message = _(
                "The stored key can’t be read because SECRET_KEY has changed. Enter the key again."
            )
        elif self.stored_secret:
            message = _("A key is stored (%(ending)s). Leave this empty to keep it.") % {
                "ending": self.key_ending
            }
        else:
            message = _("No key is stored. The key you enter is encrypted and never shown again.")
        self.fields["secret"].help_text = message

    def clean_secret(self) -> str:
        """Return the key.  Reject one that no header can carry, so that it doesn't replace one that works."""
        secret = str(self.cleaned_data.get("secret") or "")
        if not (secret.isascii() and secret.isprintable()):
            raise ValidationError(
                _("The key contains invalid characters, such as a line break. Copy it again.")
            )
        return secret

    @property
    def key_ending(self) -> str:
        """Return the last four characters, or none of a key so short that they would reveal it."""
        if len(self.stored_secret) < 12:
            return "…"
        return _("ends in …%(last)s") % {"last": self.stored_secret[-4:]}

    @property
    def has_lost_a_key(self) -> bool:
        """Return True if a key was typed into a form that comes back: it isn't shown again."""
        return bool(self.is_bound and self.data.get(self.add_prefix("secret")))

    def destination(self, given: dict[str, Any]) -> tuple[str, str]:
        """Return the scheme and host that a key would be sent to, with the fields as submitted."""
        return host_of(given.get("base_url", ""))

    def keeps_key(self, given: dict[str, Any]) -> bool:
        """Return True if the stored key would be kept with the fields as submitted."""
        typed = given.get("secret") or given.get("remove_secret")
        return bool(self.stored_secret) and not typed and "secret" not in self.fixed

    def moves(self, given: dict[str, Any]) -> bool:
        """Return True if the fields as submitted lead to another host than the stored ones."""
        return self.destination(given) != self.destination(self.stored_fields())

    def stored_fields(self) -> dict[str, Any]:
        return {"base_url": connections.effective(self.row, "base_url")}

    def may_have_environment_key(self, given: dict[str, Any]) -> bool:
        """Whether the environment's key, if there is one, can be sent to the URL as submitted."""
        return "secret" not in self.fixed or connections.may_have_environment_key(
            self.name, given.get("base_url", ""), given.get("kind", "")
        )

    def complain_of_environment_key(self) -> None:
        """Reject a URL that the environment's key isn't meant for."""
        names = connections.VARIABLES[self.name]
        message = _(
            "The key comes from %(key)s, so Beacon sends it only to the provider’s default URL or to a URL set in the environment. Keep the default URL, or ask your admin to set %(url)s."
        )
        self.add_error("base_url", message % {"key": names["secret"], "url": names["base_url"]})

    def check_not_changed(self, given: dict[str, Any]) -> None:
        """Reject an overwrite of someone else's change; the next try knows about it."""
        now = str(self.initial["version"])
        if given.get("version", "") in ("", now):
            return
        self.data = {name: self.data.get(name) for name in self.data} | {
            self.add_prefix("version"): now
        }
        theirs = [
            _("%(label)s: %(value)s") % {"label": field.label, "value": self._shown(name)}
            for name, field in self.fields.items()
            if name in given and self._is_others(name, given[name])
        ]
        message = _("Someone else has changed these settings. Your changes haven’t been saved yet.")
        todo = _("Save again to replace the other person’s changes with the values below.")
        if theirs:
            message = _("%(told)s Their values: %(theirs)s.") % {
                "told": message,
                "theirs": "; ".join(theirs),
            }
        self.add_error(None, f"{message} {todo}")

    def _is_others(self, name: str, given: Any) -> bool:
        if name in {"secret", "remove_secret", "version"} or self.fields[name].disabled:
            return False
        return self.fields[name].has_changed(self.initial.get(name), given)

    def _shown(self, name: str) -> str:
        value = self.initial.get(name)
        choices = dict(getattr(self.fields[name], "choices", ()))
        return str(choices.get(value or "", value or _("nothing")))

    def clean(self) -> dict[str, Any]:
        """Keep a key from being sent to a URL that it wasn't entered for."""
        given: dict[str, Any] = super().clean() or {}
        self.check_not_changed(given)
        if "base_url" in given and not self.may_have_environment_key(given):
            self.complain_of_environment_key()
        if "base_url" in given and self.keeps_key(given) and self.moves(given):
            self.add_error(
                "secret",
                _(
                    "The stored key was entered for another URL. Enter the key for this one, or select “Remove the stored key”."
                ),
            )
        return given

    def save(self, *, by: User) -> Connection:
        """Store what the person can set; read-only fields keep their stored values.

        Raises connections.Moved if someone else saved first.
        """
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
            version=self.cleaned_data.get("version", ""),
        )
        return self.row

    def _keep_more(self) -> None:
        """Store a service's own fields in the row."""


def host_of(url: str) -> tuple[str, str]:
    """Return the scheme and host of a URL in lower case; both empty without one."""
    parts = urlsplit(url)
    return parts.scheme.lower(), parts.netloc.lower()


class ServiceForm(ConnectionForm):
    """A search service, with the fields that it needs."""

    def __init__(self, name: str, data: Any = None, *, row: Connection | None = None) -> None:
        self.service = connections.SET_UP[name]
        super().__init__(name, data, row=row)
        if not self.service.key_variable:
            for field in ("secret", "remove_secret"):
                self.fields.pop(field, None)
        elif self.service.needs == KEY:
            self.order_fields(["secret", "remove_secret", "engine", "base_url"])
        if "base_url" not in self.fixed:
            self.fields["base_url"].help_text = _about_address(self.service)
        if self.service.needs == ADDRESS:
            self.fields["base_url"].label = _("Your server’s URL")

    def clean_base_url(self) -> str:
        """Reject a query string: each request adds its own."""
        url = str(self.cleaned_data["base_url"])
        if problem := surplus_in(url):
            raise ValidationError(problem)
        return url


def _about_address(service: SearchService) -> str:
    if service.needs == ADDRESS:
        return _(
            "For example, http://127.0.0.1:8888. In SearXNG’s settings.yml, add json to search.formats."
        )
    if service.name == "wikipedia":
        return _(
            "Leave empty to use Wikipedia in the topic’s language. You can enter any other MediaWiki site."
        )
    return _("Leave empty to use %(url)s. You can enter another server, such as a mirror.") % {
        "url": service.vendor_url
    }


class SerpApiForm(ServiceForm):
    """SerpAPI, with its choice of engines."""

    engine = forms.ChoiceField(
        label=gettext_lazy("Engine for new topics"),
        choices=ENGINE_NAMES,
        required=False,
    )

    def _keep_more(self) -> None:
        self.row.profile["engine"] = self.cleaned_data["engine"] or ENGINES[0]


def service_form(name: str, data: Any = None, *, row: Connection | None = None) -> ServiceForm:
    """Return the form of a search service; `name` is one of connections.SET_UP."""
    kind = SerpApiForm if name == connections.SERPAPI else ServiceForm
    return kind(name, data, row=row)


class FeedTestForm(forms.Form):
    url = forms.CharField(
        label=gettext_lazy("Feed URL"),
        max_length=2000,
        error_messages={"required": gettext_lazy("Enter a feed URL that starts with https://.")},
        widget=forms.TextInput(attrs={"inputmode": "url", "placeholder": "https://…/feed.xml"}),
    )

    def clean_url(self) -> str:
        url = str(self.cleaned_data["url"])
        if not url.lower().startswith(("http://", "https://")):
            raise ValidationError(_("Enter a URL that starts with http:// or https://."))
        try:
            urlsplit(url)
        except ValueError as exc:
            raise ValidationError(
                _("Enter a valid URL. The host name in this one isn’t valid.")
            ) from exc
        return url


# --- embeddings ---


class EmbeddingsForm(ConnectionForm):
    """The endpoint for embeddings, if they don't come from the model's endpoint or this machine."""

    PLAIN = ("base_url", "model")

    model = forms.CharField(
        label=gettext_lazy("Embedding model"),
        required=False,
        max_length=120,
        # Using % would evaluate the text, in English, when this module is loaded.
        help_text=format_lazy(
            gettext_lazy("Leave empty to use {model} if a URL or key is set."),
            model=DEFAULT_EMBEDDING_MODEL,
        ),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )

    def __init__(self, data: Any = None, *, row: Connection | None = None) -> None:
        super().__init__(connections.EMBEDDINGS, data, row=row)
        if "base_url" not in self.fixed:
            self.fields["base_url"].help_text = gettext_lazy(
                "Leave empty to use the language model’s endpoint or the small local model."
            )
        self.order_fields(["base_url", "model", "secret", "remove_secret"])

    def clean_base_url(self) -> str:
        """Return the URL without the end of the example that it was copied from."""
        url = str(self.cleaned_data["base_url"]).removesuffix("/embeddings").rstrip("/")
        if url and "base_url" not in self.fixed:
            problem = surplus_in(url) or complaint_about(url, kind_by_address(url))
            if problem:
                raise forms.ValidationError(problem)
        return url


# --- language model ---

JSON_MODES = [
    ("", gettext_lazy("automatic (from the test result)")),
    ("schema", gettext_lazy("json_schema (best)")),
    ("object", gettext_lazy("json_object")),
    ("prompt", gettext_lazy("in the prompt")),
]
KIND_CHOICES = [(kind.name, kind.label) for kind in KINDS.values()]
# More would be a price per token: the most expensive model costs a few hundred per million.
DEAREST = Decimal(100_000)
_NEGATIVE = gettext_lazy(
    "Prices can’t be negative. Leave the field empty if the price is unknown, or enter 0 if the model is free."
)


def without_call(url: str) -> str:
    """Return a URL without `/chat/completions`, which each request adds."""
    return url.removesuffix("/chat/completions").rstrip("/")


def _price(**more: Any) -> forms.DecimalField:
    return forms.DecimalField(
        required=False,
        min_value=Decimal(0),
        max_value=DEAREST,
        max_digits=10,
        decimal_places=4,
        error_messages={
            "invalid": gettext_lazy("Enter a price in US dollars, such as 0.15."),
            "min_value": _NEGATIVE,
        },
        **more,
    )


TASK_LABELS = [
    ("plan", gettext_lazy("planning runs")),
    ("read", gettext_lazy("reading and extracting")),
    ("write", gettext_lazy("writing and condensing")),
    ("judge", gettext_lazy("comparing and judging")),
    ("answer", gettext_lazy("answering in Ask")),
]


def _other_fields() -> dict[str, forms.Field]:
    """Return the fields of another model at the same endpoint."""
    attrs = {"autocomplete": "off", "spellcheck": "false", "list": "model-names"}
    return {
        "model": forms.CharField(
            label=gettext_lazy("Model"),
            required=False,
            max_length=200,
            widget=forms.TextInput(attrs=attrs),
        ),
        "tasks": forms.MultipleChoiceField(
            label=gettext_lazy("Use this model for"),
            required=False,
            choices=TASK_LABELS,
            widget=forms.CheckboxSelectMultiple,
        ),
        "in": _price(label=gettext_lazy("USD per million input tokens")),
        "out": _price(label=gettext_lazy("USD per million output tokens")),
    }


class ModelForm(ConnectionForm):
    PLAIN = ("base_url", "model")
    field_order = (
        "kind",
        "base_url",
        "secret",
        "remove_secret",
        "model",
        "embedding_model",
        "costs_nothing",
        "price_in",
        "price_out",
        "context_tokens",
        "json_mode",
    )

    kind = forms.ChoiceField(
        label=gettext_lazy("Provider"),
        choices=KIND_CHOICES,
        required=False,
        widget=forms.RadioSelect,
    )
    model = forms.CharField(
        label=gettext_lazy("Model"),
        required=False,
        max_length=200,
        help_text=gettext_lazy(
            "Enter the model’s name on the server. Leave empty to use no model."
        ),
        widget=forms.TextInput(
            attrs={"autocomplete": "off", "spellcheck": "false", "list": "model-names"}
        ),
    )
    embedding_model = forms.CharField(
        label=gettext_lazy("Embedding model"),
        required=False,
        max_length=200,
        help_text=gettext_lazy(
            "Optional. A model at the same endpoint that creates the embeddings for semantic search."
        ),
        widget=forms.TextInput(
            attrs={"autocomplete": "off", "spellcheck": "false", "list": "model-names"}
        ),
    )
    costs_nothing = forms.BooleanField(
        label=gettext_lazy("This model is free"),
        required=False,
        help_text=gettext_lazy("For models that run on your own machine."),
    )
    price_in = _price(
        label=gettext_lazy("USD per million input tokens"),
        help_text=gettext_lazy(
            "Leave empty if the price is unknown. Enter 0 if the model is free."
        ),
    )
    price_out = _price(label=gettext_lazy("USD per million output tokens"))
    context_tokens = forms.IntegerField(
        label=gettext_lazy("Context size (tokens)"),
        required=False,
        min_value=1024,
        max_value=10_000_000,
        help_text=gettext_lazy(
            "Leave empty to use the size from the last test, or 32,768 if it’s unknown."
        ),
    )
    json_mode = forms.ChoiceField(
        label=gettext_lazy("Structured output"),
        choices=JSON_MODES,
        required=False,
        help_text=gettext_lazy(
            "How Beacon requests JSON from the server. Run a test to find the best option."
        ),
    )

    def __init__(self, data: Any = None, *, row: Connection | None = None) -> None:
        super().__init__(connections.MODEL, data, row=row)
        self.fields["base_url"].help_text = self.fields["base_url"].help_text or _(
            "Usually ends in /v1. Leave empty to use the provider’s default URL."
        )
        for number in range(connections.MAX_OTHERS):
            for name, field in _other_fields().items():
                self.fields[f"other{number}_{name}"] = field

    def _initial(self) -> dict[str, Any]:
        price_in, price_out = self.row.prices.get("in"), self.row.prices.get("out")
        is_free = all(connections.stored_price(one) == 0 for one in (price_in, price_out))
        prices = {"price_in": price_in, "price_out": price_out}
        if is_free:  # the box says so, and the fields can take a price
            prices = {"price_in": None, "price_out": None}
        others = {
            f"other{number}_{name}": value
            for number, other in enumerate(self.row.profile.get("others") or [])
            for name, value in {
                "model": other["model"],
                "tasks": other["tasks"],
                "in": other["prices"].get("in"),
                "out": other["prices"].get("out"),
            }.items()
        }
        more = {"kind": self._kind(), "costs_nothing": is_free}
        return super()._initial() | prices | others | more

    def _kind(self) -> str:
        """Return the stored provider, or the one of the URL; "" if nothing is set up."""
        url = connections.effective(self.row, "base_url")
        if stored := self.row.profile.get("kind"):
            return str(stored)
        is_set = url or self.stored_secret or connections.effective(self.row, "model")
        return kind_by_address(url) if is_set or self.fixed else ""

    @property
    def providers(self) -> Iterator[tuple[forms.boundfield.BoundWidget, Kind]]:
        """Return the radio button of each provider with what is known about it."""
        return zip(self["kind"], KINDS.values(), strict=True)

    @property
    def asks_for_provider(self) -> bool:
        """Return True if the other fields wait until a provider is selected."""
        return not (self["kind"].value() or self.errors)

    @property
    def others(self) -> list[dict[str, forms.BoundField]]:
        """Return the fields of each other model, and those of one more to add."""
        rows = [
            {name: self[f"other{number}_{name}"] for name in ("model", "tasks", "in", "out")}
            for number in range(connections.MAX_OTHERS)
        ]
        filled = [row for row in rows if any(field.value() for field in row.values())]
        return [*filled, *(row for row in rows if row not in filled)][: len(filled) + 1]

    @property
    def others_are_set(self) -> bool:
        """Return True if there is another model, or an error in one."""
        return len(self.others) > 1 or any(
            self.errors.get(field.name) for row in self.others for field in row.values()
        )

    def stored_fields(self) -> dict[str, Any]:
        """Return the stored URL and kind, which together decide where requests go."""
        return super().stored_fields() | {"kind": self.row.profile.get("kind") or ""}

    def destination(self, given: dict[str, Any]) -> tuple[str, str]:
        """Return the origin that requests go to: each kind has its usual URL."""
        url = given.get("base_url", "")
        kind = given.get("kind") or kind_by_address(url)
        try:
            return address_of(LlmProfile(base_url=url, model="m", kind=kind)).origin, ""
        except ProviderRejected:
            return url, ""

    def clean_base_url(self) -> str:
        """Return the URL without the end of the example that it was copied from."""
        url = str(self.cleaned_data["base_url"])
        # With a query string it's Azure's classic URL, which is kept as it was copied.
        url = url if urlsplit(url).query else without_call(url)
        if "kind" in self.cleaned_data:
            self.cleaned_data["kind"] = self._kind_at(url, self.cleaned_data["kind"])
        return url

    def _kind_at(self, url: str, kind: str) -> str:
        """Return the URL's provider if the URL was changed but the stored provider was left selected."""
        stored = (
            connections.effective(self.row, "base_url") or KINDS[kind].default_url if kind else ""
        )
        found = kind_by_address(url)
        if not url or not stored or kind != self._kind() or found == kind_by_address(stored):
            return kind
        is_same_server = urlsplit(url).hostname == urlsplit(stored).hostname
        return kind if found == "compatible" and is_same_server else found

    def clean(self) -> dict[str, Any]:
        """Require a model if there is a URL or a key, and either both prices or none."""
        given = super().clean()
        if (given.get("base_url") or given.get("secret")) and not given.get("model"):
            self.add_error("model", _("Enter a model too, because the server can offer several."))
        if "base_url" in given and (problem := self._complaint(given)):
            self.add_error("base_url", problem)
        self._check_others(given)
        self._take_as_free(given)
        one, other = given.get("price_in"), given.get("price_out")
        if {"price_in", "price_out"} <= given.keys() and (one is None) != (other is None):
            field = "price_in" if one is None else "price_out"
            self.add_error(
                field, _("Enter both prices or neither. Both are needed to calculate costs.")
            )
        return given

    def _check_others(self, given: dict[str, Any]) -> None:
        """Require a name and both prices for each other model, and no name or task twice."""
        names, tasks = {given.get("model", "")}, set()
        for number in range(connections.MAX_OTHERS):
            prefix = f"other{number}_"
            name, chosen = given.get(f"{prefix}model", ""), given.get(f"{prefix}tasks", [])
            prices = [given.get(f"{prefix}in"), given.get(f"{prefix}out")]
            if not name:
                if chosen or any(price is not None for price in prices):
                    self.add_error(f"{prefix}model", _("Enter the model’s name, or clear its row."))
                continue
            if name == "beacon":  # what apps call the default model (/v1/chat/completions)
                message = _(
                    "The name “beacon” always refers to the default model. Rename this model on its server."
                )
                self.add_error(f"{prefix}model", message)
            elif name in names:
                self.add_error(f"{prefix}model", _("This model is already listed above."))
            for task in chosen:
                if task in tasks:
                    message = _("“%(task)s” is already selected for another model.")
                    self.add_error(f"{prefix}tasks", message % {"task": dict(TASK_LABELS)[task]})
            if (prices[0] is None) != (prices[1] is None):
                side = "in" if prices[0] is None else "out"
                self.add_error(
                    f"{prefix}{side}",
                    _("Enter both prices or neither. Both are needed to calculate costs."),
                )
            names.add(name)
            tasks.update(chosen)

    def _take_as_free(self, given: dict[str, Any]) -> None:
        """Set both prices to 0 if the box is selected; a price beside it is an error."""
        if not given.get("costs_nothing"):
            return
        if given.get("price_in") or given.get("price_out"):
            self.add_error(
                "costs_nothing",
                _("At least one price is set below. Clear all prices, or clear this checkbox."),
            )
        elif {"price_in", "price_out"} <= given.keys():
            given["price_in"] = given["price_out"] = Decimal(0)

    def _complaint(self, given: dict[str, Any]) -> str:
        """Return the error in the URL for the selected kind, or ""."""
        url = given["base_url"]
        kind = given.get("kind") or kind_by_address(url)
        if not url or "base_url" in self.fixed:
            return (
                _("Azure has a separate URL for each resource. Enter yours.")
                if (kind == "azure" and not url)
                else ""
            )
        parts = urlsplit(url)
        # Azure's classic interface has a query string in its URL.
        is_classic = kind == "azure" and {name for name, _v in parse_qsl(parts.query)} == {
            "api-version"
        }
        if not is_classic and (problem := surplus_in(url)):
            return problem
        return complaint_about(url, kind)

    def _keep_more(self) -> None:
        given = self.cleaned_data
        for name in ("kind", "json_mode", "context_tokens", "embedding_model"):
            self.row.profile[name] = given[name] or None
        self.row.profile["others"] = [
            {
                "model": given[f"other{number}_model"],
                "tasks": list(given[f"other{number}_tasks"]),
                "prices": {
                    side: str(given[f"other{number}_{side}"])
                    for side in ("in", "out")
                    if given[f"other{number}_{side}"] is not None
                },
            }
            for number in range(connections.MAX_OTHERS)
            if given[f"other{number}_model"]
        ]
        self.row.prices = {
            side: str(given[f"price_{side}"])
            for side in ("in", "out")
            if given[f"price_{side}"] is not None
        }


class ModelListForm(ModelForm):
    """The same fields while still being filled in, to ask the endpoint for its models."""

    def clean(self) -> dict[str, Any]:
        """Check only the URL: the rest can still be missing."""
        given: dict[str, Any] = super(ConnectionForm, self).clean() or {}
        if "base_url" in given and (problem := self._complaint(given)):
            self.add_error("base_url", problem)
        elif "base_url" in given and not self.may_have_environment_key(given):
            self.complain_of_environment_key()
        return given

    def profile(self) -> LlmProfile | None:
        """Return the endpoint as typed, None if its URL or kind is invalid.

        A stored key is only sent to the URL that it was entered for.
        """
        if self.errors.keys() & {"base_url", "kind"}:
            return None
        given = self.cleaned_data
        url, key = given["base_url"], given.get("secret", "")
        kind = given.get("kind") or kind_by_address(url)
        if "secret" in self.fixed or (not key and not self.moves(given)):
            key = connections.key_for(self.row, url, kind)
        return LlmProfile(
            base_url=url,
            model=given.get("model", ""),
            api_key=key,
            kind=kind,
        )
