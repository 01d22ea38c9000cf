"""The origin of a record as text and URL, from its source or scope (`run:12`, `human:alice`).

Memory knows runs and topics only by their IDs. Research adds their names and URLs through `FINDERS`
in `AppConfig.ready()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from django.utils.translation import gettext as _

from beacon_site.text.cleaning import is_uuid, shorten
from memory.models import Session, User

HEURISTIC = ":heuristic"


@dataclass(frozen=True, slots=True)
class Origin:
    """An origin or a destination. `kind` is the text's first word, and `url` can be empty."""

    text: str
    words: str
    url: str = ""
    where: str = ""  # the words without how it was found, if they say that

    @property
    def in_row(self) -> str:
        """Return the words for a row of a list."""
        return self.where or self.words

    @property
    def kind(self) -> str:
        """Return the kind of origin: run, session, human, agent, import, or the text itself."""
        return self.text.partition(":")[0]


# Each takes an owner and the parts after the colon, and returns the origins it knows.
Finder = Callable[[User, list[str]], Mapping[str, tuple[str, str]]]
FINDERS: dict[str, Finder] = {}


def of(owner: User, texts: Iterable[str]) -> dict[str, Origin]:
    """Return the origin of each text, with one query per kind."""
    sources = {text for text in texts if text}
    behind: dict[str, set[str]] = {}
    for text in sources:
        kind, _colon, key = text.removesuffix(HEURISTIC).partition(":")
        behind.setdefault(kind, set()).add(key)
    finders = {"session": _sessions, **FINDERS}
    found = {
        kind: finders[kind](owner, sorted(keys)) for kind, keys in behind.items() if kind in finders
    }
    return {text: _origin(owner, text, found) for text in sources}


def _origin(owner: User, text: str, found: Mapping[str, Mapping[str, tuple[str, str]]]) -> Origin:
    plain = text.removesuffix(HEURISTIC)
    kind, _colon, key = plain.partition(":")
    words, url = found.get(kind, {}).get(key) or (_plain(owner, kind, key) or plain, "")
    if plain != text:
        where, words = words, _("%(where)s, without a model") % {"where": words}
        return Origin(text, words, url, where)
    return Origin(text, words, url)


def _plain(owner: User, kind: str, key: str) -> str:
    if kind == "human":
        return _("you") if key == owner.get_username() else key
    return writer_label(kind, key)


def describe_label(label: str) -> str:
    """Return the name of an agent in quotes, if that is what the label is: `agent:claude`."""
    kind, colon, key = label.partition(":")
    return _("“%(key)s”") % {"key": shorten(key, 60)} if kind == "agent" and colon else label


def writer_label(kind: str, key: str) -> str:
    """Return the name of an agent or of one of Beacon's own parts; empty if there is none."""
    if kind == "disk" and key:
        return _("an edit in the folder “%(key)s”") % {"key": shorten(key, 60)}
    values = {
        "run": _("run %(key)s (deleted)"),
        "session": _("session %(key)s"),
        "agent": _("the agent “%(key)s”"),
        "import": _("the import “%(key)s”"),
        "bulk": _("a bulk action"),
        "forget": _("deleting everything from a source"),
        "explicit": _("written directly"),
        "research": _("Beacon’s research"),
        "reflector": _("Beacon’s reflection"),
        "preview": _("the context preview"),
        "maintenance": _("Beacon’s maintenance"),
        "disk": _("an edit on disk"),
        "system": _("Beacon"),
        "owner": _("all your data"),
    }
    return values.get(kind, "") % {"key": shorten(key, 60)} if kind in values else ""


def _sessions(owner: User, keys: list[str]) -> dict[str, tuple[str, str]]:
    rows = (
        Session.objects.for_user(owner).live().filter(pk__in=[key for key in keys if is_uuid(key)])
    )
    return {
        str(row.pk): (
            _("the conversation “%(title)s”") % {"title": shorten(row.title, 60)},
            row.get_absolute_url(),
        )
        for row in rows
        if row.title
    }
