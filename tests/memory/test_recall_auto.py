"""Recall by both retrievers: what the meaning adds, how the two are fused, and what is said without it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from beacon_site.net.errors import ProviderUnavailable
from beacon_site.text.terms import LABEL
from memory.models import Note, Topic
from memory.services.observations.saving import write_observation
from memory.services.search.bm25_sql import Scale, Space, TermFigures, best_possible, scales_of
from memory.services.search.recall import meaning_share, only_similar, recall, recall_page
from memory.tasks import embed_due
from tests.memory.embedding_cast import note, use
from tests.providers.fakes import FakeEmbedder

pytestmark = pytest.mark.usefixtures("fake")
by_both = pytest.mark.usefixtures("extension")


def found(owner: Any, query: str, **how: Any) -> list[Any]:
    return [hit.record for hit in recall(owner, query, **how)]


@by_both
def test_the_meaning_finds_what_is_said_in_other_words(alice: Any) -> None:
    one = note(alice, "the automobile")
    embed_due()

    assert recall(alice, "car", "lexical") == []
    [hit] = recall(alice, "car")
    assert (hit.record, hit.explanation.retrievers, hit.explanation.matched_terms) == (
        one,
        ("meaning",),
        (),
    )


@by_both
@pytest.mark.parametrize("signs", ["-", "*", "???", "🔋", '"!"'])
def test_signs_without_a_letter_find_nothing_and_say_so(alice: Any, signs: str) -> None:
    note(alice, "the automobile")
    embed_due()

    page = recall_page(alice, signs)
    assert page.hits == []
    assert "no letters or digits" in " ".join(page.notices)


def _vector(fake: FakeEmbedder, cosine: float) -> list[list[float]]:
    """Return a vector with this cosine to the one with a cosine of 1."""
    return [[cosine, (1 - cosine**2) ** 0.5, *[0.0] * (fake.dimensions - 2)]]


@by_both
@pytest.mark.parametrize("cosine", [0.24, 0.26])
def test_if_nothing_contains_the_words_only_what_is_near_is_a_result(
    alice: Any, fake: FakeEmbedder, cosine: float
) -> None:
    one = note(alice, "The kettle is descaled.")
    fake.enqueue(_vector(fake, cosine))
    embed_due()
    fake.enqueue(_vector(fake, 1.0))

    page = recall_page(alice, "zzzxyy")

    assert [hit.record for hit in page.hits] == ([one] if cosine > 0.25 else [])
    assert page.are_only_similar == (cosine > 0.25)
    assert page.notices == ([only_similar()] if cosine > 0.25 else [])


@by_both
def test_beside_what_contains_the_words_less_near_records_are_results_too(
    alice: Any, fake: FakeEmbedder
) -> None:
    far = note(alice, "The kettle is descaled.")
    fake.enqueue(_vector(fake, 0.2))
    embed_due()
    both = note(alice, "zzzxyy")
    fake.enqueue(_vector(fake, 0.2))
    embed_due()
    fake.enqueue(_vector(fake, 1.0))

    page = recall_page(alice, "zzzxyy")

    assert [hit.record for hit in page.hits] == [both, far]
    assert page.notices == []
    assert recall_page(alice, "is:pinned").are_only_similar is False


@by_both
def test_a_hit_of_both_lanes_shows_both_and_has_the_fused_score(alice: Any) -> None:
    both, meant = note(alice, "car"), note(alice, "automobile")
    embed_due()

    first, second = recall(alice, "car")
    assert (first.record, second.record) == (both, meant)
    assert first.explanation.ranks == {
        "words": 1,
        "meaning": min(first.explanation.ranks["meaning"], 2),
    }
    words, meaning = first.retrievers["words"], first.retrievers["meaning"]
    # Two notes of one word each: idf ln(1 + 1.5/1.5), and the share of short records, 0.35.
    assert words.score == pytest.approx(words.raw / 0.6931471805599453)
    assert words.score * 0.65 + 0.35 * meaning.score == pytest.approx(first.score)
    assert second.score == pytest.approx(0.35 * second.retrievers["meaning"].score)


@by_both
def test_a_type_without_the_rare_word_gets_no_full_marks_for_the_frequent_one(
    alice: Any, fake: FakeEmbedder
) -> None:
    """Long texts that mention a database, and the note about the one that is asked for."""
    for number in range(8):
        text = f"The database of plant {number} was moved. " + "Many words follow here. " * 20
        write_observation(alice, "finding", f"{text} database", by=alice.actor)
    for number in range(20):
        note(alice, f"Line {number} is painted blue.")
    exact = note(alice, "Billing runs PostgreSQL 13.")
    embed_due()
    # As near to the question as to everything else.
    fake.enqueue([[1.0] * fake.dimensions])

    first, *others = recall(alice, "billing database")

    assert first.record == exact
    assert {hit.type for hit in others} == {"observation"}
    assert all(hit.retrievers["words"].score < 0.5 for hit in others)


def space(number: int, documents: int, length: int, **terms: TermFigures) -> Space:
    return Space(number, "note", "english", documents, length, False, False, terms)


def test_words_that_only_another_type_has_count_in_the_scale_of_each() -> None:
    one = TermFigures(1, 1, 10)
    reports = space(1, 8, 80, database=TermFigures(8, 1, 10))
    notes = space(2, 100, 1_000, billing=one, database=TermFigures(2, 1, 10))
    nothing = space(3, 5, 50)
    words = ["billing", "database", "zzz"]

    scales = scales_of([reports, notes, nothing], words)

    assert scales[2] == pytest.approx(Scale(best_possible(notes, words), 1.0))
    assert scales[1].best == pytest.approx(best_possible(reports, words))
    assert 0 < scales[1].share < 0.4  # "billing" is rarer, so it counts more
    assert scales[3] == Scale(0.0, 0.0)
    tagged = space(1, 8, 80, database=TermFigures(8, 1, 10), **{f"{LABEL}billing": one})
    assert scales_of([tagged, notes], words)[1].share == pytest.approx(1.0)


def test_the_most_that_short_texts_reach_counts_as_much_as_that_of_long_ones() -> None:
    facts = space(1, 50, 500, uptime=TermFigures(5, 1, 10))
    reports = space(2, 50, 20_000, uptime=TermFigures(5, 6, 400))

    scales = scales_of([facts, reports], ["uptime"])

    assert scales[2].best == pytest.approx(best_possible(reports, ["uptime"]))
    short, long = (1 / (1 + 1.2), 6 / (6 + 1.2))
    assert scales[1].best == pytest.approx(best_possible(facts, ["uptime"]) * short / long)
    assert scales_of([facts], ["uptime"])[1].best == best_possible(facts, ["uptime"])


@by_both
@pytest.mark.parametrize("more", [{}, {"sensitivity": "sensitive"}])
def test_a_note_without_a_vector_has_its_full_score_by_words(
    alice: Any, monkeypatch: pytest.MonkeyPatch, more: dict[str, str]
) -> None:
    """Such as a note that was just saved, or a sensitive one that the embedder never receives."""
    use(monkeypatch, FakeEmbedder(alike={"car": "automobile"}))
    meant = note(alice, "automobile")
    embed_due()
    new = note(alice, "car", **more)
    if more:
        embed_due()

    first, second = recall(alice, "car")
    assert (first.record, second.record) == (new, meant)
    assert (first.explanation.retrievers, second.explanation.retrievers) == (
        ("words",),
        ("meaning",),
    )
    # Two notes of one word each: idf ln(1 + 1.5/1.5).
    assert first.score == pytest.approx(first.retrievers["words"].raw / 0.6931471805599453)
    assert second.score == pytest.approx(0.35 * second.retrievers["meaning"].score)


def test_the_shares_of_the_lanes_follow_the_length_of_the_records() -> None:
    assert meaning_share(5) == pytest.approx(0.35)
    assert meaning_share(42) == meaning_share(400) == pytest.approx(0.5)
    assert 0.35 < meaning_share(27) < 0.5


@by_both
@pytest.mark.requirement("R193", "R215")
def test_neither_lane_returns_what_cannot_be_recalled(alice: Any, bob: Any) -> None:
    kept = note(alice, "car kept")
    note(alice, "automobile late", expires_at=timezone.now() - timedelta(seconds=1))
    note(bob, "automobile of bob")
    gone = note(alice, "automobile gone")
    embed_due()
    gone.trash(by=alice.actor)

    assert found(alice, "car") == found(alice, "automobile") == [kept]


@by_both
@pytest.mark.parametrize(
    "more", ["kind:rule", "tag:x", "topic:fleet", "before:2d", "-old", '"red car"', "is:pinned"]
)
def test_what_narrows_holds_for_the_meaning_too(alice: Any, more: str) -> None:
    topic = Topic.objects.create_topic(owner=alice, title="Fleet", by=alice.actor)
    days = timezone.now() - timedelta(days=5)
    wanted = {"kind": "rule", "tags": ["x"], "topic": topic, "created": days, "pinned": True}
    one = note(alice, "the red car", **wanted)
    note(alice, "an old automobile")
    embed_due()

    assert found(alice, f"car {more}") == [one]


@by_both
def test_what_superseded_a_note_stands_in_for_its_meaning_too(alice: Any) -> None:
    new = note(alice, "It was sold in May.")
    old = note(alice, "the automobile", superseded_by=new)
    embed_due()

    [hit] = recall(alice, "car")
    assert (hit.record, hit.replaces) == (new, (old.pk,))
    assert "with a similar meaning" in hit.explanation.boosts[0]


@by_both
def test_a_substitute_must_itself_be_what_is_requested(alice: Any) -> None:
    heir = note(alice, "It was sold in May.", kind="rule")
    note(alice, "the automobile", superseded_by=heir)
    trashed = note(alice, "Gone.")
    note(alice, "another automobile", superseded_by=trashed)
    embed_due()
    Note.objects.filter(pk=trashed.pk).update(trashed_at=timezone.now())

    assert found(alice, "car kind:log") == []
    assert found(alice, "car", limit=1) == [heir]


@by_both
@pytest.mark.requirement("R214")
def test_a_failing_embedder_is_explained_once_and_the_words_continue(
    alice: Any, fake: FakeEmbedder
) -> None:
    one = note(alice, "car")
    fake.enqueue(ProviderUnavailable("nobody answers there"))

    page = recall_page(alice, "car")
    assert [hit.record for hit in page.hits] == [one]
    assert len(page.notices) == 1 and "nobody answers there" in page.notices[0]


@pytest.mark.requirement("R97", "R213")
def test_without_the_extension_everything_is_found_by_its_words(alice: Any) -> None:
    one = note(alice, "car")
    embed_due()

    page = recall_page(alice, "car")
    assert [hit.record for hit in page.hits] == [one]
    assert len(page.notices) == 1 and "no “vector” extension" in page.notices[0]
    assert page.hits[0].score == recall(alice, "car", "lexical")[0].score


@pytest.mark.requirement("R97")
def test_without_an_embedder_auto_is_lexical_and_says_so(alice: Any, monkeypatch: Any) -> None:
    use(monkeypatch, None)
    one = note(alice, "car")

    page = recall_page(alice, "car")
    assert ([hit.record for hit in page.hits], len(page.notices)) == ([one], 1)
    assert recall_page(alice, "car", "exact").notices == []
