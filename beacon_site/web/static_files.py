"""Static files in production: style sheets without comments, everything compressed and cacheable."""

from __future__ import annotations

import re
from typing import Any

from django.core.files.base import ContentFile
from whitenoise.storage import CompressedManifestStaticFilesStorage

# Strings and license comments stay as they are.
_STAYS_OR_SHRINKS = re.compile(
    rb"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|/\*!.*?\*/)|/\*.*?\*/|\s+""", re.DOTALL
)


def shrink(style_sheet: bytes) -> bytes:
    """Return a style sheet with the same rules, without comments and indentation.

    A minifier that also removes spaces around punctuation saves another 3% after compression, but
    can change what a nested selector means.
    """
    return _STAYS_OR_SHRINKS.sub(
        lambda found: found[1] or (b" " if found[0].isspace() else b""), style_sheet
    )


class StaticFilesStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """Shrink style sheets as `collectstatic` saves them."""

    def _save(self, name: str, content: Any) -> str:
        if name.endswith(".css"):
            content = ContentFile(shrink(b"".join(content.chunks())))  # from its beginning
        saved: str = super()._save(name, content)
        return saved
