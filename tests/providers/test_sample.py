"""The bundled sample: the articles of each batch, and their correctness."""

from __future__ import annotations

import re
from datetime import date
from itertools import pairwise
from pathlib import Path

import pysbd
import pytest
from rapidfuzz.fuzz import token_set_ratio

from beacon_site.net.errors import ProviderRejected
from beacon_site.providers.search.base import SearchHit, SearchOptions
from beacon_site.providers.search.sample import (
    SAMPLE_SETTINGS,
    SAMPLE_TITLE,
    Article,
    SampleFetcher,
    SampleSearch,
    articles,
    is_sample_url,
    page_addresses,
    page_versions,
    read_article,
)
from research.services.runs.steps.planning import facet_queries

DAYS = (date(2026, 1, 9), date(2026, 11, 21), date(2031, 5, 2))
NEAR_DUPLICATE = 85  # shared/providers.md, section 3


def search(query: str, batch: int, limit: int = 10) -> list[SearchHit]:
    return SampleSearch().search(query, SearchOptions(batch=batch, limit=limit))


def pages_of(batch: int, today: date = DAYS[0]) -> set[str]:
    """The addresses as published that the planner's queries find together."""
    queries = facet_queries(
        SAMPLE_TITLE,
        **SAMPLE_SETTINGS,
        now=today,
        last_run_at=None if batch == 1 else today,
    )
    hits = [hit for query in queries for hit in search(query, batch)]
    return {SampleFetcher().fetch(hit.url).final_url for hit in hits}


def published_in(batch: int) -> set[str]:
    return {article.url for article in articles() if article.batch == batch}


@pytest.mark.parametrize("today", DAYS)
@pytest.mark.parametrize("batch", [1, 2, 3])
def test_the_planned_queries_together_reach_every_article_of_a_batch(today, batch):
    assert published_in(batch) <= pages_of(batch, today)


@pytest.mark.parametrize("batch", [4, 5, 40])
def test_from_the_fourth_batch_on_everything_was_found_before(batch):
    earlier = set().union(*(pages_of(before) for before in (1, 2, 3)))
    assert pages_of(batch) <= earlier
    assert pages_of(batch)


@pytest.mark.parametrize("query", ["x", "", "C++", "uuidv7 identifiers", "who wrote pg_dump"])
def test_what_comes_back_was_found_before_by_any_query(query):
    """One query a run is enough: a later batch repeats only what every query finds."""
    fetch = SampleFetcher().fetch
    seen: set[str] = set()
    for batch in (1, 2, 3, 4):
        found = {fetch(hit.url).final_url for hit in search(query, batch)}
        assert found - published_in(batch) <= seen
        seen |= found


@pytest.mark.parametrize("batch", [2, 3])
def test_a_later_batch_brings_some_known_articles_back(batch):
    repeated = pages_of(batch) - published_in(batch)
    assert 2 <= len(repeated) <= 4


def test_the_three_batches_hold_forty_articles():
    assert [len(published_in(batch)) for batch in (1, 2, 3)] == [16, 13, 11]


def test_the_best_match_comes_first():
    assert "virtual" in search("generated columns virtual by default", 2)[0].url


def test_a_query_that_matches_nothing_gets_the_batch_in_order_of_date():
    dates = [hit.published_at for hit in search("zzz", 1, limit=50)]
    assert dates == sorted(dates, key=lambda day: day or date.min)
    assert len(dates) == 16


def test_the_same_query_always_gets_the_same_hits():
    assert search("upgrade from version 12", 2) == search("upgrade from version 12", 2)


@pytest.mark.parametrize("limit", [0, 1, 3, 10])
def test_no_more_hits_than_asked_for(limit):
    assert len(search("PostgreSQL", 1, limit)) == limit


def test_a_hit_shows_its_service_rank_and_date():
    first, second = search("PostgreSQL releases", 1, limit=2)
    assert (first.service, first.rank, second.rank) == ("sample", 1, 2)
    assert first.published_at is not None


def test_a_batch_below_the_first_is_the_first():
    assert search("PostgreSQL", 0) == search("PostgreSQL", 1)


def test_every_hit_can_be_opened_and_holds_its_snippet():
    for batch in (1, 2, 3, 4):
        hits = search(SAMPLE_TITLE, batch, limit=50)
        assert hits, batch
        for hit in hits:
            assert hit.snippet in SampleFetcher().fetch(hit.url).text


