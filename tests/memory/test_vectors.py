"""The retriever of meaning: what it finds, what it never returns, and where there is none."""

from __future__ import annotations

import math
import time
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from beacon_site.net.errors import ProviderUnavailable
from memory.models import Embedding, Note
from memory.services.search import vectors
from memory.services.search.vectors import Unavailable
from memory.tasks import embed_due
from tests.memory.embedding_cast import near, nearest, note, use
from tests.providers.fakes import FakeEmbedder

pytestmark = pytest.mark.usefixtures("fake")


@pytest.mark.requirement("R212")
@pytest.mark.usefixtures("extension")
def test_the_nearest_come_first_by_l2_distance(alice: Any, fake: FakeEmbedder):
    car, red = note(alice, "automobile"), note(alice, "red automobile")
    note(alice, "tax law")
    embed_due()

    found = nearest(alice, "car", ["note"], 2)

    assert [one.id for one in found] == [car.pk, red.pk]
    both = fake.embed(["car", "red automobile"])
    assert found[1].distance == pytest.approx(math.dist(*both), abs=1e-5)


@pytest.mark.requirement("R215")
@pytest.mark.usefixtures("extension")
def test_what_cannot_be_recalled_is_never_returned(alice: Any, bob: Any):
    stands = note(alice, "the car")
    heir = note(alice, "the car and its heir")
    note(alice, "garden")  # further than what has to do with it
    note(alice, "the car, expired", expires_at=timezone.now() - timedelta(seconds=1))
    note(alice, "the car, replaced", superseded_by=heir)
    note(bob, "the car of bob")
    for gone in ("trashed", "purged"):
        note(alice, f"the car, {gone}")
    embed_due()
    Note.objects.filter(content__endswith="trashed").update(trashed_at=timezone.now())
    Note.objects.filter(content__endswith="purged").delete()

    assert Embedding.objects.count() == 8
    assert near(alice, "the car") == [stands.pk, heir.pk]


@pytest.mark.usefixtures("extension")
def test_it_looks_only_among_what_is_allowed(alice: Any):
    kept, other = note(alice, "car", tags=["kept"]), note(alice, "automobile")
    embed_due()
    allowed = {"note": Note.objects.for_user(alice).filter(tags__contains=["kept"])}

    assert near(alice, "car", allowed=allowed) == [kept.pk]
    assert near(alice, "car", allowed={"note": Note.objects.none()}) == []
    assert set(near(alice, "car")) == {kept.pk, other.pk}


@pytest.mark.usefixtures("extension")
def test_the_table_follows_each_change_in_its_transaction(alice: Any):
    one = note(alice, "car")
    embed_due()
    assert near(alice, "car") == [one.pk]

    one.change(by=alice.actor, content="garden")
    assert near(alice, "car") == []

    embed_due()
    assert near(alice, "garden") == [one.pk]


@pytest.mark.usefixtures("extension")
def test_vectors_of_another_model_are_not_compared(alice: Any, fake, monkeypatch):
    note(alice, "car")
    embed_due()
    use(monkeypatch, FakeEmbedder(model="other", dimensions=24))

    assert near(alice, "car") == []


@pytest.mark.usefixtures("extension")
def test_a_question_is_embedded_once(alice: Any, fake: FakeEmbedder):
    near(alice, "where is the car?")
    near(alice, "where  is the car?\n")

    assert fake.asked == ["where is the car?"]


@pytest.mark.requirement("R214")
@pytest.mark.usefixtures("extension")
def test_a_failing_embedder_is_reported_and_not_asked_again_at_once(alice: Any, fake: FakeEmbedder):
    fake.enqueue(ProviderUnavailable("nobody answers there"))

    first, second = nearest(alice, "car", ["note"], 5), nearest(alice, "bus", ["note"], 5)

    assert isinstance(first, Unavailable) and "nobody answers there" in str(first)
    assert str(second) == str(first)
    assert len(fake.history) == 1


