"""A conversation's sessions, messages and citations.

Answers cite sources by marks such as [note:0190…] and [file:facts/user.md]. A mark counts only if
the model received or read the source in this session and it still belongs to the owner. Any other
mark is removed from the answer, so that it can't be mistaken for a source.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from beacon_site.text.cleaning import clean, in_brief, is_uuid, is_visible, one_line, shorten
from beacon_site.text.dates import until_of, zone_of
from beacon_site.text.markdown import FILE, MARK, marks_in
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import grouped
from memory.agents.tools.types import record_entry
from memory.models import Agent, MemoryFile, Message, Note, Revision, Session, Trust, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, MemoryRefused
from memory.services.files.reading import index_text
from memory.services.notes.saving import MAX_TTL_DAYS, days_until, lowest_trust, write_note
from memory.services.observations.consolidation import source_of
from memory.services.review import proposals as review_services
from memory.services.review.risks import Write
from memory.services.search.kinds import KINDS

MAX_QUOTE_LENGTH = 280


def citation_marks(records: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the marks of records that can be cited, from the names that tools use."""
    marks = set()
    for one in records:
        if one.get("type") == MemoryFile.record_type():
            marks.add(f"{FILE}:{one.get('title', '')}")
        elif one.get("id"):
            marks.add(f"{one['type']}:{one['id']}")
    return marks


def records_as_named(records: Iterable[Any]) -> list[dict[str, str]]:
    """Return records by the names that tools use."""
    return [record_entry(record) for record in records]


def check(owner: User, text: str, given: set[str]) -> tuple[str, list[dict[str, str]], int]:
    """Return the answer with only the marks of records that were given and belong to the owner.

    Also return the cards of those records, and the number of invalid marks.
    """
    cited = {mark for found in MARK.finditer(text) for mark in marks_in(found.group(1))}
    cards = _cards(owner, {full for mark in cited if (full := _full(mark, given))})
    shown: dict[str, dict[str, str]] = {}
    false = 0

    def kept(match: re.Match[str]) -> str:
        nonlocal false
        true = []
        for mark in marks_in(match.group(1)):
            full = _full(mark, given)
            if full in cards:
                shown[full] = cards[full]
                true.append(f"[{full}]")
            else:
                false += 1
        space = match.group()[:1].strip("[") if true else ""
        return space + "".join(true)

    text = MARK.sub(kept, text)
    return text, list(shown.values()), false


def _full(mark: str, given: set[str]) -> str:
    """Return the complete mark; an id can be cut to eight digits if it is unambiguous."""
    if mark in given:
        return mark
    kind, _colon, key = mark.partition(":")
    if kind == FILE or len(key) < 8:
        return ""
    near = [one for one in given if one.startswith(mark)]
    return near[0] if len(near) == 1 else ""


def _cards(owner: User, marks: set[str]) -> dict[str, dict[str, str]]:
    """Return a card for each record that still exists: one query per type."""
    keys: dict[str, list[str]] = {}
    for mark in marks:
        kind, _colon, key = mark.partition(":")
        keys.setdefault(kind, []).append(key)
    cards = {}
    for file in MemoryFile.objects.for_user(owner).live().filter(path__in=keys.pop(FILE, [])):
        cards[f"{FILE}:{file.path}"] = _card(file, file.summary)
    for name in keys.keys() & KINDS.keys():
        of_type = KINDS[name]
        ids = [key for key in keys[name] if is_uuid(key)]
        for record in of_type.rows(owner, timezone.now()).filter(pk__in=ids):
            cards[f"{name}:{record.pk}"] = _card(record, of_type.content(record))
    return {mark: {**card, "mark": mark} for mark, card in cards.items()}


def _card(record: Any, content: str) -> dict[str, str]:
    quote = in_brief(content, MAX_QUOTE_LENGTH)
    return {**record_entry(record), "quote": quote, "trust": str(record.trust)}


# --- conversation ---

MAX_MESSAGE = 65_536  # bytes of UTF-8 per message
MAX_TITLE_LENGTH = 80
LOG_DAYS = 30  # R205

# R205: requests to remember something, not “do you remember …?”.
_TO_KEEP = re.compile(
    r"^(?:please[,\s]+|and\s+|also\s+)?(?:remember|note)\b"
    r"|\b(?:remember|note)(?:\s+(?:that|this|down|it|my|our|the\s+following|i|we)\b|:)"
    r"|记住|記住|请记|請記|覚えて",
    re.IGNORECASE | re.MULTILINE,
)
_REQUEST = re.compile(
    r"(?:please[,\s]+)?(?:remember|note)(?:\s+that\b|:)[\s,:]*(?=\S)", re.IGNORECASE
)
_ASKED = re.compile(
    r"\b(?:do|did|don[’']t|didn[’']t|can|could)\s+(?:you|we|i)\s+(?:still\s+|even\s+)?remember\b"
    r"|\bremember\s*\?",
    re.IGNORECASE,
)


