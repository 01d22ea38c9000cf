"""Forms for outside services: keys go in and never come out."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from django import forms
from django.core.exceptions import ValidationError
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from beacon_site.llm.base import LlmProfile
from beacon_site.llm.embeddings import DEFAULT_MODEL
from beacon_site.llm.endpoints import KINDS, address_of, complaint_about, kind_by_address
from beacon_site.net.address_guard import problem_of, surplus_in
from beacon_site.net.errors import ProviderRejected
from beacon_site.search_services.catalogue import ADDRESS, KEY, SearchService
from beacon_site.search_services.serpapi import ENGINE_NAMES, ENGINES
from memory.llm import connections
from memory.models import Connection, User
from memory.usage.spending import stored_price

LONGEST_URL = 500


class BaseUrlField(forms.CharField):
    """The address that a service's requests go to; what is wrong with one is said."""

    def __init__(self, **more: Any) -> None:
        attrs = {"inputmode": "url", "autocomplete": "off", "spellcheck": "false"}
        super().__init__(
            required=False, max_length=LONGEST_URL, widget=forms.TextInput(attrs=attrs), **more
        )

    def clean(self, value: Any) -> str:
        """Return the address without a trailing slash, or empty."""
        url = str(super().clean(value))
        if url and (problem := problem_of(url)):
            raise ValidationError(problem)
        return url.rstrip("/")


class ConnectionForm(forms.Form):
    """What all connections have: an address and a key.  The environment's fields are fixed."""

    PLAIN: tuple[str, ...] = ("base_url",)

    base_url = BaseUrlField(label=gettext_lazy("Address (base URL)"))
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
        self._tell_about_key()
        for field, variable in self.fixed.items():
            self._fix(field, variable)
        if not self.row.secret or "secret" in self.fixed:
            del self.fields["remove_secret"]

    def _initial(self) -> dict[str, Any]:
        version = {"version": connections.version_of(self.row)}
        plain = {name: getattr(self.row, name) for name in self.PLAIN}
        return plain | dict(self.row.profile) | version

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

    def clean_secret(self) -> str:
        """Return the key; one that no header can carry would only replace one that works."""
        secret = str(self.cleaned_data.get("secret") or "")
        if not (secret.isascii() and secret.isprintable()):
            raise ValidationError(
                _("This has characters that no key has, such as a line break. Copy it once more.")
            )
        return secret

    @property
    def key_ending(self) -> str:
        """Return the last four characters, or none of a key so short that they would tell it."""
        if len(self.stored_secret) < 12:
            return "…"
        return _("ends in …%(last)s") % {"last": self.stored_secret[-4:]}

    @property
    def has_lost_a_key(self) -> bool:
        """Whether a key was typed into a form that comes back: it is not shown again."""
        return bool(self.is_bound and self.data.get(self.add_prefix("secret")))

    def destination(self, given: dict[str, Any]) -> tuple[str, str]:
        """Return scheme and host that a key would go to, with the fields as given."""
        return host_of(given.get("base_url", ""))

    def keeps_key(self, given: dict[str, Any]) -> bool:
        """Whether the stored key would go with the fields as given."""
        typed = given.get("secret") or given.get("remove_secret")
        return bool(self.stored_secret) and not typed and "secret" not in self.fixed

    def moves(self, given: dict[str, Any]) -> bool:
        """Whether the fields as given lead to another host than the stored ones do."""
        return self.destination(given) != self.destination(self.stored_fields())

    def stored_fields(self) -> dict[str, Any]:
        """Return what is stored, by the names of the form."""
        return {"base_url": connections.effective(self.row, "base_url")}

    def may_have_environment_key(self, given: dict[str, Any]) -> bool:
        """Whether the environment's key, if it sets one, may go to the address as given."""
        return "secret" not in self.fixed or connections.may_have_environment_key(
            self.name, given.get("base_url", ""), given.get("kind", "")
        )

    def complain_of_environment_key(self) -> None:
        """Refuse an address that the environment's key was not given for."""
        names = connections.VARIABLES[self.name]
        told = _(
            "The key is set by %(key)s and goes only to the vendor's own address, or to one that "
            "the environment sets too. Leave the address as it is usual, or have %(url)s set."
        )
        self.add_error("base_url", told % {"key": names["secret"], "url": names["base_url"]})

    def look_for_a_change(self, given: dict[str, Any]) -> None:
        """Refuse to replace what somebody else set meanwhile; the next try knows of it."""
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
        told = _("Somebody else changed this while you were at it. Nothing of yours is stored yet.")
        todo = _("Save again to put what stands below in its place.")
        if theirs:
            told = _("%(told)s Theirs is – %(theirs)s.") % {
                "told": told,
                "theirs": "; ".join(theirs),
            }
        self.add_error(None, f"{told} {todo}")

    def _is_others(self, name: str, given: Any) -> bool:
        if name in {"secret", "remove_secret", "version"} or self.fields[name].disabled:
            return False
        return self.fields[name].has_changed(self.initial.get(name), given)

    def _shown(self, name: str) -> str:
        value = self.initial.get(name)
        choices = dict(getattr(self.fields[name], "choices", ()))
        return str(choices.get(value or "", value or _("nothing")))

    def clean(self) -> dict[str, Any]:
        """Keep a key from going to an address that it was not given for."""
        given: dict[str, Any] = super().clean() or {}
        self.look_for_a_change(given)
        if "base_url" in given and not self.may_have_environment_key(given):
            self.complain_of_environment_key()
        if "base_url" in given and self.keeps_key(given) and self.moves(given):
            self.add_error(
                "secret",
                _(
                    "The stored key was given for another address. Enter the key for this one, "
                    "or tick “Remove the stored key”."
                ),
            )
        return given

    def save(self, *, by: User) -> Connection:
        """Store what the person may set; fixed fields keep what the row held.

        Raises connections.Moved where somebody else was quicker.
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
        """Put a service's own fields into the row."""


