"""Risks: why an agent's write is held, as codes and in words, how dangerous it is, and how to find out.

Rows store the codes, so that Review can be sorted by danger and shown in any language.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _lazy

from beacon_site.db.keyset import Page, decoded, encoded
from beacon_site.text.cleaning import is_uuid, match_key, one_line, plain, shorten
from beacon_site.text.diff import edits, lines_of
from beacon_site.text.injection import injection_reason
from memory.models import (
    MemoryFile,
    Message,
    Note,
    Proposal,
    Remembered,
    Revision,
    Session,
    Trust,
    User,
)
from memory.models.actors import REFLECTOR, RESEARCH, Actor
from memory.models.file_format import UPDATED, by_rule, line_of
from memory.models.proposals import Danger
from memory.models.remembered import record_models

SAID = "said"  # a sentence without a code, from callers outside this package

_WORDS: dict[str, Any] = {
    "quarantined": _lazy("it comes from quarantined text"),
    "injection": _lazy("possible prompt injection: this text %(smell)s"),
    "persons-note": _lazy("it replaces a note you wrote, confirmed or pinned"),
    "persons-record": _lazy("it changes a record you wrote or confirmed"),
    "rule": _lazy("it’s a rule that every answer and run would follow"),
    "identity": _lazy("it changes who the agent is"),
    "about-owner": _lazy("it says “%(line)s” about you without quoting your words"),
    "unseen-quote": _lazy(
        "it quotes you in “%(line)s”, but Beacon didn’t see the conversation and couldn’t check the quote"
    ),
    "external-run": _lazy(
        "it comes from pages or documents that Beacon read, and would be used outside its topic"
    ),
    "external": _lazy(
        "the agent had just read web pages or documents, and this text would be used outside a topic"
    ),
    "imported": _lazy("it was imported from another app"),
    "stranger": _lazy("it comes from someone else’s archive"),
    "contradiction": _lazy("it contradicts “%(line)s”, which is kept"),
    "every-write": _lazy("you review every write of this type"),
    SAID: _lazy("%(words)s"),
}
_DANGER = {
    "quarantined": Danger.INJECTION,
    "injection": Danger.INJECTION,
    "persons-lines": Danger.YOUR_WORDS,
    "persons-note": Danger.YOUR_WORDS,
    "persons-record": Danger.YOUR_WORDS,
    "rule": Danger.IDENTITY,
    "identity": Danger.IDENTITY,
    "about-owner": Danger.IDENTITY,
    "unseen-quote": Danger.IDENTITY,
    "external-run": Danger.EXTERNAL,
    "external": Danger.EXTERNAL,
    "imported": Danger.EXTERNAL,
    "stranger": Danger.EXTERNAL,
}


@dataclass(frozen=True, slots=True)
class Risk:
    """One reason to hold a write: its code and the parameters of its sentence."""

    code: str
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def danger(self) -> Danger:
        return _DANGER.get(self.code, Danger.OTHER)

    @property
    def words(self) -> str:
        """Return the reason as a sentence without semicolons, which separate reasons."""
        if self.code == "persons-lines":
            words = ngettext(
                "it changes a line you wrote, “%(line)s”",
                "it changes %(n)d lines you wrote, starting with “%(line)s”",
                int(self.details["n"]),
            )
        else:
            words = str(_WORDS[self.code])
        details = dict(self.details)
        if smell := details.get("smell"):
            details["smell"] = gettext(str(smell))
        return (words % details).replace(";", ",")

    def as_json(self) -> dict[str, Any]:
        return {"code": self.code, **self.details}

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        """Read what `as_json` returned."""
        return cls(str(stored["code"]), {k: v for k, v in stored.items() if k != "code"})


class HoldReasons(str):
    """Why a write is held, in words, with the codes behind them.

    Callers pass it from `hold_reason` to `hold` as plain text.
    """

    __slots__ = ("risks",)
    risks: tuple[Risk, ...]

    def __new__(cls, risks: Iterable[Risk]) -> Self:
        found = tuple(risks)
        text = super().__new__(cls, "; ".join(risk.words for risk in found))
        text.risks = found
        return text


def worst(risks: Iterable[Risk]) -> Danger:
    return min((risk.danger for risk in risks), default=Danger.OTHER)


def risks_of(proposal: Proposal) -> list[Risk]:
    return [Risk.of(stored) for stored in proposal.risks]


def reasons_of(proposal: Proposal) -> list[str]:
    """Return why a proposal is held as sentences, the most serious first."""
    found = sorted(risks_of(proposal), key=lambda risk: risk.danger)
    return [risk.words for risk in found] or proposal.reasons


# --- finding risks ---

IDENTITY_FILE = "facts/user.md"
MIN_QUOTED = 3  # letters and digits; fewer would be in every message
MAX_SHOWN = 60  # characters of a line that a risk quotes

QUOTED = re.compile(
    r"“([^”\n]+)”|\"([^\"\n]+)\"|«([^»\n]+)»|„([^“”\n]+)[“”]|「([^」\n]+)」|『([^』\n]+)』"
)
_DATED = re.compile(r"\W*(?:updated|last updated|date)\W*[\d\s.:/TZ-]*\W*", re.IGNORECASE)
_SUMMARY = re.compile(r"\s*>\s*Summary:", re.IGNORECASE)
_HEADING = re.compile(r"\s*#{1,6}\s")
# “- **Name**: Alice”: a key in few words, then its value.
_KEYED = re.compile(r"\s*[-*+]\s+(?P<key>[^:：\n]{1,40})[:：]\s*(?P<value>\S.*)")


@dataclass(frozen=True, slots=True)
class Write:
    """A write of a kind: file, rule, soul, note, observation or topic.

    `trust` is the lowest trust of its origins, and `leaves_topic` whether it will be used outside its
    topic.  `texts` are the new words; for a file they come from `path`, `after` (its complete new
    text) and `target` (its row, or None).  A note that supersedes another has that one as `target`.
    `messages` are words that the agent attributes to the owner, in addition to the owner's messages
    in sessions.
    """

    owner: User
    kind: str
    by: Actor
    trust: str
    leaves_topic: bool
    texts: Sequence[str] = ()
    target: Remembered | None = None
    path: str = ""
    after: str = ""
    messages: Sequence[str] = ()

    @property
    def file_path(self) -> str:
        """Return the file's path, or "" for other kinds."""
        return self.target.path if isinstance(self.target, MemoryFile) else self.path

    @property
    def new_texts(self) -> list[str]:
        if self.file_path:
            return [
                *added_lines(_content(self.target), self.after),
                *_without_whole(self.texts, self.after),
            ]
        return [text for text in (*self.texts, self.after) if text]


