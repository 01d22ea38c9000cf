"""The places of the navigation, their tabs, and what a person pinned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from typing import Any, TypedDict
from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.db.models import FloatField, Func, Max
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext_lazy, ngettext
from django.utils.translation import gettext as _

from beacon_site import health
from beacon_site.embedded.places import BY_HAND
from beacon_site.text.messages import grouped
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import redirect_back, signed_in
from memory.models import MemoryFile, SavedView, Topic, User, as_of
from memory.models.errors import MemoryRefused
from memory.models.history import NO_USER, Statement, counted, counting
from memory.pages.recall import MAX_COUNTED, counts_of
from memory.pages.shared.undo import offer, undoes
from research.models import Report, Worker
from research.pages import inbox


@dataclass(frozen=True, eq=False)  # each is one object, and pages look them up often
class Place:
    """A place of the rail, or one of its tabs. `key` opens it after `g`.

    `under` are the paths of its pages that begin like none of its tabs.
    """

    label: str | Promise
    to: str
    key: str = ""
    icon: str = ""
    query: str = ""
    under: tuple[str, ...] = ()
    tabs: tuple[Place, ...] = ()
    also: tuple[Place, ...] = ()  # views of its tabs that have a key
    counts: tuple[str, ...] = ()  # what memory counts as the tab's content
    has_date: bool = False  # whether it can be read as of a date

    @cached_property
    def url(self) -> str:
        return reverse(self.to) + (f"?{self.query}" if self.query else "")

    @property
    def path(self) -> str:
        return self.url.partition("?")[0]

    def leaves(self) -> Iterator[Place]:
        """Yield its tabs. A tab that has tabs itself yields those instead."""
        for tab in self.tabs:
            yield from tab.leaves() if tab.tabs else (tab,)

    @cached_property
    def roots(self) -> set[str]:
        """The beginnings of its pages' paths."""
        return {one.path for one in (self, *self.leaves())} | {*self.under}

    def holds(self, path: str) -> int:
        """Return how much of the path leads to this place: the longest match wins."""
        return max((len(root) for root in self.roots if path.startswith(root)), default=0)

    def is_open(self, request: HttpRequest) -> bool:
        """Return True if this page is the tab, or one of the tab's tabs."""
        own = tuple(self.leaves()) or (self,)
        return any(request.path == one.path and one.is_asked(request) for one in own)

    def is_asked(self, request: HttpRequest) -> bool:
        """Whether the URL has the tab's filter. Every state but the usual one is in one tab."""
        name, _sign, value = self.query.partition("=")
        asked = request.GET.get(name, "")
        return not self.query or (bool(asked) if name == "state" else asked == value)


