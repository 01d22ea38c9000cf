"""The tools that read memory: get_context, recall, retrieve, list_memory and about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from django.core.exceptions import FieldDoesNotExist
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from pydantic import Field

from beacon_site.text.cleaning import as_data, clean, one_line, shorten, uuid_of
from beacon_site.text.messages import grouped
from memory.agents.tools.types import (
    Arguments,
    MemoryTool,
    ToolContext,
    ToolResult,
    recalled_kind,
    record_entry,
    refused,
)
from memory.models import Note, Remembered, Topic, Trust
from memory.models.as_of import AS_OF_WORDS, as_it_was, current, now
from memory.models.remembered import in_scopes, record_models
from memory.services.context.layers import EXTERNAL_WORDS, build_context, context_data
from memory.services.notes.saving import lowest_trust
from memory.services.search.about import About, about
from memory.services.search.filters import topic_named
from memory.services.search.query import FOR_AGENTS, Question, parse
from memory.services.search.recall import FoundRecord, RecallHit, only_similar, recall_page
from memory.services.search.related import Related, related_to
from memory.services.search.snippets import passage


class ContextArguments(Arguments):
    """What the context is for."""

    message: str = Field(
        "",
        max_length=100_000,
        description="The task or question. It selects matching rules and summaries.",
    )
    topic: str | None = Field(
        None, description="The slug or title of the topic that the task is about, if any."
    )
    as_of: str = Field("", max_length=40, description=AS_OF_WORDS)
    external: bool = Field(True, description=EXTERNAL_WORDS)


def _get_context(context: ToolContext, args: ContextArguments) -> ToolResult:
    with as_it_was(context, args.as_of):
        return _context_of(context, args)


def _context_of(context: ToolContext, args: ContextArguments) -> ToolResult:
    topic = context.topic
    if args.topic:
        topics = Topic.objects.for_user(context.owner).live()
        topic = topic_named(context.owner, topics, args.topic)
        if topic is None:
            text = _("There is no topic “%(topic)s”. Use a topic’s exact name, or omit the topic.")
            return refused("not_found", text % {"topic": shorten(args.topic, 80)})
    built = build_context(
        context.owner,
        message=args.message,
        topic=topic,
        scopes=context.scopes,
        with_external=args.external,
    )
    context.read(built.records)
    context.shown(*built.files)  # from the summary lines in the list of files
    records = [record_entry(record) for record in built.records]
    return ToolResult(built.text, data={**context_data(built), "records": records})


CONTEXT_TOOLS = (
    MemoryTool(
        "get_context",
        "Read the context that this person's agents get before a task: persona, soul, environment, user, rules and recent summaries, and the memory files with their sizes.",
        ContextArguments,
        _get_context,
    ),
)


# --- recall, retrieve and list_memory ---

MAX_HITS = 50
MAX_HIT_LENGTH = 400  # characters of a result's passage
MAX_RECORD_LENGTH = 20_000  # characters of a record read at once
MAX_LISTED = 200

_TEXTS = ("content", "text", "value", "body", "summary", "title")

Type = Literal["note", "observation", "fact", "report", "section"]


class RecallArguments(Arguments):
    """A search of memory."""

    query: str = Field(
        min_length=1,
        max_length=10_000,
        description="Words to search for. You can narrow the search with “phrases” in quotes and operators such as kind:rule, category:lesson, topic:batteries, tag:work or after:7d.",
    )
    limit: int = Field(10, ge=1, le=MAX_HITS, description="Maximum number of results.")
    types: list[Type] = Field(
        [], max_length=5, description="Only these types. Leave empty for all types."
    )
    min_score: float = Field(0.0, ge=0, le=1, description="Only results with at least this score.")
    as_of: str = Field("", max_length=40, description=AS_OF_WORDS)


class RetrieveArguments(Arguments):
    """Which record."""

    id: str = Field(description="The ID, from recall or list_memory.")
    related: int = Field(
        0, ge=0, le=20, description="Also list this many related records, with the reason for each."
    )
    as_of: str = Field("", max_length=40, description=AS_OF_WORDS)


class ListArguments(Arguments):
    """Filters for notes."""

    kind: Literal["log", "summary", "rule", "soul", "agent", "user"] | None = Field(
        None, description="Only this kind."
    )
    tags: list[str] = Field([], max_length=50, description="Only notes with any of these tags.")
    limit: int = Field(50, ge=1, le=MAX_LISTED, description="Maximum number of notes.")
    as_of: str = Field("", max_length=40, description=AS_OF_WORDS)


# --- recall ---


def _recall(context: ToolContext, args: RecallArguments) -> ToolResult:
    with as_it_was(context, args.as_of):
        return _recalled(context, args)


def _recalled(context: ToolContext, args: RecallArguments) -> ToolResult:
    question = parse(args.query)
    question = replace(question, filters=(*question.filters, *FOR_AGENTS))
    page = recall_page(context.owner, question, types=args.types, limit=args.limit + MAX_HITS)
    hits = [
        hit for hit in page.hits if context.may_read(hit.record) and hit.score >= args.min_score
    ][: args.limit]
    context.read([hit.record for hit in hits])
    if any(hit.later_finding for hit in hits):
        context.shown(trust=Trust.EXTERNAL)
    notices = [*page.question.problems, *([only_similar()] if page.are_only_similar else [])]
    data = {
        "hits": [_hit_data(hit, question) for hit in hits],
        "notices": notices,
        "records": [record_entry(hit.record) for hit in hits],
    }
    if not hits:
        text = _("No results in memory. Try different or fewer words.")
        return ToolResult("\n".join([text, *notices]), data=data)
    own = [_hit_line(hit, question) for hit in hits if not _has_outside_text(hit)]
    outside = [_hit_line(hit, question) for hit in hits if _has_outside_text(hit)]
    parts = ["\n".join(own)] if own else []
    if outside:
        parts.append(as_data("\n".join(outside)))
    parts += notices
    return ToolResult("\n\n".join(parts), data=data)


def _has_outside_text(hit: RecallHit) -> bool:
    """Return True if a result's line has text from outside: its own, or from a later run."""
    return bool(hit.later_finding) or hit.record.is_outside


