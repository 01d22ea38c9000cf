"""Emails through a real SMTP server: their contents, and its errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from beacon_site.net import mail as net_mail
from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.net.mail import DeliveryUncertain
from tests.research.mail_server import MailServer, use


@pytest.fixture
def server(settings: Any) -> Iterator[MailServer]:
    with MailServer() as made:
        use(made, settings)
        yield made


def send(**fields: Any) -> list[str]:
    """Send an email; return what was noted on the way."""
    noted: list[str] = []
    given: dict[str, Any] = {
        "to": "desk@example.org", "subject": "Grüße", "text": "plain", "html": "<p>rich</p>",
        "message_id": "1.1@beacon", "headers": {"List-Unsubscribe": "<https://b/x>"},
    }  # fmt: skip
    net_mail.send(**(given | fields), handing_over=lambda: noted.append("handed"))
    return noted


def test_an_email_arrives_with_both_forms_and_its_own_id(server: MailServer):
    assert send() == ["handed"]

    [mail] = server.mails
    assert (mail["Subject"], mail["Message-ID"]) == ("Grüße", "<1.1@beacon>")
    assert mail["List-Unsubscribe"] == "<https://b/x>"
    assert [part.get_content_type() for part in mail.iter_parts()] == ["text/plain", "text/html"]


def test_a_wrong_password_is_named_and_the_password_is_not_repeated(
    server: MailServer, settings: Any
):
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "beacon", "hunter2hunter2"
    server.offers_sign_in = True
    server.refuse["AUTH"] = "535 5.7.8 hunter2hunter2 is wrong"

    with pytest.raises(ProviderUnavailable, match="rejected the username and password") as caught:
        send()

    assert "535" in str(caught.value) and "hunter2" not in str(caught.value)


def test_an_address_that_the_server_refuses_is_not_tried_again(server: MailServer):
    server.refuse["RCPT"] = "550 no such user"

    with pytest.raises(ProviderRejected, match="“550 no such user”"):
        send()


def test_a_server_that_asks_to_wait_is_tried_again(server: MailServer):
    server.refuse["RCPT"] = "451 greylisted"

    with pytest.raises(ProviderUnavailable, match="greylisted"):
        send()


def test_a_server_that_is_not_there_is_named(settings: Any):
    with MailServer() as gone:
        use(gone, settings)

    with pytest.raises(ProviderUnavailable, match=f"127.0.0.1:{gone.port} can’t be reached"):
        send()


def test_one_that_hangs_up_before_the_email_has_nothing_of_it(server: MailServer):
    server.hang_up_at = "EHLO"

    with pytest.raises(ProviderUnavailable):
        send()


def test_one_that_hangs_up_after_the_email_may_have_it(server: MailServer):
    server.hang_up_at = "BODY"

    with pytest.raises(DeliveryUncertain, match="may have arrived"):
        send()


def test_a_line_break_in_an_address_isnt_a_second_header(server: MailServer):
    with pytest.raises(ProviderRejected, match="line break"):
        send(to="desk@example.org\nBcc: all@example.org")

    assert server.connections == 0


def test_without_an_email_server_it_is_said_what_to_do(settings: Any):
    settings.BEACON_MAIL = "none"

    with pytest.raises(ProviderUnavailable, match="set EMAIL_URL, for example smtp"):
        send()
