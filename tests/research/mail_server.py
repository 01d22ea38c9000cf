"""A small SMTP server on loopback that stores emails, and fails when a test wants."""

from __future__ import annotations

import email
import email.policy
import socketserver
import threading
from email.message import EmailMessage
from typing import Any


class MailServer:
    """`mails` are the accepted ones; `refuse` maps a verb (AUTH, RCPT, DATA …) to its reply.

    `hang_up_at` names a verb at which it closes the connection; BODY is when a mail has come whole,
    before it says that it took it.
    """

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.recipients: list[str] = []
        self.refuse: dict[str, str] = {}
        self.hang_up_at = ""
        self.offers_sign_in = False
        self.connections = 0
        self.before_body: Any = None  # called when a mail has come whole

    def __enter__(self) -> MailServer:
        keeper = self

        class Handler(socketserver.StreamRequestHandler):
            timeout = 30

            def handle(self) -> None:
                keeper.connections += 1
                _Talk(keeper, self.rfile, self.wfile).go_on()

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Talk:
    """One connection."""

    def __init__(self, keeper: MailServer, rfile: Any, wfile: Any) -> None:
        self._keeper, self._rfile, self._wfile = keeper, rfile, wfile

    def go_on(self) -> None:
        self._say("220 mail.test")
        for raw in self._rfile:
            line = raw.decode().strip()
            verb = line.split(" ")[0].split(":")[0].upper()
            if verb == self._keeper.hang_up_at:
                return
            if verb in self._keeper.refuse:
                self._say(self._keeper.refuse[verb])
            elif not self._answer(verb, line):
                return

    def _answer(self, verb: str, line: str) -> bool:
        if verb == "QUIT":
            self._say("221 bye")
            return False
        if verb == "EHLO" and self._keeper.offers_sign_in:
            self._say("250-mail.test\r\n250 AUTH PLAIN LOGIN")
        elif verb == "AUTH":
            self._say("235 welcome")
        elif verb == "RCPT":
            self._keeper.recipients.append(line)
            self._say("250 fine")
        elif verb == "DATA":
            self._say("354 go on")
            return self._take()
        else:
            self._say("250 fine")
        return True

    def _take(self) -> bool:
        body = b""
        for raw in self._rfile:
            if raw == b".\r\n":
                break
            body += raw.removeprefix(b".") if raw.startswith(b"..") else raw
        if self._keeper.before_body:
            self._keeper.before_body()
        if self._keeper.hang_up_at == "BODY":
            return False
        self._keeper.mails.append(email.message_from_bytes(body, policy=email.policy.default))
        self._say("250 taken")
        return True

    def _say(self, line: str) -> None:
        self._wfile.write(f"{line}\r\n".encode())
        self._wfile.flush()


def use(server: MailServer, settings: Any) -> None:
    """Let Beacon send its emails to this server."""
    settings.BEACON_MAIL = "smtp"
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "", ""
    settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
    settings.EMAIL_TIMEOUT = 5
