"""The dated scenarios of the delta benchmark: each file has the documented format."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

FILES = sorted((Path(__file__).resolve().parents[2] / "benchmarks/data/delta").glob("*.json"))
SCENARIOS: dict[str, dict[str, Any]] = {path.stem: json.loads(path.read_text()) for path in FILES}
OF_KNOWN = {"confirmed", "changed", "contradicted"}
STATUSES = OF_KNOWN | {"new", "noise", "repeat"}
each = pytest.mark.parametrize("name", SCENARIOS)


def _sentences(scenario: dict[str, Any]) -> list[dict[str, str]]:
    return [sentence for page in scenario["pages"] for sentence in page["sentences"]]


@each
def test_a_scenario_has_known_facts_pages_and_sentences_within_the_bounds(name: str):
    scenario = SCENARIOS[name]

    assert re.fullmatch(r"\d\d-[a-z0-9-]+", name)
    assert scenario["topic"] and scenario["note"]
    assert 3 <= len(scenario["known"]) <= 10
    assert 1 <= len(scenario["pages"]) <= 4
    assert all(4 <= len(page["sentences"]) <= 12 for page in scenario["pages"])


@each
def test_a_known_fact_is_older_than_the_run_and_no_page_is_younger(name: str):
    scenario = SCENARIOS[name]
    run = date.fromisoformat(scenario["run_date"])

    assert all(date.fromisoformat(fact["date"]) < run for fact in scenario["known"])
    assert all(date.fromisoformat(page["published"]) <= run for page in scenario["pages"])


@each
def test_a_status_is_known_and_names_a_fact_that_exists_where_it_must(name: str):
    scenario = SCENARIOS[name]
    ids = [fact["id"] for fact in scenario["known"]]

    assert len(ids) == len(set(ids))
    for sentence in _sentences(scenario):
        assert sentence["status"] in STATUSES
        if sentence["status"] in OF_KNOWN:
            assert sentence["of"] in ids
        else:
            assert ("of" in sentence) == (sentence["status"] == "repeat")


@each
def test_a_repeat_names_an_earlier_sentence_that_is_new(name: str):
    new: set[str] = set()
    for page_index, page in enumerate(SCENARIOS[name]["pages"]):
        for index, sentence in enumerate(page["sentences"]):
            if sentence["status"] == "new":
                new.add(f"{page_index}:{index}")
            assert sentence["status"] != "repeat" or sentence["of"] in new


@each
def test_the_quiet_facts_are_just_those_that_no_sentence_speaks_of(name: str):
    scenario = SCENARIOS[name]
    spoken_of = {s["of"] for s in _sentences(scenario) if s["status"] in OF_KNOWN}

    assert scenario["quiet"] == [
        fact["id"] for fact in scenario["known"] if fact["id"] not in spoken_of
    ]


def test_no_text_stands_twice_in_all_the_files():
    texts = Counter(
        text["text"]
        for scenario in SCENARIOS.values()
        for text in [*scenario["known"], *_sentences(scenario)]
    )

    assert [text for text, times in texts.items() if times > 1] == []


@each
def test_a_scenario_names_only_addresses_of_examples(name: str):
    scenario = SCENARIOS[name]
    addresses = [fact["source"] for fact in scenario["known"]]
    addresses += [page["url"] for page in scenario["pages"]]

    for address in addresses:
        parts = urlsplit(address)
        assert parts.scheme == "https"
        assert re.search(r"(^|\.)example\.(org|com|net)$", parts.hostname or "")
