"""Forms for outside services: keys go in and never come out."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from beacon_site.providers.addresses import problem_of, surplus_in
from beacon_site.providers.catalogue import ADDRESS, KEY, SearchService
from beacon_site.providers.serpapi import ENGINE_NAMES, ENGINES
from memory.llm import connections
from memory.models import Connection, User

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
