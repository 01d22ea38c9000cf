"""One row of each kind, a complete run, and every URL that shows them."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from memory.models import Proposal, User
from research.pages.activity import EXPORTS as ACTS
from research.services.reports.exporting import KINDS as REPORTS
from tests.pages.test_admin import REGISTERED, changed, listed, one_of_each
from tests.pages.test_every_address import PUBLIC, Address, named, routes
from tests.research.factories import make_call, make_second_run, make_topic


@dataclass(frozen=True, slots=True)
class Place:
    """A URL and the name of its route."""

    name: str
    path: str


def everything(owner: User) -> list[Place]:
    """Create one row of each kind for an admin; return every URL, including the admin site."""
    one_of_each(owner)
    topic = make_topic(owner, "The harbour")
    run = make_second_run(topic)
    make_call(run)
    Proposal.objects.filter(record_type="topic").delete()  # nothing proposes topics
    rows = named(topic)
    pages = [
        Place(name, Address(name, str(entry.pattern), rows).path)
        for name, _address, entry in routes()
        if name not in PUBLIC
    ]
    return [*pages, *_files(topic.slug, run.pk), *_admin()]


def _admin() -> list[Place]:
    found = []
    for model in REGISTERED:
        row = model._default_manager.first()
        found.append(Place("admin", listed(model)))
        if row is not None:
            found.append(Place("admin", changed(row)))
    return found


def _files(slug: str, run: int) -> list[Place]:
    """The files of each kind, and searches that find something."""
    at = {"slug": slug, "run_id": run}
    exports = [reverse("research:run-export", kwargs={**at, "kind": kind}) for kind in REPORTS]
    found = f"{reverse('memory:recall')}?{urlencode({'q': 'alert script img'})}"
    return [
        *(Place("research:run-export", address) for address in exports),
        *(Place("research:activity-file", reverse("research:activity-file", args=[kind])) for kind in ACTS),
        Place("memory:recall", found),
        Place("memory:recall-file", f"{reverse('memory:recall-file', args=['hits.json'])}?q=alert"),
    ]  # fmt: skip
