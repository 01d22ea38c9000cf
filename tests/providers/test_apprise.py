"""Chat and push services through Apprise: what is sent, what fails, and what people can't reach."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from beacon_site.net import apprise_child, apprise_sender
from beacon_site.net.apprise_child import PUBLIC
from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.net.mail import DeliveryUncertain


def address(server: HTTPServer) -> str:
    return f"json://desk:top-secret@{server.host}:{server.port}/path-token"


def test_a_text_reaches_the_service(httpserver: HTTPServer):
    httpserver.expect_request("/path-token", method="POST").respond_with_json({})

    said = apprise_sender.send(
        address(httpserver), title="Databases", body="One change.", anywhere=True
    )

    sent = json.loads(httpserver.log[0][0].get_data())
    assert (sent["title"], sent["message"]) == ("Databases", "One change.")
    assert said == "json://… accepted the message."


@pytest.mark.parametrize(
    ("url", "path", "answer"),
    [
        ("ntfy://{place}/desk", "/", {"id": "1"}),
        ("mmost://{place}/abcdefghijklmnopqrstuvwx", "/hooks/abcdefghijklmnopqrstuvwx", "ok"),
        ("gotify://{place}/abcdefghijklmno", "/message", {}),
    ],
)
def test_services_with_a_host_of_their_own_get_the_text(
    httpserver: HTTPServer, url: str, path: str, answer: Any
):
    httpserver.expect_request(path, method="POST").respond_with_json(answer)

    apprise_sender.send(
        url.format(place=f"{httpserver.host}:{httpserver.port}"),
        title="Databases", body="One change.", anywhere=True,
    )  # fmt: skip

    assert "One change." in httpserver.log[0][0].get_data(as_text=True)


def test_a_failure_is_reported_without_any_part_of_the_address(httpserver: HTTPServer):
    httpserver.expect_request("/path-token").respond_with_data("path-token top-secret", status=500)

    with pytest.raises(ProviderUnavailable, match="didn’t accept the message") as caught:
        apprise_sender.send(address(httpserver), title="a", body="b", anywhere=True)

    assert "500" in str(caught.value)
    assert "secret" not in str(caught.value) and "path-token" not in str(caught.value)


def test_an_address_that_apprise_does_not_know_is_explained():
    with pytest.raises(ProviderRejected, match="ntfy://topic"):
        apprise_sender.send("fax://12345", title="a", body="b", anywhere=True)


# A URL of each service that everyone can use. Those that end in “s” are the same by HTTPS.
EACH = {
    "discord": "1234567890/" + "a" * 64,
    "gchat": "workspace/key/token",
    "line": "a" * 40 + "=/U1234",
    "matrix": "desk:word@example.org/#room",
    "matrixs": "desk:word@example.org/#room",
    "mmost": "example.org/" + "a" * 24,
    "mmosts": "example.org/" + "a" * 24,
    "ntfy": "example.org/desk",
    "ntfys": "example.org/desk",
    "pbul": "a" * 32,
    "pover": "u" * 30 + "@" + "t" * 30,
    "rocket": "desk:word@example.org/#room",
    "rockets": "desk:word@example.org/#room",
    "slack": "T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#desk",
    "tgram": "123456789:AbCdEfGhIjKlMnOpQrStUvWxYz_abcdefg/12345",
    "workflows": "prod-1.westeurope.logic.azure.com:443/" + "a" * 32 + "/" + "b" * 43,
    "wxteams": "a" * 80,
    "zulip": "desk@example/" + "a" * 32 + "/stream",
}
ACCEPTED = {
    "ok": True, "success": True, "status": "success", "result": {}, "id": "1",
    "data": {"authToken": "t", "userId": "u"}, "access_token": "t", "user_id": "@a:b",
    "home_server": "b", "room_id": "!r:b", "event_id": "e",
}  # fmt: skip


def test_every_service_that_everyone_can_use_is_sent_to():
    assert EACH.keys() == PUBLIC


@pytest.mark.parametrize("scheme", EACH)
def test_each_service_gets_the_text(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch, scheme: str
):
    answer = "ok" if scheme == "slack" else json.dumps(ACCEPTED)
    httpserver.expect_request(re.compile("^/(?!.well-known)")).respond_with_data(answer)
    httpserver.expect_request("/.well-known/matrix/client").respond_with_data(status=404)
    send, schemes = requests.Session.request, set()

    def request(session: requests.Session, method: str, url: str, **more: Any) -> Any:
        parts = urlsplit(url)
        schemes.add(parts.scheme)
        return send(session, method, f"{httpserver.url_for(parts.path)}?{parts.query}", **more)

    monkeypatch.setattr(requests.Session, "request", request)
    asked = {"title": "Databases", "body": "One new release", "anywhere": True}

    told = apprise_child._answer({"url": f"{scheme}://{EACH[scheme]}", **asked})

    assert (told["schema"], told["taken"]) == (scheme, True)
    sent = "".join(one.get_data(as_text=True) for one, _answer in httpserver.log)
    assert "One new release" in sent.replace("+", " ").replace("%20", " ")
    assert schemes == ({"http"} if scheme in ("matrix", "mmost", "ntfy", "rocket") else {"https"})


def endless(_request: Request) -> Response:
    """A server that a person named, and that answers without end."""
    return Response(b"x" * 2**20 for _n in range(3_000))


@pytest.mark.requirement("R404")
def test_a_service_that_answers_without_end_is_stopped(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
):
    httpserver.expect_request("/").respond_with_handler(endless)
    url = f"ntfy://{httpserver.host}:{httpserver.port}/desk"

    with pytest.raises(DeliveryUncertain, match="sent too much data"):
        apprise_sender.send(url, title="a", body="b", anywhere=True)

    monkeypatch.setattr(apprise_sender, "SECONDS", 0.05)
    with pytest.raises(DeliveryUncertain, match="ntfy://… didn’t respond within"):
        apprise_sender.send(url, title="a", body="b", anywhere=True)


def test_a_service_gets_no_secret_of_the_server(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECRET_KEY", "hush-hush")
    program = "import json, os; print('{}'); input(); print(json.dumps(dict(os.environ)))"
    monkeypatch.setattr(apprise_sender, "COMMAND", (sys.executable, "-uc", program))

    assert "hush-hush" not in apprise_sender._child({"url": "ntfy://desk"}).values()


# --- people without admin rights ---


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only read URLs, without a child: loading Apprise into each takes most of a second."""
    monkeypatch.setattr(apprise_child, "_confine", lambda: None)
    monkeypatch.setattr(apprise_sender, "_child", apprise_child._answer)