def _hit_line(hit: RecallHit, question: Question) -> str:
    parts = [hit.type, hit.category, f"{hit.created_at:%Y-%m-%d}"]
    place = hit.record.file.path if hit.type == "section" else ""
    head = ", ".join(part for part in (*parts, place) if part)
    return f"- [{hit.type}:{hit.id}] {hit.score:.2f} ({head}) {_passage(hit, question)}"


def _passage(hit: RecallHit, question: Question) -> str:
    return hit.dated(passage(hit.content, question.words, MAX_HIT_LENGTH))


def _hit_data(hit: RecallHit, question: Question) -> dict[str, Any]:
    return {
        "id": str(hit.id),
        "type": hit.type,
        "category": hit.category,
        "score": round(hit.score, 6),
        "content": _passage(hit, question),
        "characters": len(hit.content),
        "created_at": hit.created_at.isoformat(),
        "source": hit.source,
        "trust": hit.trust,
        "title": shorten(hit.title, 200),
    }


# --- retrieve ---


def _retrieve(context: ToolContext, args: RetrieveArguments) -> ToolResult:
    with as_it_was(context, args.as_of):
        return _retrieved(context, args)


def _retrieved(context: ToolContext, args: RetrieveArguments) -> ToolResult:
    record = _record_by_id(context, args.id)
    if record is None:
        text = _("There is no record “%(id)s”. Use recall or list_memory to get IDs.")
        return refused("not_found", text % {"id": shorten(args.id, 60)})
    if gone := unreadable_reason(record):
        return refused("not_found", gone)
    if not context.may_read(record):
        return refused("sensitive", _("Only people can see that record."))
    context.read([record])
    whole = text_of(record)
    text = whole[:MAX_RECORD_LENGTH]
    if len(whole) > MAX_RECORD_LENGTH:
        params = {"most": grouped(MAX_RECORD_LENGTH), "have": grouped(len(whole))}
        text += "\n" + _("… (the first %(most)s of %(have)s characters)") % params
    about = _fields_of(record)
    head = "; ".join(f"{name}: {value}" for name, value in about.items() if value)
    body = as_data(text) if record.is_outside else text
    data = {**about, "content": whole[:MAX_RECORD_LENGTH], "characters": len(whole)}
    near = _related(context, record, args.related)
    data["records"] = [record_entry(record), *(record_entry(one.record) for one in near)]
    parts = [head, body]
    if args.related:
        data["related"] = [_related_data(one) for one in near]
        parts.append(_related_text(near))
    return ToolResult("\n\n".join(parts), data=data)


