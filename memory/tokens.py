"""API tokens: how one is made.  Only its hash is stored; the token is shown once."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.errors import InvalidValue
from memory.models import Activity, Agent, ApiToken, Invitation, User

PREFIX = "bcn_"
SCOPES = ("read", "write", "admin")


def issue(
    owner: User,
    *,
    name: str,
    scopes: Sequence[str],
    by: Actor,
    expires_at: datetime | None = None,
) -> tuple[ApiToken, str]:
    """Make a token for the owner's agent of this name and return it with its text.

    The agent is made if there is none.  Raises InvalidValue for a scope that is unknown.
    """
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown or not scopes:
        raise InvalidValue(
            _("There is no scope “%(unknown)s”. Choose among: %(scopes)s.")
            % {"unknown": ", ".join(unknown), "scopes": ", ".join(SCOPES)}
        )
    text = PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic():
        agent, _made = Agent.objects.get_or_create(owner=owner, name=name)
        token = ApiToken.objects.create(
            agent=agent,
            hash=Invitation.hash_of(text),
            scopes=[scope for scope in SCOPES if scope in scopes],
            expires_at=expires_at,
        )
        Activity.log(owner, by, "token-made", subject=token)
    return token, text