class SessionEndedError(MemoryRefused):
    """The session has ended or is in Trash, so no messages can be added."""


class StillAnswering(MemoryRefused):
    """An answer is in progress; the next question has to wait for it."""


def start(
    owner: User,
    title: str = "",
    *,
    key: uuid.UUID | None = None,
    agent: Agent | None = None,
    trust: str = Trust.AGENT,
) -> Session:
    """Return a new session, or the owner's existing one with this `key`.

    A session that an `agent` starts belongs to the agent and has the `trust` of its words, not the
    owner's.
    """
    if key is not None:
        known: Session | None = Session.objects.for_user(owner).filter(pk=key).first()
        if known is not None:
            return known
    by = agent.actor if agent is not None else owner.actor
    session = Session(
        pk=key or uuid.uuid4(),
        owner=owner,
        title=checked_title(title),
        agent=agent,
        source=str(by),
        trust=Trust.OWNER if agent is None else trust,
    )
    try:
        with transaction.atomic():
            session.save(force_insert=True)
            Revision.record_first([session], by=by)
    except IntegrityError:
        # The same form was sent twice at once, or the key belongs to someone else.
        mine: Session | None = Session.objects.for_user(owner).filter(pk=key).first()
        return mine or start(owner, title, agent=agent, trust=trust)
    return session


def begin(owner: User, text: str, *, key: uuid.UUID | None) -> Session:
    """Return the session that a first question starts; sending its form twice returns the same one.

    A different question from the same form starts another session, and so does repeating a question
    whose session has ended. Raises InvalidValue for an empty or too long question.
    """
    words = checked_message(text)
    keys = () if key is None else (key, uuid.uuid5(key, words))
    for one in keys:
        session = start(owner, words, key=one)
        is_open = session.ended_at is None and session.trashed_at is None
        said = session.messages.filter(role="user", is_index=False).order_by("position").first()
        if is_open and (said is None or said.content == words):
            return session
    return start(owner, words)


def checked_title(title: str) -> str:
    return shorten(one_line(clean(title)[0]), MAX_TITLE_LENGTH)


def checked_message(text: str) -> str:
    """Return a message in its stored form. Raises InvalidValue for an empty or too long one."""
    text = clean(text)[0].replace("\r\n", "\n").strip()
    size, problem = len(text.encode()), ""
    if not is_visible(text):
        problem = _("Enter a question, or something to remember.")
    elif size > MAX_MESSAGE:
        problem = _(
            "The message is %(have)s bytes, but the limit is %(most)s (64 KiB). Send it in parts, or add the text to the library and ask about it."
        ) % {"most": grouped(MAX_MESSAGE), "have": grouped(size)}
    if problem:
        raise InvalidValue(problem, errors={"content": [problem]})
    return text


def ask(
    session: Session, text: str, *, by: Actor, seen: int | None = None, trust: str = ""
) -> Message:
    """Store a person's message with a pending answer; return that answer.

    `seen` is the position of the last message that the page showed: the same words sent twice from
    there are one question. `trust` is the trust of an app's words; it lowers the trust of an
    agent's session. “Remember …” also writes a log note for 30 days (R205). Raises InvalidValue,
    SessionEndedError, or StillAnswering.
    """
    text = checked_message(text)
    # Before the lock: this imports changes from disk, which can take a while.
    index = "" if session.messages.filter(is_index=True).exists() else index_text(session.owner)
    with transaction.atomic():
        held = _locked_session(session)
        last = held.messages.order_by("-position").first()
        if last is not None and (twice := _sent_twice(last, text, seen)):
            return twice
        if last is not None and last.is_unfinished:
            raise StillAnswering(
                _(
                    "Beacon is still answering. Your text is still here. Send it when the answer is finished, or stop the answer."
                )
            )
        place = last.position + 1 if last else 0
        if index:
            _add(held, place, "user", index, is_index=True)
            place += 1
        message = _add(held, place, "user", text)
        _lower(held, trust)
        _keep(message, by, trust or (Trust.OWNER if by.is_person else Trust.AGENT))
        answer = _add(held, place + 1, "assistant", "", state=Message.State.WAITING)
        if not held.title:
            held.change(
                by=by, title=checked_title(text), why=_("title taken from the first message")
            )
        answer.wake_after_commit()
    return answer