def _related(context: ToolContext, record: Any, number: int) -> list[Related]:
    """Return the related records that the caller can read, recorded as read."""
    if not number or recalled_kind(record) is None or current():  # vectors are of today's texts
        return []
    found = related_to(record, limit=MAX_HITS, is_agent=True)
    near = [one for one in found if context.may_read(one.record)][:number]
    context.read([one.record for one in near])
    return near


def _related_text(near: Sequence[Related]) -> str:
    lines: dict[bool, list[str]] = {False: [], True: []}
    for one in near:
        words = shorten(one_line(text_of(one.record) or one.title), 200)
        lines[one.record.is_outside].append(f"- [{one.type}:{one.id}] ({one.why}) {words}")
    parts = [_("Related:") if near else _("No related records.")]
    parts += ["\n".join(lines[False])] if lines[False] else []
    parts += [as_data("\n".join(lines[True]))] if lines[True] else []
    return "\n".join(parts)


def _related_data(one: Related) -> dict[str, Any]:
    return {
        "id": str(one.id),
        "type": one.type,
        "title": shorten(one.title, 200),
        "score": one.score,
        "words": list(one.words),
        "reasons": one.reasons,
    }


def _record_by_id(context: ToolContext, text: str) -> Any:
    """Return the owner's record with this ID, whatever its type; None if there is none.

    The ID can be in the form of a citation, such as note:0190….
    """
    key = uuid_of(text.strip().strip("[]").rpartition(":")[2])
    if key is None:
        return None
    for model in record_models().values():
        record = model.objects.filter(owner=context.owner, pk=key).first()
        if record is not None:
            return record
    return None


def unreadable_reason(record: Any) -> str:
    """Return why a record can no longer be read; empty if it can."""
    if record.trashed_at is not None or _was_trashed_with_topic(record):
        return _("That record is in Trash. Only a person can restore it.")
    if getattr(record, "superseded_by_id", None) is not None:
        params = {"id": record.superseded_by_id}
        return _("That note was replaced by note:%(id)s.") % params
    if isinstance(record, Note) and record.has_expired():
        return _("That note has expired.")
    return ""


def _was_trashed_with_topic(record: Any) -> bool:
    kind = recalled_kind(record)
    if kind is None or not kind.of_topic:
        return False
    return not kind.rows(record.owner, timezone.now()).filter(pk=record.pk).exists()


def text_of(record: Remembered) -> str:
    texts = (getattr(record, name, "") for name in _TEXTS)
    return next((str(text) for text in texts if text), "")


def _fields_of(record: Any) -> dict[str, Any]:
    expires = getattr(record, "expires_at", None)
    names = ("path", "key", "kind", "category", "state", "stability", "confidence", "url")
    return {
        "id": str(record.pk),
        "type": record_entry(record)["type"],
        **{name: getattr(record, name) for name in names if _is_field(record, name)},
        "tags": list(getattr(record, "tags", ())),
        "evidence": list(getattr(record, "evidence", ())),
        "source": record.source,
        "trust": record.trust,
        "version": record.version,
        "created": record.created.isoformat(),
        "expires": expires.isoformat() if expires else "",
    }


def _is_field(record: Any, name: str) -> bool:
    try:
        record._meta.get_field(name)
    except FieldDoesNotExist:
        return False
    return True


# --- list_memory ---


def _list(context: ToolContext, args: ListArguments) -> ToolResult:
    with as_it_was(context, args.as_of):
        return _listed(context, args)


def _listed(context: ToolContext, args: ListArguments) -> ToolResult:
    rows = Note.objects.for_user(context.owner).active(now()).filter(in_scopes(context.scopes))
    rows = rows.for_agents()
    if args.kind:
        rows = rows.filter(kind=args.kind)
    if args.tags:
        rows = rows.tagged(*(clean(tag)[0].strip() for tag in args.tags))
    total = rows.count()
    notes = list(rows.order_by("-created", "-id")[: args.limit])
    context.read(notes)
    data = {
        "notes": [_note_data(note) for note in notes],
        "total": total,
        "records": [record_entry(note) for note in notes],
    }
    if not notes:
        return ToolResult(_("No matching notes."), data=data)
    own = [_note_line(note) for note in notes if not note.is_outside]
    outside = [_note_line(note) for note in notes if note.is_outside]
    parts = ["\n".join(own)] if own else []
    if outside:
        parts.append(as_data("\n".join(outside)))
    if total > len(notes):
        params = {"n": len(notes), "total": grouped(total)}
        parts.append(_("Notes shown, newest first: %(n)d of %(total)s.") % params)
    return ToolResult("\n\n".join(parts), data=data)


