"""A topic's report template: what it places, what it refuses, and that it runs nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from beacon_site.text import placeholders
from beacon_site.text.markdown import render
from memory.models import Topic
from research.models import DeltaItem, Run, TopicSettings
from research.pages.topic_settings import preview_of
from research.services.runs.reporting import template
from research.services.runs.reporting.delta import Change
from tests.research import cast
from tests.research.conftest import Providers
from tests.research.factories import make_item, make_report, make_run, make_source

EVERY_BLOCK = "\n\n".join(f"# {name}\n{{{{ {name} }}}}" for name in template.BLOCKS)
EVERY_WORD = "\n\n".join(f"{name}: {{{{{name}}}}}." for name in template.WORDS)


def contents(run: Run, **more: Any) -> template.Contents:
    changes = [
        Change("new", "Ada has a 2nd cell.", [1]),
        Change("new", "Bo has a cell {{ sources }}.", [2]),
        Change("new", "Cy has a cell.", [1], hidden_reason="not asked for", judged_by="rule"),
        Change("changed", "It costs 75.", [2], previous_text="It costs 89."),
        Change("gone", "It is sold.", [1]),
    ]
    sources = [make_source(1, "A & [B]", link="https://a.example/1"), make_source(2, "Second")]
    values: dict[str, Any] = {
        "run": run, "number": 3, "at": run.created, "text": "All of it.", "summary": "In short.",
        "changes": changes, "sources": sources, "checked": "2 pages checked.", "since": "Run #2",
    }  # fmt: skip
    return template.Contents(**values | more)


def laid_out(run: Run, layout: str, most: int | None = None, **more: Any) -> str:
    settings = TopicSettings(topic=run.topic, report_template=layout, report_max_items=most)
    return template.laid_out(settings, contents(run, **more))


# --- what it places -------------------------------------------------------------------------------


@pytest.mark.requirement("R353")
def test_each_block_is_placed_under_the_persons_headings(topic: Topic):
    body = laid_out(make_run(topic), EVERY_BLOCK)

    assert "## new\n\n- Ada has a 2nd cell. [1] ([example.org](https://a.example/1)" in body
    assert "\n- Bo has a cell {{ sources }}. [2] (" in body
    assert "## changed\n\n- It costs 75. [2] (" in body and "\n  before: It costs 89.\n" in body
    assert "## confirmed\n\n*None in this run.*\n" in body
    assert "## checked\n\n2 pages checked.\n" in body
    assert body.endswith(f"2. [Second]({make_source(2, 'Second')['link']}) · example.org")
    assert "Cy" not in body  # not asked for


def test_each_word_is_placed_in_a_sentence(topic: Topic):
    body = laid_out(
        make_run(topic), "Run {{run_number}} on {{ topic }}, {{ objective }}. " + EVERY_WORD
    )

    assert body.startswith(f"Run 3 on {topic.title}, –. ")
    assert "{{" not in body


def test_a_block_with_many_items_is_cut_and_says_so(topic: Topic):
    body = laid_out(make_run(topic), "{{ new }}", most=1)

    assert body.startswith("- Ada has a 2nd cell. [1]") and body.endswith("\n- *and 1 more*")
    assert body.count("\n") == 1


def test_markdown_in_a_word_is_text(topic: Topic):
    Topic.objects.filter(pk=topic.pk).update(title="[x](https://evil.example) {{ sources }}")
    topic.refresh_from_db()

    body = laid_out(make_run(topic), "About {{ topic }}")

    assert body == r"About \[x\]\(https://evil.example\) {{ sources }}"


# --- what it refuses ------------------------------------------------------------------------------


@pytest.mark.requirement("R354")
@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("{{ neu }}", "“{{ neu }}” isn’t a placeholder. Available: summary, text, new"),
        ("{{ topic.owner.password }}", "“{{ topic.owner.password }}” isn’t a placeholder."),
        ("{{ new|safe }}", "“{{ new|safe }}” isn’t a placeholder."),
        ("{{ ''.__class__.__mro__ }}", "isn’t a placeholder."),
        ("{{ }}", "“{{  }}” isn’t a placeholder."),
        ("New: {{ new }}", "“{{ new }}” needs its own line"),
        ("- {{ sources }}", "“{{ sources }}” needs its own line"),
        ("{{ new }}\n{{new}}", "“{{ new }}” can only be used once."),
        ("{{ date }}" * 101, "at most 100 placeholders inside sentences"),
        ("{{ new", "Some double braces aren’t closed."),
        ("{{ {{ topic }} }}", "Some double braces aren’t closed."),
    ],
)
def test_what_isnt_a_placeholder_is_explained(typed: str, said: str):
    assert said in " ".join(template.problems_of(typed))


@pytest.mark.requirement("R354")
@pytest.mark.parametrize("typed", ["{% load x %}", "{# a #}", "${7*7} #{7*7} <%= 7*7 %>", "%(new)s {new}"])  # fmt: skip
def test_other_template_languages_are_text(topic: Topic, typed: str):
    assert template.problems_of(typed) == []
    assert laid_out(make_run(topic), typed) == typed


def test_a_hostile_template_gets_a_short_answer():
    problems = template.problems_of("".join(f"{{{{ {n}{'x' * 90} }}}}" for n in range(99)))

    assert len(problems) == template.MAX_PROBLEMS
    assert max(map(len, problems)) < 400


def test_a_block_is_placed_once_however_the_template_came_here(topic: Topic):
    assert laid_out(make_run(topic), "{{ text }}\n" * 900) == "All of it."


def test_blocks_are_placed_as_they_are(topic: Topic):
    code = "```\n# a\n\n\n\nb\n```"

    assert (
        laid_out(make_run(topic), "# T\n\n\n\n{{ text }}\nEnd", text=code)
        == f"## T\n\n{code}\n\nEnd"
    )


def test_sources_never_continue_the_numbers_of_a_list_above_them(topic: Topic):
    body = laid_out(make_run(topic), "{{ text }}\n{{ sources }}", text="1. a\n\n1. b")

    first, second = render(body).split("</ol>")[:2]
    assert first.count("<li>") == second.count("<li>") == 2
    assert render(body).count("<p>") == 2  # of the first list, which is loose


def test_a_template_with_every_name_has_no_problem():
    assert template.problems_of(f"{EVERY_BLOCK}\n\n{EVERY_WORD}") == []


def test_a_stored_name_that_isnt_known_stays_as_it_was_typed(topic: Topic):
    assert laid_out(make_run(topic), "{{ owner }} and {{ new }}") == "{{ owner }} and {{ new }}"


def test_an_unknown_name_is_never_looked_up():
    class Trap(dict[str, str]):
        def __missing__(self, key: str) -> str:
            raise AssertionError(key)

    assert placeholders.filled("{{ a.b }} {{c}}", Trap(c="d")) == "{{ a.b }} d"


# --- runs -----------------------------------------------------------------------------------------


@pytest.fixture
def written(topic: Topic, providers: Providers) -> Callable[..., Run]:
    """Carry out a run over eight pages with a template; with answers, a model's."""

    def carried_out(text: str, *answers: Any, **settings: Any) -> Run:
        settings |= {"report_template": text}
        TopicSettings.objects.filter(topic=topic).update(**settings)
        cast.set_up(providers, *range(1, 9))
        providers.model = cast.model(cast.PLAN, *answers) if answers else None
        return cast.carried_out(cast.started(topic))

    return carried_out


