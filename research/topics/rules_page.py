"""What the pages of a topic show of its standing rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from research.forms.rule import RuleForm
from research.links import Link, link_of
from research.topic_settings import standing_rules
from research.topic_settings.standing_rules import CHECK, STOP, Kind


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule: as it is kept, as a person reads it, and where it leads."""

    kind: Kind
    rule: str

    @property
    def shown(self) -> str:
        """Return the rule as a person reads it."""
        return standing_rules.shown(self.rule)

    @property
    def link(self) -> Link:
        """Return where an address leads; nowhere for words and domains."""
        return link_of(self.rule)


@dataclass(frozen=True, slots=True)
class Rules:
    """A topic's standing rules with the two forms that add one."""

    checks: Sequence[RuleRow]
    places: Sequence[RuleRow]
    check_form: RuleForm
    stop_form: RuleForm

    @property
    def most(self) -> int:
        """Return how many things can always be checked."""
        return standing_rules.MOST_CHECKS

    @property
    def is_full(self) -> bool:
        """Whether nothing more can always be checked."""
        return len(self.checks) >= self.most


def rules_of(topic: Any, form: RuleForm | None = None) -> Rules:
    """Return the rules of a topic from `topics_of`, with `form` where a person has typed in it."""
    settings = topic.settings
    return Rules(
        checks=[RuleRow(CHECK, rule) for rule in settings.always_check],
        places=[RuleRow(STOP, rule) for rule in standing_rules.places_of(settings)],
        check_form=form if form is not None and form.kind == CHECK else RuleForm(CHECK),
        stop_form=form if form is not None and form.kind == STOP else RuleForm(STOP),
    )