def _without_whole(texts: Iterable[str], whole: str) -> list[str]:
    return [text for text in texts if text and text != whole]


def _content(target: Any) -> str:
    return str(target.content) if target is not None else ""


def found_risks(write: Write) -> list[Risk]:
    """Return why the write is risky, the most serious first; empty if it isn't."""
    risks = [
        _trust_of(write),
        {"rule": Risk("rule"), "soul": Risk("identity")}.get(write.kind),
        _orders(write.new_texts),
        _takes_out(write),
        _contradicts(write),
        _claims_about_owner(write),
    ]
    return sorted(filter(None, risks), key=lambda risk: risk.danger)


def _trust_of(write: Write) -> Risk | None:
    if write.trust == Trust.QUARANTINED:
        return Risk("quarantined")
    if write.trust == Trust.EXTERNAL and write.leaves_topic:
        return Risk("external-run" if write.by in (RESEARCH, REFLECTOR) else "external")
    return None


def _orders(texts: Iterable[str]) -> Risk | None:
    """Return the prompt injection in the texts, which are checked line by line and as a whole."""
    texts = list(texts)
    for text in (*texts, "\n".join(texts)):
        if smell := injection_reason(text):
            return Risk("injection", {"smell": smell})
    return None


# --- removed lines --------------------------------------------------------------------------------


def added_lines(before: str, after: str) -> list[str]:
    """Return the lines of `after` that aren't in `before`, in order."""
    had = Counter(_bare(before))
    new = []
    for line in _bare(after):
        if had[line]:
            had[line] -= 1
        else:
            new.append(line)
    return new


def _bare(text: str) -> list[str]:
    return [line.rstrip() for line in lines_of(text) if line.strip()]


