"""The page of a run whose plan waits for a person: reviewed, changed, accepted, created again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from memory.models import Topic, User
from research.models import Run, Step
from research.pages import places
from research.services.runs import page as run_page
from research.services.runs.steps import planning
from tests.pages.topic_cast import text_of
from tests.research.factories import make_report, make_run, make_steps, make_topic

HTMX = {"HX-Request": "true", "HX-Target": "plan-review"}
PLANNED = ["PostgreSQL 18 release", "PostgreSQL 18 faults"]
WAIT, DAY = "wait", "day"


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "wake", lambda self: True)


@pytest.fixture
def topic(alice: User) -> Topic:
    settings = {"objective": "What breaks", "services": ["hackernews", "feeds"]}
    return make_topic(alice, settings=settings)


def waiting(topic: Topic, review: str = WAIT, **fields: Any) -> Run:
    settings = topic.settings.as_json() | {"plan_review": review}  # type: ignore[attr-defined]
    now = timezone.now()
    given = {"waiting_since": now, "started_at": now, "settings": settings} | fields
    run = make_run(topic, saved=False, status="queued", **given)
    make_steps(run, done=2)
    facts = [{"text": "Version 18 is out."}]
    run.steps.filter(name="load_memory").update(
        output={"memory": {"facts": facts}}, detail="1 facts, 3 seen URLs"
    )
    run.steps.filter(name="plan").update(output={"queries": PLANNED, "by": "model"})
    return run


@pytest.fixture
def run(topic: Topic) -> Run:
    return waiting(topic)


@pytest.fixture
def browser(alice: User, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


def url(name: str, run: Run) -> str:
    return reverse(f"research:{name}", args=[run.topic.slug, run.pk])


def page(browser: Client, run: Run) -> str:
    return text_of(browser.get(url("run", run)))


def sent(run: Run, *queries: str) -> dict[str, str]:
    assert run.waiting_since is not None
    return {"queries": "\n".join(queries), "seen": run.waiting_since.isoformat()}


def plan_of(run: Run) -> list[str]:
    queries: list[str] = Step.objects.get(run=run, name="plan").output["queries"]
    return queries


def waits(run: Run) -> bool:
    return Run.objects.waiting_for_a_person().filter(pk=run.pk).exists()


# --- it works -----------------------------------------------------------------------------------


def test_a_plan_that_is_made_again_as_the_page_loads_waits_no_more(
    browser: Client, run: Run, monkeypatch: pytest.MonkeyPatch
):
    context, token = run_page.plan_context, run.waiting_since
    assert token is not None

    def anew_first(seen: Run, form: Any = None) -> Any:
        mine = Run.objects.get(pk=seen.pk)
        planning.replan(mine, seen=token, by=run.topic.owner.actor)
        return context(seen, form)

    monkeypatch.setattr(run_page, "plan_context", anew_first)

    text = page(browser, run)

    assert "Go on with these queries" not in text
    assert "Waiting to start" in text


def test_it_shows_the_planned_queries_and_what_they_were_made_from(browser: Client, run: Run):
    shown = page(browser, run)

    assert "PostgreSQL 18 release PostgreSQL 18 faults</textarea>" in shown
    assert "planned by the model" in shown
    for ground in (
        "What breaks",
        "Hacker News, Feeds",
        "1 facts, 3 seen URLs",
        "Version 18 is out.",
    ):
        assert ground in shown


def test_it_says_that_it_waits_and_for_whom(browser: Client, run: Run):
    shown = page(browser, run)

    assert "Waiting for you to review the plan" in shown
    assert "it doesn’t search or spend anything" in shown
    assert "Waiting since" in shown and "Stop and write report" not in shown


def test_it_says_what_the_plan_has_cost(browser: Client, topic: Topic):
    run = waiting(topic, prompt_tokens=1_600, money=Decimal("0.02"))
    assert "<dt>Spent so far</dt><dd>$0.02 · 1,600 tokens</dd>" in page(browser, run)


def test_it_says_when_it_continues_by_itself(browser: Client, topic: Topic):
    at = timezone.now() + timedelta(hours=23)
    shown = page(browser, waiting(topic, DAY, not_before=at))

    assert "If you don’t review it, the run continues on <time" in shown
    assert f">{at.day} {at:%B}, " in shown


def test_accepted_it_continues_with_the_queries_as_they_were_left(browser: Client, run: Run):
    answer = browser.post(url("run-plan", run), sent(run, " one ", "", "two\x00", "PostgreSQL 18"))

    assert answer.status_code == 302 and not waits(run)
    assert plan_of(run) == ["one", "two", "PostgreSQL 18"]


def test_made_again_the_plan_is_a_step_that_waits(browser: Client, run: Run):
    answer = browser.post(url("run-replan", run), sent(run))

    assert answer.status_code == 302 and not waits(run)
    assert run.steps.get(name="plan").state == "waiting"


def test_it_can_be_cancelled_from_there(browser: Client, run: Run):
    browser.post(url("run-cancel", run))

    assert page(browser, run).count("This run was cancelled") == 1


def test_stopping_it_is_refused_with_a_reason(browser: Client, run: Run):
    answer = browser.post(url("run-stop", run))

    assert answer.status_code == 409
    assert "Nothing has been searched yet" in text_of(answer)


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("/", "The run is waiting for you to review its plan."),
        ("/topics/", "Waiting for you</span>"),
        ("/topics/postgresql-releases/", "A plan needs your review."),
        ("/topics/postgresql-releases/runs/", "Waiting for you</span>"),
    ],
)
def test_home_the_list_and_the_topic_say_that_a_plan_waits(
    browser: Client, run: Run, address: str, says: str
):
    shown = text_of(browser.get(address))

    assert says in shown and url("run", run) in shown


def test_every_page_counts_the_plans_that_wait(browser: Client, alice: User, bob: User, run: Run):
    waiting(make_topic(alice, "Another"))
    waiting(make_topic(bob, "Bob's"))
    make_report(make_run(make_topic(alice, "Read this")))

    request = browser.get("/topics/new/").wsgi_request
    with CaptureQueriesContext(connection) as queries:
        shown = places.frame(request)

    assert (shown["to_decide"], shown["unread_reports"]) == (2, 1)
    counts = {item["url"]: item["count"] for section in shown["nav"] for item in section}
    assert (counts["/inbox/"], counts["/topics/"]) == ("2", "1")
    assert len(queries) <= 2  # the ages of the processes are kept for a moment


def test_starting_another_leads_to_the_one_that_waits(browser: Client, run: Run):
    address = reverse("research:topic-run", args=[run.topic.slug])

    shown = text_of(browser.post(address, follow=True))

    assert (
        "A run of this topic is waiting for you to review its plan. You’re viewing it now." in shown
    )
    assert "Review plan" in shown


# --- it works over htmx ---------------------------------------------------------------------------


def test_accepting_over_htmx_loads_the_page_again(browser: Client, run: Run):
    answer = browser.post(url("run-plan", run), sent(run, "one"), headers=HTMX)

    assert answer["HX-Refresh"] == "true" and plan_of(run) == ["one"]


def test_what_is_wrong_comes_back_as_the_form_alone(browser: Client, run: Run):
    answer = browser.post(url("run-plan", run), sent(run, "one", "One"), headers=HTMX)

    text = text_of(answer)
    assert answer.status_code == 200 and "<html" not in text
    assert "“One” is listed more than once" in text and "one One</textarea>" in text


def test_who_watches_the_run_gets_the_form_when_the_plan_is_there(browser: Client, run: Run):
    poll = browser.get(url("run-progress", run) + "?seen=-1&plan=", headers=HTMX)

    assert 'id="plan-review" class="stack" hx-swap-oob="true"' in text_of(poll)


def test_a_poll_never_touches_a_form_that_can_hold_words(browser: Client, run: Run):
    address = f"{url('run-progress', run)}?seen=-1&plan={plan_token(run)}"
    same = text_of(browser.get(address, headers=HTMX))
    planning.accept(run, ["x"], seen=run.waiting_since, by=run.topic.owner.actor)  # type: ignore[arg-type]
    gone = text_of(browser.get(address, headers=HTMX))

    assert "plan-review" not in same and "plan-gone" not in same
    assert 'id="plan-gone"' in gone and 'id="plan-review"' not in gone
    assert "already continued" in gone


def test_when_the_run_ends_a_page_with_a_form_is_not_loaded_again(browser: Client, run: Run):
    address = f"{url('run-progress', run)}?seen=-1&plan={plan_token(run)}"
    run.request_cancel(by=run.topic.owner.actor)

    answer = browser.get(address, headers=HTMX)

    assert answer.status_code == 286 and "HX-Refresh" not in answer
    assert "The run was cancelled in the meantime." in text_of(answer)
    assert 'id="run-heading" hx-swap-oob="true">This run was cancelled<' in text_of(answer)


def test_after_a_cancel_elsewhere_the_heading_follows_and_nothing_is_offered_to_copy(
    browser: Client, run: Run
):
    form = sent(run, *plan_of(run))
    run.request_cancel(by=run.topic.owner.actor)

    text = text_of(browser.post(url("run-plan", run), form, headers=HTMX))

    assert "This plan is no longer waiting for review" in text and "This run was cancelled<" in text
    assert "Your queries" not in text and "Open run" not in text


def plan_token(run: Run) -> str:
    return sent(run)["seen"].replace("+", "%2B")


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queries", "says"),
    [
        ([], "Enter at least one query"),
        (["", "   "], "Enter at least one query"),
        ([f"query {n}" for n in range(13)], "You entered 13 queries, but the limit is 12"),
        (["x" * 401], "has 401 characters, but a query can have at most 400"),
        (["same", "other", "SAME"], "“SAME” is listed more than once"),
        (["?!"], "“?!” has no letters or digits"),
    ],
)
def test_bad_queries_are_explained_and_kept_as_typed(
    browser: Client, run: Run, queries: list[str], says: str
):
    answer = browser.post(url("run-plan", run), sent(run, *queries))

    assert answer.status_code == 200 and waits(run)
    assert says in text_of(answer)
    assert all(query in text_of(answer) for query in queries if query.strip())


def test_twelve_queries_of_four_hundred_characters_are_taken(browser: Client, run: Run):
    queries = [f"{n:02}" + "x" * 398 for n in range(12)]

    browser.post(url("run-plan", run), sent(run, *queries))

    assert plan_of(run) == queries


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])
def test_a_plan_that_went_on_elsewhere_says_so_and_loses_nothing(
    browser: Client, run: Run, headers: dict[str, str]
):
    browser.post(url("run-plan", run), sent(run, "first window"))

    answer = browser.post(url("run-plan", run), sent(run, "second <window>"), headers=headers)

    assert answer.status_code == 409
    assert "already continued with queries edited" in text_of(answer)
    assert "second &lt;window&gt;</textarea>" in text_of(answer)
    assert plan_of(run) == ["first window"]


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])
def test_so_does_one_whose_run_has_its_report_by_now(
    browser: Client, run: Run, headers: dict[str, str]
):
    form = sent(run, "too late")
    Run.objects.filter(pk=run.pk).update(status="succeeded", number=1, waiting_since=None)
    run.refresh_from_db()
    make_report(run)

    answer = browser.post(url("run-plan", run), form, headers=headers)

    assert answer.status_code == 409 and "too late</textarea>" in text_of(answer)


def test_of_a_plan_that_was_made_again_both_are_shown(browser: Client, run: Run):
    form = sent(run, "for the old plan")
    Run.objects.filter(pk=run.pk).update(waiting_since=timezone.now() + timedelta(seconds=1))

    text = text_of(browser.post(url("run-plan", run), form))

    assert "A newer plan exists" in text
    assert "for the old plan</textarea>" in text and "PostgreSQL 18 faults</textarea>" in text


@pytest.mark.parametrize(
    "seen",
    [
        "",
        "nonsense",
        "2026-13-45",
        "2026-11-22T10:00:00",
        "9999-12-31T23:59:59-23:59",
        "0001-01-01T00:00:00+23:59",
    ],
)
def test_a_form_that_names_no_plan_changes_nothing(browser: Client, run: Run, seen: str):
    for name in ("run-plan", "run-replan"):
        answer = browser.post(url(name, run), {"queries": "mine", "seen": seen})
        assert answer.status_code == 409

    assert waits(run) and plan_of(run) == PLANNED


# --- strangers, queries ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run-plan", "run-replan"])
def test_a_stranger_does_nothing(bob: User, client_of: Any, run: Run, name: str):
    assert client_of(bob).post(url(name, run), sent(run, "x")).status_code == 404
    assert client_of(bob).get(url(name, run)).status_code == 405
    assert waits(run)


def test_its_number_of_queries_is_fixed(browser: Client, run: Run):
    with CaptureQueriesContext(connection) as few:
        page(browser, run)
    Step.objects.filter(run=run, name="plan").update(
        output={"queries": [f"query {n}" for n in range(12)], "by": "model"}
    )
    with CaptureQueriesContext(connection) as many:
        page(browser, run)

    assert len(many) == len(few) <= 12


def test_what_was_planned_is_shown_as_text(browser: Client, run: Run):
    queries = ["</textarea><script>alert(1)</script>"]
    Step.objects.filter(run=run, name="plan").update(output={"queries": queries, "by": "model"})

    assert "<script>alert" not in page(browser, run)
