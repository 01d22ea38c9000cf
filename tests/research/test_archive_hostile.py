"""Manually changed archives: impossible values are rejected, and the rest breaks no page."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from memory.models import User
from research.models import Channel, Delivery, Digest, DigestSettings, Feed, Report, SharedLink
from research.pages import digests as pages_digests
from research.pages import shares
from research.services.notifications import channels, digests
from tests import kept_users
from tests.research.factories import make_second_run, make_topic
from tests.research.test_archive import exported, imported

Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def stored(stored_once: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    """Alice's key and archive."""
    with stored_once():
        alice = kept_users.copied("alice")
        run = make_second_run(make_topic(alice))
        shares.make_link(run.report, days=365, note="the board", by=alice.actor)
        pages_digests.add(alice, topic=None, include_private=True, by=alice.actor)
        channels.add(
            alice, kind="webhook", name="Hook", address="https://h.example/s3cret", by=alice.actor
        )
        digests.save_settings(alice, by=alice.actor, frequency="daily", hour=7, weekday=1)
        return alice.pk, exported(alice, tmp_path_factory.mktemp("archive") / "archive.zip")


@pytest.fixture
def alice(stored: tuple[int, Path], db: None) -> User:
    return User.objects.get(pk=stored[0])


@pytest.fixture
def archive(stored: tuple[int, Path]) -> Path:
    return stored[1]


def changed(path: Path, out: Path, kind: str, change: Change) -> Path:
    """Write the archive to `out` with each row of a kind changed.

    It's without notes and files, because replacing the default ones takes most of an import's time.
    """
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            held = b"" if name in ("data/notes.jsonl", "data/files.jsonl") else old.read(name)
            if name == f"data/{kind}.jsonl":
                rows = [json.loads(line) for line in held.splitlines()]
                for row in rows:
                    change(row)
                held = "".join(json.dumps(row) + "\n" for row in rows).encode()
            new.writestr(name, held)
    return out


@pytest.mark.parametrize(
    ("kind", "change", "why"),
    [
        ("reports", lambda row: row.update(sources={"n": 1}), "“sources” isn’t a list"),
        ("reports", lambda row: row.update(sources=["x"]), "has no number"),
        ("reports", lambda row: row.update(sources=[{"n": 1, "title": "T"}]), "has no title"),
        ("reports", lambda row: row["sources"].append(row["sources"][0]), "have the same number"),
        ("reports", lambda row: row["sources"][0].update(quotes=["x"]), "invalid quotes"),
        (
            "reports",
            lambda row: row["sources"][0].update(quotes=[{"found": "perhaps"}]),
            "invalid quotes",
        ),
        ("reports", lambda row: row["sources"][0].update(n=10**12), "has no number"),
        ("reports", lambda row: row.update(checks=[{"sentence": "x"}]), "checks are invalid"),
        ("steps", lambda row: row.update(counts={"queries": "many"}), "counts aren’t numbers"),
        ("steps", lambda row: row.update(output=[]), "“output” isn’t an object"),
        ("runs", lambda row: row.update(warnings="boo"), "“warnings” isn’t a list"),
        ("hits", lambda row: row.update(queries={}), "“queries” isn’t a list"),
        ("delta-items", lambda row: row.update(previous_source=[1]), "isn’t an object"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(
    archive: Path, tmp_path: Path, bob: User, kind: str, change: Change, why: str
):
    counts = imported(changed(archive, tmp_path / "a.zip", kind, change), bob, own=False)

    assert counts[kind].new == 0 and counts[kind].refused > 0
    assert why in counts[kind].whys[0]


def test_in_another_account_no_link_feed_or_channel_of_it_works(archive: Path, bob: User):
    alices = [SharedLink.objects.get().token, Feed.objects.get().token]
    imported(archive, bob, own=False)

    assert not SharedLink.objects.for_user(bob).working().exists()
    assert not Feed.objects.for_user(bob).working().exists()
    channel = Channel.objects.for_user(bob).get()
    assert (channel.enabled, channel.secret) == (False, "")
    assert DigestSettings.objects.get(owner=bob).next_at is None
    assert not Delivery.objects.for_user(bob).exists()
    visitor = Client()
    assert visitor.get(f"/shared/{alices[0]}/").status_code == 200  # Alice's own still works
    for link in (*SharedLink.objects.for_user(bob), *Feed.objects.for_user(bob)):
        place = "shared" if isinstance(link, SharedLink) else "feeds"
        assert visitor.get(f"/{place}/{link.token}/").status_code == 410


def test_once_the_account_is_gone_its_addresses_open_nothing_and_an_import_wakes_none(
    archive: Path, alice: User, bob: User
):
    shared, feed = SharedLink.objects.get().token, Feed.objects.get().token
    alice.delete()
    visitor = Client()
    assert visitor.get(f"/shared/{shared}/").status_code == 404
    assert visitor.get(f"/feeds/{feed}/").status_code == 404

    imported(archive, bob, own=False)

    assert visitor.get(f"/shared/{shared}/").status_code == 410
    assert visitor.get(f"/feeds/{feed}/").status_code == 410


def test_no_secret_of_a_channel_is_in_an_archive(archive: Path):
    with zipfile.ZipFile(archive) as held:
        everything = b"".join(held.read(name) for name in held.namelist())

    assert b"s3cret" not in everything and b"whsec_" not in everything


def test_a_digest_of_an_archive_whose_hour_is_still_to_come_stops_no_ones(
    archive: Path, alice: User, bob: User
):
    slot = DigestSettings.objects.get(owner=alice).next_at
    assert slot is not None
    Digest.objects.create(owner=alice, slot=slot)
    DigestSettings.objects.filter(owner=alice).update(next_at=slot)

    assert digests.make_due(slot) == 1
    assert Digest.objects.for_user(alice).count() == 1
    assert Report.objects.for_user(alice).count() == 2
