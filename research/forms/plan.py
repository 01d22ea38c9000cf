"""The form in which a person looks at a run's plan: its queries, one a line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from memory.forms.fields import CleanTextField
from memory.texts.text import one_line
from research.working.inputs import MOST_QUERY_LENGTH

MOST_QUERIES = 12  # of a plan that a person wrote; a planner's own has at most six

_NOTHING = gettext_lazy("Leave at least one query: without any there is nothing to search.")


class PlanForm(forms.Form):
    """The queries, one a line, and which plan it was that they were made from (`seen`)."""

    seen = forms.CharField(widget=forms.HiddenInput, required=False)
    queries = CleanTextField(
        label=gettext_lazy("Queries, one a line"),
        help_text=gettext_lazy(
            "Change, add, remove or reorder lines. Empty ones do not count; at most 12 queries, "
            "400 characters each."
        ),
        max_length=50_000,
        error_messages={"required": _NOTHING},
        widget=forms.Textarea(attrs={"rows": 8, "dir": "auto"}),
    )

    def clean_queries(self) -> list[str]:
        """Return the queries in their order.  Each line that cannot be one is named."""
        lines = [one_line(line) for line in self.cleaned_data["queries"].splitlines()]
        queries = [line for line in lines if line]
        problems = [problem for problem in map(_problem, queries) if problem]
        problems += _doubles(queries)
        if len(queries) > MOST_QUERIES:
            problems.append(
                ngettext(
                    "%(count)d query is too many: at most %(most)d can be asked. Take some out.",
                    "%(count)d queries are too many: at most %(most)d can be asked. Take some out.",
                    len(queries),
                )
                % {"count": len(queries), "most": MOST_QUERIES}
            )
        if problems:
            raise ValidationError(problems)
        return queries

    def seen_at(self) -> datetime | None:
        """Return when the plan that the form shows began to wait; None if the form does not say."""
        try:
            found = parse_datetime(self.data.get("seen", ""))
            # In UTC the ends of the calendar are out of reach, of Postgres too.
            return found.astimezone(UTC) if found is not None and found.tzinfo else None
        except (ValueError, OverflowError):
            return None


def _problem(query: str) -> str:
    values: dict[str, Any] = {"query": query[:80], "count": len(query), "most": MOST_QUERY_LENGTH}
    if len(query) > MOST_QUERY_LENGTH:
        words = _(
            "“%(query)s…” has %(count)d characters; a query may have %(most)d. Shorten it or "
            "split it into two lines."
        )
        return words % values
    if not any(map(str.isalnum, query)):
        return _("“%(query)s” holds no letter and no digit, so no service can search it.") % values
    return ""


def _doubles(queries: list[str]) -> list[str]:
    seen: set[str] = set()
    twice: dict[str, str] = {}
    for query in queries:
        key = query.casefold()
        if key in seen:
            twice.setdefault(key, query)
        seen.add(key)
    words = _("“%(query)s” stands there more than once: leave it once.")
    return [words % {"query": query[:80]} for query in twice.values()]
