"""Forms for API tokens, and for the settings of the agents that they open."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, cast

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memory.accounts.agent_settings import LONGEST_PROMPT
from memory.errors import InvalidValue
from memory.forms.fields import CleanTextField
from memory.models import Agent
from memory.models.agents import LONGEST_NAME

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
        label=_("Which program"),
        max_length=LONGEST_NAME,
        error_messages={
            "required": _(
                "A token is made for a program, whose name says who wrote what. Type its name, "
                "such as claude."
            ),
        },
        help_text=_(
            "It acts as an agent of this name: what it writes says so. A second token of the same "
            "name opens the same agent."
        ),
        widget=forms.TextInput(attrs={"autocomplete": "off", "placeholder": "claude"}),
    )
    scopes = forms.ChoiceField(
        label=_("What it may do"),
        choices=[
            (READ, _("Read: recall, look up, list")),
            (WRITE, _("Read and write, as an agent: what is risky waits under Review")),
            (ADMIN, _("Everything that you may, in your name, deleting for good included")),
        ],
        initial=WRITE,
        widget=forms.RadioSelect,
    )
    days = forms.ChoiceField(
        label=_("It works for"),
        choices=[
            ("7", _("7 days")),
            ("90", _("90 days")),
            ("365", _("a year")),
            (NEVER, _("until it is revoked")),
        ],
        initial="365",
    )

    def __init__(self, *args: Any, is_staff: bool = False, **more: Any) -> None:
        """Offer staff the site's metrics, too."""
        super().__init__(*args, **more)
        if is_staff:
            field = cast(forms.ChoiceField, self.fields["scopes"])
            told = _("Read Beacon's metrics (Prometheus), and nothing of anybody's memory")
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
            "enable_memory": _("Keep results in the content store"),
            "share_with_subagents": _("Share them with sub-agents"),
            "use_model_compaction": _("Let a model make results short"),
            "compaction_prompt": _("Words for that model"),
        }
        help_texts: ClassVar[dict[str, Any]] = {
            "enable_memory": _(
                "Each result is stored whole, and the conversation goes on with a short form of it. "
                "Off: results stand in the conversation in full."
            ),
            "share_with_subagents": _(
                "A sub-agent sees what the agent stored. Off: each has a store of its own, and "
                "nothing of a sub-agent's leaks up."
            ),
            "use_model_compaction": _(
                "By default a plugin for the kind of result does it, at once and for nothing. A "
                "model costs tokens; where it fails the plugin does it after all."
            ),
            "compaction_prompt": _("At most 4,000 characters. Empty: Beacon's own words."),
        }
        widgets: ClassVar[dict[str, Any]] = {
            "compaction_prompt": forms.Textarea(attrs={"rows": 4, "maxlength": LONGEST_PROMPT}),
        }
