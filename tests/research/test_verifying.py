"""Quotes are looked up in the stored text; a missing quote supports nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from beacon_site.providers.search.base import SearchHit
from memory.models import Topic, TopicFact
from research.models import DeltaItem, Run
from research.services.reports import reading
from research.services.runs.context.cited_pages import CitedPage
from research.services.runs.steps.verifying import _marked
from tests.providers.fakes import FakeSearch
from tests.research import cast
from tests.research.conftest import Providers

TEXT = "The line opened in May.\nIt makes “good” cells – 12,000 a month, says Dr. Berg’s team."
PAGE = CitedPage(TEXT)


@pytest.mark.parametrize(
    "quote",
    [
        "It makes “good” cells",
        'it makes "good" cells - 12,000 a month',
        "The line opened\nin May.",
        "It makes good cells, 12,000 a month, says Dr. Berg's team.",
    ],
)
def test_a_quote_is_found_in_spite_of_marks_case_and_line_ends(quote: str):
    found = PAGE.look_up(quote)

    assert found is not None
    assert found.span is not None


@pytest.mark.parametrize(
    "quote", ["", "May", "a month", "It makes bad cells at night, says nobody."]
)
def test_a_quote_that_is_short_or_not_there_is_not_found(quote: str):
    assert PAGE.look_up(quote) is None


@pytest.mark.parametrize(
    "quote",
    [
        cast.sentence(1).replace("4,400", "4,900"),
        cast.sentence(1).replace("Lyon", "Leon"),
        cast.sentence(1).replace("made", "never made"),
    ],
)
def test_a_quote_that_is_close_but_says_something_else_is_not_found(quote: str):
    assert CitedPage(cast.page(1)).look_up(quote) is None


CSV = """supplier,panel price,delivery days
Helios,210,14
Sunny,1210,21
Aurora,"1,210",314
Zen,1,210
"""


@pytest.fixture
def of_csv(topic: Topic, providers: Providers, run_of: Callable[[Topic], Run]) -> Callable[[], Run]:
    """Return a function: a baseline over a CSV file, without a model."""
    Topic.objects.filter(pk=topic.pk).update(title="Panel prices")
    cast.set_up(providers, 1)
    providers.pages.pages = {cast.url(1): CSV}
    return lambda: run_of(topic)


def test_a_row_of_a_csv_file_is_supported_by_its_cells(of_csv: Callable[[], Run]):
    report = of_csv().report

    assert "Helios: panel price 210; delivery days 14" in report.body
    assert "Zen: panel price 1; delivery days 210" in report.body
    assert [check["why"] for check in report.checks] == [""] * 4
    assert "1210210" not in CitedPage(CSV).numbers and "21014" not in CitedPage(CSV).numbers


def test_a_report_without_a_model_marks_each_unsupported_sentence(
    of_csv: Callable[[], Run], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(CitedPage, "numbers", frozenset())

    run = of_csv()

    report = run.report

    rows = [f"{row} [1] *(unsupported)*" for row in ("delivery days 14", "delivery days 210")]
    assert all(f"{row}\n" in report.body for row in rows)
    assert report.summary.count("*(unsupported)*") == 2
    assert "every sentence is a quote" not in report.body
    page = reading.of(run.topic)
    assert page is not None and {one.text.rpartition(": ")[2] for one in page.lead} == {
        "panel price 210; delivery days 14.",
        "panel price 1210; delivery days 21.",
    }
    assert all("isn’t in the cited pages" in one.tag for one in page.lead)
    assert page.quotes_text == "quotes verified in 0 of 4 sentences on this page"


@pytest.fixture
def verified(topic: Topic, providers: Providers) -> Callable[..., Run]:
    def carried_out(**more: Any) -> Run:
        cast.set_up(providers, 1, 2)
        providers.model = cast.model(cast.PLAN, cast.report(1, 2, **more), {"relations": []})
        return cast.carried_out(cast.started(topic))

    return carried_out


def test_found_quotes_are_on_their_source(verified: Callable[..., Run]):
    source = verified().report.sources[0]

    (told,) = source["quotes"]
    stored = cast.page(1)
    assert told["found"]
    assert not told["in_snippet"]
    assert stored[told["start"] : told["end"]] == told["quote"] == cast.sentence(1)
    assert told["checked_at"]


def test_a_quote_of_a_page_that_could_not_be_read_is_told_to_be_of_the_snippet(
    topic: Topic, providers: Providers, run_of: Callable[[Topic], Run]
):
    cast.set_up(providers, 1)
    found = SearchHit(url=cast.url(1), title="Cells", snippet=cast.sentence(1))
    providers.search = FakeSearch([found])
    providers.pages.pages = {}

    run = run_of(topic)

    assert run.report.sources[0]["quotes"][0]["in_snippet"] is True


def test_a_sentence_whose_quote_is_nowhere_is_marked_and_isnt_a_fact(verified: Callable[..., Run]):
    false = {"sentence": "The line burned down in June.", "citations": [1], "quote": "It burned."}
    body = "Cells are made [1].\n\n- The line **burned** down [1] in June. [1]\n- Another thing."

    run = verified(body=body, findings=[false])

    assert "in June. [1] *(unsupported)*" in run.report.body
    assert not TopicFact.objects.exists()
    assert run.warnings == ["1 sentence is marked because its source doesn’t support it"]
    assert run.report.sources[0]["quotes"][0]["found"] is False


def test_a_finding_that_cites_nothing_is_unsupported(verified: Callable[..., Run]):
    bare = {"sentence": cast.sentence(1), "citations": [], "quote": cast.sentence(1)}

    verified(findings=[bare])

    assert not TopicFact.objects.exists()


def test_a_finding_cited_from_the_wrong_source_is_unsupported(verified: Callable[..., Run]):
    wrong = {"sentence": cast.sentence(1), "citations": [2], "quote": cast.sentence(1)}

    verified(findings=[wrong])

    assert not TopicFact.objects.exists()


def test_one_source_of_several_is_enough(verified: Callable[..., Run]):
    both = {"sentence": cast.sentence(1), "citations": [2, 1], "quote": cast.sentence(1)}

    verified(findings=[both])

    assert TopicFact.objects.get().text == cast.sentence(1)


@pytest.mark.requirement("R41", "R42")
def test_a_delta_of_unsupported_findings_alone_isnt_a_delta(
    topic: Topic, verified: Callable[..., Run], providers: Providers
):
    cast.set_up(providers, 3)
    cast.carried_out(cast.started(topic))
    false = {"sentence": "The line burned down in June.", "citations": [1], "quote": "It burned."}

    run = verified(findings=[false])

    item = DeltaItem.objects.get(run=run, sentence=false["sentence"])
    assert item.hidden_reason.startswith("unsupported")
    assert run.report.is_quiet
    assert "burned" not in run.report.delta
    assert run.report.delta.startswith("Nothing new")


@pytest.mark.parametrize(
    ("body", "marked"),
    [
        ("A b c.", "A b c. *(unsupported)*"),
        ("A *b* [1] c [2]. D", "A *b* [1] c [2]. *(unsupported)* D"),
        ("A b c. [1]\n\n- A b c [1]", "A b c. [1] *(unsupported)*\n\n- A b c [1] *(unsupported)*"),
        ("A b cd", "A b cd"),
        ("A b c.50 euros [2].", "A b c.50 euros [2]."),
        ("A b c and more [3].", "A b c and more [3]."),
        ("X", "X"),
    ],
)
def test_the_mark_is_behind_the_sentence_and_its_citations(body: str, marked: str):
    assert _marked(body, ["A b c.", ""]) == marked