def test_a_public_service_is_known_in_the_child():
    assert apprise_sender.problem_of("ntfy://topic", anywhere=False) == ""


@pytest.mark.parametrize(
    "url",
    [
        "https://ntfy.sh/topic",
        "tgram://123456789:AbCdEfGhIjKlMnOpQrStUvWxYz_abcdefg/12345",
        "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
        "https://discord.com/api/webhooks/1234567890/" + "a" * 64,
    ],
)
def test_everyone_can_use_a_public_service(in_this_process: None, url: str):
    assert apprise_sender.problem_of(url, anywhere=False) == ""


@pytest.mark.parametrize("url", ["json://example.org/", "syslog://", "mailto://a:b@example.org"])
def test_only_admins_can_use_others(in_this_process: None, url: str):
    assert "Only admins can use" in apprise_sender.problem_of(url, anywhere=False)


@pytest.mark.requirement("R340")
@pytest.mark.parametrize(
    ("scheme", "host"),
    [
        *(
            (scheme, "127.0.0.1")
            for scheme in sorted(PUBLIC)
            if scheme.rstrip("s") in ("ntfy", "mmost", "rocket", "matrix", "workflow")
        ),
        *(("ntfy", host) for host in ("localhost", "[::1]", "169.254.169.254")),
    ],
)
def test_no_url_reaches_a_private_address(httpserver: HTTPServer, scheme: str, host: str):
    port = httpserver.port if "127" in host or "local" in host else 80
    rooms = {"ntfy": "desk", "matrix": "#room", "rocket": "a/b", "mmost": "a" * 24}
    target = rooms.get(scheme.rstrip("s"), "a" * 32 + "/" + "b" * 43)
    userinfo = "desk:word@" if scheme.startswith("matrix") else ""

    with pytest.raises((ProviderUnavailable, ProviderRejected)):
        apprise_sender.send(
            f"{scheme}://{userinfo}{host}:{port}/{target}", title="a", body="b", anywhere=False
        )

    assert not httpserver.log