def host_of(url: str) -> tuple[str, str]:
    """Return scheme and host of an address, lower-cased; both empty without one."""
    parts = urlsplit(url)
    return parts.scheme.lower(), parts.netloc.lower()


class ServiceForm(ConnectionForm):
    """A search service, as the catalogue tells what it needs."""

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
            self.fields["base_url"].label = _("Address of your server")

    def clean_base_url(self) -> str:
        """Refuse a query: each request brings its own."""
        url = str(self.cleaned_data["base_url"])
        if problem := surplus_in(url):
            raise ValidationError(problem)
        return url


def _about_address(service: SearchService) -> str:
    if service.needs == ADDRESS:
        return _(
            "Such as http://127.0.0.1:8888. Its settings.yml must allow JSON: under “search”, "
            "“formats” lists json."
        )
    if service.name == "wikipedia":
        return _("Empty: Wikipedia itself, in the topic's language. Any other MediaWiki may stand.")
    return _("Empty: %(url)s. Another server may stand in for it, such as a mirror of yours.") % {
        "url": service.vendor_url
    }


class SerpApiForm(ServiceForm):
    """SerpAPI, which has engines."""

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
    """A feed's address to try."""

    url = forms.CharField(
        label=gettext_lazy("Address of a feed"),
        max_length=2000,
        error_messages={
            "required": gettext_lazy("Type the address of a feed; it begins with https://.")
        },
        widget=forms.TextInput(attrs={"inputmode": "url", "placeholder": "https://…/feed.xml"}),
    )

    def clean_url(self) -> str:
        """Return the address, which must be one."""
        url = str(self.cleaned_data["url"])
        if not url.lower().startswith(("http://", "https://")):
            raise ValidationError(_("A feed's address begins with http:// or https://."))
        try:
            urlsplit(url)
        except ValueError as exc:
            raise ValidationError(_("This is no address: its host cannot be read.")) from exc
        return url


# --- The form of the endpoint for vectors ---


