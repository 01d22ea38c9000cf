"""`/hooks`: programs such as n8n and Zapier subscribe to events by REST, and unsubscribe.

A hook is a webhook channel: it appears under Settings, Notifications, with its messages.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from django.http import HttpResponse
from ninja import Query, Status
from pydantic import Field

from memory.api.auth import ADMIN, ApiRequest
from memory.api.frame import Body, located, router
from memory.api.paging import Listing, PageParams, listing
from memory.api.problems import Problem, not_found
from memory.api.shown import NoStoredText
from memory.models.errors import InvalidValue
from research.models import Channel
from research.models.notifications import MAX_NAME_LENGTH, Reports
from research.services.notifications import channels

api = router("notifications")
Event = Literal[
    "report.finished", "report.changed", "run.failed", "digest.created", "report.commented"
]


class HookIn(Body):
    """A subscription."""

    url: str = Field(max_length=2000, description="The URL that gets a signed POST request.")
    events: list[Event] = Field(
        ["report.finished"],
        min_length=1,
        max_length=5,
        description="report.changed: only reports with changes.",
    )
    name: str = Field("", max_length=MAX_NAME_LENGTH, description="Shown in Settings.")


class HookOut(NoStoredText):
    """A subscription. Its URL is shown without its path, because a path often contains a token."""

    id: UUID
    url: str
    events: list[Event]
    name: str
    enabled: bool
    created: datetime

    @classmethod
    def about(cls, channel: Channel) -> Self:
        return cls(**_fields(channel))


class HookWithKey(HookOut):
    """A new subscription with its signing key."""

    key: str = Field(description="Signs the messages (Standard Webhooks). Shown only here.")


def _fields(channel: Channel) -> dict[str, Any]:
    events = {
        "report.finished": channel.reports == Reports.EACH,
        "report.changed": channel.reports == Reports.CHANGED,
        "run.failed": channel.failures,
        "digest.created": channel.digest,
        "report.commented": channel.comments,
    }
    return {
        "id": channel.pk,
        "url": channel.address,
        "events": [name for name, wanted in events.items() if wanted],
        "name": channel.name,
        "enabled": channel.enabled,
        "created": channel.created,
    }


@api.get("", auth=ADMIN, response=Listing[HookOut])
def list_hooks(request: ApiRequest, query: Query[PageParams]) -> Listing[HookOut]:
    """List your webhooks, including those created in Settings."""
    rows = Channel.objects.for_user(request.auth.owner).kept().filter(kind=Channel.Kind.WEBHOOK)
    return listing(rows, query, name="hooks", out=HookOut.about)


@api.post("", auth=ADMIN, response={201: HookWithKey})
def subscribe_hook(request: ApiRequest, response: HttpResponse, body: HookIn) -> Any:
    """Subscribe a URL to events."""
    caller = request.auth
    reports = Reports.CHANGED if "report.changed" in body.events else Reports.NONE
    if "report.finished" in body.events:
        reports = Reports.EACH
    try:
        made = channels.add(
            caller.owner,
            kind=Channel.Kind.WEBHOOK,
            name=body.name,
            address=body.url,
            by=caller.by,
            reports=reports,
            failures="run.failed" in body.events,
            digest="digest.created" in body.events,
            comments="report.commented" in body.events,
        )
    except InvalidValue as exc:
        at_url = exc.errors.get("address")
        raise Problem(422, str(exc), errors={"url": at_url} if at_url else {}) from exc
    located(response, f"/hooks/{made.pk}")
    return Status(201, HookWithKey(**_fields(made), key=made.opened()["key"]))


@api.delete("/{uuid:hook_id}", auth=ADMIN, response={204: None})
def unsubscribe_hook(request: ApiRequest, hook_id: UUID) -> Status[None]:
    """Delete a webhook.

    Nothing more is sent to it. Its owner can restore it in Settings for a month.
    """
    caller = request.auth
    mine = (
        Channel.objects.for_user(caller.owner).kept().filter(kind=Channel.Kind.WEBHOOK, pk=hook_id)
    )
    found = mine.select_related("owner").first()
    if found is None or not channels.remove(found, by=caller.by):
        raise not_found()
    return Status(204, None)
