"""Everything about a name, the list of names, and merged names."""

from __future__ import annotations

import time
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from beacon_site.text.names import MAX_NAMES, names_in
from memory.models import NameAlias, Observation, TopicFact, search_index
from memory.models.errors import InvalidValue
from memory.services.search import names
from memory.services.search.about import about
from tests.memory.embedding_cast import note
from tests.research.factories import make_fact, make_topic

pytestmark = pytest.mark.django_db


def observation(owner: Any, content: str, **more: Any) -> Observation:
    made = Observation.objects.create(owner=owner, category="finding", content=content, **more)
    Observation.follow([made])
    return made


def sure(text: str, language: str = "en") -> list[str]:
    return [name.form for name in names_in(text, language) if name.is_sure]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("We moved from AWS S3 to Hetzner Cloud.", ["AWS S3", "Hetzner Cloud"]),
        ("Ask Ada Lovelace's brother or the Bank of America.", ["Ada Lovelace", "Bank of America"]),
        ("On Mondays I met O'Reilly in March.", ["O'Reilly"]),
        ("Check the limit. Use it twice. - Prefer tea", []),
        ("OpenAI and GPT-4 use C++ and Node.js.", ["OpenAI", "GPT-4", "C++", "Node.js"]),
        ("See https://Example.org/Foo or `Foo.Bar` at /Users/Bob.", []),
        ("## What To Do Next\n\nThe Hague is near Delft.", ["Hague", "Delft"]),
        ("THIS IS ALL IN CAPITALS, AND NO NAME", []),
        ("It ended in May.[2] Every one moved.[1][3] Oslo is near Delft [4] every day.", ["Delft"]),
        ("日本のトヨタ 🦉", []),
        ("It has 16 GB and 3 kWh, says Ada.", ["Ada"]),
        ("| Unit | Credit Database |\n|---|:--|\n| Fixed | Ask Ada Holm |", ["Ada Holm"]),
        ("Item\tUnit   Phone\nDesk\t3   555", []),
    ],
)
def test_names_are_found_by_their_capital_letters(text: str, found: list[str]) -> None:
    assert sure(text) == found


def test_where_nouns_have_capital_letters_only_surer_names_count() -> None:
    assert sure("Ich mag die Katze, SAP und Anna Müller.", "de") == ["SAP", "Anna Müller"]


def test_a_word_that_mostly_begins_sentences_isnt_a_name(alice: Any) -> None:
    for n in range(6):
        note(alice, f"Every run of Oslo line {n} ended. Oslo is cold.")
    note(alice, "They call it the Every plan.")
    assert [one.name for one in names.frequent(alice)] == ["Oslo"]


@pytest.mark.requirement("R368")
def test_frequent_names_are_listed_without_words_that_only_begin_sentences(alice: Any) -> None:
    for n in range(3):
        note(alice, f"Check the server at Hetzner, number {n}. Check it twice.")
    note(alice, "Hetzner raised prices.")
    for text in ("An apple a day.", "The apple is red.", "Two apples.", "I like the Apple store."):
        note(alice, text)
    note(alice, "We met Ada Lovelace."), observation(alice, "It was Ada Lovelace.")

    listed = [(one.name, one.records) for one in names.frequent(alice)]

    assert listed == [("Hetzner", 4), ("Ada Lovelace", 2)]
    assert [one.name for one in names.frequent(alice, text="lovel")] == ["Ada Lovelace"]


@pytest.mark.requirement("R368")
def test_everything_about_a_name_has_all_types_counts_and_months(alice: Any, bob: Any) -> None:
    old = note(alice, "We use Hetzner.", created=timezone.now() - timedelta(days=70))
    new = observation(alice, "The price of Hetzner rose.")
    fact = make_fact(make_topic(alice, "Hosts"), "Hetzner is cheap.")
    TopicFact.follow([fact])
    note(alice, "We use tea."), note(bob, "We use Hetzner.")
    note(alice, "Gone: Hetzner.").trash(by=alice.actor)

    found = about(alice, "hetzner")

    assert [one.record for one in found.records] == [fact, new, old]
    assert found.counts == {"note": 1, "observation": 1, "fact": 1}
    assert [number for _month, number in found.months] == [1, 2]
    first = about(alice, "Hetzner", limit=2)
    rest = about(alice, "Hetzner", limit=2, cursor=first.next or "")
    assert [one.record for one in (*first.records, *rest.records)] == [fact, new, old]
    assert rest.next is None
    only = about(alice, "Hetzner", types=["note"])
    assert ([one.record for one in only.records], only.total) == ([old], 3)


def test_a_common_word_counts_only_with_a_capital_letter(alice: Any) -> None:
    named = [note(alice, "She works at Apple."), note(alice, "Ask Apple.")]
    for n in range(6):
        note(alice, f"I ate an apple, number {n}.")

    assert {one.record for one in about(alice, "Apple").records} == set(named)


def test_a_name_of_any_script_is_found(alice: Any) -> None:
    one = note(alice, "昨日トヨタに行きました。")
    assert [found.record for found in about(alice, "トヨタ").records] == [one]


@pytest.mark.requirement("R368")
def test_names_next_to_it_are_those_in_the_same_records(alice: Any) -> None:
    for _n in range(2):
        note(alice, "We run Prometheus and Grafana at Hetzner.")
    note(alice, "There is Grafana at Hetzner, too.")
    note(alice, "We like Kyoto.")

    found = about(alice, "Hetzner")

    assert [(name, number) for name, _key, number in found.related_names] == [
        ("Grafana", 3),
        ("Prometheus", 2),
    ]