class EmbeddingsForm(ConnectionForm):
    """Where vectors come from, if not from the model's endpoint or this machine."""

    PLAIN = ("base_url", "model")

    model = forms.CharField(
        label=gettext_lazy("Embedding model"),
        required=False,
        max_length=120,
        # With % it would be put together, in English, when this module is loaded.
        help_text=format_lazy(
            gettext_lazy("Empty: {model}, where an address or a key is given."),
            model=DEFAULT_MODEL,
        ),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )

    def __init__(self, data: Any = None, *, row: Connection | None = None) -> None:
        super().__init__(connections.EMBEDDINGS, data, row=row)
        if "base_url" not in self.fixed:
            self.fields["base_url"].help_text = gettext_lazy(
                "Usually ends in /v1. Empty: the language model's endpoint, if it has embeddings, "
                "else the small model on this machine."
            )
        self.order_fields(["base_url", "model", "secret", "remove_secret"])

    def clean_base_url(self) -> str:
        """Return the address without the end of an example that it was copied from."""
        url = str(self.cleaned_data["base_url"]).removesuffix("/embeddings").rstrip("/")
        if url and "base_url" not in self.fixed:
            problem = surplus_in(url) or complaint_about(url, kind_by_address(url))
            if problem:
                raise forms.ValidationError(problem)
        return url


# --- The form of the language model's endpoint ---

JSON_MODES = [
    ("", gettext_lazy("find out by testing")),
    ("schema", gettext_lazy("json_schema (best)")),
    ("object", gettext_lazy("json_object")),
    ("prompt", gettext_lazy("asked for in words")),
]
KIND_CHOICES = [
    ("", gettext_lazy("told by the address")),
    *((kind.name, kind.label) for kind in KINDS.values()),
]
# More would be taken for a price by the token: the dearest model costs some hundred a million.
DEAREST = Decimal(100_000)
_NEGATIVE = gettext_lazy(
    "A price cannot be negative. Leave it empty if it is not known; 0 says that it costs nothing."
)


def without_call(url: str) -> str:
    """Return an address without `/chat/completions`, which each request adds by itself."""
    return url.removesuffix("/chat/completions").rstrip("/")


def _price(**more: Any) -> forms.DecimalField:
    return forms.DecimalField(
        required=False,
        min_value=Decimal(0),
        max_value=DEAREST,
        max_digits=10,
        decimal_places=4,
        error_messages={
            "invalid": gettext_lazy("This is no price. Enter an amount in dollars, such as 0.15."),
            "min_value": _NEGATIVE,
        },
        **more,
    )


