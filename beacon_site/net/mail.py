"""Sending emails by the server of EMAIL_URL, or saving them as files if there is none."""

from __future__ import annotations

import email
import email.policy
import hashlib
import smtplib
import ssl
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.message import EmailMessage as ParsedMail
from pathlib import Path
from typing import Any

import structlog
from django.conf import settings
from django.core.mail import EmailMultiAlternatives, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.core.mail.message import BadHeaderError, EmailMessage

from beacon_site.net.errors import ProviderError, ProviderRejected, ProviderUnavailable
from beacon_site.net.http import reason_of, scrub
from beacon_site.text.messages import gettext as _

MAX_KEPT = 50


class FolderBackend(BaseEmailBackend):
    """Writes each email to a file; the same Message-ID replaces the file."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        """Save the emails, and delete old ones beyond MAX_KEPT."""
        folder = Path(settings.EMAIL_FILE_PATH)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for message in email_messages:
            email_message = message.message()
            name = hashlib.sha256(str(email_message["Message-ID"]).encode()).hexdigest()[:32]
            path = folder / f"{name}.eml"
            path.write_bytes(email_message.as_bytes())
            path.chmod(0o600)
        for old in _files()[MAX_KEPT:]:
            old.unlink(missing_ok=True)
        return len(email_messages)


def _files() -> list[Path]:
    """Return the emails' files, newest first."""
    results = []
    for path in Path(settings.EMAIL_FILE_PATH).glob("*.eml"):
        try:
            results.append((path.stat().st_mtime, path))
        except FileNotFoundError:  # another process has just deleted it
            continue
    return [path for _at, path in sorted(results, reverse=True)]


def last_mails() -> list[dict[str, Any]]:
    """Return the latest twenty saved emails, newest first."""
    mails = []
    for path in _files()[:20]:
        try:
            raw, at = path.read_bytes(), path.stat().st_mtime
        except FileNotFoundError:
            continue
        parsed = email.message_from_bytes(raw, policy=email.policy.default)
        mails.append(_as_saved(parsed, datetime.fromtimestamp(at, UTC)))
    return mails


def _as_saved(parsed: ParsedMail, at: datetime) -> dict[str, Any]:
    body = parsed.get_body(("plain",))
    text = str(body.get_content()) if body is not None else ""
    return {"at": at, "to": str(parsed["To"]), "subject": str(parsed["Subject"]), "text": text}


# --- sending ---

logger = structlog.get_logger(__name__)

NONE = "none"  # settings.BEACON_MAIL if no email can be sent


class DeliveryUncertain(ProviderError):
    """The connection was lost or the process stopped while sending, so it may have arrived."""


def send(
    *,
    to: str,
    subject: str,
    text: str,
    html: str,
    message_id: str,
    headers: Mapping[str, str],
    handing_over: Callable[[], None],
) -> str:
    """Send an email to one person and return a sentence about the result.

    `message_id` stays the same in every retry.  `handing_over` is called after signing in, just before the email is sent.  Until then, nothing
    can have arrived.  Raises ProviderUnavailable, ProviderRejected, DeliveryUncertain.
    """
    if settings.BEACON_MAIL == NONE:
        raise ProviderUnavailable(
            _(
                "No mail server is set up, so Beacon can’t send email. Your admin can set EMAIL_URL, for example smtp+tls://user:password@mail.example.org:587 (see docs/settings.md)."
            )
        )
    message = EmailMultiAlternatives(
        subject, text, to=[to], headers={"Message-ID": f"<{message_id}>", **headers}
    )
    if html:
        message.attach_alternative(html, "text/html")
    try:
        message.message()
    except BadHeaderError as exc:
        raise ProviderRejected(
            _("The address or the subject contains a line break, so the email wasn’t sent.")
        ) from exc
    connection = get_connection()
    try:
        connection.open()
        smtp = getattr(connection, "connection", None)
        if isinstance(smtp, smtplib.SMTP):
            smtp.ehlo_or_helo_if_needed()  # otherwise the greeting would come after handing_over()
    except (smtplib.SMTPException, OSError) as exc:
        raise _failure(exc) from None
    try:
        handing_over()
        connection.send_messages([message])
    except smtplib.SMTPServerDisconnected as exc:
        raise DeliveryUncertain(_broke_off(exc)) from None
    except (smtplib.SMTPResponseException, smtplib.SMTPRecipientsRefused) as exc:
        raise _failure(exc) from None
    except (smtplib.SMTPException, OSError) as exc:
        raise DeliveryUncertain(_broke_off(exc)) from None
    finally:
        _close(connection)
    logger.info("email handed to the mail server", server=_server(), message_id=message_id)
    return _("%(server)s accepted the email.") % {"server": _server()}


def _close(connection: object) -> None:
    try:
        connection.close()  # type: ignore[attr-defined]
    except (smtplib.SMTPException, OSError) as exc:
        logger.info("the mail server closed the connection early", why=type(exc).__name__)


def _server() -> str:
    if settings.BEACON_MAIL == "smtp":
        return f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
    return _("The email folder on this machine") if settings.BEACON_MAIL == "folder" else "log"


def _server_response(code: int, text: bytes | str) -> str:
    words = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    message = scrub(" ".join(f"{code} {words}".split())[:300], settings.EMAIL_HOST_PASSWORD)
    return message.rstrip(".")


def _broke_off(exc: Exception) -> str:
    return _(
        "The connection to the mail server %(server)s was lost while sending (%(why)s). The email may have arrived, so Beacon won’t send it again."
    ) % {"server": _server(), "why": reason_of(exc).rstrip(".")}


def _failure(exc: Exception) -> ProviderError:
    """Return why the server didn't accept the email, and whether a retry can help."""
    names: dict[str, object] = {"server": _server()}
    if isinstance(exc, smtplib.SMTPAuthenticationError):
        names["said"] = _server_response(exc.smtp_code, exc.smtp_error)
        return ProviderUnavailable(
            _(
                "The mail server %(server)s rejected the username and password: “%(said)s”. Ask your admin to correct EMAIL_URL."
            )
            % names
        )
    if isinstance(exc, smtplib.SMTPRecipientsRefused):
        code, text = next(iter(exc.recipients.values()))
        names["said"] = _server_response(code, text)
        words = _("The mail server %(server)s doesn’t accept email for this address: “%(said)s”.")
        return _by_code(code, words % names)
    if isinstance(exc, smtplib.SMTPResponseException):
        names["said"] = _server_response(exc.smtp_code, exc.smtp_error)
        words = _("The mail server %(server)s rejected the email: “%(said)s”.")
        return _by_code(exc.smtp_code, words % names)
    if isinstance(exc, smtplib.SMTPNotSupportedError):
        return ProviderUnavailable(
            _(
                "The mail server %(server)s doesn’t support the settings in EMAIL_URL (%(why)s). Use smtp+tls:// only if the server offers STARTTLS, and a username only if it requires sign-in."
            )
            % {**names, "why": reason_of(exc).rstrip(".")}
        )
    if isinstance(exc, ssl.SSLError):
        words = _("Beacon couldn’t connect securely to the mail server %(server)s: %(why)s.")
    else:
        words = _("The mail server %(server)s can’t be reached: %(why)s.")
    return ProviderUnavailable(words % {**names, "why": reason_of(exc).rstrip(".")})


def _by_code(code: int, words: str) -> ProviderError:
    return ProviderRejected(words) if code >= 500 else ProviderUnavailable(words)
