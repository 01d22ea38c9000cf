"""arXiv against a loopback server that answers in its Atom."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import date

import pytest
from werkzeug import Response

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.net.rate_limit import MinInterval
from beacon_site.providers.search import arxiv
from beacon_site.providers.search.arxiv import ArxivSearch
from beacon_site.providers.search.base import SearchOptions, SearchProfile
from tests.providers.open_servers import ArxivServer, arxiv_error, atom, text


@pytest.fixture(scope="module")
def started() -> Iterator[ArxivServer]:
    with ArxivServer() as server:
        yield server


@pytest.fixture
def papers(started: ArxivServer) -> ArxivServer:
    started.forget()
    started.results = [ArxivServer.result(number) for number in range(1, 251)]
    return started


@pytest.fixture
def search(papers: ArxivServer) -> ArxivSearch:
    return ArxivSearch(SearchProfile("arxiv", papers.origin))


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        (
            "postgres logical replication news 2026",
            "all:postgres AND all:logical AND all:replication",
        ),
        ('"vector database" recall', 'all:"vector database" AND all:recall'),
        ("solid-state batteries", 'all:"solid state" AND all:batteries'),
        ("au:smith ANDNOT (ti:x) OR *", "all:au AND all:smith AND all:ti AND all:x"),
        ("固态电池 最新进展", "all:固态电池"),
    ],
)
def test_each_word_of_the_subject_is_requested_in_arxivs_own_way(search, papers, query, asked):
    search.search(query, SearchOptions())

    assert papers.asked[0]["search_query"] == asked


def test_the_best_come_first_and_within_a_time_frame_the_newest(search, papers):
    search.search("postgres", SearchOptions(limit=7))
    search.search("postgres", SearchOptions(limit=7, since=date(2026, 11, 1)))

    assert [asked["sortBy"] for asked in papers.asked] == ["relevance", "submittedDate"]
    assert {asked["max_results"] for asked in papers.asked} == {"7"}
    assert papers.asked[1]["sortOrder"] == "descending"


def test_a_paper_leads_to_its_abstract_without_a_version(search):
    hit = search.search("postgres", SearchOptions(limit=1))[0]

    assert hit.url == "https://arxiv.org/abs/2611.00001"
    assert (hit.title, hit.snippet) == ("Result 1", "What result 1 says.")
    assert hit.published_at == date(2026, 11, 20)


def test_papers_of_the_old_numbering_have_an_address_too(search, papers):
    papers.results = [ArxivServer.result(1, id="http://arxiv.org/abs/math.GT/0309136v1")]

    assert search.search("x1", SearchOptions())[0].url == "https://arxiv.org/abs/math.GT/0309136"


def test_pages_are_requested_until_there_are_enough(search, papers):
    hits = search.search("postgres", SearchOptions(limit=230))

    assert [hit.rank for hit in hits] == list(range(1, 231))
    assert [asked["start"] for asked in papers.asked] == ["0", "100", "200"]


def test_papers_from_before_are_left_out(search, papers):
    papers.results[1]["published"] = "2020-01-01T00:00:00Z"

    hits = search.search("postgres", SearchOptions(limit=2, since=date(2026, 11, 1)))

    assert [hit.title for hit in hits] == ["Result 1", "Result 3"]


@pytest.mark.parametrize("code", [200, 400])
def test_a_bad_query_is_an_entry_titled_error(search, papers, code):
    papers.enqueue(arxiv_error("incorrect query syntax", code))

    with pytest.raises(ProviderRejected, match="incorrect query syntax"):
        search.search("postgres", SearchOptions())


def test_a_page_that_is_wrongly_empty_is_to_be_asked_again(search, papers):
    papers.enqueue(lambda _request: atom([], total=17))

    with pytest.raises(ProviderUnavailable, match="empty page") as told:
        search.search("postgres", SearchOptions(limit=2))
    assert told.value.retry_after == 3
    assert len(search.search("postgres", SearchOptions(limit=2))) == 2


def test_too_many_requests_are_told_by_plain_text_with_status_200(search, papers):
    papers.enqueue(text("Rate exceeded."))

    with pytest.raises(ProviderUnavailable, match="Rate exceeded"):
        search.search("postgres", SearchOptions())


def test_atom_that_breaks_off_counts_as_far_as_it_goes(search, papers):
    whole = atom([ArxivServer.result(1), ArxivServer.result(2)], total=2)
    whole.data = whole.data[:-30]
    papers.enqueue(lambda _request: whole)

    assert search.search("postgres", SearchOptions())[0].title == "Result 1"


def test_a_file_of_this_machine_does_not_come_in_as_an_entity(search, papers):
    page = atom([ArxivServer.result(1, title="ENTITY")], total=1)
    page.data = page.data.replace(
        b"<feed", b'<!DOCTYPE f [<!ENTITY e SYSTEM "file:///etc/passwd">]><feed'
    ).replace(b"ENTITY</title>", b"x &e;</title>")
    papers.enqueue(lambda _request: page)

    assert "root:" not in str(search.search("postgres", SearchOptions()))


@pytest.mark.parametrize("start", [b"<html>", b'<feed xmlns="http://www.w3.org/2005/Atom">'])
def test_a_page_made_to_hang_the_parser_is_given_up(search, papers, start, monkeypatch, impatient):
    monkeypatch.setattr(arxiv, "get_extractor", lambda: impatient)
    papers.enqueue(lambda _request: Response(start + b"<b" * 1_000_000))

    with pytest.raises(ProviderUnavailable, match="didn’t return an Atom"):
        search.search("postgres", SearchOptions())


def test_requests_keep_their_distance(search, papers, monkeypatch):
    monkeypatch.setattr(arxiv, "PACE", MinInterval("arXiv", "127.0.0.1", seconds=0.2))
    began = time.monotonic()
    for word in ("one", "two", "three"):
        search.search(word, SearchOptions(limit=1))

    assert time.monotonic() - began >= 0.4


def test_arxiv_itself_is_asked_once_in_three_seconds():
    assert arxiv.PACE.seconds == 3
    assert arxiv.PACE.covers(f"{arxiv.VENDOR_URL}/api/query")
