"""Telling services that Apprise knows: an optional extra (requirements/extras.txt).

An Apprise address holds its secrets, so neither it nor a part of it comes into a log or a message.
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

MOST_BODY = 8_000  # characters; services cut sooner, each at its own length


def is_installed() -> bool:
    """Whether the extra is there."""
    return importlib.util.find_spec("apprise") is not None


def problem_of(url: str) -> str:
    """Return, as a sentence, why nothing can be sent to `url`; "" if it can be tried."""
    if not is_installed():
        return _(
            "Apprise is not installed. Whoever runs this Beacon installs it with "
            "“pip install --require-hashes -r requirements/extras.txt” and starts Beacon anew."
        )
    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # it would log what is in an address
    if importlib.import_module("apprise").Apprise.instantiate(url) is None:
        return _(
            "Apprise does not know this address. It begins with the name of a service, such as "
            "ntfy://topic or discord://id/token; Apprise's own documentation lists them."
        )
    return ""


def shown(url: str) -> str:
    """Return what may be shown of an address: which service it leads to."""
    return f"{url.partition('://')[0][:30]}://…"


def send(url: str, *, title: str, body: str) -> str:
    """Send a text and return what may be said of it.

    Raises ProviderRejected for an address that is none, ProviderUnavailable where it failed.
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
        why = _without_secrets(said, url) or _("it gave no reason")
        raise ProviderUnavailable(
            _("%(place)s did not take the message: %(why)s")
            % {"place": shown(url), "why": why[:500]}
        )
    return _("%(place)s took the message.") % {"place": shown(url)}


def _without_secrets(text: str, url: str) -> str:
    """Return the last words of Apprise's log without any part of the address."""
    for part in sorted(re.split(r"[:/?&=@]+", url)[1:], key=len, reverse=True):
        text = scrub(text, part)
    lines = [line.split(" - ", 2)[-1].strip() for line in text.splitlines()]
    return " ".join(line for line in lines if line)[-500:]