class ModelForm(ConnectionForm):
    """The language model."""

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
        label=gettext_lazy("Kind of endpoint"), choices=KIND_CHOICES, required=False
    )
    model = forms.CharField(
        label=gettext_lazy("Model"),
        required=False,
        max_length=200,
        help_text=gettext_lazy("The name by which the server knows it. Empty: no model is used."),
        widget=forms.TextInput(
            attrs={"autocomplete": "off", "spellcheck": "false", "list": "model-names"}
        ),
    )
    embedding_model = forms.CharField(
        label=gettext_lazy("Embedding model"),
        required=False,
        max_length=200,
        help_text=gettext_lazy(
            "At the same endpoint. Named, it makes the vectors for recall too; see below."
        ),
        widget=forms.TextInput(
            attrs={"autocomplete": "off", "spellcheck": "false", "list": "model-names"}
        ),
    )
    costs_nothing = forms.BooleanField(
        label=gettext_lazy("It costs nothing"),
        required=False,
        help_text=gettext_lazy("A model of your own machine: its calls have no price."),
    )
    price_in = _price(
        label=gettext_lazy("Dollars for a million tokens asked"),
        help_text=gettext_lazy("Empty: not known, and so said. 0: it costs nothing."),
    )
    price_out = _price(label=gettext_lazy("Dollars for a million tokens answered"))
    context_tokens = forms.IntegerField(
        label=gettext_lazy("Context size, tokens"),
        required=False,
        min_value=1024,
        max_value=10_000_000,
        help_text=gettext_lazy("Empty: what a test finds, else 32,768."),
    )
    json_mode = forms.ChoiceField(
        label=gettext_lazy("Structured answers"),
        choices=JSON_MODES,
        required=False,
        help_text=gettext_lazy("How the server is asked for JSON. A test finds the best way."),
    )

    def __init__(self, data: Any = None, *, row: Connection | None = None) -> None:
        super().__init__(connections.MODEL, data, row=row)
        self.fields["base_url"].help_text = self.fields["base_url"].help_text or _(
            "Usually ends in /v1. Empty: the usual address of the kind chosen, else OpenAI's."
        )

    def _initial(self) -> dict[str, Any]:
        price_in, price_out = self.row.prices.get("in"), self.row.prices.get("out")
        is_free = stored_price(price_in) == stored_price(price_out) == 0
        prices = {"price_in": price_in, "price_out": price_out}
        if is_free:  # the box says it, and the fields are free for a price
            prices = {"price_in": None, "price_out": None}
        return super()._initial() | prices | {"costs_nothing": is_free}

    def stored_fields(self) -> dict[str, Any]:
        """Return the stored address and kind, which together say where requests go."""
        return super().stored_fields() | {"kind": self.row.profile.get("kind") or ""}

    def destination(self, given: dict[str, Any]) -> tuple[str, str]:
        """Return the origin that requests go to: a kind has a usual address of its own."""
        url = given.get("base_url", "")
        kind = given.get("kind") or kind_by_address(url)
        try:
            return address_of(LlmProfile(base_url=url, model="m", kind=kind)).origin, ""
        except ProviderRejected:
            return url, ""

    def clean_base_url(self) -> str:
        """Return the address without the end of an example that it was copied from."""
        url = str(self.cleaned_data["base_url"])
        # With a query it is Azure's classic one, which is kept as it was copied.
        return url if urlsplit(url).query else without_call(url)

    def clean(self) -> dict[str, Any]:
        """Ask for a model where an address or a key is given, and for both prices or none."""
        given = super().clean()
        if (given.get("base_url") or given.get("secret")) and not given.get("model"):
            self.add_error("model", _("Name the model too: the server may have several."))
        if "base_url" in given and (problem := self._complaint(given)):
            self.add_error("base_url", problem)
        self._take_as_free(given)
        one, other = given.get("price_in"), given.get("price_out")
        if {"price_in", "price_out"} <= given.keys() and (one is None) != (other is None):
            field = "price_in" if one is None else "price_out"
            self.add_error(
                field, _("Give both prices or neither: with one alone no cost can be told.")
            )
        return given

    def _take_as_free(self, given: dict[str, Any]) -> None:
        """Set both prices to nothing where the box is ticked; a price beside it is an error."""
        if not given.get("costs_nothing"):
            return
        if given.get("price_in") or given.get("price_out"):
            self.add_error(
                "costs_nothing", _("It has a price below: empty the prices, or untick this.")
            )
        elif {"price_in", "price_out"} <= given.keys():
            given["price_in"] = given["price_out"] = Decimal(0)

    def _complaint(self, given: dict[str, Any]) -> str:
        """Return what is wrong with the address for the kind chosen, or ""."""
        url = given["base_url"]
        kind = given.get("kind") or kind_by_address(url)
        if not url or "base_url" in self.fixed:
            return (
                _("Azure has an address for each resource: enter yours.")
                if (kind == "azure" and not url)
                else ""
            )
        parts = urlsplit(url)
        # Azure's classic interface is the one whose address carries a query.
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
        self.row.prices = {
            side: str(given[f"price_{side}"])
            for side in ("in", "out")
            if given[f"price_{side}"] is not None
        }


class ModelListForm(ModelForm):
    """The same fields while a person still fills them in, to ask the endpoint what it has."""

    def clean(self) -> dict[str, Any]:
        """Look at the address alone: the rest may still be missing."""
        given: dict[str, Any] = super(ConnectionForm, self).clean() or {}
        if "base_url" in given and (problem := self._complaint(given)):
            self.add_error("base_url", problem)
        elif "base_url" in given and not self.may_have_environment_key(given):
            self.complain_of_environment_key()
        return given

    def profile(self) -> LlmProfile | None:
        """Return the endpoint as typed, None where its address or kind is wrong.

        A stored key goes with it only to the address that it was given for.
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