@pytest.mark.requirement("R368")
def test_a_rebuilt_index_has_the_names_of_older_records(
    alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(search_index, "name_terms", lambda *_text: [])
        note(alice, "We use Hetzner."), note(alice, "We left Hetzner.")
    assert names.frequent(alice) == []

    search_index._words_of.cache_clear()  # of the older version
    call_command("rebuild_recall", "alice")

    assert [(one.name, one.records) for one in names.frequent(alice)] == [("Hetzner", 2)]


@pytest.mark.requirement("R369")
def test_merged_names_are_one_until_they_are_split(alice: Any, bob: Any) -> None:
    one, other = note(alice, "We use Postgres."), note(alice, "We use PostgreSQL.")
    note(alice, "Do you like Postgres?"), note(alice, "I like PostgreSQL.")

    target, was, now = names.merge(alice, "Postgres", "PostgreSQL", by=alice.actor)

    assert target == "PostgreSQL"
    for name in ("postgres", "PostgreSQL"):
        found = about(alice, name)
        assert (found.names[0], found.total) == ("PostgreSQL", 4)
        assert {one, other} <= {one.record for one in found.records}
    [listed] = names.frequent(alice)
    assert (listed.name, listed.records, listed.aliases) == ("PostgreSQL", 4, ["Postgres"])
    with pytest.raises(InvalidValue):
        names.merge(alice, "postgresql", "Postgres", by=alice.actor)
    with pytest.raises(InvalidValue):
        names.split(bob, "Postgres", by=bob.actor)

    names.split(alice, "Postgres", by=alice.actor)
    assert about(alice, "Postgres").total == 2
    with pytest.raises(InvalidValue, match="changed since then"):
        names.undo_change(alice, was, now, by=alice.actor)


@pytest.mark.requirement("R369")
def test_a_merge_takes_aliases_along_and_can_be_undone(alice: Any) -> None:
    names.merge(alice, "PG", "Postgres", by=alice.actor)
    _target, was, now = names.merge(alice, "Postgres", "PostgreSQL", by=alice.actor)

    assert {row.name: row.target for row in NameAlias.objects.for_user(alice)} == {
        "PG": "PostgreSQL",
        "Postgres": "PostgreSQL",
    }
    names.undo_change(alice, was, now, by=alice.actor)
    assert {row.name: row.target for row in NameAlias.objects.for_user(alice)} == {"PG": "Postgres"}


def test_an_agent_learns_nothing_of_what_it_can_not_read(alice: Any) -> None:
    shown = note(alice, "We use Hetzner.")
    note(alice, "Secret: Acme at Hetzner.", sensitivity="sensitive")
    note(alice, "Doubted: Acme at Hetzner.", trust="quarantined")
    note(alice, "Elsewhere: Acme at Hetzner.", scope="agent:x")
    note(alice, "Paused: Acme at Hetzner.", paused=True)
    observation(alice, "Paused: Acme at Hetzner.", paused=True)

    found = about(alice, "Hetzner", agent_scopes=["owner"])

    assert [one.record for one in found.records] == [shown]
    assert (found.total, found.related_names) == (1, [])


@pytest.mark.requirement("R368")
def test_an_agent_learns_no_alias_that_only_hidden_records_contain(alice: Any) -> None:
    note(alice, "Acme sells anvils to Hetzner."), note(alice, "We like Acme and Hetzner.")
    note(alice, "Project Falcon is secret.", sensitivity="sensitive")
    note(alice, "The Falcon Group is secret.", sensitivity="sensitive")
    names.merge(alice, "Project Falcon", "Acme", by=alice.actor)
    names.merge(alice, "Hetzner", "Falcon Group", by=alice.actor)
    read = partial(about, alice, agent_scopes=["owner"])

    found = read("Acme")
    assert (found.names, found.total) == (["Acme"], 2)
    assert [name for name, _key, _number in found.related_names] == ["Hetzner"]
    assert read("Project Falcon").names == ["Project Falcon"]
    assert about(alice, "Acme").names == ["Acme", "Project Falcon"]

    note(alice, "Project Falcon is public now.")
    assert read("Acme").names == ["Acme", "Project Falcon"]


@pytest.mark.parametrize("text", ["", " ", "???", "x" * 61])
def test_what_isnt_a_name_is_refused(alice: Any, text: str) -> None:
    with pytest.raises(InvalidValue):
        about(alice, text)


@pytest.mark.parametrize(
    "text",
    ["a" * 99_000 + " /", "A " * 50_000, "`" * 99_000, "<A" * 49_000, "A@" * 49_000, "Ab/" * 33_000,
     "A" + "!" * 99_000 + "B", "~~~\n" * 25_000, "Abc of " * 14_000, "A.bc" * 25_000],
)  # fmt: skip
def test_long_and_odd_texts_take_no_time(text: str) -> None:
    began = time.process_time()
    assert len(names_in(text)) <= MAX_NAMES
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Tram 14: Status Available; Last trip 2026-12-01", set()),
        ("Lines at Tidewater Hosting, Tram 18: Status Available (was Preview).", {"Tidewater Hosting"}),
        ("Depot North, Kiosk: Representative Ada Holm; Phone 12", {"Depot North", "Ada Holm"}),
        ("Run #4 of the harbour survey", set()),
    ],
)  # fmt: skip
def test_labels_and_states_of_a_record_are_no_names(text: str, names: set[str]) -> None:
    found = {name.form for name in names_in(text)}
    labels = {
        "Status",
        "Status Available",
        "Available",
        "Preview",
        "Lines",
        "Run",
        "Representative",
    }
    assert names <= found and not found & labels


def test_a_sentence_after_a_colon_isnt_a_record() -> None:
    text = "Note: The office moved; Ada Holm has the keys."
    assert "Ada Holm" in {name.form for name in names_in(text)}
