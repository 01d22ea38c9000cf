"""The forms in which a model gets an action's result, turn by turn, while the store has it in full.

Data flow: a tool's result -> an item in the store (R122, R123) -> in the next turn the first
result of an action in the run in full (R124, R126), any other in its compact form -> a turn later
the compact form -> then one citation line.  A result that no form shortens is sent in full.

The store's own three tools return a view of an item, or nothing. That answer isn't stored again:
it is sent for one turn, then as one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from beacon_site.db.advisory_locks import LockId, lock_until_commit
from beacon_site.providers.llm.base import Answer, Message
from beacon_site.text.cleaning import clean, one_line, shorten
from beacon_site.text.messages import grouped
from memory.agents.tools.content import NAMES as STORE_TOOLS
from memory.agents.tools.types import ToolContext, ToolResult
from memory.models import ContentItem, Sensitivity, Use
from memory.models.errors import MemoryRefused
from memory.services.content import compaction
from memory.services.content.compaction import MAX_TOKENS, Ask, ModelCompaction
from memory.services.content.items import (
    MAX_ACTION_LENGTH,
    MAX_TITLE_LENGTH,
    MAX_URL_LENGTH,
    retrieve,
    store,
)
from memory.services.llm.asking import Meter, ask_model

FULL_TURNS = 1  # turns in which an action's first result is sent in full
COMPACT_TURNS = (
    2  # turns after the call in which the compact form is sent, before the citation line
)
_ACTION, _ERROR = "action", "error"
# Arguments that say what a result is about, the most reliable first.
_NAMING = ("query", "q", "topic", "path", "url", "key", "page", "name", "id", "message", "text")
_NOTHING_DONE = ("unknown_tool", "bad_arguments")


@dataclass(slots=True)
class StoredOutput:
    """A stored result and the forms in which it is sent.

    `item` is None if it isn't stored. `full`, `compact` and `line` are texts, created when first
    used.
    """

    text: str
    item: ContentItem | None = None
    is_first: bool = False
    is_view: bool = False
    compact: str = ""
    line: str = ""

    def as_data(self) -> dict[str, str]:
        """Return what a call's record keeps of it: the item's ID, if there is one."""
        return {"content_item": str(self.item.pk)} if self.item is not None else {}

    def again(self) -> StoredOutput:
        """Return the entry for the second of two identical calls: the result is sent in full once."""
        return replace(self, is_first=False) if self.item is not None else self


class ResultStore:
    """The content store of one loop: keeps results, and decides in which form they are sent.

    `goal` is what the agent works on, for a model that shortens results; `ask` calls that model
    (`asker`).  `run_step` is the step of the run to which the results belong.
    """

    def __init__(
        self, context: ToolContext, *, goal: str = "", run_step: str = "", ask: Ask | None = None
    ) -> None:
        self.context = context
        self._goal, self._run_step, self._ask = goal, run_step, ask

    def keep(
        self, name: str, result: ToolResult, values: Mapping[str, Any] | None = None
    ) -> StoredOutput:
        """Store a result in full, and return the forms in which it can be sent.

        If the tool gives it no title, the call's arguments (`values`) do. A result too large to
        store is sent in full, with the reason.
        """
        if name in STORE_TOOLS:
            return StoredOutput(result.text, is_view=True)
        if result.data.get("error") in _NOTHING_DONE:
            return StoredOutput(result.text)
        try:
            with transaction.atomic():
                is_first = self._is_first(name) and not result.is_error
                item = self._stored_already(name, result)
                item = item or self._stored(name, result, _title_of(values or {}))
        except MemoryRefused as exc:
            why = _("(Not stored: %(why)s)") % {"why": exc}
            return StoredOutput(f"{result.text}\n\n{why}")
        Use.note_records(self.context.owner, [item], self.context.place or self.context.source)
        return StoredOutput(result.text, item, is_first=is_first)

    def reload_items(self, kept: Iterable[StoredOutput]) -> None:
        """Reload the items: one that a person has since hidden or deleted is no longer sent."""
        items = [one.item for one in kept if one.item is not None]
        rows = ContentItem.objects.filter(pk__in={item.pk for item in items})
        marks = rows.values_list("pk", "sensitivity", "trust", "trashed_at")
        now = {key: told for key, *told in marks}
        for item in items:
            hidden = [Sensitivity.SENSITIVE, item.trust, timezone.now()]  # deleted permanently
            item.sensitivity, item.trust, item.trashed_at = now.get(item.pk, hidden)

    def sent(self, kept: StoredOutput, age: int) -> str:
        """Return what is sent of a result in turn `age` (1, 2 …) after its call."""
        if kept.item is None:
            return kept.text if age <= FULL_TURNS or not kept.is_view else self._line_of_view(kept)
        if kept.item.trashed_at is not None:
            return _("Memory item %(id)s no longer exists.") % {"id": kept.item.pk}
        if not compaction.may_be_shown(kept.item):
            return compaction.withheld(kept.item)
        if kept.is_first and age <= FULL_TURNS:
            return compaction.full_form(kept.item, kept.text)
        if age <= COMPACT_TURNS:
            return _shorter(self.compact_of(kept), kept.text)
        kept.line = kept.line or compaction.citation_line(kept.item)
        return _shorter(kept.line, kept.text)

    def compact_of(self, kept: StoredOutput) -> str:
        """Return the compact form of a stored result, created once."""
        if not kept.compact and kept.item is not None:
            kept.compact = compaction.compact_form(
                kept.item, agent=self.context.agent, goal=self._goal, ask=self._ask
            )
        return kept.compact

    def _line_of_view(self, kept: StoredOutput) -> str:
        params = {"size": grouped(len(kept.text))}
        line = (
            _(
                "(All %(size)s characters were removed after one turn. Call the tool again to see them.)"
            )
            % params
        )
        return _shorter(line, kept.text)

    # --- storing ---

    def _is_first(self, name: str) -> bool:
        """Whether this scope has no result of this action yet. Only one caller checks at a time."""
        scope, action = self.context.content_scope, _action(name)
        lock_until_commit(LockId.FIRST_TOOL_RESULT, f"{self.context.owner.pk}:{scope}:{action}")
        rows = ContentItem.objects.for_user(self.context.owner).filter(scope=scope, action=action)
        return not rows.exclude(tags__contains=[_ERROR]).exists()

    def _stored_already(self, name: str, result: ToolResult) -> ContentItem | None:
        """Return the item that the tool stored itself, marked as this action's result."""
        key, context = result.data.get("content_item"), self.context
        item = retrieve(context.owner, key, scopes=None) if key else None
        if item is None or item.scope not in context.content_scopes:
            return None
        if not item.action:
            action = _action(name)
            tags = list(dict.fromkeys([*item.tags, _ACTION, action]))
            run_step = item.run_step or self._run_step
            why = _("the result of an action")
            item.change(by=context.by, why=why, action=action, tags=tags, run_step=run_step)
        return item

    def _stored(self, name: str, result: ToolResult, title: str) -> ContentItem:
        context, action = self.context, _action(name)
        key = result.data.get("content_item")
        item = retrieve(context.owner, key, scopes=None) if key else None
        if item is not None and compaction.may_be_shown(item):  # another store's, so a copy of it
            content, kind, title, url = item.content, item.type, item.title or title, item.url
        else:
            content, kind, url = result.full or result.text, ContentItem.Type.ACTION_RESULT, ""
        return store(
            context.owner,
            content,
            by=context.by,
            type=kind,
            source=action,
            scope=context.content_scope,
            tags=[_ACTION, action, *([_ERROR] if result.is_error else [])],
            action=action,
            title=shorten(clean(title)[0], MAX_TITLE_LENGTH),
            url=one_line(clean(url)[0])[:MAX_URL_LENGTH],
            topic=context.topic,
            trust=context.write_trust,
            run_step=self._run_step,
        )


