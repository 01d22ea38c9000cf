"""Snapshots of a scope: exact, sealed, of one owner, and the seed of a sub-agent's own store."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memory.agents.tools.types import ToolContext
from memory.models import Agent, ContentItem, Revision, Snapshot, Topic
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, Locked
from memory.services.content.items import clear, query, relate, retrieve, store
from memory.services.content.snapshots import (
    FIELDS,
    restore_snapshot,
    snapshot_as_json,
    snapshot_from_json,
    take_snapshot,
)
from tests.research.factories import make_topic

AGENT = Actor("agent", "claude")
RUN = "run:12"


def put(owner: Any, text: str = "a result", **more: Any) -> ContentItem:
    return store(owner, text, **{"by": AGENT, "scope": RUN} | more)


def held(owner: Any, scope: str = RUN, *, by_id: bool = True) -> list[Any]:
    """Return everything that a scope holds, relations too, as it can be compared."""
    items = ContentItem.objects.for_user(owner).live().filter(scope=scope).order_by("created", "pk")
    places = {item.pk: place for place, item in enumerate(items)}
    return [
        (
            item.pk if by_id else places[item.pk],
            [getattr(item, name) for name in FIELDS],
            sorted(str(places.get(one.pk, one.pk)) for one in item.related_to.all()),
        )
        for item in items
    ]


# What no row can hold is taken out before; times are those of the database, to the microsecond.
TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), max_size=60)
ITEMS = st.fixed_dictionaries(
    {
        "content": TEXTS,
        "type": st.sampled_from(ContentItem.Type.values),
        # a comma ends a tag, so no tag contains one
        "tags": st.lists(
            TEXTS.map(lambda text: text.replace(",", "").strip()).filter(bool),
            max_size=3,
            unique=True,
        ),
        "title": TEXTS.map(lambda text: " ".join(text.split())),
        "trust": st.sampled_from(["owner", "agent", "external", "quarantined"]),
        "sensitivity": st.sampled_from(["normal", "sensitive"]),
        "pinned": st.booleans(),
        "created": st.datetimes(datetime(2020, 1, 1), datetime(2026, 1, 1), timezones=st.just(UTC)),
        "links": st.integers(0, 7),
    }
)


@pytest.mark.requirement("R118")
@hypothesis_settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(rows=st.lists(ITEMS, max_size=5), as_json=st.booleans(), cleared=st.booleans())
def test_what_a_snapshot_held_is_restored_exactly(
    alice: Any, rows: list[dict[str, Any]], as_json: bool, cleared: bool
):
    ContentItem.objects.all().delete()
    made: list[ContentItem] = []
    for row in rows:
        links = [one.pk for n, one in enumerate(made) if row["links"] >> n & 1]
        fields = {name: value for name, value in row.items() if name != "links"}
        item = ContentItem.objects.create(
            owner=alice, scope=RUN, source="search", size=len(row["content"]), **fields
        )
        item.related_to.set(links)
        made.append(item)
    before = held(alice)

    snapshot = take_snapshot(alice, RUN, by=AGENT)
    if as_json:
        snapshot = snapshot_from_json(alice, snapshot_as_json(snapshot), by=AGENT)
    if cleared:
        clear(alice, RUN, by=AGENT)
    put(alice, "came since")
    restore_snapshot(snapshot, by=AGENT)

    assert held(alice) == before


@pytest.mark.requirement("R118")
def test_what_was_changed_or_trashed_is_as_it_was_again(alice: Any):
    kept, gone = put(alice, title="kept", tags=["a"]), put(alice, title="gone")
    relate(gone, [kept.pk], by=AGENT)
    before = held(alice)
    snapshot = take_snapshot(alice, RUN, by=AGENT)

    kept.change(by=alice.actor, title="renamed", tags=[], scope="run:13")
    gone.trash(by=alice.actor)
    restore_snapshot(snapshot, by=alice.actor)

    assert held(alice) == before


@pytest.mark.requirement("R242")
def test_a_snapshot_seeds_a_sub_agent_with_items_of_its_own(alice: Any):
    parent = ToolContext(alice, AGENT, "run:12", scope=RUN)
    parent.agent = alice_s_agent(alice, share_with_subagents=False)
    first = put(alice, title="one")
    put(alice, title="two", related_to=[first.pk])
    child = parent.for_subagent("news")
    assert query(alice, scopes=child.content_scopes) == []

    items = restore_snapshot(
        take_snapshot(alice, RUN, by=AGENT), by=child.by, scope=child.content_scope
    )

    seen = query(alice, scopes=child.content_scopes)
    assert {item.title for item in seen} == {"one", "two"} and not {first.pk} & {i.pk for i in seen}
    assert items[1].related_to.get() == items[0]
    store(alice, "its own", by=child.by, scope=child.content_scope)
    assert len(held(alice)) == 2


def alice_s_agent(owner: Any, **settings: Any) -> Any:
    return Agent.objects.create(owner=owner, name="sub", **settings)


@pytest.mark.parametrize("scope", [RUN, "run:13"])
def test_what_a_person_moved_to_the_trash_no_agent_brings_back(alice: Any, scope: str):
    hers, own = put(alice, title="hers"), put(alice, title="own")
    snapshot = take_snapshot(alice, RUN, by=AGENT)
    hers.trash(by=alice.actor)
    own.trash(by=AGENT)

    assert [one.title for one in restore_snapshot(snapshot, by=AGENT, scope=scope)] == ["own"]
    assert len(restore_snapshot(snapshot, by=alice.actor, scope=scope)) == 2


def test_a_locked_item_keeps_an_agent_from_restoring_anything(alice: Any):
    put(alice, title="one")
    locked = put(alice, title="two")
    snapshot = take_snapshot(alice, RUN, by=AGENT)
    locked.change(by=alice.actor, title="hers", lock="read-only")
    put(alice, title="since")
    before = held(alice)

    with pytest.raises(Locked):
        restore_snapshot(snapshot, by=AGENT)

    assert held(alice) == before


@pytest.mark.parametrize("scope", [RUN, "run:13"])
def test_what_was_marked_sensitive_since_is_sensitive_when_it_is_restored(alice: Any, scope: str):
    item = put(alice, "the diagnosis")
    snapshot = take_snapshot(alice, RUN, by=AGENT)

    item.change(by=alice.actor, sensitivity="sensitive")
    [restored] = restore_snapshot(snapshot, by=AGENT, scope=scope)

    assert restored.sensitivity == "sensitive"


def test_what_a_topic_s_pages_said_goes_from_snapshots_with_the_topic(alice: Any):
    topic = make_topic(alice, "Owls")
    put(alice, "the page of owls", topic=topic)
    put(alice, "nothing of it")
    snapshot = take_snapshot(alice, RUN, by=AGENT)

    topic.trash(by=alice.actor)
    Topic.objects.get(pk=topic.pk).purge(by=alice.actor)

    assert [one.content for one in snapshot.items.all()] == ["nothing of it"]


def test_an_item_that_goes_from_a_snapshot_is_in_the_snapshot_s_history(alice: Any):
    item = put(alice, "a page")
    snapshot = take_snapshot(alice, RUN, by=AGENT)
    item.trash(by=alice.actor)

    item.purge(by=alice.actor)

    snapshot.refresh_from_db()
    last = Revision.objects.filter(record_id=snapshot.pk).latest("version")
    assert (last.version, last.before["count"], last.after["count"]) == (snapshot.version, 1, 0)


# --- as JSON --------------------------------------------------------------------------------------


def sample(account: Any, **changes: Any) -> str:
    """Return a snapshot of one item as JSON, with changes that its seal does not know of."""
    put(account, "the words", trust="agent")
    data = json.loads(snapshot_as_json(take_snapshot(account, RUN, by=AGENT)))
    return json.dumps(data | changes)


def test_a_snapshot_that_was_changed_elsewhere_comes_from_outside(alice: Any):
    changed = json.loads(sample(alice))
    changed["items"][0] |= {"content": "other words", "trust": "owner"}

    snapshot = snapshot_from_json(alice, json.dumps(changed), by=alice.actor)

    assert snapshot.items.get().trust == "external"


def test_an_item_of_a_moment_far_from_every_time_zone_is_imported(alice: Any):
    item = {"id": str(uuid.uuid4()), "type": "custom", "content": "x", "source": "y"}
    moments = ["2026-01-01T00:00:00+23:59", "0001-01-01T00:00:00+23:59"]
    taken, odd = (sample(alice, items=[item | {"created": moment}]) for moment in moments)

    assert snapshot_from_json(alice, taken, by=alice.actor).items.get().created.day == 31
    with pytest.raises(InvalidValue, match="created"):
        snapshot_from_json(alice, odd, by=alice.actor)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"format": 2}, "format 2, but this version of Beacon supports formats up to 1. Update"),
        ({"format": "1"}, "its format is missing"),
        ({"owner": "bob"}, "the account “bob”, but you’re signed in as “alice”"),
        ({"kind": "other"}, "isn’t a content store snapshot"),
        ({"items": {}}, "list of at most"),
        ({"items": [{"id": "x"}]}, r"Item 1 can’t be read \(id\)"),
        ({"scope": "everybody"}, "isn’t a valid scope"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(
    alice: Any, changes: dict[str, Any], says: str
):
    text = sample(alice, **changes)

    with pytest.raises(InvalidValue, match=says):
        snapshot_from_json(alice, text, by=alice.actor)

    assert Snapshot.objects.count() == 1


@pytest.mark.parametrize("text", ["", "[" * 100_000, "[1]", '{"kind": NaN}', "\x00"])
def test_what_isnt_a_json_object_is_refused_with_a_reason(alice: Any, text: str):
    with pytest.raises(
        InvalidValue, match=r"isn’t a valid snapshot|isn’t a content store snapshot"
    ):
        snapshot_from_json(alice, text, by=alice.actor)


def test_items_that_lead_back_to_themselves_are_refused_with_the_path(alice: Any):
    a = put(alice, title="A")
    put(alice, title="B", related_to=[a.pk])
    data = json.loads(snapshot_as_json(take_snapshot(alice, RUN, by=AGENT)))
    data["items"][0]["related_to"] = [data["items"][1]["id"]]

    with pytest.raises(InvalidValue, match="A → B → A"):
        snapshot_from_json(alice, json.dumps(data), by=alice.actor)


def test_an_id_that_is_another_s_here_becomes_one_of_one_s_own(alice: Any, bob: Any):
    item = put(bob, "his")
    data = json.loads(sample(alice))
    data["items"][0]["id"] = str(item.pk)

    restored = restore_snapshot(
        snapshot_from_json(alice, json.dumps(data), by=alice.actor), by=alice.actor
    )

    assert restored[0].pk != item.pk and restored[0].owner_id == alice.pk
    kept = retrieve(bob, item.pk, scopes=None)
    assert kept is not None and kept.content == "his"


@pytest.mark.parametrize("into", [None, "run:13"])
@pytest.mark.parametrize("by_person", [False, True])
def test_an_item_deleted_permanently_never_comes_back_from_a_snapshot(
    alice: Any, into: str | None, by_person: bool
) -> None:
    item, other = put(alice, "the PIN is 7741"), put(alice, "a result")
    relate(other, [item.pk], by=AGENT)
    snapshot = take_snapshot(alice, RUN, by=AGENT)
    item.change(by=alice.actor, sensitivity="sensitive")
    item.trash(by=alice.actor)
    item.purge(by=alice.actor)
    snapshot.refresh_from_db()

    restored = restore_snapshot(snapshot, by=alice.actor if by_person else AGENT, scope=into)

    assert [one.content for one in restored] == ["a result"]
    assert (snapshot.count, snapshot.size) == (1, len("a result"))
    assert not ContentItem.objects.filter(content__contains="7741").exists()
    assert "7741" not in json.dumps(snapshot_as_json(snapshot), default=str)


@pytest.mark.parametrize("into", [None, "run:13"])
@pytest.mark.parametrize("lowered", ["external", "quarantined"])
def test_a_copy_is_believed_no_further_than_its_item_is_now(
    alice: Any, into: str | None, lowered: str
) -> None:
    item = put(alice)
    snapshot = take_snapshot(alice, RUN, by=AGENT)
    ContentItem.objects.filter(pk=item.pk).update(trust=lowered)

    [restored] = restore_snapshot(snapshot, by=AGENT, scope=into)

    restored.refresh_from_db()
    assert restored.trust == lowered