HOME = Place(gettext_lazy("Home"), "research:home", "h", "home")
INBOX = Place(
    gettext_lazy("Inbox"),
    "research:inbox",
    "i",
    "inbox",
    under=("/review/", "/conflicts/"),
    tabs=(
        Place(gettext_lazy("Pending"), "research:inbox", "", "inbox"),
        Place(gettext_lazy("Decided"), "research:inbox", "", "check", query="state=decided"),
        Place(gettext_lazy("Ratings"), "memory:ratings", "", "useful"),
        Place(gettext_lazy("Blocked sources"), "memory:refused-sources", "", "stop"),
    ),
    also=(
        Place(gettext_lazy("Proposals"), "research:inbox", "v", "review", query="show=proposal"),
        Place(gettext_lazy("Conflicts"), "research:inbox", "w", "conflict", query="show=conflict"),
        Place(gettext_lazy("Quarantine"), "research:inbox", "", "warning", query="show=quarantine"),
    ),
)
TOPICS = Place(
    gettext_lazy("Topics"),
    "research:topics",
    "t",
    "topics",
    tabs=(
        Place(gettext_lazy("Topics"), "research:topics", "", "topics", has_date=True),
        Place(gettext_lazy("Reports"), "research:reports", "r", "reports"),
        Place(gettext_lazy("Digests"), "research:digests", "", "reports"),
        Place(gettext_lazy("Shared links"), "research:shared-links", "", "link"),
        Place(gettext_lazy("Schedule"), "research:calendar", "e", "scheduled"),
    ),
)
KINDS = ("file", "note", "observation", "fact")
MEMORY = Place(
    gettext_lazy("Memory"),
    "memory:recall",
    "m",
    "content",
    under=("/records/", "/bulk/", "/forget/"),
    tabs=(
        Place(gettext_lazy("All"), "memory:recall", "c", "search", counts=KINDS, has_date=True),
        Place(
            gettext_lazy("Files"),
            "memory:files",
            "f",
            "files",
            counts=("listed-file",),
            has_date=True,
        ),
        Place(gettext_lazy("Notes"), "memory:notes", "n", "notes", counts=("note",), has_date=True),
        Place(
            gettext_lazy("Observations"),
            "memory:observations",
            "o",
            "observations",
            counts=("observation",),
            has_date=True,
        ),
        Place(
            gettext_lazy("Facts"),
            "memory:recall",
            "",
            "check",
            query="show=fact",
            counts=("fact",),
            has_date=True,
        ),
        Place(gettext_lazy("Names"), "memory:names", "", "person"),
    ),
)
AGENTS = Place(
    gettext_lazy("Agents"),
    "memory:agents",
    "g",
    "person",
    under=("/files/folders/",),
    tabs=(
        Place(gettext_lazy("Context"), "memory:agents", "x", "context", has_date=True),
        Place(gettext_lazy("Activity"), "research:agents-activity", "", "activity", has_date=True),
        Place(gettext_lazy("Folders"), "memory:agent-folders", "", "files"),
        Place(gettext_lazy("Permissions"), "memory:review-levels", "", "review"),
        Place(gettext_lazy("API tokens"), "memory:tokens", "", "key"),
        Place(
            gettext_lazy("Identity"),
            "memory:persona",
            tabs=(
                Place(gettext_lazy("Persona"), "memory:persona", "", "person"),
                Place(gettext_lazy("Soul"), "memory:soul", "", "person"),
            ),
        ),
        Place(
            gettext_lazy("Working data"),
            "memory:content",
            tabs=(
                Place(gettext_lazy("Content store"), "memory:content", "k", "content"),
                Place(gettext_lazy("Snapshots"), "memory:content-snapshots", "", "content"),
                Place(gettext_lazy("Scratchpad"), "memory:scratchpad", "p", "scratchpad"),
            ),
        ),
    ),
)
SECTIONS = (
    (HOME, INBOX, Place(gettext_lazy("Ask"), "memory:ask", "q", "ask")),
    (TOPICS, MEMORY, Place(gettext_lazy("Library"), "memory:library", "l", "library"), AGENTS),
    (
        Place(gettext_lazy("Activity"), "research:activity", "a", "activity"),
        Place(gettext_lazy("Trash"), "memory:trash", "d", "trash"),
        Place(gettext_lazy("Settings"), "memory:settings", "s", "settings"),
    ),
)
ON_PHONES = (HOME, INBOX, TOPICS, MEMORY)  # in the bar at the bottom


def every_place() -> Iterator[tuple[Place, Place | None]]:
    """Yield each page of the navigation with the place it's in, or None for a place itself."""
    for place in (one for section in SECTIONS for one in section):
        yield place, None
        for tab in (*place.leaves(), *place.also):
            if tab.url != place.url:
                yield tab, place


def navigation(request: HttpRequest, waiting: Mapping[Place, str]) -> dict[str, Any]:
    """Return the rail, its foot, the bar of phones, and the tabs if this page is one of them."""
    places = [one for section in SECTIONS for one in section]
    at = max(places[1:], key=lambda one: one.holds(request.path))
    here = at if at.holds(request.path) else HOME if request.path == HOME.url else None
    items = {
        place: {
            "label": place.label,
            "url": place.url,
            "key": place.key,
            "icon": place.icon,
            "current": place is here,
            "count": waiting.get(place, ""),
            "counted": _("unread") if place is TOPICS else _("waiting"),
        }
        for place in places
    }
    *main, foot = ([items[one] for one in section] for section in SECTIONS)
    tabs = _tabs(request, here.tabs if here else ())
    inner = next((one.tabs for one, is_open, _count in tabs if is_open), ())
    return {
        "nav": main,
        "nav_foot": foot,
        "nav_bar": [items[one] for one in ON_PHONES],
        "nav_keys": _shortcuts(get_language()),
        "nav_in_more": here is not None and here not in ON_PHONES,
        "nav_place": here,
        "nav_tabs": tabs,
        "nav_inner_tabs": _tabs(request, inner),
    }