def _quoted(line: str) -> str:
    """Return a line of Markdown without its list marker and emphasis."""
    return shorten(plain(line) or line, MAX_SHOWN)


def _takes_out(write: Write) -> Risk | None:
    """Return the risk if a write changes or removes what a person wrote or pinned."""
    if isinstance(write.target, MemoryFile):
        lines = removed_user_lines(write.target, write.after)
        if lines:
            return Risk("persons-lines", {"line": _quoted(lines[0]), "n": len(lines)})
    elif isinstance(write.target, Note) and write.target.kind not in Note.IDENTITY:
        note = write.target
        if note.edited_by_person or note.pinned or note.trust == Trust.OWNER:
            return Risk("persons-note")
    return None


def removed_user_lines(file: MemoryFile, after: str) -> list[str]:
    """Return the lines that a person wrote and that are missing in `after`.

    A moved line doesn't count.
    """
    old, new = lines_of(file.content), lines_of(after)
    still = Counter(added_lines(file.content, after)) + Counter(_bare(after))
    gone = []
    for lo, hi, _c, _d in edits(old, new):
        gone += [(place, old[place].rstrip()) for place in range(lo, hi) if old[place].strip()]
    gone = [(place, line) for place, line in gone if not still[line] and not _is_kept_up(line)]
    if not gone:
        return []
    versions = _versions_of_lines(file)
    by_person = _persons_versions(file, {versions.get(place, 0) for place, _line in gone})
    return [line for place, line in gone if versions.get(place, 0) in by_person]


def _is_kept_up(line: str) -> bool:
    """Return True if each save rewrites the line: the summary, or the date of the last change."""
    return bool(_SUMMARY.match(line) or _DATED.fullmatch(line))


def _versions_of_lines(file: MemoryFile) -> dict[int, int]:
    versions, place = {}, 0
    for run in file.blame:
        lines, version = int(run[0]), int(run[1])
        versions.update(dict.fromkeys(range(place, place + lines), version))
        place += lines
    return versions


def _persons_versions(file: MemoryFile, versions: set[int]) -> set[int]:
    rows = Revision.objects.filter(
        record_type=file.record_type(), record_id=file.pk, version__in=versions
    )
    # Changes on disk were made by a person in an editor.
    human = rows.filter(actor__regex=r"^(human:|disk)")
    return set(human.values_list("version", flat=True))


# --- contradictions -------------------------------------------------------------------------------


def _contradicts(write: Write) -> Risk | None:
    """Return the risk if a line gives a key of the fact files another value and keeps the old line."""
    if not write.file_path.startswith("facts/"):
        return None
    line = contradicted_line(_content(write.target), write.after)
    return Risk("contradiction", {"line": _quoted(line)}) if line else None


def contradicted_line(before: str, after: str) -> str:
    """Return the line of `before` that `after` keeps beside another value of its key, or ""."""
    had = _keyed(_bare(before))
    stay = set(_bare(after))
    for line in added_lines(before, after):
        for key, (value, _line) in _keyed([line]).items():
            old = had.get(key)
            if old and old[0] != value and old[1] in stay:
                return old[1]
    return ""


