"""The short form of a content item: what it is, how much of how much is shown, how to get the rest.

Data flow: item -> the first compactor of the registry that knows it (or a model, where the agent's
settings say so; each is the other's fallback) -> a frame with the item's id.  A short form that
would not be shorter than the text is the text (R137).  What comes from outside stands between marks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog
from django.utils.translation import gettext as _

from beacon_site.providers.errors import ProviderError
from memory.content import shapes
from memory.content.model_written import Ask, Written, question
from memory.content.shapes import Short
from memory.models import Agent, ContentItem, Sensitivity, Trust
from memory.texts import injection
from memory.texts.text import as_data, for_prompt, shorten
from memory.usage.meter import BudgetReached

logger = structlog.get_logger(__name__)

EXCERPT = 500  # characters of a text that its short form shows (R128)
LONGEST_NAME = 40  # of an item in its citation line
# What a compactor that meets odd content may raise; the next way of making it short is taken then.
_FAILURES = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Compactor:
    """One way of making items short: which it knows, and what it shows of one."""

    name: str
    matches: Callable[[ContentItem], bool]
    compact: Callable[[ContentItem], Short]


_REGISTRY: list[Compactor] = []


def register_compactor(compactor: Compactor) -> None:
    """Let this one be asked before those that are there; one of the same name is replaced."""
    _REGISTRY[:] = [compactor, *(one for one in _REGISTRY if one.name != compactor.name)]


def compactors() -> tuple[Compactor, ...]:
    """Return the compactors in the order in which they are asked; the default comes last."""
    return (*_REGISTRY, DEFAULT)


# --- the forms ------------------------------------------------------------------------------------


def full_form(item: ContentItem, text: str = "") -> str:
    """Return the whole result (default: the content itself) with the item's id at its end."""
    if not may_be_shown(item):
        return withheld(item)
    told = _("(Stored in memory as %(id)s.)") % {"id": item.pk}
    return f"{text or shown(item, item.content)}\n\n{told}"


def compact_form(
    item: ContentItem, *, agent: Agent | None = None, goal: str = "", ask: Ask | None = None
) -> str:
    """Return the item's short form, never longer than its text.

    `ask` puts a question to a model; it is put first where the agent's settings say so
    (`use_model_compaction`), else only where no compactor knows what to do.
    """
    if not may_be_shown(item):
        return withheld(item)
    by_model = agent is not None and agent.use_model_compaction
    short = _by_model(item, agent, goal, ask) if by_model else None
    short = short or _by_compactor(item)
    short = short or (None if by_model else _by_model(item, agent, goal, ask))
    short = short or DEFAULT.compact(item)
    whole = shown(item, item.content)
    framed = "\n".join(
        part for part in (short.about, shown(item, short.text), short.shown, hint(item)) if part
    )
    return framed if len(framed) < len(whole) else whole


def citation_line(item: ContentItem) -> str:
    """Return one line that says what the item is, how large, and how to get it; never longer."""
    if not may_be_shown(item):
        return withheld(item)
    told = {"id": item.pk, "name": _name(item), "size": f"{item.size:,}"}
    line = _("%(name)s: 0 of %(size)s characters shown; retrieve_from_memory %(id)s") % told
    whole = shown(item, item.content)
    return line if len(line) < len(whole) else whole


def hint(item: ContentItem) -> str:
    """Return how to get more of the item."""
    words = _(
        'Stored in memory: retrieve_from_memory(id="%(id)s") gives all of it; with transform '
        "filtered (q), excerpt (q, n), summary, first_n or last_n (n) a part."
    )
    return words % {"id": item.pk}


def withheld(item: ContentItem) -> str:
    """Return what is said of an item that no model is shown."""
    return _("Memory item %(id)s is shown to people only.") % {"id": item.pk}


def may_be_shown(item: ContentItem) -> bool:
    """Whether a model may see anything of the item."""
    return item.sensitivity == Sensitivity.NORMAL and item.trust != Trust.QUARANTINED


def is_outside(item: ContentItem) -> bool:
    """Whether the content came from outside, so that it is data and no instruction."""
    return item.trust not in (Trust.OWNER, Trust.AGENT)


def shown(item: ContentItem, text: str) -> str:
    """Return a part of the content as a model is shown it: between marks if it came from outside."""
    return as_data(text) if text and is_outside(item) else text


def _name(item: ContentItem) -> str:
    """Return what an item is called in one line; a title that gives orders is left out."""
    title = "" if injection.smells_of_instructions(item.title) else for_prompt(item.title)
    title = shorten(title, LONGEST_NAME)
    kind = item.action or str(item.get_type_display())
    return f"{kind} “{title}”" if title else kind


# --- who makes it short ---------------------------------------------------------------------------


def _by_compactor(item: ContentItem) -> Short | None:
    for compactor in compactors():
        try:
            if compactor.matches(item):
                return compactor.compact(item)
        except _FAILURES as exc:
            logger.warning(
                "compactor failed", compactor=compactor.name, item=str(item.pk), why=repr(exc)
            )
            return None
    return None


def _by_model(item: ContentItem, agent: Agent | None, goal: str, ask: Ask | None) -> Short | None:
    """Return what a model makes of the item; None without one, or where it fails."""
    if ask is None:
        return None
    prompt = agent.compaction_prompt if agent is not None else ""
    try:
        written = ask(question(item, goal, prompt))
    except (ProviderError, BudgetReached) as exc:
        # The call is recorded with its error; the agent goes on with the deterministic form.
        logger.info("not compacted by a model", item=str(item.pk), why=str(exc))
        return None
    return _written(item, written) if written is not None else None


def _written(item: ContentItem, written: Written) -> Short | None:
    summary = written.summary.strip()
    facts = [fact.strip() for fact in written.facts if fact.strip()]
    if not summary:
        return None
    told = {"read": f"{min(item.size, shapes.READ_BY_MODEL):,}", "of": f"{item.size:,}"}
    return Short(
        _("%(name)s, in a model's words") % {"name": _name(item)},
        "\n".join([summary, *(f"- {fact}" for fact in facts)]),
        _("Written from the first %(read)s of %(of)s characters.") % told,
    )


def _default(item: ContentItem) -> Short:
    text = item.content[:EXCERPT]
    told = {"shown": f"{len(text):,}", "of": f"{item.size:,}"}
    return Short(_name(item), text, _("The first %(shown)s of %(of)s characters are shown.") % told)


def _web_page(item: ContentItem) -> Short:
    """Return title, address, the first 500 characters and the length (R128)."""
    page = _default(item)
    head = "\n".join(part for part in (item.title, item.url) if part)
    return Short(_("Web page"), f"{head}\n\n{page.text}" if head else page.text, page.shown)


def _is_web_page(item: ContentItem) -> bool:
    return item.type == ContentItem.Type.WEB_CONTENT


def _named(about: Callable[[ContentItem], Short]) -> Callable[[ContentItem], Short]:
    """Let a shape, which knows the content alone, say what the item is called."""

    def compact(item: ContentItem) -> Short:
        short = about(item)
        return Short(f"{_name(item)}: {short.about}", short.text, short.shown)

    return compact


DEFAULT = Compactor("default", lambda _item: True, _default)

_BUILT_IN: tuple[tuple[str, Any, Any], ...] = (
    ("web page", _is_web_page, _web_page),
    ("search results", shapes.is_search, _named(shapes.search_results)),
    ("json", shapes.is_json, _named(shapes.json_shape)),
    ("table", shapes.is_table, _named(shapes.table_shape)),
)
for _one in reversed(_BUILT_IN):
    register_compactor(Compactor(*_one))
