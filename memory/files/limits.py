"""How large memory files may be, always in bytes of UTF-8 (seed 003, "Facts Size Budget")."""

from __future__ import annotations

from django.utils.translation import gettext as _

from memory.errors import LimitReached
from memory.file_texts.paths import is_fact

MOST_FACTS = 15_360  # both fact files together
MOST_EPISODES = 262_144  # one month's file
MOST_LINE = 8_192  # one line, its break not counted


class OverBudget(LimitReached):
    """A file, or the two fact files together, would be larger than they may be."""

    def __init__(self, message: str, *, have: int, most: int) -> None:
        super().__init__(message)
        self.have = have
        self.most = most


def size_of(text: str) -> int:
    """Return the bytes that a text takes."""
    return len(text.encode())


def check_size(path: str, size: int, others: int) -> None:
    """Raise OverBudget if a file of `size` bytes may not stand beside `others` bytes of facts."""
    if not is_fact(path):
        if size > MOST_EPISODES:
            raise _over_month(path, size)
        return
    have = size + others
    if have > MOST_FACTS:
        raise OverBudget(
            _(
                "This would make the fact files %(have)s bytes together, %(over)s more than the "
                "%(most)s they may have: %(path)s would have %(size)s, the other has %(others)s. "
                "Nothing was saved. Condense what stands there first, then add to it."
            )
            % {
                "have": f"{have:,}",
                "over": f"{have - MOST_FACTS:,}",
                "most": f"{MOST_FACTS:,}",
                "path": path,
                "size": f"{size:,}",
                "others": f"{others:,}",
            },
            have=have,
            most=MOST_FACTS,
        )


def _over_month(path: str, size: int) -> OverBudget:
    message = _(
        "This would make %(path)s %(have)s bytes, %(over)s more than the %(most)s a month's file "
        "may have. Nothing was saved. Condense older entries first, then add to it."
    ) % {
        "path": path,
        "have": f"{size:,}",
        "over": f"{size - MOST_EPISODES:,}",
        "most": f"{MOST_EPISODES:,}",
    }
    return OverBudget(message, have=size, most=MOST_EPISODES)


def check_lines(text: str) -> None:
    """Raise LimitReached if a line is too long."""
    if len(text) * 4 <= MOST_LINE:
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) * 4 > MOST_LINE and (size := size_of(line)) > MOST_LINE:
            raise LimitReached(
                _(
                    "Line %(number)s has %(have)s bytes; a line may have at most %(most)s. Nothing "
                    "was saved. Break it into several lines."
                )
                % {"number": f"{number:,}", "have": f"{size:,}", "most": f"{MOST_LINE:,}"}
            )
