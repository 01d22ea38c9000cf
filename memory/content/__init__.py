"""The content store: full results of actions, kept outside the conversation (seed 002).

`services` stores, retrieves, queries and clears items, `snapshots` copies and restores them,
`transforms` shows a part of an item and `compaction` its compact form.
"""

from __future__ import annotations

from memory.content.services import MOST_BYTES, clear, put_back, query, relate, retrieve, store
from memory.content.snapshots import (
    restore_snapshot,
    snapshot_as_json,
    snapshot_from_json,
    take_snapshot,
)
from memory.content.transforms import TRANSFORMS, View, transform

__all__ = [
    "MOST_BYTES",
    "TRANSFORMS",
    "View",
    "clear",
    "put_back",
    "query",
    "relate",
    "restore_snapshot",
    "retrieve",
    "snapshot_as_json",
    "snapshot_from_json",
    "store",
    "take_snapshot",
    "transform",
]
