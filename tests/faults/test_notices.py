"""Which notifications of a run are sent if a worker is killed in the middle of sending them."""

from __future__ import annotations

import threading

import pytest
from pytest_httpserver import HTTPServer

from tests.conftest import Say
from tests.faults.processes import Site, site
from tests.research.mail_server import MailServer

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

TITLES = [f"Harbour notices {n}" for n in range(4)]
DELIVER = "research.tasks.deliver"


def _again(beacon: Site) -> None:
    """Let the leases of lost deliveries be over, and every waiting one be nudged three times."""
    beacon.rows(
        "UPDATE research_delivery SET nudged_at = NULL, lease_until = now() - interval '1 s'"
        " WHERE state IN ('waiting', 'sending')"
    )
    for (key,) in beacon.rows("SELECT id::text FROM research_delivery"):
        beacon.send(DELIVER, key, queue="reflect", times=3)


@pytest.mark.long
def test_killed_between_handing_over_and_noting_it_no_email_comes_twice(
    httpserver: HTTPServer, say: Say
):
    httpserver.expect_request("/hook").respond_with_data("ok")
    hook = httpserver.url_for("/hook")
    with MailServer() as mails:
        variables = {
            "EMAIL_URL": f"smtp://127.0.0.1:{mails.port}",
            "BEACON_FETCH_ALLOW_HOSTS": f"{httpserver.host}:{httpserver.port}",
        }
        with site(**variables) as beacon:
            killed = threading.Event()

            def kill_once() -> None:
                if not killed.is_set():
                    beacon.kill("worker")
                    killed.set()

            mails.before_body = kill_once  # the mail has come, and is not yet answered for
            beacon.act("told", hook, *TITLES)
            _again(beacon)
            # One child, so exactly one delivery is in progress when it is killed.
            beacon.start_worker(queues="maintenance,reflect,background", children=1)
            beacon.wait(killed.is_set)
            _again(beacon)  # before the second worker starts, which keeps its own leases
            beacon.start_worker("second", queues="maintenance,reflect,background")
            over = "SELECT count(*) FROM research_delivery WHERE state IN ('waiting', 'sending')"
            beacon.wait(lambda: beacon.value(over) == 0)
            states = sorted(
                state for (state,) in beacon.rows("SELECT state FROM research_delivery")
            )
    ids = [str(mail["Message-ID"]) for mail in mails.mails]
    hooks = {request.headers["webhook-id"] for request, _response in httpserver.log}
    say(
        "kill -9 while an email is sent, each message delivered 6 times",
        "no email twice; each webhook under one ID",
        f"{len(ids)} emails with {len(set(ids))} IDs, {len(hooks)} webhooks, {states.count('unsure')} "
        "unknown",
    )

    assert len(ids) == len(set(ids)) == len(TITLES)
    assert len(hooks) == len(TITLES)
    assert states == ["sent"] * 7 + ["unsure"]
