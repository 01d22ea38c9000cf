"""Mails kept as files in a folder, where there is no mail server: the last ones can be read."""

from __future__ import annotations

import email
import email.policy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage as ParsedMail
from pathlib import Path

from django.conf import settings
from django.core.mail.backends.base import BaseEmailBackend
from django.core.mail.message import EmailMessage

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