@pytest.mark.usefixtures("extension")
def test_an_embedder_that_does_not_answer_holds_no_one_up(alice: Any, fake, monkeypatch):
    monkeypatch.setattr(vectors, "PATIENCE", 0.05)
    plain = fake.embed
    fake.embed = lambda texts: (time.sleep(0.3), plain(texts))[1]

    found = nearest(alice, "car", ["note"], 5)

    assert isinstance(found, Unavailable) and "didn’t respond within" in str(found)


@pytest.mark.usefixtures("extension")
def test_while_the_local_model_is_loaded_words_are_searched_at_once(alice: Any, fake, settings):
    settings.BEACON_PROCESS = "web"
    plain = fake.embed
    fake.is_ready = False
    fake.embed = lambda texts: (time.sleep(1), plain(texts))[1]
    began = time.monotonic()

    found = nearest(alice, "car", ["note"], 5)

    assert time.monotonic() - began < 0.3 + vectors.STARTING_PATIENCE
    assert isinstance(found, Unavailable) and "the local embedder is starting" in str(found)


@pytest.mark.usefixtures("extension")
def test_a_task_waits_until_the_local_model_is_loaded(alice: Any, fake, settings):
    settings.BEACON_PROCESS = "worker"
    plain = fake.embed
    fake.is_ready = False
    fake.embed = lambda texts: (time.sleep(vectors.STARTING_PATIENCE + 0.3), plain(texts))[1]

    assert not isinstance(nearest(alice, "car", ["note"], 5), Unavailable)


@pytest.mark.requirement("R214")
def test_without_the_extension_it_says_so_and_vectors_are_kept(alice: Any):
    one = note(alice, "car")
    embed_due()

    found = nearest(alice, "car", ["note"], 5)

    assert vectors.extension_version() == ""
    assert isinstance(found, Unavailable) and "no “vector” extension" in str(found)
    assert Embedding.objects.get().object_id == one.pk


@pytest.mark.requirement("R97", "R214")
def test_without_an_embedder_it_says_so(alice: Any, monkeypatch):
    use(monkeypatch, None)

    found = nearest(alice, "car", ["note"], 5)

    assert isinstance(found, Unavailable) and "words only" in str(found)


@pytest.mark.requirement("R212")
def test_the_extension_can_come_later(alice: Any, capsys):
    one = note(alice, "car")
    embed_due()

    call_command("vectors")
    call_command("vectors")

    assert capsys.readouterr().out.splitlines()[-1].endswith(": 1 of 24 figures.")
    assert near(alice, "car") == [one.pk]


@pytest.mark.requirement("R213")
def test_a_server_that_does_not_offer_it_is_told_how(db, capsys, monkeypatch):
    monkeypatch.setattr(vectors, "_make_extension", lambda: "it isn’t available on the server")

    call_command("vectors")

    assert "it isn’t available on the server" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "  \n ", "\x00", "x" * 100_000, "'; drop table", "\ud800"])
@pytest.mark.usefixtures("extension")
def test_any_text_is_a_question(alice: Any, text: str):
    note(alice, "car")
    embed_due()

    assert isinstance(nearest(alice, text, ["note"], 5), list)


@pytest.mark.requirement("R212")
@pytest.mark.usefixtures("extension")
def test_a_large_space_is_looked_up_by_index_and_finds_the_same(
    alice: Any, bob: Any, monkeypatch, django_assert_max_num_queries
):
    monkeypatch.setattr(vectors, "EXACT_UP_TO", 50)
    for n in range(60):
        note(alice, f"car number {n}")
        note(bob, f"car number {n} of bob")
    embed_due()
    exact = near(alice, "car number 7", limit=5)
    vectors.index_if_large(24)
    assert vectors.has_index(24)

    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    with django_assert_max_num_queries(12):
        found = near(alice, "car number 7", limit=5)
    assert found[0] == exact[0]
    assert len(found) == 5
    assert set(found) <= set(Note.objects.for_user(alice).values_list("pk", flat=True))
