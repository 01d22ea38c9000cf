"""What every page's frame shows: the rail with its counts, and the banner when nothing works."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from beacon_site import health
from research.models import Report


def frame(request: HttpRequest) -> dict[str, Any]:
    """Return `nav`, `health_banner` and `unread_reports` for a signed-in person's page.

    Two queries: the unread reports and the ages of the processes.
    """
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {"nav": [], "health_banner": "", "unread_reports": 0}
    unread = Report.objects.of(user).unread().count()
    return {
        "nav": _sections(request.path, unread),
        "health_banner": _banner(health.silent(health.ages())),
        "unread_reports": unread,
    }


def _sections(path: str, unread: int) -> list[dict[str, Any]]:
    """Return the rail's sections; it shows only what exists."""
    work = [
        _item(path, _("Home"), reverse("research:home"), "h", "home", exact=True),
        _item(path, _("Topics"), reverse("research:topics"), "t", "topics"),
        _item(path, _("Reports"), reverse("research:reports"), "r", "reports", count=unread),
        _item(path, _("Library"), reverse("memory:library"), "l", "library"),
    ]
    more = [_item(path, _("Settings"), reverse("memory:settings"), "s", "settings")]
    return [{"title": "", "items": work}, {"title": "", "items": more}]


def _item(
    path: str, label: str, url: str, key: str, icon: str, *, count: int = 0, exact: bool = False
) -> dict[str, Any]:
    current = path == url if exact else path.startswith(url)
    return {
        "label": label,
        "url": url,
        "current": current,
        "count": count or None,
        "hot": count > 0,
        "key": key,
        "icon": icon,
    }


def _banner(gone: list[str]) -> str:
    if gone and "worker" not in gone:
        return _(
            "Schedules stand still: what starts them (beat, upkeep) is not heard of any more. "
            "Runs started by hand still work. “make up” starts it."
        )
    if gone:
        return _(
            "No worker is running, so new runs wait in the queue and start when one is back. "
            "“make up” starts it."
        )
    return ""