def _note_line(note: Note) -> str:
    tags = f" #{' #'.join(note.tags)}" if note.tags else ""
    words = shorten(one_line(note.content), 200)
    return f"- [note:{note.pk}] ({note.kind}, {note.created:%Y-%m-%d}) {words}{tags}"


def _note_data(note: Note) -> dict[str, Any]:
    return {
        "id": str(note.pk),
        "kind": note.kind,
        "content": shorten(one_line(note.content), 200),
        "tags": list(note.tags),
        "stability": note.stability,
        "created": note.created.isoformat(),
        "expires": note.expires_at.isoformat() if note.expires_at else "",
    }


# --- about: everything about a name ---

MAX_ABOUT = 50
MAX_ABOUT_LENGTH = 300  # characters of a passage


class AboutArguments(Arguments):
    """A name."""

    name: str = Field(
        min_length=1,
        max_length=200,
        description="The name of a person, company, product or place, at most 60 characters.",
    )
    limit: int = Field(20, ge=1, le=MAX_ABOUT, description="Maximum number of records.")


def _collect_about(context: ToolContext, args: AboutArguments) -> ToolResult:
    found = about(context.owner, args.name, agent_scopes=context.scopes, limit=args.limit)
    records = [one for one in found.records if context.may_read(one.record)]
    context.read([one.record for one in records])
    data = {
        "name": found.names[0],
        "aliases": found.names[1:],
        "total": found.total,
        "counts": found.counts,
        "related_names": [{"name": name, "records": n} for name, _key, n in found.related_names],
        "items": [_about_data(one, found) for one in records],
        "records": [record_entry(one.record) for one in records],
    }
    if not found.total:
        return ToolResult(_("No record contains this name. Try recall."), data=data)
    if found.related_names:  # the names come from records that aren't all listed
        context.shown(trust=lowest_trust([Trust.OWNER, *found.trusts]))
    params = {"name": found.names[0], "total": found.total, "n": len(records)}
    head = ngettext(
        "%(name)s: %(total)d record, newest first (%(n)d shown):",
        "%(name)s: %(total)d records, newest first (%(n)d shown):",
        found.total,
    )
    parts = [head % params]
    own = [_about_line(one, found) for one in records if not one.record.is_outside]
    outside = [_about_line(one, found) for one in records if one.record.is_outside]
    parts += ["\n".join(own)] if own else []
    parts += [as_data("\n".join(outside))] if outside else []
    if found.related_names:
        others = ", ".join(f"{name} ({n})" for name, _key, n in found.related_names)
        parts += [_("Names in the same records:"), as_data(others)]
    return ToolResult("\n\n".join(parts), data=data)


def _about_passage(one: FoundRecord, found: About) -> str:
    return one_line(passage(one.content, " ".join(found.names), MAX_ABOUT_LENGTH))


def _about_line(one: FoundRecord, found: About) -> str:
    return f"- [{one.type}:{one.id}] ({one.created_at:%Y-%m-%d}) {_about_passage(one, found)}"


def _about_data(one: FoundRecord, found: About) -> dict[str, Any]:
    return {
        "id": str(one.id),
        "type": one.type,
        "title": shorten(one.title, 200),
        "content": _about_passage(one, found),
        "created_at": one.created_at.isoformat(),
        "trust": one.trust,
    }


TOOLS = (
    MemoryTool(
        "recall",
        "Search all of memory: notes, observations, topic facts, reports and sections of memory files. Returns the best matches first. Each result has an ID and a score from 0 to 1.",
        RecallArguments,
        _recall,
    ),
    MemoryTool(
        "retrieve",
        "Read a complete record by its ID: a note, observation, fact, report or section.",
        RetrieveArguments,
        _retrieve,
    ),
    MemoryTool(
        "list_memory",
        "List notes by kind and tags, newest first. Expired and replaced notes are left out.",
        ListArguments,
        _list,
    ),
    MemoryTool(
        "about",
        "Read everything about a name: the records that contain it (newest first), how many there are of each type, and the other names in those records.",
        AboutArguments,
        _collect_about,
    ),
)
