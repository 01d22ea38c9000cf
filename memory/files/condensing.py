"""A memory file made shorter by rule: what says nothing new goes, no word is written anew.

What a person locked stays to the letter, and so does everything inside a fenced block.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory.file_texts.outline import is_heading, lines_of, open_lines
from memory.file_texts.sections import SectionText, sections_of
from memory.file_texts.summaries import UPDATED

_BULLETS = ("- ", "* ", "+ ")


@dataclass(frozen=True, slots=True)
class Condensed:
    """The shorter text, and what was done, in words; nothing where there was nothing to do."""

    text: str
    said: tuple[str, ...]


def condensed(text: str, locked: Iterable[Sequence[str]] = ()) -> Condensed:
    """Return the text without repeated bullets, older dates, empty sections, and idle space."""
    lines, sections = lines_of(text), sections_of(text)
    held = _held(sections, [tuple(path) for path in locked])
    loose = {place for place, _line in open_lines(text)} - held
    gone: set[int] = set()
    counts = [
        (_repeated(lines, sections, loose, gone), "repeated"),
        (_older_dates(lines, loose, gone), "dates"),
        (_empty(lines, sections, held, gone), "sections"),
    ]
    kept = _tidied(lines, loose, gone)
    spaces = sum(len(lines[place]) - len(line) for place, line in kept)
    blank = len(lines) - len(gone) - len(kept)
    counts += [(spaces, "spaces"), (blank, "blank")]
    shorter = "\n".join(line for _place, line in kept)
    shorter += "\n" if shorter and text.endswith("\n") else ""
    said = tuple(_words(name, count) for count, name in counts if count)
    return Condensed(shorter if said else text, said)


def _words(name: str, n: int) -> str:
    told = {
        "repeated": ngettext(
            "%(n)d bullet taken out that stands in its section already",
            "%(n)d bullets taken out that stand in their sections already",
            n,
        ),
        "dates": ngettext(
            "%(n)d older “Updated:” line taken out", "%(n)d older “Updated:” lines taken out", n
        ),
        "sections": ngettext(
            "%(n)d section without words taken out", "%(n)d sections without words taken out", n
        ),
        "spaces": ngettext(
            "%(n)d space at the end of a line taken out",
            "%(n)d spaces at the ends of lines taken out",
            n,
        ),
        "blank": ngettext(
            "%(n)d blank line too many taken out", "%(n)d blank lines too many taken out", n
        ),
    }
    return told.get(name, _("made shorter")) % {"n": n}


def _held(sections: Sequence[SectionText], locked: Sequence[tuple[str, ...]]) -> set[int]:
    """Return the places of the lines that a lock keeps."""
    return {
        place
        for one in sections
        if one.heading in locked
        for place in range(one.first_line - 1, one.until)
    }


def _repeated(
    lines: Sequence[str], sections: Sequence[SectionText], loose: set[int], gone: set[int]
) -> int:
    """Take out a bullet that stands word for word in its section before, with what is under it."""
    count = 0
    for one in sections:
        seen: set[tuple[str, ...]] = set()
        for places in _bullets(lines, range(one.first_line - 1, one.last_line), loose):
            said = tuple(lines[place].rstrip() for place in places)
            if said in seen:
                gone.update(places)
                count += 1
            seen.add(said)
    return count


def _bullets(lines: Sequence[str], places: Iterable[int], loose: set[int]) -> list[list[int]]:
    """Return each bullet at the margin as the places of its line and of those indented under it."""
    found: list[list[int]] = []
    is_open = is_parted = False
    for place in places:
        line = lines[place]
        if place in loose and line.startswith(_BULLETS) and not set(line) <= set("-*+ "):
            found.append([place])
            is_open, is_parted = True, False
        elif not line.strip():
            is_parted = True
        elif is_open and place in loose and line[0] in " \t" and not is_parted:
            found[-1].append(place)
        elif is_open:
            # A further paragraph or a fenced block belongs to the bullet: that is left alone.
            if not is_parted or line[0] in " \t":
                found.pop()
            is_open = False
    return found


def _older_dates(lines: Sequence[str], loose: set[int], gone: set[int]) -> int:
    """Take out all lines that say when the file was updated, but the one that says it last."""
    dated = [n for n in sorted(loose - gone) if n < len(lines) and UPDATED.match(lines[n])]
    newest = max(dated, key=lambda n: (lines[n].rstrip()[-10:], n), default=-1)
    older = [n for n in dated if n != newest]
    gone.update(older)
    return len(older)


def _empty(
    lines: Sequence[str], sections: Sequence[SectionText], held: set[int], gone: set[int]
) -> int:
    """Take out sections under which nothing stands, from the innermost on; never the title."""
    count = 0
    for one in reversed(sections[1:]):
        places = range(one.first_line - 1, one.until)
        if not one.heading or held.intersection(places):
            continue
        if all(n in gone or not lines[n].strip() for n in places[1:]):
            gone.update(places)
            count += 1
    return count


def _tidied(lines: Sequence[str], loose: set[int], gone: set[int]) -> list[tuple[int, str]]:
    """Return what stays, with its places: no spaces at ends, never two blank lines together."""
    kept: list[tuple[int, str]] = []
    for place, line in enumerate(lines):
        if place in gone:
            continue
        tidy = _without_spaces(lines, place) if place in loose else line
        if tidy or place not in loose or (kept and kept[-1][1]):
            kept.append((place, tidy))
    while kept and not kept[-1][1] and kept[-1][0] in loose:
        kept.pop()
    return kept


def _without_spaces(lines: Sequence[str], place: int) -> str:
    """Return the line without spaces at its end, but for the two that break a line in Markdown."""
    line, after = lines[place], lines[place + 1] if place + 1 < len(lines) else ""
    is_break = line.endswith("  ") and line.strip() and after.strip()
    if is_break and not after.startswith(_BULLETS) and not is_heading(after):
        return f"{line.rstrip()}  "
    return line.rstrip()
