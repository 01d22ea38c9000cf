"""The content store: storing, getting back, querying, relations, clearing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from memory.models import Activity, ContentItem, Revision, Trust
from memory.models.actors import MAINTENANCE, Actor
from memory.models.errors import InvalidValue, Locked
from memory.services.content import items as content_services
from memory.services.content.items import (
    MAX_BYTES,
    as_text,
    circle_in,
    clear,
    query,
    relate,
    retrieve,
    store,
)
from memory.services.records.history import undo
from memory.services.records.kinds import kind_of
from memory.tasks import retire_content
from research.services.extensions.content import cited
from tests.research.factories import make_run, make_topic

AGENT = Actor("agent", "claude")
RUN = "run:12"


def put(owner: Any, text: str = "a result", **more: Any) -> ContentItem:
    return store(owner, text, **{"by": AGENT, "scope": RUN} | more)


def found(owner: Any, **more: Any) -> list[str]:
    return [item.title for item in query(owner, **{"scopes": [RUN]} | more)]


@pytest.mark.requirement("R111")
@pytest.mark.requirement("R112")
@pytest.mark.requirement("R121")
def test_an_item_keeps_what_was_stored_and_is_got_back_by_its_id(alice: Any):
    first = put(alice)

    item = put(
        alice, "naïve 🦉 text", type="web_content", source="fetch", tags=["a", "b"],
        related_to=[first.pk], title="Owls", url="https://example.org/owls", run_step="run:12/step:3",
    )  # fmt: skip

    got = retrieve(alice, str(item.pk), scopes=[RUN])
    assert got is not None and got.content == "naïve 🦉 text"
    assert (got.size, got.type, got.source, got.tags) == (12, "web_content", "fetch", ["a", "b"])
    assert list(got.related_to.all()) == [first] and got.run_step == "run:12/step:3"
    assert timezone.now() - got.created < timedelta(minutes=1)


@pytest.mark.requirement("R113")
def test_what_is_not_there_is_nothing(alice: Any, bob: Any):
    item = put(alice)

    assert retrieve(bob, item.pk, scopes=None) is None
    assert retrieve(alice, item.pk, scopes=["run:13"]) is None
    assert retrieve(alice, "no id at all\x00", scopes=None) is None
    item.trash(by=alice.actor)
    assert retrieve(alice, item.pk, scopes=None) is None


def test_the_content_is_not_kept_a_second_time_in_its_history(alice: Any):
    item = put(alice, "x" * 1000)

    assert "content" not in Revision.objects.get(record_id=item.pk).after


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"text": "é" * (MAX_BYTES // 2 + 1)}, "8,388,608 bytes"),
        ({"type": "blob"}, "action_result, web_content"),
        ({"scope": "everybody"}, "run:<number>"),
        ({"tags": ["t" * 81]}, "at most 80"),
        ({"title": "t" * 501}, "at most 500"),
        ({"related_to": ["d0c8a1de-0000-4000-8000-000000000000"]}, "these IDs: d0c8a1de"),
        ({"related_to": ["not an id"]}, "these IDs: not an id"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_what_cannot_be_stored_is_refused_with_a_reason_and_nothing_is_stored(
    alice: Any, wrong: dict[str, Any], says: str
):
    with pytest.raises(InvalidValue, match=says):
        put(alice, **wrong)

    assert not ContentItem.objects.exists()


def test_json_that_is_nested_too_deeply_is_refused_with_a_reason():
    deep: list[Any] = []
    for _level in range(100_000):
        deep = [deep]

    with pytest.raises(InvalidValue, match="nested too deeply"):
        as_text(deep)


def test_eight_mebibytes_to_the_byte_are_taken(alice: Any):
    assert put(alice, "é" * (MAX_BYTES // 2)).size == MAX_BYTES // 2


def test_what_no_row_can_hold_is_removed_and_not_counted(alice: Any):
    assert put(alice, "a\x00b\ud800c").size == 3


@pytest.mark.requirement("R115")
def test_a_query_narrows_by_type_source_tags_and_time(alice: Any, bob: Any):
    old = put(alice, title="old", source="search", tags=["a"])
    ContentItem.objects.filter(pk=old.pk).update(created=timezone.now() - timedelta(days=2))
    put(alice, title="new", type="web_content", tags=["a", "b"])
    put(alice, title="elsewhere", scope="run:13")
    put(bob, title="his")

    assert found(alice) == ["new", "old"]
    assert found(alice, type="web_content") == ["new"]
    assert found(alice, source="search") == ["old"]
    assert found(alice, tags="a, b") == ["new"]
    assert found(alice, after=timezone.now() - timedelta(days=1)) == ["new"]
    assert found(alice, before=timezone.now() - timedelta(days=1)) == ["old"]
    assert found(alice, limit=1) == ["new"]


@pytest.mark.requirement("R116")
def test_a_query_gives_ten_without_their_content(alice: Any, django_assert_num_queries: Any):
    for n in range(12):
        put(alice, title=f"{n}")

    with django_assert_num_queries(1):
        items = query(alice, scopes=[RUN])

    assert len(items) == 10 and all("content" in item.get_deferred_fields() for item in items)


@pytest.mark.parametrize("limit", [0, -1, 10**9, "10", True, 2.5])
def test_an_odd_limit_is_refused_with_a_reason(alice: Any, limit: Any):
    with pytest.raises(InvalidValue, match="whole number from 1 to 200"):
        query(alice, scopes=[RUN], limit=limit)


def test_agents_are_not_told_of_what_they_cannot_see(alice: Any):
    put(alice, title="open")
    put(alice, title="sensitive", sensitivity="sensitive")
    put(alice, title="set aside", trust=Trust.QUARANTINED)

    assert found(alice, for_agent=True) == ["open"]
    assert len(found(alice)) == 3


# --- relations ------------------------------------------------------------------------------------


def test_a_relation_that_leads_back_is_refused_with_its_path(alice: Any):
    a = put(alice, title="A")
    b = put(alice, title="B", related_to=[a.pk])
    c = put(alice, title="C", related_to=[b.pk])

    with pytest.raises(InvalidValue, match="form a loop") as refused:
        relate(a, [c.pk], by=alice.actor)

    assert str(refused.value).count("→") == 3
    assert not a.related_to.exists()
    with pytest.raises(InvalidValue, match="form a loop"):
        relate(a, [a.pk], by=alice.actor)


def test_a_changed_relation_is_a_revision_that_can_be_undone(alice: Any):
    a, b = put(alice), put(alice)

    relate(b, [a.pk], by=alice.actor)
    revision = Revision.objects.get(record_id=b.pk, version=2)
    assert (revision.before, revision.after) == ({"related_to": []}, {"related_to": [str(a.pk)]})

    undo(revision, by=alice.actor)
    assert kind_of("contentitem").more(b) == {"related_to": []}


def test_no_one_relates_to_another_s_item(alice: Any, bob: Any):
    with pytest.raises(InvalidValue, match="No stored items match these IDs"):
        put(bob, related_to=[put(alice).pk])


@pytest.mark.parametrize(
    ("links", "path"),
    [
        ({1: [2], 2: [3], 3: [2]}, [2, 3, 2]),
        ({1: [1]}, [1, 1]),
        ({1: [2, 3], 2: [3], 3: []}, []),
        ({1: [9]}, []),
        ({n: [n + 1] for n in range(5000)}, []),
    ],
)
def test_a_circle_is_found_however_long_the_chain(links: dict[int, list[int]], path: list[int]):
    assert circle_in(links) == path


# --- clearing -------------------------------------------------------------------------------------


@pytest.mark.requirement("R117")
def test_clearing_empties_that_scope_alone_and_can_be_undone(alice: Any, bob: Any):
    put(alice, title="one"), put(alice, title="two")
    put(alice, title="other", scope="run:12/news")
    put(bob, title="his")
    at = timezone.now()

    assert clear(alice, RUN, by=AGENT, at=at) == 2
    assert found(alice) == [] and found(alice, scopes=["run:12/news"]) == ["other"]
    assert found(bob) == ["his"]

    for item in ContentItem.objects.filter(trashed_at=at):
        item.restore(by=alice.actor)
    assert sorted(found(alice)) == ["one", "two"]


def test_a_locked_item_keeps_an_agent_from_clearing_anything(alice: Any):
    put(alice, title="one")
    put(alice, title="two").change(by=alice.actor, lock="read-only")

    with pytest.raises(Locked):
        clear(alice, RUN, by=AGENT)

    assert len(found(alice)) == 2


# --- how long it is kept --------------------------------------------------------------------------


def aged(item: ContentItem, days: int) -> None:
    ContentItem.objects.filter(pk=item.pk).update(created=timezone.now() - timedelta(days=days))


def test_old_results_go_to_the_trash_and_what_someone_wants_stays(alice: Any, settings: Any):
    settings.BEACON_CONTENT_DAYS = 90
    run = make_run(make_topic(alice))
    report_s = put(alice, title="cited")
    run.hits.create(url="u", link="u", service="sample", cited_as=1, content_item=report_s)
    put(alice, title="pinned").change(by=AGENT, pinned=True)
    put(alice, title="hers", by=alice.actor)
    put(alice, title="old")
    for item in ContentItem.objects.all():
        aged(item, 91)
    put(alice, title="new")

    assert report_s.pk in cited().values_list("content_item", flat=True)
    assert content_services.retire(alice) == 1

    assert sorted(found(alice)) == ["cited", "hers", "new", "pinned"]
    gone = Revision.objects.get(after__has_key="trashed_at")
    assert (gone.actor, gone.reason) == (str(MAINTENANCE), "older than 90 days")


def test_maintenance_tells_activity_how_many_went(alice: Any, bob: Any, settings: Any):
    settings.BEACON_CONTENT_DAYS = 30
    for owner in (alice, bob, bob):
        aged(put(owner), 31)

    retire_content()
    retire_content()

    told = Activity.objects.filter(kind="content-retired").order_by("owner__username")
    assert [line.detail["items"] for line in told] == [1, 2]
    assert told[1].label == "2 content items older than 30 days moved to Trash"


def test_with_no_days_set_everything_is_kept(alice: Any, settings: Any):
    settings.BEACON_CONTENT_DAYS = 0
    aged(put(alice, title="old"), 4_000)

    assert content_services.owners_in_need() == []
