"""Forms for accounts, profiles, passwords, invitations, API tokens and agents."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, cast

from django import forms
from django.conf import settings
from django.contrib.auth import password_validation
from django.contrib.auth.forms import (
    AuthenticationForm,
    PasswordChangeForm,
    SetPasswordForm,
    UserCreationForm,
    UsernameField,
)
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.translation import get_language_info, gettext_lazy
from django.utils.translation import gettext as _

from beacon_site.text import dates
from beacon_site.text.terms import ENGLISH, STEMMED
from beacon_site.web.responses import CleanTextField, RefusalErrorsMixin
from memory.accounts import people
from memory.accounts.agents import MAX_PROMPT_LENGTH
from memory.models import Agent, Topic, User
from memory.models.accounts import MAX_NAME_LENGTH


def choices() -> list[tuple[str, str]]:
    """Return the codes of the languages with stemming, with their own names."""
    named = {code: _own_name(code) for code in STEMMED}
    others = sorted(code for code in named if code != ENGLISH)
    return [(code, named[code]) for code in (ENGLISH, *others)]


def _own_name(code: str) -> str:
    """Return a language's name for itself, also for the few that Django has no name for."""
    try:
        return str(get_language_info(code)["name_local"])
    except KeyError:
        return STEMMED[code].title()


# --- confirming who you are ---


class ConfirmForm(forms.Form, RefusalErrorsMixin):
    """The password of the person who changes how they sign in, if they have one."""

    is_confirmed = False
    password = forms.CharField(
        label=gettext_lazy("Your password"),
        max_length=4096,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
        error_messages={"required": gettext_lazy("Enter your password to confirm the change.")},
    )

    def __init__(self, *args: Any, person: User, **more: Any) -> None:
        super().__init__(*args, **more)
        if not person.has_usable_password():
            del self.fields["password"]


# --- deleting an account ---


