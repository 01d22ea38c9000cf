"""Why a write is held: codes with their parameters, as the row keeps them, and their words.

A row keeps the codes, so that Review can be ordered by danger and read in any language.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from memory.models import Proposal
from memory.models.proposals import Danger

SAID = "said"  # a sentence without a code: how callers outside this package explain a hold

_WORDS: dict[str, Any] = {
    "quarantined": _lazy("it comes from quarantined text"),
    "injection": _lazy("prompt injection: it %(smell)s"),
    "persons-note": _lazy("it replaces a note you wrote, confirmed or pinned"),
    "persons-record": _lazy("it changes a record you wrote or confirmed"),
    "rule": _lazy("it’s a rule, which every answer and run would follow"),
    "identity": _lazy("it changes who the agent is"),
    "about-owner": _lazy("it says “%(line)s” about you without quoting your words"),
    "external-run": _lazy(
        "it comes from pages or documents that Beacon read, and would be used outside its topic"
    ),
    "external": _lazy(
        "its writer had just read web pages or documents, and it would be used outside a topic"
    ),
    "stranger": _lazy("it comes with someone else’s archive"),
    "contradiction": _lazy("it contradicts “%(line)s”, which stays"),
    "every-write": _lazy("you review every write of this kind"),
    SAID: _lazy("%(words)s"),
}
_DANGER = {
    "quarantined": Danger.INJECTION,
    "injection": Danger.INJECTION,
    "persons-lines": Danger.YOUR_WORDS,
    "persons-note": Danger.YOUR_WORDS,
    "persons-record": Danger.YOUR_WORDS,
    "rule": Danger.IDENTITY,
    "identity": Danger.IDENTITY,
    "about-owner": Danger.IDENTITY,
    "external-run": Danger.EXTERNAL,
    "external": Danger.EXTERNAL,
    "stranger": Danger.EXTERNAL,
}


@dataclass(frozen=True, slots=True)
class Risk:
    """One reason to hold a write: its code, and what its sentence names (a line, a number)."""

    code: str
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def danger(self) -> Danger:
        """Return the group in which Review shows it."""
        return _DANGER.get(self.code, Danger.OTHER)

    @property
    def words(self) -> str:
        """Return the reason as a sentence, without a semicolon: those part reasons."""
        if self.code == "persons-lines":
            words = ngettext(
                "it changes a line you wrote, “%(line)s”",
                "it changes %(n)d lines you wrote, the first is “%(line)s”",
                int(self.details["n"]),
            )
        else:
            words = str(_WORDS[self.code])
        return (words % self.details).replace(";", ",")

    def as_json(self) -> dict[str, Any]:
        """Return the risk as a proposal's row keeps it."""
        return {"code": self.code, **self.details}

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        """Read what `as_json` returned."""
        return cls(str(stored["code"]), {k: v for k, v in stored.items() if k != "code"})


class Held(str):
    """Why a write is held, in words, with the codes behind them.

    Callers pass it from `verdict` to `hold` as the text that it is.
    """

    __slots__ = ("risks",)
    risks: tuple[Risk, ...]

    def __new__(cls, risks: Iterable[Risk]) -> Self:
        found = tuple(risks)
        text = super().__new__(cls, "; ".join(risk.words for risk in found))
        text.risks = found
        return text


def worst(risks: Iterable[Risk]) -> Danger:
    """Return the gravest danger among the risks."""
    return min((risk.danger for risk in risks), default=Danger.OTHER)


def risks_of(proposal: Proposal) -> list[Risk]:
    """Return why a proposal is held, as its row keeps it."""
    return [Risk.of(stored) for stored in proposal.risks]


def reasons_of(proposal: Proposal) -> list[str]:
    """Return why a proposal is held, one sentence each, the gravest first."""
    found = sorted(risks_of(proposal), key=lambda risk: risk.danger)
    return [risk.words for risk in found] or proposal.reasons
