"""The report is visible while a model writes it: a slow server on loopback."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from beacon_site.db.leased_jobs import JobLost
from beacon_site.providers.llm.base import LlmProfile
from beacon_site.providers.llm.openai_model import OpenAIModel
from memory.models import ModelCall, Topic, User
from research.models import Run, Step
from research.services.runs.reporting import writing as report_writing
from research.services.runs.reporting.writing import LiveDraft, RunAbandoned
from tests.providers.servers import ScriptedChatServer, says
from tests.research import cast
from tests.research.conftest import Providers
from tests.research.factories import make_hits, make_run, make_steps, make_topic

HTMX = {"HX-Request": "true", "HX-Target": "run-live"}
MIDDLE = "Cells from Kyoto are made by the thousand"


@pytest.fixture
def chat(providers: Providers, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedChatServer]:
    """A model on loopback that plans at once and writes slowly, about two seconds."""
    monkeypatch.setattr(report_writing, "KEPT_EVERY", 0.25)
    with ScriptedChatServer() as server:
        write(server, body())
        cast.set_up(providers, 1)
        providers.model = OpenAIModel(LlmProfile(server.base_url, "tiny", timeout=20))  # type: ignore[assignment]
        yield server


def body(words: int = 400) -> dict[str, Any]:
    """Return a long report: its middle comes after half of it."""
    filler = "Much was said of them that year. " * (words // 7)
    report = cast.report(1)
    report["body"] = (
        f"New lines make cells [1].\n\n## Findings\n\n{filler}\n\n{MIDDLE} [1].\n\n{filler}"
    )
    return report


def write(server: ScriptedChatServer, said: Any, *, pace: float = 0.15, **more: Any) -> None:
    """Let the server write this, and plan whatever it is asked before."""
    text = said if isinstance(said, str) else json.dumps(said)

    def standing(asked: dict[str, Any]) -> Any:
        prompt = str(asked["messages"])
        is_plan = '"queries"' in prompt and '"findings"' not in prompt
        return cast.PLAN if is_plan else says(text, pace=pace, **more)

    server.standing = standing


@dataclass
class Watcher:
    """A person who polls the run's page from another thread while the run is in progress."""

    browser: Client
    run: Run
    act: Callable[[str], object] = lambda shown: None
    seen: list[str] = field(default_factory=list)
    drafts: list[str] = field(default_factory=list)

    def watch(self) -> None:
        try:
            while self._poll():
                time.sleep(0.1)
        finally:
            connection.close()

    def _poll(self) -> bool:
        address = reverse("research:run-progress", args=[self.run.topic.slug, self.run.pk])
        answer = self.browser.get(address, headers=HTMX)
        shown = answer.content.decode()
        if answer.status_code != 200:
            return False
        self.seen.append(shown)
        if draft := draft_in(shown):
            self.drafts.append(draft)
        self.act(shown)
        return True


def draft_in(shown: str) -> str:
    found = re.search(r'<section class="sheet draft".*?</section>', shown, re.S)
    return found[0] if found else ""


@pytest.fixture
def watched(
    alice: User, topic: Topic, chat: ScriptedChatServer, client_of: Callable[[Any], Client]
) -> Callable[..., tuple[Run, Watcher]]:
    """Return a function that carries a run out while someone watches it."""

    def perform(act: Callable[[str], object] = lambda shown: None) -> tuple[Run, Watcher]:
        run = cast.started(topic)
        watcher = Watcher(client_of(alice), run, act)
        thread = threading.Thread(target=watcher.watch)
        thread.start()
        cast.carried_out(run)
        thread.join(20)
        return run, watcher

    return perform


slowly = pytest.mark.django_db(transaction=True)
Watched = Callable[..., tuple[Run, Watcher]]


# --- through the real pipeline ----------------------------------------------------------------------


@slowly
@pytest.mark.requirement("R52")
def test_the_report_grows_on_the_page_before_the_run_ends(watched: Watched):
    run, watcher = watched()

    lengths = [len(draft) for draft in watcher.drafts]
    assert run.status == "succeeded"
    assert len(set(lengths)) >= 2 and lengths == sorted(lengths)
    assert MIDDLE not in watcher.drafts[0] and MIDDLE in watcher.drafts[-1]


@slowly
def test_it_is_shown_laid_out_and_not_as_json(watched: Watched):
    _run, watcher = watched()

    draft = watcher.drafts[-1]
    assert re.search(r"<h[23][^>]*>Findings</h", draft)
    assert "{" not in draft and "\\n" not in draft


@slowly
def test_nothing_of_the_draft_stays_with_a_finished_run(watched: Watched):
    run, _watcher = watched()

    assert "draft" not in run.steps.get(name="write").output
    assert MIDDLE in run.report.body


@slowly
def test_a_run_is_cancelled_while_the_report_streams_in(
    watched: Watched, chat: ScriptedChatServer, topic: Topic
):
    write(chat, body(4000), pace=1.5)
    asked: list[float] = []

    def cancel(shown: str) -> None:
        if draft_in(shown) and not asked:
            asked.append(time.monotonic())
            Run.objects.get(topic=topic).request_cancel(by=topic.owner.actor)

    run, _watcher = watched(cancel)

    assert run.status == "cancelled"
    assert time.monotonic() - asked[0] < 5
    assert ModelCall.objects.get(purpose="write").error.startswith("cancelled because")


