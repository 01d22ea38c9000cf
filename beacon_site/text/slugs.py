"""The slug by which a topic is reached (R4, R5; `design.md` decision 15)."""

from __future__ import annotations

import hashlib
import re

from beacon_site.text.cleaning import normal_form

SLUG_LENGTH = 80
_CUT = SLUG_LENGTH - 9  # room for "-" and eight hex digits
# What stands at a topic's place in an address but is a page of its own (/topics/new/).
RESERVED = frozenset({"new", "sample", "bulk", "trash"})


def normal_title(title: str) -> str:
    """Return the title as it is compared: NFC, trimmed, single spaces, case folded."""
    return " ".join(normal_form(title, "NFC").split()).casefold()


def slug_of(title: str) -> str:
    """Return the slug: the same title always gives the same, different titles different ones.

    The seed's rule (keep `[a-z0-9 ]`, spaces to hyphens) maps C, C++ and C# to one slug and
    人工智能 to nothing; where it dropped or cut anything, eight hex digits of the normalised
    title's SHA-256 tell them apart, also from the reserved words.
    """
    normal = normal_title(title)
    kept = re.sub(r"[^a-z0-9 ]", "", normal)
    slug = re.sub(r" +", "-", kept.strip())
    lossless = kept == normal and len(slug) <= SLUG_LENGTH and slug not in RESERVED
    if lossless and slug:
        return slug
    digest = hashlib.sha256(normal.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{slug[:_CUT].rstrip('-') or 'topic'}-{digest}"
