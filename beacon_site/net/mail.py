"""Mails kept as files in a folder, where there is no mail server: the last ones can be read."""

from __future__ import annotations

import email
import email.policy
import hashlib
import smtplib
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage as ParsedMail
from pathlib import Path

import structlog
from django.conf import settings
from django.core.mail import EmailMultiAlternatives, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.core.mail.message import BadHeaderError, EmailMessage
from django.utils.translation import gettext as _

from beacon_site.net.errors import ProviderError, ProviderRejected, ProviderUnavailable
from beacon_site.net.http import reason_of, scrub

MOST_KEPT = 50


@dataclass(frozen=True, slots=True)
class KeptMail:
    """A mail as a person reads it."""

    at: datetime
    to: str
    subject: str
    text: str


class FolderBackend(BaseEmailBackend):
    """Writes each mail into a file; the same mail again (its Message-ID) is the same file."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        """Keep the mails, and of all at most MOST_KEPT."""
        folder = Path(settings.EMAIL_FILE_PATH)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for message in email_messages:
            made = message.message()
            name = hashlib.sha256(str(made["Message-ID"]).encode()).hexdigest()[:32]
            path = folder / f"{name}.eml"
            path.write_bytes(made.as_bytes())
            path.chmod(0o600)
        for old in _files()[MOST_KEPT:]:
            old.unlink(missing_ok=True)
        return len(email_messages)


def _files() -> list[Path]:
    """Return the mails' files, the newest first."""
    found = []
    for path in Path(settings.EMAIL_FILE_PATH).glob("*.eml"):
        try:
            found.append((path.stat().st_mtime, path))
        except FileNotFoundError:  # another process has just made room
            continue
    return [path for _at, path in sorted(found, reverse=True)]


def last_mails(most: int = 20) -> list[KeptMail]:
    """Return the mails that were kept last, the newest first."""
    mails = []
    for path in _files()[:most]:
        try:
            raw, at = path.read_bytes(), path.stat().st_mtime
        except FileNotFoundError:
            continue
        parsed = email.message_from_bytes(raw, policy=email.policy.default)
        mails.append(_kept(parsed, datetime.fromtimestamp(at, UTC)))
    return mails


def _kept(parsed: ParsedMail, at: datetime) -> KeptMail:
    body = parsed.get_body(("plain",))
    text = str(body.get_content()) if body is not None else ""
    return KeptMail(at, str(parsed["To"]), str(parsed["Subject"]), text)


# --- Handing one mail to the mail server of EMAIL_URL, with its refusals as sentences ---

logger = structlog.get_logger(__name__)

NONE = "none"  # settings.BEACON_MAIL where no mail can be sent


@dataclass(frozen=True, slots=True)
class Mail:
    """One mail to one person; `message_id` is the same whenever it is handed over again."""

    to: str
    subject: str
    text: str
    html: str
    message_id: str
    headers: Mapping[str, str] = field(default_factory=dict)


class MailUnsure(ProviderError):
    """The connection broke after the mail was handed over: it may have been taken."""