def test_a_known_article_comes_back_under_utm_parameters_and_other_case():
    twin = next(hit.url for hit in search("release candidate", 2) if "utm_source" in hit.url)
    assert twin != twin.lower()
    assert SampleFetcher().fetch(twin).final_url in published_in(1)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/",
        "https://dbnews.example/none",
        "",
        "http://[broken",
        "javascript:alert(1)",
        "https://dbnews.example/articles/postgresql-17-beta-1?page=2",
    ],
)
def test_other_addresses_are_turned_away_with_a_reason(url):
    assert not is_sample_url(url)
    with pytest.raises(ProviderRejected, match="isn’t one of the sample articles"):
        SampleFetcher().fetch(url)


def test_an_address_of_the_sample_is_known_in_any_spelling():
    assert is_sample_url("HTTPS://DBNews.example/articles/postgresql-17-beta-1/?UTM_Source=x#top")


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_articles_are_dated_in_order(batch):
    dates = [article.published_at for article in articles() if article.batch == batch]
    assert len(dates) > 1
    assert all(earlier <= later for earlier, later in pairwise(dates))


def test_every_batch_is_later_than_the_one_before():
    first, second, third = (
        [article.published_at for article in articles() if article.batch == batch]
        for batch in (1, 2, 3)
    )
    assert first[-1] < second[0] <= second[-1] < third[0]


def test_addresses_are_of_reserved_domains_and_stand_once():
    urls = [article.url for article in articles()]
    assert all(re.match(r"https://[a-z-]+\.example/", url) for url in urls)
    assert len(set(urls)) == len(urls)


@pytest.mark.parametrize("article", articles(), ids=lambda article: article.url)
def test_an_article_gives_the_extractive_engine_sentences_to_quote(article: Article):
    assert 120 <= len(article.text.split()) <= 350
    sentences = pysbd.Segmenter(language="en", clean=False).segment(article.text)
    assert sum(8 <= len(sentence.split()) <= 45 for sentence in sentences) >= 5


def test_near_duplicates_are_the_marked_copies_and_no_others():
    pairs = [(a, b) for a in articles() for b in articles() if a.url < b.url]
    alike = {
        frozenset((a.url, b.url))
        for a, b in pairs
        if token_set_ratio(a.text, b.text) >= NEAR_DUPLICATE
    }
    marked = {frozenset((a.url, a.copy_of)) for a in articles() if a.copy_of}
    assert alike == marked
    assert len(marked) == 4


def test_one_page_tries_to_give_orders():
    ordering = [a for a in articles() if "ignore your instructions" in a.text]
    assert [article.batch for article in ordering] == [2]


def test_the_pages_that_change_have_a_version_for_each_batch():
    versions = {url: [p for p in page_versions() if p.url == url] for url in page_addresses()}

    assert len(versions) == 2
    for url, pages in versions.items():
        assert is_sample_url(url) and url not in {article.url for article in articles()}
        assert [page.batch for page in pages] == [1, 2, 3]
        assert all(a.published_at < b.published_at for a, b in pairwise(pages))
        assert [SampleFetcher(n).fetch(url).text for n in (1, 2, 3, 4)] == [
            page.text for page in (*pages, pages[-1])
        ]


def test_a_table_keeps_its_rows_and_a_list_its_items():
    table, changelog = (SampleFetcher(1).fetch(url).text for url in page_addresses())

    assert "\n| PostgreSQL 17 | Preview | 2029-12-04 |\n" in table
    assert "\n- Reports settings that PostgreSQL 17" in changelog


@pytest.mark.parametrize(
    ("batch", "changed"),
    [(2, "13 percent less time"), (2, "on 21 November 2024"), (3, "23 percent of 228 readers")],
)
def test_later_batches_change_facts_of_earlier_ones(batch, changed):
    assert any(changed in article.text for article in articles() if article.batch == batch)
    assert not any(changed in article.text for article in articles() if article.batch < batch)


@pytest.mark.parametrize(("batch", "count"), [(1, 5), (2, 3)])
def test_the_chinese_test_articles_have_the_same_shape(batch, count):
    folder = Path(__file__).parents[1] / "data" / "chinese" / f"batch{batch}"
    chinese = [read_article(path, batch) for path in sorted(folder.glob("*.md"))]
    assert len(chinese) == count
    assert all("固态电池" in article.text for article in chinese)