def store_for(
    context: ToolContext, *, goal: str = "", run_step: str = "", ask: Ask | None = None
) -> ResultStore | None:
    """Return the store of a loop, or None if the agent's memory is off (R135)."""
    if context.agent is None or not context.agent.enable_memory:
        return None
    return ResultStore(context, goal=goal, run_step=run_step, ask=ask)


def _title_of(values: Mapping[str, Any]) -> str:
    """Return a title for a result from the call's arguments: a query, a path, a name."""
    given = (values.get(name) for name in _NAMING)
    return next((value for value in given if isinstance(value, str) and value.strip()), "")


def _action(name: str) -> str:
    return one_line(clean(name)[0])[:MAX_ACTION_LENGTH]


def _shorter(form: str, text: str) -> str:
    return form if form and len(form) < len(text) else text


def asker(
    context: ToolContext,
    *,
    meter: Meter | None = None,
    wait_for: Callable[[Callable[[], Answer]], Answer] | None = None,
) -> Ask:
    """Return a function that calls the site's model for this caller, metered and redacted."""

    def ask(messages: Sequence[Message]) -> ModelCompaction | None:
        answer = ask_model(
            "compact",
            messages,
            owner=context.owner,
            source=context.source,
            topic=context.topic,
            schema=ModelCompaction,
            max_tokens=MAX_TOKENS,
            meter=meter,
            wait_for=wait_for,
        )
        parsed = answer.parsed if answer is not None else None
        return parsed if isinstance(parsed, ModelCompaction) else None

    return ask
