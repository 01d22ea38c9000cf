"""Unicode's normal forms in a time that grows with the text, whatever stands in it.

Normalizing sorts the accents that are piled on one letter, and in CPython by a way that takes the square
of their number: a page of nothing else would hold a process for minutes.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Literal

MOST_PILED = 30  # of Unicode's own bound, the Stream-Safe Text Format (UAX #15)
_LAST = 0x1E94B  # no accent has a higher code


def normal_form(text: str, form: Literal["NFC", "NFD", "NFKC"] = "NFKC") -> str:
    """Return the text in a normal form, without the accents past the 30th on one letter."""
    if text.isascii():
        return text
    if len(text) > MOST_PILED:
        text = _piled().sub(r"\1", text)
    return unicodedata.normalize(form, text)


@cache
def _piled() -> re.Pattern[str]:
    codes = (code for code in range(0x300, _LAST) if unicodedata.combining(chr(code)))
    accent = "".join(re.escape(chr(code)) for code in codes)
    return re.compile(f"([{accent}]{{{MOST_PILED}}})[{accent}]+")
