"""Sending notifications through Apprise, each in a child process (see apprise_child.py).

An Apprise URL contains secrets, so no part of it appears in a log or a message.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.net.extract import MIB, ChildFailed, ChildNotStarted, ChildProcess
from beacon_site.net.http import scrub
from beacon_site.net.mail import DeliveryUncertain
from beacon_site.text.messages import gettext as _

MAX_BODY = 8_000  # characters; most services cut earlier
SECONDS = 45.0  # for all of a service's requests
MEMORY_LIMIT = 256 * MIB  # Apprise keeps an answer whole, and a person can name the server
COMMAND = (sys.executable, "-m", "beacon_site.net.apprise_child")


def problem_of(url: str, *, anywhere: bool) -> str:
    """Return, as a sentence, why nothing can be sent to `url`; "" if there is no problem.

    `anywhere` allows all services and private addresses, which only admins can use.
    """
    try:
        return _problem(_child({"url": url, "anywhere": anywhere}))
    except (ProviderUnavailable, ChildFailed):
        return _("Apprise couldn’t check this URL. Try again in a minute.")


def public_part(url: str) -> str:
    """Return the part of a URL that can be shown: the name of its service or its host."""
    scheme, _separator, rest = url.partition("://")
    if scheme in {"http", "https"}:
        return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2][:60]}/…"
    return f"{scheme[:30]}://…"


def send(url: str, *, title: str, body: str, anywhere: bool) -> str:
    """Send a text and return a sentence about the result.

    Raises ProviderRejected for a URL that can't be used, ProviderUnavailable if sending failed, and
    DeliveryUncertain if the process was stopped while sending.
    """
    values = {"url": url, "title": title, "body": body[:MAX_BODY], "anywhere": anywhere}
    try:
        answer = _child(values)
    except ChildFailed as exc:
        raise DeliveryUncertain(_broke_off(exc.reason, public_part(url))) from exc
    if problem := _problem(answer):
        raise ProviderRejected(problem)
    if not answer["taken"]:
        why = _without_secrets(answer["said"], url) or _("no reason given")
        raise ProviderUnavailable(
            _("%(place)s didn’t accept the message: %(why)s")
            % {"place": public_part(url), "why": why[:500]}
        )
    return _("%(place)s accepted the message.") % {"place": public_part(url)}


def _child(values: dict[str, Any]) -> dict[str, Any]:
    """Ask a new child process, since its limits depend on the person.

    Raises ChildFailed if it doesn't answer within its limits, and ProviderUnavailable if it can't
    be started.
    """
    child = ChildProcess(COMMAND, seconds=SECONDS, memory_limit=MEMORY_LIMIT, repeats=False)
    try:
        return child.ask(values)
    except ChildNotStarted as exc:
        text = _("Apprise couldn’t be started, so nothing was sent.")
        raise ProviderUnavailable(text) from exc
    finally:
        child.close()


def _broke_off(reason: str, place: str) -> str:
    if reason == "slow":
        message = _(
            "%(place)s didn’t respond within %(seconds)d seconds. The message may have arrived, so Beacon won’t send it again."
        )
    elif reason == "memory":
        message = _(
            "%(place)s sent too much data, so Beacon stopped reading. The message may have arrived, so Beacon won’t send it again. Check the channel’s URL."
        )
    else:
        message = _(
            "Apprise crashed while sending to %(place)s. The message may have arrived, so Beacon won’t send it again."
        )
    return message % {"place": place, "seconds": SECONDS}


def _problem(answer: dict[str, Any]) -> str:
    if answer.get("problem") == "unknown":
        return _(
            "Apprise doesn’t recognize this URL. Enter a URL that starts with the service’s name, such as ntfy://topic or discord://id/token. Apprise’s documentation lists all services."
        )
    if answer.get("problem") == "not public":
        return _(
            "Only admins can use “%(schema)s”. Everyone can use Discord, Google Chat, LINE, Matrix, Mattermost, Microsoft Teams (workflows), ntfy, Pushbullet, Pushover, Rocket.Chat, Slack, Telegram, Webex and Zulip."
        ) % {"schema": answer["schema"][:30]}
    return ""


def _without_secrets(text: str, url: str) -> str:
    """Return the last lines of Apprise's log without any part of the URL."""
    for part in sorted(re.split(r"[:/?&=@]+", url)[1:], key=len, reverse=True):
        text = scrub(text, part)
    lines = [line.split(" - ", 2)[-1].strip() for line in text.splitlines()]
    return " ".join(line for line in lines if line)[-500:]