@lru_cache
def _shortcuts(_language: str | None) -> SafeString:
    """Return the links of tabs with a key, hidden on every page: the same for everyone."""
    link = '<a href="{}" data-hotkey="g {}" data-hotkey-label="{}: {}">{}</a>'
    places = [one for section in SECTIONS[:-1] for one in section]
    tabs = ((one, tab) for one in places for tab in (*one.leaves(), *one.also) if tab.key)
    rows = ((tab.url, tab.key, one.label, tab.label, tab.label) for one, tab in tabs)
    return format_html_join("", link, rows)


def _tabs(request: HttpRequest, tabs: tuple[Place, ...]) -> list[tuple[Place, bool, str]]:
    """Return the tabs, each with whether it's open and the number of its items.

    Nothing is returned if this page isn't one of them. The numbers take one query. A page as of an
    earlier date has none, since they are today's.
    """
    opened = max(
        (one for one in tabs if one.is_open(request)), key=lambda one: len(one.query), default=None
    )
    if opened is None:
        return []
    user: Any = request.user
    date = getattr(request, "date", None)  # of pages that can be shown as of a date
    is_counted = any(one.counts for one in tabs) and not (date and date.is_past)
    numbers = counts_of(user) if is_counted else {}
    return [
        (one, one is opened, _number(numbers, one.counts) if is_counted and one.counts else "")
        for one in tabs
    ]


def _number(numbers: Mapping[str, float], names: Sequence[str]) -> str:
    number = int(sum(numbers[name] for name in names))
    return f"{grouped(MAX_COUNTED)}+" if number > MAX_COUNTED else grouped(number)


# --- pinned items ---

MAX_PINNED = 12


def pinned(user: User, full_path: str = "") -> list[dict[str, Any]]:
    """Return what the person pinned, in their order: a query for each kind, none without pins.

    Items in Trash aren't listed, and return with their record.
    """
    found = _existing_pins(user, user.pinned)
    return [
        {"label": found[one][0], "url": found[one][1], "current": found[one][1] == full_path}
        for one in user.pinned
        if one in found
    ]


def _existing_pins(
    user: User, pins: Sequence[str], *, in_trash: bool = False
) -> dict[str, tuple[str, str]]:
    """Return the title and the URL of each of these pins that exists, also those in Trash if asked."""
    keys: dict[str, list[str]] = {"topic": [], "file": [], "view": []}
    for one in pins:
        kind, _colon, key = one.partition(":")
        keys[kind].append(key)
    found = {}
    if keys["topic"]:
        topics = Topic.objects.for_user(user).filter(pk__in=keys["topic"])
        topics = topics if in_trash else topics.live()
        for pk, title, slug in topics.values_list("pk", "title", "slug"):
            found[f"topic:{pk}"] = (title, reverse("research:topic", args=[slug]))
    if keys["file"]:
        files = MemoryFile.objects.for_user(user).filter(path__in=keys["file"])
        files = files if in_trash else files.live()
        for path in files.values_list("path", flat=True):
            found[f"file:{path}"] = (path, reverse("memory:file", args=[path]))
    if keys["view"]:
        for view in SavedView.objects.for_user(user).filter(pk__in=keys["view"]):
            found[f"view:{view.pk}"] = (view.name, f"{_list_of(view)}?{view.query}")
    return found


def _list_of(view: SavedView) -> str:
    of_research = (SavedView.Page.ACTIVITY, SavedView.Page.TOPICS, SavedView.Page.REPORTS)
    app = "research" if view.page in of_research else "memory"
    return reverse(f"{app}:{view.page}")


def _exists(user: User, what: str) -> bool:
    """Return True if the person has this topic, file or view."""
    kind, _colon, key = what.partition(":")
    try:
        if kind == "topic":
            return Topic.objects.for_user(user).live().filter(pk=UUID(key)).exists()
        if kind == "file":
            return MemoryFile.objects.for_user(user).live().filter(path=key).exists()
        return kind == "view" and SavedView.objects.for_user(user).filter(pk=int(key)).exists()
    except (ValueError, OverflowError):
        return False


@signed_in("POST")
def pin(request: BeaconRequest) -> HttpResponse:
    """Pin or unpin a topic, file or view. `what` is its kind and key, `on` is empty to unpin."""
    what, on = request.POST.get("what", ""), bool(request.POST.get("on"))
    try:
        _pin(request, what, on=on)
    except MemoryRefused as exc:
        messages.warning(request, str(exc))
    return redirect_back(request, reverse("research:home"))


