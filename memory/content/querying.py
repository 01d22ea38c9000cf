"""Getting content items back: one by its id, or a list of what is known of them."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from memory.content.limits import MOST_QUERIED, USUAL_QUERIED, whole_number
from memory.errors import InvalidValue
from memory.models import ContentItem
from memory.models.content import ContentQuerySet
from memory.notes.checks import NoteChecks, listed
from memory.texts.text import clean, one_line, shorten


def retrieve(owner: Any, item_id: Any, *, scopes: Collection[str] | None) -> ContentItem | None:
    """Return the item, or None if these scopes hold none of that id (R113).

    `scopes` None takes all of the owner's, for pages.  Whoever shows it to an agent asks
    `ToolContext.may_read` first.
    """
    try:
        key = uuid.UUID(str(item_id).strip())
    except ValueError:
        return None
    found: ContentItem | None = (
        ContentItem.objects.of(owner).live().in_scopes(scopes).filter(pk=key).first()
    )
    return found


def query(
    owner: Any,
    *,
    scopes: Collection[str] | None,
    type: str = "",
    source: str = "",
    tags: Iterable[str] | str = (),
    after: datetime | None = None,
    before: datetime | None = None,
    limit: int = USUAL_QUERIED,
    for_agent: bool = False,
) -> list[ContentItem]:
    """Return the items that meet all criteria, the newest first, without their content (R115).

    `tags` must all be there; `after` and `before` are both inclusive.  `for_agent` leaves out what
    agents are not shown.  Raises InvalidValue for a type that is not known, or an odd limit.
    """
    whole_number("limit", limit, MOST_QUERIED)
    found = matching(owner, scopes=scopes, type=type, source=source, tags=tags)
    if after is not None:
        found = found.filter(created__gte=after)
    if before is not None:
        found = found.filter(created__lte=before)
    if after is not None and before is not None and after > before:
        problem = _("“after” is later than “before”, so nothing can lie between them.")
        raise InvalidValue(problem, errors={"after": [problem]})
    if for_agent:
        found = found.for_agents()
    return list(found.order_by("-created", "-id").defer("content")[:limit])


def matching(
    owner: Any,
    *,
    scopes: Collection[str] | None,
    type: str = "",
    source: str = "",
    tags: Iterable[str] | str = (),
) -> ContentQuerySet:
    """Return the live items of that type and source that carry all of the tags."""
    found = ContentItem.objects.of(owner).live().in_scopes(scopes)
    if type:
        checks = NoteChecks()
        checks.choice("type", type, ContentItem.Type.values)
        checks.raise_refused()
        found = found.filter(type=type)
    if source:
        found = found.filter(source=one_line(clean(source)[0]))
    given = listed(tags) if isinstance(tags, str) else tags
    wanted = [line for line in (shorten(clean(tag)[0], 200) for tag in given) if line]
    return found.filter(tags__contains=wanted) if wanted else found
