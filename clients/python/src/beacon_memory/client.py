"""The client: one object with a method for each common task."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx

from beacon_memory.errors import BeaconError, NotReached, Refused
from beacon_memory.records import Entry, File, Hit, Report, Run, Written

USUAL = "http://127.0.0.1:8000"


class Beacon:
    """A connection to Beacon, with its URL and a token from Agents → API tokens.

    Both can come from the environment: BEACON_URL and BEACON_API_TOKEN. Every method raises
    `NotReached` if there is no response, and `Refused` if Beacon refuses the call. Without a token,
    the constructor raises `BeaconError`.
    """

    def __init__(
        self,
        url: str = "",
        *,
        token: str = "",
        timeout: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Create the client without connecting.

        `timeout` is in seconds per response. `transport` is for tests.
        """
        url = url or os.environ.get("BEACON_URL") or USUAL
        token = (token or os.environ.get("BEACON_API_TOKEN", "")).strip()
        if not token:
            raise BeaconError(
                "There is no token. Create one in Beacon under Agents → API tokens, then set it in "
                "the environment: export BEACON_API_TOKEN=bcn_…"
            )
        if not (token.isascii() and token.isprintable()):
            raise BeaconError(
                "The token contains invalid characters. Copy it again, or create another one in "
                "Beacon under Agents → API tokens."
            )
        self._timeout = timeout
        try:
            self._http = httpx.Client(
                base_url=url.rstrip("/") + "/api/v1/",
                headers={"Authorization": f"Bearer {token}", "User-Agent": "beacon-memory/0.1"},
                timeout=timeout,
                transport=transport,
            )
        except httpx.InvalidURL as exc:
            raise BeaconError(f"{url} isn't a valid URL: {exc}. Check BEACON_URL.") from exc

    def __enter__(self) -> Beacon:
        """Return the client, for a `with` statement."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close its connections."""
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    # --- recall and remember ---

    def recall(self, query: str, *, limit: int = 10, **filters: Any) -> list[Hit]:
        """Return the records that answer the question, best first.

        `filters` are those of GET /recall: mode, type, category, kind, topic, after, before,
        min_score.
        """
        found = self._ask("GET", "recall", params={"q": query, "limit": limit, **filters})
        return [Hit.of(one) for one in found.json()["items"]]

    def remember(
        self, content: str, *, kind: str = "log", tags: Sequence[str] = (), **fields: Any
    ) -> Written:
        """Write a note. Beacon can hold it for approval (`Written.is_held`)."""
        body = {"content": content, "kind": kind, "tags": list(tags), **fields}
        return self._written("notes", body)

    def observe(
        self,
        *,
        findings: Sequence[str] = (),
        insights: Sequence[str] = (),
        lessons: Sequence[str] = (),
        source: str = "",
    ) -> Written:
        """Store findings, insights and lessons: all of them or none."""
        body: dict[str, Any] = {
            "findings": list(findings),
            "insights": list(insights),
            "lessons": list(lessons),
        }
        return self._written("observations", body | ({"source": source} if source else {}))

    def context(self, message: str = "", *, topic: str = "") -> str:
        """Return the context that an agent gets before a task."""
        body = {"message": message, **({"topic": topic} if topic else {})}
        return str(self._ask("POST", "context", json=body).json()["text"])

    # --- research ---

    def run(self, topic: str, *, depth: str = "", wait: float = 0.0) -> Run:
        """Start a run of a topic and return it. The topic is created if it doesn't exist.

        If a run is already in progress, that one is returned. `wait` is the longest time to wait
        for its end, in seconds.
        """
        made = self._ask("POST", "topics", json={"title": topic}).json()
        body = {"depth": depth} if depth else {}
        try:
            answer = self._ask("POST", f"topics/{_part(made['slug'])}/runs", json=body)
        except Refused as exc:
            if exc.status != 409 or not exc.location:
                raise
            run = self.run_of(int(exc.location.rstrip("/").rpartition("/")[2]))
        else:
            run = Run.of(answer.json())
        until = time.monotonic() + wait
        while run.is_unfinished and time.monotonic() < until:
            time.sleep(min(1.0, max(0.05, until - time.monotonic())))
            run = self.run_of(run.id)
        return run

    def run_of(self, run_id: int) -> Run:
        """Return a run by its id."""
        return Run.of(self._ask("GET", f"runs/{run_id}").json())

    def report(self, run_id: int) -> Report:
        """Return the report of a run. Raises Refused (404) until it is written."""
        path = f"runs/{run_id}/report"
        text = self._ask("GET", path, headers={"Accept": "text/markdown"}).text
        return Report(text, self._ask("GET", path).json())

    # --- files ---

    def files(self) -> list[File]:
        """Return the memory files, without their text."""
        return [File.of(one) for one in self._items("files")]

    def file(self, path: str) -> File:
        """Return a memory file with its text and version."""
        return File.of(self._ask("GET", f"files/{quote(path)}").json())

    def write_file(self, path: str, content: str, *, version: int) -> Written:
        """Replace a file's text if it hasn't changed since `version` (0: it doesn't exist yet)."""
        seen = {"If-Match": f'"{version}"'} if version else {"If-None-Match": "*"}
        answer = self._ask("PUT", f"files/{quote(path)}", json={"content": content}, headers=seen)
        return _as_written(answer.json())

    def append_entry(self, path: str, entry: str, *, summary: str = "") -> Written:
        """Add an entry at the end of a file. The first entry of a month creates its file."""
        body = {"entry": entry, **({"summary": summary} if summary else {})}
        return self._written(f"files/{quote(path)}/entries", body)

    def memory(self, command: dict[str, Any]) -> tuple[str, bool]:
        """Carry out the input of Anthropic's `memory` tool in this token's own folder.

        Returns the text for the model, and whether it is an error (`is_error` of the result).
        """
        try:
            raw = self._ask("POST", "memory", json=command).json()
        except Refused as exc:
            if exc.status in (401, 429) or exc.status >= 500:
                raise
            return str(exc), True
        if raw.get("proposal"):
            return f"Pending approval: {raw.get('reason', '')}. Nothing has been saved yet.", False
        return str(raw["text"]), False

    # --- scratchpad ---

    def entries(self, prefix: str = "", *, session: str = "") -> list[Entry]:
        """Return the values whose keys begin with `prefix`, sorted by key.

        With `session`, a name of your choice, only values that this token's agent set under it.
        """
        wanted = {"prefix": prefix, "session": session, "limit": 200}
        return [Entry.of(one) for one in self._items("scratchpad", wanted)]

    def entry(self, key: str, *, session: str = "") -> Entry | None:
        """Return the value of a key, or None."""
        try:
            answer = self._ask("GET", f"scratchpad/{_part(key)}", params={"session": session})
        except Refused as exc:
            if exc.status == 404:
                return None
            raise
        return Entry.of(answer.json())

    def set_entry(self, key: str, value: str, *, session: str = "") -> Entry:
        """Set the value of a key. The old value stays in the history."""
        params = {"session": session}
        answer = self._ask("PUT", f"scratchpad/{_part(key)}", params=params, json={"value": value})
        return Entry.of(answer.json())

    def delete_entry(self, key: str, *, session: str = "") -> bool:
        """Move a value to Trash. Returns False if there was none."""
        try:
            self._ask("DELETE", f"scratchpad/{_part(key)}", params={"session": session})
        except Refused as exc:
            if exc.status == 404:
                return False
            raise
        return True

    # --- requests ---

    def _written(self, path: str, body: dict[str, Any]) -> Written:
        # All attempts of one call use the same key, so it is written once.
        key = {"Idempotency-Key": str(uuid.uuid4())}
        return _as_written(self._ask("POST", path, json=body, headers=key).json())

    def _items(self, path: str, params: dict[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        cursor: str | None = ""
        while cursor is not None:
            params = {**(params or {}), **({"cursor": cursor} if cursor else {})}
            page = self._ask("GET", path, params=params).json()
            yield from page["items"]
            cursor = page.get("next")

    def _ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            answer = self._answered(method, path, **more)
        except httpx.TransportError as exc:
            raise NotReached(
                f"No response from {self._http.base_url} ({exc}). Check that Beacon is running and "
                "that BEACON_URL is correct."
            ) from exc
        except httpx.InvalidURL as exc:
            raise NotReached(f"{self._http.base_url} isn't a valid URL: {exc}") from exc
        if not answer.is_success:
            raise _refusal(answer)
        is_markdown = answer.headers.get("Content-Type", "").startswith("text/markdown")  # a report
        if not is_markdown and answer.status_code != 204:
            try:
                answer.json()
            except ValueError as exc:
                raise NotReached(
                    f"{answer.request.url} isn't a Beacon server: it doesn't send JSON."
                ) from exc
        return answer

    def _answered(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Return the complete response.

        The timeout applies to all of it, even if it arrives slowly.
        """
        ends, body = time.monotonic() + self._timeout, bytearray()
        with self._http.stream(method, path, **more) as answer:
            for part in answer.iter_bytes():
                body += part
                if time.monotonic() > ends:
                    raise httpx.ReadTimeout(
                        f"the response wasn't complete after {self._timeout:g} seconds"
                    )
        headers = answer.headers.copy()
        headers.pop("Content-Encoding", None)  # the content is already decompressed
        return httpx.Response(
            answer.status_code, headers=headers, content=bytes(body), request=answer.request
        )


def _refusal(answer: httpx.Response) -> NotReached | Refused:
    """Return the error for an unsuccessful response."""
    try:
        problem = answer.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        return NotReached(
            f"{answer.request.url} isn't a Beacon server, or it failed (status "
            f"{answer.status_code})."
        )
    wait = answer.headers.get("Retry-After", "")
    return Refused(
        answer.status_code,
        problem,
        retry_after=int(wait) if wait.isdigit() else 0,
        location=answer.headers.get("Location", ""),
    )


def _as_written(raw: dict[str, Any]) -> Written:
    ids = raw.get("ids") or []
    known = raw.get("id") or (ids[0] if ids else "")
    return Written(id=str(known), proposal=str(raw.get("proposal") or ""), raw=raw)


def _part(text: str) -> str:
    return quote(text, safe="")
