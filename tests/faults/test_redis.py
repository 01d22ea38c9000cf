"""Redis closed, silent, flushed and restarted: pages answer, and no run is lost."""

from __future__ import annotations

import signal
import time
from datetime import UTC, datetime

import pytest
import redis

from tests.conftest import Say
from tests.faults.broken import Broken
from tests.faults.outside import Outside
from tests.faults.person import words
from tests.faults.stops import Gate

pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(300),
]


def _titles(what: str) -> list[str]:
    return [f"Harbour {what} {n}" for n in range(3)]


def _path(title: str) -> str:
    return f"/topics/{title.lower().replace(' ', '-')}/"


def _ask_for_runs(broken: Broken, titles: list[str]) -> tuple[float, float]:
    """Press "Run now" on each topic; return the slowest page's and the slowest press's seconds."""
    slowest_page = slowest_press = 0.0
    for title in titles:
        for page in ("/", _path(title), "/readyz"):
            assert broken.person.get(page).status_code == 200, page
            slowest_page = max(slowest_page, broken.person.seconds)
        answer = broken.person.post(_path(title) + "run/", htmx=True)
        slowest_press = max(slowest_press, broken.person.seconds)
        assert "HX-Redirect" in answer.headers, answer.text
        assert "queued" in words(broken.person.get(answer.headers["HX-Redirect"])).lower()
    return slowest_page, slowest_press


def _started_after(broken: Broken, titles: list[str], back: datetime) -> float:
    """Wait until all have ended well; return after how many seconds the last of them started."""
    runs = broken.site.ended(*titles, seconds=150)
    assert [(run.status, run.number, run.reports) for run in runs] == [("succeeded", 1, 1)] * len(
        titles
    )
    return float(max((run.started_at - back).total_seconds() for run in runs))


@pytest.mark.parametrize("how", ["silent", pytest.param("closed", marks=pytest.mark.long)])
def test_without_redis_pages_answer_and_what_was_queued_starts_when_it_is_back(
    broken: Broken, say: Say, how: str
):
    titles = _titles(how)
    broken.site.act("topics", *titles)
    broken.redis.silence() if how == "silent" else broken.redis.close()
    until = time.monotonic() + 10
    try:
        page, press = _ask_for_runs(broken, titles)
        time.sleep(max(0, until - time.monotonic()))
    finally:
        broken.redis.heal()
    after = _started_after(broken, titles, datetime.now(UTC))
    say(
        f"Redis {how} for 10 s while 3 runs are requested",
        "pages answer; “Run now” within 1 s says queued; all start within 60 s of its return",
        f"pages {page:.2f} s, “Run now” {press:.2f} s, all started after {after:.0f} s, 0 lost",
    )

    assert press < 2 * 1
    assert page < 10  # that pages answer is promised, not when: the first ones are slow anyway
    assert after < 2 * 60


@pytest.mark.long
def test_a_flushed_redis_loses_no_run(broken: Broken, outside: Outside, say: Say):
    going, waiting = _titles("flushed")[0], _titles("flushed")[1:]
    gate = outside.scenes[going, "write"] = Gate()
    broken.site.act("queue", going)
    broken.site.wait(lambda: gate.port)
    with broken.site.paused("worker"):
        broken.site.act("queue", *waiting)
        redis.Redis.from_url(broken.site.environment["REDIS_URL"]).flushall()
    back = datetime.now(UTC)
    del outside.scenes[going, "write"]
    gate.answer(outside.good(going, "write", outside.chat.asked[-1].prompt))
    after = _started_after(broken, [going, *waiting], back)
    say(
        "Redis flushed during a run, with 2 more in its queue",
        "no run lost; all start within 60 s",
        f"0 lost, the last started after {after:.0f} s, the run in progress repeated no request",
    )

    assert after < 2 * 60
    assert [outside.calls(going, kind) for kind in ("plan", "search", "write")] == [1, 2, 1]


@pytest.mark.long
def test_a_restarted_redis_loses_no_run(broken: Broken, outside: Outside, say: Say):
    going, waiting = _titles("restarted")[0], _titles("restarted")[1:]
    gate = outside.scenes[going, "write"] = Gate()
    broken.site.act("queue", going)
    broken.site.wait(lambda: gate.port)
    with broken.site.paused("worker"):
        broken.site.act("queue", *waiting)
        gone = broken.restart("valkey", signal.SIGKILL, down=5)
    back = datetime.now(UTC)
    del outside.scenes[going, "write"]
    gate.answer(outside.good(going, "write", outside.chat.asked[-1].prompt))
    after = _started_after(broken, [going, *waiting], back)
    say(
        f"Redis killed during a run and back after {gone:.0f} s, empty",
        "no run lost; all start within 60 s of its return",
        f"0 lost, the last started after {after:.0f} s",
    )

    assert after < 2 * 60
