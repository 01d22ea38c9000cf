"""The part of a topic's form that says when it runs."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory.errors import InvalidValue
from memory.forms.fields import CleanTextField
from research.forms.fields import CronField, UsualChoiceField
from research.models import Schedule
from research.schedules import cron, scheduling

SCHEDULE_PARTS = ("preset", "hour", "weekday", "day", "cron", "time_zone", "missed")


class ScheduleForm(forms.Form):
    """How often, when, in which time zone, and what becomes of missed runs."""

    preset = forms.ChoiceField(
        label=gettext_lazy("How often"), choices=Schedule.Preset, widget=forms.RadioSelect
    )
    hour = UsualChoiceField(label=gettext_lazy("At"), coerce=int, usual=scheduling.DEFAULT_HOUR)
    weekday = UsualChoiceField(label=gettext_lazy("On"), coerce=int, usual=1)
    day = UsualChoiceField(label=gettext_lazy("On day"), usual="1")
    cron = CronField(
        label=gettext_lazy("Cron line"),
        max_length=200,
        help_text=gettext_lazy(
            "Minute, hour, day of the month, month, weekday. “0 9 * * MON-FRI” is every weekday "
            "at 09:00."
        ),
        widget=forms.TextInput(attrs={"spellcheck": "false", "autocapitalize": "off"}),
    )
    time_zone = CleanTextField(
        label=gettext_lazy("Time zone"),
        max_length=64,
        error_messages={
            "required": gettext_lazy("Name a time zone, such as Europe/Berlin or UTC.")
        },
        widget=forms.TextInput(attrs={"list": "time-zones", "autocomplete": "off"}),
    )
    missed = UsualChoiceField(
        label=gettext_lazy("If Beacon was off"),
        choices=Schedule.Missed,
        usual=Schedule.Missed.ONCE,
        widget=forms.RadioSelect,
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices: dict[str, list[tuple[Any, Any]]] = {
            "hour": [(hour, f"{hour:02}:00") for hour in scheduling.HOURS],
            "weekday": [
                (number % 7, scheduling.weekday_names()[number % 7]) for number in range(1, 8)
            ],
            "day": [
                (day, _("the last") if day == scheduling.LAST_DAY else f"{day}.")
                for day in scheduling.DAYS
            ],
        }
        for name, values in choices.items():
            self.fields[name].choices = values  # type: ignore[attr-defined]

    @property
    def zone_names(self) -> list[str]:
        """Return the time zones that the field offers."""
        return cron.zone_names()

    def chosen_schedule(self) -> dict[str, Any]:
        """Return what `scheduling.schedule_fields` takes, of fields that are valid by themselves."""
        names = ("preset", "hour", "weekday", "day", "time_zone", "missed")
        chosen = {name: self.cleaned_data[name] for name in names}
        # What stands in the field of a preset without a line is hidden, and not meant.
        is_cron = chosen["preset"] == Schedule.Preset.CRON
        return chosen | {"cron": self.cleaned_data["cron"] if is_cron else ""}

    def clean(self) -> dict[str, Any]:
        """Check the schedule as a whole and keep its fields, with the next run, as `schedule`."""
        cleaned = super().clean() or self.cleaned_data
        self.schedule: dict[str, Any] | None = None
        if all(part in cleaned for part in SCHEDULE_PARTS):
            try:
                self.schedule = scheduling.schedule_fields(**self.chosen_schedule())
            except InvalidValue as exc:
                for name, problems in exc.errors.items():
                    self.add_error(name, problems)
        return cleaned
