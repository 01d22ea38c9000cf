"""What is known of a finding beside its words: the day and title of its page, what stands before it.

The comparison with what is known (`research.claims.linking`) reads them: "it" and "the plant" are named
in the sentence before or in the title.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import structlog

from beacon_site.providers import embeddings
from beacon_site.providers.embeddings import LOCAL, EmbedderProfile
from beacon_site.providers.errors import ProviderError
from memory.llm import embedders
from memory.texts.text import one_line
from research.claims.selection import Embed, Reading
from research.deltas.delta import Statement

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
    """Return what makes one vector of each text on this machine, for ranking and comparing.

    None if it isn't installed or vectors are turned off: both then go by words.
    """
    if embedders.is_off() or not embeddings.local_is_installed():
        return None
    embedder = embeddings.get_embedder(EmbedderProfile(LOCAL))
    if embedder is None:
        return None
    try:
        embedder.embed(["a first sentence, so that what is broken shows now"])
    except ProviderError as exc:
        logger.warning("local vectors unavailable", why=str(exc))
        return None
    return embedder.embed
