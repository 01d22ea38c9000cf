"""What an agent is told of the machine that it runs on, and of the time.

Nothing that identifies it: no name of the host, no paths, no accounts, no addresses.
"""

from __future__ import annotations

import platform
from datetime import datetime
from functools import cache
from zoneinfo import ZoneInfo

from django.utils.translation import gettext as _

from memory.models import User
from memory.texts.time_zones import named


def place_lines(owner: User, now: datetime) -> list[str]:
    """Return the lines of the layer of the environment (R217)."""
    zone = ZoneInfo(named(owner.time_zone or "") or "UTC")
    local = now.astimezone(zone)
    offset = f"{local:%z}"
    told = {
        "now": f"{local:%A, %Y-%m-%d %H:%M}",
        "offset": f"{offset[:3]}:{offset[3:5]}",
        "zone": zone.key,
        "system": system_in_words(),
    }
    return [
        _("- Time: %(now)s (UTC%(offset)s), time zone %(zone)s") % told,
        _("- Machine: %(system)s") % told,
        _("- Software: Beacon, on this person's own machine; what you remember stays there"),
    ]


@cache
def system_in_words() -> str:
    """Return the operating system and the kind of processor, such as Linux (Debian 12), x86_64."""
    return ", ".join(part for part in (_system(), platform.machine()) if part) or _("unknown")


def _system() -> str:
    name = {"Darwin": "macOS"}.get(platform.system(), platform.system())
    try:
        known = platform.freedesktop_os_release()
    except OSError:
        release = platform.mac_ver()[0]
        return f"{name} {release}".strip()
    distribution = f"{known.get('NAME', '')} {known.get('VERSION_ID', '')}".strip()
    return f"{name} ({distribution})" if distribution else name
