"""The filter bar above a list: a search field with chips, facets with counts, and the sort order.

A list says which facets it has and reads its filters from `read()`, which also understands filters
that were typed as words (`status:archived`). The bar itself is templates/_filter_bar.html. All
state is in the URL, so it works without JavaScript, in saved views and in links.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, tzinfo
from html import escape
from typing import Any, TypeVar

from django.db.models import QuerySet
from django.http import QueryDict
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from beacon_site.text.cleaning import shorten
from beacon_site.text.dates import day_typed
from memory.services.search.query import TOKEN, parse, split_operators, values_of, with_any_of

Text = str | Promise
Query = Mapping[str, str]  # the filters as they are in the URL; lists ignore invalid ones
Rows = TypeVar("Rows", bound=QuerySet[Any])
DAY_FORMAT = "j M Y"
_STARTS = {
    "today": gettext_lazy("today"),
    "week": gettext_lazy("this week"),
    "month": gettext_lazy("this month"),
}
_MAX_LISTED = 100  # choices of one facet


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of a facet, with the number of rows that have it, if it was counted."""

    value: str
    label: Text
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Facet:
    """What a list can be filtered by: a URL parameter, its name, and its values.

    `any_label` is shown for no value. `usual` is the value that applies without a choice.
    `is_day` asks for a first day, `until` names the parameter of the last one. With `operator`,
    several values can be chosen, and they are kept in the words, as the operator of this name
    (memory/services/search/query.py).
    """

    name: str
    label: Text
    choices: Sequence[Choice] = ()
    any_label: Text = ""  # "Any" if empty
    any_count: int | None = None
    usual: str = ""
    is_day: bool = False
    until: str = ""
    operator: str = ""

    def value_of(self, text: str) -> str:
        """Return the value that a typed text means (a value or a label), or ""."""
        message = text.casefold()
        if self.is_day:
            day = day_typed(text, timezone.localdate())
            return (message if message in _STARTS else day.isoformat()) if day else ""
        for one in self.choices:
            if message in (one.value.casefold(), str(one.label).casefold()):
                return one.value
        return ""


def day_facet() -> Facet:
    """Return the facet of a period: today, this week, this month, or since a day."""
    choices = [Choice(value, words) for value, words in _STARTS.items()]
    return Facet("from", _("When"), choices, any_label=_("Any time"), is_day=True, until="to")


def read(query: QueryDict, facets: Iterable[Facet]) -> QueryDict:
    """Return the list's query, with typed filters and days as parameters.

    `since` is the field for a day that isn't in the list of choices. If it isn't a day, the list
    ignores it, and the bar says so.
    """
    asked = query.copy()
    asked.pop("cursor", None)
    for name, given in asked.lists():
        asked.setlist(name, [one.replace("\0", "") for one in given])  # Postgres can't compare it
    facets = list(facets)
    operators = " ".join(asked.pop("ops", [])[-1:])
    for facet in facets:
        if facet.operator:
            among = [choice.value for choice in facet.choices]
            values = [one for one in asked.pop(facet.name, []) if one in among]
            operators = with_any_of(operators, facet.operator, values, among)
        if facet.is_day and (since := asked.pop("since", [""])[-1].strip()):
            if value := facet.value_of(since):
                asked[facet.name] = value
            else:
                asked.setlist("not-a-day", [since])
        if facet.until and (text := asked.get(facet.until, "").strip()):
            day = day_typed(text, timezone.localdate())
            asked.pop(facet.until)
            asked.update({facet.until: day.isoformat()} if day else {"not-a-day": text})
    if operators:
        asked["q"] = f"{operators} {asked.get('q', '')}".strip()
    return _without_typed(asked, [one for one in facets if not one.operator])


def _without_typed(query: QueryDict, facets: Sequence[Facet]) -> QueryDict:
    text = query.get("q", "")
    if ":" not in text:
        return query
    by_name = {facet.name: facet for facet in facets}
    by_name |= {str(facet.label).casefold(): facet for facet in facets}
    rest, end = [], 0
    for match in TOKEN.finditer(text):
        name, values = (match["name"] or "").casefold(), (match["values"] or "").strip('"')
        is_since = name == "since"
        facet = next((one for one in facets if one.is_day), None) if is_since else by_name.get(name)
        value = facet.value_of(values) if facet and not match["minus"] else ""
        if facet and value:
            query[facet.name] = value
            rest.append(text[end : match.start()])
            end = match.end()
    query["q"] = " ".join("".join([*rest, text[end:]]).split())
    return query


