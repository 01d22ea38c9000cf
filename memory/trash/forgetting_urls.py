"""Forgetting that an address was seen, so that a search may bring it as new again.

What came from the page stays: facts, reports, the stored text (`memory.trash.forgetting` is for those).
Data flow: an address -> its rows among the seen URLs and in the ledger, kept in a line of the
activity log and deleted -> the same line brings them back, unless a run has met the page since.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.forms.models import model_to_dict
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.errors import InvalidValue
from memory.models import Activity, SeenUrl, Source, Topic
from memory.texts.canonical import canonical_url
from memory.texts.text import clean

KIND = "url-forgotten"
_DATES = ("published_at",)
_MOMENTS = ("returned_at", "first_at", "last_at")


def forget_url(topic: Topic, url: str, *, by: Actor) -> Activity:
    """Take an address out of what the topic has seen; return the line that can bring it back.

    Raises InvalidValue where the topic has not seen it.
    """
    url = canonical_url(clean(url)[0])
    with transaction.atomic():
        Topic.objects.select_for_update().get(pk=topic.pk)
        kept = {model.__name__: _taken(model, topic, url) for model in (SeenUrl, Source)}
        if not any(kept.values()):
            raise InvalidValue(_("The topic has not seen this address (any more)."))
        line = Activity.log(topic.owner, by, KIND, subject=topic, label=url, url=url, rows=kept)
        Topic.notify_changed(topic.owner_id, topic.pk)
    return line


def remember_url(topic: Topic, line_id: int, *, by: Actor) -> str:
    """Take `forget_url` back; return the address.

    What a run has met again meanwhile stays as it is.  Raises InvalidValue for no such line.
    """
    with transaction.atomic():
        Topic.objects.select_for_update().get(pk=topic.pk)
        line = Activity.objects.of(topic.owner).filter(pk=line_id, kind=KIND, topic=topic).first()
        if line is None or not line.detail.get("rows"):
            raise InvalidValue(_("What was forgotten cannot be brought back any more."))
        url = str(line.detail["url"])
        for model in (SeenUrl, Source):
            row = line.detail["rows"].get(model.__name__)
            if row and not model.objects.filter(topic=topic, url=url).exists():
                model.objects.create(topic=topic, **_read(row))
        Activity.log(topic.owner, by, "url-remembered", subject=topic, label=url)
        Topic.notify_changed(topic.owner_id, topic.pk)
    return url


def _taken(model: type[SeenUrl] | type[Source], topic: Topic, url: str) -> dict[str, Any] | None:
    row = model.objects.filter(topic=topic, url=url).first()
    if row is None:
        return None
    fields = model_to_dict(row)
    row.delete()
    return {name: value for name, value in fields.items() if name not in ("id", "topic")}


def _read(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row's values as the log's JSON kept them."""
    read = dict(row)
    for name in _DATES:
        if read.get(name):
            read[name] = parse_date(str(read[name]))
    for name in _MOMENTS:
        if read.get(name):
            read[name] = parse_datetime(str(read[name]))
    return read