def send(mail: Mail, *, handing_over: Callable[[], None]) -> str:
    """Send the mail and return what may be said of it.

    `handing_over` is called when the server has let us in, just before the mail is given to it:
    until then nothing can have arrived.  Raises ProviderUnavailable, ProviderRejected, MailUnsure.
    """
    if settings.BEACON_MAIL == NONE:
        raise ProviderUnavailable(
            _(
                "This Beacon has no mail server, so nothing can be sent. Whoever runs it sets "
                "EMAIL_URL, such as smtp+tls://user:password@mail.example.org:587 (docs/settings.md)."
            )
        )
    message = EmailMultiAlternatives(
        mail.subject,
        mail.text,
        to=[mail.to],
        headers={"Message-ID": f"<{mail.message_id}>", **mail.headers},
    )
    if mail.html:
        message.attach_alternative(mail.html, "text/html")
    try:
        message.message()
    except BadHeaderError as exc:
        raise ProviderRejected(
            _("A line break stands in the address or in the subject, so the mail is not sent.")
        ) from exc
    connection = get_connection()
    try:
        connection.open()
        smtp = getattr(connection, "connection", None)
        if isinstance(smtp, smtplib.SMTP):
            smtp.ehlo_or_helo_if_needed()  # else the greeting would come after handing over
    except (smtplib.SMTPException, OSError) as exc:
        raise _failure(exc) from None
    try:
        handing_over()
        connection.send_messages([message])
    except smtplib.SMTPServerDisconnected as exc:
        raise MailUnsure(_broke_off(exc)) from None
    except (smtplib.SMTPResponseException, smtplib.SMTPRecipientsRefused) as exc:
        raise _failure(exc) from None
    except (smtplib.SMTPException, OSError) as exc:
        raise MailUnsure(_broke_off(exc)) from None
    finally:
        _close(connection)
    logger.info("mail handed over", server=_server(), message_id=mail.message_id)
    return _("%(server)s took the mail.") % {"server": _server()}


def _close(connection: object) -> None:
    try:
        connection.close()  # type: ignore[attr-defined]
    except (smtplib.SMTPException, OSError) as exc:
        logger.info("the mail server did not take leave", why=type(exc).__name__)


def _server() -> str:
    if settings.BEACON_MAIL == "smtp":
        return f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
    return _("the folder of mails on this machine") if settings.BEACON_MAIL == "folder" else "log"


def _said(code: int, text: bytes | str) -> str:
    words = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    said = scrub(" ".join(f"{code} {words}".split())[:300], settings.EMAIL_HOST_PASSWORD)
    return said.rstrip(".")


def _broke_off(exc: Exception) -> str:
    return _(
        "The connection to the mail server %(server)s broke while the mail was handed over "
        "(%(why)s): it may have arrived or not, so it is not sent again by itself."
    ) % {"server": _server(), "why": reason_of(exc).rstrip(".")}


def _failure(exc: Exception) -> ProviderError:
    """Return in words why the server did not take the mail, and whether another try may help."""
    names: dict[str, object] = {"server": _server()}
    if isinstance(exc, smtplib.SMTPAuthenticationError):
        names["said"] = _said(exc.smtp_code, exc.smtp_error)
        return ProviderUnavailable(
            _(
                "The mail server %(server)s refused the name and password of EMAIL_URL: “%(said)s”. "
                "Whoever runs this Beacon corrects them there."
            )
            % names
        )
    if isinstance(exc, smtplib.SMTPRecipientsRefused):
        code, text = next(iter(exc.recipients.values()))
        names["said"] = _said(code, text)
        words = _("The mail server %(server)s does not take mail for this address: “%(said)s”.")
        return _by_code(code, words % names)
    if isinstance(exc, smtplib.SMTPResponseException):
        names["said"] = _said(exc.smtp_code, exc.smtp_error)
        words = _("The mail server %(server)s refused the mail: “%(said)s”.")
        return _by_code(exc.smtp_code, words % names)
    if isinstance(exc, smtplib.SMTPNotSupportedError):
        return ProviderUnavailable(
            _(
                "The mail server %(server)s does not offer what EMAIL_URL asks for (%(why)s). Write "
                "smtp+tls:// only for one that offers STARTTLS, and a name only for one with sign-in."
            )
            % {**names, "why": reason_of(exc).rstrip(".")}
        )
    if isinstance(exc, ssl.SSLError):
        words = _("The connection to the mail server %(server)s cannot be secured: %(why)s.")
    else:
        words = _("The mail server %(server)s could not be reached: %(why)s.")
    return ProviderUnavailable(words % {**names, "why": reason_of(exc).rstrip(".")})


def _by_code(code: int, words: str) -> ProviderError:
    return ProviderRejected(words) if code >= 500 else ProviderUnavailable(words)
