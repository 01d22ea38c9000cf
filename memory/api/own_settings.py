"""`/settings`: review levels, language and time zone of the token's owner."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from memory.accounts import own_settings
from memory.api.auth import ADMIN, READ, ApiRequest
from memory.api.frame import Body, router

api = router("settings")
Kind = Literal["default", "file", "rule", "soul", "note", "observation"]
Level = Literal["accept", "hold risky", "hold all"]
ChosenLevel = Literal["", "accept", "hold risky", "hold all"]


class SettingsPatch(Body):
    """What changes; what is left out stays as it is."""

    review_levels: dict[Kind, ChosenLevel] | None = Field(
        None, description="How agents' writes are reviewed, by kind; empty: as by default."
    )
    language: str | None = Field(None, max_length=16, description="The code of a language.")
    time_zone: str | None = Field(None, max_length=64, description="Such as Europe/Berlin.")


class SettingsOut(BaseModel):
    """The settings as they stand."""

    review_levels: dict[Kind, Level]
    language: str
    time_zone: str


@api.get("", auth=READ, response=SettingsOut)
def read_settings(request: ApiRequest) -> SettingsOut:
    """Read the settings."""
    return SettingsOut(**own_settings.settings_of(request.auth.owner))


@api.patch("", auth=ADMIN, response=SettingsOut)
def edit_settings(request: ApiRequest, patch: SettingsPatch) -> SettingsOut:
    """Change settings, all or none."""
    sent = {k: v for k, v in patch.model_dump(exclude_unset=True).items() if v is not None}
    caller = request.auth
    return SettingsOut(**own_settings.change_settings(caller.owner, sent, by=caller.by))
