"""The styles of a report, by a model and without one; the delta section isn't part of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.utils import timezone
from django.utils.formats import date_format

from beacon_site.text.markdown import render
from memory.models import Topic
from research.models import Run, TopicSettings
from research.services.runs.reporting import report_text
from tests.research import cast
from tests.research.conftest import Providers

RunOf = Callable[[Topic], Run]
PARTS = report_text.Parts(
    summary="One. Two.",
    fresh=[f"Fresh {n} [{n}]" for n in range(1, 8)],
    more=["More [8]"],
    known=["Old"],
    is_baseline=True,
)


def headings(markdown: str) -> list[str]:
    return [line[3:] for line in markdown.splitlines() if line.startswith("## ")]


@pytest.fixture
def written(topic: Topic, providers: Providers) -> Callable[..., Run]:
    """Run a run over eight pages in a style; with answers, a model's."""

    def carried_out(style: str, *answers: Any, **settings: Any) -> Run:
        settings |= {"report_style": style}
        TopicSettings.objects.filter(topic=topic).update(**settings)
        cast.set_up(providers, *range(1, 9))
        providers.model = cast.model(cast.PLAN, *answers) if answers else None
        return cast.carried_out(cast.started(topic))

    return carried_out


# --- layouts --------------------------------------------------------------------------------------


def test_a_standard_report_has_a_paragraph_then_findings():
    body = report_text.body_in_style("standard", PARTS)

    assert body.startswith("One. Two.\n\n## Findings\n\n- Fresh 1 [1]\n")
    assert headings(body) == ["Findings", "More from the new sources", "Already known"]


def test_an_executive_summary_begins_with_five_lines_and_repeats_none_of_them():
    body = report_text.body_in_style("executive", PARTS)
    short, _heading, rest = body.partition("## Findings")

    assert short.count("Fresh") == 5
    assert "Fresh 6" in rest
    assert [body.count(line) for line in PARTS.fresh] == [1] * 7


def test_bullets_are_bullets_alone_in_groups():
    body = report_text.body_in_style("bullets", PARTS)

    lines = [line for line in body.splitlines() if line]
    assert all(line.startswith(("- ", "## ")) for line in lines)
    assert headings(body) == ["Findings", "More from the new sources", "Already known"]


def test_a_memo_says_what_was_found_then_what_it_means():
    follows = "Therefore makers must recall them. [9]"
    body = report_text.body_in_style("memo", replace(PARTS, more=["More [8]", follows]))
    found, _heading, means = body.partition("## What it means, according to the sources")

    assert found.startswith("One. Two.\n\n## Findings\n\n- Fresh 1 [1]")
    assert means.startswith(f"\n\n- {follows}\n\n## More from the new sources\n\n- More [8]")


def test_a_memo_makes_up_no_meaning():
    body = report_text.body_in_style("memo", PARTS)

    assert "The sources don’t say what this means." in body


@pytest.mark.parametrize(
    ("sentence", "speaks"),
    [
        ("In May 2011 it made 4,400 cells.", False),
        ("Owners will have to move by 2027.", True),
        ("Das bedeutet höhere Preise.", True),
        ("这将导致价格上涨。", True),
        ("Means of transport were counted.", True),  # words cannot tell these two apart
    ],
)
def test_a_sentence_speaks_of_consequences_by_its_words(sentence: str, speaks: bool):
    assert bool(report_text._FOLLOWS.search(sentence)) is speaks


@pytest.mark.parametrize("style", TopicSettings.Style.values)
def test_a_report_without_findings_still_says_so_in_every_style(style: str):
    empty = report_text.Parts("Nothing was found.", [], [], [], is_baseline=True)

    assert "Nothing was found." in report_text.body_in_style(style, empty)


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("**To:** the board\n**From:** me\n\nThe point.", "The point."),
        ("# Memo\n\n> To: the board\n> Re: cells\n\n---\n\nThe point.", "The point."),
        ("To keep it short: the point.", "To keep it short: the point."),
        ("# Solid-state batteries\n\n**To:** Alice\n**Date:** today\n\nThe point.", "The point."),
        ("**Solid-state batteries**\n\n## Memo\n\nTo: Alice\n***\nThe point.", "The point."),
        ("## The point\n\nCells are made.", "## The point\n\nCells are made."),
        ("To: Alice\n\n## The point\n\nCells are made.", "## The point\n\nCells are made."),
    ],
)
def test_a_head_that_the_model_wrote_goes(given: str, left: str):
    assert report_text.without_memo_head(given) == left


