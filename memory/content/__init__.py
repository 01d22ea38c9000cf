"""The content store: full action results, kept outside the conversation (seed 002).

`store` and `retrieve`, `query`, `clear`, snapshots and their way back; `transforms` shows a part of
an item, `compaction` its short form, and `shown` decides what of a result a model is sent.
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
