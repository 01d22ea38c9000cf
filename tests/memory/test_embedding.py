"""Vectors are created after the transaction, and never for text that must not leave."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.utils import timezone

from beacon_site.db.advisory_locks import LockId
from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from memory.models import Activity, Embedding, EmbeddingDue, Note
from memory.services.search import embedding
from memory.tasks import embed_due
from tests.memory.embedding_cast import note, use
from tests.providers.fakes import FakeEmbedder

pytestmark = pytest.mark.usefixtures("fake")


def texts_of(model: str = "") -> set[Any]:
    made = Embedding.objects.filter(model=model) if model else Embedding.objects.all()
    return set(made.values_list("object_id", flat=True))


@pytest.mark.requirement("R211")
def test_a_note_gets_its_vector_from_the_task(alice: Any, fake: FakeEmbedder):
    one = note(alice, "The car is red.")
    assert not Embedding.objects.exists()

    embed_due()

    made = Embedding.objects.get(object_id=one.pk)
    assert (made.owner, made.record_type, made.model) == (alice, "note", "fake-embedder")
    assert made.dimensions == len(made.values) == 24
    assert not EmbeddingDue.objects.exists()


def test_delivered_twice_it_embeds_once(alice: Any, fake: FakeEmbedder):
    note(alice, "one")

    embed_due()
    embed_due()

    assert fake.asked == ["one"]


@pytest.mark.requirement("R211", "R215")
def test_edited_words_lose_the_old_vector_at_once_and_get_a_new_one(alice: Any, fake: FakeEmbedder):
    one = note(alice, "the car")
    embed_due()
    one.change(by=alice.actor, content="the garden")

    assert not Embedding.objects.exists()
    embed_due()
    assert fake.asked == ["the car", "the garden"]


@pytest.mark.requirement("R213")
def test_a_failing_embedder_leaves_the_record_waiting_and_shows_once(
    alice: Any, fake: FakeEmbedder
):
    one = note(alice, "one")
    for _try in range(2):
        fake.enqueue(ProviderUnavailable("nobody answers there"))
        EmbeddingDue.objects.update(not_before=timezone.now())
        embed_due()

    waiting = EmbeddingDue.objects.get(object_id=one.pk)
    assert waiting.not_before > timezone.now() + timedelta(seconds=30)
    assert Activity.objects.filter(kind="embedding-failed", is_warning=True).count() == 1
    assert embedding.progress()["why"] == "nobody answers there"


@pytest.mark.requirement("R213")
def test_what_waited_is_made_once_the_embedder_is_back(alice: Any, fake: FakeEmbedder):
    one = note(alice, "one")
    fake.enqueue(ProviderUnavailable("down"))
    embed_due()
    EmbeddingDue.objects.update(not_before=timezone.now())

    embed_due()

    assert texts_of() == {one.pk}
    assert embedding.progress()["why"] == ""


def test_a_text_that_is_refused_does_not_keep_the_others(alice: Any, fake: FakeEmbedder):
    bad, good = note(alice, "bad"), note(alice, "good")
    refused = ProviderRejected("that text is not welcome")
    for answers in ([refused], [refused], [refused], []):
        fake.enqueue(*answers)
        EmbeddingDue.objects.filter(object_id=good.pk).update(not_before=timezone.now())
        EmbeddingDue.objects.filter(object_id=bad.pk).update(
            not_before=timezone.now() - timedelta(seconds=1)
        )
        if answers:
            embed_due()
    EmbeddingDue.objects.filter(object_id=bad.pk).update(
        not_before=timezone.now() + timedelta(hours=1)
    )

    embed_due()

    assert texts_of() == {good.pk}


@pytest.mark.requirement("R222")
def test_nothing_sensitive_leaves_for_an_outside_embedder(alice: Any, fake: FakeEmbedder):
    note(alice, "my diagnosis", sensitivity="sensitive")
    changed = note(alice, "my salary")
    changed.change(by=alice.actor, sensitivity="sensitive")
    note(alice, "the weather")

    embed_due()

    assert fake.asked == ["the weather"]
    assert embedding.progress()["held"] == 2


@pytest.mark.requirement("R222")
def test_sensitive_notes_are_embedded_on_this_machine(alice: Any, fake, monkeypatch):
    held = note(alice, "my diagnosis", sensitivity="sensitive")
    embed_due()
    use(monkeypatch, FakeEmbedder(model="local", is_local=True))

    embed_due()

    assert texts_of("local") == {held.pk}


@pytest.mark.requirement("R215")
def test_trash_takes_the_vector_and_a_restore_brings_it_back(alice: Any):
    one = note(alice, "one")
    embed_due()

    one.trash(by=alice.actor)
    assert not Embedding.objects.exists()

    one.restore(by=alice.actor)
    embed_due()
    assert texts_of() == {one.pk}


@pytest.mark.requirement("R215")
def test_a_purge_takes_vector_and_waiting_row(alice: Any):
    one, two = note(alice, "one"), note(alice, "two")
    embed_due()
    two.change(by=alice.actor, content="two, edited")

    one.purge(by=alice.actor)
    two.purge(by=alice.actor)

    assert not Embedding.objects.exists()
    assert not EmbeddingDue.objects.exists()


def test_another_model_makes_all_vectors_again_and_mixes_none(alice: Any, fake, monkeypatch):
    some = {note(alice, word).pk for word in ("one", "two", "three")}
    embed_due()
    other = FakeEmbedder(model="other", dimensions=8)
    use(monkeypatch, other)

    embed_due()

    assert texts_of("other") == some
    assert texts_of("fake-embedder") == set()
    assert set(Embedding.objects.values_list("dimensions", flat=True)) == {8}


def test_records_from_before_the_first_embedder_get_vectors(alice: Any, settings: Any):
    settings.BEACON_EMBEDDINGS = "none"
    one = note(alice, "written while vectors were off")
    settings.BEACON_EMBEDDINGS = "auto"
    assert not EmbeddingDue.objects.exists()

    embed_due()

    assert texts_of() == {one.pk}


@pytest.mark.parametrize("notices", [embed_due, lambda: call_command("vectors")])
def test_vectors_that_were_off_for_a_while_are_those_of_the_words_now(
    alice: Any, settings: Any, fake, monkeypatch, notices: Any
):
    edited, kept = note(alice, "car"), note(alice, "rent")
    embed_due()
    settings.BEACON_EMBEDDINGS = "none"
    use(monkeypatch, None)
    edited.change(by=alice.actor, content="garden")
    new = note(alice, "written meanwhile")
    assert texts_of() == {kept.pk}
    notices()

    settings.BEACON_EMBEDDINGS = "auto"
    use(monkeypatch, fake)
    embed_due()

    assert texts_of() == {edited.pk, kept.pk, new.pk}
    assert sorted(fake.asked) == ["car", "garden", "rent", "written meanwhile"]


def test_without_an_embedder_records_wait_and_nothing_fails(alice: Any, monkeypatch):
    use(monkeypatch, None)
    note(alice, "one")

    embed_due()

    assert embedding.progress()["due"] == 1


def test_a_rollback_leaves_nothing_waiting(alice: Any):
    with pytest.raises(RuntimeError), transaction.atomic():
        note(alice, "one")
        raise RuntimeError

    assert not EmbeddingDue.objects.exists()


def test_a_batch_takes_a_fixed_number_of_queries(alice: Any, django_assert_max_num_queries):
    for n in range(40):
        note(alice, f"note {n}")
    embed_due()
    for one in Note.objects.all():
        one.change(by=alice.actor, content=f"{one.content} again")

    with django_assert_max_num_queries(24):
        embed_due()


@pytest.mark.django_db(transaction=True)
def test_words_that_change_while_they_are_embedded_are_embedded_again(alice: Any, fake):
    one = note(alice, "old words")
    inside, go_on = threading.Event(), threading.Event()
    plain = fake.embed

    def slow(texts: Any) -> Any:
        inside.set()
        assert go_on.wait(10)
        return plain(texts)

    fake.embed = slow

    def work() -> None:
        embed_due()
        connection.close()

    worker = threading.Thread(target=work)
    worker.start()
    assert inside.wait(10)
    one.change(by=alice.actor, content="new words")
    go_on.set()
    worker.join(10)

    embed_due()
    assert fake.asked[-1] == "new words"
    assert Embedding.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_record_deleted_while_its_vector_is_stored_leaves_none(
    alice: Any, fake: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
):
    """The task has locked the queued row when the record is deleted."""
    one = note(alice, "gone soon")
    inside, go_on = threading.Event(), threading.Event()
    plain, stored = Embedding.objects.bulk_create, []

    def slow(rows: Any, **more: Any) -> Any:
        inside.set()
        assert go_on.wait(10)
        stored.extend(plain(rows, **more))
        return stored

    monkeypatch.setattr(Embedding.objects, "bulk_create", slow)

    def work() -> None:
        embed_due()
        connection.close()

    def delete() -> None:
        one.trash(by=alice.actor)
        connection.close()

    worker, deleter = threading.Thread(target=work), threading.Thread(target=delete)
    worker.start()
    assert inside.wait(10)
    deleter.start()
    waits_for_a_lock()
    go_on.set()
    worker.join(10)
    deleter.join(10)

    assert stored
    assert not Note.objects.live().filter(pk=one.pk).exists()
    assert not Embedding.objects.exists()
    assert not EmbeddingDue.objects.exists()


def waits_for_a_lock() -> None:
    """Return when a query of this database waits for a lock."""
    until = time.monotonic() + 10
    with connection.cursor() as cursor:
        while time.monotonic() < until:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            if cursor.fetchone()[0]:
                return
            time.sleep(0.02)
    pytest.fail("nothing waited for a lock")


def test_one_task_at_a_time_makes_vectors_and_leaves_the_other_workers_free(alice: Any, fake):
    note(alice, "The car is red.")
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s, 0)", [LockId.EMBEDDING])
            embed_due()
            assert not Embedding.objects.exists()
            # A closed connection lets go of its locks only some time later.
            cursor.execute("SELECT pg_advisory_unlock(%s, 0)", [LockId.EMBEDDING])
    finally:
        other.close()

    embed_due()
    assert Embedding.objects.exists()
