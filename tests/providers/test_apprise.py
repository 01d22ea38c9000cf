"""Chat and push services through Apprise: what is sent, what fails, and what people can't reach."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from beacon_site.net import apprise_sender
from beacon_site.net.apprise_child import PUBLIC
from beacon_site.net.errors import ProviderRejected, ProviderUnavailable


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


def test_a_failure_is_said_without_any_part_of_the_address(httpserver: HTTPServer):
    httpserver.expect_request("/path-token").respond_with_data("path-token top-secret", status=500)

    with pytest.raises(ProviderUnavailable, match="didn’t accept the message") as caught:
        apprise_sender.send(address(httpserver), title="a", body="b", anywhere=True)

    assert "500" in str(caught.value)
    assert "secret" not in str(caught.value) and "path-token" not in str(caught.value)


def test_an_address_that_apprise_does_not_know_is_explained():
    with pytest.raises(ProviderRejected, match="ntfy://topic"):
        apprise_sender.send("fax://12345", title="a", body="b", anywhere=True)


# --- people without admin rights ---


@pytest.mark.parametrize(
    "url",
    [
        "ntfy://topic",
        "https://ntfy.sh/topic",
        "tgram://123456789:AbCdEfGhIjKlMnOpQrStUvWxYz_abcdefg/12345",
        "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
        "https://discord.com/api/webhooks/1234567890/" + "a" * 64,
    ],
)
def test_everyone_can_use_a_public_service(url: str):
    assert apprise_sender.problem_of(url, anywhere=False) == ""


@pytest.mark.parametrize("url", ["json://example.org/", "syslog://", "mailto://a:b@example.org"])
def test_only_admins_can_use_others(url: str):
    assert "Only admins can use" in apprise_sender.problem_of(url, anywhere=False)


@pytest.mark.requirement("R340")
@pytest.mark.parametrize(
    ("scheme", "host"),
    [
        *(
            (scheme, "127.0.0.1")
            for scheme in sorted(PUBLIC & {"ntfy", "mmost", "rocket", "matrix"})
        ),
        *(("ntfy", host) for host in ("localhost", "[::1]", "169.254.169.254")),
    ],
)
def test_no_url_reaches_a_private_address(httpserver: HTTPServer, scheme: str, host: str):
    port = httpserver.port if "127" in host or "local" in host else 80
    target = {"ntfy": "desk", "matrix": "#room", "rocket": "a/b", "mmost": "a" * 24}[scheme]
    userinfo = "desk:word@" if scheme == "matrix" else ""

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
