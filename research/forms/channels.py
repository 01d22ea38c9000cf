"""Forms of channels, of what a topic tells, of the digest, and of feeds."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from memory.errors import InvalidValue
from memory.forms.fields import CleanTextField
from memory.models import Topic, User
from research.models import Channel, DigestSettings, TopicNotices
from research.models.channels import LONGEST_NAME, Reports
from research.schedules.scheduling import weekday_names

_ADDRESSES = {
    Channel.Kind.EMAIL: (
        _("E-mail address"),
        _("One address, such as desk@example.org. Each mail carries a link by which it is ended."),
    ),
    Channel.Kind.WEBHOOK: (
        _("Address"),
        _(
            "What takes the POST, beginning with https://. It is kept encrypted and never shown "
            "whole again."
        ),
    ),
    Channel.Kind.APPRISE: (
        _("Apprise address"),
        _(
            "Such as ntfy://topic or discord://id/token. It is kept encrypted and never shown again."
        ),
    ),
}
_REPORTS = _("What it is told")
_HOURS = [(hour, f"{hour:02}:00") for hour in range(24)]


class _TakesRefusals(forms.Form):
    def take(self, exc: InvalidValue) -> None:
        """Show what was refused at the fields that it names."""
        if not exc.errors:
            self.add_error(None, str(exc))
        for name, problems in exc.errors.items():
            self.add_error(name, problems)


class ChannelForm(_TakesRefusals):
    """A channel: where it leads, what it is told.  Of a stored one the address may stay empty."""

    # No line break is taken out of an address: one that holds one is refused, not mended.
    address = forms.CharField(
        max_length=2000,
        strip=False,
        error_messages={"required": _("Say where it leads: type the address that is to be told.")},
    )
    name = CleanTextField(
        label=_("Name"),
        required=False,
        max_length=LONGEST_NAME,
        help_text=_("For your own lists; empty: the address."),
    )
    reports = forms.ChoiceField(
        label=_("Reports"),
        choices=Reports,
        initial=Reports.EACH,
        help_text=_("Of each topic that does not say otherwise in its own settings."),
    )
    failures = forms.BooleanField(
        label=_("Failures"),
        required=False,
        initial=True,
        help_text=_("A run failed, or another channel was switched off."),
    )
    digest = forms.BooleanField(label=_("The digest"), required=False, initial=True)
    enabled = forms.BooleanField(label=_("Switched on"), required=False, initial=True)

    def __init__(self, *args: Any, kind: str, channel: Channel | None = None, **more: Any) -> None:
        if channel is not None:
            fields = ("name", "reports", "failures", "digest", "enabled")
            more["initial"] = {name: getattr(channel, name) for name in fields}
            if channel.kind == Channel.Kind.EMAIL:
                more["initial"]["address"] = channel.address
        super().__init__(*args, **more)
        field = self.fields["address"]
        field.label, field.help_text = _ADDRESSES[Channel.Kind(kind)]
        field.widget.attrs |= {"autocomplete": "off", "spellcheck": "false"}
        if kind == Channel.Kind.EMAIL:
            field.widget.attrs["inputmode"] = "email"
        if channel is not None and channel.needs_secret:
            field.required = False
            field.help_text = _("Empty: it stays %(address)s.") % {"address": channel.address}
        if channel is None:
            del self.fields["enabled"]


class TopicNoticesForm(forms.Form):
    """What is told of one topic, and where."""

    channels = forms.ModelMultipleChoiceField(
        label=_("Channels that are told of this topic"),
        queryset=Channel.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    own = forms.TypedChoiceField(
        label=_REPORTS,
        choices=[("", _("what each channel says")), ("1", _("what is chosen here"))],
        coerce=bool,
        required=False,
        widget=forms.RadioSelect,
    )
    reports = forms.ChoiceField(label=_("Reports"), choices=Reports)
    failures = forms.BooleanField(label=_("Failures"), required=False)
    in_digest = forms.BooleanField(label=_("It stands in the digest"), required=False)

    def __init__(self, *args: Any, chosen: TopicNotices, owner: User, **more: Any) -> None:
        mine = Channel.objects.of(owner).kept()
        out = set(chosen.left_out.values_list("pk", flat=True)) if chosen.pk else set()
        more["initial"] = {
            "channels": [channel.pk for channel in mine if channel.pk not in out],
            "own": "1" if chosen.own else "",
            "reports": chosen.reports,
            "failures": chosen.failures,
            "in_digest": chosen.in_digest,
        }
        super().__init__(*args, **more)
        self.mine = list(mine)
        self.fields["channels"].queryset = mine  # type: ignore[attr-defined]

    def left_out(self) -> list[Channel]:
        """Return the channels that were not ticked."""
        ticked = {channel.pk for channel in self.cleaned_data["channels"]}
        return [channel for channel in self.mine if channel.pk not in ticked]


class DigestForm(forms.Form):
    """When a digest comes, and of which topics."""

    often = forms.ChoiceField(
        label=_("A digest"), choices=DigestSettings.Often, widget=forms.RadioSelect
    )
    hour = forms.TypedChoiceField(label=_("At"), choices=_HOURS, coerce=int)
    weekday = forms.TypedChoiceField(
        label=_("On"), coerce=int, help_text=_("Of one that comes every week.")
    )
    even_if_quiet = forms.BooleanField(label=_("Also when nothing changed"), required=False)
    topics = forms.ModelMultipleChoiceField(
        label=_("Topics that stand in it"),
        queryset=Topic.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("New topics stand in it until you take them out."),
    )

    def __init__(
        self, *args: Any, chosen: DigestSettings, topics: list[Topic], **more: Any
    ) -> None:
        out = {topic.pk for topic in topics if not topic.in_digest}  # type: ignore[attr-defined]
        more["initial"] = {
            "often": chosen.often,
            "hour": chosen.hour,
            "weekday": chosen.weekday,
            "even_if_quiet": chosen.even_if_quiet,
            "topics": [topic.pk for topic in topics if topic.pk not in out],
        }
        super().__init__(*args, **more)
        self.mine = topics
        self.fields["weekday"].choices = list(enumerate(weekday_names()))  # type: ignore[attr-defined]
        keys = [topic.pk for topic in topics]
        self.fields["topics"].queryset = Topic.objects.of(chosen.owner).filter(pk__in=keys)  # type: ignore[attr-defined]
        if not topics:
            del self.fields["topics"]

    def left_out(self) -> list[Topic]:
        """Return the topics that were not ticked."""
        ticked = {topic.pk for topic in self.cleaned_data.get("topics", ())}
        return [topic for topic in self.mine if topic.pk not in ticked]


class FeedForm(_TakesRefusals):
    """A new feed: of one topic or of all, with or without what is private."""

    topic = forms.ModelChoiceField(
        label=_("Topic"), queryset=Topic.objects.none(), required=False, empty_label=_("all topics")
    )
    with_private = forms.BooleanField(
        label=_("Private topics too"),
        required=False,
        help_text=_("Whoever has the address reads what changed in them."),
    )

    def __init__(self, *args: Any, owner: User, **more: Any) -> None:
        super().__init__(*args, **more)
        mine = Topic.objects.of(owner).live().order_by("title")
        self.fields["topic"].queryset = mine  # type: ignore[attr-defined]
