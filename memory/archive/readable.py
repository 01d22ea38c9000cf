"""The part of an archive that a person reads in any editor: Markdown, made piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from django.utils.translation import gettext as _

from memory.models import MemoryFile, Note, Observation, Topic, TopicFact, User
from memory.texts.markdown import link

Files = Iterator[tuple[str, Iterable[str]]]

# Research adds its reports here; each gives names of files with their text.
MORE: list[Callable[[User], Files]] = []


def files(owner: User) -> Files:
    """Yield every readable file of the owner with its text."""
    for kind in Note.Kind:
        yield f"readable/notes/{kind.value}.md", _notes(owner, kind)
    for category in Observation.Category:
        yield f"readable/observations/{category.value}.md", _observations(owner, category)
    for topic in Topic.objects.of(owner).live().order_by("slug").iterator(chunk_size=200):
        yield f"readable/topics/{topic.slug}.md", _topic(topic)
    for file in MemoryFile.objects.of(owner).live().order_by("path").iterator(chunk_size=20):
        yield f"readable/{file.path}", [file.content]
    for more in MORE:
        yield from more(owner)


def _notes(owner: User, kind: Note.Kind) -> Iterator[str]:
    yield f"# {kind.label.capitalize()}\n"
    notes = Note.objects.of(owner).live().filter(kind=kind).order_by("created", "pk")
    for note in notes.iterator(chunk_size=200):
        facts = [f"{note.created:%Y-%m-%d}", note.stability, note.source, *note.tags]
        if note.superseded_by_id:
            facts.append(_("superseded"))
        if note.expires_at:
            facts.append(_("expires %(day)s") % {"day": f"{note.expires_at:%Y-%m-%d}"})
        yield f"\n## {' · '.join(facts)}\n\n{note.content.strip()}\n"


def _observations(owner: User, category: Observation.Category) -> Iterator[str]:
    yield f"# {category.label.capitalize()}\n\n"
    found = Observation.objects.of(owner).live().filter(category=category)
    for one in found.order_by("created", "pk").iterator(chunk_size=200):
        yield f"- {_indented(one.content)} ({one.created:%Y-%m-%d}, {one.source})\n"


def _indented(text: str) -> str:
    return text.strip().replace("\n", "\n  ")


def _topic(topic: Any) -> Iterator[str]:
    yield f"# {topic.title}\n\n{topic.summary.strip()}\n"
    headings = {
        TopicFact.State.CURRENT: _("What is known"),
        TopicFact.State.STRUCK: _("Struck"),
        TopicFact.State.RETIRED: _("What was known"),
    }
    facts = TopicFact.objects.filter(topic=topic).live().order_by("position", "created")
    by_state: dict[str, list[Any]] = {}
    for fact in facts:
        by_state.setdefault(fact.state, []).append(fact)
    for state, heading in headings.items():
        if by_state.get(state):
            yield f"\n## {heading}\n\n"
            yield from (f"- {fact.text}{_source(fact)}\n" for fact in by_state[state])


def _source(fact: TopicFact) -> str:
    return f" ({link(fact.source_title or fact.url, fact.url)})" if fact.url else ""