class AccountDeletionForm(ConfirmForm):
    """The account's username, and the password of the person who deletes it."""

    name = forms.CharField(
        label=gettext_lazy("Your username"),
        max_length=150,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    field_order = ("name", "password")

    def __init__(self, *args: Any, person: User, is_own: bool, **more: Any) -> None:
        super().__init__(*args, person=person, **more)
        if not is_own:
            self.fields["name"].label = _("Their username")


# --- accounts and profiles ---

if TYPE_CHECKING:
    _NewUser = UserCreationForm[User]
    _OfUser = forms.ModelForm[User]
    _SetPassword = SetPasswordForm[User]
else:
    _NewUser, _OfUser, _SetPassword = UserCreationForm, forms.ModelForm, SetPasswordForm

_NO_ZONE = gettext_lazy("Enter a time zone, such as Europe/Berlin or UTC.")
_NOT_AGAIN = gettext_lazy("Enter the same password again.")
MAX_USERNAME_LENGTH = 150  # Django's


class TimeZoneField(forms.CharField):
    """The name of a time zone, accepted in any case and with spaces: `europe/berlin`, `New York`."""

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
        """Return the name in the system's spelling."""
        name = str(super().clean(value))
        found = dates.system_zone_name(name)
        if found is None:
            raise ValidationError(
                _("There’s no time zone “%(name)s”. Select one, such as Europe/Berlin or UTC.")
                % {"name": name}
            )
        return found


class ListsTimeZones:
    """A form whose page suggests the names of time zones."""

    time_zone_names = staticmethod(dates.names)


class SignInForm(AuthenticationForm):
    """Username and password."""

    error_messages = {
        "invalid_login": gettext_lazy(
            "Wrong username or password. Both are case-sensitive. After 5 failed attempts, sign-in is locked for 15 minutes."
        ),
        "inactive": gettext_lazy("This account is disabled. Contact your admin."),
    }

    def clean_username(self) -> str:
        """Reject a text longer than any username before it is looked up and counted."""
        username: str = self.cleaned_data["username"]
        if len(username) > MAX_USERNAME_LENGTH:
            raise ValidationError(
                _("Usernames can have at most %(most)d characters.") % {"most": MAX_USERNAME_LENGTH}
            )
        return username


class FirstPasswordMixin:
    """A form that shows what's wrong with a password beside it, not beside its repetition."""

    def validate_password_for_user(self, user: User, *names: str) -> None:
        first = names[0].replace("2", "1") if names else "password1"
        super().validate_password_for_user(user, first)  # type: ignore[misc]


class NewAccountForm(ListsTimeZones, FirstPasswordMixin, _NewUser):
    """The form behind a one-time link: the account to create."""

    error_messages = {
        "password_mismatch": gettext_lazy(
            "The two passwords don’t match. Enter the same one twice."
        ),
    }
    time_zone = TimeZoneField(
        initial="UTC", help_text=gettext_lazy("Used for dates and schedules.")
    )

    class Meta:
        model = User
        fields = ("username", "display_name", "time_zone")
        field_classes: ClassVar[dict[str, Any]] = {"username": UsernameField}
        error_messages: ClassVar[dict[str, Any]] = {
            "username": {
                "required": gettext_lazy("Choose a username to sign in with, such as ada."),
                "invalid": gettext_lazy(
                    "Use only letters, digits and @ . + - _ in a username, without spaces."
                ),
                "unique": gettext_lazy("This username is taken. Choose another."),
            },
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.order_fields(["username", "display_name", "password1", "password2", "time_zone"])
        self.fields["username"].help_text = _("Use only letters, digits and @ . + - _")
        self.fields["display_name"].label = _("Your name")
        self.fields["display_name"].widget.attrs["autocomplete"] = "name"
        self.fields["password1"].help_text = _password_rules()
        self.fields["password2"].label = _("Confirm password")
        self.fields["password2"].help_text = ""
        self.fields["password2"].error_messages["required"] = _NOT_AGAIN
        self.fields["time_zone"].widget.attrs["data-guess-time-zone"] = ""

    def clean_username(self) -> str:
        """Reject a name that another account has, or that looks like another one."""
        username: str = super().clean_username()  # none if exactly this name is taken
        if username and people.is_confusable(username):
            raise ValidationError(
                _("This is too similar to another username. Choose a different one.")
            )
        return username

    def wanted(self) -> dict[str, str]:
        """Return the arguments of `Invitation.accept()`."""
        names = ("username", "display_name", "time_zone")
        return {name: self.cleaned_data[name] for name in names} | {
            "password": self.cleaned_data["password1"]
        }


class ProfileForm(ListsTimeZones, _OfUser):
    """What people say about themselves."""

    time_zone = TimeZoneField(help_text=gettext_lazy("Schedules can have their own time zone."))
    page_language = forms.ChoiceField(
        label=gettext_lazy("Page language"),
        required=False,
        help_text=gettext_lazy("Beacon also uses this language in its messages."),
    )
    language = forms.ChoiceField(
        label=gettext_lazy("Language you write in"),
        choices=choices,
        help_text=gettext_lazy("Search uses this language to match word forms."),
    )

    class Meta:
        model = User
        fields = (
            "display_name", "email", "page_language", "language", "time_zone", "interests", "shortcuts",
        )  # fmt: skip
        labels: ClassVar[dict[str, Any]] = {
            "display_name": gettext_lazy("Name"),
            "email": gettext_lazy("Email"),
            "interests": gettext_lazy("Interests"),
            "shortcuts": gettext_lazy("Keyboard shortcuts"),
        }
        help_texts: ClassVar[dict[str, Any]] = {
            "display_name": gettext_lazy("Leave empty to use your username."),
            "email": gettext_lazy(
                "Lets your admin contact you. To get reports by email, add a channel."
            ),
            "interests": gettext_lazy("List subjects you follow."),
            "shortcuts": gettext_lazy(
                "Use keyboard shortcuts without modifier keys, such as / and g t. Press ? for a list."
            ),
        }
        widgets: ClassVar[dict[str, Any]] = {
            "display_name": forms.TextInput(attrs={"autocomplete": "name"}),
            "email": forms.EmailInput(attrs={"autocomplete": "email"}),
            "interests": forms.Textarea(attrs={"rows": 4}),
        }

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        chosen = [("", gettext_lazy("Use the browser’s language")), *settings.LANGUAGES]
        self.fields["page_language"].choices = chosen  # type: ignore[attr-defined]
        if len(settings.LANGUAGES) == 1:
            del self.fields["page_language"]

    def save(self, commit: bool = True) -> User:
        """Save only the fields that are shown."""
        self.instance.save(update_fields=list(self._meta.fields or ()))
        return self.instance


def _password_rules() -> str:
    """Return what the validators require. Django's own four sentences all begin alike."""
    validators = password_validation.get_default_password_validators()
    least = next(
        one.min_length
        for one in validators
        if isinstance(one, password_validation.MinimumLengthValidator)
    )
    return _(
        "Use at least %(n)d characters, and not only digits. Don’t use a common password, or one that resembles your name or username."
    ) % {"n": least}


def explain_new_password(form: forms.BaseForm) -> None:
    """Say what a new password needs, and to enter it twice."""
    first, again = form.fields["new_password1"], form.fields["new_password2"]
    first.help_text = _password_rules()
    again.label, again.help_text = _("Confirm new password"), ""
    again.error_messages["required"] = _NOT_AGAIN


class NewPasswordForm(FirstPasswordMixin, PasswordChangeForm):
    """A new password and the current one, which the page checks, since it counts failures."""

    error_messages = {
        "password_mismatch": gettext_lazy(
            "The two passwords don’t match. Enter the same one twice."
        ),
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["old_password"].label = _("Current password")
        self.fields["old_password"].widget.attrs.pop("autofocus", None)
        self.fields["new_password1"].label = _("New password")
        explain_new_password(self)

    def clean_old_password(self) -> str:
        return str(self.cleaned_data["old_password"])


class FirstPasswordForm(FirstPasswordMixin, _SetPassword):
    """A password for an account that has none, since it was created by single sign-on."""

    error_messages = {"password_mismatch": NewPasswordForm.error_messages["password_mismatch"]}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["new_password1"].widget.attrs.pop("autofocus", None)
        explain_new_password(self)


class InvitationForm(forms.Form):
    """Who a link is for, and what it allows."""

    note = forms.CharField(
        label=gettext_lazy("Invitee"),
        max_length=150,
        help_text=gettext_lazy("Shown only in this list."),
        error_messages={"required": gettext_lazy("Enter a name so you can tell your links apart.")},
    )
    grants_admin = forms.BooleanField(
        label=gettext_lazy("Admin (can manage users and connections)"),
        required=False,
        help_text=gettext_lazy("Admins can see all accounts in the admin site."),
    )


# --- API tokens and agents ---

if TYPE_CHECKING:
    _OfAgent = forms.ModelForm[Agent]
else:
    _OfAgent = forms.ModelForm

READ, WRITE, ADMIN, CHAT, METRICS = "read", "read write", "read write admin", "chat", "metrics"
NEVER = "never"


class LimitToTopics(forms.Form):
    """Limit an app to some of the person's topics; the page folds the field."""

    topics = forms.MultipleChoiceField(
        label=gettext_lazy("Only these topics"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=gettext_lazy(
            "The app can then see and change only these topics and their facts, runs, reports and sources. Select none to give it access to all of your memory."
        ),
        error_messages={
            "invalid_choice": gettext_lazy(
                "A topic that you selected is no longer available, so the app didn’t get access. Check your selection."
            ),
        },
    )

    def offer(self, topics: Sequence[Topic]) -> None:
        # Also without topics, the field stays: a posted topic that is gone must not mean all of them.
        self.offered = topics
        choices = [(str(topic.pk), topic.title) for topic in topics]
        cast(forms.MultipleChoiceField, self.fields["topics"]).choices = choices

    @property
    def wanted_topics(self) -> list[Topic]:
        wanted = set(self.cleaned_data["topics"])
        return [topic for topic in self.offered if str(topic.pk) in wanted]


class TokenForm(LimitToTopics, RefusalErrorsMixin):
    """A token for an app: its name, its permissions, and when it expires."""

    field_order = ("name", "scopes", "days", "topics")

    name = CleanTextField(
        label=gettext_lazy("App"),
        max_length=MAX_NAME_LENGTH,
        error_messages={
            "required": gettext_lazy(
                "Enter the app’s name, such as claude. It shows who wrote what."
            ),
        },
        help_text=gettext_lazy(
            "The app acts as an agent with this name, which is shown on everything it writes. Tokens with the same name share one agent."
        ),
        widget=forms.TextInput(attrs={"autocomplete": "off", "placeholder": "claude"}),
    )
    scopes = forms.ChoiceField(
        label=gettext_lazy("Permissions"),
        choices=[
            (READ, gettext_lazy("Read: search and view memory")),
            (
                WRITE,
                gettext_lazy("Read and write as an agent: risky writes wait for your approval"),
            ),
            (
                ADMIN,
                gettext_lazy("Full access: everything you can do, including permanent deletion"),
            ),
            (
                CHAT,
                gettext_lazy("Chat: use Beacon’s model with the agent’s memory"),
            ),
        ],
        initial=WRITE,
        widget=forms.RadioSelect,
    )
    days = forms.ChoiceField(
        label=gettext_lazy("Expires after"),
        choices=[
            ("7", gettext_lazy("7 days")),
            ("90", gettext_lazy("90 days")),
            ("365", gettext_lazy("1 year")),
            (NEVER, gettext_lazy("Never")),
        ],
        initial="365",
    )

    def __init__(
        self, *args: Any, is_staff: bool = False, topics: Sequence[Topic] = (), **more: Any
    ) -> None:
        """Also offer admins the site's metrics, and limits to `topics`."""
        super().__init__(*args, **more)
        self.offer(topics)
        if is_staff:
            field = cast(forms.ChoiceField, self.fields["scopes"])
            message = gettext_lazy("Read Beacon’s Prometheus metrics, without access to memory")
            field.choices = [*cast(list[Any], field.choices), (METRICS, message)]

    @property
    def wanted_scopes(self) -> list[str]:
        return str(self.cleaned_data["scopes"]).split()

    @property
    def expires_at(self) -> datetime | None:
        """Return when the token expires; None if it doesn't."""
        days = self.cleaned_data["days"]
        return None if days == NEVER else timezone.now() + timedelta(days=int(days))


class AgentForm(_OfAgent, RefusalErrorsMixin):
    """The four settings of an agent; the view saves them."""

    class Meta:
        model = Agent
        fields: ClassVar[list[str]] = [
            "enable_memory",
            "share_with_subagents",
            "use_model_compaction",
            "compaction_prompt",
        ]
        labels: ClassVar[dict[str, Any]] = {
            "enable_memory": gettext_lazy("Keep full tool results"),
            "share_with_subagents": gettext_lazy("Share results with sub-agents"),
            "use_model_compaction": gettext_lazy("Use a model to shorten results"),
            "compaction_prompt": gettext_lazy("Instructions for the model"),
        }
        help_texts: ClassVar[dict[str, Any]] = {
            "enable_memory": gettext_lazy(
                "The conversation continues with a compact form of each result."
            ),
            "share_with_subagents": gettext_lazy(
                "Otherwise, each sub-agent has its own results, which the agent can’t see."
            ),
            "use_model_compaction": gettext_lazy(
                "Using a model costs tokens. Without one, Beacon shortens results itself, instantly and for free."
            ),
            "compaction_prompt": gettext_lazy(
                "Use up to 4,000 characters. Leave empty to use Beacon’s default instructions."
            ),
        }
        widgets: ClassVar[dict[str, Any]] = {
            "compaction_prompt": forms.Textarea(attrs={"rows": 8, "maxlength": MAX_PROMPT_LENGTH}),
        }
