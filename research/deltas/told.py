"""What is known of a finding beside its words: the day and title of its page, what stands before it.

The comparison with what is known (`relating.py`) reads them: "it" and "the plant" are named in the
sentence before, and "last month" is reckoned from the page's day.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from beacon_site.providers import embeddings
from beacon_site.providers.embeddings import LOCAL, EmbedderProfile
from beacon_site.providers.errors import ProviderError
from memory.llm import embedders
from memory.texts.text import one_line
from research.claims.selection import Embed as SentenceEmbed
from research.claims.selection import Reading
from research.deltas.delta import Statement

if TYPE_CHECKING:
    from research.comparing.vectors import Embed

logger = structlog.get_logger(__name__)

_BEFORE = 400  # characters in which the sentence before is looked for
_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")


def with_pages(found: Sequence[Statement], pages: Sequence[Reading]) -> list[Statement]:
    """Return the findings with what their first cited pages tell of them."""
    by_number = {page.number: page for page in pages}
    texts: dict[int, str] = {}
    made = []
    for statement in found:
        page = next((by_number[n] for n in statement.citations if n in by_number), None)
        if page is None:
            made.append(statement)
            continue
        text = texts.setdefault(page.number, one_line(page.text))
        before = _sentence_before(text, one_line(statement.quote))
        made.append(replace(statement, on=page.published_at, before=before, title=page.title))
    return made


def _sentence_before(text: str, quote: str) -> str:
    at = text.find(quote) if quote else -1
    if at <= 0:
        return ""
    return _END.split(text[max(0, at - _BEFORE) : at].strip())[-1]


def local_vectors() -> Embed | None:
    """Return what reads texts on this machine; the weights are for no other.

    None where it is not installed or vectors are turned off: the comparison goes without.
    """
    if embedders.is_off() or not embeddings.local_is_installed():
        return None
    read = embeddings.local_reader()
    try:
        read(["a first sentence, so that what is broken shows now"])
    except ProviderError as exc:
        logger.warning("facts compared without vectors", why=str(exc))
        return None
    return read


def sentence_vectors() -> SentenceEmbed | None:
    """Return what makes one vector of each text on this machine, for ranking.

    None if it isn't installed or vectors are turned off: findings are then ranked by words.
    """
    if local_vectors() is None:
        return None
    embedder = embeddings.get_embedder(EmbedderProfile(LOCAL))
    return embedder.embed if embedder is not None else None