CONFINED = """
import json, socket, subprocess, sys, urllib.request
from beacon_site.net import apprise_child
apprise_child._confine()
def tried(act):
    try:
        act()
    except PermissionError:
        return "refused"
    except OSError as exc:
        return "refused" if isinstance(exc.__cause__ or getattr(exc, "reason", None), PermissionError) else "tried"
    return "done"
here, port, secret = sys.argv[1:]
print(json.dumps({
    "private": tried(lambda: socket.create_connection((here, int(port)), 2)),
    "by a library": tried(lambda: urllib.request.urlopen(f"http://{here}:{port}/", timeout=2)),
    "another port": tried(lambda: sys.audit("socket.connect", None, ("1.1.1.1", 22))),
    "public": tried(lambda: sys.audit("socket.connect", None, ("1.1.1.1", 443))),
    "a file": tried(lambda: open(secret)),
    "a program": tried(lambda: subprocess.run(["true"])),
    "a module": tried(lambda: __import__("wave")),
}))
"""


@pytest.mark.requirement("R340")
def test_the_process_is_confined_whatever_a_service_does(httpserver: HTTPServer, tmp_path: Path):
    secret = tmp_path / "secret"
    secret.write_text("for the server only")

    ended = subprocess.run(
        [sys.executable, "-c", CONFINED, httpserver.host, str(httpserver.port), str(secret)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert json.loads(ended.stdout) == {
        "private": "refused", "by a library": "refused", "another port": "refused",
        "public": "done", "a file": "refused", "a program": "refused", "a module": "done",
    }  # fmt: skip
    assert not httpserver.log


@pytest.mark.parametrize("wait", [0, 1.2])  # seconds; at once, a reader of pages gets it again
def test_a_process_that_crashes_while_sending_isnt_asked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wait: float
):
    log = tmp_path / "asked"
    program = (
        "import sys, time; print('{}', flush=True); sys.stdin.readline();"
        f"open({str(log)!r}, 'a').write('x'); time.sleep({wait}); sys.exit(1)"
    )
    monkeypatch.setattr(apprise_sender, "COMMAND", (sys.executable, "-c", program))

    with pytest.raises(DeliveryUncertain, match="crashed while sending to json://…"):
        apprise_sender.send("json://example.org", title="a", body="b", anywhere=True)

    assert log.read_text() == "x"
    assert "couldn’t check this URL" in apprise_sender.problem_of("json://a.example", anywhere=True)


def test_a_process_that_cannot_be_started_has_sent_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        apprise_sender, "COMMAND", (sys.executable, "-c", "import sys; sys.exit(1)")
    )

    with pytest.raises(ProviderUnavailable, match="nothing was sent"):
        apprise_sender.send("json://example.org", title="a", body="b", anywhere=True)


def test_no_timer_of_its_process_remains(httpserver: HTTPServer):
    httpserver.expect_request("/path-token").respond_with_json({})
    before = set(threading.enumerate())

    apprise_sender.send(address(httpserver), title="a", body="b", anywhere=True)

    assert not [
        one
        for one in set(threading.enumerate()) - before
        if isinstance(one, threading.Timer) and not one.finished.is_set()
    ]
