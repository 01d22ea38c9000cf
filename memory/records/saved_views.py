"""Views of lists saved under a name, and those that are there from the start."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory.errors import InvalidValue, LimitReached
from memory.models import SavedView, User
from memory.texts.text import clean, is_visible, one_line

LONGEST_QUERY = 12_000  # characters of a query string; a search field takes 10,000


@dataclass(frozen=True, slots=True)
class View:
    """A view as a list shows it; `pk` is None for one that is there from the start."""

    name: str
    query: str
    pk: int | None = None
    is_open: bool = False


BUILT_IN = {
    "notes": (
        (gettext_lazy("expiring this week"), "is:expiring", "expires"),
        (gettext_lazy("from outside, unreviewed"), "trust:external", ""),
    ),
    "observations": (
        (gettext_lazy("lessons"), "category:lesson", ""),
        (gettext_lazy("from outside, unreviewed"), "trust:external", ""),
    ),
}


def views_of(user: User, page: str, query: str = "") -> list[View]:
    """Return the views of a page, those from the start first: one query."""
    given = [
        View(str(name), urlencode({"q": text} | ({"sort": sort} if sort else {})))
        for name, text, sort in BUILT_IN.get(page, ())
    ]
    saved = SavedView.objects.of(user).filter(page=page)
    found = [*given, *(View(view.name, view.query, view.pk) for view in saved)]
    now = _plain(query)
    return [View(one.name, one.query, one.pk, _plain(one.query) == now) for one in found]


def save_view(user: User, page: str, name: str, query: str) -> SavedView:
    """Save the address of a list under a name; one of the same name is replaced.

    Raises InvalidValue for a page or name that cannot be, LimitReached at SavedView.MOST.
    """
    name = one_line(clean(name)[0])
    most = SavedView._meta.get_field("name").max_length or 60
    if page not in SavedView.Page.values:
        raise InvalidValue(_("There is no list of that name."))
    if not is_visible(name):
        raise InvalidValue(_("A view needs a name. Type one and save again."))
    if len(name) > most:
        raise InvalidValue(
            _("The name has %(have)d characters, and at most %(most)d fit. Shorten it.")
            % {"most": most, "have": len(name)}
        )
    query = _plain(clean(query)[0])
    if len(query) > LONGEST_QUERY:
        raise InvalidValue(_("This search is too long to be saved as a view. Shorten it."))
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)  # two saves, one limit
        others = SavedView.objects.of(user).filter(page=page).exclude(name=name)
        if others.count() >= SavedView.MOST:
            raise LimitReached(
                _("There are %(most)d saved views already: delete one first.")
                % {"most": SavedView.MOST}
            )
        view, _made = SavedView.objects.update_or_create(
            owner=user, page=page, name=name, defaults={"query": query}
        )
    return view


def _plain(query: str) -> str:
    """Return the query string without the page of the list and without what is empty."""
    pairs = parse_qsl(query.lstrip("?"))[:50]
    return urlencode([(name, value) for name, value in pairs if name != "cursor"])