@undoes("pin")
def _pin(request: BeaconRequest, what: str, on: bool) -> str:
    if on and not _exists(request.user, what):
        raise Http404
    with transaction.atomic():  # two tabs pin one after the other
        user = User.objects.select_for_update(no_key=True).get(pk=request.user.pk)
        was_pinned, rest = what in user.pinned, [one for one in user.pinned if one != what]
        if on and not was_pinned and len(_existing_pins(user, rest)) >= MAX_PINNED:
            words = ngettext(
                "You can pin at most %(n)d item. Unpin the current one first.",
                "You can pin at most %(n)d items. Unpin one first.",
                MAX_PINNED,
            )
            raise MemoryRefused(words % {"n": MAX_PINNED})
        exist = _existing_pins(user, rest, in_trash=True)  # drops pins of deleted items
        user.pinned = [one for one in rest if one in exist] + ([what] if on else [])
        user.save(update_fields=["pinned"])
    if was_pinned != on:
        undo = offer(request, "pin", what=what, on=not on)
        messages.success(request, _("Pinned.") if on else _("Unpinned."), extra_tags=undo)
    return reverse("research:home")


# --- context of every page ---


# The same as `health.ages`, which works before any app is loaded.
_AGE = Func(
    Max("seen_at"),
    template="extract(epoch FROM now() - %(expressions)s)::double precision",
    output_field=FloatField(),
)
# Every page needs the count of unread reports, so it is capped. More is shown as "99+".
MAX_UNREAD = 100
WAITING = ("unread_reports", "to_decide")


def frame(request: HttpRequest) -> dict[str, Any]:
    """Return the navigation, `health_banner` and the counts of pending items (`WAITING`).

    One query: unread reports up to MAX_UNREAD, what waits in the Inbox, and the age of each
    process's last heartbeat. Up to three more list pinned items.
    """
    with as_of.present():  # also around a page as of a date
        return _frame(request)


def _frame(request: HttpRequest) -> dict[str, Any]:
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {"nav": [], "health_banner": "", "waiting_in_all": "", **dict.fromkeys(WAITING, 0)}
    values = _counts_and_ages(user)
    waiting = {name: int(values.get(name, 0)) for name in WAITING}
    unread = _at_most(waiting["unread_reports"], waiting["unread_reports"])
    return {
        **navigation(request, {INBOX: str(waiting["to_decide"] or ""), TOPICS: unread}),
        "nav_pinned": pinned(user, request.get_full_path()),
        "settings_pages": partial(settings_pages, user),  # only Settings pages need it
        "health_banner": health.disk_warning()
        or _banner(health.silent({kind: values.get(kind) for kind in health.OLDEST})),
        "waiting_in_all": _at_most(sum(waiting.values()), waiting["unread_reports"]),
        "unread_shown": unread,
        "is_rail_swap": False,  # so that no item searches all variables for it
        **waiting,
    }


def _at_most(number: int, unread: int) -> str:
    """Return a number that includes unread reports as text, or "" for zero."""
    if unread >= MAX_UNREAD:
        return f"{number - 1}+"
    return str(number or "")


def _counts_and_ages(user: User) -> dict[str, float]:
    """Return the count of each of WAITING, and the age in seconds of each kind of process."""
    return counted(_question(), user.pk)


@cache
def _question() -> Statement:
    """Return the query that every page needs, and its parameters."""
    asked, params = counting(
        [
            ("unread_reports", Report.objects.for_user(NO_USER).unread(), MAX_UNREAD),
            *(("to_decide", found, None) for _show, found in inbox.waiting(NO_USER)),
        ]
    )
    spoke = (
        Worker.objects.order_by().values("kind").annotate(number=_AGE).values_list("kind", "number")
    )
    ages, of = spoke.query.sql_with_params()
    return f"{asked} UNION ALL ({ages})", (*params, *of)


class SettingsPage(TypedDict):
    tab: str  # its name
    label: str
    url: str


class SettingsGroup(TypedDict):
    title: str
    pages: list[SettingsPage]


def settings_pages(user: User) -> list[SettingsGroup]:
    """Return the groups of Settings pages that the person can open."""
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
                "Scheduled runs are paused because the scheduler (beat, upkeep) isn’t running. You can still start runs manually. Start the scheduler with “%(make)s up”."
            )
            % BY_HAND
        )
    if gone:
        return (
            _(
                "No background worker is running, so new runs wait in the queue. Start a worker with “%(make)s up”."
            )
            % BY_HAND
        )
    return ""
