"""The four settings of an agent (seed 002), and how a person changes them.

Each program that came in by a token is an agent, and so is Beacon's own researcher.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import Count, Max, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.errors import InvalidValue
from memory.models import Activity, Agent, User
from memory.texts.text import clean

FIELDS = (
    "enable_memory",
    "share_with_subagents",
    "use_model_compaction",
    "compaction_prompt",
)
LONGEST_PROMPT = 4000  # characters


def agents_of(owner: User) -> QuerySet[Agent]:
    """Return the owner's agents by name, with how many tokens open each and its last use."""
    now = timezone.now()
    unexpired = Q(tokens__expires_at=None) | Q(tokens__expires_at__gt=now)
    is_open = Q(tokens__isnull=False, tokens__revoked_at=None) & unexpired
    found: QuerySet[Agent] = Agent.objects.filter(owner=owner)
    counted = {"open_tokens": Count("tokens", filter=is_open)}
    return found.annotate(**counted, used_at=Max("tokens__last_used_at")).order_by("name", "pk")


def change(agent: Agent, values: Mapping[str, Any], *, by: Actor) -> bool:
    """Store an agent's settings and return whether any changed; Activity names those that did.

    Raises InvalidValue for a prompt that is too long.
    """
    wanted = {name: values[name] for name in FIELDS if name in values}
    if "compaction_prompt" in wanted:
        wanted["compaction_prompt"] = _checked(str(wanted["compaction_prompt"]))
    with transaction.atomic():
        stored = Agent.objects.select_for_update().get(pk=agent.pk)
        changed = {k: value for k, value in wanted.items() if getattr(stored, k) != value}
        if not changed:
            return False
        Agent.objects.filter(pk=agent.pk).update(**changed)
        Activity.log(
            stored.owner, by, "agent-changed", subject=stored, changed=", ".join(sorted(changed))
        )
    for name, value in changed.items():
        setattr(agent, name, value)
    return True


def _checked(prompt: str) -> str:
    prompt = clean(prompt)[0].strip()
    if len(prompt) > LONGEST_PROMPT:
        told = {"have": f"{len(prompt):,}", "most": f"{LONGEST_PROMPT:,}"}
        text = _("These words have %(have)s characters; at most %(most)s fit.") % told
        raise InvalidValue(text, errors={"compaction_prompt": [text]})
    return prompt
