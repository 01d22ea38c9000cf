"""From contradicting statements of a run to Conflicts, and back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from memory.models import Conflict, Topic, TopicFact, User
from memory.services.review import conflicts
from research.models import DeltaItem, Run
from research.pages import shares
from tests.research import cast
from tests.research.conftest import Providers

pytestmark = pytest.mark.django_db
RunOf = Callable[[Topic], Run]


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


@pytest.fixture
def disputed(topic: Topic, providers: Providers, run_of: RunOf) -> DeltaItem:
    """A second run that reports a different number for the same month."""
    cast.set_up(providers, 1)
    run_of(topic)
    cast.set_up(providers, 1, 2)
    providers.pages.pages[cast.url(2)] = cast.page(1).replace("4,400", "9,900")
    item: DeltaItem = run_of(topic).delta_items.get(status="contradicted")
    return item


def report(browser: Client, item: DeltaItem) -> str:
    topic = item.run.topic
    return browser.get(reverse("research:run", args=[topic.slug, item.run_id])).content.decode()


def resolve(item: DeltaItem, how: str) -> None:
    conflict = item.conflict
    assert conflict is not None
    conflicts.resolve(conflict, how, by=conflict.owner.actor)


def test_an_item_leads_to_its_pair_and_the_pair_back_to_its_run(
    browser: Client, disputed: DeltaItem
):
    pair = reverse("memory:conflict", args=[disputed.conflict_id])
    run = reverse("research:run", args=[disputed.run.topic.slug, disputed.run_id])

    assert f'href="{pair}"' in report(browser, disputed)
    for page in (pair, reverse("research:inbox")):
        assert f'in <a href="{run}">' in browser.get(page).content.decode()


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("left", "Resolved: the old sentence was kept."),
        ("right", "Resolved: the new sentence was kept."),
        ("both", "Resolved: both sentences were kept."),
    ],
)
def test_once_it_is_resolved_the_report_says_how(
    browser: Client, disputed: DeltaItem, how: str, says: str
):
    assert "Both facts were kept." in report(browser, disputed)
    resolve(disputed, how)

    shown = report(browser, disputed)
    assert says in shown and "Both facts were kept." not in shown


def test_a_pair_that_an_earlier_run_met_is_the_same_one(
    topic: Topic, providers: Providers, disputed: DeltaItem, run_of: RunOf
):
    cast.set_up(providers, 3)
    providers.pages.pages[cast.url(3)] = cast.page(1).replace("4,400", "9,900")
    run_of(topic)

    assert Conflict.objects.for_user(topic.owner).count() == 1


def test_a_conflict_whose_fact_is_deleted_permanently_leaves_the_item(
    browser: Client, disputed: DeltaItem
):
    conflict = disputed.conflict
    assert conflict is not None
    fact = TopicFact.objects.get(pk=conflict.right_id)
    fact.trash(by=conflict.owner.actor)
    fact.refresh_from_db()
    fact.purge(by=conflict.owner.actor)

    disputed.refresh_from_db()
    assert disputed.conflict_id is None
    assert "Both facts were kept." in report(browser, disputed)


def test_a_shared_report_leads_no_one_to_the_desk(disputed: DeltaItem, client: Client, alice: User):
    link = shares.make_link(disputed.run.report, days=30, note="", by=alice.actor)
    page = client.get(reverse("research:shared-report", args=[link.token])).content.decode()

    assert disputed.sentence[:20] in page
    assert "/conflicts/" not in page and "compared by" not in page
