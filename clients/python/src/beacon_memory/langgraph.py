"""A LangGraph store in Beacon (`pip install "beacon-memory[langgraph]"`).

    graph = builder.compile(store=BeaconStore())

Each item is a value in the scratchpad of the token's agent, where people can see and correct it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    validate_op_namespace,
)

from beacon_memory.client import Beacon
from beacon_memory.json_entries import dumped, key_of, loaded, parts_of, words_in
from beacon_memory.records import Entry


class BeaconStore(BaseStore):
    """LangGraph's `BaseStore`, kept in Beacon.

    `search` with a `query` ranks items by the words they share with it, and returns only items
    that share some. Items don't expire (`supports_ttl` is False). A namespace and its key can have
    about 200 characters together, and a value 64 KiB of JSON. In a batch, reads come before writes,
    and of several writes to a key the last one counts, as in LangGraph's own stores. Methods raise
    `NotReached` and `Refused` like those of `Beacon`.
    """

    __slots__ = ("_beacon", "_name")

    def __init__(self, beacon: Beacon | None = None, *, name: str = "langgraph") -> None:
        """`name` separates stores of the same agent."""
        self._beacon = beacon or Beacon()
        self._name = name

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute the operations, and return their results in the same order."""
        ops = list(ops)
        for op in ops:
            validate_op_namespace(op)
        results: list[Result] = []
        puts: dict[str, PutOp] = {}
        for op in ops:
            if isinstance(op, GetOp):
                entry = self._beacon.entry(key_of((*op.namespace, op.key)), session=self._name)
                results.append(None if entry is None else _item(entry))
            elif isinstance(op, SearchOp):
                results.append(self._search(op))
            elif isinstance(op, ListNamespacesOp):
                results.append(self._namespaces(op))
            elif isinstance(op, PutOp):
                puts[key_of((*op.namespace, op.key))] = op
                results.append(None)
            else:
                raise ValueError(f"BeaconStore doesn't support the operation {type(op).__name__}")
        for key, put in puts.items():
            if put.value is None:
                self._beacon.delete_entry(key, session=self._name)
            else:
                self._beacon.set_entry(key, dumped(put.value), session=self._name)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute the operations in a thread, so that the event loop isn't blocked."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _search(self, op: SearchOp) -> list[SearchItem]:
        prefix = f"{key_of(op.namespace_prefix)}/" if op.namespace_prefix else ""
        items = [_item(one) for one in self._beacon.entries(prefix, session=self._name)]
        items = [one for one in items if _matches(one.value, op.filter or {})]
        scored: list[tuple[float | None, Item]] = [(None, one) for one in items]
        if op.query:
            wanted = set(words_in(op.query))
            shares = [(_share(wanted, one), one) for one in items]
            best = sorted(shares, key=lambda pair: -pair[0])
            scored = [(share, one) for share, one in best if share]
        return [
            SearchItem(
                one.namespace, one.key, one.value, one.created_at, one.updated_at, score=score
            )
            for score, one in scored[op.offset : op.offset + op.limit]
        ]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        keys = (parts_of(one.key) for one in self._beacon.entries(session=self._name))
        found = {parts[:-1] for parts in keys}
        found = {one for one in found if all(_fits(one, by) for by in op.match_conditions or ())}
        if op.max_depth is not None:
            found = {one[: op.max_depth] for one in found}
        return sorted(found)[op.offset : op.offset + op.limit]


def _item(entry: Entry) -> Item:
    *namespace, key = parts_of(entry.key)
    value = loaded(entry.value)
    return Item(
        value=value if isinstance(value, dict) else {"value": value},
        key=key,
        namespace=tuple(namespace),
        created_at=_time(entry.created),
        updated_at=_time(entry.updated),
    )


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _share(wanted: set[str], item: Item) -> float:
    """Return the share of the wanted words that an item has."""
    return len(wanted & set(words_in(item.value))) / max(1, len(wanted))


def _fits(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    if condition.match_type == "prefix":
        part = namespace[: len(path)]
    elif condition.match_type == "suffix":
        part = namespace[len(namespace) - len(path) :]
    else:
        raise ValueError(f"Unsupported match type: {condition.match_type}")
    return all(wanted in ("*", have) for wanted, have in zip(path, part, strict=True))


_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda have, wanted: have == wanted,
    "$ne": lambda have, wanted: have != wanted,
    "$gt": lambda have, wanted: float(have) > float(wanted),
    "$gte": lambda have, wanted: float(have) >= float(wanted),
    "$lt": lambda have, wanted: float(have) < float(wanted),
    "$lte": lambda have, wanted: float(have) <= float(wanted),
}


def _matches(have: Any, wanted: Any) -> bool:
    """Return True if a value passes a filter, with LangGraph's operators."""
    if isinstance(wanted, dict):
        if any(name.startswith("$") for name in wanted):
            if unknown := wanted.keys() - _COMPARED.keys():
                raise ValueError(f"Unsupported operator: {sorted(unknown)[0]}")
            return all(_compared(have, name, one) for name, one in wanted.items())
        return isinstance(have, dict) and all(
            _matches(have.get(name), one) for name, one in wanted.items()
        )
    if isinstance(wanted, (list, tuple)):
        return (
            isinstance(have, (list, tuple))
            and len(have) == len(wanted)
            and all(map(_matches, have, wanted))
        )
    return bool(have == wanted)


def _compared(have: Any, operator: str, wanted: Any) -> bool:
    try:
        return bool(_COMPARED[operator](have, wanted))
    except (TypeError, ValueError):  # an item without this number doesn't match
        return False
