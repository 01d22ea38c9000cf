"""How large a text is: its bytes of UTF-8, and how many tokens a model takes it for.

Exact for one common vocabulary where the optional package tiktoken is installed and its file lies
in its cache; nothing is ever downloaded.  Else an estimate by bytes, which `how` says.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import structlog
from django.utils.translation import gettext as _

from memory.texts.trimming import BYTES_PER_TOKEN

logger = structlog.get_logger(__name__)

ESTIMATED = "estimated"
VOCABULARY = "o200k_base"
_URL = f"https://openaipublic.blob.core.windows.net/encodings/{VOCABULARY}.tiktoken"
_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
_PIECE = 20_000  # characters that are counted at once: one word of megabytes would take minutes


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a text; `how` is ESTIMATED, or the vocabulary that its tokens were counted by."""

    bytes: int
    tokens: int
    how: str = ESTIMATED

    def __add__(self, other: Size) -> Size:
        """Return both together."""
        return Size(self.bytes + other.bytes, self.tokens + other.tokens, self.how)

    @property
    def is_estimated(self) -> bool:
        """Whether the tokens are an estimate."""
        return self.how == ESTIMATED


def counted(text: str) -> Size:
    """Return how large `text` is."""
    size = len(text.encode("utf-8", "replace"))
    vocabulary = _vocabulary()
    if vocabulary is None:
        return Size(size, -(-size // BYTES_PER_TOKEN))
    pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
    return Size(size, sum(len(vocabulary.encode_ordinary(one)) for one in pieces), VOCABULARY)


def how_in_words() -> str:
    """Return in words how tokens are counted here."""
    if _vocabulary() is None:
        return _("estimated at %(n)d bytes a token") % {"n": BYTES_PER_TOKEN}
    return _("counted by the vocabulary %(name)s; other models count a little otherwise") % {
        "name": VOCABULARY
    }


@cache
def _vocabulary() -> Any | None:
    """Return tiktoken's vocabulary, if it can be had without a network."""
    if importlib.util.find_spec("tiktoken") is None or not _file_is_there():
        return None
    try:
        return importlib.import_module("tiktoken").get_encoding(VOCABULARY)
    except (ImportError, ValueError, OSError) as exc:
        logger.warning("tokens are estimated: tiktoken cannot be used", why=str(exc))
        return None


def _file_is_there() -> bool:
    """Whether tiktoken's cache holds the vocabulary whole: else tiktoken would download it."""
    named = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if named == "":  # no cache at all
        return False
    folder = Path(named) if named else Path(tempfile.gettempdir()) / "data-gym-cache"
    # The name of a file in its cache is the digest of its address.
    file = folder / hashlib.sha1(_URL.encode(), usedforsecurity=False).hexdigest()
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() == _SHA256
    except OSError:
        return False
