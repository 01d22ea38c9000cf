"""Pages as of a date: `?as_of=2026-03-01` shows what was known at the end of that day."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.utils.formats import date_format

from beacon_site.text.dates import day_of, day_typed
from beacon_site.web.http import BeaconRequest
from memory.models.as_of import as_of, at, first_day
from memory.models.errors import InvalidValue

View = Callable[..., HttpResponseBase]


@dataclass(frozen=True, slots=True)
class DateChoice:
    """A page's date control: the end of the date shown (None: now), and the rest of the page's URL."""

    when: datetime | None
    typed: str
    others: list[tuple[str, str]]  # parameters that the form keeps
    first: datetime | None = None  # of the first record, if the date is before it
    problem: str = ""
    is_missing: bool = False  # the page's record didn't exist on the date

    @property
    def is_past(self) -> bool:
        return self.when is not None

    @property
    def last_moment(self) -> datetime | None:
        """Return the last moment of the date in the current time zone."""
        return timezone.localtime(self.when - timedelta(microseconds=1)) if self.when else None

    @property
    def is_day(self) -> bool:
        """Whether it is a whole day, without a time."""
        return day_of(self.typed) is not None

    @property
    def day(self) -> str:
        """Return the date for its field, as pages show dates."""
        return date_format(self.last_moment, "j M Y") if self.last_moment else ""

    @property
    def today(self) -> str:
        return date_format(timezone.localdate(), "j M Y")

    @property
    def query(self) -> str:
        """Return the query of a link to another page as of the date, or "" for the present."""
        return f"?{self._param}" if self.is_past else ""

    @property
    def more(self) -> str:
        """Return the same for a link that already has a query."""
        return f"&{self._param}" if self.is_past else ""

    @property
    def _param(self) -> str:
        return urlencode({"as_of": self.typed})

    @property
    def back(self) -> str:
        """Return the query of the same page now."""
        return f"?{urlencode(self.others)}" if self.others else "?"


def chosen_date(request: BeaconRequest) -> DateChoice:
    """Return the date of the URL. Raises InvalidValue for an invalid or future one."""
    typed = request.GET.get("as_of", "")
    if day := day_typed(typed, timezone.localdate()):
        typed = day.isoformat()
    return DateChoice(as_of(typed, timezone.get_current_timezone()), typed, _others(request))


def _others(request: BeaconRequest) -> list[tuple[str, str]]:
    """Return the other parameters. A page of results belongs to the date that it was made for."""
    return [
        (name, value)
        for name, values in request.GET.lists()
        if name not in ("as_of", "cursor", "limit")
        for value in values
    ]


def at_a_date(view: View) -> View:
    """Show the page as of `?as_of=`, read-only. Without the parameter, it is as it is now.

    The view has `request.date` for its template. A date that can't be shown is explained instead.
    """

    @wraps(view)
    def dated(request: BeaconRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        found = date_or_problem(request)
        if isinstance(found, HttpResponse):
            return found
        request.date = found
        try:
            with at(request.user, found.when):
                return view(request, *args, **kwargs)
        except Http404:
            if not found.is_past:
                raise
            # The same words for what never existed, so they reveal nothing.
            return _no_page(request, replace(found, is_missing=True), status=404)

    return dated


def date_or_problem(request: BeaconRequest) -> DateChoice | HttpResponse:
    """Return the date of the URL, or the page that explains why there is nothing to show."""
    try:
        found = chosen_date(request)
    except InvalidValue as exc:
        choice = DateChoice(None, request.GET.get("as_of", ""), _others(request), None, str(exc))
        return _no_page(request, choice, status=400)
    if found.when is None:
        return found
    first = first_day(request.user)
    if first is None or found.when <= first:
        choice = DateChoice(found.when, found.typed, found.others, first)
        return _no_page(request, choice, status=200)
    return found


def _no_page(request: BeaconRequest, choice: DateChoice, *, status: int) -> HttpResponse:
    context: dict[str, Any] = {"choice": choice}
    template = "_as_of_empty.html" if request.htmx else "as_of_empty.html"
    return render(request, f"memory/{template}", context, status=status)
