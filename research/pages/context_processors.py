"""Context of every page: navigation with counts, and the health banner."""

from __future__ import annotations

from collections.abc import Mapping
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
from beacon_site.embedded.installed import BY_HAND
from memory.models import Conflict, Proposal, User
from research.models import Report, Run, Worker

# The same as `health.ages`, which works before any app is loaded.
_AGE = Func(
    Max("seen_at"),
    template="extract(epoch FROM now() - %(expressions)s)::double precision",
    output_field=FloatField(),
)
_ANYBODY = -1  # an ID that no user has
# Every page needs the count of unread reports, so it is capped. More is shown as "99+".
MOST_UNREAD = 100
WAITING = ("unread_reports", "waiting_plans", "waiting_proposals", "waiting_conflicts")


def frame(request: HttpRequest) -> dict[str, Any]:
    """Return `nav`, `health_banner` and the counts of pending items (`WAITING`).

    One query: unread reports up to MOST_UNREAD, pending items, and the age of each process's last
    heartbeat.
    """
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {"nav": [], "health_banner": "", "waiting_in_all": "", **dict.fromkeys(WAITING, 0)}
    told = _told(user)
    waiting = {name: int(told.get(name, 0)) for name in WAITING}
    return {
        "nav": sections(request.path, waiting),
        "settings_pages": partial(settings_pages, user),  # only Settings pages need it
        "health_banner": health.disk_warning()
        or _banner(health.silent({kind: told.get(kind) for kind in health.OLDEST})),
        "waiting_in_all": _at_most(sum(waiting.values()), waiting["unread_reports"]),
        "unread_shown": _at_most(waiting["unread_reports"], waiting["unread_reports"]),
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
        return dict(cursor.fetchall())


@cache
def _question() -> tuple[str, tuple[Any, ...]]:
    """Return the query and its parameters, with _ANYBODY for the person and any time for now.

    Every page needs it, and Django takes longer to build it than Postgres to answer, so it is
    cached.
    """
    rows: dict[str, QuerySet[Any]] = {
        "unread_reports": Report.objects.of(_ANYBODY).unread(),
        "waiting_plans": Run.objects.of(_ANYBODY).waiting_for_a_person(),
        "waiting_proposals": Proposal.objects.of(_ANYBODY).waiting(),
        "waiting_conflicts": Conflict.objects.of(_ANYBODY).standing(),
    }
    asked: list[str] = []
    params: list[Any] = []
    for name, found in rows.items():
        most = MOST_UNREAD if name == "unread_reports" else None
        counted, of = found.order_by().values("pk")[:most].query.sql_with_params()
        asked.append(f"SELECT '{name}', count(*)::double precision FROM ({counted}) {name}")  # noqa: S608  names of our own  # nosec B608
        params += of
    spoke = (
        Worker.objects.order_by().values("kind").annotate(number=_AGE).values_list("kind", "number")
    )
    ages, of = spoke.query.sql_with_params()
    return " UNION ALL ".join([*asked, f"({ages})"]), (*params, *of)


def sections(path: str, waiting: Mapping[str, int] | None = None) -> list[dict[str, Any]]:
    """Return the sections of the rail, with the count of pending items in each."""
    waiting = waiting or dict.fromkeys(WAITING, 0)
    plans, unread = waiting["waiting_plans"], waiting["unread_reports"]
    proposals, conflicts = waiting["waiting_proposals"], waiting["waiting_conflicts"]
    digests = reverse("research:digests")
    work = [
        _item(path, _("Home"), reverse("research:home"), "h", "home", exact=True),
        _item(path, _("Ask"), reverse("memory:ask"), "q", "ask"),
        _item(path, _("Topics"), reverse("research:topics"), "t", "topics", count=plans),
        _item(
            path,
            _("Reports"),
            reverse("research:reports"),
            "r",
            "reports",
            count=unread,
            shown=_at_most(unread, unread) if unread >= MOST_UNREAD else "",
            also=(digests,),
        ),
        _item(path, _("Schedule"), reverse("research:calendar"), "e", "scheduled"),
        _item(path, _("Library"), reverse("memory:library"), "l", "library"),
    ]
    memory = [
        _item(path, _("Files"), reverse("memory:files"), "f", "files"),
        _item(path, _("Notes"), reverse("memory:notes"), "n", "notes"),
        _item(path, _("Observations"), reverse("memory:observations"), "o", "observations"),
        _item(path, _("Content store"), reverse("memory:content"), "k", "content"),
        _item(path, _("Scratchpad"), reverse("memory:scratchpad"), "p", "scratchpad"),
    ]
    trust = [
        _item(path, _("Review"), reverse("memory:review"), "v", "review", count=proposals),
        _item(path, _("Conflicts"), reverse("memory:conflicts"), "w", "conflict", count=conflicts),
        _item(path, _("Recall"), reverse("memory:recall"), "c", "recall"),
        _item(path, _("Context"), reverse("memory:context"), "x", "context"),
        _item(path, _("Activity"), reverse("research:activity"), "a", "activity"),
    ]
    more = [
        _item(path, _("Trash"), reverse("memory:trash"), "d", "trash"),
        _item(path, _("Settings"), reverse("memory:settings"), "s", "settings"),
    ]
    return [
        {"title": "", "items": work},
        {"title": _("Memory"), "items": memory},
        {"title": _("Trust"), "items": trust},
        {"title": "", "items": more},
    ]


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
            _("Agents and API"),
            [
                ("agents", _("Agents"), "memory:agents"),
                ("tokens", _("API tokens"), "memory:tokens"),
                ("review", _("Review rules"), "memory:review-levels"),
                ("persona", _("Persona"), "memory:persona"),
                ("soul", _("Soul"), "memory:soul"),
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


def _item(
    path: str,
    label: str,
    url: str,
    key: str,
    icon: str,
    *,
    count: int = 0,
    shown: str = "",
    exact: bool = False,
    also: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return an item of the rail. `also` are URLs of pages that have no item themselves.

    `shown` is the text of the count if it isn't the number itself.
    """
    current = path == url if exact else path.startswith((url, *also))
    return {
        "label": label,
        "url": url,
        "current": current,
        "count": shown or count or None,
        "hot": count > 0,
        "key": key,
        "icon": icon,
    }


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