@slowly
def test_what_was_streamed_and_then_refused_disappears_with_its_reason_told(
    watched: Watched, chat: ScriptedChatServer
):
    text = json.dumps(body())
    write(chat, text[: len(text) * 2 // 3], finish_reason="length")

    run, watcher = watched()

    assert watcher.drafts and MIDDLE not in run.report.body
    assert run.status == "partial"
    assert run.warnings[0].startswith("The model failed, so the report was written without it.")


@slowly
def test_script_in_a_draft_is_text(watched: Watched, chat: ScriptedChatServer):
    bad = "<script>alert(1)</script> [a](javascript:alert(2)) **bold** "
    write(chat, body() | {"body": bad * 60 + " [1]"})

    _run, watcher = watched()

    assert watcher.drafts and "&lt;script&gt;" in watcher.drafts[-1]
    assert "<script" not in watcher.drafts[-1] and 'href="javascript' not in watcher.drafts[-1]


@slowly
def test_a_worker_that_lost_its_run_keeps_no_draft(topic: Topic, chat: ScriptedChatServer):
    write(chat, body(4000))
    work = cast.through(cast.work_of(topic), "read")
    Run.objects.filter(pk=work.run.pk).update(attempt=work.run.attempt + 1)

    with pytest.raises(JobLost):
        work.perform(next(kind for kind in cast.pipeline.STEPS if kind.name == "write"))

    assert Step.objects.get(run=work.run, name="write").output == {}


def test_it_is_kept_once_a_second_however_fast_it_comes(topic: Topic, providers: Providers):
    cast.set_up(providers, 1)
    work = cast.through(cast.work_of(topic), "read")
    work.step = work._steps["write"]
    live = LiveDraft(work)
    before = Run.objects.get(pk=work.run.pk).progress

    for size in range(1, 400):
        live.take("New lines make cells. " * size)
        live.keep()

    assert Run.objects.get(pk=work.run.pk).progress == before + 1


def test_a_call_that_no_one_waits_for_ends_at_its_next_words(topic: Topic, providers: Providers):
    cast.set_up(providers, 1)
    with LiveDraft(cast.work_of(topic)) as live:
        live.take("Some words")

    with pytest.raises(RunAbandoned):
        live.take("Some words more")


# --- on the page --------------------------------------------------------------------------------------


@pytest.fixture
def writing(alice: User) -> Run:
    """A run whose model has written half of a report."""
    run = make_run(make_topic(alice), saved=False, attempt=1)
    make_steps(
        run, done=5, state="running", attempt=1, detail="6 words so far",
        output={"draft": "New lines make cells [1].\n\n## Findings\n\n- One **of"},
    )  # fmt: skip
    make_hits(run, 5)
    return run


@pytest.fixture
def browser(alice: User, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


def page(browser: Client, run: Run) -> str:
    address = reverse("research:run", args=[run.topic.slug, run.pk])
    return browser.get(address).content.decode()


def test_without_scripts_the_page_shows_the_draft_as_far_as_it_is(browser: Client, writing: Run):
    draft = draft_in(page(browser, writing))

    assert "writing…" in draft and "New lines make cells [1]." in draft
    assert 'aria-live="off"' in draft


@pytest.mark.parametrize(
    "change",
    [{"attempt": 2}, {"status": "queued", "lease_until": None}, {"status": "cancelled"}],
)
def test_a_draft_of_another_attempt_or_of_a_run_that_waits_is_not_shown(
    browser: Client, writing: Run, change: dict[str, Any]
):
    Run.objects.filter(pk=writing.pk).update(**change)

    assert draft_in(page(browser, writing)) == ""


def test_a_resumed_step_begins_without_the_old_draft(topic: Topic, providers: Providers):
    cast.set_up(providers, 1)
    work = cast.through(cast.work_of(topic), "read")
    run = work.run
    Step.objects.filter(run=run, name="write").update(output={"draft": "Half of an"})
    seen: list[Any] = []

    def look() -> None:
        seen.append(Step.objects.get(run=run, name="write").output)

    cast.lose_lease(run)
    with cast.before_step("write", look):
        cast.carried_out(run)

    assert seen == [{}] and run.number == 1


def test_a_poll_that_has_seen_all_of_a_draft_costs_one_query(browser: Client, writing: Run):
    address = reverse("research:run-progress", args=[writing.topic.slug, writing.pk])
    with CaptureQueriesContext(connection) as asked:
        answer = browser.get(f"{address}?seen={writing.progress}", headers=HTMX)

    assert answer.status_code == 204
    assert len([query for query in asked if "research_" in query["sql"]]) == 1


def test_a_draft_costs_the_page_no_query_more(browser: Client, writing: Run):
    with CaptureQueriesContext(connection) as with_draft:
        page(browser, writing)
    Step.objects.filter(run=writing, name="write").update(output={}, started_at=timezone.now())
    with CaptureQueriesContext(connection) as without:
        page(browser, writing)

    assert len(with_draft) == len(without)