def first_day(query: Mapping[str, Any], name: str = "from") -> date | None:
    """Return the day of a parameter: `2026-11-23`, or where today, this week or month starts."""
    return day_typed(str(query.get(name, "")), timezone.localdate())


def in_days(rows: Rows, first: date | None, last: date | None, zone: tzinfo | None = None) -> Rows:
    """Keep what was created from the first to the last day, in this zone or the reader's."""
    zone = zone or timezone.get_current_timezone()
    if first:
        rows = rows.filter(created__gte=timezone.make_aware(datetime.combine(first, time()), zone))
    if last and last < date.max:
        end = datetime.combine(last + timedelta(days=1), time())
        rows = rows.filter(created__lt=timezone.make_aware(end, zone))
    return rows


@dataclass(frozen=True, slots=True)
class FilterBar:
    """A list's bar. `target` is the id of the element that the list is in, with the bar."""

    url: str
    target: str
    query: QueryDict
    label: Text
    placeholder: Text
    facets: Sequence[Facet] = ()
    sorts: Mapping[str, Text] = field(default_factory=dict)  # the first one is the usual order
    count: str = ""
    hint: Text = ""
    views_page: str = ""  # the list's name among saved views
    views: Sequence[Any] = ()
    most: int = 200
    has_operators: bool = (
        False  # whether words can contain the operators of memory/services/search/query.py
    )

    @property
    def text(self) -> str:
        return self.query.get("q", "")[: self.most]

    @property
    def words(self) -> str:
        """Return what the search field contains: the words, without operators, which are chips."""
        return split_operators(self.text)[1] if self.has_operators else self.text

    @property
    def operators(self) -> str:
        """Return the operators that no facet shows, which the form keeps in a field of their own."""
        if not self.has_operators:
            return ""
        text = " ".join(one.text for one in split_operators(self.text)[0])
        for facet in self.facets:
            if facet.operator:
                among = [choice.value for choice in facet.choices]
                text = with_any_of(text, facet.operator, [], among)
        return text

    def _chosen(self, facet: Facet) -> list[str]:
        """Return the values of a facet in the query."""
        if not facet.operator:
            return [value for value in [self.query.get(facet.name, "")] if value]
        among = {choice.value for choice in facet.choices}
        return [value for value in values_of(self.text, facet.operator) if value in among]

    @property
    def chips(self) -> list[tuple[str, str, str, bool]]:
        """Return the filters that are set: label, value, the URL without it, and if it's ignored."""
        chips = self._operator_chips() if self.has_operators else []
        for facet in self.facets:
            if facet.operator:
                continue
            value = self.query.get(facet.name, "")
            if shown := self._shown(facet, value):
                label = self._chip_label(facet, value)
                chips.append((label, shown, self.url_without(facet.name), False))
            if facet.until and (day := first_day(self.query, facet.until)):
                words = date_format(day, DAY_FORMAT)
                chips.append((_("until"), words, self.url_without(facet.until), False))
        return chips

    def _operator_chips(self) -> list[tuple[str, str, str, bool]]:
        found, rest = split_operators(self.text)
        labels = {facet.operator: facet for facet in self.facets if facet.operator}
        chips = []
        for one in found:
            query = self.query.copy()
            query["q"] = " ".join([*(o.text for o in found if o is not one), rest])
            facet = labels.get(one.field)
            values = {c.value: str(c.label) for c in facet.choices} if facet else {}
            label = _("not") + f" {one.field}" if one.negated else one.field
            shown = ", ".join(values.get(value, value) for value in one.values)
            chips.append((label, shown, self._url(query), not parse(one.text).filters))
        return chips

    @staticmethod
    def _chip_label(facet: Facet, value: str) -> str:
        if facet.is_day:
            return _("when") if value in _STARTS else _("since")
        label = str(facet.label)
        return label[:1].lower() + label[1:]

    @staticmethod
    def _shown(facet: Facet, value: str) -> str:
        if not value or value == facet.usual:
            return ""
        for one in facet.choices:
            if one.value == value:
                return str(one.label)
        if facet.is_day:
            day = day_typed(value, timezone.localdate())
            return date_format(day, DAY_FORMAT) if day else ""
        return ""

    @property
    def groups(self) -> list[dict[str, Any]]:
        """Return the facets for the template, each with its choices and the chosen one."""
        return [self._group(facet) for facet in self.facets]

    def _group(self, facet: Facet) -> dict[str, Any]:
        chosen = self._chosen(facet)
        listed = [choice for choice in facet.choices if choice.count != 0 or choice.value in chosen]
        value = chosen[0] if chosen else ""
        if facet.is_day and value not in _STARTS and (shown := self._shown(facet, value)):
            listed.insert(0, Choice(value, _("since %(day)s") % {"day": shown}))
        if not any(one.value in chosen for one in listed):
            chosen = []
        last = first_day(self.query, facet.until) if facet.until else None
        return {
            "facet": facet,
            "choices": listed,
            "inputs": self._inputs(facet, listed[:_MAX_LISTED], chosen),
            "chosen": chosen,
            "is_usual": not chosen,
            "until": date_format(last, DAY_FORMAT) if last else "",
        }

    def _inputs(self, facet: Facet, choices: Iterable[Choice], chosen: Sequence[str]) -> SafeString:
        """Return the inputs of a facet. There can be a hundred, too many for the template's loop."""
        kind = "checkbox" if facet.operator else "radio"
        name, anchor = escape(facet.name), escape(f"{self.target}-{facet.name}")
        shown = []
        for number, one in enumerate(choices, start=1):
            checked = " checked" if one.value in chosen else ""
            count = "" if one.count is None else f'<span class="num">{one.count:d}</span>'
            label = f'<span dir="auto">{escape(str(one.label))}</span>{count}'
            text = f'name="{name}" value="{escape(one.value)}"{checked}'
            shown.append(
                f'<label><input type="{kind}" id="{anchor}-{number}" {text}> {label}</label>'
            )
        # All of it is escaped above; Django's own helpers take ten times as long.
        return SafeString("\n".join(shown))  # nosec B703

    @property
    def sort(self) -> str:
        """Return the name of the order."""
        asked = self.query.get("sort", "")
        return asked if asked in self.sorts else next(iter(self.sorts), "")

    @property
    def sort_label(self) -> str:
        return str(self.sorts.get(self.sort, ""))

    @property
    def others(self) -> list[tuple[str, str]]:
        """Return the parameters that the form keeps unchanged, such as the order of a table."""
        own = {
            "cursor",
            "since",
            "not-a-day",
            "limit",
            "q",
            *(["sort"] if self.sorts else []),
        }
        own |= {name for facet in self.facets for name in (facet.name, facet.until)}
        return [(n, str(value)) for n, value in self.query.items() if n not in own and value]

    @property
    def is_narrowed(self) -> bool:
        """Return True if words or filters can hide rows."""
        return bool(self.words or self.chips)

    @property
    def state(self) -> str:
        """Return the query string that saved views keep: the filters, without empty ones."""
        return self._encoded(self.query)

    @property
    def problems(self) -> list[str]:
        """Return the texts that were typed as a day but aren't one."""
        example = date_format(timezone.localdate(), DAY_FORMAT)
        words = _("“%(text)s” isn’t a date, so it was ignored. Enter a date such as %(example)s.")
        return [
            words % {"text": shorten(text, 40), "example": example}
            for text in self.query.getlist("not-a-day")[:2]
        ]

    @property
    def today(self) -> str:
        """Return today as pages show it: the example in the fields for days."""
        return date_format(timezone.localdate(), DAY_FORMAT)

    def url_without(self, *names: str) -> str:
        query = self.query.copy()
        for name in names:
            query.pop(name, None)
        return self._url(query)

    @property
    def clear_url(self) -> str:
        """Return the list's URL without words and filters, in the same order."""
        names = ["q"]
        for facet in self.facets:
            names += [facet.name, *([facet.until] if facet.until else [])]
        return self.url_without(*names)

    def _url(self, query: QueryDict) -> str:
        query.pop("limit", None)
        encoded = self._encoded(query)
        return f"{self.url}?{encoded}" if encoded else self.url

    @staticmethod
    def _encoded(query: QueryDict) -> str:
        kept = QueryDict(mutable=True)
        for name, values in query.lists():
            if name not in ("cursor", "not-a-day") and any(values):
                kept.setlist(name, [value for value in values if value])
        return kept.urlencode()