# --- whole runs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("style", "starts", "has"),
    [
        ("standard", "", "## Findings"),
        ("executive", "## In short", "## Findings"),
        ("bullets", "## Findings\n\n- ", "## About this report"),
        ("memo", "> **To:** alice", "## Findings"),
    ],
)
def test_without_a_model_each_style_has_its_layout_and_a_summary_that_is_a_sentence(
    written: Callable[..., Run], style: str, starts: str, has: str
):
    run = written(style)

    assert (run.status, run.report.is_extractive) == ("succeeded", True)
    assert run.report.body.startswith(starts)
    assert has in run.report.body
    assert "solid-state batteries" in run.report.summary.casefold()
    assert "Extractive report: every sentence" in run.report.body


@pytest.mark.parametrize("style", ["executive", "bullets", "memo"])
def test_a_later_run_has_its_delta_section_whatever_the_style(
    topic: Topic, providers: Providers, written: Callable[..., Run], style: str, run_of: RunOf
):
    written(style)
    cast.set_up(providers, 9)

    run = run_of(topic)

    assert "- **New:**" in run.report.delta
    assert "**New:**" not in run.report.body
    assert run.report.as_markdown().count("## What Changed Since") == 1


@pytest.mark.parametrize(
    ("style", "words"),
    [
        ("executive", "an executive summary"),
        ("bullets", "only bullets"),
        ("memo", "Write no To, From, Date or Re lines"),
    ],
)
def test_a_model_is_told_the_style(
    written: Callable[..., Run], providers: Providers, style: str, words: str
):
    written(style, cast.report(1, 2))

    assert providers.model is not None
    assert words in providers.model.history[1].prompt


def test_a_model_is_told_no_style_where_none_was_chosen(
    written: Callable[..., Run], providers: Providers
):
    written("standard", cast.report(1, 2))

    assert providers.model is not None
    assert "Style of the body" not in providers.model.history[1].prompt


def test_a_models_memo_gets_its_head_and_keeps_its_words(written: Callable[..., Run]):
    given = cast.report(1, 2) | {"body": "To: the board\n\nNew lines make cells [1]."}

    run = written("memo", given)

    today = date_format(timezone.localdate(), "j F Y")
    assert f"> **Date:** {today}" in run.report.body
    assert "the board" not in run.report.body
    assert run.report.summary == "New lines make cells [1]."


@pytest.mark.parametrize("summary", ["", "**To:** the board\n\nNew lines make cells [1]."])
def test_a_memo_head_below_a_title_is_neither_body_nor_summary(
    written: Callable[..., Run], summary: str
):
    body = "# Solid-state batteries\n\n**To:** the board\n**From:** me\n\nNew lines make cells [1]."

    run = written("memo", cast.report(1, 2) | {"summary": summary, "body": body})

    assert run.report.summary == "New lines make cells [1]."
    assert "the board" not in run.report.body


def test_a_models_bullets_get_no_paragraph_before_them(written: Callable[..., Run]):
    bullets = f"## Lines\n\n- {cast.sentence(1)} [1]"

    run = written("bullets", cast.report(1, 2) | {"body": bullets})

    assert run.report.body.startswith("## Lines")


def test_the_title_of_a_topic_isnt_markup_in_the_head_of_a_memo(
    topic: Topic, written: Callable[..., Run]
):
    Topic.objects.filter(pk=topic.pk).update(title="C* [1] <b> `x` solid-state batteries")

    body = written("memo").report.body

    assert "C* [1] &lt;b&gt; `x` solid-state batteries" in render(body)


@pytest.mark.parametrize("answers", [(), (cast.report(1, 2),)])
def test_the_report_says_the_time_frame_that_was_set(
    written: Callable[..., Run], providers: Providers, answers: tuple[Any, ...]
):
    run = written("standard", *answers, time_frame="week")

    assert "*Covers the last week, excluding sources dated before " in run.report.body
    assert providers.search.history[0].options.since is not None
    if providers.model is not None:
        assert all("Time frame: the last week" in asked.prompt for asked in providers.model.history)


def test_the_report_says_nothing_of_a_time_frame_that_is_any_time(written: Callable[..., Run]):
    assert "sources dated before" not in written("standard").report.body
