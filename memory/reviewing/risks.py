"""What makes an agent's write risky (`memory.reviewing.risk_codes` has the words for it).

Only what can be told for sure from the texts and the rows: where it came from, whose lines it
takes out, whether the owner said what it says of them, and whether it gives orders.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from memory.actors import REFLECTOR, RESEARCH, Actor
from memory.file_texts.summaries import by_rule, line_of
from memory.models import MemoryFile, Message, Note, Remembered, Revision, Trust, User
from memory.reviewing.risk_codes import Risk
from memory.texts.diff import edits, lines_of
from memory.texts.injection import smells_of_instructions
from memory.texts.text import match_key, one_line, plain, shorten

IDENTITY_FILE = "facts/user.md"
LEAST_QUOTED = 3  # letters and digits: less stands in every message
MOST_SHOWN = 60  # characters of a line that a risk names

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
    """What somebody who is no person wants to write.

    `texts` are the words that are new; for a file `path`, `after` (its whole new text) and
    `target` (the row, None where there is none yet) say them better.  `quoted` and `messages` are
    words that the writer says are the owner's own, beside what stands in their sessions.
    """

    owner: User
    kind: str
    by: Actor
    trust: str
    leaves_topic: bool
    texts: Sequence[str] = ()
    quoted: str = ""
    target: Remembered | None = None
    path: str = ""
    after: str = ""
    messages: Sequence[str] = ()

    @property
    def file_path(self) -> str:
        """Return the file's path; empty for other kinds."""
        return self.target.path if isinstance(self.target, MemoryFile) else self.path

    @property
    def new_texts(self) -> list[str]:
        """Return the words that this write brings."""
        if self.file_path:
            return [*added_lines(_content(self.target), self.after), *_but(self.texts, self.after)]
        return [text for text in (*self.texts, self.after) if text]


def _but(texts: Iterable[str], whole: str) -> list[str]:
    return [text for text in texts if text and text != whole]


def _content(target: Any) -> str:
    return str(target.content) if target is not None else ""


def found(write: Write) -> list[Risk]:
    """Return why the write is risky, the gravest first; an empty list means that it is not."""
    risks = [
        _trust_of(write),
        _kind_of(write),
        _orders(write.new_texts),
        _takes_out(write),
        _contradicts(write),
        _says_of_owner(write),
    ]
    return sorted(filter(None, risks), key=lambda risk: risk.danger)


def _trust_of(write: Write) -> Risk | None:
    if write.trust == Trust.QUARANTINED:
        return Risk("quarantined")
    if write.trust == Trust.EXTERNAL and write.leaves_topic:
        return Risk("external-run" if write.by in (RESEARCH, REFLECTOR) else "external")
    return None


def _kind_of(write: Write) -> Risk | None:
    return {"rule": Risk("rule"), "soul": Risk("identity")}.get(write.kind)


def _orders(texts: Iterable[str]) -> Risk | None:
    """Return the prompt injection that the texts hold; lines are read one by one and together."""
    texts = list(texts)
    for text in (*texts, "\n".join(texts)):
        if smell := smells_of_instructions(text):
            return Risk("injection", {"smell": smell})
    return None


# --- whose lines it takes out ---------------------------------------------------------------------


def added_lines(before: str, after: str) -> list[str]:
    """Return the lines of `after` that `before` has not, in order."""
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
    """Return a line of Markdown as a sentence quotes it: without its list marker and emphasis."""
    return shorten(plain(line) or line, MOST_SHOWN)


def _takes_out(write: Write) -> Risk | None:
    """Return the risk of a write that changes or removes what a person wrote or pinned."""
    if isinstance(write.target, MemoryFile):
        lines = persons_lines_gone(write.target, write.after)
        if lines:
            return Risk("persons-lines", {"line": _quoted(lines[0]), "n": len(lines)})
    elif isinstance(write.target, Note) and write.target.kind not in Note.IDENTITY:
        note = write.target
        if note.edited_by_person or note.pinned or note.trust == Trust.OWNER:
            return Risk("persons-note")
    return None


def persons_lines_gone(file: MemoryFile, after: str) -> list[str]:
    """Return the lines of the file that a person wrote and that `after` has no more.

    A line that only moved is not gone.
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
    """Whether it is a line that each save writes anew: the summary, the day of the last change."""
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
    # What was written on disk was written in somebody's editor.
    human = rows.filter(actor__regex=r"^(human:|disk)")
    return set(human.values_list("version", flat=True))


# --- what contradicts a line that stands ----------------------------------------------------------


def _contradicts(write: Write) -> Risk | None:
    """Return that a line gives a key of the fact files another value, and leaves the old beside it."""
    if not write.file_path.startswith("facts/"):
        return None
    before = _content(write.target)
    had = _keyed(_bare(before))
    stay = set(_bare(write.after))
    for line in added_lines(before, write.after):
        for key, (value, _line) in _keyed([line]).items():
            old = had.get(key)
            if old and old[0] != value and old[1] in stay:
                return Risk("contradiction", {"line": _quoted(old[1])})
    return None


def _keyed(lines: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return the values of the keys that stand once, each with its line."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in lines:
        if match := _KEYED.match(line):
            found.setdefault(match_key(match["key"]), []).append((match_key(match["value"]), line))
    return {key: values[0] for key, values in found.items() if key and len(values) == 1}


# --- what it says of the owner --------------------------------------------------------------------


def _says_of_owner(write: Write) -> Risk | None:
    """Return that the write says of the owner what they did not say in these words."""
    if write.file_path != IDENTITY_FILE:
        return None
    by_itself = line_of(by_rule(IDENTITY_FILE, write.after))
    for line in added_lines(_content(write.target), write.after):
        if line == by_itself:
            continue  # the summary, made from the lines below it, which are looked at themselves
        if _states(line) and not _is_said(write, line):
            return Risk("about-owner", {"line": _quoted(line)})
    return None


def _states(line: str) -> bool:
    """Whether the line states something: a heading of one word and a date do not."""
    if _DATED.fullmatch(line):
        return False
    if _HEADING.match(line):
        return len(match_key(line).split()) > 1
    return bool(match_key(line))


def _is_said(write: Write, line: str) -> bool:
    quotes = ["".join(found) for found in QUOTED.findall(line)]
    if write.quoted:
        quotes.append(write.quoted)
    return bool(quotes) and all(
        is_owners_word(write.owner, each, write.messages) for each in quotes
    )


def is_owners_word(owner: User, quote: str, messages: Iterable[str] = ()) -> bool:
    """Whether the words stand, as words, in one of the owner's own messages.

    Those are what they typed into a session of their own: not an agent's, not one that came with
    somebody else's archive, not the list of files.
    """
    wanted = match_key(quote)
    if len(wanted.replace(" ", "")) < LEAST_QUOTED:
        return False
    if any(_has_words(message, wanted) for message in messages):
        return True
    own = Message.objects.filter(
        session__owner=owner, session__agent=None, session__trashed_at=None,
        session__trust=Trust.OWNER, role="user", is_index=False,
    )  # fmt: skip
    # The longest word finds the few messages that can hold the quote; the rest is compared here.
    longest = max(one_line(quote).split(), key=len).strip(".,;:!?()[]'’")
    near = own.filter(content__icontains=longest).order_by("-id")
    return any(_has_words(text, wanted) for text in near.values_list("content", flat=True)[:200])


def _has_words(message: str, wanted: str) -> bool:
    """Whether the words stand in the message; between letters of no spaces they may begin anywhere."""
    key = match_key(message)
    if wanted and not wanted.isascii() and wanted in key:
        return True
    return f" {wanted} " in f" {key} "
