"""What a person's program may see and set of their settings: review levels, language, time zone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.forms.models import model_to_dict
from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.contexts import identity
from memory.errors import InvalidValue
from memory.forms.accounts import ProfileForm
from memory.models import Activity, User
from memory.reviewing.levels import levels_of, set_levels

OF_THE_PROFILE = ("language", "time_zone")


def settings_of(owner: User) -> dict[str, Any]:
    """Return the settings as programs are told them."""
    return {
        "review_levels": levels_of(owner),
        "language": owner.language,
        "time_zone": owner.time_zone,
    }


def change_settings(owner: User, asked: Mapping[str, Any], *, by: Actor) -> dict[str, Any]:
    """Set what is named, all or nothing, and return the settings as they then are.

    Raises InvalidValue, its errors by field, for what cannot be, or if `by` is no person.
    """
    with transaction.atomic():
        profile = {name: asked[name] for name in OF_THE_PROFILE if name in asked}
        if profile:
            _change_profile(owner, profile, by)
        if levels := asked.get("review_levels"):
            try:
                set_levels(owner, levels, by=by)
            except InvalidValue as exc:
                errors = exc.errors or {"review_levels": [str(exc)]}
                raise InvalidValue(str(exc), errors=errors) from exc
    return settings_of(User.objects.get(pk=owner.pk))


def _change_profile(owner: User, asked: Mapping[str, Any], by: Actor) -> None:
    """Save the fields by the rules of the profile's page; the user note says the same (R202)."""
    if not by.is_person:
        raise InvalidValue(_("Only a person changes the profile."))
    person = User.objects.select_for_update().get(pk=owner.pk)
    names = [str(name) for name in ProfileForm.Meta.fields]
    form = ProfileForm({**model_to_dict(person, names), **asked}, instance=person)
    if not form.is_valid():
        errors = {name: [str(one) for one in found] for name, found in form.errors.items()}
        first = next(iter(errors.values()))[0]
        raise InvalidValue(first, errors=errors)
    person = form.save()
    identity.write_profile(person, by=by)
    Activity.log(person, by, "profile-changed", subject=person)
