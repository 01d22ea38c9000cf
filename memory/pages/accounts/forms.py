"""The languages in which a person may say that they write."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, cast

from django import forms
from django.contrib.auth import password_validation
from django.contrib.auth.forms import (
    AuthenticationForm,
    PasswordChangeForm,
    UserCreationForm,
    UsernameField,
)
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.translation import get_language_info, gettext_lazy
from django.utils.translation import gettext as _

from beacon_site.text import dates
from beacon_site.text.terms import ENGLISH, STEMMED
from memory.accounts import people
from memory.accounts.agents import LONGEST_PROMPT
from memory.core.errors import InvalidValue
from memory.models import Agent, User
from memory.models.accounts import LONGEST_NAME
from memory.web.fields import CleanTextField


def choices() -> list[tuple[str, str]]:
    """Return the codes of languages whose words have stems here, with their own names."""
    named = {code: _own_name(code) for code in STEMMED}
    others = sorted(code for code in named if code != ENGLISH)
    return [(code, named[code]) for code in (ENGLISH, *others)]


def _own_name(code: str) -> str:
    """Return how a language calls itself; Django knows no name of a few."""
    try:
        return str(get_language_info(code)["name_local"])
    except KeyError:
        return STEMMED[code].title()


# --- The form that deletes an account ---


class AccountDeletionForm(forms.Form):
    """The account's username, and the password of whoever deletes it."""

    name = forms.CharField(
        label=gettext_lazy("Your username"),
        max_length=150,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    password = forms.CharField(
        label=gettext_lazy("Your password"),
        max_length=4096,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )

    def __init__(self, *args: Any, person: User | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if person is not None:
            self.fields["name"].label = _("Their username")


# --- Forms by which people come in and describe themselves ---

if TYPE_CHECKING:
    _NewUser = UserCreationForm[User]
    _OfUser = forms.ModelForm[User]
else:
    _NewUser, _OfUser = UserCreationForm, forms.ModelForm

_NO_ZONE = gettext_lazy("Name a time zone, such as Europe/Berlin or UTC.")
_NOT_AGAIN = gettext_lazy("Type the same password here once more.")
LONGEST_USERNAME = 150  # Django's


class TimeZoneField(forms.CharField):
    """The name of a time zone, forgiving about case and spaces: `europe/berlin`, `New York`."""

    def __init__(self, **more: Any) -> None:
        attrs = {"list": "time-zones", "autocomplete": "off", "spellcheck": "false"}
        super().__init__(
            label=gettext_lazy("Time zone"),
            max_length=64,
            widget=forms.TextInput(attrs=attrs),
            error_messages={"required": _NO_ZONE},
            **more,
        )

    def clean(self, value: Any) -> str:
        """Return the name as the system spells it."""
        asked = str(super().clean(value))
        found = dates.named(asked)
        if found is None:
            raise ValidationError(
                _("There is no time zone “%(name)s”. Choose one such as Europe/Berlin or UTC.")
                % {"name": asked}
            )
        return found


class ListsTimeZones:
    """A form whose page offers the names of time zones."""

    time_zone_names = staticmethod(dates.names)


class SignInForm(AuthenticationForm):
    """Username and password."""

    error_messages = {
        "invalid_login": gettext_lazy(
            "No account opens with this username and password. Both mind upper and lower case; "
            "after five failures the account waits a quarter of an hour."
        ),
        "inactive": gettext_lazy("This account is disabled. Ask whoever looks after Beacon here."),
    }

    def clean_username(self) -> str:
        """Refuse what is longer than any username, before it is looked up and counted."""
        username: str = self.cleaned_data["username"]
        if len(username) > LONGEST_USERNAME:
            raise ValidationError(
                _("No username has more than %(most)d characters.") % {"most": LONGEST_USERNAME}
            )
        return username


class NewAccountForm(ListsTimeZones, _NewUser):
    """What a one-time link asks for: the account to make."""

    error_messages = {
        "password_mismatch": gettext_lazy("The two passwords differ. Type the same one twice."),
    }
    time_zone = TimeZoneField(
        initial="UTC", help_text=gettext_lazy("Times are shown, and schedules kept, in this zone.")
    )

    class Meta:
        model = User
        fields = ("username", "display_name", "time_zone")
        field_classes: ClassVar[dict[str, Any]] = {"username": UsernameField}
        error_messages: ClassVar[dict[str, Any]] = {
            "username": {
                "required": gettext_lazy("Choose the name by which you sign in, such as ada."),
                "invalid": gettext_lazy(
                    "A username has letters, digits and @ . + - _ only. Take out what is none of "
                    "these, spaces too."
                ),
                "unique": gettext_lazy("Somebody here has this username already. Choose another."),
            },
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.order_fields(["username", "display_name", "password1", "password2", "time_zone"])
        self.fields["username"].help_text = _("Letters, digits and @ . + - _ only.")
        self.fields["display_name"].label = _("Your name")
        self.fields["display_name"].widget.attrs["autocomplete"] = "name"
        self.fields["password1"].help_text = " ".join(
            password_validation.password_validators_help_texts()
        )
        self.fields["password2"].label = _("Password again")
        self.fields["password2"].help_text = ""
        self.fields["password2"].error_messages["required"] = _NOT_AGAIN
        self.fields["time_zone"].widget.attrs["data-guess-time-zone"] = ""

    def clean_username(self) -> str:
        """Refuse a name that another account has, or that looks like one of them."""
        username: str = super().clean_username()  # none where exactly this one is taken
        if username and people.is_confusable(username):
            raise ValidationError(
                _("This looks too much like another username here. Choose a different one.")
            )
        return username

    def wanted(self) -> dict[str, str]:
        """Return what `Invitation.accept()` takes."""
        names = ("username", "display_name", "time_zone")
        return {name: self.cleaned_data[name] for name in names} | {
            "password": self.cleaned_data["password1"]
        }


class ProfileForm(ListsTimeZones, _OfUser):
    """What a person says about themselves."""

    time_zone = TimeZoneField(
        help_text=gettext_lazy(
            "Times are shown in this zone. A topic's schedule has a zone of its own."
        )
    )
    language = forms.ChoiceField(
        label=gettext_lazy("Language"),
        choices=choices,
        help_text=gettext_lazy(
            "In which you write: recall and lists find words by their stems in it. These pages are "
            "in English so far; a topic's settings name the languages in which it is searched."
        ),
    )

    class Meta:
        model = User
        fields = ("display_name", "email", "time_zone", "language", "interests", "shortcuts")
        labels: ClassVar[dict[str, Any]] = {
            "display_name": gettext_lazy("Name"),
            "email": gettext_lazy("E-mail"),
            "interests": gettext_lazy("Interests"),
            "shortcuts": gettext_lazy("Keyboard shortcuts"),
        }
        help_texts: ClassVar[dict[str, Any]] = {
            "display_name": gettext_lazy("How the pages call you; empty: your username."),
            "email": gettext_lazy(
                "For whoever looks after Beacon here. To get reports by mail, add a channel under "
                "Notifications."
            ),
            "interests": gettext_lazy("What you follow, in your own words."),
            "shortcuts": gettext_lazy("Single keys such as / and g t. The ? key lists them."),
        }
        widgets: ClassVar[dict[str, Any]] = {
            "display_name": forms.TextInput(attrs={"autocomplete": "name"}),
            "email": forms.EmailInput(attrs={"autocomplete": "email"}),
            "interests": forms.Textarea(attrs={"rows": 4}),
        }

    def save(self, commit: bool = True) -> User:
        """Store the shown fields and no other."""
        self.instance.save(update_fields=list(self._meta.fields or ()))
        return self.instance


class NewPasswordForm(PasswordChangeForm):
    """A new password, which the old one allows."""

    error_messages = {
        "password_mismatch": gettext_lazy("The two passwords differ. Type the same one twice."),
        "password_incorrect": gettext_lazy("That is not your present password."),
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["old_password"].label = _("Present password")
        self.fields["old_password"].widget.attrs.pop("autofocus", None)
        self.fields["new_password1"].label = _("New password")
        self.fields["new_password1"].help_text = " ".join(
            password_validation.password_validators_help_texts()
        )
        self.fields["new_password2"].label = _("New password again")
        self.fields["new_password2"].help_text = ""
        self.fields["new_password2"].error_messages["required"] = _NOT_AGAIN


class InvitationForm(forms.Form):
    """For whom a link is, and what it allows."""

    note = forms.CharField(
        label=gettext_lazy("For whom"),
        max_length=150,
        help_text=gettext_lazy("Only for this list, such as a name."),
        error_messages={
            "required": gettext_lazy(
                "Say for whom the link is, such as a name: by it you tell your links apart."
            )
        },
    )
    makes_staff = forms.BooleanField(
        label=gettext_lazy("May manage people and connections (staff)"),
        required=False,
        help_text=gettext_lazy("Staff see all accounts in the admin."),
    )


# --- Forms for API tokens, and for the settings of the agents that they open ---

if TYPE_CHECKING:
    _OfAgent = forms.ModelForm[Agent]
else:
    _OfAgent = forms.ModelForm

READ, WRITE, ADMIN, METRICS = "read", "read write", "read write admin", "metrics"
NEVER = "never"


class _TakesRefusals(forms.BaseForm):
    def take(self, exc: InvalidValue) -> None:
        """Show what was refused at the fields that it names."""
        if not exc.errors:
            self.add_error(None, str(exc))
        for name, problems in exc.errors.items():
            for problem in problems:
                self.add_error(name if name in self.fields else None, problem)


class TokenForm(forms.Form, _TakesRefusals):
    """A token for a program: its name, what it may do, and for how long."""

    name = CleanTextField(
        label=gettext_lazy("Which program"),
        max_length=LONGEST_NAME,
        error_messages={
            "required": gettext_lazy(
                "A token is made for a program, whose name says who wrote what. Type its name, "
                "such as claude."
            ),
        },
        help_text=gettext_lazy(
            "It acts as an agent of this name: what it writes says so. A second token of the same "
            "name opens the same agent."
        ),
        widget=forms.TextInput(attrs={"autocomplete": "off", "placeholder": "claude"}),
    )
    scopes = forms.ChoiceField(
        label=gettext_lazy("What it may do"),
        choices=[
            (READ, gettext_lazy("Read: recall, look up, list")),
            (WRITE, gettext_lazy("Read and write, as an agent: what is risky waits under Review")),
            (
                ADMIN,
                gettext_lazy("Everything that you may, in your name, deleting for good included"),
            ),
        ],
        initial=WRITE,
        widget=forms.RadioSelect,
    )
    days = forms.ChoiceField(
        label=gettext_lazy("It works for"),
        choices=[
            ("7", gettext_lazy("7 days")),
            ("90", gettext_lazy("90 days")),
            ("365", gettext_lazy("a year")),
            (NEVER, gettext_lazy("until it is revoked")),
        ],
        initial="365",
    )

    def __init__(self, *args: Any, is_staff: bool = False, **more: Any) -> None:
        """Offer staff the site's metrics, too."""
        super().__init__(*args, **more)
        if is_staff:
            field = cast(forms.ChoiceField, self.fields["scopes"])
            told = gettext_lazy(
                "Read Beacon's metrics (Prometheus), and nothing of anybody's memory"
            )
            field.choices = [*cast(list[Any], field.choices), (METRICS, told)]

    @property
    def wanted_scopes(self) -> list[str]:
        """Return the scopes that were chosen."""
        return str(self.cleaned_data["scopes"]).split()

    @property
    def expires_at(self) -> datetime | None:
        """Return when the token ends; None for one that does not."""
        days = self.cleaned_data["days"]
        return None if days == NEVER else timezone.now() + timedelta(days=int(days))


class AgentForm(_OfAgent, _TakesRefusals):
    """The four settings of an agent; the view stores them."""

    class Meta:
        model = Agent
        fields: ClassVar[list[str]] = [
            "enable_memory",
            "share_with_subagents",
            "use_model_compaction",
            "compaction_prompt",
        ]
        labels: ClassVar[dict[str, Any]] = {
            "enable_memory": gettext_lazy("Keep results in the content store"),
            "share_with_subagents": gettext_lazy("Share them with sub-agents"),
            "use_model_compaction": gettext_lazy("Let a model make results short"),
            "compaction_prompt": gettext_lazy("Words for that model"),
        }
        help_texts: ClassVar[dict[str, Any]] = {
            "enable_memory": gettext_lazy(
                "Each result is stored whole, and the conversation goes on with a short form of it. "
                "Off: results stand in the conversation in full."
            ),
            "share_with_subagents": gettext_lazy(
                "A sub-agent sees what the agent stored. Off: each has a store of its own, and "
                "nothing of a sub-agent's leaks up."
            ),
            "use_model_compaction": gettext_lazy(
                "By default a plugin for the kind of result does it, at once and for nothing. A "
                "model costs tokens; where it fails the plugin does it after all."
            ),
            "compaction_prompt": gettext_lazy(
                "At most 4,000 characters. Empty: Beacon's own words."
            ),
        }
        widgets: ClassVar[dict[str, Any]] = {
            "compaction_prompt": forms.Textarea(attrs={"rows": 4, "maxlength": LONGEST_PROMPT}),
        }
