"""Not asking a service the same twice in a run: a planner's queries often come down to one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from beacon_site.providers.answers import gathered
from beacon_site.providers.search import SearchHit, SearchOptions, SearchProvider


class AskedOnce:
    """The answers of one provider object, which lives for one run and is shared by its threads."""

    def __init__(self) -> None:
        self._answers: dict[str, list[SearchHit]] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def hits(
        self,
        asked: Mapping[str, str],
        options: SearchOptions,
        pages: Callable[[], Iterable[Iterable[SearchHit | None]]],
    ) -> list[SearchHit]:
        """Return what is gathered of `pages`, or was for the same `asked`; a failure is not kept.

        A second thread with the same question waits for the answer to the first.
        """
        order = (options.limit, options.since, options.newest_first)
        key = repr((sorted(asked.items()), order)).casefold()
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._answers:
                self._answers[key] = gathered(pages(), options)
            return list(self._answers[key])


def distinct(provider: SearchProvider, queries: Sequence[str], options: SearchOptions) -> list[str]:
    """Return the queries, in order, of which no two are the same question to `provider`.

    A service that puts a query into words of its own says so by `worded(query, options)`.  Asked
    once by the first of them, it has one vote for what it found, not one for each way of asking.
    """
    worded: Callable[[str, SearchOptions], str] | None = getattr(provider, "worded", None)
    if worded is None:
        return list(queries)
    first: dict[str, str] = {}
    for query in queries:
        first.setdefault(worded(query, options).casefold(), query)
    return list(first.values())
