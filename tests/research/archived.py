"""What an owner has, as an archive of it would say: for comparing before and after."""

from __future__ import annotations

import json
from typing import Any

from memory.accounts.archive.kinds import as_line, encoded, in_order
from memory.models import User

# What must move when anything is changed: the history and its log, and the stamps of a change.
HISTORY = ("revisions", "activity")
STAMPS = ("version", "updated")


def state_of(owner: User, *, without: tuple[str, ...] = ()) -> dict[str, list[dict[str, Any]]]:
    """Return each kind's rows as lines of an archive, without history and stamps of change."""
    found = {}
    for kind in in_order():
        if kind.name not in (*HISTORY, *without):
            lines = [json.loads(as_line(encoded(kind, row))) for row in kind.rows(owner)]
            for line in lines:
                for stamp in STAMPS:
                    line.pop(stamp, None)
            found[kind.name] = sorted(lines, key=lambda line: json.dumps(line, sort_keys=True))
    return found
