"""Activity: the work of a run or an agent is one line, and so are similar changes; nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.models import Activity, Note, Observation, Revision, Topic, User
from memory.models.actors import RESEARCH
from memory.services.observations.saving import write_observation
from memory.services.records.kinds import count_label
from research.pages.activity import MIN, PAGE, Work, newest
from research.pages.activity_streams import address_of
from tests.memory.tool_cast import call, caller
from tests.research.factories import make_call, make_run, make_topic
from tests.undo import undo_of

LIST = reverse("research:activity")


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


@pytest.fixture
def topic(alice: User) -> Topic:
    return make_topic(alice)


def observe(owner: User, number: int, source: str = "run:7", first: int = 0) -> list[Observation]:
    """Let a run make observations, one after the other."""
    words = (f"Cell number {first + n} costs {n} dollars a kilowatt hour." for n in range(number))
    return [
        write_observation(owner, "finding", text, by=RESEARCH, source=source, trust="external")
        for text in words
    ]


def fill(
    owner: User,
    number: int,
    ago: timedelta = timedelta(0),
    source: str = "run:7",
    actor: str = "research",
) -> None:
    """Make revisions of as many observations, which no longer exist, before noon of one day."""
    noon = timezone.now().replace(hour=12, minute=0, second=0) - timedelta(days=1)
    start = noon - ago
    Revision.objects.bulk_create(
        Revision(
            owner=owner, record_type="observation", record_id=f"00000000-0000-4000-8000-{n:012}",
            version=1, label=f"seen {n}", actor=actor, source=source.format(n), before={},
            after={"content": "a"}, created=start - timedelta(seconds=n),
        ) for n in range(number)
    )  # fmt: skip


def entries(browser: Client, **asked: str) -> list[Any]:
    return list(browser.get(LIST, asked or {"type": "observation"}).context["entries"])


@pytest.mark.requirement("R235")
def test_what_a_run_made_is_one_line_that_unfolds(browser: Client, alice: User, topic: Topic):
    run = make_run(topic)
    observe(alice, 14, run.source)

    (group,) = entries(browser)
    html = browser.get(LIST, {"type": "observation"}).content.decode()

    assert (group.first.who, group.first.said, group.records) == (
        "Beacon’s research", "created", "14 observations",
    )  # fmt: skip
    assert group.first.run_url in html
    assert html.count('<li class="line-change"') == 14
    assert f"{reverse('memory:observations')}?q=source%3Arun%3A{run.pk}" in html


def test_folded_model_calls_of_two_runs_each_lead_to_theirs(
    browser: Client, alice: User, topic: Topic
):
    runs = [make_run(topic), make_run(make_topic(alice, "Batteries"))]
    for run in runs:
        make_call(run)

    (group,) = entries(browser, kind="calls")
    html = browser.get(LIST, {"kind": "calls"}).content.decode()

    assert group.run_url == "" and "in 2 runs" in group.details
    assert [html.count(f'<a href="{address_of(run)}">') for run in runs] == [1, 1]


def test_folded_model_calls_of_one_run_lead_to_it_once(browser: Client, topic: Topic):
    run = make_run(topic)
    make_call(run)
    make_call(run)

    html = browser.get(LIST, {"kind": "calls"}).content.decode()

    assert html.count(f'<a href="{address_of(run)}">') == 1


def test_each_change_of_it_can_be_undone(browser: Client, alice: User):
    seen = observe(alice, 5)
    lines = entries(browser)[0].lines
    assert all(line.may_undo and line.change_url for line in lines)

    browser.post(undo_of("revision", lines[2].key))

    seen[2].refresh_from_db()
    assert seen[2].trashed_at is not None


@pytest.mark.parametrize("number", [1, MIN - 1])
def test_few_are_not_folded(browser: Client, alice: User, number: int):
    observe(alice, number)
    assert [one.name for one in entries(browser)] == ["change"] * number


def test_another_source_or_another_act_is_another_line(browser: Client, alice: User):
    seen = observe(alice, 3)
    observe(alice, 3, "run:8", first=100)
    for one in seen:
        one.trash(by=alice.actor)
    assert [(one.first.said, one.records, one.source) for one in entries(browser)] == [
        ("moved to Trash", "3 observations", ""),
        ("created", "3 observations", "run:8"),
        ("created", "3 observations", "run:7"),
    ]


def test_a_record_that_was_changed_often_is_not_counted_as_many(browser: Client, alice: User):
    note = Note.objects.create(owner=alice, content="Words")
    for number in range(6):
        note.change(by=alice.actor, tags=[f"t{number}"])
    asked = {"type": "note", "actor": str(alice.actor)}
    assert {one.name for one in entries(browser, **asked)} == {"change"}


def test_what_lies_hours_apart_stays_apart(browser: Client, alice: User):
    fill(alice, 3)
    fill(alice, 3, ago=timedelta(hours=5))
    assert [one.records for one in entries(browser)] == ["3 observations", "3 observations"]


def test_a_long_group_continues_without_gaps_or_repeats(browser: Client, alice: User):
    fill(alice, 700)
    seen: list[int] = []
    said, cursor = [], ""
    while cursor is not None:
        page = browser.get(LIST, {"type": "observation", "cursor": cursor}).context
        seen += [line.key for line in page["lines"]]
        said += [(one.records, one.goes_on) for one in page["entries"]]
        cursor = page["next_cursor"]
    assert len(seen) == len(set(seen)) == 700
    assert said == [
        ("300 observations", True), ("300 observations", True), ("100 observations", False),
    ]  # fmt: skip


def test_only_the_last_group_of_similar_changes_continues(browser: Client, alice: User):
    fill(alice, 3, actor="human:alice", source="")
    fill(alice, 1, actor="maintenance", source="", ago=timedelta(seconds=10))
    fill(alice, 350, actor="human:alice", source="", ago=timedelta(seconds=20))
    first, _other, last = entries(browser)
    assert (len(first.lines), first.goes_on, last.goes_on) == (3, False, True)


def test_a_page_is_no_longer_for_its_groups(browser: Client, alice: User):
    fill(alice, 60, source="run:{}")
    assert len(entries(browser)) == PAGE


def test_the_work_of_a_run_is_one_line_despite_other_lines_between(
    browser: Client, alice: User, topic: Topic
):
    run = make_run(topic)
    observe(alice, 3, run.source)
    note = Note.objects.create(owner=alice, content="Words")
    Revision.record_first([note], by=alice.actor)
    observe(alice, 2, run.source, first=50)
    make_call(run)
    saved = {"number": run.number, "facts_learned": 8, "facts_retired": 4, "facts_confirmed": 0}
    Activity.log(alice, RESEARCH, "run-saved", subject=run, **saved)

    found = list(browser.get(LIST).context["entries"])
    work = next(one for one in found if isinstance(one, Work))

    assert (work.run, work.run_url, work.goes_on) == (run, address_of(run), False)
    assert work.done == [
        ("", "8 facts learned, 4 no longer current"), ("created", "5 observations"), ("made", "1 model call"),
    ]  # fmt: skip
    assert [one.name for one in work.entries] == ["log", "call", "group", "run"]
    assert next(one.label for one in found if one.name == "change") == "Words"
    html = browser.get(LIST).content.decode()
    assert html.count(f'href="{address_of(run)}"') == 3  # and where it started and was saved


def test_an_agents_work_ends_after_an_hour_without_any(browser: Client, alice: User):
    fill(alice, 4, actor="agent:desk", source="import:{}")
    fill(alice, 4, actor="agent:desk", source="import:{}", ago=timedelta(hours=2))
    fill(alice, 4, actor="agent:other", source="import:{}", ago=timedelta(hours=4))
    works = [(one.first.agent, one.done) for one in entries(browser)]
    assert works == [(name, [("created", "4 observations")]) for name in ("desk", "desk", "other")]


def test_failures_and_what_waits_are_never_folded(browser: Client, alice: User):
    fill(alice, 4, actor="agent:desk", source="import:{}")
    failed = call(alice, "retrieve", caller(alice), id="nothing")
    assert failed
    Activity.objects.filter(kind="tool-called").update(actor="agent:desk")

    found = list(browser.get(LIST).context["entries"])

    by_agent = [(one.name, newest(one).tone) for one in found if newest(one).agent == "desk"]
    assert by_agent == [("log", "failed"), ("work", "")]


@pytest.mark.parametrize("asked", [{"kind": "tools"}, {"kind": "calls"}, {"q": "seen"}])
def test_who_looks_for_single_lines_finds_them_unfolded(
    browser: Client, alice: User, topic: Topic, asked: dict[str, str]
):
    fill(alice, 4, actor="agent:desk", source="import:{}")
    run = make_run(topic)
    observe(alice, 2, run.source)
    make_call(run)
    assert not any(isinstance(one, Work) for one in entries(browser, **asked))


def test_work_in_progress_says_so(browser: Client, alice: User):
    fill(alice, 350, actor="agent:desk", source="import:{}")
    first = browser.get(LIST, {"type": "observation"}).context
    then = browser.get(LIST, {"type": "observation", "cursor": first["next_cursor"]}).context
    assert [(len(one.lines), one.goes_on) for one in (*first["entries"], *then["entries"])] == [
        (300, True), (50, False),
    ]  # fmt: skip


def test_folded_lines_ask_no_further_queries(
    browser: Client, alice: User, django_assert_max_num_queries: Any
):
    fill(alice, 140)
    # The four streams are read again, further back, because the folded lines make too few entries.
    with django_assert_max_num_queries(16):
        assert browser.get(LIST).status_code == 200


def test_a_file_holds_every_line_by_itself(browser: Client, alice: User):
    observe(alice, 20)
    address = reverse("research:activity-file", args=["activity.jsonl"])
    answer: Any = browser.get(address, {"type": "observation"})
    rows = [json.loads(row) for row in b"".join(answer.streaming_content).decode().splitlines()]
    assert len(rows) == 20
    assert {row["record_type"] for row in rows} == {"observation"}


def test_a_stranger_sees_nothing_of_a_group(
    alice: User, bob: User, client_of: Callable[[User], Client]
):
    observe(alice, 5)
    assert entries(client_of(bob)) == []


def test_records_are_counted_in_words():
    assert [count_label(kind, 2) for kind in ("note", "topicfact", "contentitem")] == [
        "2 notes", "2 topic facts", "2 content items",
    ]  # fmt: skip
