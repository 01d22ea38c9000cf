"""Sends one notification with Apprise, in a process of its own: `python -m beacon_site.net.apprise_child`.

It answers a request of `apprise_sender`. Apprise and its 100 services come from outside, and a URL from a person chooses among their parameters. For people
without admin rights, audit hooks therefore limit the process: it connects only to public addresses on
ports 80 and 443, whatever a name or redirect leads to, and opens no file but those of Python and the
certificates. Hooks can't be removed, so each message has a process of its own.
"""

from __future__ import annotations

import logging
import os
import site
import ssl
import sys
import sysconfig
from pathlib import Path
from typing import Any

import apprise as untyped_apprise
import certifi
from apprise.plugins import url_to_dict as untyped_url_to_dict

from beacon_site.net.address_guard import PORTS, is_forbidden
from beacon_site.net.child_loop import Answer, serve

apprise: Any = untyped_apprise
url_to_dict: Any = untyped_url_to_dict
# The services that everyone can use: each sends by HTTPS to its own public address, or to a public
# host that the URL names.
PUBLIC = frozenset(
    [
        "discord",
        "gchat",
        "line",
        "matrix",
        "matrixs",
        "mmost",
        "mmosts",
        "ntfy",
        "ntfys",
        "pbul",
        "pover",
        "rocket",
        "rockets",
        "slack",
        "tgram",
        "workflows",
        "wxteams",
        "zulip",
    ]
)


def _prepare() -> Answer:
    os.environ["HOME"] = os.devnull  # no .netrc and no configuration
    return _answer


def _answer(values: dict[str, Any]) -> dict[str, Any]:
    """Check a URL, or send a message to it."""
    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # it would log parts of URLs
    service = apprise.Apprise.instantiate(values["url"])
    if service is None:
        return {"problem": "unknown"}
    schema = str((url_to_dict(values["url"], secure_logging=False) or {}).get("schema", ""))
    if not values["anywhere"]:
        if schema not in PUBLIC:
            return {"problem": "not public", "schema": schema}
        _confine()
    if "body" not in values:
        return {"schema": schema, "service": str(service.service_name)}
    sender = apprise.Apprise()
    sender.add(service)
    logging.getLogger("apprise").setLevel(logging.WARNING)
    with apprise.LogCapture(level=apprise.logging.WARNING) as log:
        taken = sender.notify(title=values["title"], body=values["body"], body_format="text")
        said = log.getvalue()
    return {"schema": schema, "taken": bool(taken), "said": said}


def _confine() -> None:
    """Refuse private addresses, other ports, and other files, for the rest of the process."""
    readable = (
        *{*sysconfig.get_paths().values(), *site.getsitepackages(), sys.prefix, sys.base_prefix},
        str(Path(__file__).resolve().parents[2] / "beacon_site"),
        certifi.where(),
        *filter(None, ssl.get_default_verify_paths()),
        "/etc/ssl", "/etc/ca-certificates", "/etc/mime.types", "/usr/share/zoneinfo", "/dev/",
    )  # fmt: skip

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect":
            address = arguments[1]
            is_public = (
                isinstance(address, tuple)
                and not is_forbidden(str(address[0]))
                and address[1] in PORTS.values()
            )
            if not is_public:
                raise PermissionError("this address isn’t public")
        elif event in {"socket.sendto", "socket.bind", "subprocess.Popen", "os.system", "os.exec"}:
            raise PermissionError("not allowed here")
        elif event == "open" and isinstance(arguments[0], str | bytes):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            if not path.startswith(readable):
                raise PermissionError("not allowed here")

    sys.addaudithook(refuse)


if __name__ == "__main__":
    serve(_prepare, alarm=90)  # the parent waits for 45 s
