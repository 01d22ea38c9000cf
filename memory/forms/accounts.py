"""Forms by which people come in and describe themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib.auth import password_validation
from django.contrib.auth.forms import (
    AuthenticationForm,
    PasswordChangeForm,
    UserCreationForm,
    UsernameField,
)
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory.accounts import languages, usernames
from memory.models import User
from memory.texts import time_zones

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
        found = time_zones.named(asked)
        if found is None:
            raise ValidationError(
                _("There is no time zone “%(name)s”. Choose one such as Europe/Berlin or UTC.")
                % {"name": asked}
            )
        return found


class ListsTimeZones:
    """A form whose page offers the names of time zones."""

    time_zone_names = staticmethod(time_zones.names)


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
        if username and usernames.is_confusable(username):
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
        choices=languages.choices,
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
