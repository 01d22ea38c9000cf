"""Sending notifications through Apprise, an optional extra (requirements/extras.txt).

An Apprise URL contains secrets, so no part of it appears in a log or a message.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import re
from typing import Any

from django.utils.translation import gettext as _

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.net.http import scrub

MOST_BODY = 8_000  # characters; most services cut earlier


def is_installed() -> bool:
    """Whether Apprise is installed."""
    return importlib.util.find_spec("apprise") is not None


def problem_of(url: str) -> str:
    """Return, as a sentence, why nothing can be sent to `url`; "" if there is no problem."""
    if not is_installed():
        return _(
            "Apprise isn’t installed. Ask your admin to run "
            "“pip install --require-hashes -r requirements/extras.txt” and restart Beacon."
        )
    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # it would log parts of URLs
    if importlib.import_module("apprise").Apprise.instantiate(url) is None:
        return _(
            "Apprise doesn’t recognize this URL. Start with a service, such as ntfy://topic or "
            "discord://id/token. Apprise’s documentation lists all services."
        )
    return ""


def shown(url: str) -> str:
    """Return the part of a URL that can be shown: the name of its service."""
    return f"{url.partition('://')[0][:30]}://…"


def send(url: str, *, title: str, body: str) -> str:
    """Send a text and return a sentence about the result.

    Raises ProviderRejected for an invalid URL, and ProviderUnavailable if sending failed.
    """
    if problem := problem_of(url):
        raise ProviderRejected(problem)
    apprise: Any = importlib.import_module("apprise")
    service = apprise.Apprise()
    service.add(url)
    with apprise.LogCapture(level=apprise.logging.WARNING) as log:
        taken = service.notify(title=title, body=body[:MOST_BODY], body_format="text")
        said = log.getvalue()
    if not taken:
        why = _without_secrets(said, url) or _("no reason given")
        raise ProviderUnavailable(
            _("%(place)s didn’t accept the message: %(why)s")
            % {"place": shown(url), "why": why[:500]}
        )
    return _("%(place)s accepted the message.") % {"place": shown(url)}


def _without_secrets(text: str, url: str) -> str:
    """Return the last lines of Apprise's log without any part of the URL."""
    for part in sorted(re.split(r"[:/?&=@]+", url)[1:], key=len, reverse=True):
        text = scrub(text, part)
    lines = [line.split(" - ", 2)[-1].strip() for line in text.splitlines()]
    return " ".join(line for line in lines if line)[-500:]
