"""The form of the language model's endpoint."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from beacon_site.providers.addresses import surplus_in
from beacon_site.providers.endpoints import KINDS, address_of, complaint_about, kind_by_address
from beacon_site.providers.errors import ProviderRejected
from beacon_site.providers.llm import LlmProfile
from memory.forms.connections import ConnectionForm
from memory.llm import connections
from memory.models import Connection
from memory.usage.prices import stored_price

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
