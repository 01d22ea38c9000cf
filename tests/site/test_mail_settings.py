"""EMAIL_URL and BEACON_MAIL_FROM: what each form means, and what stops the start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.mail import EmailMessage

from beacon_site import env
from beacon_site.net import mail as net_mail

LOCAL = Path("/data/mail")


def read(monkeypatch: pytest.MonkeyPatch, value: str, folder: Path | None = LOCAL) -> Any:
    monkeypatch.setenv("EMAIL_URL", value)
    return env.server("EMAIL_URL", folder=folder)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("smtp://mail.test", ("smtp", "mail.test", 25, "", "", False, False)),
        ("smtp+tls://a:p%40ss@mail.test", ("smtp", "mail.test", 587, "a", "p@ss", True, False)),
        ("smtps://a:b@mail.test:4650", ("smtp", "mail.test", 4650, "a", "b", False, True)),
        ("console:", ("console", "", 25, "", "", False, False)),
    ],
)
def test_each_form_is_understood(monkeypatch: pytest.MonkeyPatch, value: str, expected: Any):
    found = read(monkeypatch, value)

    assert expected == (
        found.kind, found.host, found.port, found.user, found.password, found.starttls, found.tls,
    )  # fmt: skip


def test_unset_keeps_emails_here_on_a_laptop_and_sends_none_in_production(
    monkeypatch: pytest.MonkeyPatch,
):
    assert read(monkeypatch, "").folder == str(LOCAL)
    assert read(monkeypatch, "", folder=None).kind == "none"
    assert read(monkeypatch, "file:///var/mails").folder == "/var/mails"


@pytest.mark.parametrize("value", ["mail.test", "http://mail.test", "smtp://mail.test:x", "file:"])
def test_a_wrong_one_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch, value: str):
    with pytest.raises(ImproperlyConfigured, match="EMAIL_URL"):
        read(monkeypatch, value)


def test_emails_come_from_the_host_of_the_address_unless_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
):
    at = "https://beacon.example.org:8443"
    assert env.sender("BEACON_MAIL_FROM", at) == "Beacon <beacon@beacon.example.org>"
    assert env.sender("BEACON_MAIL_FROM", "http://127.0.0.1:8000").endswith("@localhost>")
    monkeypatch.setenv("BEACON_MAIL_FROM", "nobody")
    with pytest.raises(ImproperlyConfigured, match="BEACON_MAIL_FROM"):
        env.sender("BEACON_MAIL_FROM", at)


def test_the_same_email_is_kept_once_and_the_last_come_first(tmp_path: Path, settings: Any):
    settings.EMAIL_FILE_PATH = str(tmp_path / "mail")
    backend = net_mail.FolderBackend()
    for number in (1, 2, 2):
        headers = {"Message-ID": f"<{number}@b>"}
        backend.send_messages(
            [EmailMessage(f"Mail {number}", "words", to=["a@example.org"], headers=headers)]
        )

    kept = net_mail.last_mails()
    assert sorted(mail["subject"] for mail in kept) == ["Mail 1", "Mail 2"]
    assert kept[0]["text"].strip() == "words"


def test_no_more_than_the_last_emails_are_kept(tmp_path: Path, settings: Any, monkeypatch: Any):
    monkeypatch.setattr(net_mail, "MAX_KEPT", 3)
    settings.EMAIL_FILE_PATH = str(tmp_path)
    for number in range(5):
        net_mail.FolderBackend().send_messages([EmailMessage(f"Mail {number}", "words")])

    assert len(list(tmp_path.glob("*.eml"))) == 3
