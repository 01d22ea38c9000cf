"""The context of an agent as plain data, for tools and the API: each layer with its size."""

from __future__ import annotations

from typing import Any

from memory.contexts.context import Context
from memory.texts.token_count import Size, counted, how_in_words


def context_data(built: Context) -> dict[str, Any]:
    """Return the layers with their sizes, the list of memory files, and the text of both joined.

    What was left out is counted and not named: a title may hold what no agent is to see.
    """
    layers = [
        {
            "name": one.name,
            "title": one.title,
            "lines": len(one.lines),
            "left_out": len(one.left_out),
            **size_data(one.size),
            "text": one.text,
        }
        for one in built.layers
    ]
    return {
        "layers": layers,
        "system": built.system,
        "index": built.index,
        "text": built.text,
        **size_data(counted(built.text)),
        "tokens_are": how_in_words(),
    }


def size_data(size: Size) -> dict[str, int]:
    """Return a size as plain data."""
    return {"bytes": size.bytes, "tokens": size.tokens}
