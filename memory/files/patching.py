"""Replacing stretches of a text: each old text must stand exactly once, all or nothing (R153, R154)."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.translation import gettext as _

from memory.errors import InvalidValue
from memory.file_texts.summaries import summary_span
from memory.texts.text import shorten

Pair = tuple[str, str]


class PatchRefused(InvalidValue):
    """A pair does not fit the text; `number` counts the pairs from 1, 0 where there are none."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message, errors={"patches": [message]})
        self.number = number


def patched(path: str, text: str, patches: Sequence[Pair]) -> str:
    """Return the text with each old text replaced by its new one, which is taken literally.

    All old texts are looked for in the text as it stands, none in what another pair puts in.  The
    file's summary line repeats what stands below it, so it counts only where nothing else does.
    Raises PatchRefused for one that is empty, absent, stands more than once or overlaps another.
    """
    if not patches:
        raise PatchRefused(_("There is nothing to patch: give pairs of old and new text."), 0)
    spots = [
        (*_spot(path, text, old, number), new, number)
        for number, (old, new) in enumerate(patches, start=1)
    ]
    spots.sort(key=lambda spot: (spot[0], spot[1]))
    said, at, last = [], 0, 0
    for begin, end, new, number in spots:
        if begin < at:
            raise PatchRefused(
                _(
                    "The old texts of pairs %(first)d and %(second)d overlap in %(path)s. Nothing "
                    "was changed: join them into one pair."
                )
                % {"first": min(last, number), "second": max(last, number), "path": path},
                number,
            )
        said += [text[at:begin], new]
        at, last = end, number
    return "".join([*said, text[at:]])


def _spot(path: str, text: str, old: str, number: int) -> tuple[int, int]:
    """Return where the old text begins and ends."""
    told = {"number": number, "old": shorten(old, 80), "path": path}
    if not old:
        raise PatchRefused(_("Pair %(number)d has no old text to look for.") % told, number)
    spots = _found(text, old)
    if not spots:
        raise PatchRefused(
            _(
                "The old text of pair %(number)d (“%(old)s”) stands nowhere in %(path)s. Nothing "
                "was changed: read the file and give the text exactly as it stands, spaces and "
                "line breaks included."
            )
            % told,
            number,
        )
    if len(spots) > 1:
        raise PatchRefused(
            _(
                "The old text of pair %(number)d (“%(old)s”) stands more than once in %(path)s. "
                "Nothing was changed: give more of the text around it, so that it stands once."
            )
            % told,
            number,
        )
    return spots[0], spots[0] + len(old)


def _found(text: str, old: str) -> list[int]:
    """Return where the old text begins, no more than two places, the summary line's the last."""
    begin, end = summary_span(text)
    outside: list[int] = []
    inside: list[int] = []
    at = text.find(old)
    while at >= 0 and len(outside) < 2:
        (inside if begin <= at and at + len(old) <= end else outside).append(at)
        at = text.find(old, at + 1)
    return outside or inside[:2]