def _locked_session(session: Session) -> Session:
    """Return the session's row, locked. Raises SessionEndedError if it can't take messages."""
    held: Session = Session.objects.select_for_update().get(pk=session.pk)
    if held.trashed_at is not None or held.ended_at is not None:
        words = _("This conversation has ended. Ask your question in a new one.")
        raise SessionEndedError(words)
    return held


def _sent_twice(last: Message, text: str, seen: int | None) -> Message | None:
    """Return the answer to the same words if they were already sent from the same page."""
    if last.role != "assistant" or seen is None or last.position <= seen:
        return None
    before = Message.objects.filter(session=last.session, position=last.position - 1).first()
    return last if before is not None and before.content == text else None


def _add(session: Session, position: int, role: str, content: str, **more: Any) -> Message:
    return Message.objects.create(
        session=session, position=position, role=role, content=content, **more
    )


def is_to_keep(text: str) -> bool:
    """Return True if a message asks Beacon to remember something (R205)."""
    return bool(_TO_KEEP.search(text)) and not _ASKED.search(text)


def _kept_text(message: str) -> str:
    """Return a message without the words that ask to remember it."""
    request = _REQUEST.match(message)
    text = message[request.end() :] if request else message
    return text[0].upper() + text[1:] if request and text.split()[0].islower() else text


def _lower(session: Session, trust: str) -> None:
    """Lower an agent's session to the trust of what its agent says in it."""
    if session.agent_id is None or not trust:
        return
    lowest = lowest_trust([session.trust, trust])
    if lowest != session.trust:
        Session.objects.filter(pk=session.pk).update(trust=lowest)
        session.trust = lowest


def _keep(message: Message, by: Actor, trust: str) -> None:
    """Save what is to be remembered as a temporary log, and link it to the message.

    It expires after 30 days, or after the day that the message names (“until Friday”).

    A person's words are stored immediately; an app's words go through review, like all agent
    writes.
    """
    if not is_to_keep(message.content):
        return
    owner, source = message.session.owner, source_of(message.session_id)
    zone = zone_of(owner.time_zone)
    until = until_of(message.content, timezone.localdate(timezone=zone))
    days = days_until(until, zone) if until else LOG_DAYS
    if days > MAX_TTL_DAYS:
        until, days = None, LOG_DAYS
    fields: dict[str, Any] = {"stability": Note.Stability.VOLATILE.value, "ttl_days": days}
    write = Write(owner, "note", by, trust, leaves_topic=True, texts=[message.content])
    text = _kept_text(message.content)
    why = review_services.hold_reason(write)
    if why:
        after = {"kind": Note.Kind.LOG.value, "content": text, "job": source, **fields}
        review_services.hold(
            owner, "note", by=by, source=source, before={}, after=after, why="", held=why
        )
        return
    note = write_note(
        owner, Note.Kind.LOG, text, by=by, source=source, job=source, trust=trust,
        until=until, **fields,
    )  # fmt: skip
    message.cites = [record_entry(note) | ({"until": until.isoformat()} if until else {})]
    message.save(update_fields=["cites"])


# --- pending answers ------------------------------------------------------------------------------


def stop(message: Message) -> bool:
    """Stop an answer and keep the text so far. False if it was already finished."""
    text = _("You stopped the answer.")
    pending = Message.objects.filter(pk=message.pk).unfinished()
    done = pending.exclude(content="").update(
        state=Message.State.DONE, notice=text, lease_until=None, by="model"
    )
    return bool(done or pending.update(state=Message.State.FAILED, notice=text, lease_until=None))


def again(message: Message) -> bool:
    """Retry the last answer of a session if it failed; False if that isn't possible.

    It continues after the tool calls that were already made.
    """
    with transaction.atomic():
        held = _locked_session(message.session)
        last = held.messages.order_by("-position").first()
        if last is None or last.pk != message.pk or last.state != Message.State.FAILED:
            return False
        fields = Message.requeue_fields() | {"crashes": 0}
        Message.objects.filter(pk=last.pk).update(notice="", content="", cites=[], **fields)
        last.wake_after_commit()
    return True


def rename(session: Session, title: str, *, by: Actor, expected_version: int | None = None) -> None:
    """Rename the session. Raises InvalidValue if empty, StaleWrite if it was renamed since."""
    title = checked_title(title)
    if not is_visible(title):
        problem = _("Enter a one-line title of at most %(most)d characters.")
        problem %= {"most": MAX_TITLE_LENGTH}
        raise InvalidValue(problem, errors={"title": [problem]})
    if title == session.title:  # the form was sent twice
        return
    session.change(by=by, title=title, expected_version=expected_version, why=_("renamed"))
