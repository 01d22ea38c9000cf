"""Whether a text says only again what the owner said in this conversation (decision 10).

An agent that read something from the web is believed no more than the web, but what the owner said
is stored at once all the same: a line of their own words derives from nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from memory.file_texts.summaries import UPDATED, by_rule, line_of
from memory.reviewing.risks import QUOTED, added_lines
from memory.texts.text import match_key

LEAST = 3  # letters and digits: less stands in every message
# “- Name: Alice”: one word that the agent may choose, then the owner's.
_KEYED = re.compile(r"\s*(?:[-*+]\s+)?\**[^\W\d_]{1,20}\**\s*[:：]\s*(?P<value>\S.*)")
_TITLE = re.compile(r"#{1,6}\s+\S+\s*")


def are_own(texts: Iterable[str], messages: Sequence[str]) -> bool:
    """Whether there is something to read and each line of it stands in one of the messages."""
    said = [match_key(message) for message in messages]
    if not any(said):  # a text may have eight million characters, and there is nothing to find
        return False
    lines = [line for text in texts for line in text.splitlines() if match_key(line)]
    return bool(lines) and all(_is_own(line, said) for line in lines)


def adds_only_own(path: str, before: str, after: str, messages: Sequence[str]) -> bool:
    """Whether a file's new text takes nothing out, and adds nothing but the owner's own words.

    Its summary line and date, which each save writes anew, and a title of one word do not count.
    """
    by_itself = line_of(by_rule(path, after))
    if any(not _is_kept_up(line) for line in added_lines(after, before)):
        return False
    new = [line for line in added_lines(before, after) if line != by_itself]
    return are_own(
        [line for line in new if not _TITLE.fullmatch(line) and not UPDATED.match(line)], messages
    )


def _is_kept_up(line: str) -> bool:
    return line.startswith("> Summary:") or bool(UPDATED.match(line))


def _is_own(line: str, said: Sequence[str]) -> bool:
    """Whether the line's words and its quotes, one word before a colon aside, stand in a message."""
    keyed = _KEYED.fullmatch(line)
    value = keyed["value"] if keyed else line
    parts = [match_key("".join(found)) for found in QUOTED.findall(value)]
    parts.append(match_key(QUOTED.sub(" ", value)))
    parts = [part for part in parts if part]
    longest = max((len(part.replace(" ", "")) for part in parts), default=0)
    return longest >= LEAST and all(
        any(f" {part} " in f" {message} " for message in said) for part in parts
    )
