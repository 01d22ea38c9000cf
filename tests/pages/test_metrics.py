"""Metrics: who can read them, what they say, and that they contain no one's words."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from memory.models import ModelCall, User
from research.models import Channel, Delivery, Run, Step, Worker
from tests.api.cast import Program, problem
from tests.research.factories import make_run, make_topic

PAGE = "/metrics"
PAGE_OF_FIGURES = Path(__file__).resolve().parents[2] / "docs" / "reference" / "metrics.md"
ELSEWHERE = {"REMOTE_ADDR": "203.0.113.9"}


def figures(client: Client | None = None) -> dict[tuple[str, ...], float]:
    """Return name and label values (in the order of their names) -> value, as a scrape sees them."""
    answer = (client or Client()).get(PAGE)
    assert answer.status_code == 200, answer.content
    found = {}
    for family in text_string_to_metric_families(answer.content.decode()):
        for sample in family.samples:
            labels = [value for _name, value in sorted(sample.labels.items())]
            found[(sample.name, *labels)] = sample.value
    return found


def asked_with(program: Program) -> Any:
    header = {"Authorization": f"Bearer {program.text}"}
    return Client(**ELSEWHERE).get(PAGE, headers=header)


# --- access ---------------------------------------------------------------------------------------


def test_a_program_on_this_machine_reads_them_without_a_token(db: None) -> None:
    assert figures()["beacon_database_up",] == 1


@pytest.mark.parametrize(
    "header", ["X-Forwarded-For", "X-Forwarded-Proto", "X-Real-IP", "Forwarded", "Via"]
)
def test_what_a_proxy_passes_on_is_not_of_this_machine(db: None, header: str) -> None:
    problem(Client().get(PAGE, headers={header: "127.0.0.1"}), 401)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BEACON_URL", "https://beacon.example"),
        ("BEACON_URL", "http://0.0.0.0:8000"),
        ("BEACON_TRUST_PROXY", True),
    ],
)
def test_where_others_are_served_no_one_comes_in_by_their_address(
    db: None, settings: Any, name: str, value: Any
) -> None:
    setattr(settings, name, value)

    problem(Client().get(PAGE), 401)


def test_from_elsewhere_it_takes_a_token_of_an_admin_made_for_it(admin: User, alice: User) -> None:
    problem(Client(**ELSEWHERE).get(PAGE), 401)
    problem(asked_with(Program(alice, "admin", name="console")), 403)
    problem(asked_with(Program(admin, "read", "write")), 403)

    assert asked_with(Program(admin, "metrics", name="prometheus")).status_code == 200


def test_who_isnt_an_admin_any_longer_reads_none(admin: User) -> None:
    program = Program(admin, "metrics")
    User.objects.update(is_staff=False)

    problem(asked_with(program), 403)


def test_a_token_for_metrics_opens_nothing_of_anybodys_memory(admin: User) -> None:
    program = Program(admin, "metrics")

    problem(program.get("/notes"), 403)
    problem(program.post("/notes", {"content": "x"}), 403)


def test_admins_alone_are_offered_such_a_token(
    admin: User, alice: User, client_of: Callable[[User], Client]
) -> None:
    wanted = {"name": "prometheus", "scopes": "metrics", "days": "365"}
    made, refused = (client_of(one).post("/settings/tokens/", wanted) for one in (admin, alice))

    assert 'id="new-token"' in made.content.decode()
    assert "is not one of the available choices" in refused.content.decode()


# --- what they tell -------------------------------------------------------------------------------


def test_runs_are_told_by_state_with_what_waits_and_what_is_stalled(alice: User) -> None:
    ago = timezone.now() - timedelta(minutes=5)
    titles = ["waits", "works", "lost", "failed"]
    states = ["queued", "running", "running", "failed"]
    runs = [
        make_run(make_topic(alice, title), saved=False, status=state)
        for title, state in zip(titles, states, strict=True)
    ]
    Run.objects.filter(pk=runs[0].pk).update(not_before=ago)
    for run, until in ((runs[1], timezone.now() + timedelta(minutes=1)), (runs[2], ago)):
        Run.objects.filter(pk=run.pk).update(lease_until=until)
    Run.objects.filter(pk=runs[3].pk).update(finished_at=ago)

    told = figures()

    assert [told["beacon_runs", state] for state in ("queued", "running", "failed")] == [1, 2, 1]
    assert (told["beacon_runs", "partial"], told["beacon_runs_ready",]) == (0, 1)
    assert 299 <= told["beacon_runs_ready_oldest_seconds",] < 330
    assert told["beacon_runs_stalled",] == 1
    assert told["beacon_runs_ended_last_hour", "failed"] == 1


def test_models_searches_and_messages_are_reported(alice: User) -> None:
    run = make_run(make_topic(alice), saved=False, status="running")
    spent = {"owner": alice, "purpose": "plan", "source": "run:1", "model": "m1"}
    ModelCall.objects.create(
        **spent, prompt_tokens=70, completion_tokens=30, money="0.25", milliseconds=1500
    )
    ModelCall.objects.create(**spent, failure="unavailable", money=None)
    old = ModelCall.objects.create(**spent, prompt_tokens=900)
    ModelCall.objects.filter(pk=old.pk).update(created=timezone.now() - timedelta(days=70))
    asked = [
        {"service": "hackernews", "query": "q", "hits": n, "problem": p}
        for n, p in ((2, ""), (0, "no"))
    ]
    Step.objects.create(run=run, name="search", output={"asked": asked})
    Step.objects.create(run=run, name="plan", output={"asked": "no list"})
    channel = Channel.objects.create(owner=alice, kind="email", name="mine")
    Delivery.objects.create(owner=alice, channel=channel, kind="test", about="x")

    told = figures()

    assert told["beacon_model_calls_last_hour", "m1", "answered"] == 1
    assert told["beacon_model_calls_last_hour", "m1", "unavailable"] == 1
    assert told["beacon_model_tokens_last_hour", "prompt", "m1"] == 70
    assert told["beacon_model_seconds_last_hour", "m1"] == 1.5
    assert told["beacon_model_money_month", "m1"] == 0.25
    assert told["beacon_model_calls_unpriced_month", "m1"] == 1
    assert told["beacon_search_queries_last_hour", "failed", "hackernews"] == 1
    assert told["beacon_search_queries_last_hour", "answered", "hackernews"] == 1
    assert (told["beacon_deliveries", "waiting"], told["beacon_deliveries", "sent"]) == (1, 0)


def test_processes_and_queues_are_reported(db: None) -> None:
    seen = timezone.now() - timedelta(seconds=30)
    Worker.objects.create(name="beat@test", kind="beat", seen_at=seen)

    told = figures()

    assert 29 <= told["beacon_process_age_seconds", "beat"] < 60
    assert ("beacon_process_age_seconds", "worker") not in told
    assert told["beacon_redis_up",] == 1
    assert told["beacon_queue_messages", "maintenance"] >= 0


def test_without_redis_or_the_database_the_rest_is_reported(
    db: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    monkeypatch.setattr("research.pages.metrics._SEARCHES", "SELECT no such thing")

    told = figures()

    assert (told["beacon_redis_up",], told["beacon_database_up",]) == (0, 0)
    assert told["beacon_data_folder_free_bytes",] > 0


def test_a_data_folder_that_is_gone_takes_its_figure_along_and_nothing_else(
    db: None, settings: Any, tmp_path: Path
) -> None:
    settings.DATA_DIR = tmp_path / "gone"

    told = figures()

    assert told["beacon_data_folder_up",] == 0
    assert ("beacon_data_folder_free_bytes",) not in told
    assert told["beacon_database_up",] == 1


def test_requests_are_counted_by_route_and_not_by_address(
    alice: User, client_of: Callable[[User], Client]
) -> None:
    browser = client_of(alice)
    key = ("beacon_http_requests_total", "GET", "research:topic", "4xx")
    before = figures().get(key, 0)
    for slug in ("one-secret", "another-secret"):
        browser.get(f"/topics/{slug}/")
    browser.generic("BREW", "/pot/of/tea/")

    told = figures()

    assert told[key] == before + 2
    assert told["beacon_http_request_seconds_count", "research:topic"] >= 2
    assert ("beacon_http_requests_total", "OTHER", "none", "4xx") in told
    assert "secret" not in str(told) and "tea" not in str(told)


def test_no_word_of_anybodys_is_in_them(alice: User) -> None:
    topic = make_topic(alice, "The diagnosis of a friend")
    run = make_run(topic, status="partial", saved=False)
    asked = [{"service": "feeds", "query": "diagnosis", "hits": 0, "problem": "diagnosis"}]
    Step.objects.create(run=run, name="search", output={"asked": asked})

    body = Client().get(PAGE).content.decode()

    assert not re.search("diagnosis|alice", body, re.IGNORECASE)


def test_the_number_of_queries_is_fixed(
    alice: User, admin: User, django_assert_max_num_queries: Any
) -> None:
    for number in range(3):
        make_run(make_topic(alice, f"T{number}"), saved=False, status="running")
    program = Program(admin, "metrics")

    with django_assert_max_num_queries(12):
        asked_with(program)


def test_each_figure_is_documented(db: None) -> None:
    documented = set(re.findall(r"`(beacon_\w+)`", PAGE_OF_FIGURES.read_text()))
    told = {name for name, *_labels in figures()}
    plain = {re.sub(r"_(total|created|bucket|count|sum)$", "", name) for name in told}

    assert sorted(plain - documented) == []
