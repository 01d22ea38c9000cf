"""The slug in a topic's URL (R4, R5; decision 15)."""

from __future__ import annotations

import hashlib
import re

from beacon_site.text.cleaning import normal_form

SLUG_LENGTH = 80
_CUT = SLUG_LENGTH - 9  # room for "-" and eight hex digits
# Pages with a URL that looks like a topic's (/topics/new/).
RESERVED = frozenset({"new", "sample", "bulk", "trash"})


def normal_title(title: str) -> str:
    """Return the title for comparisons: NFC, trimmed, single spaces, case folded."""
    return " ".join(normal_form(title, "NFC").split()).casefold()


def slug_of(title: str) -> str:
    """Return the slug, which is always the same for a title and different for different titles.

    The basic rule (keep `[a-z0-9 ]`, spaces become hyphens) gives C, C++ and C# the same slug and
    人工智能 none.  So if it drops or cuts anything, eight hex digits of the normalized title's
    SHA-256 are added, which also distinguishes it from reserved words.
    """
    normal = normal_title(title)
    kept = re.sub(r"[^a-z0-9 ]", "", normal)
    slug = re.sub(r" +", "-", kept.strip())
    lossless = kept == normal and len(slug) <= SLUG_LENGTH and slug not in RESERVED
    if lossless and slug:
        return slug
    digest = hashlib.sha256(normal.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{slug[:_CUT].rstrip('-') or 'topic'}-{digest}"
