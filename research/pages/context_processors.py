"""Context of every page: navigation with counts, and the health banner."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from functools import cache, partial
from typing import Any

from django.db import connection
from django.db.models import FloatField, Func, Max, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from beacon_site import health
from beacon_site.embedded.places import BY_HAND
from memory.models import User, as_of
from research.models import Report, Worker
from research.pages import inbox, places

# The same as `health.ages`, which works before any app is loaded.
_AGE = Func(
    Max("seen_at"),
    template="extract(epoch FROM now() - %(expressions)s)::double precision",
    output_field=FloatField(),
)
_ANYBODY = -1  # an ID that no user has
# Every page needs the count of unread reports, so it is capped. More is shown as "99+".
MOST_UNREAD = 100
WAITING = ("unread_reports", "to_decide")


def frame(request: HttpRequest) -> dict[str, Any]:
    """Return the navigation, `health_banner` and the counts of pending items (`WAITING`).

    One query: unread reports up to MOST_UNREAD, what waits in the Inbox, and the age of each
    process's last heartbeat. Up to three more list pinned items.
    """
    with as_of.present():  # also around a page as of a date
        return _frame(request)


def _frame(request: HttpRequest) -> dict[str, Any]:
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {"nav": [], "health_banner": "", "waiting_in_all": "", **dict.fromkeys(WAITING, 0)}
    told = _told(user)
    waiting = {name: int(told.get(name, 0)) for name in WAITING}
    unread = _at_most(waiting["unread_reports"], waiting["unread_reports"])
    return {
        **places.navigation(
            request, {places.INBOX: str(waiting["to_decide"] or ""), places.TOPICS: unread}
        ),
        "nav_pinned": places.pinned(user, request.get_full_path()),
        "settings_pages": partial(settings_pages, user),  # only Settings pages need it
        "health_banner": health.disk_warning()
        or _banner(health.silent({kind: told.get(kind) for kind in health.OLDEST})),
        "waiting_in_all": _at_most(sum(waiting.values()), waiting["unread_reports"]),
        "unread_shown": unread,
        **waiting,
    }


def _at_most(number: int, unread: int) -> str:
    """Return a number that includes unread reports as text, or "" for zero."""
    if unread >= MOST_UNREAD:
        return f"{number - 1}+"
    return str(number or "")


def _told(user: User) -> dict[str, float]:
    """Return the count of each of WAITING, and the age in seconds of each kind of process."""
    statement, params = _question()
    now = timezone.now()
    asked = [user.pk if one == _ANYBODY else one for one in params]
    with connection.cursor() as cursor:
        cursor.execute(statement, [now if isinstance(one, datetime) else one for one in asked])
        found: dict[str, float] = defaultdict(float)
        for name, number in cursor.fetchall():
            found[name] += number
        return found


@cache
def _question() -> tuple[str, tuple[Any, ...]]:
    """Return the query and its parameters, with _ANYBODY for the person and any time for now.

    Every page needs it, and Django takes longer to build it than Postgres to answer, so it is
    cached.
    """
    rows: list[tuple[str, QuerySet[Any]]] = [
        ("unread_reports", Report.objects.of(_ANYBODY).unread()),
        *(("to_decide", found) for _show, found in inbox.waiting(_ANYBODY)),
    ]
    asked: list[str] = []
    params: list[Any] = []
    for name, found in rows:
        most = MOST_UNREAD if name == "unread_reports" else None
        counted, of = found.order_by().values("pk")[:most].query.sql_with_params()
        asked.append(f"SELECT '{name}', count(*)::double precision FROM ({counted}) {name}")  # noqa: S608  names of our own  # nosec B608
        params += of
    spoke = (
        Worker.objects.order_by().values("kind").annotate(number=_AGE).values_list("kind", "number")
    )
    ages, of = spoke.query.sql_with_params()
    return " UNION ALL ".join([*asked, f"({ages})"]), (*params, *of)


def settings_pages(user: User) -> list[dict[str, Any]]:
    """Return the groups of Settings pages that the person can open. `tab` is the name of a page."""
    groups = [
        (
            _("Account"),
            [
                ("profile", _("Profile"), "memory:profile"),
                ("sign-ins", _("Security"), "memory:sign-ins"),
                ("notifications", _("Notifications"), "research:channels"),
                ("spending", _("Usage and limits"), "memory:spending"),
            ],
        ),
        (
            _("Data"),
            [
                ("sources", _("Source rules"), "research:source-rules"),
                ("archive", _("Import and export"), "memory:archive"),
            ],
        ),
    ]
    if user.is_staff:
        of_admins = [
            ("connections", _("Models and search"), "memory:connections"),
            ("health", _("System status"), "memory:health"),
            ("backups", _("Backups"), "memory:backups"),
            ("people", _("Users"), "memory:people"),
        ]
        groups.append((_("Server"), of_admins))
    return [
        {
            "title": title,
            "pages": [{"tab": tab, "label": label, "url": reverse(to)} for tab, label, to in pages],
        }
        for title, pages in groups
    ]


def _banner(gone: list[str]) -> str:
    if gone and "worker" not in gone:
        return (
            _(
                "Scheduled runs are paused because the scheduler (beat, upkeep) isn’t running. "
                "You can still start runs manually. Start the scheduler with “%(make)s up”."
            )
            % BY_HAND
        )
    if gone:
        return (
            _(
                "No background worker is running, so new runs wait in the queue. Start a worker "
                "with “%(make)s up”."
            )
            % BY_HAND
        )
    return ""
