"""What is mended of a text before it is stored; everything else stays byte for byte.

Line ends of Windows and old Macs become those of Unix, a byte order mark goes, and so do
characters that cannot be stored (NUL, controls, lone surrogates).  A final line break is neither
added nor taken away.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _

from memory.texts.text import clean

_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The text as it can be stored, and what the writer is told of that."""

    text: str
    warnings: tuple[str, ...] = ()


def cleaned(text: str) -> Cleaned:
    """Return the text mended; line ends alone are no news to anybody."""
    warnings = []
    if text.startswith(_MARK):
        text = text.removeprefix(_MARK)
        warnings.append(_("A byte order mark at the beginning was left out."))
    text, was_unclean = clean(text.replace("\r\n", "\n").replace("\r", "\n"))
    if was_unclean:
        warnings.append(_("Characters that cannot be stored (NUL, controls) were left out."))
    return Cleaned(text, tuple(warnings))
