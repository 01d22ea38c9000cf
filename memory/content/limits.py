"""How much the content store takes, with the words in which more is refused."""

from __future__ import annotations

from django.utils.translation import gettext as _

from memory.errors import InvalidValue

MOST_BYTES = 8 * 1024 * 1024  # of UTF-8, one item
MOST_RELATED = 100  # items that one item names
MOST_QUERIED = 200  # items of one query
USUAL_QUERIED = 10  # R116
LONGEST_TITLE, LONGEST_URL, LONGEST_ACTION, LONGEST_SOURCE = 500, 2_048, 80, 200
# Characters of the texts of one line, by field.
LONGEST = {
    "title": LONGEST_TITLE, "url": LONGEST_URL, "action": LONGEST_ACTION, "source": LONGEST_SOURCE,
    "kept_with": LONGEST_SOURCE,
}  # fmt: skip


def check_size(content: str) -> None:
    """Raise InvalidValue if the content is larger than one item may be."""
    # A character has at most four bytes, so most texts need not be encoded to be measured.
    if len(content) * 4 <= MOST_BYTES:
        return
    size = len(content.encode("utf-8", "surrogatepass"))
    if size > MOST_BYTES:
        problem = _(
            "One content item has at most %(most)s bytes (8 MiB); this has %(have)s. Divide it, "
            "or store only what is needed of it. Nothing was stored."
        ) % {"most": f"{MOST_BYTES:,}", "have": f"{size:,}"}
        raise InvalidValue(problem, errors={"content": [problem]})


def whole_number(name: str, value: object, most: int) -> int:
    """Return `value` if it is a whole number from 1 to `most`.  Raises InvalidValue."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
        return value
    problem = _("“%(name)s” is a whole number from 1 to %(most)s; this is “%(value)s”.") % {
        "name": name,
        "most": f"{most:,}",
        "value": str(value)[:40],
    }
    raise InvalidValue(problem, errors={name: [problem]})
