"""Putting a text into the content store, whole: the one way in for tools, the API, runs and pages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.content.limits import LONGEST, check_size
from memory.content.relations import checked_related
from memory.errors import InvalidValue
from memory.models import ContentItem, Revision, Sensitivity, Topic, Trust, User
from memory.notes.checks import NoteChecks
from memory.texts.text import clean, one_line


def as_text(value: Any) -> str:
    """Return what is stored of a value: a text as it is, anything else as JSON (R121).

    Raises InvalidValue for JSON that is nested too deeply to be written.
    """
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (RecursionError, ValueError) as exc:
        problem = _("“content” is nested too deeply. Give it as a text, or flatten it.")
        raise InvalidValue(problem, errors={"content": [problem]}) from exc


def store(
    owner: User,
    content: str,
    *,
    by: Actor,
    type: str = ContentItem.Type.CUSTOM,
    source: str = "",
    scope: str = "owner",
    tags: Iterable[str] | str = (),
    related_to: Iterable[Any] = (),
    action: str = "",
    title: str = "",
    url: str = "",
    topic: Topic | None = None,
    trust: str | None = None,
    sensitivity: str = Sensitivity.NORMAL,
    kept_with: str = "",
) -> ContentItem:
    """Store the content in full and return its item, whose id is how to get it back (R112).

    `source` says where it came from (default: who stored it), `trust` how far to believe it
    (default: the owner's own for a person, else the agent's), `kept_with` which step of a run it
    belongs to (`run:12/step:345`).  Characters that cannot be stored are taken out.
    Raises InvalidValue with the reasons by field; nothing is stored then.
    """
    check_size(content)
    content = clean(content)[0]
    checks = NoteChecks()
    lines = {"title": title, "url": url, "action": action, "kept_with": kept_with}
    fields = {
        "type": checks.choice("type", type, ContentItem.Type.values),
        "scope": checks.scope(scope),
        "tags": checks.tags(tags),
        "sensitivity": checks.choice("sensitivity", sensitivity, Sensitivity.values),
        "source": _line(checks, "source", source) or str(by)[: LONGEST["source"]],
        "trust": trust or (Trust.OWNER if by.is_person else Trust.AGENT),
    } | {name: _line(checks, name, value) for name, value in lines.items()}
    if topic is not None and topic.owner_id != owner.pk:
        checks.refuse("topic", _("There is no such topic."))
    checks.raise_refused()
    related = checked_related(owner, related_to)
    item = ContentItem(owner=owner, content=content, size=len(content), topic=topic, **fields)
    with transaction.atomic():
        item.save(force_insert=True)
        item.related_to.add(*related)
        Revision.record_first([item], by=by, source=item.source)
    return item


def _line(checks: NoteChecks, field: str, value: str) -> str:
    """Check that a text of one line is no longer than it may be."""
    line, most = one_line(checks.text(field, value)), LONGEST[field]
    if len(line) > most:
        told = {"name": field, "most": f"{most:,}", "have": f"{len(line):,}"}
        checks.refuse(
            field, _("“%(name)s” has at most %(most)s characters; this has %(have)s.") % told
        )
    return line
