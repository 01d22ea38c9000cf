"""What a test of the model's endpoint found out, in words for its table in Settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

YES, NO, UNKNOWN = "confirmed", "warn", ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One capability: its name, whether it is there (the look of a tag), and what was found."""

    name: str
    look: str
    words: str

    @property
    def mark(self) -> str:
        """Return the look as a word."""
        return {YES: _("yes"), NO: _("no"), UNKNOWN: _("not known")}[self.look]


def findings(found: dict[str, Any], *, assumed_context: int) -> list[Finding]:
    """Return the table of a kept test (connections.keep_probe); [] where there was none.

    `assumed_context` is what is reckoned with where the endpoint does not tell, in tokens.
    """
    if not found:
        return []
    if "json_mode" not in found:  # it never answered, so nothing else was tried
        return [Finding(_("Chat"), NO, str(found.get("message", "")))]
    if failed := found.get("failed"):
        chat = Finding(_("Chat"), NO, str(failed))
    else:
        chat = Finding(_("Chat"), YES, _("“%(text)s”") % {"text": found.get("answer", "")[:80]})
    return [
        chat,
        _streaming(found.get("streams")),
        _structured(found["json_mode"]),
        _tools(found.get("tools")),
        _embeddings(found.get("embedding_model") or "", found.get("embedding_dimensions")),
        _context(found.get("context_tokens"), assumed_context),
    ]


def _streaming(streams: bool | None) -> Finding:
    words = {
        True: _("a report can be read while it is written"),
        False: _("an answer comes as a whole"),
        None: _("could not be tried"),
    }
    return Finding(_("Streaming"), _look(streams), words[streams])


def _structured(mode: str) -> Finding:
    words = {
        "schema": _("by json_schema, the best way"),
        "object": _("by json_object; each answer is checked"),
        "prompt": _("asked for in words; each answer is checked"),
    }.get(mode, _("none could be had: Beacon's fallbacks are used"))
    return Finding(_("Structured answers"), YES if mode else NO, words)


def _tools(tools: bool | None) -> Finding:
    words = {
        True: _("it calls them with arguments that can be read"),
        False: _("it does not call them"),
        None: _("could not be tried"),
    }
    return Finding(_("Tools"), _look(tools), words[tools])


def _embeddings(model: str, dimensions: int | None) -> Finding:
    if not dimensions:
        return Finding(_("Embeddings"), NO, _("none found there"))
    words = _("%(model)s, %(count)d dimensions") % {"model": model, "count": dimensions}
    return Finding(_("Embeddings"), YES, words)


def _context(tokens: int | None, assumed: int) -> Finding:
    if tokens is None:
        words = _("it does not tell; %(count)s tokens are reckoned with")
        return Finding(_("Context size"), UNKNOWN, words % {"count": f"{assumed:,}"})
    return Finding(_("Context size"), YES, _("%(count)s tokens") % {"count": f"{tokens:,}"})


def _look(there: bool | None) -> str:
    return UNKNOWN if there is None else YES if there else NO
