"""The form of the endpoint for vectors."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy

from beacon_site.providers.addresses import surplus_in
from beacon_site.providers.embeddings import DEFAULT_MODEL
from beacon_site.providers.endpoints import complaint_about, kind_by_address
from memory.forms.connections import ConnectionForm
from memory.llm import connections
from memory.models import Connection


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
