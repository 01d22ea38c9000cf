"""The drawing of a topic's facts over its runs, and the same as a table."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from memory.core.actors import RESEARCH
from memory.models import Topic, User
from research.models import Run
from research.reports import timeline_chart
from research.reports.timeline_chart import MOST_RUNS, Chart, Row
from tests.research.factories import make_fact, make_item, make_report, make_run, make_topic

COST = "Cells from the plant cost ninety euros per kilowatt hour."
FIRE = "The fire test in Graz was passed by every cell of the series."


@pytest.fixture
def topic(alice: User) -> Topic:
    return make_topic(alice, "Solid-state batteries")


@pytest.fixture
def browser(alice: User, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


def ran(topic: Topic) -> Run:
    run = make_run(topic)
    make_report(run)
    return run


def drawn(topic: Topic, until: str = "") -> Chart:
    chart = timeline_chart.chart_of(topic, timeline_chart.runs_of(topic), until)
    assert chart is not None
    return chart


def kinds(row: Row) -> list[str]:
    return [mark.kind for mark in row.marks]


def page(browser: Client, topic: Topic, query: str = "") -> str:
    address = reverse("research:topic-timeline", args=[topic.slug])
    return browser.get(address + query).content.decode()


def test_a_fact_is_a_line_from_its_first_run_to_the_last_that_checked_it(topic: Topic):
    first, second, _third = ran(topic), ran(topic), ran(topic)
    fact = make_fact(topic, COST, first)
    make_item(second, "confirmed", COST, previous_fact=fact, previous_text=COST)

    chart = drawn(topic)
    row, columns = chart.rows[0], [column.x for column in chart.columns]

    assert kinds(row) == ["new", "confirmed"]
    assert [row.start, row.end, row.now] == columns


@pytest.mark.parametrize("status", ["changed", "contradicted"])
def test_what_a_run_said_against_a_fact_is_marked_there(topic: Topic, status: str):
    fact = make_fact(topic, COST, ran(topic))
    make_item(ran(topic), status, FIRE, previous_fact=fact, previous_text=COST)

    assert kinds(drawn(topic).rows[0]) == ["new", status]


def test_a_change_that_retires_its_fact_is_one_mark(topic: Topic):
    fact = make_fact(topic, COST, ran(topic))
    run = ran(topic)
    make_item(run, "changed", FIRE, previous_fact=fact, previous_text=COST)
    fact.retire(by=RESEARCH, why="changed", run=2, source=run.source)

    row = drawn(topic).rows[0]

    assert kinds(row) == ["new", "changed"] and row.now == row.end


def test_what_a_person_struck_ends_behind_the_run_before(topic: Topic, alice: User):
    make_fact(topic, COST, ran(topic)).strike(by=alice.actor)

    row = drawn(topic).rows[0]

    assert kinds(row) == ["new", "struck"]
    assert "after Run #1" in row.marks[1].words and not row.is_current


def test_each_mark_is_a_link_with_a_name_and_a_title(browser: Client, topic: Topic):
    run = ran(topic)
    fact = make_fact(topic, COST, run)

    shown = page(browser, topic)

    leads = reverse("research:run", args=[topic.slug, run.pk])
    name = re.escape("New, Run #1, ") + r"\d+ \w+: " + re.escape(COST)
    assert re.search(rf'<a href="{leads}#report" aria-label="{name}"><title>{name}</title>', shown)
    history = reverse("research:fact-history", args=[topic.slug, fact.pk])
    assert f'<a href="{history}" aria-label="{COST}">' in shown


def test_the_same_stands_in_a_table(browser: Client, topic: Topic):
    make_fact(topic, COST, ran(topic))

    table = page(browser, topic).split("As a table")[1].partition("</table>")[0]

    assert COST in table and "New: <a" in table and ">current<" in table


def test_it_says_in_words_what_it_shows(topic: Topic):
    make_fact(topic, COST, ran(topic))
    make_fact(topic, FIRE, ran(topic))

    assert drawn(topic).words == "2 facts from Run #1 to Run #2"


def test_many_runs_are_drawn_some_at_a_time(topic: Topic):
    runs = [ran(topic) for _run in range(MOST_RUNS + 3)]
    make_fact(topic, COST, runs[0])

    last, before = drawn(topic), drawn(topic, "3")

    assert (len(last.columns), last.earlier, last.later) == (MOST_RUNS, 3, None)
    assert kinds(last.rows[0]) == [] and kinds(before.rows[0]) == ["new"]
    assert (len(before.columns), before.later) == (3, MOST_RUNS + 3)


@pytest.mark.parametrize("until", ["x", "0", "-1", "٣", "9" * 40, "%00"])
def test_a_run_that_there_is_none_of_shows_the_last_ones(browser: Client, topic: Topic, until: str):
    make_fact(topic, COST, ran(topic))

    assert COST in page(browser, topic, f"?until={until}")


def test_a_fact_cannot_write_into_the_drawing(browser: Client, topic: Topic):
    make_fact(topic, 'A </title><script>alert("1")</script> & a cell.', ran(topic))

    assert "<script>alert" not in page(browser, topic)


def test_without_facts_there_is_no_drawing(browser: Client, topic: Topic):
    ran(topic)

    assert '<h2 id="chart-title"' not in page(browser, topic)


def test_sixty_facts_cost_no_query_more(
    browser: Client, topic: Topic, django_assert_max_num_queries: DjangoAssertNumQueries
):
    runs = [ran(topic) for _run in range(8)]
    for number in range(timeline_chart.MOST_FACTS + 4):
        run = runs[number % 8]
        fact = make_fact(topic, f"The plant number {number} opened its gates to visitors.", run)
        make_item(runs[7], "confirmed", fact.text, previous_fact=fact)

    with django_assert_max_num_queries(12):
        shown = page(browser, topic)
    assert "4 older facts aren’t shown." in shown


def test_words_without_spaces_end_in_the_drawing(topic: Topic):
    first = ran(topic)
    make_fact(
        topic, "新型固体電池のエネルギー密度は一キログラム当たり四百ワット時に達した。" * 3, first
    )

    chart = drawn(topic)

    [row] = chart.rows
    assert row.label.endswith("…")
    assert row.label_left + row.label_width <= chart.width  # each sign is two letters wide