@pytest.mark.requirement("R353")
def test_runs_without_a_model_are_written_by_the_template(written: Callable[..., Run]):
    first, second = written(EVERY_BLOCK), written(EVERY_BLOCK)

    for run in (first, second):
        for name in template.BLOCKS:
            assert f"## {name}\n" in run.report.body
        assert run.report.is_extractive and "{{" not in run.report.body
        assert run.report.summary and not run.report.summary.startswith("#")
    assert first.report.body.partition("## new\n\n- ")[2]
    assert "## checked\n\n*None in this run.*" in first.report.body
    assert "## checked\n\n*None in this run.*" not in second.report.body


def test_files_repeat_neither_changes_nor_sources_that_the_template_placed(
    written: Callable[..., Run],
):
    written("")
    run = written("## Mine\n\n{{ new }}\n\n## Read\n\n{{ sources }}")
    text = run.report.as_markdown()

    assert run.report.delta and run.report.delta_heading not in text
    assert "## Sources" not in text and text.count("1. [") == 1
    plain = written("{{ text }}").report
    assert plain.delta_heading in plain.as_markdown() and "## Sources" in plain.as_markdown()
    assert plain.body and not plain.places_changes


def test_a_run_without_a_template_is_written_by_its_style(written: Callable[..., Run]):
    assert "## Findings" in written("  \n").report.body


def test_a_model_gets_the_tone_and_its_text_is_placed(
    written: Callable[..., Run], providers: Providers
):
    run = written("# Text\n{{ text }}", cast.report(1, 2), report_tone="plain\n{{ new }}")

    system = providers.model.history[1].messages[0].content
    assert "Tone: plain {{ new }}." in system
    assert run.report.body.startswith("## Text\n\n") and "{{" not in run.report.body


def test_what_the_filter_withholds_isnt_placed(written: Callable[..., Run], topic: Topic):
    written("")
    run = written("{{ new }}", intent="nothing about this")

    told = DeltaItem.objects.filter(run=run, status="new")
    for item in told.exclude(hidden_reason=""):
        assert item.sentence not in run.report.body


# --- preview --------------------------------------------------------------------------------------


@pytest.mark.requirement("R355")
def test_the_last_report_is_previewed_as_a_run_would_write_it(
    written: Callable[..., Run], topic: Topic, django_assert_num_queries: Any
):
    text = f"{EVERY_BLOCK}\n\n{EVERY_WORD}"
    written(text)
    run = written(text)
    settings = TopicSettings.objects.get(topic=topic)

    with django_assert_num_queries(3):
        shown = preview_of(topic, settings)

    assert shown["run"] == run and shown["body"] is not None
    as_saved = render(run.report.body).replace("h3>", "h4>")
    assert shown["body"].replace(' dir="auto"', "") == as_saved


def test_a_baseline_is_previewed_with_its_findings(written: Callable[..., Run], topic: Topic):
    run = written("")

    shown = preview_of(topic, TopicSettings(topic=topic, report_template="{{ new }}"))

    assert shown["body"] is not None and shown["body"].count("<li") > 1
    assert run.report.body  # unchanged


def test_a_report_without_steps_is_previewed_from_what_is_stored(topic: Topic):
    run = make_run(topic)
    make_report(run, body="Kept words.", sources=[make_source(1, "A")])
    make_item(run, "new", "A new cell.", citations=[1])

    text = "{{ text }}\n\n{{ new }}\n\n<script>alert(1)</script> [x](javascript:alert(1))"
    shown = preview_of(topic, TopicSettings(topic=topic, report_template=text))

    assert shown["body"] is not None
    assert "Kept words." in shown["body"] and "A new cell. [1]" in shown["body"]
    assert "<script" not in shown["body"] and 'href="javascript' not in shown["body"]