def _keyed(lines: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return the values of keys that occur once, each with its line."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in lines:
        if match := _KEYED.match(line):
            found.setdefault(match_key(match["key"]), []).append((match_key(match["value"]), line))
    return {key: values[0] for key, values in found.items() if key and len(values) == 1}


# --- statements about the owner -------------------------------------------------------------------


def _claims_about_owner(write: Write) -> Risk | None:
    """Return the risk if the write says something about the owner that isn't in their own words."""
    if write.file_path != IDENTITY_FILE:
        return None
    by_itself = line_of(by_rule(IDENTITY_FILE, write.after))
    # The line itself says more than a summary of it.
    for line in sorted(added_lines(_content(write.target), write.after), key=_is_kept_up):
        if line == by_itself:
            continue  # the summary is derived from the lines below it, which are checked themselves
        if _states(line) and not _is_said(write, line):
            # Other apps' agents don't send their conversations to Beacon.
            is_unseen = write.by.kind == "agent" and not write.messages
            code = "unseen-quote" if is_unseen and QUOTED.search(line) else "about-owner"
            return Risk(code, {"line": _quoted(line)})
    return None


def _states(line: str) -> bool:
    """Return True if the line states something, unlike a one-word heading or a date."""
    if _DATED.fullmatch(line):
        return False
    if _HEADING.match(line):
        return len(match_key(line).split()) > 1
    return bool(match_key(line))


def _is_said(write: Write, line: str) -> bool:
    quotes = ["".join(found) for found in QUOTED.findall(line)]
    return bool(quotes) and all(
        is_owners_word(write.owner, each, write.messages) for each in quotes
    )


def is_owners_word(owner: User, quote: str, messages: Iterable[str]) -> bool:
    """Return True if the words occur, as words, in one of the owner's own messages.

    Those are messages that they typed in their own sessions: not an agent's, not one from another
    person's archive, and not the list of files.
    """
    value = match_key(quote)
    if len(value.replace(" ", "")) < MIN_QUOTED:
        return False
    if any(_has_words(message, value) for message in messages):
        return True
    own = Message.objects.filter(
        session__owner=owner, session__agent=None, session__trashed_at=None,
        session__trust=Trust.OWNER, role="user", is_index=False,
    )  # fmt: skip
    # The longest word finds the few messages that can contain the quote, which are compared here.
    longest = max(one_line(quote).split(), key=len).strip(".,;:!?()[]'’")
    near = own.filter(content__icontains=longest).order_by("-id")
    return any(_has_words(text, value) for text in near.values_list("content", flat=True)[:200])


def _has_words(message: str, value: str) -> bool:
    """Whether the message contains the words; in scripts without spaces they can begin anywhere."""
    key = match_key(message)
    if value and not value.isascii() and value in key:
        return True
    return f" {value} " in f" {key} "


# --- danger ---

# These can't be accepted in bulk: each needs its own decision.
NEEDS_OWN_DECISION = (Danger.INJECTION, Danger.YOUR_WORDS, Danger.IDENTITY)
_LIKE_THE_SOUL = (Note.Kind.SOUL.value, Note.Kind.AGENT.value, Note.Kind.USER.value)
_FROM_OUTSIDE = ("run", "topic", "import")


def rate(proposal: Proposal, held: str, *, more: Iterable[Risk] = ()) -> None:
    """Set the proposal's danger and risk codes; the caller saves it.

    What `hold_reason` returns has codes.  For a plain sentence, or an import, whose codes can't be
    trusted, the danger is computed from the proposal itself.
    """
    found = list(held.risks) if isinstance(held, HoldReasons) else _worked_out(proposal, held)
    found = [*more, *found]
    proposal.risks = [risk.as_json() for risk in found]
    proposal.danger = worst(found)


def _worked_out(proposal: Proposal, held: str) -> list[Risk]:
    found = risks_in(proposal)
    known = {risk.words for risk in found}
    texts = [reason for reason in held.split("; ") if reason and reason not in known]
    return [*found, *(Risk(SAID, {"words": reason}) for reason in texts)]


def risks_in(proposal: Proposal) -> list[Risk]:
    """Return the risks that a proposal's row, source and target show."""
    after, target = proposal.after, _target(proposal)
    lines = after.get("lines") if isinstance(after.get("lines"), list) else []
    texts = [_text(after.get("content")), _text(after.get("entry"))]
    texts += [_text(line.get("content")) for line in lines or () if isinstance(line, dict)]
    is_file = proposal.record_type == "memoryfile"
    write = Write(
        proposal.owner,
        _kind(proposal),
        proposal.writer,
        _trust(proposal),
        leaves_topic=True,
        texts=[text for text in texts if text],
        target=target,
        path=_text(after.get("path")),
        after=_text(after.get("content")) if is_file else "",
    )
    found = found_risks(write)
    is_persons = target is not None and target.trust == Trust.OWNER
    if is_persons and proposal.record_type not in ("memoryfile", "note"):
        found.append(Risk("persons-record"))
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _kind(proposal: Proposal) -> str:
    """Return the kind of write in the terms of review rules."""
    kind = _text(proposal.after.get("kind"))
    if proposal.record_type == "note" and kind in _LIKE_THE_SOUL:
        return "soul"
    if proposal.record_type == "note" and kind == Note.Kind.RULE:
        return "rule"
    return {"memoryfile": "file"}.get(proposal.record_type, proposal.record_type)


def _target(proposal: Proposal) -> Remembered | None:
    model = record_models().get(proposal.record_type)
    if model is None or proposal.target_id is None:
        return None
    row: Remembered | None = (
        model.objects.for_user(proposal.owner).filter(pk=proposal.target_id).first()
    )
    return row


def _trust(proposal: Proposal) -> str:
    """Return the trust of the proposal's source."""
    kind, _colon, key = proposal.source.partition(":")
    if kind in _FROM_OUTSIDE or proposal.actor == str(RESEARCH):
        return Trust.EXTERNAL
    if kind == "session" and is_uuid(key):
        sessions = Session.objects.for_user(proposal.owner).filter(pk=key)
        return sessions.values_list("trust", flat=True).first() or Trust.AGENT
    return Trust.EXTERNAL if proposal.actor == str(REFLECTOR) else Trust.AGENT


# --- order in Review ------------------------------------------------------------------------------


def needs_own_decision(proposal: Proposal) -> bool:
    """Return True if it is too dangerous to be accepted in bulk."""
    return proposal.danger in NEEDS_OWN_DECISION


def page(rows: QuerySet[Any], *, cursor: str, size: int) -> Page:
    """Return a page of proposals, the most dangerous first, then the oldest.

    An invalid cursor returns the first page.
    """
    found = list(_behind(rows, cursor).order_by("danger", "created", "id")[: size + 1])
    if len(found) <= size:
        return Page(found, None)
    last = found[size - 1]
    return Page(found[:size], encoded([int(last.danger), last.created.isoformat(), last.pk]))


def _behind(rows: QuerySet[Any], cursor: str) -> QuerySet[Any]:
    try:
        danger, created, key = decoded(cursor)
        at, pk = parse_datetime(created), UUID(key)
    except (ValueError, TypeError, AttributeError):
        return rows
    if at is None or type(danger) is not int or danger not in Danger.values:
        return rows
    later = Q(created__gt=at) | Q(created=at, pk__gt=pk)
    # The first condition lets the index start there.
    return rows.filter(Q(danger__gte=danger) & (Q(danger__gt=danger) | later))


# --- the owner's own words in a conversation ---

MIN = 3  # letters and digits; fewer would be in every message
# “- Name: Alice”: the agent can choose one word, the rest is the owner's.
_QUOTED_KEY = re.compile(r"\s*(?:[-*+]\s+)?\**[^\W\d_]{1,20}\**\s*[:：]\s*(?P<value>\S.*)")
_TITLE = re.compile(r"#{1,6}\s+\S+\s*")


def are_own(texts: Iterable[str], messages: Sequence[str]) -> bool:
    parts = [match_key(message) for message in messages]
    if not any(parts):  # a text can have eight million characters, and nothing could match
        return False
    lines = [line for text in texts for line in text.splitlines() if match_key(line)]
    return bool(lines) and all(_is_own(line, parts) for line in lines)


def adds_only_own(path: str, before: str, after: str, messages: Sequence[str]) -> bool:
    """Return True if a file's new text removes nothing and adds only the owner's own words.

    The summary line and date, which each save rewrites, and one-word titles don't count.
    """
    by_itself = line_of(by_rule(path, after))
    if any(not _is_quoted_task(line) for line in added_lines(after, before)):
        return False
    new = [line for line in added_lines(before, after) if line != by_itself]
    return are_own(
        [line for line in new if not _TITLE.fullmatch(line) and not UPDATED.match(line)], messages
    )


def _is_quoted_task(line: str) -> bool:
    return line.startswith("> Summary:") or bool(UPDATED.match(line))


def _is_own(line: str, texts: Sequence[str]) -> bool:
    """Return True if the line and its quotes are in a message, ignoring one word before a colon."""
    keyed = _QUOTED_KEY.fullmatch(line)
    value = keyed["value"] if keyed else line
    parts = [match_key("".join(found)) for found in QUOTED.findall(value)]
    parts.append(match_key(QUOTED.sub(" ", value)))
    parts = [part for part in parts if part]
    longest = max((len(part.replace(" ", "")) for part in parts), default=0)
    return longest >= MIN and all(
        any(f" {part} " in f" {message} " for message in texts) for part in parts
    )
