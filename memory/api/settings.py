"""`/settings`: review rules, language and time zone of the token's owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from django.db import transaction
from django.forms.models import model_to_dict
from django.utils.translation import gettext as _
from pydantic import Field

from memory.accounts.forms import ProfileForm
from memory.api.auth import ADMIN, READ, ApiRequest
from memory.api.frame import Body, router
from memory.api.shown import NoStoredText
from memory.models import Activity, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue
from memory.services.context import identity
from memory.services.review.proposals import levels_of, set_levels

OF_THE_PROFILE = ("language", "page_language", "time_zone")
api = router("settings")
Kind = Literal["default", "file", "rule", "soul", "note", "observation"]
Level = Literal["accept", "hold risky", "hold all"]
ChosenLevel = Literal["", "accept", "hold risky", "hold all"]


class SettingsPatch(Body):
    """The settings to change. Omitted ones stay the same."""

    review_levels: dict[Kind, ChosenLevel] | None = Field(
        None,
        description="Review rules for agents' writes, by kind. Leave a rule empty for the default.",
    )
    language: str | None = Field(
        None,
        max_length=16,
        description="The code of the language that the person writes in, such as en.",
    )
    page_language: str | None = Field(
        None,
        max_length=10,
        description="The language of Beacon's pages, as a code. Leave empty to use the browser's language.",
    )
    time_zone: str | None = Field(None, max_length=64, description="Such as Europe/Berlin.")


class SettingsOut(NoStoredText):
    """The current settings."""

    review_levels: dict[Kind, Level]
    language: str
    page_language: str
    time_zone: str


@api.get("", auth=READ, response=SettingsOut)
def read_settings(request: ApiRequest) -> SettingsOut:
    """Read the settings."""
    return SettingsOut(**settings_of(request.auth.owner))


@api.patch("", auth=ADMIN, response=SettingsOut)
def edit_settings(request: ApiRequest, patch: SettingsPatch) -> SettingsOut:
    """Change settings. Either all changes are saved, or none."""
    sent = {k: v for k, v in patch.model_dump(exclude_unset=True).items() if v is not None}
    caller = request.auth
    return SettingsOut(**change_settings(caller.owner, sent, by=caller.by))


def settings_of(owner: User) -> dict[str, Any]:
    return {
        "review_levels": levels_of(owner),
        "language": owner.language,
        "page_language": owner.page_language,
        "time_zone": owner.time_zone,
    }


def change_settings(owner: User, values: Mapping[str, Any], *, by: Actor) -> dict[str, Any]:
    """Set the given values, all or none, and return the resulting settings.

    Raises InvalidValue, with its errors by field, for invalid values, or if `by` isn't a person.
    """
    with transaction.atomic():
        # Locked, so that the answer shows the result of this change.
        owner = User.objects.select_for_update(no_key=True).get(pk=owner.pk)
        profile = {name: values[name] for name in OF_THE_PROFILE if name in values}
        if profile:
            _change_profile(owner, profile, by)
        if levels := values.get("review_levels"):
            try:
                set_levels(owner, levels, by=by)
            except InvalidValue as exc:
                errors = exc.errors or {"review_levels": [str(exc)]}
                raise InvalidValue(str(exc), errors=errors) from exc
        return settings_of(User.objects.get(pk=owner.pk))


def _change_profile(owner: User, fields: Mapping[str, Any], by: Actor) -> None:
    """Save the fields by the profile page's rules, and update the user note (R202)."""
    if not by.is_person:
        raise InvalidValue(_("Only a person can change the profile."))
    person = User.objects.select_for_update().get(pk=owner.pk)
    names = [str(name) for name in ProfileForm.Meta.fields]
    form = ProfileForm({**model_to_dict(person, names), **fields}, instance=person)
    if not form.is_valid():
        errors = {name: [str(one) for one in found] for name, found in form.errors.items()}
        first = next(iter(errors.values()))[0]
        raise InvalidValue(first, errors=errors)
    person = form.save()
    identity.write_profile(person, by=by)
    Activity.log(person, by, "profile-changed", subject=person)
